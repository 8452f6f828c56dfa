"""One folder per paper: its figures and tables, with the numbers that its authors published."""

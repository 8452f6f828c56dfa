"""What measures, and is no part of the package: run it in the folder of the project."""

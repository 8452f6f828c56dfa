"""Published tables and figures as data: what to run, the raw results, the tables."""

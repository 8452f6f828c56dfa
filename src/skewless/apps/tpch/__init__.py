"""The tables of TPC-H that its query 5 reads: found in files, or made with skewed foreign keys."""

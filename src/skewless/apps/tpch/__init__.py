"""The tables of TPC-H that its query 5 reads: found in files, or made with skewed foreign keys.

`generating` is part of the package, unlike other generators of benchmarks, because `skewless run
tpch-q5 --generate` and the benchmark of query 5 both use it.
"""

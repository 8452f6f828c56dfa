"""Public workloads that others published: NEXMark and ShuffleBench, by plain Spark and by skewless.

`auctions` makes the stream of NEXMark. `nexmark` and `shufflebench` have the queries, each in two
ways. `both_ways` runs one of the two as a stream and keeps its results.
"""

"""Public workloads that others published: NEXMark and ShuffleBench, by plain Spark and by skewless.

`auctions` and `shuffle_records` make the streams, `nexmark` and `shufflebench` have the queries,
each in two ways, and `running` runs a query as a stream in one way and keeps its results.
"""

"""Small applications on Spark, built on the public functions.

Each file here is an application, or a base class of several. The folders have the rest: `records`
finds and makes their input, `running` starts Spark and waits for streams, `tpch` has the tables of
one of them, `main_job` is the job of `skewless demo`, and `public` has workloads that others
published.
"""

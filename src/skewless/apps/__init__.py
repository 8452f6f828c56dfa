"""Applications on Spark, each small: they use what users use.

Each file here is an application, or what several of them are made of. The folders have what is
around them: `records` finds and makes their input, `running` starts Spark and waits for streams,
`tpch` has the tables of one of them, `main_job` is the job of `skewless demo`, and `public` has
workloads that others published.
"""

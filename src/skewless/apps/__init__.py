"""Small applications on Spark, built on the public functions.

`windowed` has those that aggregate; most other files here are an application, or a base class of
several. `quiet_session` starts Spark. `records` finds and makes the input of applications,
`tpch_tables` that of one of them, and `main_job` is the job of `skewless demo`.
"""

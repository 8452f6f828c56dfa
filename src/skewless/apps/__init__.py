"""Small applications on Spark, built on the public functions.

Read `computation` first: the base class of all. `windowed` has those that aggregate, `self_join`
the one that joins, and `main_job` is the job of `skewless demo`. `records` finds and makes their
input, and `quiet_session` starts Spark.
"""

"""What the command line does on Spark, built on the public functions.

`main_job` is the job of `skewless demo`. `drifting_words` makes its stream, and `quiet_session`
starts Spark for it.
"""

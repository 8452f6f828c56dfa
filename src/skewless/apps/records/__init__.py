"""The records of an application: input files and generated streams.

Read `inputs` first: which files there are, and how Spark reads them. `generated` makes the records
of `--generate` and of the main job.
"""

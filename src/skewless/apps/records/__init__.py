"""The records of an application: input files, generated streams, and where results go.

Read `inputs` first: which files there are, and how Spark reads them. `outputs` says where results
and the ledger are. `generated` makes the records of `--generate` and of the main
job, and `stream_files` writes records as the files of a stream.
"""

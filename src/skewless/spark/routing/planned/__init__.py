"""Plan first: the keys of a batch are counted, and the JVM routes by the plan.

Read `plan_keys` first: the verb, and the plan with what only Spark can tell. `inputs` says what a
DataFrame reads. `counting` counts its keys in one job, of large partitions by a sample.
`placing` is the column of the worker, and how the records of a split key are dealt. Nothing here
runs in Spark's Python workers.
"""

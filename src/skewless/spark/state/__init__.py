"""The verb `process`: keyed state in versioned files, which moves between workers by key.

Read `process` first, then `tasks`: what a task does in a micro-batch.
`arguments` and `schemas` check what the user gave. `processor` is what users write, `grouping`
sorts records by key, and `worker_step` runs the processor, with `endings` for states that end,
`row_step` for lists that are stored row by row, and `outcomes` for late records and errors.
The folder `planning` decides where keys live. The folder `versions` keeps their
states. `initial_states` writes those that a query begins with. `checking` tests processors without
Spark, `reading` is the verb `read_state`, and `savepoint` copies a query. The folder `operators`
has verbs on top of `process`.
"""

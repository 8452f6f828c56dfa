"""The verb `aggregate`: by plain Spark, or combined at the source or on workers, merged by key.

`arguments` checks what the user gave. `choosing` decides how to compute it, from the query and from
a sample of its records; `forms` has a class for each way. `plain_queries` are Spark's.
`partials` and `combining` make partial results. `native_merging` merges them with Spark's
aggregates, and `block_merging` with ours, whose state is described by `state_layout`. `windows`
handles event time.
"""

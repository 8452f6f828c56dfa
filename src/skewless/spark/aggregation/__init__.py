"""The verb `aggregate`: by plain Spark, or combined at the source or on workers, merged by key.

`arguments` checks what the user gave. `choosing` decides how to compute it, from the query and from
a sample of its records; `aggregate` has a class for each way. `partials` and `combining` make
partial results. `native_queries` are plain queries, and merge partial results with Spark's
aggregates; `block_merging` merges them with ours, whose state is described by `state_layout`.
`windows` handles event time.
"""

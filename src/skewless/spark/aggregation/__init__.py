"""The verb `aggregate`: by plain Spark, or combined at the source or on workers, merged by key.

`aggregate` puts the pieces together, `arguments` checks what the user gave. `choosing` decides how
it is computed, from the query and from what `sources` knows. `plain_queries` are Spark's own.
`partials` and `combining` make partial results; `native_merging` merges them with Spark's own
aggregates, and `block_merging` with ours, whose state is in `blocks`. `windows` is event time.
"""

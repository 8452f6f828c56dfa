"""The verb `aggregate`: route, combine on the workers, merge by key.

`aggregate` puts the pieces together, `arguments` checks what the user gave. `partials` and
`combining` make partial results; `native_merging` merges them with Spark's own aggregates, and
`block_merging` with ours, whose state is in `blocks`. `windows` is event time.
"""

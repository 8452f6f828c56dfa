"""The verb `route`: chooses a worker for every record.

Read `route` first: it builds the column. `planned` counts a batch first, and the JVM routes it.
`arguments` checks what the user gave. `router` runs inside a task, and `query_ledger` says which
task that is and finds its ledger. `plans` makes the state with which a source begins a micro-batch,
and the report that it writes at the end.
`plan_turns` lets one task make a plan, and `bounded_counts` counts the keys of a report. `seeds`
and `key_hashes` define what is hashed. `speeds` measures the workers. `worker_steps` records how
their number and capacities change, and `requests` are those of `scale_to` for another number.
"""

"""The verb `route`: every record gets its worker.

Read `route` first: it checks the arguments and builds the column. `router` runs inside a task.
`plans` says with what state a source begins a micro-batch and what it reports at the end;
`plan_claims` lets one task make a plan, and `bounded_counts` counts the keys of a report. `seeds`
and `key_hashes` say what is hashed. `speeds` and `worker_steps` say how fast and how many the
workers are.
"""

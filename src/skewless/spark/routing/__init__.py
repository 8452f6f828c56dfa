"""The verb `route`: every record gets its worker.

`route` checks the arguments and builds the column; `router` runs inside a task; `plans` says with
what state a source begins a micro-batch, and what it reports at the end.
"""

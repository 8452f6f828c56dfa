"""Plans: where keys live in a micro-batch, which version is read, and what moves.

The `controller` makes a `state_plan` from `worker_reports` and from requests for another number
of workers, which `scaling` writes. `placing` turns it into the row in which the JVM looks up
workers. `spread_keys` are keys of a join with more than one worker, and `spread_records` sends
their records.
"""

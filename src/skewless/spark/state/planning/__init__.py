"""Plans: where keys live in a micro-batch, which version is read, and what moves.

The `controller` makes a `state_plan` from `worker_reports` and from `requests` for other numbers
of workers. `placing` tells the JVM where keys live.
"""

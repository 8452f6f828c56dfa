"""Tells whether skew is a problem at all: of a job, by its event log, or of a column of records.

`event_log` reads what Spark wrote about a job, `stages` sums it up, `stragglers` finds the stages
whose slowest task is far above the others and says what would help. `key_column` looks at records.
"""

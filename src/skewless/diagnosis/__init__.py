"""Finds out whether skew is a problem, without an engine: of a job's log, or of keys.

Keys: `ways` has what each way of partitioning would do with a job, by its `costs`, and `advice`
says what to do. Spark's `hot_keys`, the command line and its page ask these. `key_facts` counts
keys, reports on them, and ranks the columns of a file.

Logs: `event_log` reads what Spark wrote about an application, and `stages` sums it up. `stragglers`
finds the stages whose slowest task is far above the others and says what would help.
"""

#: A task counts as slow if it takes this many times the median.
SLOW = 2.0

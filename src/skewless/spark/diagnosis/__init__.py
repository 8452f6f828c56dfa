"""`hot_keys`: is a DataFrame skewed, and what would each way of partitioning do about it?

Read `hot_keys` first: it samples the keys and asks `skewless.diagnosis`, which knows no engine.
`measuring` finds out what the user's function costs.
"""

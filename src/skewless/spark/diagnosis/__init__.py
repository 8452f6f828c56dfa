"""Is a DataFrame skewed, and what would each strategy do about it?

Read `hot_keys` first: the verb, from the sample to the answer. `sampled_keys` and `counted_keys`
get the keys, from a sample and from all records. `predicting` runs the strategies on them,
`alternatives` predicts what plain Spark would do, and `costs` turns loads into times. `measuring`
and `timing_work` find out what the user's function costs. `advice` says what to do.
"""

"""Joins of batch DataFrames whose keys are skewed; `join` itself, which also joins streams.

`arguments` resolves both sides once. `plan_join` counts their keys and makes the plan. `cells`
sends the rows to the cells of the plan and joins them there.
"""

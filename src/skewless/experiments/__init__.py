"""Published tables and figures as data: what to run, the raw results, the tables.

Read `tables` first: raw records become tables between markers. Each other file measures one thing
and has its table: `overview`, `grouping_cost`, `simulator_speed`, `giants`, `learning_together`,
`strategy_pictures`, and `frontier` with `front` and `frontier_tables`. `on_spark/` has the tables
of what was measured on Spark.
"""

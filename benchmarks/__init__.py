"""What measures speed and balance; each file is started as `python -m benchmarks.name`.

A benchmark is one file: what is run, its raw records, and the tables that documents show of them.
`records` turns raw records into tables between markers, `tables` writes all of them anew, `streams`
makes what is measured, and `turns` runs it in turns. `frontier/` has the one that
compares all strategies, `public/` the workloads that others published.
"""

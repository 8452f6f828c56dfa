"""Pd-Stream: the figures and tables of its evaluation.

Read `streams` first: the streams of the paper and what stands in for those that cannot be had.
`tables` has Tables II to IV, `speed` latency and throughput (Figures 4 to 7), `balance` Figures 8
and 9, `replicas` Figures 10 and 11, `costs` Figures 12 and 13.
"""

"""Pd-Stream: a key gets as many workers as its count in a short sampling window may mean.

Read `strategy` first; its `probability_table` is Algorithm 1 (equations 14 and 15, Table III), and
one plan for several sources is our addition. `instance_assignment` is Algorithm 2.
`sampling_window` is the window of the last N records (section V);
`floor_set` finds the least loaded of a key's workers without looking at each of them.
"""

from skewless.strategies.pd_stream.strategy import PdStream

__all__ = ["PdStream"]

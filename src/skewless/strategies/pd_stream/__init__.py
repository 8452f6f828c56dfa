"""Pd-Stream: a key gets as many workers as its count in a short sampling window may mean.

Read `strategy` first: Algorithms 1 and 2, equations 14–16 and the probability table (Table III).
`sampling_window` is the window of the last N records (section V);
`floor_set` finds the least loaded of a key's workers without looking at each of them.
"""

from skewless.strategies.pd_stream.strategy import PdStream

__all__ = ["PdStream"]

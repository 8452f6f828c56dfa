"""FISH: hot keys of the recent past get as many workers as they need.

Read `strategy` first: it has the loop over records, Algorithms 1 to 3 in one pass.
`key_frequencies` is Algorithm 1 (4.1.1), and combines the frequencies of several sources.
`hot_key_classification` is Algorithm 2 (4.1.2), with the candidates that the consistent-hash ring
of section 5 gives. Algorithm 3, Heuristic Worker Assignment (4.2), is two files:
`worker_estimation` (4.2.1), the inferred backlog, and `worker_selection` (4.2.2), the worker with
the shortest waiting time.
"""

from skewless.strategies.fish.strategy import Fish

__all__ = ["Fish"]

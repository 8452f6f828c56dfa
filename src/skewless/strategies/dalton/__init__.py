"""Dalton: a contextual bandit learns where the records of hot keys go; other keys are hashed.

Read `strategy` first, the parameters, then `bandit`. The paper's parts: `bandit` is Algorithm 1,
the loop over records; `cooperative` is Algorithm 2 and the reducer (section 4); `q_table` is the
table Q; `slides` holds the loads L(c_i, W) and the replicas X of the window (section 3);
`watched_keys` gives frequent keys their rows, and `key_counts` the statistics of section 5.3
(Figure 10).
"""

from skewless.strategies.dalton.strategy import Dalton

__all__ = ["Dalton"]

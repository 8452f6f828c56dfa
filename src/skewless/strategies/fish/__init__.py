"""FISH: hot keys of the recent past get as many workers as they need.

Read `strategy` first, then `hot_key_classification`: Algorithm 2 (section 4.1.2), and the loop over
records. `key_frequencies` is Algorithm 1 (4.1.1); `merged_summaries` combines the frequencies of
several sources. Algorithm 3 is `worker_estimation` (4.2.1), the inferred backlog, and
`worker_selection` (4.2.2), the worker with the shortest waiting time. `candidate_rows` holds the
candidates that the consistent-hash ring of section 5 gives.
"""

from skewless.strategies.fish.strategy import Fish

__all__ = ["Fish"]

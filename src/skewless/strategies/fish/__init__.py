"""FISH: hot keys of the recent past get as many workers as they need.

Read `strategy` first, then `granting`. The paper's parts: `fading` is Algorithm 1 (section 4.1.1),
the hot keys, which `merged_summaries` combines where several sources learn together; `granting` is
Algorithm 2 (4.1.2), the number of workers per key, and the loop over records; `backlog` is
Algorithm 3 (4.2), the inferred backlog, on the clock and sets of `waiting`; `candidate_rows`
remembers the candidates that the consistent-hash ring of section 5 gives.
"""

from skewless.strategies.fish.strategy import Fish

__all__ = ["Fish"]

"""PStream: records of hot keys are shuffled, records of other keys are hashed.

Read `strategy` first (Algorithm 1). The paper's parts: `coin_synopsis` is the coin runs and the
synopsis (sections 4.1–4.3); `hot_predictor` adds the filter of the sources and the threshold that
adapts (4.4); `bloom` is that filter; `merging` makes the central predictor from those of several
sources; `tuning` searches the weights of the threshold, and no strategy calls it.
`count_min_predictor` and `adaptive_count_min` are rivals of the predictor (sections 2 and 6.2):
no strategy routes by them; they are here to be compared with it.
"""

from skewless.strategies.pstream.strategy import PStream

__all__ = ["PStream"]

"""PStream: records of hot keys are shuffled, records of other keys are hashed.

Read `strategy` first, then `hot_predictor`. Algorithm 1, the hot key predictor (section 3.2), is in
two files: `coin_synopsis` has the coin runs and the synopsis, `hot_predictor` the loop over
records, the filter of the sources and the threshold that adapts (4.4). `bloom` is that filter.
`merging` makes the central predictor from those of several sources. `tuning` searches the weights
of the threshold, and no strategy calls it.
`count_min_predictor` and `adaptive_count_min` are rivals of the predictor (sections 2 and 6.2):
no strategy routes by them; they are here to be compared with it.
"""

from skewless.strategies.pstream.strategy import PStream

__all__ = ["PStream"]

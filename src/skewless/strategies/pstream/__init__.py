"""PStream: records of hot keys are shuffled, records of other keys are hashed.

Read `strategy` first: it has the loop over records. Then read `hot_key_predictor` and
`coin_synopsis`: together they are Algorithm 1, the hot key predictor (section 3.2).
`hot_key_predictor` says what a long run changes, and has the threshold that adapts (4.4);
`coin_synopsis` has the coin runs and the synopsis. `bloom` is the filter of the hot keys. `merging`
makes the central predictor from those of several sources.
`adaptive_count_min` is a rival of the predictor (sections 2 and 6.2): no strategy routes by it; it
is here to be compared with it.
"""

from skewless.strategies.pstream.strategy import PStream

__all__ = ["PStream"]

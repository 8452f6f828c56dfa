"""Cascade with foresight: a batch is counted first, then all of it is decided.

Read `strategy` first: the idea, the guarantee, and what a merge and a rescale keep. Then `routing`,
the loop over blocks of a batch. `counting` finds the keys of a block and what is known of them,
`ranking` puts them in order, `placing` gives each its workers, `sharing` says what a worker gets,
and `state` names every number. `condensing` is what the ledger holds.
"""

from skewless.strategies.cascade.ahead.strategy import CascadeAhead

__all__ = ["CascadeAhead"]

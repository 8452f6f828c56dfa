"""Cascade, our own strategy: a record goes to the first worker of its key's order that has room.

Read `strategy` first: the idea, the guarantee, and what a merge and a rescale keep. Then:
`state` names every number that a source remembers, and what the ledger holds of it; `orders` gives
each key its order of workers; `routing` is the loop over records; `filling` chooses the worker of a
heavy key, and finds the least loaded worker of all; `counting` decides which keys are heavy, and
corrects the counts when hot keys change; `heavy_keys` holds their counters. The folder `ahead` is
the variant that sees a whole batch before it decides.
"""

from skewless.strategies.cascade.ahead.strategy import CascadeAhead
from skewless.strategies.cascade.strategy import Cascade

__all__ = ["Cascade", "CascadeAhead"]

"""The oracle with the parameters of a strategy, and records that were sent by hand."""

from fractions import Fraction

from reference.fish.fish import FishReference
from skewless.parameters import as_dict
from skewless.strategies.fish.worker_selection import send


def reference(strategy, n_workers, seed, **more):
    parameters = as_dict(strategy)
    # The decimal fraction that is meant, so that what is equal on paper is equal.
    parameters["alpha"] = Fraction(strategy.alpha).limit_denominator(100)
    return FishReference(n_workers, seed, **parameters, **more)


def sent(state, counts):
    for worker, count in enumerate(counts):
        for _ in range(count):
            send(state.backlog.waiting, worker)

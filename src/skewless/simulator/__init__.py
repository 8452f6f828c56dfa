"""Sources, workers and windows without an engine: millions of records in seconds."""

from skewless.simulator.run import Rebalance, Run
from skewless.simulator.simulate import simulate
from skewless.simulator.starting import Cluster, Measuring
from skewless.simulator.syncing import Exchange, Sync
from skewless.simulator.tally import Windows
from skewless.simulator.timed.clock import WindowTimes
from skewless.simulator.timed.timing import Event, Timing

__all__ = [
    "Cluster",
    "Event",
    "Exchange",
    "Measuring",
    "Rebalance",
    "Run",
    "Sync",
    "Timing",
    "WindowTimes",
    "Windows",
    "simulate",
]

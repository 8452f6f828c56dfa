"""Sources, workers and windows without an engine: millions of records in seconds."""

from skewless.simulator.run import Rebalance, Run
from skewless.simulator.simulate import simulate
from skewless.simulator.tally import Windows

__all__ = ["Rebalance", "Run", "Windows", "simulate"]

"""The contract that every strategy must pass, for ours and for yours.

>>> from skewless.checks import check_strategy
>>> from skewless.strategies import PartialKey
>>> len(check_strategy(PartialKey())) > 5
True
"""

from skewless.checks.contract import CHECKS, Check, CheckFailed, applicable, check_strategy
from skewless.checks.routing import STREAMS, Stream

__all__ = ["CHECKS", "STREAMS", "Check", "CheckFailed", "Stream", "applicable", "check_strategy"]

"""Cascade with foresight."""

from skewless.strategies.cascade.ahead.strategy import CascadeAhead

__all__ = ["CascadeAhead"]

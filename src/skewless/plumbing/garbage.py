"""Keeps what is loaded out of the collections of garbage that Spark's Python workers make."""

from __future__ import annotations

import gc


def spare_what_is_loaded() -> None:
    """Leave all objects of now out of later collections.

    Spark collects garbage after every task. To look through numba and pandas each time took a tenth
    of a second.
    """
    gc.collect()
    gc.freeze()

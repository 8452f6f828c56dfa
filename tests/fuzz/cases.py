"""Nasty values, seeded cases, and what may come of them: a result, or one line that says why."""

from __future__ import annotations

import datetime
import math
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from time_limits import at_most

SEED = os.environ.get("SKEWLESS_FUZZ_SEED", "0")
_CASES = os.environ.get("SKEWLESS_FUZZ_CASES")
_LONGEST_S = 120  # far above what any case takes: a case that reaches it hangs
_LONGEST_LINE = 2_000

NUMBERS: list[Any] = [
    *(-(1 << 63) - 1, -1, 0, 1, 2, 3, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30, 10**5000),
    *(-0.5, 0.0, 1e-300, 1e-9, 0.5, 1.0, 2.0, 2.5, 1e9, 1e18, 1e300, math.nan, math.inf, -math.inf),
    *(True, False, np.int64(3), np.float32(0.5), np.float64("nan"), np.bool_(True), np.array(3)),
    *(Decimal("NaN"), Decimal(2), Fraction(1, 3), 1j),
]
TEXTS: list[Any] = [
    *("", " ", "x", "k", "٣", "३.५", "1e3", "1e400", "nan", "-inf", "1_0", "0x10", "9" * 5000),
    *("\0", "a\nb", "naïve", "`", "a.b", "--help", "{}", "None", ":", "a:b", "..:b", "os:path"),
    *("\udcff", "file:", "s3://", "foo:bar", "/dev/null", "/dev/null/x", "n" * 300),
    *("1 minute", "0 seconds", "-1 day", "1 month", "99999999999999 weeks", "5minutes"),
]
THINGS: list[Any] = [
    *(None, b"k", (), [], ["k"], ["k", None], ("ts", "1 minute"), ("ts",), {}, {"a": 1}, {1}),
    *(object, len, np.array([1, 2]), range(3), Path("/dev/null"), Path("/dev/null/x"), Path()),
    *(datetime.timedelta(1), datetime.datetime(1, 1, 1), datetime.date(9999, 12, 31), print),
]
NASTY = [*NUMBERS, *TEXTS, *THINGS]


def n_cases(short: int) -> int:
    """Count the cases to try: few in the tests, or as many as the environment says."""
    return short if _CASES is None else int(_CASES)


def cases(area: str, short: int) -> Iterator[tuple[int, random.Random]]:
    """Yield the number of each case with its own random generator."""
    only = os.environ.get("SKEWLESS_FUZZ_CASE")
    for number in range(n_cases(short)) if only is None else [int(only)]:
        yield number, random.Random(f"{SEED}/{area}/{number}")


def told(value: Any) -> str:
    """Return a value as a report may show it."""
    try:
        return repr(value)[:80]
    except Exception:
        return f"<{type(value).__name__}>"


def no_hang() -> AbstractContextManager[None]:
    """Raise TimeoutError in what does not end."""

    def stop() -> None:
        raise TimeoutError(f"no end after {_LONGEST_S} s")

    return at_most(_LONGEST_S, stop)


def wrong_with(call: Callable[[], Any], names: list[str]) -> str | None:
    """Judge the outcome of a call; None for a result or one clear line.

    `names` are the arguments that were made nasty: the message must name one of them.
    """
    try:
        with no_hang(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except Exception as error:
        return wrong_with_error(error, names)
    return None


def wrong_with_error(error: Exception, names: list[str]) -> str | None:
    """Judge an exception; None for one clear line."""
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    text = str(error)
    if not isinstance(error, ValueError) or not kind.startswith(("builtins", "skewless")):
        return f"{kind}: {text[:200]}"
    if "\n" in text or len(text) > _LONGEST_LINE:
        return f"not one line: {text[:200]!r}"
    if not any(name in text for name in names):
        return f"names none of {names}: {text[:200]}"
    return None


def report(area: str, found: list[tuple[int, str, str]]) -> str:
    """Return the failures with what repeats each of them."""
    lines = [f"{len(found)} bad outcomes in {area}. SKEWLESS_FUZZ_SEED={SEED}; each alone with:"]
    for number, call, outcome in found[:40]:
        lines.append(f"  SKEWLESS_FUZZ_CASE={number}: {call} -> {outcome}")
    return "\n".join(lines)

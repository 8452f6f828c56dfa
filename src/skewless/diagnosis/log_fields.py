"""Reads single fields of an event, which may be missing or of the wrong type."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skewless.diagnosis.event_log import LogError
from skewless.plumbing.arguments import printable, shown

#: More than any count, size or time in a log. Sums of them still fit into an array of integers.
BEYOND = 1 << 53
_DEEPEST = 200  # operators on top of each other
_LONGEST = 160  # characters of a name or a reason
_MOST_OPERATORS = 200  # different ones of a stage or a query


def fields(value: object) -> dict[str, Any]:
    """Return an object of the log; a missing or malformed one counts as empty."""
    return value if isinstance(value, dict) else {}


def whole(value: object) -> int:
    """Return a number of the log; a missing or malformed one counts as 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    if abs(value) >= BEYOND:
        raise LogError(
            f"event log: {shown(value)} is not a number that Spark writes: counts and times are "
            "below 2^53"
        )
    return value


def moment(value: object) -> int | None:
    """Return a time of the log; a missing or malformed one is None: 0 is a time too."""
    return whole(value) if isinstance(value, int) and not isinstance(value, bool) else None


def short(value: object) -> str:
    """Return a name of the log; a missing one is empty, and the end of a long one is cut off."""
    return "" if value is None else printable(" ".join(str(value)[:_LONGEST].split()))


def stage_operators(info: dict[str, Any], by_metric: Mapping[int, str]) -> tuple[str, ...]:
    """Return the operators of a stage, without repetition.

    The scopes of its RDDs name them, but generated code hides those that it is made of. These are
    known by their metrics, which the stage has counted.
    """
    scopes = (fields(rdd).get("Scope") for rdd in items(info.get("RDD Info")))
    # {"id":"7","name":"FlatMapGroupsInPandas"}
    named = (str(scope).partition('"name":"')[2].partition('"')[0] for scope in scopes)
    counted = (whole(fields(one).get("ID")) for one in items(info.get("Accumulables")))
    return different(itertools.chain(named, (by_metric.get(number, "") for number in counted)))


def plan_nodes(plan: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the operators of a query, from the last one down."""
    node = fields(plan)
    yield node
    if depth < _DEEPEST:
        for child in items(node.get("children")):
            yield from plan_nodes(child, depth + 1)


def items(value: object) -> list[Any]:
    """Return a list of the log; a missing or malformed one counts as empty."""
    return value if isinstance(value, list) else []


def different(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first names, without repetition."""
    # A log repeats few names very often: each is in memory once.
    found = dict.fromkeys(sys.intern(printable(name[:_LONGEST])) for name in names if name)
    return tuple(itertools.islice(found, _MOST_OPERATORS))


def failure_text(reason: dict[str, Any]) -> str:
    """Return why a task failed, in one short line.

    >>> failure_text({"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError"})
    'ExceptionFailure: java.lang.OutOfMemoryError'
    >>> failure_text({})
    'unknown'
    """
    kind = str(reason.get("Reason") or "unknown")
    named = [reason.get(name) for name in ("Class Name", "Loss Reason", "Description", "Message")]
    text = ": ".join([kind, *(_telling_line(str(one)) for one in named if one)])
    return printable(" ".join(text.split())[:_LONGEST])


def _telling_line(text: str) -> str:
    """Return the first line, or for a Python traceback the last line that is not indented.

    >>> _telling_line("Traceback (most recent call last):\\n  File x\\nMemoryError: full\\n SQL")
    'MemoryError: full'
    """
    lines = [line for line in text.splitlines() if line.strip()] or [""]
    if "Traceback (most recent call last)" in text:
        lines = [line for line in lines if not line[0].isspace()][::-1] or lines
    return lines[0]

"""Reads the event log of a Spark application: one JSON object per line, in one file or several.

Fields of an event may be missing, or of the wrong type: such a field counts as empty.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from skewless.diagnosis.compression import decompressed
from skewless.plumbing.arguments import printable, shown

Event = dict[str, Any]

#: By the end of the file name, as Spark names them.
_CODECS = {
    **{".zstd": "zstd", ".zst": "zstd", ".gz": "gzip"},
    **{".lz4": "lz4", ".lzf": "lzf", ".snappy": "snappy"},
}
_ROLLED = re.compile(r"events_(\d+)_.+")
#: How Spark names the log of one application: a folder of rolled files, or one file.
_APPLICATION = re.compile(r"(eventlog_|app-|application_|local-|spark-).+")
_UNFINISHED = ".inprogress"
_COMPACTED = ".compact"  # such a file leaves out events of ended jobs
#: Characters. The longest lines of Spark hold the text of a query's plan; a few MB are rare. Of
#: empty lists alone, Python makes thirty times as many bytes.
_LONGEST_LINE = 1 << 23
#: More than any count, size or time in a log. Sums of them still fit into an array of integers.
_BEYOND = 1 << 53
_DEEPEST = 200  # operators on top of each other
_LONGEST = 160  # characters of a name or a reason
_MOST_OPERATORS = 200  # different ones of a stage or a query


class LogError(ValueError):
    """A file is not an event log of Spark, or it cannot be read."""

    def __init__(self, why: str) -> None:
        super().__init__(f"event log: {why}")


def log_files(path: str | Path) -> list[Path]:
    """Return the files of an event log in order: one file, or the rolled files of a folder.

    A folder that holds the log of one application, and nothing else that looks like a log, is read
    as that log.
    """
    place, name = Path(path), shown(str(path))
    if not place.exists():
        raise LogError(f"there is no file or folder {name}")
    if place.is_file():
        return _not_compacted([place], name)
    if not place.is_dir():
        raise LogError(f"{name} is neither a file nor a folder")
    rolled = sorted(
        (int(match[1]), file) for file in place.iterdir() if (match := _ROLLED.match(file.name))
    )
    if rolled:
        # What Spark is compacting has its files beside it still.
        complete = [file for _, file in rolled if _COMPACTED + _UNFINISHED not in file.name]
        return _not_compacted(complete, name)
    inside = sorted(log.name for log in place.iterdir() if _APPLICATION.fullmatch(log.name))
    if len(inside) == 1:
        return log_files(place / inside[0])
    if inside:
        raise LogError(f"{name} has several applications: name one of {', '.join(inside)}")
    raise LogError(
        f"{name} is a folder without logs of Spark: names like local-1700000000000 or "
        "eventlog_v2_local-1700000000000"
    )


def _not_compacted(files: list[Path], name: str) -> list[Path]:
    if any(file.name.endswith(_COMPACTED) for file in files):
        raise LogError(
            f"{name} is compacted: Spark has left out jobs that ended, so nothing is known of "
            "them; set spark.eventLog.rolling.maxFilesToRetain to keep more files"
        )
    return files


def read_events(path: str | Path) -> Iterator[Event]:
    """Yield the events of a log in order.

    A last line that is not complete is left out: the application may still run, or it was killed.
    """
    files = log_files(path)
    is_empty = True
    for file in files:
        for event in _events_of(file, is_last=file is files[-1]):
            is_empty = False
            yield event
    if is_empty:
        raise LogError(f"{shown(str(path))} has no Spark events")


def _events_of(file: Path, *, is_last: bool) -> Iterator[Event]:
    name, number = shown(str(file)), 0
    with _opened(file) as lines:
        try:
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST_LINE), ""), 1):
                if len(line) == _LONGEST_LINE:
                    raise LogError(
                        f"line {number} of {name} has {_LONGEST_LINE} characters or more, too many "
                        "to read safely; if it is the plan of a query, write logs with "
                        "spark.sql.maxPlanStringLength=1000000"
                    )
                event = _event(line)
                if event is None:
                    if is_last and not line.endswith("\n"):
                        return
                    raise LogError(f"line {number} of {name} is not an event of Spark")
                yield event
        except (OSError, pa.ArrowException) as error:
            if is_last and number and isinstance(error, OSError):
                return  # a compressed file that was not closed ends in the middle
            raise LogError(f"{name} cannot be read: {error}") from None


def _event(line: str) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # including a number of thousands of digits
        return None
    return event if isinstance(event, dict) and isinstance(event.get("Event"), str) else None


def _opened(file: Path) -> IO[str]:
    """Return the lines of a file, decompressed according to its name."""
    name = file.name.removesuffix(_UNFINISHED)
    try:
        raw = file.open("rb")
    except OSError as error:
        raise LogError(f"{shown(str(file))}: {error.strerror}") from None
    codec = next((codec for suffix, codec in _CODECS.items() if name.endswith(suffix)), None)
    # The last character of a cut log may not be whole.
    lines = decompressed(raw, codec) if codec else raw
    return io.TextIOWrapper(lines, encoding="utf-8", errors="replace")


def fields(value: object) -> dict[str, Any]:
    """Return an object of the log."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list of the log."""
    return value if isinstance(value, list) else []


def moment(value: object) -> int | None:
    """Return a number of the log, or None: for a time, 0 is not the same as a missing one."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if abs(value) >= _BEYOND:
        raise LogError(
            f"{shown(value)} is not a number that Spark writes: counts and times are below 2^53"
        )
    return value


def whole(value: object) -> int:
    """Return a number of the log; a missing one counts as 0."""
    return moment(value) or 0


def short(value: object) -> str:
    """Return a name of the log; the end of a long one is cut off."""
    return "" if value is None else printable(" ".join(str(value)[:_LONGEST].split()))


def different(names: Iterable[str]) -> tuple[str, ...]:
    """Return the first names, without repetition."""
    # A log repeats few names very often: each is in memory once.
    found = dict.fromkeys(sys.intern(printable(name[:_LONGEST])) for name in names if name)
    return tuple(itertools.islice(found, _MOST_OPERATORS))


def stage_operators(info: Event, by_metric: Mapping[int, str]) -> tuple[str, ...]:
    """Return the operators of a stage, without repetition.

    The scopes of its RDDs name them, but generated code hides those that it is made of. These are
    known by their metrics, which the stage has counted.
    """
    scopes = (fields(rdd).get("Scope") for rdd in items(info.get("RDD Info")))
    # {"id":"7","name":"FlatMapGroupsInPandas"}
    named = (str(scope).partition('"name":"')[2].partition('"')[0] for scope in scopes)
    counted = (whole(fields(one).get("ID")) for one in items(info.get("Accumulables")))
    return different(itertools.chain(named, (by_metric.get(number, "") for number in counted)))


def plan_nodes(plan: object, depth: int = 0) -> Iterator[Event]:
    """Yield the operators of a query, from the last one down."""
    node = fields(plan)
    yield node
    if depth < _DEEPEST:
        for child in items(node.get("children")):
            yield from plan_nodes(child, depth + 1)


def failure_text(reason: Event) -> str:
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

"""Reads the event log of a Spark application: one JSON object per line, in one file or several."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from skewless.diagnosis.compression import CorruptError, decompressed
from skewless.plumbing.arguments import shown

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
_COMPACTED = ".compact"  # after the codec; such a file leaves out events of ended jobs
#: Characters. The longest lines of Spark hold the text of a query's plan; a few MB are rare. Of
#: empty lists alone, Python makes thirty times as many bytes.
_LONGEST_LINE = 1 << 23


class LogError(ValueError):
    """A file is not an event log of Spark, or it cannot be read."""


def log_files(path: str | Path) -> list[Path]:
    """Return the files of an event log in order: one file, or the rolled files of a folder.

    A folder that holds the log of one application, and nothing else that looks like a log, is read
    as that log.
    """
    place = Path(path)
    if not place.exists():
        raise LogError(f"event log: there is no file or folder {shown(str(path))}")
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise LogError(f"event log: {shown(str(path))} is neither a file nor a folder")
    rolled = [
        (int(match[1]), file) for file in place.iterdir() if (match := _ROLLED.match(file.name))
    ]
    if rolled:
        return _without_compacted(sorted(rolled))
    inside = sorted(log.name for log in place.iterdir() if _APPLICATION.fullmatch(log.name))
    if len(inside) == 1:
        return log_files(place / inside[0])
    if inside:
        names = ", ".join(inside)
        raise LogError(
            f"event log: {shown(str(path))} has several applications: name one of {names}"
        )
    raise LogError(
        f"event log: {shown(str(path))} is a folder without logs of Spark: names like "
        "local-1700000000000 or eventlog_v2_local-1700000000000"
    )


def is_compacted(path: str | Path) -> bool:
    """Return whether Spark has left events of ended jobs out of a log to make it smaller."""
    return any(file.name.endswith(_COMPACTED) for file in log_files(path))


def _without_compacted(rolled: list[tuple[int, Path]]) -> list[Path]:
    """Return the last compact file and all newer ones; it replaces all files up to its number.

    Spark removes those files later. A compact file that is still being written is ignored.
    """
    files = [(n, file) for n, file in rolled if not file.name.endswith(_COMPACTED + _UNFINISHED)]
    compact = [(number, file) for number, file in files if file.name.endswith(_COMPACTED)]
    if not compact:
        return [file for _, file in files]
    last, begin = compact[-1]
    return [begin, *(file for number, file in files if number > last)]


def read_events(path: str | Path) -> Iterator[Event]:
    """Yield the events of a log in order.

    A last line that is not complete is left out: the application may still run, or it was killed.
    """
    files = log_files(path)
    n_events = 0
    for number, file in enumerate(files):
        for event in _events_of(file, is_last=number == len(files) - 1):
            n_events += 1
            yield event
    if not n_events:
        raise LogError(f"event log: {shown(str(path))} has no Spark events")


def _events_of(file: Path, *, is_last: bool) -> Iterator[Event]:
    with _opened(file) as lines:
        number = 0
        try:
            for number, line in enumerate(iter(partial(lines.readline, _LONGEST_LINE), ""), 1):
                if len(line) == _LONGEST_LINE:
                    raise LogError(
                        f"event log: line {number} of {shown(str(file))} has {_LONGEST_LINE} "
                        "characters or more, too many to read safely; if it is the plan of a "
                        "query, write logs with spark.sql.maxPlanStringLength=1000000"
                    )
                event = _event(line)
                if event is None:
                    if is_last and not line.endswith("\n"):
                        return
                    raise LogError(
                        f"event log: line {number} of {shown(str(file))} is not an event of Spark"
                    )
                yield event
        except UnicodeDecodeError:
            raise LogError(f"event log: {shown(str(file))} is not an event log of Spark") from None
        except (OSError, pa.ArrowException, CorruptError) as error:
            if is_last and number and isinstance(error, OSError):
                return  # a compressed file that was not closed ends in the middle
            raise LogError(f"event log: {shown(str(file))} cannot be read: {error}") from None


def _event(line: str) -> Event | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # including a number of thousands of digits
        return None
    return event if isinstance(event, dict) and isinstance(event.get("Event"), str) else None


def _opened(file: Path) -> IO[str]:
    """Return the lines of a file, decompressed according to its name."""
    name = file.name.removesuffix(_COMPACTED).removesuffix(_UNFINISHED)
    try:
        raw = file.open("rb")
    except OSError as error:
        raise LogError(f"event log: {shown(str(file))}: {error.strerror}") from None
    for suffix, codec in _CODECS.items():
        if name.endswith(suffix):
            return io.TextIOWrapper(decompressed(raw, codec), encoding="utf-8")
    return io.TextIOWrapper(raw, encoding="utf-8")

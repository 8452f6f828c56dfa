"""Reads the values of options: names and values, counts, strategies."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewless.plumbing.arguments import path_text, shown, whole, whole_number

if TYPE_CHECKING:
    from skewless.simulator import Event, Sync
    from skewless.strategy import AnyStrategy

#: The help of options that several commands have.
INPUT = "A file or folder: Parquet, CSV or JSON lines."
FORMAT = "parquet, csv or jsonl; auto uses the file name."
DELIMITER = (
    r"The character between the columns of CSV files, like ';' or '\t'; auto: a comma, and a tab "
    "for .tsv."
)
STRATEGIES = "Names separated by commas; 'all' and module:Class, for your own, may be among them."


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return the values by name of texts like `name=value`."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option} takes name=value, not {shown(text)}")
        if name.strip() in found:
            raise ValueError(f"{option} sets {shown(name.strip())} twice")
        found[name.strip()] = value.strip()
    return found


def counts(text: str, option: str, least: int = 0, most: int | None = None) -> list[int]:
    """Return the whole numbers between commas."""
    try:
        numbers = [whole_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} takes whole numbers separated by commas, not {shown(text)}"
        ) from None
    return [whole(number, option, least=least, most=most) for number in numbers]


def count(text: str, option: str, least: int = 0, most: int | None = None) -> int:
    """Return a whole number of at least `least`."""
    try:
        number = whole_number(text)
    except ValueError:
        raise ValueError(f"{option} takes a whole number, not {shown(text)}") from None
    return whole(number, option, least=least, most=most)


def file_to_write(path: Path, option: str) -> None:
    """Create the folder of a file if it is missing; raise ValueError where no file can be.

    Call it last before the work, so that a refused command leaves no folder.
    """
    path_text(path, option, "the path of a file")
    if path.is_dir():
        raise ValueError(f"{option} must be the path of a file, and {str(path)!r} is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)


#: How messages about files begin, and the option of `diagnose` that replaces it.
OF_INPUT = {
    **{"trace: path": "--input", "trace: key": "--key", "trace: limit": "--limit"},
    **{"trace: format": "--format", "trace: delimiter": "--delimiter"},
    **{"trace:": "--input:", "format ": "--format "},
}
#: The same for messages of the simulator.
_OF_SIMULATOR = {
    **{f"{name}:": f"--{name}:" for name in ("timing", "event", "sync")},
    **{"events:": "--event:", "capacities": "--capacities", "n_sources": "--sources"},
    **{"n_workers": "--workers", "trace: path": "--trace", "trace: key": "--key"},
    **{"trace: weight": "--weight", "trace: limit": "--limit", "format ": "--with format "},
    **{"trace: delimiter": "--with delimiter", "trace: format": "--with format"},
    "trace:": "--trace:",
}
#: The same for parameters of any workload, after its name.
_OF_WORKLOAD = {"z": "--zipf", "n_keys": "--keys", "n_records": "--records"}


def of_simulator(workload: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return how messages of the simulator begin, and the option that replaces it.

    `settings` are the parameters that --with sets by name.
    """
    options = dict(_OF_SIMULATOR)
    if workload != "trace":
        options[f"{workload}:"] = f"--with: {workload}:"
        for name, option in _OF_WORKLOAD.items():
            if name not in settings:
                options[f"{workload}: {name} "] = f"{option} "
    return options


@contextlib.contextmanager
def naming(options: Mapping[str, str]) -> Iterator[None]:
    """Make errors and warnings name options by these beginnings; print warnings as one line each.

    >>> with naming(of_simulator("zipf", {})):
    ...     raise ValueError("zipf: z must be a number")
    Traceback (most recent call last):
    ValueError: --zipf must be a number
    """

    def by_options(message: str) -> str:
        for beginning in sorted(options, key=len, reverse=True):  # the longest match counts
            if message.startswith(beginning):
                return options[beginning] + message[len(beginning) :]
        return message

    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("default")
            yield
    except (ValueError, OSError) as error:
        raise ValueError(by_options(str(error))) from None
    for warning in said:
        line = by_options(" ".join(str(warning.message).split()))
        print(f"skewless: {line}", file=sys.stderr)


def events(texts: list[str]) -> list[Event]:
    """Parse the events that happen to workers: texts like `leave@1e5:worker=2`."""
    from skewless import parameters
    from skewless.simulator import Event

    found = []
    for text in texts:
        head, colon, rest = text.partition(":")
        kind, at_sign, at = head.partition("@")
        settings = pairs(rest.split(","), "--event") if "=" in rest else {}
        if not colon or not at_sign or "worker" not in settings:
            verb = "needs worker=…:" if settings else "takes"
            raise ValueError(f"--event {verb} KIND@RECORD:worker=NUMBER, not {shown(text)}")
        about = {"kind": kind.strip(), "at": at.strip()}
        found.append(parameters.make(Event, about | settings))
    return found


def sync(text: str, n_sources: int) -> Sync | None:
    """Read the exchange of sources from a number or from `interval=1e4,delay=500,…`.

    A delay may be one number for each source, separated by `/`. None if the interval is 0.
    """
    from skewless import parameters
    from skewless.simulator import Sync

    if "=" not in text:
        interval = count(text, "--sync")
        return Sync(interval) if interval else None
    settings: dict[str, Any] = dict(pairs(text.split(","), "--sync"))
    if "interval" not in settings:
        raise ValueError(f"--sync needs interval=RECORDS, not {shown(text)}")
    if "adaptive" not in settings and "shortest" in settings:
        raise ValueError("--sync: shortest goes with adaptive=yes")
    if "/" in settings.get("delay", ""):
        settings["delay"] = settings["delay"].split("/")
    found = parameters.make(Sync, settings)
    found.delays(n_sources)
    return found


def strategies(names: str, settings: dict[str, str]) -> list[AnyStrategy]:
    """Return the strategies, each once; a setting goes to all that have a parameter of its name.

    "all" means every registered strategy, and may stand beside others: "all,my_module:Mine".
    """
    from skewless import parameters, registry

    parts = [name.strip() for name in names.split(",")]
    expanded = (registry.names() if name == "all" else [name] for name in parts)
    wanted = list(dict.fromkeys(itertools.chain.from_iterable(expanded)))
    classes = [registry.get(name) for name in wanted]
    known = {name for cls in classes for name in parameters.names(cls)}
    for name in settings:
        if name not in known:
            raise ValueError(
                f"{', '.join(wanted)}: {parameters.nearest(name, known, 'parameter')}"
                if known
                else f"{', '.join(wanted)} has no parameters, so {name!r} cannot be set"
            )
    return [
        parameters.make(cls, {k: v for k, v in settings.items() if k in parameters.names(cls)})
        for cls in classes
    ]

"""What options mean: names and values, counts, strategies."""

from __future__ import annotations

from pathlib import Path

from skewless import parameters, registry
from skewless.arguments import path_text, shown, whole, whole_number
from skewless.simulator import Event, Timing
from skewless.strategy import AnyStrategy


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return the values by name of texts like `name=value`."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option} takes name=value, not {shown(text)}")
        found[name.strip()] = value.strip()
    return found


def counts(text: str, option: str, least: int = 0, most: int | None = None) -> list[int]:
    """Return the whole numbers between commas."""
    try:
        numbers = [whole_number(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} takes whole numbers with commas, not {shown(text)}") from None
    return [whole(number, option, least=least, most=most) for number in numbers]


def count(text: str, option: str, least: int = 0, most: int | None = None) -> int:
    """Return a whole number of at least `least`."""
    try:
        number = whole_number(text)
    except ValueError:
        raise ValueError(f"{option} takes a whole number, not {shown(text)}") from None
    return whole(number, option, least=least, most=most)


def page(out: Path) -> Path:
    """Return the path of a page, in a folder that is there."""
    return file_to_write(out, "--out")


def file_to_write(path: Path, option: str) -> Path:
    """Return the path of a file, in a folder that is there."""
    path_text(path, option, "the path of a file")
    if path.is_dir():
        raise ValueError(f"{option} must be the path of a file, and {str(path)!r} is a folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def timing(texts: list[str]) -> Timing | None:
    """Return how long things take, by texts like `service=1e-4`; None without any."""
    return parameters.make(Timing, pairs(texts, "--timing")) if texts else None


def events(texts: list[str]) -> list[Event]:
    """Return what happens to workers, by texts like `at=1e5,worker=2,kind=leave`."""
    found = []
    for text in texts:
        settings = pairs(text.split(","), "--event")
        missing = [name for name in ("at", "worker", "kind") if name not in settings]
        if missing:
            raise ValueError(f"--event needs {missing[0]}=…: at=RECORD,worker=NUMBER,kind=KIND")
        found.append(parameters.make(Event, settings))
    return found


def strategies(names: str, settings: dict[str, str]) -> list[AnyStrategy]:
    """Return the strategies; a setting goes to all that have a parameter of its name."""
    wanted = registry.names() if names == "all" else [name.strip() for name in names.split(",")]
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

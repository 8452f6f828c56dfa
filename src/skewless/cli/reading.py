"""What options mean: names and values, counts, strategies."""

from __future__ import annotations

from skewless import parameters, registry
from skewless.strategy import AnyStrategy


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """Return the values by name of texts like `name=value`."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{option} takes name=value, not {text!r}")
        found[name.strip()] = value.strip()
    return found


def counts(text: str, option: str) -> list[int]:
    """Return the whole numbers between commas."""
    try:
        return [parameters.whole_number(part) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise ValueError(f"{option} takes whole numbers with commas, not {text!r}") from None


def count(text: str, option: str, least: int = 0) -> int:
    """Return a whole number of at least `least`."""
    try:
        number = parameters.whole_number(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{option} takes a whole number, not {text!r}") from None
    return at_least(number, option, least)


def at_least(number: int, option: str, least: int) -> int:
    """Return the number unless it is too small."""
    if number < least:
        raise ValueError(f"{option} must be at least {least}, not {number}")
    return number


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

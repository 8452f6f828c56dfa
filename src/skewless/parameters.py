"""Parameters of strategies and workloads: checked early, read from text, listed for users."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

import numpy as np

from skewless.arrays import Floats
from skewless.plumbing.arguments import LARGEST, shown, whole_number

T = TypeVar("T")

#: The most places of a table that a parameter sizes, for one source: some hundred megabytes.
MOST_PLACES = 1 << 24
#: The most points of a worker on a ring.
MOST_POINTS = 1 << 16


def require(owner: object, parameter: str, allowed: bool, what_is_allowed: str) -> None:
    """Raise a `ValueError` that names the parameter, its value and what is allowed.

    >>> require("pkg", "choices", False, "an integer of at least 1")
    Traceback (most recent call last):
        ...
    ValueError: pkg: choices must be an integer of at least 1
    """
    if allowed:
        return
    name = owner if isinstance(owner, str) else getattr(owner, "name", type(owner).__name__)
    value = "" if isinstance(owner, str) else f", not {shown(getattr(owner, parameter))}"
    raise ValueError(f"{name}: {parameter} must be {what_is_allowed}{value}")


def require_count(owner: object, *parameters: str, most: int = LARGEST) -> None:
    """Refuse parameters, all of them whole numbers, unless they are at least 1 and at most `most`.

    A parameter that sizes memory has a limit.
    """
    for parameter in parameters:
        value = getattr(owner, parameter)
        limit = "at least 1" if value < 1 or most == LARGEST else f"at least 1 and at most {most:,}"
        require(owner, parameter, 1 <= value <= most, limit)


def nearest(name: str, names: Iterable[str], what: str) -> str:
    """Return an error text for an unknown `name` that suggests the nearest known one."""
    known = sorted(names)
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
    return f"unknown {what} {shown(name)}; {hint}"


def check_types(owner: Any) -> None:
    """Refuse fields whose values are not of the declared types; convert numbers to Python's.

    Every strategy and workload calls it first in `__post_init__`, so that later checks can compare
    values. A numpy number becomes a Python one, and a whole number given for a float becomes a
    float. Equal parameters then look alike wherever they are written down.
    """
    hints = typing.get_type_hints(type(owner))
    for name in names(type(owner)):
        value = getattr(owner, name)
        plain, what_is_allowed = _plain(value, hints[name])
        require(owner, name, what_is_allowed is None, str(what_is_allowed))
        if plain is not value:
            object.__setattr__(owner, name, plain)


def _plain(value: Any, kind: Any) -> tuple[Any, str | None]:
    """Return the value as a plain value of the type, and what is allowed if this one is not."""
    inner = _optional(kind)
    if inner is not None:
        if value is None:
            return None, None
        plain, what_is_allowed = _plain(value, inner)
        return plain, what_is_allowed and f"{what_is_allowed}, or None"
    if typing.get_origin(kind) is Literal:
        known = typing.get_args(kind)
        return value, None if value in known else f"one of {', '.join(known)}"
    if kind is str:
        return value, None if isinstance(value, str) else "a text"
    if kind is bool:
        return value, None if isinstance(value, bool) else "True or False"
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is int:
        whole = int(value) if is_number and isinstance(value, numbers.Integral) else None
        if whole is None:
            return value, "a whole number"
        return whole, None if abs(whole) <= LARGEST else f"at most {LARGEST:,}"
    if kind is float:
        try:
            number = float(value) if is_number else math.nan
        except OverflowError:
            number = math.inf
        return number, None if math.isfinite(number) else "a finite number"
    return value, None


def _optional(kind: Any) -> Any:
    """Strip None from the type of a field, if None is one of its values."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return next(option for option in typing.get_args(kind) if option is not type(None))
    return None


def make(cls: type[T], settings: Mapping[str, Any]) -> T:
    """Return `cls(**settings)`, with text read as the type that the field declares.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Example:
    ...     choices: int = 2
    ...     ring: bool = False
    >>> make(Example, {"choices": "3", "ring": "yes"})
    Example(choices=3, ring=True)
    """
    hints = typing.get_type_hints(cls)
    fields = names(cls)
    owner = getattr(cls, "name", cls.__name__)
    values = {}
    for name, value in settings.items():
        if name not in fields:
            if not fields:
                raise ValueError(f"{owner} has no parameters, so {name!r} cannot be set")
            raise ValueError(f"{owner}: {nearest(name, fields, 'parameter')}")
        is_text = isinstance(value, str)
        values[name] = _from_text(f"{owner}: {name}", value, hints[name]) if is_text else value
    return cls(**values)


def _from_text(where: str, text: str, kind: Any) -> Any:
    inner = _optional(kind)
    if inner is not None:
        return None if text.lower() in ("none", "") else _from_text(where, text, inner)
    if typing.get_origin(kind) is Literal:
        allowed = typing.get_args(kind)
        if text not in allowed:
            raise ValueError(f"{where} must be one of {', '.join(allowed)}, not {shown(text)}")
        return text
    if kind is bool:
        if text.lower() in ("true", "yes", "on", "1"):
            return True
        if text.lower() in ("false", "no", "off", "0"):
            return False
        raise ValueError(f"{where} must be true or false, not {shown(text)}")
    try:
        if kind is int:
            return whole_number(text)
        if kind is float:
            return float(text)
    except ValueError:
        expected = "a whole number" if kind is int else "a number"
        raise ValueError(f"{where} must be {expected}, not {shown(text)}") from None
    return text


def names(cls: type) -> list[str]:
    """Return the names of the parameters."""
    return [field.name for field in dataclasses.fields(cls) if field.init]


def as_dict(owner: Any) -> dict[str, Any]:
    """Return the parameters of a strategy or a workload by name."""
    return {name: getattr(owner, name) for name in names(type(owner))}


def defaults(cls: type) -> dict[str, Any]:
    """Return each parameter's default by name; a parameter without one is left out."""
    return {
        field.name: field.default
        for field in dataclasses.fields(cls)
        if field.init and field.default is not dataclasses.MISSING
    }


def require_head(strategy: Any) -> None:
    """Refuse a `hot_factor` and a `capacity`, both of the right type, that are out of range."""
    hot_factor, capacity = strategy.hot_factor, strategy.capacity
    require(strategy, "hot_factor", hot_factor > 0, "above 0")
    require(strategy, "hot_factor", hot_factor >= 1e-6, "at least 1e-6")
    require(strategy, "capacity", capacity is None or capacity >= 1, "at least 1 or None")
    require(strategy, "capacity", (capacity or 1) <= MOST_PLACES, f"at most {MOST_PLACES:,}")


class WeightError(ValueError):
    """The weights of records are negative, not finite, or not one per record."""


def require_weights(weights: Floats, n_records: int, *, first: int = 0) -> None:
    """Raise a `WeightError` unless there is one weight per record, finite and at least 0.

    `first` is the number of the first of these records, for the message.

    >>> require_weights(np.array([1.0, -2.0]), 2)
    Traceback (most recent call last):
        ...
    skewless.parameters.WeightError: weights must be finite and at least 0; that of record 1 is -2.0
    """
    if weights.shape != (n_records,):
        raise WeightError(f"weights must be one per record: {n_records}, not {weights.size}")
    if n_records and not 0.0 <= weights.min() <= weights.max() < np.inf:  # false for NaN too
        i = int(np.flatnonzero(~((weights >= 0.0) & (weights < np.inf)))[0])
        raise WeightError(
            f"weights must be finite and at least 0; that of record {first + i} is {weights[i]}"
        )


def require_all_stay(name: str, capacities: Floats | None) -> None:
    """Raise ValueError if a capacity is 0, for strategies without `Traits.any_may_leave`.

    >>> require_all_stay("cascade", np.array([1.0, 0.0]))
    Traceback (most recent call last):
        ...
    ValueError: cascade: capacities must be above 0; only its last workers can leave, not worker 1
    """
    for worker in [] if capacities is None else np.flatnonzero(np.asarray(capacities) == 0)[:1]:
        raise ValueError(
            f"{name}: capacities must be above 0; only its last workers can leave, not worker "
            f"{worker}"
        )

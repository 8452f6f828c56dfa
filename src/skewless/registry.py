"""Strategies by name: the published short name, or `module:Class` for a user's strategy."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from pathlib import Path
from typing import Any

from skewless import parameters
from skewless.plumbing.arguments import shown
from skewless.strategies import ALL
from skewless.strategy import AnyStrategy

_BY_NAME: dict[str, type[Any]] = {cls.name: cls for cls in ALL}


def names() -> list[str]:
    """Return the registry names, in the order of the registry."""
    return list(_BY_NAME)


def get(name: str) -> type[Any]:
    """Return the strategy class with this name.

    >>> get("pkg").__name__
    'PartialKey'
    >>> get("w-choice")
    Traceback (most recent call last):
        ...
    ValueError: unknown strategy 'w-choice'; did you mean 'w-choices'?
    """
    if not isinstance(name, str):
        raise ValueError(f"strategy must be a name of the registry, not {shown(name)}")
    if ":" in name:
        return _import(name)
    if name not in _BY_NAME:
        raise ValueError(parameters.nearest(name, _BY_NAME, "strategy"))
    return _BY_NAME[name]


def make(name: str, **settings: Any) -> AnyStrategy:
    """Return the strategy with these parameters, given as values or as text.

    >>> make("w-choices", hot_factor="0.25")
    WChoices(hot_factor=0.25, capacity=None)
    """
    strategy: AnyStrategy = parameters.make(get(name), settings)
    return strategy


def strategy_of(value: Any, argument: str = "strategy") -> AnyStrategy:
    """Return the strategy that a user gave: a name of the registry, `module:Class`, or a strategy.

    >>> strategy_of("pkg")
    PartialKey()
    """
    if isinstance(value, str):
        try:
            return make(value)
        except ValueError as error:
            if argument == "strategy":
                raise
            raise ValueError(f"{argument}: {error}") from None
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    # Some objects, such as Spark's columns, have an attribute of every name.
    if not is_instance or not isinstance(getattr(value, "name", None), str) or _missing(value):
        raise ValueError(
            f"{argument} must be a name of the registry, 'module:Class', or a strategy such as "
            f"Cascade(), not {shown(value)}"
        )
    strategy: AnyStrategy = value
    return strategy


def _missing(thing: Any) -> list[str]:
    return [member for member in ("name", "traits", "start", "route") if not hasattr(thing, member)]


def _import(name: str) -> type[Any]:
    module_name, _, class_name = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ValueError(f"strategy {name!r} is not module:Class")
    # A user's module may be in the working folder, where an installed command does not look. The
    # folder comes last, and only here: a file `numpy.py` in it must not replace numpy.
    here = str(Path.cwd())
    is_added = here not in sys.path and "" not in sys.path
    if is_added:
        sys.path.append(here)
        importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a module of the user's raises
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"cannot import {module_name!r} for strategy {name!r}: {reason}"
        ) from error
    finally:
        if is_added and here in sys.path:  # else the module has removed it
            sys.path.remove(here)
    cls = getattr(module, class_name, None)
    if not isinstance(cls, type):
        raise ValueError(f"{module_name!r} has no class {class_name!r} (strategy {name!r})")
    if missing := _missing(cls):
        raise ValueError(f"{name!r} is not a strategy: it lacks {', '.join(missing)}")
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{name!r} is not a strategy: it is not a dataclass")
    return cls

"""Checks the arguments of a session before Java starts: Java's messages are long and late."""

from __future__ import annotations

import re
from collections.abc import Mapping

from skewless.plumbing.arguments import shown, text

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_MEMORY = re.compile(r"([0-9]{1,15})([kmgt])b?", re.IGNORECASE)
#: Below this, Spark does not start.
_LEAST_BYTES = 512 << 20
_MOST_BYTES = 1 << 50
_LOCAL = re.compile(r"local(?:\[([0-9]+|\*)(?:,\s*([0-9]+))?\])?")
_MOST_SLOTS = 1 << 16


def require_session(name: object, master: object, memory: object, settings: object) -> None:
    """Raise ValueError for what Spark would refuse."""
    text(name, "name", "a name of the application")
    where = text(master, "master", "a master of Spark such as 'local[4]'")
    local = _LOCAL.fullmatch(where)
    if where.startswith("local") and not where.startswith("local-cluster") and local is None:
        raise ValueError(f"master must be like 'local[4]' or 'local[*]', not {shown(master)}")
    n_slots = local[1] if local else None
    if n_slots not in (None, "*") and not 1 <= int(n_slots[:9]) <= _MOST_SLOTS:
        raise ValueError(f"master must have 1 … {_MOST_SLOTS:,} task slots, not {shown(master)}")
    match = _MEMORY.fullmatch(memory) if isinstance(memory, str) else None
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        raise ValueError(
            f"memory must be a size such as '2g' or '600m', at least 512m, not {shown(memory)}"
        )
    given = {} if settings is None else settings
    if not isinstance(given, Mapping):
        raise ValueError(f"settings must be a dict of Spark's settings, not {shown(settings)}")
    for setting, value in given.items():
        text(setting, "settings: the name of a setting")
        if not isinstance(value, str | int | float):
            raise ValueError(
                f"settings: {setting!r} must be a text, a number or a bool, not {shown(value)}"
            )

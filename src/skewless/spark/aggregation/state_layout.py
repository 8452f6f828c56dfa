"""The layout of a state as texts, which are stored with it and compared before it is read.

Blocks have no schema, so the bytes of another query would be read as wrong values. So every state
has its layout stored with it: the format, the key, the windows, and each aggregation with its
types.

The layout is stored twice. Before the first task runs, Spark compares the types of a state's
columns and ignores their names. So one column, which is always null, has a type that is derived
from the layout and field names that spell it out. Spark then refuses a state with another layout,
and its message shows both. The text of the layout is also stored beside each block, for sessions
that have switched off Spark's check.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql.types import DecimalType, StructField, StructType

from skewless.aggregations import Aggregation, PerColumn, Reducing
from skewless.spark.aggregation.partials import FORMAT, Partials
from skewless.spark.aggregation.windows import Window, microseconds

#: A mismatch names at most this many differences.
_MOST_SHOWN = 3
#: Attributes of a user's aggregator that the layout has elsewhere, or that no state depends on.
_TOLD_ELSEWHERE = ("inputs", "state", "result", "merges")


class StateMismatch(ValueError):  # noqa: N818 - it is read as a sentence
    """The state in the checkpoint was written by another aggregation than the query's."""


def state_layout(
    partials: Partials, key: Sequence[str], results: Sequence[str], window: Window | None
) -> dict[str, str]:
    """Return the layout of the state of an aggregation, by the name of each part.

    `key` and `results` are the user's names for the key's columns and for the results.
    """
    kinds = [type_text(partials.schema.field(name).type) for name in partials.key]
    layout = {
        "blocks": FORMAT,
        "state key": ", ".join(f"{n}: {kind}" for n, kind in zip(key, kinds, strict=True)),
        "state windows": "none",
    }
    if window is not None:
        size, slide = (microseconds(span) for span in (window.size, window.slide or window.size))
        begin = window.begin % slide
        layout["state windows"] = f"{size} µs long, one every {slide} µs, from {begin} µs"
    chosen = zip(results, partials.aggregations.items(), strict=True)
    for number, (result, (name, aggregation)) in enumerate(chosen, start=1):
        held = ", ".join(type_text(field.type) for field in partials.states[name])
        layout[f"state {number}"] = f"{result} = {described(aggregation)}: {held}"
    return layout


def layout_text(layout: Mapping[str, str]) -> str:
    """Return the layout as one text, to be stored with the state."""
    return json.dumps(layout, ensure_ascii=False)


def layout_type(layout: Mapping[str, str]) -> StructType:
    """Return a type for Spark to compare; two layouts hardly ever have the same type."""
    return StructType(
        [StructField(f"{part}: {text}", _digest_type(text)) for part, text in layout.items()]
    )


def _digest_type(text: str) -> StructType:
    """Return one of 4.7 · 10⁷ types; decimals have the most variants of all types of Spark."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    fields = []
    for place in range(3):
        number, scale = divmod(number, 19)
        number, more = divmod(number, 19)
        fields.append(StructField(f"d{place}", DecimalType(19 + more, scale)))
    return StructType(fields)


def require_layout(written: str | None, wanted: str) -> None:
    """Raise StateMismatch, which says what differs, unless the two texts of layouts are equal."""
    if written == wanted:
        return
    try:
        before, now = list(json.loads(written or "").items()), list(json.loads(wanted).items())
    except (ValueError, AttributeError):
        before, now = [], []
    pairs = zip_longest(before, now, fillvalue=("", "nothing"))
    differing = [f"{w[0] or n[0]} {w[1]!r}, not {n[1]!r}" for w, n in pairs if w != n]
    if not before or not differing:
        differing = [f"{written!r}, not {wanted!r}"]
    raise StateMismatch(
        "the state in the checkpoint was written for "
        + "; ".join(differing[:_MOST_SHOWN])
        + (f"; and {len(differing) - _MOST_SHOWN} more" if len(differing) > _MOST_SHOWN else "")
        + ": use another checkpoint, or the query that this one was written for"
    )


def described(aggregation: Aggregation) -> str:
    """Return an aggregation with its inputs and parameters.

    For a user's aggregator, the parameters are the attributes whose names do not begin with an
    underscore. Texts among them are replaced by a digest: they may be secrets.
    """
    one: Any = aggregation
    if isinstance(aggregation, PerColumn):
        one = aggregation.aggregator
    inputs = one.inputs
    if isinstance(one, Reducing):  # it shows the user's object by its address
        one = one.wrapped
    name = type(one).__name__
    if type(one).__module__.startswith("skewless."):
        return f"{name}({', '.join(f'{n}={value!r}' for n, value in vars(one).items())})"
    parts = [*inputs]
    for attribute, value in sorted(_attributes(one).items()):
        if not attribute.startswith("_") and attribute not in _TOLD_ELSEWHERE:
            parts.append(f"{attribute}={_value_text(value)}")
    return f"{name}({', '.join(parts)})"


def _attributes(one: Any) -> dict[str, Any]:
    """Return the attributes of an object, including those in `__slots__`."""
    slots = [name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ())]
    found = {name: getattr(one, name) for name in slots if hasattr(one, name)}
    return found | getattr(one, "__dict__", {})


def type_text(kind: pa.DataType) -> str:
    """Return an Arrow type as text; types that are stored differently have different texts.

    >>> type_text(pa.struct([("n", pa.int64()), ("items", pa.list_(pa.string()))]))
    'struct<n: int64, items: list<string>>'
    """
    if pt.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {type_text(field.type)}' for field in kind)}>"
    if pt.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if pt.is_list(kind):  # Arrow's own text has a name for the items, which says nothing
        return f"list<{type_text(kind.value_type)}>"
    return str(kind)


def _value_text(value: Any) -> str:
    """Return a parameter's value if it is a number, else a digest of it, or its type."""
    if hasattr(value, "tolist"):  # numpy's
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    plain = _plain_text(value)
    kind = type(value).__name__
    if plain is None:
        return kind
    return f"{kind}#{hashlib.sha256(plain.encode()).hexdigest()[:12]}"


def _plain_text(value: Any) -> str | None:
    """Return a text that is the same in every process, or None where there is none."""
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        members = value.items() if isinstance(value, Mapping) else value
        parts = [_plain_text(part) for part in members]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return repr(known if isinstance(value, list | tuple) else sorted(known))
    kinds = bool | int | float | str | bytes | Decimal | date | time | timedelta | pa.DataType
    return repr(value) if value is None or isinstance(value, kinds) else None

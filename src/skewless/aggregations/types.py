"""Types as Spark's DDL spells them, read into Arrow types."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt

from skewless.parameters import nearest

_SIMPLE = {
    **dict.fromkeys(("bigint", "long"), pa.int64()),
    **dict.fromkeys(("int", "integer"), pa.int32()),
    **dict.fromkeys(("smallint", "short"), pa.int16()),
    **dict.fromkeys(("tinyint", "byte"), pa.int8()),
    **dict.fromkeys(("float", "real"), pa.float32()),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), pa.timestamp("us", tz="UTC")),
    **{"double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "void": pa.null()},
    **{"boolean": pa.bool_(), "date": pa.date32(), "timestamp_ntz": pa.timestamp("us")},
}
#: Types with an ending, as Spark writes them in a schema: `time(6)`, `interval day to second`.
_ENDING = {
    "time": (pa.time64("ns"), r"[(]|[0-9]|[)]"),
    "interval": (pa.duration("us"), "(?i)day|hour|minute|second|to"),
}
_KNOWN = (*_SIMPLE, *_ENDING, "decimal", "array", "map", "struct")
_TOKEN = re.compile(r"`(?:[^`]|``)+`|\w+|\S")
_MAX_DIGITS = 38


def parse_type(text: str | pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark's DDL `text` means; an Arrow type stays as it is.

    >>> parse_type("struct<n: bigint, mean: double>")
    StructType(struct<n: int64, mean: double>)
    >>> parse_type("array<strng>")
    Traceback (most recent call last):
        ...
    ValueError: type 'array<strng>', position 6: unknown type 'strng'; did you mean 'string'?
    """
    if isinstance(text, pa.DataType):
        return text
    if not isinstance(text, str):
        raise ValueError(f"a type must be a text such as 'array<double>', not {text!r}")
    reader = _Reader(text)
    kind = reader.type()
    if reader.token:
        raise reader.error(f"unexpected {reader.token!r} after the end of the type")
    return kind


def widens(before: pa.DataType, now: pa.DataType) -> bool:
    """Return whether a column of one type can become one of the other without loss.

    Whole numbers and floats may have more bits, and structs more fields, which are null.

    >>> widens(parse_type("array<struct<n: int>>"), parse_type("array<struct<m: date, n: bigint>>"))
    True
    >>> widens(parse_type("bigint"), parse_type("double"))
    False
    """
    for is_number in (pt.is_signed_integer, pt.is_floating):
        if is_number(before) and is_number(now):
            return bool(before.bit_width <= now.bit_width)
    if pt.is_list(before) and pt.is_list(now):
        return widens(before.value_type, now.value_type)
    if pt.is_struct(before) and pt.is_struct(now):
        names = [field.name for field in before]
        kept = [field for field in now if field.name in names]
        kinds = zip((field.type for field in before), (field.type for field in kept), strict=False)
        return [field.name for field in kept] == names and all(widens(*pair) for pair in kinds)
    return bool(before == now)


def parse_fields(text: str | pa.DataType) -> list[pa.Field]:
    """Return the fields that Spark's DDL `text` means, as a table's schema or as a struct.

    >>> parse_fields("n bigint, total: double NOT NULL")
    [pyarrow.Field<n: int64>, pyarrow.Field<total: double>]
    """
    if isinstance(text, str) and not re.match(r"\s*struct\s*<", text, re.IGNORECASE):
        return _Reader(text).fields(end="")
    kind = parse_type(text)
    if not pt.is_struct(kind):
        raise ValueError(f"must be fields such as 'n bigint, total double', not {text!r}")
    return [kind.field(i) for i in range(kind.num_fields)]


class _Reader:
    """Reads one token after the other; `token` is the next one, empty at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = [(match.start(), match[0]) for match in _TOKEN.finditer(text)]
        self.tokens = [*found, (len(text), "")]
        self.place = 0

    @property
    def token(self) -> str:
        return self.tokens[self.place][1]

    def error(self, what: str) -> ValueError:
        return ValueError(f"type {self.text!r}, position {self.tokens[self.place][0]}: {what}")

    def accept(self, token: str) -> bool:
        """Step over a token, in any case, if it is the next one; return whether it was."""
        is_next = self.token.lower() == token
        self.place += is_next
        return is_next

    def expect(self, token: str) -> None:
        if not self.accept(token):
            found = repr(self.token) if self.token else "the end"
            raise self.error(f"expected {token!r}, found {found}")

    def matching(self, pattern: str, what: str) -> str:
        """Step over a token that must match; return it."""
        token = self.token
        if not re.fullmatch(pattern, token, re.DOTALL):
            raise self.error(f"expected {what}")
        self.place += 1
        return token

    def type(self) -> pa.DataType:
        name = self.token.lower()
        if re.fullmatch(r"\w+", name) and name not in _KNOWN:
            raise self.error(nearest(name, _KNOWN, "type"))
        self.matching(r"\w+", "a type")
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name == "decimal":
            return self.decimal()
        if name in _ENDING:
            kind, ending = _ENDING[name]
            while re.fullmatch(ending, self.token):
                self.place += 1
            return kind
        self.expect("<")
        if name == "array":
            kind = pa.list_(self.type())
        elif name == "map":
            key = self.type()
            self.expect(",")
            kind = pa.map_(key, self.type())
        else:
            kind = pa.struct(self.fields())
        self.expect(">")
        return kind

    def decimal(self) -> pa.DataType:
        precision, scale = 10, 0  # Spark's defaults
        if self.accept("("):
            precision = self.number()
            scale = self.number() if self.accept(",") else 0
            self.expect(")")
        if not 1 <= precision <= _MAX_DIGITS or scale > precision:
            raise self.error(
                f"decimal({precision}, {scale}): digits must be 1 … {_MAX_DIGITS} and the scale "
                "no more than the digits"
            )
        return pa.decimal128(precision, scale)

    def number(self) -> int:
        return int(self.matching(r"[0-9]+", "a whole number"))

    def fields(self, end: str = ">") -> list[pa.Field]:
        fields: list[pa.Field] = []
        while self.token != end:
            if fields:
                self.expect(",")
            name = self.matching(r"\w+|`.+`", "the name of a field")
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if any(field.name == name for field in fields):
                raise self.error(f"field {name!r} occurs twice")
            self.accept(":")
            fields.append(pa.field(name, self.type()))
            if self.accept("not"):  # it means nothing for a column of states
                self.expect("null")
        return fields

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
_DECIMALS = ("decimal", "dec", "numeric")
#: Types with a number behind them that Arrow does not keep.
_LENGTHS = {**dict.fromkeys(("char", "character", "varchar"), pa.string()), "time": pa.time64("ns")}
_DAY_TIMES = ("day", "hour", "minute", "second")
#: Types that Spark has but Arrow lacks, or that no aggregation can hold.
_REFUSED = {
    "variant": "a variant has no Arrow type of its own",
    "geometry": "Arrow has no type for it",
    "geography": "Arrow has no type for it",
}
_KNOWN = (*_SIMPLE, *_DECIMALS, *_LENGTHS, "interval", "array", "map", "struct", *_REFUSED)
_TOKEN = re.compile(r"`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")
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
    if reader.token is not None:
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

    >>> parse_fields("n bigint, total: double NOT NULL COMMENT 'of all'")
    [pyarrow.Field<n: int64>, pyarrow.Field<total: double>]
    """
    if isinstance(text, str) and not re.match(r"\s*struct\s*<", text, re.IGNORECASE):
        return _Reader(text).fields(end=None)
    kind = parse_type(text)
    if not pt.is_struct(kind):
        raise ValueError(f"must be fields such as 'n bigint, total double', not {text!r}")
    return [kind.field(i) for i in range(kind.num_fields)]


class _Reader:
    """Reads one token after the other; `token` is the next one, None at the end."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = _TOKEN.finditer(text)
        self.tokens = [*((match.start(), match[0]) for match in found), (len(text), None)]
        self.place = 0

    @property
    def token(self) -> str | None:
        return self.tokens[self.place][1]

    def error(self, what: str) -> ValueError:
        return ValueError(f"type {self.text!r}, position {self.tokens[self.place][0]}: {what}")

    def advance(self) -> str | None:
        """Step to the next token and return the one before it."""
        before = self.token
        if before is not None:
            self.place += 1
        return before

    def accept(self, token: str) -> bool:
        """Step over a token, in any case, if it is the next one; return whether it was."""
        if self.token is None or self.token.lower() != token:
            return False
        self.advance()
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            found = "the end" if self.token is None else repr(self.token)
            raise self.error(f"expected {token!r}, found {found}")

    def type(self) -> pa.DataType:
        if self.token is None or not re.fullmatch(r"\w+", self.token):
            raise self.error("expected a type")
        name = self.token.lower()
        if name not in _KNOWN:
            raise self.error(nearest(name, _KNOWN, "type"))
        self.advance()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in _REFUSED:
            raise self.error(f"{name!r} cannot be used here: {_REFUSED[name]}")
        if name in _DECIMALS:
            return self.decimal()
        if name in _LENGTHS:
            if name != "time" or self.token == "(":  # digits of a second, which may be left out
                self.expect("(")
                self.number()
                self.expect(")")
            return _LENGTHS[name]
        if name == "interval":
            return self.interval()
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

    def interval(self) -> pa.DataType:
        """Read the units of a span of days and times; Arrow has no type for months and years."""
        units = [self.advance()]
        if self.accept("to"):
            units.append(self.advance())
        if any((unit or "").lower() not in _DAY_TIMES for unit in units):
            raise self.error(f"an interval goes by {', '.join(_DAY_TIMES)} here")
        return pa.duration("us")

    def number(self) -> int:
        if self.token is None or not re.fullmatch(r"[0-9]+", self.token):
            raise self.error("expected a whole number")
        return int(self.advance() or "")

    def fields(self, end: str | None = ">") -> list[pa.Field]:
        fields: list[pa.Field] = []
        while self.token != end:
            if fields:
                self.expect(",")
            if self.token is None or not re.fullmatch(r"\w+|`.+`", self.token, re.DOTALL):
                raise self.error("expected the name of a field")
            name = self.token
            if name.startswith("`"):
                name = name[1:-1].replace("``", "`")
            if any(field.name == name for field in fields):
                raise self.error(f"field {name!r} occurs twice")
            self.advance()
            self.accept(":")
            fields.append(pa.field(name, self.type()))
            self.remarks()
        return fields

    def remarks(self) -> None:
        """Skip NOT NULL and COMMENT '…', which mean nothing for a column of states."""
        if self.accept("not") and not self.accept("null"):
            raise self.error("expected NULL after NOT")
        if self.accept("comment"):
            if self.token is None or not re.fullmatch(r"(['\"]).*\1", self.token, re.DOTALL):
                raise self.error("expected a text in quotes after COMMENT")
            self.advance()

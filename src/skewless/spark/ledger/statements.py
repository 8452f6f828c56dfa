"""Small text files of a ledger that people may read: its purpose, its query, its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skewless.spark.ledger.files import (
    VERSION,
    LedgerCorrupt,
    from_json,
    readable,
    require_version,
)

#: Fields of an identity that are only information: they may differ.
_INFORMATIVE = ("skewless",)
#: What an older version did not write into an identity.
_LAYOUT = "state_layout"


class LedgerMismatch(ValueError):  # noqa: N818 - it is read as a sentence
    """The ledger was made for something else than it is about to be used for."""


def statement(what: str, value: Any) -> bytes:
    """Return a small text file that people may read."""
    try:
        content = {"format": f"skewless-{what}", "version": VERSION, what: value}
        return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be text and finite numbers: {error}") from None


def read_statement(data: bytes, what: str, where: str, kind: type) -> Any:
    """Return the value in the text file, of this type, or raise LedgerCorrupt."""
    with readable(where):
        content = from_json(data)
        require_version(content["format"], content["version"], f"skewless-{what}", where)
        if not isinstance(content.get(what), kind):
            raise ValueError(f"it has no {what}, or one of another type")
        return content[what]


def read_identity(data: bytes, where: str) -> dict[str, Any]:
    """Return what a ledger was made for, or raise LedgerCorrupt."""
    identity: dict[str, Any] = read_statement(data, "identity", where, dict)
    for field, value in identity.items():
        if not isinstance(value, str | int | float):
            raise LedgerCorrupt(f"{where} is not readable: {field[:40]!r} is not a text or number")
    return identity


def require_same(found: Mapping[str, Any], wanted: Mapping[str, Any], place: str) -> None:
    """Raise LedgerMismatch unless the identity of a ledger is the wanted one."""
    if ("process" in found) != ("process" in wanted):
        verb = "process" if "process" in found else "route or aggregate"
        raise LedgerMismatch(f"the ledger in {place} was written by {verb}: use another")
    for field in dict.fromkeys([*wanted, *found]):
        if field in _INFORMATIVE or (
            field in found and field in wanted and found[field] == wanted[field]
        ):
            continue
        if field == _LAYOUT and field in wanted:
            version = found.get("skewless")
            wrote = "by an older skewless" if version is None else f"by skewless {version}"
            raise LedgerMismatch(
                f"the ledger in {place} was written {wrote}, whose strategy "
                f"{found.get('strategy')} keeps its state in another layout: use another ledger "
                "folder, or the version that this one was written by"
            )
        was = f"{field}={found[field]}" if field in found else f"no {field}"
        raise LedgerMismatch(
            f"the ledger in {place} was written for {was}, not {wanted.get(field, 'without it')}: "
            "use another ledger folder, or the settings that this one was written for"
        )

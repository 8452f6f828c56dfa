"""Small text files of a ledger that people may read: its purpose and its query."""

from __future__ import annotations

import json
from typing import Any

from skewless.spark.ledger.files import VERSION, LedgerCorrupt, from_json, one_line, require_version


def statement(what: str, value: Any) -> bytes:
    """Return a small text file that people may read."""
    try:
        content = {"format": f"skewless-{what}", "version": VERSION, what: value}
        return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} must be text and finite numbers: {error}") from None


def read_statement(data: bytes, what: str, where: str, kind: type) -> Any:
    """Return the value in the text file, of this type, or raise LedgerCorrupt."""
    try:
        content = from_json(data)
        found, version = content["format"], content["version"]
    except KeyError as error:
        raise LedgerCorrupt(f"{where} is not readable: it has no {error}") from error
    except (ValueError, TypeError) as error:
        raise LedgerCorrupt(f"{where} is not readable: {one_line(error)}") from error
    require_version(found, version, f"skewless-{what}", where)
    if not isinstance(content.get(what), kind):
        raise LedgerCorrupt(f"{where} is not readable: it has no {what}, or one of another type")
    return content[what]

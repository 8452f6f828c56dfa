"""What both kinds of folders need to write a file that is complete or absent."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator


def unfinished_name(name: str) -> str:
    """Return a unique name beside `name` that no listing takes for a finished file."""
    folder, _, last = name.rpartition("/")
    return f"{folder}/.{last}.{uuid.uuid4().hex}.tmp".lstrip("/")


@contextlib.contextmanager
def naming_the_folder(place: str) -> Iterator[None]:
    """Make errors in writing name the folder."""
    try:
        yield
    except OSError as error:
        text = f"the ledger in {place} cannot be written: {error.strerror or error}"
        raise (OSError(error.errno, text) if error.errno else OSError(text)) from error

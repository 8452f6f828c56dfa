"""The character between the columns of a CSV file."""

from __future__ import annotations

from skewless.plumbing.arguments import shown

#: It goes by the end of the file's name.
BY_NAME = "auto"
ALLOWED = r"one ASCII character (\t is a tab), no quote and no end of a line"
_NEVER = '"\n\r\0'


def delimiter_of(text: object, what: str) -> str | None:
    r"""Return the delimiter that a text means, None for "auto"; raise ValueError for other texts.

    >>> delimiter_of(";", "--delimiter"), delimiter_of(r"\t", "--delimiter")
    (';', '\t')
    """
    if text == BY_NAME:
        return None
    found = "\t" if text == r"\t" else text
    if isinstance(found, str) and len(found) == 1 and found.isascii() and found not in _NEVER:
        return found
    raise ValueError(f"{what} must be {ALLOWED}, not {shown(text)}")


def delimiter_by_ending(ending: str) -> str:
    """Return the delimiter of files with this ending."""
    return "\t" if ending == ".tsv" else ","


def require_csv(delimiter: object, what: str, file: str, kind: str) -> None:
    """Raise ValueError if a delimiter is given for files that have none."""
    if delimiter not in (None, BY_NAME) and kind != "csv":
        raise ValueError(f"{what} goes with CSV files, and {shown(file)} is read as {kind}")

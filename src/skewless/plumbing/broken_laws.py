"""The smallest example that breaks a law, for checkers of what users write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class LawBroken(AssertionError):  # noqa: N818 - it is read as a sentence
    """An aggregator or a processor breaks a law; the text says which, how, and on which records.

    `law` is the name of the law.
    """

    def __init__(self, law: str, text: str) -> None:
        """Keep the name of the law beside the text."""
        super().__init__(text)
        self.law = law


def _error_of(law: Callable[[T], None], trial: T) -> Exception | None:
    try:
        law(trial)
    except Exception as error:  # whatever the user's code raises is the finding
        return error
    return None


def require_kept(
    law: Callable[[T], None],
    trial: T,
    smaller: Callable[[T], Iterable[T]],
    told: Callable[[T], tuple[str, str]],
) -> None:
    """Raise LawBroken, with a trial none of whose `smaller` ones breaks the law, if `trial` does.

    `told` returns the name of what is tried, and what it is tried on.

    >>> def no_nines(text):
    ...     assert "9" not in text, "it has a nine"
    >>> shorter = lambda text: [text[:i] + text[i + 1 :] for i in range(len(text))]
    >>> require_kept(no_nines, "1292", shorter, lambda text: ("the text", text))
    Traceback (most recent call last):
        ...
    skewless.plumbing.broken_laws.LawBroken: the text breaks no_nines: it has a nine
    on 9
    """
    error = _error_of(law, trial)
    if error is None:
        return
    while error is not None:
        least, broken = trial, error
        tried = ((one, _error_of(law, one)) for one in smaller(least))
        trial, error = next((pair for pair in tried if pair[1] is not None), (least, None))
    (who, what), name = told(least), law.__name__
    kind = "" if isinstance(broken, AssertionError) else f"{type(broken).__name__}: "
    raise LawBroken(name, f"{who} breaks {name}: {kind}{broken}\non {what}") from broken

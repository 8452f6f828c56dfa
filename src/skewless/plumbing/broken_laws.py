"""The smallest example that breaks a law, for checkers of what users write."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class LawBroken(AssertionError):  # noqa: N818 - it is read as a sentence
    """An aggregator or a processor breaks a law; the text says which, how, and on which records.

    `law` is the name of the law.
    """

    def __init__(self, law: str, text: str) -> None:
        """Keep the name of the law beside the text."""
        super().__init__(text)
        self.law = law


class Broken(NamedTuple):
    """How a law is broken."""

    text: str
    error: BaseException


def complaint(law: Callable[[T], None], trial: T) -> Broken | None:
    """Try the law; return a text that shows how `trial` breaks it, or None."""
    try:
        law(trial)
    except AssertionError as error:
        return Broken(str(error), error)
    except Exception as error:  # whatever the user's code raises is the finding
        return Broken(f"{type(error).__name__}: {error}", error)
    return None


def smallest(
    law: Callable[[T], None], trial: T, smaller: Callable[[T], Iterable[T]]
) -> tuple[T, Broken] | None:
    """Return a trial that breaks the law while none of its `smaller` ones does, or None.

    >>> def no_nines(text):
    ...     assert "9" not in text
    >>> smallest(no_nines, "1292", lambda t: [t[:i] + t[i + 1 :] for i in range(len(t))])[0]
    '9'
    """
    broken = complaint(law, trial)
    if broken is None:
        return None
    shrinks = True
    while shrinks:
        shrinks = False
        for candidate in smaller(trial):
            found = complaint(law, candidate)
            if found is not None:
                trial, broken, shrinks = candidate, found, True
                break
    return trial, broken


def require_kept(
    law: Callable[[T], None],
    trial: T,
    smaller: Callable[[T], Iterable[T]],
    told: Callable[[T], tuple[str, str]],
) -> None:
    """Raise LawBroken, with the smallest trial that breaks the law, if `trial` does.

    `told` returns the name of what is tried, and what it is tried on.
    """
    found = smallest(law, trial, smaller)
    if found is None:
        return
    least, broken = found
    who, what = told(least)
    name = law.__name__
    raise LawBroken(name, f"{who} breaks {name}: {broken.text}\non {what}") from broken.error

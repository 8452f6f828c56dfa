"""A query in two ways: by plain Spark's operators, and by the verbs of skewless."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

PLAIN = "plain Spark"


@dataclass(frozen=True)
class Query:
    """What is asked, and the two ways to answer it; both work on batch DataFrames and on streams.

    Parameters
    ----------
    name, asks
        Its short name, and the question in one line.
    reads
        The folders of the streams that it reads, in the order of its arguments.
    plain
        The query as one would write it with Spark's own operators.
    ours
        The same with a verb of skewless; the second argument is the folder of its ledger.
    plain_verb, our_verb
        What each of them uses, for people. `our_verb` is "plain Spark" if skewless advises or
        chooses that.
    mode
        The output mode of the plain query. With "update", a row replaces the last one with the same
        `key`; with "append", all rows count.
    our_mode
        The same for ours.
    key
        The columns that identify the row that another one replaces.
    counts
        An SQL condition for the rows that count: not those of records that only move the clock. It
        is not part of the query, because Spark would then filter before it sees the times of these
        records.
    plain_settings
        Settings of Spark that the plain query needs on a stream.
    """

    name: str
    asks: str
    reads: tuple[str, ...]
    plain: Callable[[Sequence[DataFrame]], DataFrame]
    ours: Callable[[Sequence[DataFrame], str | None], DataFrame]
    plain_verb: str
    our_verb: str
    mode: str = "append"
    our_mode: str = "append"
    key: tuple[str, ...] = ()
    counts: str = "true"
    plain_settings: Mapping[str, str] = field(default_factory=dict)

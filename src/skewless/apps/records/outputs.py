"""Where an application writes: checks of its output folder, and the place of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skewless.workloads.trace import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A stream that appends writes a folder for each micro-batch, by the number in this column.
BATCH = "skewless_batch"
_OURS = (".parquet", ".crc", "_SUCCESS")


def ledger_beside(checkpoint: str) -> str:
    """Return the folder of the ledger that goes with a checkpoint.

    >>> ledger_beside("s3a://bucket/words/")
    's3a://bucket/words.ledger'
    """
    return checkpoint.rstrip("/") + ".ledger"


def batch_column(names: Iterable[str] = ()) -> str:
    """Return the column that numbers the micro-batches.

    Raise ValueError if a column of the results, one of `names`, has this name: it would be lost.
    """
    if BATCH in names:
        raise ValueError(
            f"--key: {BATCH!r} cannot be a column here: folders of micro-batches have this name; "
            "rename it"
        )
    return BATCH


def is_begun(checkpoint: str) -> bool:
    """Return whether a stream has used this checkpoint, if that can be seen here."""
    return Path(checkpoint).is_dir() and any(Path(checkpoint).iterdir())


def require_writable(output: str, going_on: bool) -> None:
    """Raise ValueError if results would overwrite other files, if that can be seen here.

    `going_on` says that an earlier run of the same stream has written there already.
    """
    path = Path(output)
    if is_remote(output) or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not going_on:
        raise ValueError(f"--output: {output!r} exists already; give another path or remove it")
    strange = [
        file
        for file in path.rglob("*")
        if not file.name.endswith(_OURS) and not (file.is_dir() and "batch=" in file.name)
    ]
    if not path.is_dir() or strange:
        raise ValueError(f"--output: {output!r} holds files that are not results of an earlier run")


def json_lines(results: DataFrame) -> Iterator[str]:
    """Yield every result as Spark writes it in JSON, with its nulls."""
    from pyspark.sql import functions as F

    for row in results.select(
        F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    ).toLocalIterator():
        yield row[0]

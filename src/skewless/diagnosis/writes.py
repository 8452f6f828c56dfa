"""Writes that shuffle again what was routed: their exchange undoes the balance."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: How plans name what writes. A stage that writes has the first of them as an operator.
WRITES = (
    *("WriteFiles", "Execute", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"),
    *("AtomicReplaceTableAsSelect", "AtomicCreateTableAsSelect", "ReplaceTableAsSelect"),
    *("CreateTableAsSelect", "WriteToDataSourceV2", "WriteToMicroBatchDataSource", "ReplaceData"),
)
#: Operators that leave rows where they are.
_IN_PLACE = (
    *("Project", "Filter", "Sort", "ColumnarToRow", "InputAdapter", "WholeStageCodegen"),
    *("AdaptiveSparkPlan", "ShuffleQueryStage", "ResultQueryStage", "AQEShuffleRead"),
    *("MapInArrow", "SerializeFromObject", "DeserializeToObject", "EvalPython", "== "),
)
#: The exchange of `repartitionById`, by which rows go to the workers that skewless chose.
_OURS = "shufflepartitionidpassthrough"
_TREE = re.compile(r"^[\s:+\-]*(\*\s?\(\d+\)\s*|\*)?")
_LONGEST = 200


class SecondShuffle(NamedTuple):
    """An exchange between our own one and a write."""

    write: str
    exchange: str
    query: str = ""


def second_shuffle(operators: Iterable[str]) -> SecondShuffle | None:
    """Return the exchange that a write adds after ours; None: there is none.

    `operators` are the lines of a physical plan, the write first. Work that keeps keys together,
    such as an aggregation, has an exchange of its own: that is no fault of the write.

    >>> ours = "+- Exchange shufflepartitionidpassthrough(worker), REPARTITION_BY_NUM"
    >>> second_shuffle(["AppendData t", ours]) is None
    True
    >>> second_shuffle(["AppendData t", "+- Exchange hashpartitioning(k)", ours]).exchange
    'Exchange hashpartitioning(k)'
    """
    write, exchanges = shuffles_of(operators)
    is_undone = any(_OURS in exchange for exchange in exchanges[1:])
    return SecondShuffle(write, exchanges[0]) if write and is_undone else None


def is_ours(exchanges: Sequence[str]) -> bool:
    """Return whether rows are where skewless sent them: the last exchange is ours."""
    return bool(exchanges) and _OURS in exchanges[0]


def shuffles_of(operators: Iterable[str]) -> tuple[str, list[str]]:
    """Return the write, and the exchanges below it as far as rows are only sent and sorted."""
    write, exchanges = "", []
    for line in operators:
        text = _TREE.sub("", line).strip()
        if text.startswith("Exchange"):
            exchanges.append(text[:_LONGEST])
            if _OURS in text:
                break
        elif text.startswith(WRITES):
            write = write or text[:_LONGEST]
        elif text and not text.startswith(_IN_PLACE):
            break
    return write, exchanges


def advice(write: str) -> str:
    """Name what keeps a write from shuffling again, by the name of the write or of its format.

    >>> advice("AppendData IcebergWrite(table=db.t, format=PARQUET)")
    "set the table's property write.distribution-mode to none"
    """
    lower = write.lower()
    if "iceberg" in lower:
        return "set the table's property write.distribution-mode to none"
    if "delta" in lower:
        return (
            "set the session's spark.databricks.delta.optimizeWrite.enabled to false, or, if the "
            "session does not set it, the table's property delta.autoOptimize.optimizeWrite"
        )
    return "see which property of the table asks for a distribution of its rows, and turn it off"

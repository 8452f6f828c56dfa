"""Tables of TPC-H in a folder: found before Spark starts, then read by Spark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.apps.records.inputs import Input, find_input
from skewless.workloads.trace import is_remote
from skewless.workloads.trace_files import BY_NAME

#: The columns that query 5 reads, and their types here.
READ = {
    "orders": {"o_orderkey": "bigint", "o_custkey": "bigint", "o_orderdate": "timestamp"},
    "lineitem": {
        "l_orderkey": "bigint",
        "l_suppkey": "bigint",
        "l_extendedprice": "decimal(15,2)",
        "l_discount": "decimal(15,2)",
        "l_shipdate": "timestamp",
    },
    "customer": {"c_custkey": "bigint", "c_nationkey": "bigint"},
    "supplier": {"s_suppkey": "bigint", "s_nationkey": "bigint"},
    "nation": {"n_nationkey": "bigint", "n_name": "string", "n_regionkey": "bigint"},
    "region": {"r_regionkey": "bigint", "r_name": "string"},
}
#: Those that come as streams; the others are known beforehand.
STREAMS = ("orders", "lineitem")
#: All columns of a `.tbl` file, in their order: it has no header.
_TBL = {
    "orders": "orderkey custkey orderstatus totalprice orderdate orderpriority clerk shippriority "
    "comment",
    "lineitem": "orderkey partkey suppkey linenumber quantity extendedprice discount tax "
    "returnflag linestatus shipdate commitdate receiptdate shipinstruct shipmode comment",
    "customer": "custkey name address nationkey phone acctbal mktsegment comment",
    "supplier": "suppkey name address nationkey phone acctbal comment",
    "nation": "nationkey name regionkey comment",
    "region": "regionkey name comment",
}
_ENDINGS = (".parquet", ".tbl", ".csv")
#: The tables by name, with the columns and types of `READ`.
Tables: TypeAlias = dict[str, DataFrame]


@dataclass(frozen=True)
class TableFiles:
    """Where each table is: a file, or a folder of files."""

    path: str  # the folder
    inputs: dict[str, Input]  # the files of each table

    def require_columns(self, names: list[str], option: str) -> None:
        """Raise ValueError unless all tables have the columns that are read."""
        for table, columns in READ.items():
            self.inputs[table].require_columns(list(columns), "--input")

    def require_folder(self) -> None:
        """Raise ValueError unless the tables that come as streams are folders."""
        for table in STREAMS:
            self.inputs[table].require_folder()

    def read(self, spark: SparkSession) -> Tables:
        """Return the tables."""
        return {name: _typed(one.read(spark), name) for name, one in self.inputs.items()}

    def read_stream(self, spark: SparkSession, files_per_batch: int | None = None) -> Tables:
        """Return the tables, with orders and line items as streams."""
        found = {
            name: one.read_stream(spark, files_per_batch) if name in STREAMS else one.read(spark)
            for name, one in self.inputs.items()
        }
        return {name: _typed(rows, name) for name, rows in found.items()}


def find_tables(path: str, format: str = "auto", delimiter: str = BY_NAME) -> TableFiles:
    """Return the tables in a folder; raise ValueError or OSError where one cannot be read.

    A table is a file such as `orders.parquet`, `orders.tbl` or `orders.csv`, or a folder `orders`
    with such files. These are the names that generators of TPC-H use.
    """
    if format != "auto":
        raise ValueError(
            f"--format must be auto here, not {format!r}: file names decide the format of tables"
        )
    if delimiter != BY_NAME:
        raise ValueError("--delimiter cannot be given here: file names decide the format of tables")
    if is_remote(path):
        base = path.rstrip("/")
        return TableFiles(path, {name: Input(f"{base}/{name}", "parquet") for name in READ})
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"--input: there is no folder {path!r}")
    if not folder.is_dir():
        raise ValueError(f"--input must be a folder with the TPC-H tables, and {path!r} is a file")
    return TableFiles(path, {name: _find(folder, name) for name in READ})


def _find(folder: Path, table: str) -> Input:
    there = [folder / f"{table}{ending}" for ending in _ENDINGS]
    found = [place for place in (folder / table, *there) if place.exists()]
    if not found:
        raise ValueError(
            f"--input: {str(folder)!r} has no table {table!r}, which is a folder of that name or "
            f"a file {table}{', '.join(_ENDINGS)}; all of {', '.join(READ)} are needed"
        )
    if len(found) > 1:
        both = " and ".join(repr(place.name) for place in found)
        raise ValueError(f"--input: {str(folder)!r} has the table {table!r} twice: {both}")
    place = found[0]
    if place.suffix == ".tbl" or (place.is_dir() and any(place.glob("*.tbl"))):
        first = place if place.is_file() else min(place.glob("*.tbl"))
        # Each line ends with a separator, so there is one more column, which is empty.
        names = [f"{table[0]}_{name}" for name in _TBL[table].split()]
        return Input(str(place), "csv", "|", first, (*names, "_end"))
    return find_input(str(place))


def _typed(rows: DataFrame, table: str) -> DataFrame:
    return rows.select(*(F.col(name).cast(kind) for name, kind in READ[table].items()))

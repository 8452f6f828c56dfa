"""The tables of TPC-H that its query 5 reads: found in a folder, or made from a seed.

Files are found before Spark starts, then read by Spark. Tables are made with foreign keys by Zipf's
law. The generator is part of the package, unlike other generators of benchmarks, because `skewless
run tpch-q5 --generate` and the benchmark of query 5 both use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from skewless.apps.records.inputs import Input, find_input
from skewless.apps.records.stream_files import event_times, write_stream_pieces
from skewless.arrays import Floats, Ints
from skewless.parameters import check_types, require, require_count
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
_ITEMS_PER_ORDER = 4
_ORDERS_PER_CUSTOMER = 10
_ITEMS_PER_SUPPLIER = 600
_FEWEST = 25  # customers and suppliers: one for each nation
_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
#: The nations of each region, in the order of the regions.
_NATIONS = [
    ["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"],
    ["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"],
    ["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"],
    ["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"],
    ["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"],
]
_MONEY = pa.decimal128(15, 2)


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


@dataclass(frozen=True)
class TpchStream:
    """Orders and line items as streams, with skewed foreign keys; the same seed, the same files.

    All foreign keys follow Zipf's law with exponent `z`: the customers of orders, the suppliers of
    line items, and the orders of line items. In TPC-H a line item ships up to four months after its
    order. Here it ships up to `span` seconds after it. So the hot orders keep changing. Orders and
    line items come at a constant rate.
    """

    # Line items. There is an order for every four of them, a customer for every 40, and a supplier
    # for every 600, as in TPC-H.
    n_items: int = 100_000
    z: float = 0.8  # the exponent
    seconds: int = 900  # how long the streams last, in event time
    span: int = 300  # for how many seconds line items of an order come
    # Micro-batches, and files of each table in a micro-batch.
    n_batches: int = 12
    n_files: int = 2
    seed: int = 0  # of all draws

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "z", 0 <= self.z <= 10, "at least 0 and at most 10")
        require_count(self, "seconds", "span", "n_batches", "n_files")
        least = self.fewest(self.n_files, self.n_batches)
        require(self, "n_items", self.n_items >= least, f"at least one order per file, {least}")
        require(self, "seed", self.seed >= 0, "at least 0")

    @staticmethod
    def fewest(n_files: int, n_batches: int = 12) -> int:
        """Return the fewest line items: an order for each file."""
        return _ITEMS_PER_ORDER * n_batches * n_files

    @property
    def n_orders(self) -> int:
        """How many orders there are."""
        return self.n_items // _ITEMS_PER_ORDER

    @property
    def n_customers(self) -> int:
        """How many customers there are."""
        return max(self.n_orders // _ORDERS_PER_CUSTOMER, _FEWEST)

    @property
    def n_suppliers(self) -> int:
        """How many suppliers there are."""
        return max(self.n_items // _ITEMS_PER_SUPPLIER, _FEWEST)

    def orders(self) -> pa.Table:
        """Return all orders."""
        rng = np.random.default_rng([self.seed, 0])
        return pa.table(
            {
                "o_orderkey": np.arange(1, self.n_orders + 1),
                "o_custkey": self._skewed(rng, self.n_orders, self.n_customers),
                "o_orderdate": event_times(self.n_orders, self.seconds),
            }
        )

    def line_items(self) -> pa.Table:
        """Return all line items."""
        rng = np.random.default_rng([self.seed, 1])
        return pa.table(
            {
                "l_orderkey": self._recent_orders(rng),
                "l_suppkey": self._skewed(rng, self.n_items, self.n_suppliers),
                "l_extendedprice": _money(rng.integers(90_000, 10_500_000, self.n_items)),
                "l_discount": _money(rng.integers(0, 11, self.n_items)),
                "l_shipdate": event_times(self.n_items, self.seconds),
            }
        )

    def write(self, folder: Path) -> None:
        """Write a folder for each table; the streams are cut into files by time."""
        for name, table in (("orders", self.orders()), ("lineitem", self.line_items())):
            size = table.num_rows
            write_stream_pieces([table], size, folder / name, self.n_batches, self.n_files)
        for name, table in self._known().items():
            (folder / name).mkdir()
            pq.write_table(table, folder / name / f"{name}.parquet")

    def _known(self) -> dict[str, pa.Table]:
        """Return the tables that do not change."""
        rng = np.random.default_rng([self.seed, 2])
        n_nations = sum(map(len, _NATIONS))
        nations = [(name, region) for region, names in enumerate(_NATIONS) for name in names]
        tables = {
            name: pa.table(
                {
                    f"{name[0]}_{key}": np.arange(1, n + 1),
                    f"{name[0]}_nationkey": rng.integers(0, n_nations, n),
                }
            )
            for name, key, n in (
                ("customer", "custkey", self.n_customers),
                ("supplier", "suppkey", self.n_suppliers),
            )
        }
        named = {
            "n_nationkey": np.arange(n_nations),
            "n_name": [name for name, _ in nations],
            "n_regionkey": pa.array([region for _, region in nations], pa.int64()),
        }
        regions = {"r_regionkey": np.arange(len(_REGIONS)), "r_name": _REGIONS}
        return {**tables, "nation": pa.table(named), "region": pa.table(regions)}

    def _skewed(self, rng: np.random.Generator, n: int, n_keys: int) -> Ints:
        """Return keys from 1 on, whose ranks are shuffled."""
        weights = np.cumsum(self._weights(rng, n_keys))
        ranks: Ints = 1 + np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
        return ranks

    def _recent_orders(self, rng: np.random.Generator) -> Ints:
        """Return for each line item an order that came at most `span` before it.

        The orders of each span have all ranks, so at any time their shares follow Zipf's law.
        """
        n_recent = max(1, self.n_orders * self.span // self.seconds)
        starts = range(0, self.n_orders, n_recent)
        drawn = [self._weights(rng, n_recent) for _ in starts]
        until = np.concatenate([[0.0], np.cumsum(np.concatenate(drawn)[: self.n_orders])])
        # Both come at a constant rate, so this many orders precede line item i.
        there = np.arange(self.n_items) * self.n_orders // self.n_items + 1
        first = until[np.maximum(there - n_recent, 0)]
        place = first + rng.random(self.n_items) * (until[there] - first)
        orders: Ints = np.clip(np.searchsorted(until, place, side="right"), 1, there)
        return orders

    def _weights(self, rng: np.random.Generator, n: int) -> Floats:
        weights: Floats = rng.permutation(np.arange(1.0, n + 1) ** -self.z)
        return weights


def _money(cents: Ints) -> pa.Array:
    """Return hundredths as decimal numbers; they must not be negative."""
    words = np.zeros((cents.size, 2), np.int64)  # 16 bytes each, the lower half first
    words[:, 0] = cents
    return pa.Array.from_buffers(_MONEY, cents.size, [None, pa.py_buffer(words)])

"""What a batch DataFrame is computed from: whether it is cheap to read, and in the same order.

It is read from the text of Spark's optimized plan, which the classic session and Spark Connect both
have. An operator that is not known here counts as expensive, and its order as one that may change.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

#: Operators that Spark computes record by record, in the order of the input.
_NARROW = frozenset({"Filter", "Generate", "Project", "Sample", "Union"})
#: The same, and scans, in the plan of cached data.
_NARROW_PHYSICAL = _NARROW | {"ColumnarToRow", "FileScan", "LocalTableScan", "Range", "Scan"}
_LOCAL = frozenset({"LocalRelation", "OneRowRelation", "Range"})
_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
#: Tables of catalogs. They are scans, but nothing says in which order they are read again.
_TABLES = frozenset({"HiveTableRelation", "RelationV2"})
_CACHED = "InMemoryRelation"
#: What may give other rows when it is computed again; a cast hides that a sum has fractions.
_CHANGING = re.compile(
    r"^(GlobalLimit|LocalLimit|Offset|Sample)\b|\b(first|last|nth_value|any_value|lag|lead|ntile|"
    r"row_number|mode|max_by|min_by|collect_list|collect_set|listagg|rand|randn|randstr|uuid|"
    r"shuffle|percentile_approx|approx_percentile|approx_top_k|histogram_numeric|\w+_sketch_agg\w*|"
    r"monotonically_increasing_id|spark_partition_id|cast\((sum|avg|stddev\w*|var\w*))\("
)
_LINE = re.compile(r"(?P<depth>[\s:|+*-]*)(\*?\(\d+\) )?(?P<name>\w+)(?P<about>.*)")
_MOST_FIELDS = "spark.sql.debug.maxToStringFields"
#: Above the parsed, the analyzed, the optimized and the physical plan, as `explain` prints them.
_HEADING = re.compile(r"^== .* Plan ==$", re.MULTILINE)


class Input(NamedTuple):
    """What is known about the records before they are read."""

    is_cheap: bool  # a scan, with filters and projections in the JVM, or cached data
    repeats: bool  # a task that runs again reads its records in the same order
    changes: bool = False  # computed again, there may be other records
    is_live: bool = False  # a database, a topic or a table that may have changed by then


def input_of(df: DataFrame) -> Input:
    """Read what a batch DataFrame is computed from; nothing is run."""
    with _all_fields(df):
        # The plan of `df` itself may be older than its cache.
        df = df.select("*")
        found = input_of_plan(logical_plan(df, "optimizedPlan"))
    if found.repeats or not hasattr(df, "_jdf"):
        return found
    # A function of the user that is not deterministic has any name.
    is_deterministic = df._jdf.queryExecution().optimizedPlan().deterministic()
    return found._replace(changes=found.changes or not is_deterministic)


def input_of_plan(plan: str) -> Input:
    """Read from an optimized plan what a batch is computed from.

    >>> input_of_plan("Filter (id#0L > 3)\\n+- Relation [id#0L,k#1] parquet")
    Input(is_cheap=True, repeats=True, changes=False, is_live=False)
    >>> input_of_plan("GlobalLimit 9\\n+- Relation [id#0L,k#1] parquet")
    Input(is_cheap=False, repeats=False, changes=True, is_live=False)
    """
    is_cheap = repeats = True
    changes = is_live = False
    cached: int | None = None  # the depth of cached data; what is below it is not computed again
    for depth, name, about in _operators(plan):
        if cached is not None and depth > cached:
            is_narrow = name in _NARROW_PHYSICAL or name.startswith("InMemory")
            # A scan without a format may be of an RDD, which is computed in any order.
            is_rdd = name == "Scan" and about.split(" ")[0].lower() not in _FILES
            repeats = repeats and is_narrow and not is_rdd
            continue
        cached = depth if name == _CACHED else None
        is_file = name == "Relation" and about.split(" ")[-1].lower() in _FILES
        is_known = is_file or name in _NARROW or name in _LOCAL or name == _CACHED
        is_cheap, repeats = is_cheap and (is_known or name in _TABLES), repeats and is_known
        changes = changes or _CHANGING.search(f"{name} {about}") is not None
        is_live = is_live or name in _TABLES or (name == "Relation" and not is_file)
    # Over records that repeat, places and draws repeat, too.
    return Input(is_cheap, repeats, changes and not repeats, is_live)


def drops_records(df: DataFrame) -> bool:
    """Return whether few of the records that are read may be left: a filter, for example."""
    plan = logical_plan(df, "optimizedPlan")
    return any(name in ("Filter", "Generate", "Sample") for _, name, _ in _operators(plan))


def records_by_footer(df: DataFrame) -> float | None:
    """Estimate the records of Parquet files by the footer of the first; None for other sources."""
    jvm: Any = df.sparkSession._jvm
    plan = df._jdf.queryExecution().optimizedPlan()
    *others, (_, name, about) = list(_operators(str(plan.toString())))
    is_parquet = name == "Relation" and about.split(" ")[-1].lower() == "parquet"
    files: Any = df._jdf.inputFiles() if is_parquet else ()
    if len(files) == 0 or any(name != "Project" for _, name, _ in others):
        return None
    # An address: in a path as text, "%20" would be three characters of a name.
    path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(files[0]))
    parquet = jvm.org.apache.parquet.hadoop
    conf = df.sparkSession._jsparkSession.sessionState().newHadoopConf()
    try:
        file = parquet.util.HadoopInputFile.fromPath(path, conf)
        reader = parquet.ParquetFileReader.open(file)
        try:
            n_records = reader.getRecordCount()
        finally:
            reader.close()
    except Py4JJavaError:  # the job will say what is wrong with the file
        return None
    n_bytes = int(str(plan.collectLeaves().head().stats().sizeInBytes()))
    return float(n_records * n_bytes / max(1, file.getLength()))


def _operators(plan: str) -> Iterator[tuple[int, str, str]]:
    for line in plan.splitlines():
        found = _LINE.fullmatch(line)
        if found is not None:
            yield len(found["depth"]), found["name"], found["about"].rstrip()
        elif line.strip():
            yield 0, "", ""


@contextlib.contextmanager
def _all_fields(df: DataFrame) -> Iterator[None]:
    """Let Spark print all columns of a plan, and not only the first 25."""
    settings = df.sparkSession.conf
    before = settings.get(_MOST_FIELDS)
    settings.set(_MOST_FIELDS, str((1 << 31) - 1))
    try:
        yield
    finally:
        settings.set(_MOST_FIELDS, before)  # type: ignore[arg-type]


def logical_plan(df: DataFrame, which: Literal["analyzed", "optimizedPlan"]) -> str:
    """Return one of the plans of a DataFrame, with classic sessions and Connect."""
    if hasattr(df, "_jdf"):
        return str(getattr(df._jdf.queryExecution(), which)().toString())
    text: str = df._explain_string(extended=True)  # type: ignore[operator]
    return _HEADING.split(text)[2 if which == "analyzed" else 3]


def physical_plan(df: DataFrame) -> str:
    """Return the plan that `explain` prints, by public means, with classic sessions and Connect."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        df.explain()
    return text.getvalue()

"""The Python API on Spark under random arguments: queries are built, and hardly any runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F

from fuzz.cases import NASTY, cases, report, told, wrong_with
from skewless import aggregations as aggs
from skewless.spark import (
    BalanceListener,
    KeyProcessor,
    Window,
    aggregate,
    configure,
    deduplicate,
    explain_balance,
    explain_write,
    hot_keys,
    join,
    observe_hot_keys,
    observed_hot_keys,
    plan_join,
    process,
    read_state,
    route,
    savepoint,
    scale_to,
    sessions,
    top_n,
)
from skewless.spark.session_arguments import require_session

pytestmark = pytest.mark.spark
DDL = "k string, v bigint, w double, ts timestamp, m map<string,int>, twice int, Twice int"


@pytest.fixture(scope="module")
def frames(spark: Any) -> dict[str, DataFrame]:
    empty: DataFrame = spark.createDataFrame([], DDL)
    stream = spark.readStream.format("rate").load()
    stream = stream.selectExpr("string(value) k", "value v", "double(value) w", "timestamp ts")
    return {"batch": empty, "stream": stream}


def spark_values(spark: Any) -> list[Any]:
    array = F.array(F.lit(1), F.lit(2))
    return [
        *(
            F.col("k"),
            F.col("v") + 1,
            F.col("none"),
            F.col("*"),
            F.lit(None),
            F.sum("v"),
            F.count("*"),
        ),
        *(F.explode(array), F.posexplode(array), F.json_tuple("k", "a", "b"), F.rand(), F.col("m")),
        *(F.row_number().over(Frame.orderBy("v")), spark.range(2)["id"], spark.range(2), spark),
        *([F.col("k"), "v"], ["k", "K"], "twice", ["v", "twice"], "m", {"n": aggs.sum("twice")}),
        *(
            {"n": aggs.count(), "k": aggs.count()},
            {5: aggs.count()},
            {"n": F.sum("v")},
            aggs.count(),
        ),
        *(
            {"n": aggs.collect("m")},
            {"n": aggs.variance("v"), "d": aggs.distinct("v", exact=False)},
        ),
        *(Window("ts", "1 minute"), Window("m", "1 day"), ("ts", "1 day", "1 hour", "5 hours")),
    ]


def nothing() -> KeyProcessor:
    """Return a processor that is never run."""

    class Nothing(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "n bigint"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            return [], None

    return Nothing()


ARGUMENTS: dict[Callable[..., Any], dict[str, Any]] = {
    route: {
        **{"df": None, "key": "k", "strategy": "pkg", "workers": 2, "weight": None, "seed": 0},
        **{"ledger": None, "max_workers": 2, "column": "worker"},
    },
    aggregate: {
        **{"df": None, "key": "k", "aggs": {"n": aggs.count()}, "window": None, "watermark": None},
        **{
            "strategy": "auto",
            "workers": 2,
            "weight": None,
            "seed": 0,
            "ledger": None,
            "max_workers": 2,
            "mode": None,
        },
    },
    process: {
        **{"df": None, "key": "k", "processor": nothing(), "strategy": "hash", "workers": 2},
        **{"max_workers": 2, "watermark": None, "order_by": None, "interval": 1},
        **{"cost": "records", "seed": 0, "ledger": "nowhere", "initial_state": None},
    },
    deduplicate: {
        **{"df": None, "key": "k", "within": "1 hour", "watermark": ("ts", "1 minute")},
        **{"workers": 2, "strategy": "hash", "ledger": "nowhere"},
    },
    sessions: {
        **{"df": None, "key": "k", "gap": "1 hour", "aggs": None, "watermark": ("ts", "1 minute")},
        **{"workers": 2, "strategy": "hash", "ledger": "nowhere"},
    },
    top_n: {
        **{"df": None, "key": "k", "by": "v", "n": 3, "order_by": None},
        **{"workers": 2, "strategy": "hash", "ledger": "nowhere"},
    },
    join: {
        **{"left": None, "right": None, "on": "k", "within": "1 hour", "how": "left"},
        **{"watermark": ("ts", "1 minute"), "right_time": None, "suffix": "_"},
        **{"workers": 2, "strategy": "hash", "ledger": "nowhere"},
    },
    plan_join: {
        **{"left": None, "right": None, "on": "k", "how": "left", "workers": 2, "seed": 0},
        **{"untrusted_keys": None},
    },
    read_state: {"spark": None, "ledger": "nowhere", "batch": None},
    savepoint: {"ledger": "nowhere", "checkpoint": "nowhere", "to": "empty"},
    scale_to: {"ledger": "nowhere", "n": 2},
    hot_keys: {
        **{
            "df": None,
            "key": "k",
            "workers": 2,
            "strategies": "pkg",
            "sample": 9,
            "top": 3,
            "seed": 0,
        }
    },
    observe_hot_keys: {"df": None, "key": "k", "name": "seen", "top": 3},
    observed_hot_keys: {"progress": {"observedMetrics": {}}, "name": "seen", "workers": 2},
    explain_balance: {"query": "nowhere", "ledger": None, "spark": None},
    explain_write: {"df": None, "table": "nowhere"},
    BalanceListener: {"ledger": "nowhere"},
    configure: {"builder": None},
    Window: {"time": "ts", "size": "1 minute", "slide": "10 seconds", "offset": None},
    require_session: {"name": "x", "master": "local[2]", "memory": "1g", "settings": None},
}
PROCESSING = (process, deduplicate, sessions, top_n, join, plan_join)
#: Other names under which a message may speak of an argument.
ALSO = {
    "df": ["key"],
    "left": ["key", "on"],
    "right": ["left", "on"],
    "on": ["key"],
    "query": ["ledger"],
    "time": ["window"],
    "size": ["window"],
    "aggs": ["aggs", "column"],
}


def drawn(rng: random.Random, frames: dict[str, DataFrame], pool: list[Any]) -> Any:
    """Return a function, its arguments, and the names of those that are nasty."""
    function = rng.choice([route, aggregate, process, *ARGUMENTS])
    given = dict(ARGUMENTS[function])
    if "df" in given:
        given["df"] = frames[rng.choice(["batch", "batch", "stream"])]
    if "left" in given:
        given["left"] = given["right"] = frames["batch" if function is plan_join else "stream"]
    if function is read_state:
        given["spark"] = frames["batch"].sparkSession
    names = rng.sample(sorted(given), min(len(given), rng.choice([1, 1, 2])))
    given |= {name: rng.choice(pool) for name in names}
    return function, given, names


def test_calls_work_or_refuse_their_arguments_by_name(
    spark: Any, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("skewless.spark.diagnosis.hot_keys.predict", lambda *_, **__: ())
    pool = NASTY + 3 * spark_values(spark)
    found = []
    for number, rng in cases("spark", 120):
        function, given, names = drawn(rng, frames, pool)
        # Some functions refuse, with good reason, what is valid for others.
        known = [*names, *(other for name in names for other in ALSO.get(name, []))]
        known += ["df is a stream"] * (function is hot_keys) + ["there is no ledger"]
        # A processor and a table get all columns, so two of one name are too many.
        known += ["column 'twice' is ambiguous"] * (function in (*PROCESSING, explain_write))
        known += ["holds no state"] * (function in (read_state, scale_to))
        known += ["no committed micro-batch"] * (function is savepoint)
        known += ["no observation"] * (function is observed_hot_keys)
        times = {"watermark", "window", "mode"}
        known += sorted(times) * bool(times & set(names))
        wrong = wrong_with(lambda: function(**given), known)  # noqa: B023
        if wrong is not None:
            shown = ", ".join(f"{name}={told(given[name])}" for name in names)
            found.append((number, f"{function.__name__}({shown})", wrong))
    assert not found, report("spark", found)

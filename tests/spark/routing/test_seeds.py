"""The seed: not the same for every job, the same for every attempt and every run of one job."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lanes import slow
from reference.kernels.hashing import TWO_TO_32, seeded, seeds
from skewless.arrays import Keys
from skewless.keys import hash_keys
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.query_ledger import kept_seed
from skewless.spark.routing.route import make_router, route
from skewless.spark.routing.seeds import draw_seed, seed_of_query
from skewless.strategies import Hash
from spark.streams import read_stream, run, write_file

N_WORKERS = 4
FIRST = TWO_TO_32 // N_WORKERS  # halves of a hash below this mean the first worker
IDENTITY = {"strategy": "hash", "workers": N_WORKERS, "seed": 7}


def on_the_first_worker(n_candidates: int, seed: int) -> Any:
    """Return numbers, as keys, both of whose hashed workers are the first, under a known seed."""
    (mixed,) = seeds(seed, 1)
    keys = hash_keys(list(range(n_candidates))).tolist()
    halves = [divmod(seeded(key, mixed), TWO_TO_32) for key in keys]
    return np.array([number for number, pair in enumerate(halves) if max(pair) < FIRST])


def by_hash(numbers: Any, seed: int) -> dict[int, int]:
    keys: Keys = hash_keys(numbers)
    out = np.empty(keys.size, np.int32)
    Hash().route(keys, Hash().start(N_WORKERS, seed), out)
    return dict(zip(numbers.tolist(), out.tolist(), strict=True))


# Without Spark


def test_drawn_seeds_differ_and_a_query_has_one() -> None:
    drawn = {draw_seed() for _ in range(100)}
    assert len(drawn) == 100
    assert all(0 <= seed < 2**63 for seed in drawn)
    assert seed_of_query("a") == seed_of_query("a") != seed_of_query("b")
    assert 0 <= seed_of_query("a") < 2**63


def test_a_ledger_keeps_the_first_seed_that_was_drawn(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger"))
    assert kept_seed(ledger) is None
    ledger.claim(IDENTITY, drawn=("seed",))
    ledger.claim(IDENTITY | {"seed": 8}, drawn=("seed",))
    assert ledger.check(IDENTITY | {"seed": 9}, drawn=("seed",))
    assert kept_seed(ledger) == 7
    for refused in (ledger.claim, ledger.check):
        with pytest.raises(LedgerMismatch, match="was written for seed=7, not 8"):
            refused(IDENTITY | {"seed": 8})
        with pytest.raises(LedgerMismatch, match="was written for workers=4, not 5"):
            refused(IDENTITY | {"workers": 5}, drawn=("seed",))


@pytest.mark.parametrize("seed", [-1, 0.5, "7", True, [7]])
def test_a_ledger_with_a_seed_that_is_none_is_refused(tmp_path: Path, seed: Any) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.claim(IDENTITY)
    file = tmp_path / "identity.json"
    content = json.loads(file.read_text())
    content["identity"]["seed"] = seed
    file.write_text(json.dumps(content))
    with pytest.raises(LedgerCorrupt, match=r"identity\.json.*(seed must be a whole|'seed' is no)"):
        kept_seed(ledger)


# Batch jobs


@pytest.mark.spark
def test_keys_chosen_against_the_seed_0_are_spread_without_a_given_one(spark: Any) -> None:
    numbers = on_the_first_worker(40_000, seed=0)
    assert numbers.size > 2_000
    df = spark.createDataFrame(pa.table({"k": numbers}))
    for name in ("hash", "pkg"):
        shares = {}
        for seed in (0, None):
            routed = route(df, "k", strategy=name, workers=N_WORKERS, seed=seed)
            counts = dict(routed.groupBy("worker").count().collect())
            shares[seed] = max(counts.values()) / numbers.size
        assert shares[0] == 1.0
        assert shares[None] < 0.4  # a fair share is 0.25


@pytest.mark.spark
def test_the_logged_seed_repeats_a_batch_job(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    df = spark.range(0, 500, 1, 2).withColumn("k", F.col("id") * F.col("id") % 97)

    def routed(**options: Any) -> list[Any]:
        chosen = route(df, "k", strategy="pkg", workers=N_WORKERS, **options)
        rows = sorted(map(tuple, chosen.collect()))
        if not options:  # drawn once, however often it runs
            assert rows == sorted(map(tuple, chosen.collect()))
        return rows

    with caplog.at_level(logging.INFO, logger="skewless"):
        runs = [routed(), routed()]
    lines = [record.getMessage() for record in caplog.records if record.name == "skewless"]
    assert len(lines) == 2
    logged = [int(re.findall(r"seed=(\d+)", line)[0]) for line in lines]
    assert runs[0] != runs[1]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="skewless"):
        assert [routed(seed=seed) for seed in logged] == runs
    assert not [record for record in caplog.records if record.name == "skewless"]


# Streams


def routed_stream(spark: Any, folder: Path, **options: Any) -> DataFrame:
    stream = read_stream(spark, folder, "k bigint", files=1)
    return route(stream, "k", strategy="hash", workers=N_WORKERS, **options)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["given", *slow(["of the query", "none"])])
@pytest.mark.filterwarnings("ignore:no ledger")
def test_a_restarted_stream_keeps_its_seed(spark: Any, tmp_path: Path, kind: str) -> None:
    numbers = np.arange(200)
    ledger = {"ledger": str(tmp_path / "ledger")} if kind == "given" else {}
    if kind == "of the query":
        spark.conf.set("spark.skewless.ledger", str(tmp_path / "ledger"))
    try:
        batches: dict[int, list[Any]] = {}
        (tmp_path / "in").mkdir()
        built_before = routed_stream(spark, tmp_path / "in", **ledger)  # draws a seed, too
        for batch in range(3):
            write_file(tmp_path / "in", batch, pa.table({"k": numbers}))
            stream = built_before if batch == 2 else routed_stream(spark, tmp_path / "in", **ledger)
            batches |= run(stream, "append", tmp_path / "checkpoint")
    finally:
        spark.conf.unset("spark.skewless.ledger")
    found = [{row["k"]: row["worker"] for row in batches[batch]} for batch in range(3)]
    assert found[0] == found[1] == found[2]
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    folder = tmp_path / "ledger" / (query if kind == "of the query" else "")
    seed = seed_of_query(query) if kind == "none" else kept_seed(Ledger(str(folder)))
    assert seed is not None
    assert found[0] == by_hash(numbers, seed)
    assert seed > 2**20  # drawn: smaller ones are as good as never


@pytest.mark.spark
def test_a_given_seed_is_part_of_what_a_ledger_is_for(spark: Any, tmp_path: Path) -> None:
    stream = read_stream(spark, tmp_path, "k bigint")

    def query(seed: int | None) -> Any:
        given = routing_arguments(stream, workers=2, seed=seed, ledger=str(tmp_path / "ledger"))
        return make_router(stream, Records.of(stream).by("k").key, "hash", given).query

    first = query(None)
    first.ledger.claim(first.identity, drawn=("seed",))
    kept = first.identity["seed"]
    assert query(None).identity == first.identity
    assert query(kept).identity == first.identity
    with pytest.raises(LedgerMismatch, match=f"was written for seed={kept}, not 0"):
        query(0)

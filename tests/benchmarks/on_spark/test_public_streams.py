"""The streams of the public workloads: the same from the same seed, with the published skew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from benchmarks.public.auctions import NOBODY, Auctions
from benchmarks.public.shufflebench import Rules, ShuffleRecords

EVENTS = Auctions(n_events=50_000)


def test_the_same_seed_makes_the_same_events() -> None:
    other = Auctions(n_events=50_000, seed=1)
    for name in ("persons", "auctions", "bids"):
        table = getattr(EVENTS, name)()
        assert table.equals(getattr(Auctions(n_events=50_000, n_batches=9), name)())
        assert not table.equals(getattr(other, name)())


def test_one_event_in_fifty_is_a_person_and_three_are_auctions() -> None:
    assert EVENTS.persons().num_rows == 1000
    assert EVENTS.auctions().num_rows == 3000
    assert EVENTS.bids().num_rows == 46_000
    assert EVENTS.auctions()["id"].to_pylist() == list(range(1000, 4000))


def share_of_hot(named: np.ndarray, latest: np.ndarray, which: int = 0) -> float:
    return float(np.mean(named == latest // 100 * 100 + which + 1000))


def test_the_hot_ones_get_their_share() -> None:
    """Ratio r: all but one in r records. Four standard errors: 0.032 and, for bids, 0.009."""
    auctions, bids = EVENTS.auctions(), EVENTS.bids()
    cycle = np.arange(3000) // 3
    assert abs(share_of_hot(auctions["seller"].to_numpy(), cycle) - 0.75) < 0.04
    cycle = np.arange(46_000) // 46
    assert abs(share_of_hot(bids["bidder"].to_numpy(), cycle, 1) - 0.75) < 0.02
    assert abs(share_of_hot(bids["auction"].to_numpy(), cycle * 3 + 2) - 0.5) < 0.02
    known = np.isin(bids["channel"].to_numpy(), ["Apple", "Google", "Facebook", "Baidu"])
    assert abs(known.mean() - 0.5) < 0.02


def test_files_are_cut_by_time_and_two_close_the_windows(tmp_path: Path) -> None:
    stream = Auctions(n_events=1000, n_batches=3)
    stream.write(tmp_path)
    sizes = []
    for name in ("persons", "auctions", "bids"):
        files = sorted((tmp_path / name).iterdir(), key=lambda file: file.stat().st_mtime)
        tables = [pq.read_table(file) for file in files]
        assert len(tables) == 5
        sizes.append([table.num_rows for table in tables])
        times = [moment for table in tables for moment in table["ts"].to_pylist()]
        assert times == sorted(set(times))
        last = tables[-1].to_pylist()[0]
        assert NOBODY in (last.get("id"), last.get("auction"))
    assert [sum(column) for column in zip(*sizes, strict=True)] == [333, 333, 334, 3, 3]


def test_records_reach_consumers_by_their_selectivity() -> None:
    stream, rules = ShuffleRecords(n_records=20_000, n_batches=2), Rules(n_consumers=1000)
    assert stream.records(1).equals(ShuffleRecords(n_records=20_000, n_batches=2).records(1))
    values = stream.records(0)["value"].combine_chunks()
    rows, consumers = rules.match(values)
    found = np.bincount(consumers, minlength=1000) / 10_000
    assert np.abs(found - rules.selectivities()).max() < 4 * np.sqrt(0.2 * 0.8 / 10_000)
    assert abs(rows.size / 10_000 - 1.5) < 0.04  # four standard errors: 4 · sqrt(4 · 0.24 / 10,000)
    assert np.bincount(rows).max() <= 4
    assert {len(value) for value in values.to_pylist()} == {1024}


def test_a_rule_is_a_range_of_a_number_of_the_record() -> None:
    rules = Rules(n_consumers=8, z=0.0, matches=4.0)
    numbers = np.array([[0, 2**63, 2**64 - 1, 2**63 - 1]], "<u8")
    value = numbers.tobytes() + bytes(992)
    rows, consumers = rules.match(pa.array([value]))
    assert rows.tolist() == [0, 0, 0, 0]
    assert consumers.tolist() == [0, 5, 6, 3]  # the lower half or the upper half of each number

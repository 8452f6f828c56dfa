"""The balance of a batch, from what its tasks report."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless import metrics
from skewless.diagnosis.advice import HotKey
from skewless.spark.aggregation import combining
from skewless.spark.balance.balance import batch_balance
from skewless.spark.ledger.ledger import Entry, LedgerCorrupt
from spark.balance.reports import report_of, source, worker


@given(
    st.lists(st.tuples(st.sampled_from([*"abcdefghijkl", None]), st.integers(0, 2)), max_size=60)
)
def test_the_balance_is_what_counting_by_hand_gives(
    records: list[tuple[str | None, int]],
) -> None:
    by_worker = [[key for key, at in records if at == number] for number in range(3)]
    loads = [len(keys) for keys in by_worker]
    entries = {number: worker(keys, number + 1.0) for number, keys in enumerate(by_worker)}
    balance = batch_balance(7, 3, {0: source(*loads)}, entries)

    places = {key: {at for k, at in records if k == key} for key, _ in records}
    n_pairs = sum(len(at) for at in places.values())
    assert (balance.batch, balance.records) == (7, len(records))
    assert [row.records for row in balance.workers] == loads
    assert [row.seconds for row in balance.workers] == [1.0, 2.0, 3.0]
    assert [row.pairs for row in balance.workers] == [len(set(keys)) for keys in by_worker]
    assert balance.imbalance == metrics.imbalance(loads)
    assert balance.seconds_imbalance == metrics.imbalance([1, 2, 3])
    assert balance.keys == len(places)
    assert balance.replication == (n_pairs / len(places) if places else 1.0)
    assert balance.keys_split == sum(len(at) > 1 for at in places.values())
    assert balance.replication_exact is True

    # A worker tells its five heaviest: a key counts where it is one of them.
    told: Counter[str] = Counter()
    for entry in entries.values():
        told.update({text: count for text, count, _ in entry.about["top"]})
    heaviest = balance.hot_keys or ()
    assert [key.records for key in heaviest] == sorted(told.values(), reverse=True)[:10]
    counts = Counter("null" if key is None else key for key, _ in records)
    for hot in heaviest:
        assert hot.records == told[hot.key] <= counts[hot.key]
        assert hot.share == hot.records / len(records)
        assert hot.workers is not None
        assert 1 <= hot.workers <= len(places[None if hot.key == "null" else hot.key])


def test_without_reports_of_workers_the_loads_of_the_sources_tell_what_they_can() -> None:
    balance = batch_balance(0, 3, {0: source(1, 2, 0), 5: source(5, 0, 1)}, {})
    assert [(row.records, row.seconds, row.pairs) for row in balance.workers] == [
        (6, None, None),
        (2, None, None),
        (1, None, None),
    ]
    assert (balance.records, balance.imbalance) == (9, 1.0)
    assert balance.seconds_imbalance is balance.replication is balance.keys is None
    assert balance.keys_split is balance.replication_exact is balance.hot_keys is None


def test_a_batch_whose_workers_still_run_is_not_told_by_those_that_are_done() -> None:
    running = batch_balance(0, 3, {0: source(2, 2, 0)}, {0: worker(["a", "a"])})
    assert [row.records for row in running.workers] == [2, 2, 0]
    assert running.replication is None
    # The third worker has no records, so nobody waits for it.
    done = batch_balance(0, 3, {0: source(2, 2, 0)}, {0: worker(["a", "a"]), 1: worker(["a", "b"])})
    assert [row.records for row in done.workers] == [2, 2, 0]
    assert (done.keys, done.replication, done.keys_split) == (2, 1.5, 1)


def test_a_sample_of_the_keys_gives_an_estimate_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    # 20,000 keys, each on one worker, and 10,000 of them on the next as well; sizes differ, so
    # the workers sample by different rates.
    keys = np.array([f"key {number}" for number in range(20_000)])
    first = rng.choice(3, keys.size, p=[0.6, 0.3, 0.1])
    by_worker = [
        [*keys[first == number], *keys[:10_000][first[:10_000] == (number + 1) % 3]]
        for number in range(3)
    ]
    monkeypatch.setattr(combining, "_REPORTED_KEYS", 2_000)
    entries = {number: worker(keys_there) for number, keys_there in enumerate(by_worker)}
    assert len({entry.about["sampled_by"] for entry in entries.values()}) > 1
    balance = batch_balance(0, 3, {0: source(*map(len, by_worker))}, entries)

    assert balance.replication_exact is False
    assert [row.pairs for row in balance.workers] == [len(keys) for keys in by_worker]
    # The sample has 20,000 / 8 keys or more, of which half are split: a binomial share with
    # standard deviation 0.01; five of them.
    assert balance.replication == pytest.approx(1.5, abs=0.05)
    assert balance.keys == pytest.approx(20_000, rel=0.05 / 1.5)
    assert balance.keys_split == pytest.approx(10_000, rel=0.1)


def test_a_batch_without_records_is_in_balance() -> None:
    balance = batch_balance(3, 2, {}, {0: worker([]), 1: worker([])})
    assert (balance.records, balance.imbalance, balance.replication) == (0, 0.0, 1.0)
    assert balance.hot_keys == ()
    assert batch_balance(3, 2, {}, {}).imbalance == 0.0


def test_times_beyond_the_dates_of_python_are_told_as_text() -> None:
    far = 410_000_000_000_000_000  # in microseconds
    times = pa.array([far, far, far, 0, 0, None]).cast(pa.timestamp("us", "UTC"))
    dates = pa.array([5_000_000, None, 0], pa.int32()).cast(pa.date32())
    structs = pa.StructArray.from_arrays([times[:1]], ["at"])
    assert [text for text, _, _ in report_of(times).about["top"]] == [
        "14962-05-20 08:53:20.000000Z",
        "1970-01-01 00:00:00+00:00",
        "null",
    ]
    assert {text for text, _, _ in report_of(dates).about["top"]} == {
        "15659-07-15",
        "1970-01-01",
        "null",
    }
    ((text, _, _),) = report_of(structs).about["top"]
    assert "cannot hold" in text


@pytest.mark.parametrize(("seconds", "told"), [(0.04, None), (0.05, 0.5)])
def test_times_too_short_to_compare_are_not_compared(seconds: float, told: float | None) -> None:
    entries = {0: worker(["a"], seconds), 1: worker(["b"], seconds / 3)}
    balance = batch_balance(0, 2, {0: source(1, 1)}, entries)
    assert balance.seconds_imbalance == (told and pytest.approx(told))


def hidden_share() -> dict[int, Entry]:
    """Return reports of two workers; the heaviest key of all is the lightest on the second one."""
    others = [f"{number:02}" for number in range(30) for _ in range(5)]
    return {0: worker(["hot"] * 9 + ["a"]), 1: worker(["hot"] * 3 + others)}


def test_records_of_the_heaviest_key_are_exact() -> None:
    balance = batch_balance(0, 2, {0: source(10, 153)}, hidden_share())
    assert (balance.hot_keys or ())[0] == HotKey("hot", 12, 12 / 163, 2, unsure=0)


def test_where_workers_have_too_many_keys_to_list_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(combining, "_REPORTED_COUNTS", 10)
    balance = batch_balance(0, 2, {0: source(10, 153)}, hidden_share())
    hottest = (balance.hot_keys or ())[0]
    assert (hottest.key, hottest.records, hottest.unsure) == ("hot", 9, 5)
    assert hottest.records <= 12 <= hottest.records + hottest.unsure


def test_counts_from_a_stranger_are_refused() -> None:
    good = worker(["a"])
    for name, array in (
        ("counted", np.zeros(2, np.uint64)),
        ("counted_records", np.array([-1])),
    ):
        bad = Entry(good.arrays | {name: array}, good.about)
        with pytest.raises(LedgerCorrupt, match="counted_records must"):
            batch_balance(0, 1, {0: source(1)}, {0: bad})

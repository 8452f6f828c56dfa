"""What queries are compared with, where Spark cut the stream in other micro-batches."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from faults.jobs.comparing import Batches, as_cut, ends_of

PLAIN: Batches = {
    0: Counter([("a", 1)]),
    1: Counter([("a", 2), ("b", 1)]),
    2: Counter([("a", 3), ("c", 1)]),
}


def test_two_entries_in_one_micro_batch_have_their_last_updates() -> None:
    assert as_cut(PLAIN, [0, 1, 2], 1) == PLAIN
    assert as_cut(PLAIN, [0, 1, 1], 1) == PLAIN  # the last one has no data
    merged = {0: PLAIN[0], 1: Counter([("a", 3), ("b", 1), ("c", 1)])}
    assert as_cut(PLAIN, [0, 2], 1) == merged
    assert as_cut(PLAIN, [0, 2])[1] == PLAIN[1] + PLAIN[2]


def test_the_ends_of_micro_batches_are_read_in_order(tmp_path: Path) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch in range(11):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{batch + (batch > 2)}}}'
        (offsets / str(batch)).write_text(text)
    (offsets / ".1.tmp").write_text("")
    assert ends_of(tmp_path) == [0, 1, 2, *range(4, 12)]

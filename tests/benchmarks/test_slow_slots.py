"""Spark's scheduling of tasks on slots, as the page of FISH has it."""

import numpy as np
import pytest

from benchmarks.slow_slots import REPORT, backlog_table, scheduled, times_table, with_times

ANY = np.random.default_rng(0)


def test_the_slot_that_is_free_first_takes_the_next_task():
    seconds, end = scheduled(np.array([4.0, 1.0, 1.0, 1.0]), np.ones(2), False, ANY)
    assert seconds.tolist() == [4.0, 1.0, 1.0, 1.0]
    assert end == 4.0
    assert scheduled(np.array([1.0, 1.0, 4.0]), np.ones(2), False, ANY)[1] == 5.0


def test_partitions_that_stay_have_the_speed_of_their_slot():
    seconds, end = scheduled(np.ones(4), np.array([1.0, 2.0]), True, ANY)
    assert seconds.tolist() == [1.0, 2.0, 1.0, 2.0]
    assert end == 4.0


@pytest.mark.statistics
def test_measured_times_help_only_what_stays():
    """The factors of the page, with a margin of a tenth."""
    anywhere, stays, _ = dict.fromkeys(row["case"] for row in REPORT.read() if "case" in row)
    for case, better in ((anywhere, False), (stays, True)):
        without, told = (with_times(case, 16, told, seed=5)["time"] for told in (False, True))
        assert (told < 0.9 * without) == better
        assert (without < 0.9 * told) != better


def test_the_tables_have_a_row_per_case():
    records = REPORT.read()
    assert len(times_table(records).splitlines()) == 2 + 6
    assert len(backlog_table(records).splitlines()) == 2 + 4

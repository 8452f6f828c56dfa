"""From a history to the columns of the page, without Bokeh."""

import math

import numpy as np
import pytest

from dashboard.histories import AWKWARD, batch, history, keeping, splitting
from skewless.dashboard import live_history


def test_throughput_is_records_per_second_of_the_batch():
    columns = live_history.series(history([batch(3, [6, 2], seconds=2.0), batch(4, [1, 1])]))
    assert columns["batch"] == [3.0, 4.0]
    assert columns["records_per_second"][0] == 4.0
    assert math.isnan(columns["records_per_second"][1])
    assert columns["tolerance"] == [0.03, 0.03]


def test_a_batch_without_records_has_no_imbalance():
    columns = live_history.series(history([batch(0, [0, 0], replication=1.0, seconds=1.0)]))
    assert math.isnan(columns["imbalance"][0])
    assert math.isnan(columns["replication"][0])
    assert columns["records_per_second"] == [0.0]


def test_all_columns_are_as_long_as_there_are_batches():
    for one in (splitting(), keeping(), history([])):
        columns = live_history.series(one)
        assert {len(values) for values in columns.values()} == {len(one["batches"])}


def test_the_picture_of_loads_has_a_column_per_batch_and_a_row_per_worker():
    told = history([batch(5, [3, 1]), batch(7, [1, 1, 2]), batch(8, [0, 0, 0])])
    picture = live_history.load_map(told)
    (image,) = picture["image"]
    nan = math.nan
    wanted = [[1.5, nan, 0.75, nan], [0.5, nan, 0.75, nan], [nan, nan, 1.5, nan]]
    np.testing.assert_array_equal(image, np.array(wanted, np.float32))
    # Batches and workers lie in the middle of their cells.
    assert (picture["x"], picture["dw"], picture["y"], picture["dh"]) == ([4.5], [4], [-0.5], [3])


def test_the_picture_of_loads_is_bounded():
    many = history([batch(number, [1, 1]) for number in range(450)])
    (image,) = live_history.load_map(many)["image"]
    assert image.shape == (2, live_history.MOST_COLUMNS)
    assert live_history.load_map(many)["x"] == [450 - live_history.MOST_COLUMNS - 0.5]


@pytest.mark.parametrize(("tolerance", "red"), [(0.03, 2), (0.5, 1), (None, 1)])
def test_workers_above_the_tolerance_stand_out(tolerance, red):
    told = history([batch(0, [160, 106, 70, 64]), batch(1, [0, 0, 0, 0])], tolerance=tolerance)
    columns = live_history.last_loads(told, "blue", "red")
    assert columns["records"] == [160, 106, 70, 64]  # of the last batch that had any
    assert columns["load"][0] == 1.6
    assert columns["colour"].count("red") == red


def test_state_is_that_after_the_last_batch():
    told = history([batch(0, [1, 1], state_bytes=[5, 6], state_keys=[1, 2])], keeps_state=True)
    assert live_history.last_state(told) == {"worker": [0, 1], "bytes": [5, 6], "keys": [1, 2]}
    assert live_history.last_state(history([]))["worker"] == []


def test_keys_are_text_and_not_html():
    told = live_history.hot_keys_text(splitting())
    assert AWKWARD not in told
    assert "&lt;img" in told
    assert "<b>3</b>, <b>9</b>, <b>1</b>" in told  # workers, the one with most records first
    assert "and 3 more" in told
    for name in ("query", "strategy", "key"):
        assert "<img" not in live_history.heading(splitting() | {name: AWKWARD})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"problem": "plans/0 is <damaged>"}, "This cannot be read: plans/0 is &lt;damaged&gt;"),
        ({"known": False}, "waiting for its first micro-batch"),
        ({"routes": False}, "nothing is routed to workers"),
        ({"batches": []}, "The first micro-batch is running"),
        ({"ended": 90_000.0, "running": 24}, "23, at 1970-01-0"),
        ({"running": 24}, "; micro-batch 24 is not complete."),
    ],
)
def test_the_status_says_what_a_reader_must_know(told, said):
    assert said in live_history.status(splitting() | told)


def test_an_imbalance_above_the_tolerance_is_marked():
    assert "tile bad" in live_history.summary(history([batch(0, [3, 1])]))
    assert "tile good" in live_history.summary(history([batch(0, [1, 1])]))
    assert "tile good" not in live_history.summary(history([batch(0, [1, 1])], tolerance=None))

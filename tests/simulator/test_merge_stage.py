"""Keys whose results need no merging, at the merge stage."""

import numpy as np
import pytest

from skewless.simulator import Measuring, Timing, simulate
from skewless.simulator.forwarding import MergeStage
from skewless.strategies.dalton import Dalton
from skewless.workloads import Zipf

STREAM = Zipf(z=1.5, n_keys=300, n_records=6_011)
SMALL = Dalton(stats_window=200, slide=100)


def _keys(*keys):
    return np.array(keys, np.uint64)


def _stage(windows, **options):
    """Compute when each window is merged, if all records are done at 0."""
    stage = MergeStage(Timing(merge=1.0), **options)
    ends = []
    for number, (keys, workers, merging) in enumerate(windows):
        stage.add(number, _keys(*keys), np.array(workers, np.int32))
        if merging is not None:
            assert not stage.knows(number)
            stage.merge_only(number, _keys(*merging))
        assert stage.knows(number)
        ends.append(stage.close(number, 0.0))
    # Without anything to merge, a window is done at once, at 0.
    return np.diff(np.maximum.accumulate([0.0, *ends])).tolist()


def test_each_pair_of_a_window_is_merged_once():
    windows = [([2, 3, 2], [0, 1, 0], None), ([2], [1], None), ([5, 5], [0, 0], None)]
    assert _stage(windows) == [2.0, 1.0, 1.0]


def test_only_the_keys_that_need_it_are_merged():
    windows = [([2, 2, 3], [0, 1, 1], [2]), ([2, 3], [0, 1], []), ([2, 3], [0, 1], [3])]
    assert _stage(windows, forwarding=True) == [2.0, 0.0, 1.0]


def test_forwarding_saves_work_of_the_merge_stage():
    timing = Timing(service=1e-6, merge=1.0)
    options = {"n_workers": 8, "n_sources": 2, "window": 500, "sync": 250, "timing": timing}
    every, some = (
        simulate(SMALL, STREAM, **options, measuring=Measuring(forwarding=forwarding))
        for forwarding in (False, True)
    )
    assert every.loads.tolist() == some.loads.tolist()
    # The last, shorter window forwards nothing.
    last = int(every.windows.pairs[-1])
    assert every.summary()["merged_seconds"] == pytest.approx(every.windows.pairs.sum(), abs=0.1)
    merged = sum(window.n_merged_pairs for window in some.merging)
    assert some.summary()["merged_seconds"] == pytest.approx(merged + last, abs=0.1)
    assert [window.n_pairs for window in some.merging] == every.windows.pairs[:-1].tolist()
    assert not any(window.n_wrong for window in some.merging)


def test_sources_can_wait_for_a_merge_stage_that_forwards():
    timing = Timing(service=1e-3, merge=1e-2, unmerged=1)
    measuring = Measuring(forwarding=True)
    run = simulate(SMALL, STREAM, n_workers=8, window=500, timing=timing, measuring=measuring)
    assert (run.times.first[2:] >= run.times.merged[:-2]).all()
    assert run.times.merged.size == 13

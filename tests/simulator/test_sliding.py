"""Windows that overlap, and keys whose results need no merging, at the merge stage."""

import numpy as np
import pytest

from skewless.simulator import Measuring, Timing, simulate
from skewless.simulator.forwarding import MergeStage, SlidingPartials, partials, slide_of
from skewless.strategies import Hash, PartialKey
from skewless.strategies.dalton import Dalton
from skewless.workloads import Zipf

STREAM = Zipf(z=1.5, n_keys=300, n_records=6_011)
SMALL = Dalton(stats_window=200, slide=100)


def _keys(*keys):
    return np.array(keys, np.uint64)


def _stage(slides, **options):
    """Compute when each slide is merged, if all records are done at 0."""
    stage = MergeStage(Timing(merge=1.0), **options)
    ends = []
    for number, (keys, workers, merging) in enumerate(slides):
        stage.add(number, _keys(*keys), np.array(workers, np.int32))
        if merging is not None:
            assert not stage.knows(number)
            stage.merge_only(number, _keys(*merging))
        assert stage.knows(number)
        ends.append(stage.close(number, 0.0))
    # Without anything to merge, a slide is done at once, at 0.
    return np.diff(np.maximum.accumulate([0.0, *ends])).tolist()


def test_a_window_has_the_partial_results_of_its_slides():
    slides = [([2, 3, 2], [0, 1, 0], None), ([2], [1], None), ([5, 5], [0, 0], None)]
    assert _stage(slides) == [2.0, 1.0, 1.0]
    assert _stage(slides, n_slides=2) == [2.0, 3.0, 2.0]
    assert _stage(slides, n_slides=3) == [2.0, 3.0, 4.0]


def test_a_key_is_merged_until_the_slide_that_needed_it_has_expired():
    slides = [([2, 2, 3], [0, 1, 1], [2]), ([2, 3], [0, 1], []), ([2, 3], [0, 1], [])]
    assert _stage(slides, forwarding=True) == [2.0, 0.0, 0.0]
    assert _stage(slides, forwarding=True, n_slides=2) == [2.0, 2.0, 0.0]
    assert _stage(slides, forwarding=True, n_slides=3) == [2.0, 2.0, 2.0]


def test_the_pairs_of_a_window_equal_those_of_sets():
    rng = np.random.default_rng(1)
    for n_slides in (1, 3):
        window, plain = SlidingPartials(n_slides), []
        for _ in range(8):
            keys = rng.integers(0, 12, 30).astype(np.uint64)
            workers = rng.integers(0, 4, 30).astype(np.int32)
            merging = np.unique(keys[rng.random(30) < 0.2])
            window.add(partials(keys, workers), merging)
            plain.append((set(zip(keys.tolist(), workers.tolist(), strict=True)), merging))
            pairs, merged = window.pairs()
            expected = set().union(*(slide for slide, _ in plain[-n_slides:]))
            to_merge = set().union(*(m.tolist() for _, m in plain[-n_slides:]))
            assert set(zip(*(c.tolist() for c in pairs), strict=True)) == expected
            assert merged.tolist() == [key in to_merge for key in pairs.keys.tolist()]
            slide = slide_of(pairs, merged)
            assert (slide.n_pairs, slide.n_merged_pairs) == (len(expected), int(merged.sum()))


def test_forwarding_saves_work_of_the_merge_stage_and_longer_windows_cost_some():
    timing = Timing(service=1e-6, merge=1.0)
    options = {"n_workers": 8, "n_sources": 2, "window": 500, "sync": 250, "timing": timing}
    every, some, longer = (
        simulate(SMALL, STREAM, **options, measuring=Measuring(**more))
        for more in ({}, {"forwarding": True}, {"forwarding": True, "slides": 4})
    )
    assert every.loads.tolist() == some.loads.tolist() == longer.loads.tolist()
    # The last, shorter window forwards nothing.
    last = int(every.windows.pairs[-1])
    assert every.summary()["merged_seconds"] == pytest.approx(every.windows.pairs.sum(), abs=0.1)
    merged = sum(slide.n_merged_pairs for slide in some.slides)
    assert some.summary()["merged_seconds"] == pytest.approx(merged + last, abs=0.1)
    assert [slide.n_pairs for slide in some.slides] == every.windows.pairs[:-1].tolist()
    assert merged < sum(slide.n_merged_pairs for slide in longer.slides)
    assert not any(slide.n_wrong for slide in (*some.slides, *longer.slides))


def test_sources_can_wait_for_a_merge_stage_that_forwards():
    timing = Timing(service=1e-3, merge=1e-2, unmerged=1)
    run = simulate(
        SMALL,
        STREAM,
        n_workers=8,
        window=500,
        timing=timing,
        measuring=Measuring(forwarding=True, slides=2),
    )
    assert (run.times.first[2:] >= run.times.merged[:-2]).all()
    assert run.times.merged.size == 13


def test_slides_without_a_merge_stage_are_refused():
    with pytest.raises(ValueError, match="slides: windows can overlap where timing has merge"):
        simulate(Hash(), STREAM, n_workers=8, measuring=Measuring(slides=2))
    with pytest.raises(ValueError, match="slides must be at least 1, not 0"):
        simulate(Hash(), STREAM, n_workers=8, measuring=Measuring(slides=0))
    run = simulate(
        PartialKey(),
        STREAM,
        n_workers=8,
        measuring=Measuring(slides=2),
        timing=Timing(service=1e-6, merge=1.0),
    )
    assert run.summary()["merged_seconds"] == pytest.approx(run.windows.pairs.sum(), abs=0.1)

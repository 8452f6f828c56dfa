"""The cells of Dalton's figures against slow, obvious versions and against the simulator."""

from dataclasses import replace

import numpy as np
import pytest

from experiments.reproduction.cells import Simulation
from experiments.reproduction.papers.dalton import pipeline
from experiments.reproduction.papers.dalton.learning import ForcedHotKeys, clocked_counts
from experiments.reproduction.papers.dalton.pipeline import EMIT, SCORE, Pipeline, cell

OF = {"z": 1.5, "n_keys": 1_000, "n_records": 20_000}


def slow_counts(keys, workers, shape, reducers):
    """Count each slide from the records of its window alone."""
    rows = []
    for slide in range(keys.size // shape.slide):
        end = (slide + 1) * shape.slide
        window = slice(max(0, slide + 1 - shape.n_slides) * shape.slide, end)
        recent = slice(max(0, slide + 1 - shape.recent) * shape.slide, end)
        loads = np.bincount(workers[recent], minlength=shape.n_workers)
        held = {}
        for key, worker in zip(keys[window].tolist(), workers[window].tolist(), strict=True):
            held.setdefault(key, {}).setdefault(worker, 0)
            held[key][worker] += 1
        merged = np.zeros(reducers.max() + 1, int)
        squares = np.zeros(shape.n_workers)
        for key, by_worker in held.items():
            if len(by_worker) > 1 or not shape.split_only:
                merged[reducers[key]] += len(by_worker)
            for worker, count in by_worker.items():
                squares[worker] += count**2
        rows.append(
            [
                loads.max(),
                merged.max(),
                merged.sum(),
                sum(map(len, held.values())),
                len(held),
                len(held.get(shape.watched, ())),
                squares.max(),
            ]
        )
    return np.array(rows, np.int64)


@pytest.mark.parametrize("split_only", [0, 1])
@pytest.mark.parametrize(
    ("slide", "n_slides", "recent"), [(7, 3, 1), (10, 1, 4), (1, 5, 5), (50, 9, 2)]
)
def test_slides_are_counted_as_from_their_records(split_only, slide, n_slides, recent):
    rng = np.random.default_rng(slide)
    keys = rng.zipf(1.5, 203).clip(max=30).astype(np.int64)
    workers = rng.integers(0, 4, keys.size).astype(np.int32)
    reducers = rng.integers(0, 3, 31).astype(np.int32)
    shape = pipeline.Shape(slide, n_slides, recent, 4, split_only, 1)
    out = np.zeros((keys.size // slide, pipeline.COLUMNS), np.int64)
    pipeline.count_slides(keys, workers, shape, pipeline.held(31, 4, reducers), out)
    np.testing.assert_array_equal(out, slow_counts(keys, workers, shape, reducers))


@pytest.mark.parametrize("strategy", ["hash", "pkg", "cascade"])
def test_the_slowest_stage_gives_the_throughput_of_the_simulator_with_time(strategy):
    """Without merging, full queues end in the same: the busiest worker decides."""
    n_records = 40_000
    of = {"z": 1.5, "n_keys": 1_000, "n_records": n_records}
    slide = n_records // 8
    # One window that is the whole stream, so that both count the same records.
    ours = Pipeline(strategy, "zipf", of=of, slide=slide, n_slides=8, merging="none", service=1e-3)
    timed = Simulation(
        strategy, "zipf", of=of, window=n_records, timing={"service": 1e-3, "queue": 1 << 20}
    )
    at_the_end = ours.run()["slide_throughput"][-1]
    assert at_the_end == pytest.approx(timed.run()["throughput"], rel=0.01)


def test_each_stage_can_be_the_bottleneck():
    cell = Pipeline("shuffle", "zipf", of=OF, slide=500, n_slides=5, merging="all", merge=1e-9)
    row = cell.run()
    assert row["throughput"] == pytest.approx(row["combiner_limit"])
    row = replace(cell, merge=1.0).run()
    assert row["throughput"] == pytest.approx(row["reducer_limit"])
    row = replace(cell, emit=1.0).run()
    assert row["throughput"] == pytest.approx(row["partitioner_limit"]) == pytest.approx(1.0)
    assert replace(cell, emit=1.0, n_sources=4).run()["throughput"] == pytest.approx(4.0)


def test_forwarding_merges_keys_on_several_workers_only():
    cell = Pipeline("pkg", "zipf", of=OF, slide=500, n_slides=5, merging="all")
    everything, split = cell.run(), replace(cell, merging="split").run()
    assert 0 < split["merged_pairs"] < everything["merged_pairs"]
    alone = replace(cell, strategy="hash", merging="split").run()
    assert alone["merged_pairs"] == 0.0
    assert alone["replication"] == 1.0


def test_the_forced_keys_are_split_and_no_others():
    settings = {"slide": 500, "n_slides": 5, "stats_window": 1_000, "hybrid": False}
    for n_hot in (0, 1, 5):
        row = ForcedHotKeys(
            "dalton", "zipf", settings=settings, of=OF, slide=500, n_slides=40, n_hot=n_hot
        ).run()
        # Over the whole stream, exploration sends a hot key of a few hundred records everywhere.
        assert row["merged_pairs"] <= 16 * n_hot
        assert (row["merged_pairs"] > 8 * n_hot) == (n_hot > 0)
        assert (row["values_per_record"] > 0) == (n_hot > 0)
    with pytest.raises(ValueError, match="n_hot: 900 keys are more than Dalton has rows"):
        replace(
            ForcedHotKeys("dalton", "zipf", settings={**settings, "stats_window": 10}, of=OF),
            n_hot=900,
        ).run()


def test_statistics_are_timed_for_each_length_of_the_window():
    row = clocked_counts(z=0.0, n_records=4_000, windows=[100, 1_000], seed=1).run()
    assert row["windows"] == [100, 1_000]
    for kind in ("exact", "count-min", "hybrid"):
        assert min(row[kind]) > 0
        assert row[kind] == [row[f"{kind} shortest"], row[f"{kind} longest"]]
    # A table has room for the keys of a window, a sketch for none.
    assert row["exact bytes"][1] > 4 * row["exact bytes"][0]
    assert row["count-min bytes"][1] == row["count-min bytes"][0]


def test_prompt_pays_for_sorting_its_batch_as_dagreedy_for_scores():
    given = {"parallelism": 64, "slide": 4_096, "batches": True}
    by_system = {one: cell(one, "zipf", OF, **given).emit for one in ("pkg", "prompt", "dagreedy")}
    assert by_system["pkg"] == EMIT
    assert by_system["prompt"] == pytest.approx(EMIT + 12 * SCORE)
    assert by_system["dagreedy"] == pytest.approx(EMIT + 56 * SCORE)

"""What measured times, and the backlog of a micro-batch, are worth to FISH where Spark schedules.

Partitions are tasks, and tasks run on slots. Spark gives the next partition to the slot that is
free first; slots that are free at once are taken in random order. Nothing pins a partition. The
micro-batches of a run follow each other, and each waits for its last task.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from statistics import mean

import numpy as np
import typer

from benchmarks.records import Report, Row, grouped, markdown
from skewless.arrays import Floats, Keys
from skewless.metrics import imbalance
from skewless.strategies import Fish
from skewless.workloads import EvolvingZipf

SLOTS, BATCHES, SEEDS = 16, 30, 3
#: The first micro-batches, in which nothing is known yet, do not count.
FIRST = 5
PAGE = "docs/strategies/fish.md"
_HALF_SLOW = np.repeat([1.0, 2.0], SLOTS // 2)
#: The factor on the time of each slot, whether partitions stay, and what some keys cost.
CASES: dict[str, tuple[Floats, bool, float]] = {
    "half of the slots need twice the time": (_HALF_SLOW, False, 1.0),
    "the same, and each partition stays on its slot": (_HALF_SLOW, True, 1.0),
    "equal slots; records of a tenth of the keys cost four times as much": (
        np.ones(SLOTS),
        False,
        4.0,
    ),
}
#: How C_w goes on, and the seconds per record that the workers really need; P_w is 1 ms.
BACKLOGS = {
    "starts anew": None,
    "stays; the clock counts records": 0.0,
    "drains with the time of the micro-batch": 1e-3,
    "drains so, workers ten times as fast as P_w": 1e-4,
}


def _batches(n_records: int, seed: int) -> Iterator[Keys]:
    stream = EvolvingZipf(z=1.4, n_keys=10_000, n_records=BATCHES * n_records, period=5 * n_records)
    return stream.chunks(seed, n_records)


def scheduled(
    work: Floats, slower: Floats, pinned: bool, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Return the seconds of each task, and when the last one ends."""
    if pinned:
        slots = np.arange(work.size) % slower.size
        return work * slower[slots], float(np.bincount(slots, work * slower[slots]).max())
    free = [(0.0, draw, slot) for slot, draw in enumerate(rng.random(slower.size))]
    heapq.heapify(free)
    seconds = np.empty(work.size)
    for task, amount in enumerate(work):
        begin, draw, slot = heapq.heappop(free)
        seconds[task] = amount * slower[slot]
        heapq.heappush(free, (begin + seconds[task], draw, slot))
    return seconds, max(free)[0]


def with_times(case: str, n_tasks: int, told: bool, seed: int) -> Row:
    """Return the mean time of micro-batches; FISH is told the times of the last ones, or not."""
    slower, pinned, dear = CASES[case]
    strategy, rng = Fish(), np.random.default_rng(seed)
    learned, last, ends = strategy.start(n_tasks, seed), np.empty((0, n_tasks)), []
    for keys in _batches(20_000, seed):
        state = strategy.fork(learned, strategy.start(n_tasks, seed), 0)
        out = np.empty(keys.size, np.int32)
        strategy.route(keys, state, out)
        costs = np.where(keys % np.uint64(10) == 0, dear, 1.0)
        work = np.bincount(out, costs, n_tasks).astype(np.float64)
        seconds, end = scheduled(work, slower, pinned, rng)
        ends.append(end * (1 / slower).sum() / costs.sum())
        rates = seconds / np.maximum(np.bincount(out, minlength=n_tasks), 1)
        last = np.vstack([rates, last])[:FIRST]
        learned = strategy.merge([state])
        if told and len(last) >= 3:
            strategy.observe(learned, seconds_per_record=1e-3 * np.median(last, axis=0))
    return {"case": case, "tasks": n_tasks, "told": told, "time": mean(ends[FIRST:])}


def with_backlog(backlog: str, n_records: int, seed: int) -> Row:
    """Return the mean imbalance of micro-batches, with C_w as told by `BACKLOGS`."""
    strategy, found, clock = Fish(interval=0.1), [], 0.0
    state = strategy.start(SLOTS, seed)
    for keys in _batches(n_records, seed):
        out = np.empty(keys.size, np.int32)
        strategy.route(keys, state, out)
        loads = np.bincount(out, minlength=SLOTS)
        found.append(imbalance(loads))
        needed = BACKLOGS[backlog]
        if needed is None:
            state = strategy.fork(strategy.merge([state]), strategy.start(SLOTS, seed), 0)
        elif needed:
            clock = max(clock + needed * loads.max(), float(state.backlog.clock["estimated"][0]))
            strategy.observe(state, now_seconds=clock)
    return {"backlog": backlog, "records": n_records, "imbalance": mean(found[FIRST:])}


def measure() -> Iterator[Row]:
    """Yield one raw record per cell and seed."""
    for case, n_tasks, told in itertools.product(CASES, (SLOTS, 4 * SLOTS), (False, True)):
        yield from (with_times(case, n_tasks, told, seed) for seed in range(SEEDS))
    for backlog, n_records in itertools.product(BACKLOGS, (1_000, 20_000)):
        yield from (with_backlog(backlog, n_records, seed) for seed in range(SEEDS))


def times_table(records: Sequence[Row]) -> str:
    """Return the time of a micro-batch by case, without and with measured times."""
    by_cell = grouped([row for row in records if "case" in row], "case", "tasks", "told")
    cells = {cell: mean(row["time"] for row in rows) for cell, rows in by_cell.items()}
    heads = dict.fromkeys((case, tasks) for case, tasks, _ in cells)
    rows = [
        [case, tasks, *(f"{cells[case, tasks, told]:.2f}" for told in (False, True))]
        for case, tasks in heads
    ]
    return markdown(f"{SLOTS} slots | tasks | without measured times | with them", rows)


def backlog_table(records: Sequence[Row]) -> str:
    """Return the imbalance of a micro-batch by how C_w goes on."""
    cells = grouped([row for row in records if "backlog" in row], "backlog", "records")
    sizes = sorted({size for _, size in cells})
    rows = [
        [name, *(f"{mean(row['imbalance'] for row in cells[name, size]):.3f}" for size in sizes)]
        for name in BACKLOGS
    ]
    heads = " | ".join(f"micro-batches of {size:,} records" for size in sizes)
    return markdown(f"C_w between micro-batches | {heads}", rows)


REPORT = Report(
    "slow_slots.jsonl",
    {(PAGE, "measured times"): times_table, (PAGE, "backlog"): backlog_table},
    command="python -m benchmarks.slow_slots",
)


def main() -> None:
    """Simulate FISH on slots that Spark schedules, and write the tables of its page."""
    REPORT.write(measure())


if __name__ == "__main__":
    typer.run(main)

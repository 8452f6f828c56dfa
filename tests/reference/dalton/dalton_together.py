"""Dalton's sources that learn together: what they say, what follows, what each goes on with."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from reference.dalton.dalton import FOR_EVER, LEAST, ReferenceDalton, Row
from reference.merges import Merge, merges_after, recent_records, scale_after


class Known:
    """What all sources know after a merge."""

    def __init__(self) -> None:
        self.merges: list[Merge] = []
        self.limit = 1
        self.of_all: list[float] = []
        self.hot: dict[int, tuple[float, int, list[float]]] = {}  # frequency, deadline, values


def wait(source: ReferenceDalton) -> None:
    """A message has all that is new."""
    source.n_in_message, source.n_new = source.n_new, 0
    source.new.clear()
    source.sent = [0] * source.n
    source.waiting = True
    for row in source.rows.values():
        row.rewards.clear()


def merge(sources: Sequence[ReferenceDalton]) -> Known:
    first = sources[0]
    window, n = first.stats_window, first.n
    known = Known()
    n_new = sum(source.n_new for source in sources)
    fading = window / (window + n_new)
    known.merges = merges_after(sources, n_new, window)
    recent, clock = recent_records(known.merges)[0], sum(merge.n_new for merge in known.merges)
    known.limit = max(source.limit for source in sources)
    span = first.slide * first.n_slides
    known.of_all = [
        span / (span + n_new) * max(source.of_all[worker] for source in sources)
        + sum(source.sent[worker] for source in sources)
        for worker in range(n)
    ]
    parts = [fading * source.own + source.n_new for source in sources]
    for key in sorted({key for source in sources for key in candidates(source)}):
        owners = [source.rows[key] for source in sources if key in source.rows]
        shared = max((row.shared for row in owners), default=0.0)
        deadline = max((row.deadline for row in owners if row.shared == shared), default=0)
        if shared > 0:
            new = [source.new[key] if key in source.rows else 0 for source in sources]
            frequency = fading * shared + sum(new)
        else:
            shares = [share(s, key, part) for s, part in zip(sources, parts, strict=True)]
            frequency = sum(sorted(shares))
        if frequency > (recent / n if first.hybrid else 0.0):
            deadline = clock + window
        elif not (shared > 0 and clock <= deadline):
            continue
        learners = [row for row in owners if (row.shared > 0 if shared > 0 else row.until >= 0)]
        if first.averaging == "rewards":
            values = values_of(learners, n, first.rate)
        else:
            values = mean_of(learners, n, first.averaging == "weighted")
        known.hot[key] = frequency, deadline, values
    return known


def candidates(source: ReferenceDalton) -> set[int]:
    enough = max(8, source.n_counted / source.n)
    top = {k for k, count in source.counts.items() if count > enough}
    return set(source.rows) | top


def share(source: ReferenceDalton, key: int, part: float) -> float:
    """Recent records of the key at the source, by its statistics windows."""
    count, counted = source.counts[key], source.n_counted
    if key in source.rows and source.rows[key].taken < source.stats:
        count += source.before[key]
        counted += source.n_before
    return count * part / max(counted, min(part, source.stats_window), 1)


def values_of(rows: Sequence[Row], n_workers: int, rate: float) -> list[float]:
    """All began with the same values; the rewards of all, worker by worker."""
    values = []
    for worker in range(n_workers):
        means: list[tuple[int, float]] = []  # rewards of a source, and their fading mean
        first = LEAST
        fewest = None
        for row in rows:
            own = [reward for rewarded, reward in row.rewards if rewarded == worker]
            kept = 0.0
            for reward in own:
                kept += rate * (reward - kept)
            if own:
                means.append((len(own), kept / (1 - (1 - rate) ** len(own))))
            if fewest is None or len(own) < fewest:
                fewest = len(own)
                first = row.q[worker] - kept  # (1 − γ)^m of the first value
        n_rewards = sum(m for m, _ in means)
        if not n_rewards:
            values.append(first)
            continue
        mean = sum(m * reward for m, reward in means) / n_rewards
        faded = (1 - rate) ** (n_rewards - (fewest or 0)) * first
        values.append(faded + (1 - (1 - rate) ** n_rewards) * mean)
    return values


def mean_of(rows: Sequence[Row], n_workers: int, weighted: bool) -> list[float]:
    """The mean of the sources that have a row, or by the rewards of each; without any, the rows."""
    weights = [len(row.rewards) if weighted else 1 for row in rows]
    if not sum(weights):
        weights = [1] * len(rows)
    if not rows:
        return [LEAST] * n_workers
    return [
        sum(weight * row.q[worker] for weight, row in zip(weights, rows, strict=True))
        / sum(weights)
        for worker in range(n_workers)
    ]


def fork(known: Known, own: ReferenceDalton) -> ReferenceDalton:
    source = copy.deepcopy(own)
    if not own.waiting:
        wait(source)
    source.waiting = False
    source.of_all = list(known.of_all)
    source.limit = max(source.limit, known.limit)
    source.scale = scale_after(source, known.merges, source.n_in_message, source.stats_window)
    source.n_in_message = 0
    if source.hybrid:
        source.watch_above = source.stats_window / source.n
        source.hot_above = source.scale * source.watch_above
    for key, row in source.rows.items():
        if key not in known.hot:
            row.until, row.shared, row.q, row.rewards = -1, 0.0, [LEAST] * source.n, []
    for key, (frequency, deadline, values) in known.hot.items():
        if key not in source.rows:
            source.rows[key] = Row(source.n, source.stats)
            source.new[key] = 0
            if source.counts[key] and not source.by_batch:
                source.rows[key].records.append((source.epoch, source.home(key)))
        row = source.rows[key]
        row.until, row.shared, row.deadline = FOR_EVER, frequency, deadline
        row.q = list(values)
        for worker, reward in row.rewards:
            row.q[worker] += source.rate * (reward - row.q[worker])
    if source.share_loads:
        fill(source)
    return source


def fill(source: ReferenceDalton) -> None:
    """The window has the loads of all on the scale of this source, the same in each slide."""
    loads = [
        round(all_of_it / source.scale) + sent
        for all_of_it, sent in zip(source.of_all, source.sent, strict=True)
    ]
    even = [load // source.n_slides for load in loads]
    source.slides.extend([list(even) for _ in range(source.n_slides)])
    rest = [load - (source.n_slides - 1) * e for load, e in zip(loads, even, strict=True)]
    source.slides[-1] = rest
    source.in_slide = min(source.in_slide, source.slide_now())

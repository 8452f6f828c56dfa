"""PStream's sources that learn together: the central predictor, made from theirs."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from statistics import median

from reference.kernels.hashing import mix, seeded
from reference.merges import merges_after, scale_after
from reference.pstream.pstream import Predictor, draw, lower


def wait(own: Predictor) -> None:
    """A message has all that is new."""
    own.n_in_message, own.n_told = own.n_records - own.n_told, own.n_records
    own.v1_told, own.v2_told = own.v1, own.v2
    own.fresh = {key: set() for key in own.vectors}
    own.shifts.clear()
    own.waiting = True


def merge(predictors: Sequence[Predictor]) -> Predictor:
    """Return a predictor in which all bits are shared."""
    merged = copy.deepcopy(predictors[0])
    merged.n_intervals = max(p.n_intervals for p in predictors)
    ahead = [p for p in predictors if p.n_intervals == merged.n_intervals]
    merged.set_threshold(median(p.f for p in ahead))
    merged.generation = 1 + max(p.generation for p in predictors)
    fill(merged, united(predictors), {key for p in predictors for key in p.hot})
    merged.marked = {key for p in ahead for key in p.marked if key in merged.vectors}
    merged.registers = [max(column) for column in zip(*(p.registers for p in ahead), strict=True)]
    merged.v1 = max(p.v1_told for p in ahead) + sum(p.v1 - p.v1_told for p in ahead)
    merged.v2 = max(p.v2_told for p in ahead) + sum(p.v2 - p.v2_told for p in ahead)
    merged.v1_told, merged.v2_told = merged.v1, merged.v2
    merged.adapt_if_over()
    n_new = sum(p.n_records - p.n_told for p in predictors)
    merged.merges = merges_after(predictors, n_new, (2 / merged.f) ** 2)
    return merged


def united(predictors: Sequence[Predictor]) -> dict[int, set[int]]:
    new = [p.n_records - p.n_told for p in predictors]
    latest = max(p.generation for p in predictors)
    copies = [p for p in predictors if p.generation == latest]
    found: dict[int, set[int]] = {}
    for p, own in zip(predictors, new, strict=True):
        counted = own * p.scale
        unknown = sum(new) - counted if sum(new) > (4 if p.generation else 1) * counted else 0.0
        missed = p.f / 2 * unknown * 2.0**-p.r
        for key, bits in p.fresh.items():
            word = draw(seeded(key, p.choices), p.generation)
            age, rounding = ((w >> 11) / 2**53 for w in (word, mix(word)))
            late = int(missed * age + rounding) if missed else 0
            found[key] = found.get(key, set()) | lower(bits, late)
    for key in {key for p in copies for key in p.vectors}:
        if all(p.shared.get(key) for p in copies):
            shifts = [p.shifts[key] for p in copies]
            least = min(range(len(copies)), key=shifts.__getitem__)
            left = lower(copies[least].shared[key], sum(shifts) - shifts[least])
            found[key] = found.get(key, set()) | left
    return {key: bits for key, bits in found.items() if bits}


def fill(p: Predictor, vectors: dict[int, set[int]], were_hot: set[int]) -> None:
    """Let these be the shared vectors; the strongest first, as many as there is room for."""

    def weakness(key: int) -> tuple[int, int, int]:
        return -len(vectors[key]), -sum(1 << bit for bit in vectors[key]), key

    p.keys = sorted(vectors, key=weakness)[: p.capacity]
    p.vectors = {key: set(vectors[key]) for key in p.keys}
    p.shared = {key: set(vectors[key]) for key in p.keys}
    p.fresh = {key: set() for key in p.keys}
    p.shifts = Counter()
    p.filter.counts = Counter()
    p.hot = {key for key in p.keys if len(vectors[key]) >= 2}
    if p.until_evicted:
        p.hot |= were_hot & set(p.keys)
    for key in p.hot:
        p.filter.append(key)


def fork(merged: Predictor, own: Predictor) -> Predictor:
    p = copy.deepcopy(merged)
    p.coins, p.choices, p.owed, p.n_choices = own.coins, own.choices, own.owed, own.n_choices
    p.n_records, p.waiting = own.n_records, False
    n_own = own.n_in_message if own.waiting else own.n_records - own.n_told
    p.n_told = own.n_told if own.waiting else own.n_records
    p.merges, p.own, p.cross, p.square = own.merges, own.own, own.cross, own.square
    p.scale = min(scale_after(p, merged.merges, n_own, (2 / p.f) ** 2), 512.0)
    if own.waiting:
        _add_news(p, own)
    return p


def _add_news(p: Predictor, own: Predictor) -> None:
    before, marked = p.shared, p.marked
    shared = {key: lower(bits, own.shifts[key]) for key, bits in before.items()}
    both = {
        key: shared.get(key, set()) | own.fresh.get(key, set())
        for key in shared.keys() | own.fresh.keys()
    }
    fill(p, {key: bits for key, bits in both.items() if bits}, p.hot | own.hot)
    p.shared = {key: shared.get(key, set()) for key in p.keys}
    p.fresh = {key: set(own.fresh.get(key, ())) for key in p.keys}
    p.shifts = Counter({key: own.shifts[key] for key in p.keys if key in before})
    if own.n_intervals == p.n_intervals:
        p.v1 += own.v1 - own.v1_told
        p.v2 += own.v2 - own.v2_told
        p.registers = [max(pair) for pair in zip(p.registers, own.registers, strict=True)]
        marked |= own.marked
    p.marked = {key for key in marked if key in p.vectors}

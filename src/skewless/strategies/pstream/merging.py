"""The central predictor of the paper, made from those of the sources whenever they merge.

The paper has one synopsis that all sources report their long runs to. Here every source has its own
predictor: the merged one of the last merge, and what is new since its last message. A merge adds
what is new, once. So the result does not depend on how many records there are between two merges,
or on which sources took part. A merge without records changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skewless.kernels.merge_history import add_merge, follow, merge_history, scale_of
from skewless.state import copy_state
from skewless.strategies.pstream import bloom as bf
from skewless.strategies.pstream.coin_synopsis import (
    MOST_SCALE,
    add_news,
    coin_synopsis,
    fill,
    merge_vectors,
    news,
    vectors,
)
from skewless.strategies.pstream.coin_synopsis import send_off as send_synopsis_off
from skewless.strategies.pstream.hot_key_predictor import (
    HOT,
    MARKED,
    HotKeyPredictor,
    end_interval_if_over,
    flagged,
    hot_keys,
)

#: The part of a source may be this many times smaller in one batch than it was before.
_VARIES = 4.0


def send_off(predictor: HotKeyPredictor) -> None:
    """Note that everything new so far has been sent: only what follows is new."""
    counters = predictor.counters[0]
    counters["in_message"] = counters["records"] - counters["told"]
    counters["told"] = counters["records"]
    counters["long_told"] = counters["long"]
    counters["long_hot_told"] = counters["long_hot"]
    counters["waiting"] = 1
    send_synopsis_off(predictor.synopsis)


def merge(predictors: Sequence[HotKeyPredictor]) -> HotKeyPredictor:
    """Return the predictor that all sources together would have, in any order of them.

    The interval of an adaptive threshold is one of all sources: it ends when their long runs are
    enough. If some have ended theirs since the last merge, the median of their thresholds counts.
    """
    first = predictors[0]
    furthest = max(int(predictor.counters[0]["intervals"]) for predictor in predictors)
    ahead = [p for p in predictors if int(p.counters[0]["intervals"]) == furthest]
    f = float(np.median([predictor.settings[0]["share"] for predictor in ahead]))
    synopses = [predictor.synopsis for predictor in predictors]
    # The coins of the merged predictor itself: those of no source, and not chosen by order.
    seeds = np.min([synopsis.seeds for synopsis in synopses], axis=0)
    length = int(first.synopsis.counters[0]["length"])
    synopsis = coin_synopsis(first.synopsis.keys.size, f / 2, length, seeds)
    fill(synopsis, merge_vectors(synopses, _missed(predictors)))
    for name, more in (("chosen", 0), ("generation", 1)):
        latest = max(int(other.counters[0][name]) for other in synopses)
        synopsis.counters[name] = latest + more
    merged = HotKeyPredictor(
        synopsis=synopsis,
        filter=copy_state(first.filter),
        registers=np.max([predictor.registers for predictor in ahead], axis=0),
        counters=np.zeros_like(first.counters),
        settings=first.settings.copy(),
        merges=merge_history(),
    )
    merged.settings[0]["share"] = f
    counters = merged.counters[0]
    for name in ("adaptive", "whole_runs", "until_evicted"):
        counters[name] = first.counters[0][name]
    counters["intervals"] = furthest
    counters["records"] = max(int(predictor.counters[0]["records"]) for predictor in predictors)
    counters["told"] = counters["records"]
    for name in ("long", "long_hot"):
        known = max(int(predictor.counters[0][f"{name}_told"]) for predictor in ahead)
        new = sum(int(p.counters[0][name] - p.counters[0][f"{name}_told"]) for p in ahead)
        counters[name] = counters[f"{name}_told"] = known + new
    _flag(
        merged,
        set().union(*(flagged(predictor, MARKED) for predictor in ahead)),
        set().union(*(hot_keys(predictor) for predictor in predictors)),
    )
    end_interval_if_over(merged)
    add_merge(
        merged.merges, [p.merges for p in predictors], sum(_new(predictors)), _horizon(merged)
    )
    return merged


def _new(predictors: Sequence[HotKeyPredictor]) -> list[int]:
    """Return the new records of each source."""
    return [int(p.counters[0]["records"] - p.counters[0]["told"]) for p in predictors]


def _horizon(predictor: HotKeyPredictor) -> float:
    """Return in how many records an entry is shifted once."""
    return (2 / float(predictor.settings[0]["share"])) ** 2


def _missed(predictors: Sequence[HotKeyPredictor]) -> list[float]:
    """Bound the shifts that a bit of each source has missed since the last merge.

    These are for long runs of sources that it did not know of, as before the first merge. That the
    parts of known sources vary from batch to batch evens out.
    """
    new = _new(predictors)
    found = []
    for predictor, own in zip(predictors, new, strict=True):
        counted = own * float(predictor.synopsis.scale[0])
        p = float(predictor.settings[0]["share"]) / 2
        tolerated = _VARIES if predictor.synopsis.counters[0]["generation"] else 1.0
        unknown = sum(new) - counted if sum(new) > tolerated * counted else 0.0
        found.append(p * unknown * 2.0 ** -int(predictor.synopsis.counters[0]["run"]))
    return found


def take_over(forked: HotKeyPredictor, own: HotKeyPredictor) -> None:
    """Add to `forked`, a copy of a merged predictor, what the source keeps of `own`.

    These are the coins and, if the source waited, what came after its message: see `send_off`.
    """
    waited = bool(own.counters[0]["waiting"])
    in_message = int(own.counters[0]["in_message"])
    if not waited:
        in_message = int(own.counters[0]["records"] - own.counters[0]["told"])
    counters = forked.counters[0]
    merges = copy_state(own.merges)
    follow(merges, forked.merges, in_message, _horizon(forked))
    forked.merges.sums[:] = merges.sums
    counters["records"] = own.counters[0]["records"]
    counters["told"] = own.counters[0]["told"] if waited else own.counters[0]["records"]
    synopsis = forked.synopsis
    synopsis.scale[0] = min(scale_of(merges), MOST_SCALE)
    synopsis.seeds[:] = own.synopsis.seeds
    for name in ("owed", "chosen"):
        synopsis.counters[name] = own.synopsis.counters[name]
    if not waited:
        return
    marked, hot = flagged(forked, MARKED), hot_keys(forked) | hot_keys(own)
    add_news(synopsis, news(own.synopsis))
    if own.counters[0]["intervals"] == counters["intervals"]:
        for name in ("long", "long_hot"):
            counters[name] += own.counters[0][name] - own.counters[0][f"{name}_told"]
        np.maximum(forked.registers, own.registers, out=forked.registers)
        marked |= flagged(own, MARKED)
    _flag(forked, marked, hot)


def keep_all(predictor: HotKeyPredictor, old: HotKeyPredictor) -> None:
    """Let a fresh predictor continue from `old`; strong keys first, if it has less memory."""
    synopsis, before = predictor.synopsis, old.synopsis
    entries = {key: entry for entry, key in enumerate(vectors(before))}
    fill(synopsis, vectors(before))
    for entry, key in enumerate(vectors(synopsis)):
        for name in ("shared", "fresh", "shifts"):
            getattr(synopsis, name)[entry] = getattr(before, name)[entries[key]]
    for name in ("owed", "chosen", "generation"):
        synopsis.counters[name] = before.counters[name]
    synopsis.scale[:] = before.scale
    predictor.registers[:] = old.registers
    predictor.counters[:] = old.counters
    for name in old.merges._fields:
        getattr(predictor.merges, name)[:] = getattr(old.merges, name)
    _flag(predictor, flagged(old, MARKED), hot_keys(old))


def _flag(predictor: HotKeyPredictor, marked: set[int], were_hot: set[int]) -> None:
    """Flag the entries of a synopsis that was just filled, and fill the filter with hot keys."""
    synopsis = predictor.synopsis
    predictor.filter.counters[:] = 0
    synopsis.marked[:] = 0
    stays_hot = bool(predictor.counters[0]["until_evicted"])
    for entry, (key, bits) in enumerate(vectors(synopsis).items()):
        if key in marked:
            synopsis.marked[entry] |= MARKED
        if bits.bit_count() >= 2 or (stays_hot and key in were_hot):
            synopsis.marked[entry] |= HOT
            bf.add(predictor.filter, np.uint64(key))

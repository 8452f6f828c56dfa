"""One plan for all sources of Pd-Stream. The paper's sources do not exchange anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skewless.kernels.hashing import two_workers
from skewless.strategies.pd_stream.floor_set import add_to, floor_set, members
from skewless.strategies.pd_stream.instance_assignment import (
    NEVER,
    PdStreamState,
)
from skewless.strategies.pd_stream.sampling_window import (
    NO_ROW,
    append,
    row_of,
    sampling_window,
    window_keys,
)


def merged_of(states: Sequence[PdStreamState]) -> PdStreamState:
    """Return one window of the latest records of all, and one entry for each hot key in it."""
    # Sorted, so that the order of `states` does not matter.
    states = sorted(states, key=lambda s: (s.loads.tobytes(), window_keys(s.window).tobytes()))
    loads = np.sum([state.loads for state in states], axis=0)
    control = states[0].control.copy()
    for name in ("stage", "until"):
        control[name] = min(state.control[0][name] for state in states)
    control["n_pending"] = control["fresh"] = 0
    merged = states[0]._replace(
        loads=loads,
        floor=floor_set(loads),
        window=sampling_window(int(states[0].lengths[-1])),
        sizes=np.zeros_like(states[0].sizes),
        candidates=np.zeros_like(states[0].candidates),
        pending=np.zeros_like(states[0].pending),
        control=control,
    )
    length = int(merged.lengths[control[0]["stage"]])
    recent = [window_keys(state.window)[::-1] for state in states]
    fresh = [keys[: state.control[0]["fresh"]] for keys, state in zip(recent, states, strict=True)]
    turns = range(max(keys.size for keys in fresh))
    in_turn = [keys[turn] for turn in turns for keys in fresh if turn < keys.size]
    # All have what is left of one window; the source with the fewest records since has most of it.
    older = [keys[state.control[0]["fresh"] :] for keys, state in zip(recent, states, strict=True)]
    longest = int(np.argmax([keys.size for keys in older]))
    in_turn.extend(older[longest])
    for hashed in in_turn[:length][::-1]:
        append(merged.window, hashed)
    for hashed in np.unique(np.array(in_turn[:length], np.uint64)):
        _merge_entry(merged, states, hashed)
    return merged


def rescaled_of(state: PdStreamState, fresh: PdStreamState) -> PdStreamState:
    """Return `fresh`, for other workers, with the window and the entries of `state`.

    Workers that stay keep their loads. Workers that join begin with the load of the lightest one,
    because a worker without any load would get all records until it has as many as the others.
    """
    n_same = min(state.loads.size, fresh.loads.size)
    loads = np.full(fresh.loads.size, state.loads[:n_same].min())
    loads[:n_same] = state.loads[:n_same]
    control = state.control.copy()
    length = int(fresh.lengths[control[0]["stage"]])
    if control[0]["until"] != NEVER:
        control["until"] = min(int(control[0]["until"]), length)
    control["fresh"] = min(int(control[0]["fresh"]), length)
    rescaled = fresh._replace(
        seed=state.seed.copy(),
        loads=loads,
        floor=floor_set(loads),
        pending=state.pending.copy(),
        control=control,
    )
    recent = window_keys(state.window)[-length:]
    for hashed in recent:
        append(rescaled.window, hashed)
    for hashed in np.unique(recent):
        _merge_entry(rescaled, [state], hashed)
    return rescaled


def _merge_entry(merged: PdStreamState, states: Sequence[PdStreamState], hashed: np.uint64) -> None:
    """Give a key the workers that most of `states` give it, its two hashed ones first."""
    votes = np.zeros(merged.loads.size, np.int64)
    size = 0
    for state in states:
        row = row_of(state.window, hashed)
        if row != NO_ROW and state.sizes[row] > 0:
            size = max(size, int(state.sizes[row]))
            words = state.candidates.reshape(state.sizes.size, -1)[row]
            found = members(words, min(state.loads.size, votes.size))
            votes[: found.size] += found
    row = row_of(merged.window, hashed)
    n_words = merged.floor.lightest.size
    size = min(size, votes.size)
    votes[list(two_workers(hashed, votes.size))] = len(states) + 1
    for worker in np.argsort(-votes, kind="stable")[:size]:
        add_to(merged.candidates, np.uint64(row * n_words), np.uint64(worker))
    merged.sizes[row] = size

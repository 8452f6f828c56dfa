"""Cascade when workers change and sources merge."""

import itertools

import numpy as np
import pytest

from skewless.simulator.syncing import merge_and_fork
from skewless.state import copy_state, named_arrays
from skewless.strategies.cascade import Cascade
from skewless.strategies.cascade.heavy_keys import n_places
from strategies.cascade.cascade_streams import STREAMS, started_and_routed


@pytest.mark.parametrize(("before", "after"), [(8, 9), (8, 12), (16, 20), (12, 8), (9, 8), (8, 8)])
def test_only_slots_of_joining_and_leaving_workers_change_owner(before, after):
    state = started_and_routed(before)
    rescaled = Cascade().rescale(state, after)
    changed = state.owners != rescaled.owners
    held = np.bincount(rescaled.owners, minlength=after)
    assert held.max() - held.min() <= 1
    if after >= before:
        assert np.all(rescaled.owners[changed] >= before)
        assert changed.sum() == held[before:].sum()
        assert changed.sum() <= state.owners.size * (after - before) / after  # no more than fair
    else:
        assert np.array_equal(changed, state.owners >= after)
    assert np.average(rescaled.levels) == pytest.approx(state.numbers[0]["level"])


@pytest.mark.parametrize(("before", "after"), [(8, 9), (16, 20), (4, 16)])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_joining_worker_is_not_flooded(stream, before, after):
    keys, strategy = STREAMS[stream], Cascade()
    state = strategy.rescale(started_and_routed(before, keys[:10_000]), after)
    out = np.empty(10_000, np.int32)
    strategy.route(keys[10_000:], state, out)
    shares = np.bincount(out, minlength=after) / out.size
    assert shares.max() < 2 / after
    assert shares[before:].min() > 0.5 / after  # and it does work


def test_sources_can_merge_after_the_workers_have_changed():
    strategy = Cascade()
    states = [strategy.rescale(started_and_routed(4, seed=1), n) for n in (9, 9)]
    merged = strategy.merge(states)
    assert {name: a.shape for name, a in named_arrays(merged)} == {
        name: a.shape for name, a in named_arrays(states[0])
    }
    keys = STREAMS["drifting"]
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, merged, out)
    assert set(out.tolist()) == set(range(9))


def counts_of(state):
    used = np.flatnonzero(state.heavy.counts[: n_places(state.heavy)] > 0)
    counts = state.heavy.counts[used] / state.heavy.unit[0]
    return dict(zip(state.heavy.keys[used].tolist(), counts.tolist(), strict=True))


def weight_of(state):
    return state.numbers[0]["old_weight"] + state.numbers[0]["weight"]


def sources_that_differ():
    return [
        started_and_routed(4, keys)
        for keys in (STREAMS["skewed"], STREAMS["drifting"], STREAMS["returning"][:7_000])
    ]


def test_merged_counts_are_means():
    states = sources_that_differ()
    parts = [counts_of(state) for state in states]
    merged = Cascade().merge(states)
    means = counts_of(merged)
    assert means
    for key, count in means.items():
        assert count == pytest.approx(np.mean([part.get(key, 0.0) for part in parts]))
    assert max(means.values()) == pytest.approx(
        max(np.mean([part.get(key, 0.0) for part in parts]) for key in set().union(*parts))
    )
    total = np.mean([weight_of(state) for state in states])
    assert weight_of(merged) == pytest.approx(total)
    assert merged.numbers[0]["heavy"] == pytest.approx(total / 4 / 8)
    assert merged.levels == pytest.approx(np.mean([state.levels for state in states], axis=0))


def test_merging_again_and_again_inflates_nothing():
    state = sources_that_differ()[0]
    merged = Cascade().merge([state, state, state])
    again = Cascade().merge([merged, merged])
    assert weight_of(again) == pytest.approx(weight_of(state))
    assert counts_of(again) == pytest.approx(counts_of(state))


def test_merging_does_not_depend_on_the_order_and_changes_no_source():
    states = sources_that_differ()
    copies = [copy_state(state) for state in states]
    expected = None
    for order in itertools.permutations(states):
        merged = {name: array.tolist() for name, array in named_arrays(Cascade().merge(order))}
        expected = expected or merged
        assert merged == expected
    for state, copy in zip(states, copies, strict=True):
        for (name, a), (_, b) in zip(named_arrays(state), named_arrays(copy), strict=True):
            assert a.tolist() == b.tolist(), name


@pytest.mark.parametrize("size", [1, 7, 100, 255, 256, 257, 1_000])
def test_counts_fade_however_often_sources_merge(size):
    """An epoch of 4 workers has 256 records; it began again with every merge, and never ended."""
    strategy = Cascade()
    n_records = min(40 * size, 4_000)
    keys = STREAMS["drifting"][: 3 * n_records]
    alone = strategy.start(4, 1)
    strategy.route(keys[:n_records], alone, np.empty(n_records, np.int32))
    states = [strategy.start(4, 1, source=source) for source in range(3)]
    for begin in range(0, n_records, size):
        for source, state in enumerate(states):
            part = keys[source::3][begin : begin + size].copy()
            strategy.route(part, state, np.empty(part.size, np.int32))
        states = merge_and_fork(strategy, states)
    for state in states:
        assert weight_of(state) == pytest.approx(weight_of(alone))
        # Since the last sweep alone, the records are counted, and not yet with the old ones.
        assert state.numbers[0]["old_records"] == pytest.approx(weight_of(alone))


def test_a_source_that_waited_keeps_what_it_sent_and_learned_meanwhile():
    strategy = Cascade()
    states = sources_that_differ()
    merged = strategy.merge([copy_state(state) for state in states])
    own = states[2]
    strategy.wait(own)
    new = STREAMS["skewed"][:3_000] + np.uint64(1 << 40)  # keys that nobody has told of
    strategy.route(new, own, np.empty(new.size, np.int32))
    before = [copy_state(merged), copy_state(own)]
    forked = strategy.fork(merged, own, 2)
    np.testing.assert_array_equal(forked.levels, own.levels)
    assert forked.numbers[0]["level"] == own.numbers[0]["level"]
    found, others, mine = (counts_of(state) for state in (forked, merged, own))
    heaviest = max(mine, key=lambda key: mine[key])
    assert heaviest >= 1 << 40
    assert found[heaviest] == pytest.approx(mine[heaviest])
    for key, count in found.items():
        assert count == pytest.approx(max(others.get(key, 0.0), mine.get(key, 0.0)))
    assert weight_of(forked) == pytest.approx(max(weight_of(merged), weight_of(own)))
    for state, copy in zip((merged, own), before, strict=True):
        for (name, a), (_, b) in zip(named_arrays(state), named_arrays(copy), strict=True):
            assert a.tolist() == b.tolist(), name
    # The answer has come, so the next one has all that this source knows.
    again = strategy.fork(strategy.merge([forked]), forked, 2)
    assert counts_of(again) == pytest.approx(found)


def test_a_source_that_has_sent_little_goes_on_with_what_the_others_know():
    strategy = Cascade()
    own = strategy.start(4, 1)
    merged = strategy.merge([*sources_that_differ(), copy_state(own)])
    strategy.wait(own)
    strategy.route(np.arange(5, dtype=np.uint64), own, np.empty(5, np.int32))
    forked = strategy.fork(merged, own, 3)
    assert weight_of(forked) == pytest.approx(weight_of(merged))
    assert forked.numbers[0]["heavy"] == pytest.approx(merged.numbers[0]["heavy"])
    assert counts_of(merged).keys() <= counts_of(forked).keys() | set(range(5))

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.cases import without_own_streams
from lanes import needs_a_long_stream
from reference.pd_stream import pd_stream as reference
from reference.pd_stream.pd_stream import PdStreamReference, needed_workers, search_probability
from skewless.checks import check_strategy
from skewless.kernels.hashing import seeded, two_workers
from skewless.simulator.syncing import merge_and_fork
from skewless.strategies.partial_key import PartialKey
from skewless.strategies.pd_stream import PdStream
from skewless.strategies.pd_stream.floor_set import floor_set, members
from skewless.strategies.pd_stream.sampling_window import NO_ROW, row_of, window_keys
from skewless.strategies.pd_stream.strategy import probability_table
from strategies.streams import (
    as_keys,
    drifting,
    imbalance,
    returning,
    routed,
    skewed,
    some_keys,
    some_seeds,
    some_workers,
    workers_by_key,
)
from strategies.together import UNEVEN, routed_together

#: Table III: N = 16, P̂ = 99 %, in per cent.
TABLE_III = [
    25.0, 34.9, 43.1, 50.3, 56.9, 63.0, 68.7, 73.9, 78.8, 83.4, 87.5, 91.2, 94.5, 97.1, 99.0, 99.9
]  # fmt: skip


def test_table_iii_of_the_paper():
    # To 0.1 %: the paper prints one digit, after a search that stops at 10⁻⁴.
    np.testing.assert_allclose(100 * probability_table(16, 0.99)[1:], TABLE_III, atol=0.1)


@pytest.mark.parametrize(("length", "confidence"), [(16, 0.99), (7, 0.5), (32, 0.999), (1, 0.9)])
def test_the_closed_form_is_what_the_search_of_algorithm_1_finds(length, confidence):
    searched = [search_probability(k, length, confidence) for k in range(1, length + 1)]
    # The search ends with an interval of 10⁻⁴, and returns its middle.
    np.testing.assert_allclose(probability_table(length, confidence)[1:], searched, atol=1e-4)


parameters = st.fixed_dictionaries(
    {
        # From a window of one record to one longer than the stream.
        "alpha": st.sampled_from([0.1, 1.0, 4.0, 9.0]),
        "theta": st.sampled_from([1.0, 2.0]),
        "step": st.sampled_from([1, 1, 2, 5, 40]),
        "confidence": st.sampled_from([0.5, 0.99, 0.999]),
        "count_incoming": st.booleans(),
        "adaptive": st.booleans(),
    }
)


@settings(deadline=None)
@given(keys=some_keys, n_workers=some_workers, seed=some_seeds, parameters=parameters)
def test_it_equals_its_oracle(keys, n_workers, seed, parameters):
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(PdStream(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@settings(deadline=None)
@given(keys=some_keys, n_workers=st.integers(1, 4), seed=some_seeds, parameters=parameters)
def test_it_equals_its_oracle_with_so_few_workers_that_keys_come_and_go(
    keys, n_workers, seed, parameters
):
    expected = reference.route(keys, n_workers, seed, **parameters)
    assert routed(PdStream(**parameters), as_keys(keys), n_workers, seed).tolist() == expected


@pytest.mark.parametrize(
    "keys", [skewed(), drifting(), returning()], ids=["skewed", "drifting", "returning"]
)
@pytest.mark.parametrize(
    ("n_workers", "parameters"),
    [
        (3, {}),
        (16, {"count_incoming": True}),
        (16, {"adaptive": True}),
        (5, {"adaptive": True, "alpha": 2.0, "confidence": 0.9}),
        (16, {"step": 3}),
        (16, {"step": 50, "count_incoming": True, "adaptive": True}),
        (70, {}),  # more workers than a word has bits
    ],
)
def test_it_equals_its_oracle_on_a_long_stream(keys, n_workers, parameters):
    keys = keys[:4_000]
    expected = reference.route(keys, n_workers, 5, **parameters)
    assert routed(PdStream(**parameters), keys, n_workers, 5).tolist() == expected


def hashed(state, key):
    return np.uint64(seeded(np.uint64(key), state.seed[0]))


def entry(state, key):
    """Return the workers that the routing table has for `key`, None without an entry."""
    row = row_of(state.window, hashed(state, key))
    if row == NO_ROW or state.sizes[row] == 0:
        return None
    words = state.candidates.reshape(state.sizes.size, -1)[row]
    workers = set(np.flatnonzero(members(words, state.loads.size)).tolist())
    assert len(workers) == state.sizes[row]
    return workers


def with_loads(state, loads):
    loads = np.array(loads, np.int64)
    return state._replace(loads=loads, floor=floor_set(loads))


def send(strategy, state, *keys):
    out = np.empty(len(keys), np.int32)
    strategy.route(as_keys(list(keys)), state, out)
    return out.tolist()


def before_figure_3(strategy):
    """A window of 16: key 9 once and the oldest, key 1 five times, key 6 once, and others.

    Key 1 has four workers, as many as five times are worth.
    """
    state = strategy.start(8, seed=1)
    send(strategy, state, 9, 9, 9)
    for n_times in range(1, 7):
        # Nobody of its own is the lightest, so key 1 takes as many as it may.
        own = entry(state, 1) or set(two_workers_of(state, 1))
        state = with_loads(state, [10 if worker in own else 0 for worker in range(8)])
        if n_times < 6:
            send(strategy, state, 1)
    send(strategy, state, 6, *range(20, 29))
    assert strategy.start(8, seed=1).lengths.tolist() == [16]
    own = entry(state, 1)
    assert len(own) == 4
    return with_loads(state, [10 if worker in own else worker for worker in range(8)]), own


def two_workers_of(state, key):
    return two_workers(hashed(state, key), state.loads.size)


def test_figure_3_of_the_paper():
    strategy = PdStream(count_incoming=True)
    state, own = before_figure_3(strategy)
    assert entry(state, 9) is not None
    assert entry(state, 6) is None

    # (a) Key 1 comes for the sixth time: 62.99 % of 8 workers are 5, one more than it has. It gets
    # the lightest of the others. Key 9 leaves the window, and its entry the table.
    lightest = min(worker for worker in range(8) if worker not in own)  # loads rise with the index
    assert send(strategy, state, 1) == [lightest]
    assert entry(state, 1) == own | {lightest}
    assert entry(state, 9) is None

    # (b) Key 6 comes for the second time: a new entry with its two hashed workers.
    worker = send(strategy, state, 6)
    assert entry(state, 6) == set(two_workers_of(state, 6))
    assert set(worker) <= entry(state, 6)


def test_the_pseudo_code_does_not_count_the_incoming_record():
    # The same window as in Figure 3, one occurrence earlier for whoever counts the incoming one.
    strategy = PdStream()
    state = strategy.start(8, seed=1)
    send(strategy, state, 6)
    send(strategy, state, 6)
    assert entry(state, 6) is None
    send(strategy, state, 6)
    assert entry(state, 6) == set(two_workers_of(state, 6))


def test_an_entry_never_has_more_workers_than_the_largest_count_in_its_life_may_mean():
    keys, n_workers = returning(6_000), 16
    strategy = PdStream()
    state = strategy.start(n_workers, 3)
    needed = needed_workers(32, 0.99, n_workers)
    largest, largest_entry = {}, 0
    for key in keys.tolist():
        count = int((window_keys(state.window) == hashed(state, key)).sum())
        largest[key] = max(count, largest.get(key, 0)) if count else 0
        send(strategy, state, key)
        own = entry(state, key)
        if own is not None:
            assert len(own) <= max(2, needed[largest[key]])
            largest_entry = max(largest_entry, len(own))
    assert largest_entry > 4


def test_a_key_that_is_never_hot_has_two_workers():
    # Every key comes back after 40 records, later than the window of 2 · 16 reaches.
    keys = np.tile(np.arange(40, dtype=np.uint64), 100)
    workers = routed(PdStream(count_incoming=True), keys, 16, 3)
    np.testing.assert_array_equal(workers, routed(PartialKey(), keys, 16, 3))


def test_the_routing_table_is_bounded_by_the_window():
    strategy = PdStream()
    state = strategy.start(16, 1)
    keys = np.repeat(np.arange(2_000, dtype=np.uint64), 3)  # each is hot once, none comes back
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    in_window = np.unique(window_keys(state.window)).size
    assert (state.window.rows != NO_ROW).sum() == in_window <= 2 * 16


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.0, 1.4, 2.0])
def test_workers_are_within_a_few_records_of_each_other(z):
    # Whoever is hot goes to the lightest worker it may; the hottest keys may go to nearly all. The
    # paper reports 10⁻⁵ for 10⁷ records on 64 workers, which is one or two records.
    n_workers, keys = 64, skewed(200_000, z)
    assert imbalance(routed(PdStream(), keys, n_workers, 1), n_workers) * 200_000 / 64 < 4


@pytest.mark.slow
@pytest.mark.parametrize("z", [1.4, 2.0])
def test_adaptive_windows_have_fewer_replicas_at_the_same_balance(z):
    keys, n_workers = skewed(200_000, z, n_keys=20_000), 64
    fixed, adaptive = (
        routed(PdStream(adaptive=adaptive), keys, n_workers, 1) for adaptive in (False, True)
    )
    replicas = [
        sum(map(len, workers_by_key(keys, workers).values())) for workers in (fixed, adaptive)
    ]
    n_keys = np.unique(keys).size
    # Three quarters of what it has beyond one per key, or less: longer windows mistake fewer keys
    # for hotter ones than they are.
    assert replicas[1] - n_keys < 0.75 * (replicas[0] - n_keys)
    # The same balance: within the slack, four records, and one batch of choices more.
    assert (imbalance(adaptive, n_workers) - imbalance(fixed, n_workers)) * keys.size / 64 < 5


def test_an_adaptive_window_is_short_again_when_the_balance_is_lost():
    strategy = PdStream(adaptive=True)
    state = strategy.start(16, 1)
    lengths = state.lengths.tolist()
    assert lengths == [32, 64, 128]
    keys = skewed(5_000)
    strategy.route(keys, state, np.empty(keys.size, np.int32))
    assert state.control[0]["stage"] == 2
    state = with_loads(state, np.arange(16) * 10)
    strategy.route(keys[:200], state, np.empty(200, np.int32))
    assert state.control[0]["stage"] == 0


def test_a_merged_window_has_each_record_once():
    """Merged after every few records, each record was counted once per source."""
    strategy, n_workers, n_sources = PdStream(), 16, 4
    states = [strategy.start(n_workers, 1, source=source) for source in range(n_sources)]
    sent = []
    for begin in range(0, 400, 8):
        for source, state in enumerate(states):
            part = as_keys([begin + source, begin + 4 + source])
            strategy.route(part, state, np.empty(2, np.int32))
        sent.extend(range(begin, begin + 8))
        states = merge_and_fork(strategy, states)
    expected = {int(hashed(states[0], key)) for key in sent[-32:]}
    for state in states:
        assert sorted(window_keys(state.window).tolist()) == sorted(expected)


@pytest.mark.parametrize("strategy", [PdStream(), PdStream(adaptive=True), PdStream(step=5)])
def test_merging_twice_in_a_row_changes_nothing(strategy):
    keys, n_sources = skewed(3_001), 3
    states = [strategy.start(16, 1, source=source) for source in range(n_sources)]
    for source, state in enumerate(states):
        share = np.ascontiguousarray(keys[source::n_sources])
        strategy.route(share, state, np.empty(share.size, np.int32))
    states = merge_and_fork(strategy, states)
    for one, other in zip(states, merge_and_fork(strategy, states), strict=True):
        np.testing.assert_array_equal(window_keys(one.window), window_keys(other.window))
        for key in np.unique(keys).tolist():
            assert entry(one, key) == entry(other, key)
        np.testing.assert_array_equal(one.loads, other.loads)
        np.testing.assert_array_equal(one.control, other.control)


@needs_a_long_stream
@pytest.mark.parametrize("sizes", [[1, 7, 1_000], [10_001], UNEVEN], ids=str)
def test_sources_that_merge_stay_balanced(sizes):
    keys = skewed(150_000, 1.4, n_keys=20_000)
    alone = routed_together(PdStream(), keys, 32, 8, sizes, merging=False)
    together = routed_together(PdStream(), keys, 32, 8, sizes)
    assert imbalance(together.workers, 32) <= 0.01
    assert together.replicas(keys) < 1.02 * alone.replicas(keys)


def test_merged_sources_agree_on_the_workers_of_hot_keys():
    strategy, n_workers, n_sources = PdStream(), 32, 4
    keys = skewed(40_000, 1.6)
    states = [strategy.start(n_workers, 1, source=source) for source in range(n_sources)]
    for source, state in enumerate(states):
        share = np.ascontiguousarray(keys[source::n_sources])
        strategy.route(share, state, np.empty(share.size, np.int32))
    merged = strategy.merge(states)
    before = [entry(state, 1) for state in states]
    assert entry(merged, 1) <= set.union(*before)
    assert len(entry(merged, 1)) == max(map(len, before))
    assert set(two_workers_of(merged, 1)) <= entry(merged, 1)
    forked = strategy.fork(merged, states[2], 2)
    np.testing.assert_array_equal(forked.loads, states[2].loads)
    assert entry(forked, 1) == entry(merged, 1)
    assert window_keys(merged.window).size == 2 * n_workers


@pytest.mark.slow
def test_merging_leaves_fewer_replicas_than_not_merging():
    strategy, n_workers, n_sources, batch = PdStream(), 64, 8, 10_000
    keys = skewed(100_000, 1.8, n_keys=20_000)

    def replicas(merging):
        states = [strategy.start(n_workers, 1, source=source) for source in range(n_sources)]
        out = np.empty(keys.size, np.int32)
        for begin in range(0, keys.size, batch):
            for source, state in enumerate(states):
                share = np.ascontiguousarray(keys[begin : begin + batch][source::n_sources])
                workers = np.empty(share.size, np.int32)
                strategy.route(share, state, workers)
                out[begin : begin + batch][source::n_sources] = workers
            if merging:
                merged = strategy.merge(states)
                states = [strategy.fork(merged, own, s) for s, own in enumerate(states)]
        return sum(map(len, workers_by_key(keys, out).values()))

    assert replicas(merging=True) < replicas(merging=False)


@needs_a_long_stream
@pytest.mark.parametrize(
    "case",
    [
        PdStream(),
        PdStream(adaptive=True),
        PdStream(alpha=0.1),
        PdStream(count_incoming=True),
        PdStream(step=7),
    ],
    ids=repr,
)
def test_it_keeps_the_contract(case):
    assert "merging_is_sound" in check_strategy(case, checks=without_own_streams(case))


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0},
        {"theta": 0},
        {"step": 0},
        {"step": 2**30},
        {"confidence": 0.0},
        {"confidence": 1.0},
    ],
)
def test_parameters_out_of_range_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        PdStream(**wrong)


def test_the_oracle_forgets_what_left_the_window():
    source = PdStreamReference(2, 1)
    for key in (1, 1, 1, 2, 3, 4, 5):
        source.route(key)
    assert source.entries == {}

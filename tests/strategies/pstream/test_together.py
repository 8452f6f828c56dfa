"""PStream's sources that learn together, merged after any number of records."""

import itertools

import numpy as np
import pytest

from lanes import needs_a_long_stream, slow
from reference.pstream import pstream as reference
from reference.pstream import pstream_together
from skewless.simulator.syncing import MicroBatches, merge_and_fork
from skewless.state import copy_state, named_arrays
from skewless.strategies.pstream import PStream
from skewless.strategies.pstream.coin_synopsis import vectors
from skewless.strategies.pstream.hot_key_predictor import hot_keys
from strategies.streams import drifting, imbalance, returning, skewed
from strategies.together import UNEVEN, routed_together

PARAMETERS = [
    {"f": 0.3},
    {"f": 0.1, "length": 3},
    {"least_f": 0.05, "interval": 0.1, "time_weight": 0.9},
    {"least_f": 0.02, "interval": 0.3},
    {"f": 0.1, "whole_runs": True, "until_evicted": True, "length": 7},
    {"least_f": 0.2, "interval": 0.1, "time_weight": 0.9, "bounded": False},
    {"f": 0.3, "until_evicted": True},
]
STREAMS = [skewed(6_000, n_keys=200), drifting(6_000, n_keys=200), returning(6_000, n_keys=200)]


class BothWays:
    """Sources of the strategy and predictors of the oracle, side by side."""

    def __init__(self, parameters, n_sources, n_workers, seed=5):
        self.strategy = PStream(**parameters)
        self.states = [self.strategy.start(n_workers, seed, source=s) for s in range(n_sources)]
        self.oracles = [
            reference.predictor(n_workers, seed, s, **parameters) for s in range(n_sources)
        ]

    def route(self, source, keys):
        self.strategy.route(keys, self.states[source], np.empty(keys.size, np.int32))
        for key in keys.tolist():
            self.oracles[source].observe(key)

    def ask(self, sources):
        messages = [copy_state(self.states[s]) for s in sources]
        answer = pstream_together.merge([self.oracles[s] for s in sources])
        return self.strategy.merge(messages), answer

    def wait(self):
        for state, oracle in zip(self.states, self.oracles, strict=True):
            self.strategy.wait(state)
            pstream_together.wait(oracle)

    def answer(self, answers, sources):
        merged, known = answers
        for source in sources:
            self.states[source] = self.strategy.fork(merged, self.states[source], source)
            self.oracles[source] = pstream_together.fork(known, self.oracles[source])

    def compare(self):
        n_hot = 0
        for state, oracle in zip(self.states, self.oracles, strict=True):
            synopsis = state.predictor.synopsis
            expected = {key: sum(1 << b for b in bits) for key, bits in oracle.vectors.items()}
            assert vectors(synopsis) == expected
            assert list(vectors(synopsis)) == oracle.keys
            assert state.predictor.settings[0]["share"] == oracle.f
            assert synopsis.counters[0]["run"] == oracle.r
            assert synopsis.scale[0] == oracle.scale
            places = enumerate(state.predictor.filter.counters.tolist())
            assert {i: n for i, n in places if n} == {
                i: n for i, n in oracle.filter.counts.items() if n
            }
            n_hot += len(hot_keys(state.predictor))
        return n_hot


@pytest.mark.parametrize(
    "keys",
    [*slow(STREAMS[:1]), STREAMS[1], *slow(STREAMS[2:])],
    ids=["skewed", "drifting", "returning"],
)
@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
@pytest.mark.parametrize("delay", [0, 2])
def test_merge_fork_and_wait_equal_the_oracles(keys, parameters, delay):
    """Pieces of any length for any source, answers that are late.

    Without delay it is as on Spark: only sources with records send a message, and the others hear
    of the merges when they next have records.
    """
    n_sources = 3
    both = BothWays(parameters, n_sources, 7)
    rng = np.random.default_rng(8)
    everyone = list(range(n_sources))
    position = n_hot = 0
    answers, active, due = None, everyone, -1
    for turn in range(80):
        for source in active:
            n = int(rng.choice([0, 1, 2, 7, 30, 61]))
            both.route(source, keys[position : position + n])
            position += n
        n_hot += both.compare()
        if turn == due:
            both.answer(answers, everyone)
            due = -1
        elif delay == 0:
            answers = both.ask(active)
            active = everyone if rng.random() < 0.5 else [int(rng.integers(n_sources))]
            both.answer(answers, active)
        elif due < 0:
            answers = both.ask(everyone)
            both.wait()
            due = turn + delay
        both.compare()
    assert n_hot > 50
    assert position > 2_000


def states_of(strategy, keys, n_sources=3, n_workers=8, seed=4):
    states = [strategy.start(n_workers, seed, source=source) for source in range(n_sources)]
    for source, state in enumerate(states):
        share = np.ascontiguousarray(keys[source::n_sources])
        strategy.route(share, state, np.empty(share.size, np.int32))
    return states


def expect_equal(one, other, *, but=()):
    for (name, a), (_, b) in zip(named_arrays(one), named_arrays(other), strict=True):
        if name not in but:
            np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_merging_twice_in_a_row_changes_nothing(parameters):
    strategy = PStream(**parameters)
    states = merge_and_fork(strategy, states_of(strategy, skewed(6_001)))
    again = merge_and_fork(strategy, states)
    for one, other in zip(states, again, strict=True):
        for state in (one, other):  # the number of merges is all that differs
            state.predictor.synopsis.counters["generation"] = 0
        expect_equal(one, other)


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_the_order_of_the_sources_does_not_matter(parameters):
    strategy = PStream(**parameters)
    states = merge_and_fork(strategy, states_of(strategy, skewed(6_001)))
    for source, state in enumerate(states):
        strategy.route(skewed(500, seed=source), state, np.empty(500, np.int32))
    first, *others = [strategy.merge(order) for order in itertools.permutations(states)]
    for other in others:
        expect_equal(first, other)


@needs_a_long_stream
@pytest.mark.parametrize("sizes", [[1_000], [10_001], [50_003], UNEVEN], ids=str)
def test_hot_sets_do_not_grow_with_the_sources(sizes):
    """With 16 sources, hundreds of keys were hot where one source finds eight."""
    keys = skewed(300_000, 1.4, n_keys=100_000)
    strategy = PStream(f=0.04)
    alone = routed_together(strategy, keys, 32, 1, [keys.size])
    together = routed_together(strategy, keys, 32, 16, sizes)
    n_alone = len(hot_keys(alone.states[0].predictor))
    assert 4 <= n_alone <= 16
    # Hot keys come and go: twice as many at one moment is within what one source shows.
    assert len(hot_keys(together.states[0].predictor)) <= 2 * n_alone
    assert together.replicas(keys) < 1.1 * alone.replicas(keys)


@needs_a_long_stream
def test_the_first_merge_makes_no_more_keys_hot_than_the_next():
    # Before it no source knows how many there are.
    keys = skewed(150_000, 1.4, n_keys=100_000)
    strategy = PStream(f=0.04)
    for n_batches in (1, 2, 3):
        together = routed_together(strategy, keys[: n_batches * 50_000], 32, 16, [50_000])
        assert 3 <= len(hot_keys(together.states[0].predictor)) <= 16


@pytest.mark.slow
def test_an_interval_of_all_sources_ends_when_their_long_runs_are_enough():
    """Merged often, each source alone would never end its interval, or the median would undo it."""
    strategy = PStream(least_f=0.005)
    keys = np.arange(60_000, dtype=np.uint64)
    together = routed_together(strategy, keys, 8, 8, [7])
    predictor = together.states[0].predictor
    assert predictor.counters[0]["intervals"] >= 2
    assert predictor.settings[0]["share"] < 0.02


@needs_a_long_stream
@pytest.mark.parametrize("sizes", [[1_000], [10_001], [50_003], UNEVEN], ids=str)
def test_merging_is_no_worse_than_not_merging(sizes):
    keys = skewed(400_000, 1.4, n_keys=100_000)
    alone = routed_together(PStream(), keys, 32, 8, sizes, merging=False)
    together = routed_together(PStream(), keys, 32, 8, sizes)
    assert imbalance(together.workers, 32) < imbalance(alone.workers, 32)
    assert together.replicas(keys) < 1.1 * alone.replicas(keys)


def test_a_source_that_was_away_has_the_scale_of_the_merge_with_its_message():
    """Its message was compared with the newest merge, of others: 32 sources had a scale of 1.9."""
    strategy = PStream(f=0.1)
    sources = MicroBatches(strategy, 8, 1)
    for n_sources in (32, 1) * 3:
        sources.route([skewed(500, seed=source) for source in range(n_sources)])
    for source in range(1, 32):
        assert sources.state(source).predictor.synopsis.scale[0] == 32


def test_a_source_that_waits_keeps_what_it_learns():
    strategy = PStream(f=0.3)
    state = strategy.start(4, 1)
    merged = strategy.merge([state])
    strategy.wait(state)
    strategy.route(np.full(200, 5, np.uint64), state, np.empty(200, np.int32))
    assert hot_keys(state.predictor) == {5}
    assert 5 in vectors(strategy.fork(merged, state, 0).predictor.synopsis)

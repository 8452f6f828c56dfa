"""VOTE and GREEDY on texts: what they find, whatever order the texts come in."""

from __future__ import annotations

import itertools
import random

import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from skewless.apps.clustering import VoteThenGreedy
from skewless.apps.vote_and_greedy import Clusters, agreement, greedy, vote

ALIKE = 0.5


def objective(clusters: Clusters) -> int:
    """Return the pairs within clusters that agree, less those that do not: pair by pair."""
    return sum(
        1 if alike(a, b) else -1
        for cluster in clusters
        for a, b in itertools.combinations(cluster, 2)
    )


def alike(a: str, b: str) -> bool:
    pairs = [{f" {t} "[i : i + 2] for i in range(len(t) + 1)} for t in (a, b)]
    return len(pairs[0] & pairs[1]) >= ALIKE * len(pairs[0] | pairs[1])


def texts(seed: int, n: int = 12) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("ab", k=rng.randint(1, 6))) for _ in range(n)]


def test_agreement_is_that_of_the_definition() -> None:
    some = sorted(set(texts(0)))
    found = agreement(some, ALIKE)
    for (i, a), (j, b) in itertools.product(enumerate(some), repeat=2):
        assert found[i, j] == (0 if i == j else 1 if alike(a, b) else -1)


@pytest.mark.parametrize("seed", range(20))
def test_no_single_step_improves_what_greedy_returns(seed: int) -> None:
    some = texts(seed)
    parts = vote(some[::2], ALIKE) + vote(some[1::2], ALIKE)
    found = greedy(parts, ALIKE)
    best = objective(found)
    assert sorted(text for cluster in found for text in cluster) == sorted(set(some))
    assert best >= objective(greedy_start(parts))
    for a, b in itertools.combinations(range(len(found)), 2):
        rest = [cluster for i, cluster in enumerate(found) if i not in (a, b)]
        assert objective([*rest, found[a] + found[b]]) <= best
    for a, cluster in enumerate(found):
        others = [other for i, other in enumerate(found) if i != a]
        for text in cluster:
            left = [other for other in cluster if other != text]
            assert objective([*others, left, [text]]) <= best
            for b in range(len(others)):
                moved = [[*o, text] if i == b else o for i, o in enumerate(others)]
                assert objective([*moved, left]) <= best


def greedy_start(clusters: Clusters) -> Clusters:
    """Return the clusters that GREEDY begins with: a text in two of them is in the first."""
    seen: set[str] = set()
    start = []
    for cluster in sorted(sorted(cluster) for cluster in clusters):
        start.append([text for text in cluster if text not in seen])
        seen.update(cluster)
    return start


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_texts_and_clusters_does_not_matter(seed: int) -> None:
    some = texts(seed)
    parts = vote(some[::2], ALIKE) + vote(some[1::2], ALIKE)
    random.Random(seed).shuffle(some)
    assert vote(some, ALIKE) == vote(sorted(some), ALIKE)
    assert greedy(parts[::-1], ALIKE) == greedy(parts, ALIKE)


def test_nothing_and_one_text() -> None:
    assert vote([], ALIKE) == greedy([], ALIKE) == []
    assert vote(["x", "x"], ALIKE) == greedy([["x"], ["x"]], ALIKE) == [["x"]]
    assert vote([""], ALIKE) == [[""]]


def parts_of_the_same_texts(n_parts: int) -> list[Clusters]:
    """Run VOTE on chunks that have some of the same 30 texts each."""
    rng = random.Random(3)
    some = texts(3, 100)[:30]
    return [vote(rng.sample(some, rng.randint(5, 25)), ALIKE) for _ in range(n_parts)]


def test_the_state_grows_with_different_texts_and_not_with_what_is_merged() -> None:
    aggregator = VoteThenGreedy(ALIKE)
    parts = parts_of_the_same_texts(400)
    state = aggregator.zero()
    sizes = []
    for part in parts:
        state = aggregator.merge(state, part)
        sizes.append(sum(map(len, state)))
    n_texts = len({text for cluster in state for text in cluster})
    assert len({tuple(cluster) for part in parts for cluster in part}) > 5 * n_texts
    assert len(state) <= n_texts
    assert max(sizes) <= n_texts * max(len(cluster) for part in parts for cluster in part)
    assert sizes[-1] <= 1.1 * sizes[len(sizes) // 2]


def test_what_the_state_leaves_out_changes_no_result() -> None:
    aggregator = VoteThenGreedy(ALIKE)
    for n_parts in (1, 2, 7, 40):
        parts = parts_of_the_same_texts(n_parts)
        state = aggregator.zero()
        for part in parts:
            state = aggregator.merge(state, part)
        assert aggregator.finish(state) == greedy([c for part in parts for c in part], ALIKE)
        halves = [aggregator.zero(), aggregator.zero()]
        for number, part in enumerate(reversed(parts)):
            halves[number % 2] = aggregator.merge(part, halves[number % 2])
        assert aggregator.merge(*halves) == state
        assert aggregator.merge(state, state) == state

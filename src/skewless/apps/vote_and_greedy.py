"""Correlation clustering of texts: VOTE makes clusters, and GREEDY improves them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Clusters: TypeAlias = list[list[str]]
_Pairs: TypeAlias = NDArray[np.float32]  # for each pair of texts, or of a text and a cluster


def vote(texts: Iterable[str], alike: float) -> Clusters:
    """Return clusters: each text joins the one with the most votes for it, or begins a new one.

    A text of a cluster votes for a new text if the two are alike, and against it if not. Texts are
    taken in sorted order, so the same texts always have the same clusters.

    >>> vote(["anna berg", "otto lang", "anna bergh"], alike=0.5)
    [['anna berg', 'anna bergh'], ['otto lang']]
    """
    known = sorted(set(texts))
    agrees = agreement(known, alike)
    labels = np.zeros(len(known), np.int64)
    n_clusters = 0
    for number in range(len(known)):
        votes = np.bincount(labels[:number], agrees[number, :number], n_clusters)
        best = int(votes.argmax()) if number else 0
        if n_clusters and votes[best] > 0:
            labels[number] = best
        else:
            labels[number] = n_clusters
            n_clusters += 1
    return _named(known, labels)


def greedy(clusters: Clusters, alike: float) -> Clusters:
    """Return clusters that no single step improves: merge two, or move a text to another one.

    A text that disagrees with its cluster may also begin a new one. Each step adds to the
    agreement, so the steps end. A text that is in two clusters stays in the first of them.

    >>> greedy([["anna berg"], ["anna bergh"], ["otto lang", "otto lanz"]], alike=0.5)
    [['anna berg', 'anna bergh'], ['otto lang', 'otto lanz']]
    """
    label_of = _first_of(sorted(sorted(cluster) for cluster in clusters))
    known = list(label_of)
    agrees = agreement(known, alike)
    labels = np.array([label_of[text] for text in known], np.int64)
    changed = True
    while changed:
        labels, merged = _merged(labels, agrees)
        labels, moved = _moved(labels, agrees)
        changed = merged or moved
    return _named(known, labels)


def first_clusters(clusters: Clusters) -> Clusters:
    """Return the clusters that are the first one of some text; `greedy` does not need the others.

    A cluster that is left out here is not a first one when more clusters come. So parts may be
    reduced in any order and any number of times: the same clusters remain.

    >>> first_clusters([["b", "c"], ["a", "c"], ["a", "b"]])
    [['a', 'b'], ['a', 'c']]
    """
    ordered = sorted(sorted(cluster) for cluster in clusters)
    return [ordered[number] for number in sorted(set(_first_of(ordered).values()))]


def agreement(texts: list[str], alike: float) -> _Pairs:
    """Return 1 for each pair of texts that is alike, −1 for the others, 0 for a text and itself.

    Two texts are alike if, of all pairs of neighbouring letters in either of them, at least the
    share `alike` is in both.
    """
    codes: dict[str, int] = {}
    # Blanks around each text, so that a text of one letter has pairs, and first letters count.
    framed = [f" {text.casefold()} " for text in texts]
    pairs = [
        sorted({codes.setdefault(f[i : i + 2], len(codes)) for i in range(len(f) - 1)})
        for f in framed
    ]
    has = np.zeros((len(texts), len(codes)), np.float32)
    for number, found in enumerate(pairs):
        has[number, found] = 1
    sizes = has.sum(1)
    both = has @ has.T
    agrees = np.where(both >= alike * (sizes[:, None] + sizes - both), 1, -1).astype(np.float32)
    np.fill_diagonal(agrees, 0)
    return agrees


def _first_of(ordered: Clusters) -> dict[str, int]:
    """Return for each text the number of the first cluster that it is in."""
    first: dict[str, int] = {}
    for number, cluster in enumerate(ordered):
        for text in cluster:
            first.setdefault(text, number)
    return first


def _merged(labels: NDArray[np.int64], agrees: _Pairs) -> tuple[NDArray[np.int64], bool]:
    """Merge the two clusters that gain most, until none do; return whether any did."""
    members = _members(labels)
    gains = members.T @ agrees @ members
    np.fill_diagonal(gains, 0)
    into = np.arange(gains.shape[0])
    merged = False
    while gains.size and gains.max() > 0:
        kept, gone = divmod(int(gains.argmax()), gains.shape[0])
        gains[kept] += gains[gone]
        gains[:, kept] += gains[:, gone]
        gains[gone] = gains[:, gone] = 0  # an empty cluster gains nothing
        gains[kept, kept] = 0
        into[into == gone] = kept
        merged = True
    return into[np.unique(labels, return_inverse=True)[1]], merged


def _moved(labels: NDArray[np.int64], agrees: _Pairs) -> tuple[NDArray[np.int64], bool]:
    """Move the text that gains most to another cluster or a new one, until none does."""
    labels = np.unique(labels, return_inverse=True)[1]
    moved = False
    rows = np.arange(labels.size)
    # A column for each cluster, and an empty one for a text that begins a new cluster.
    votes = np.pad(agrees @ _members(labels), ((0, 0), (0, 1)))
    while labels.size:
        gains = votes - votes[rows, labels][:, None]
        text, there = divmod(int(gains.argmax()), gains.shape[1])
        if gains[text, there] <= 0:
            break
        votes[:, labels[text]] -= agrees[:, text]
        votes[:, there] += agrees[:, text]
        labels[text] = there
        moved = True
        if there == votes.shape[1] - 1:
            votes = np.pad(votes, ((0, 0), (0, 1)))
    return labels, moved


def _members(labels: NDArray[np.int64]) -> _Pairs:
    """Return for each text and cluster whether the text is in it."""
    codes = np.unique(labels, return_inverse=True)[1]
    members = np.zeros((labels.size, int(codes.max(initial=-1)) + 1), np.float32)
    members[np.arange(labels.size), codes] = 1
    return members


def _named(texts: list[str], labels: NDArray[np.int64]) -> Clusters:
    clusters: dict[int, list[str]] = {}
    for text, label in zip(texts, labels.tolist(), strict=True):
        clusters.setdefault(label, []).append(text)
    return sorted(sorted(cluster) for cluster in clusters.values())

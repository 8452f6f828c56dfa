"""The home of a key is where a source sends it first, and most keys stay there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skewless import registry
from skewless.checks import CheckFailed, check_strategy
from skewless.strategies import PartialKey

HASHED = ("cascade", "cascade-ahead", "dalton", "pstream", "dagreedy")
OF_TWO = ("fish", "pd-stream", "pkg", "d-choices")


def at_home(name: str, keys: Any, n_workers: int) -> Any:
    strategy, out = registry.make(name), np.full(keys.size, -1, np.int32)
    state: Any = strategy.start(n_workers, seed=4)
    strategy.route(keys, state, out)
    return out == strategy.homes(keys, state)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [*HASHED, *OF_TWO])
def test_a_source_sends_its_first_record_home(name: str) -> None:
    for key in range(5):
        assert at_home(name, np.full(1, key, np.uint64), 8).all()


@pytest.mark.parametrize("name", HASHED)
def test_keys_that_are_hashed_while_cold_stay_at_home(name: str) -> None:
    shares = 1.0 / np.arange(1, 20_001)
    draws = np.random.default_rng(1).choice(shares.size, 50_000, p=shares / shares.sum())
    keys = draws.astype(np.uint64)
    home = at_home(name, keys, 8)
    split = np.unique(keys[~home]).size
    assert split < 0.1 * np.unique(keys).size, split


class HomesFollowTheLoads(PartialKey):
    def homes(self, keys: Any, state: Any) -> Any:
        return np.full(keys.size, np.argmin(state.loads), np.int32)


class HasOneHomeForAllKeys(PartialKey):
    def homes(self, keys: Any, state: Any) -> Any:
        return np.zeros(1, np.int32)


@pytest.mark.parametrize("fault", [HomesFollowTheLoads, HasOneHomeForAllKeys])
def test_the_contract_refuses_homes_that_are_none(fault: type[PartialKey]) -> None:
    with pytest.raises(CheckFailed, match="fails homes_are_the_same_for_all_sources"):
        check_strategy(fault())

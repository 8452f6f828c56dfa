"""Parameters of strategies and workloads, aggregations, and the simulator's arguments."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

from fuzz.cases import NASTY, NUMBERS, cases, report, told, wrong_with
from skewless import aggregations, parameters, registry, workloads
from skewless.simulator import Cluster, Measuring, simulate

KEYS = np.arange(50, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def some(rng: random.Random, names: list[str], pool: list[Any]) -> dict[str, Any]:
    """Return nasty values for one or two of these names."""
    chosen = rng.sample(names, min(len(names), rng.choice([1, 1, 2])))
    return {name: rng.choice(pool) for name in chosen}


def shown_call(what: str, arguments: dict[str, Any]) -> str:
    return f"{what}({', '.join(f'{name}={told(value)}' for name, value in arguments.items())})"


def use(name: str, settings: dict[str, Any]) -> None:
    """Make the strategy and let it route a little: what is accepted must work."""
    strategy = registry.make(name, **settings)
    out = np.full(KEYS.size, -1, np.int32)
    strategy.route(KEYS, strategy.start(4, 0), out)
    assert 0 <= out.min() <= out.max() < 4


def test_strategies_work_or_refuse_their_parameters_by_name() -> None:
    found = []
    named = [name for name in registry.names() if parameters.names(registry.get(name))]
    for number, rng in cases("strategies", 400):
        name = rng.choice(named)
        settings = some(rng, parameters.names(registry.get(name)), NUMBERS * 2 + NASTY)
        wrong = wrong_with(lambda: use(name, settings), list(settings))  # noqa: B023
        if wrong is not None:
            found.append((number, shown_call(name, settings), wrong))
    assert not found, report("strategies", found)


def read(name: str, settings: dict[str, Any], seed: Any) -> None:
    """Make the workload, and read its first records if that is little work."""
    workload = workloads.make(name, **settings)
    if getattr(workload, "n_keys", 0) <= 1_000_000 and (workload.n_records or 0) > 0:
        next(workload.chunks(seed, 100))


def test_workloads_work_or_refuse_their_parameters_by_name() -> None:
    found = []
    for number, rng in cases("workloads", 300):
        name = rng.choice(workloads.names())
        settings = some(rng, parameters.names(workloads.get(name)), NUMBERS + NASTY)
        seed = rng.choice([0, 0, 0, *NASTY])
        names = [*settings, "seed", *(["path"] if name == "trace" else [])]
        wrong = wrong_with(lambda: read(name, settings, seed), names)  # noqa: B023
        if wrong is not None and not wrong.startswith("builtins.FileNotFoundError"):
            found.append((number, shown_call(f"{name}, seed {told(seed)}", settings), wrong))
    assert not found, report("workloads", found)


def simulated(given: dict[str, Any]) -> None:
    """Simulate, with the groups built of their parts unless they are given whole."""
    given = dict(given)
    cluster = Cluster(given.pop("capacities"), given.pop("events"))
    measuring = Measuring(
        **{name: given.pop(name) for name in parameters.names(Measuring) if name in given}
    )
    given |= {"cluster": cluster} if given["cluster"] is None else {}
    given |= {"measuring": measuring} if given["measuring"] is None else {}
    simulate(**given)


def test_the_simulator_works_or_refuses_its_arguments_by_name() -> None:
    found = []
    valid: dict[str, Any] = {
        **{"strategy": registry.make("pkg"), "workload": workloads.make("zipf", n_records=100)},
        **{"n_workers": 3, "n_sources": 2, "seed": 0, "window": 10},
        **{"horizon": 0, "sync": 0, "cluster": None, "timing": None, "capacities": None},
        **{"state_windows": 5, "chunk_size": 64, "max_pairs": 1000},
        **{"forwarding": False, "events": (), "measuring": None},
    }
    for number, rng in cases("simulate", 150):
        changed = some(rng, list(valid), NUMBERS + NASTY)
        given = {**valid, **changed}
        wrong = wrong_with(lambda: simulated(given), list(changed))  # noqa: B023
        if wrong is not None:
            found.append((number, shown_call("simulate", changed), wrong))
    assert not found, report("simulate", found)


CONSTRUCTORS: dict[str, dict[str, Any]] = {
    **{name: {"column": "v"} for name in ("count", "sum", "mean", "min", "max", "collect")},
    **{name: {"column": "v", "population": False} for name in ("variance", "stddev")},
    **{"collect_set": {"column": "v"}, "vwap": {"value": "v", "weight": "w"}},
    "distinct": {"column": "v", "exact": True},
    "ApproxDistinct": {"column": "v", "relative_error": 0.05},
    "PerKey": {"aggregator": None},
}


def test_aggregations_refuse_their_arguments_by_name() -> None:
    found = []
    for number, rng in cases("aggregations", 300):
        name = rng.choice(sorted(CONSTRUCTORS))
        changed = some(rng, list(CONSTRUCTORS[name]), NASTY)
        given = {**CONSTRUCTORS[name], **changed}
        call = getattr(aggregations, name)
        wrong = wrong_with(lambda: call(**given), list(given))  # noqa: B023
        if wrong is not None:
            found.append((number, shown_call(name, given), wrong))
    assert not found, report("aggregations", found)


@pytest.mark.parametrize(
    "cls", [registry.get(name) for name in registry.names()] + [*workloads.ALL]
)
def test_every_parameter_refuses_what_is_no_value_of_its_type(cls: Any) -> None:
    for field in dataclasses.fields(cls):
        for bad in (object(), b"x", {"a": 1}):
            wrong = wrong_with(lambda: cls(**{field.name: bad}), [field.name, "path"])  # noqa: B023
            assert wrong is None, (cls, field.name, wrong)

"""A plan of keys: what it says, and how it is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planning.test_packing import counted
from skewless.planning import KeyPlan, pack
from skewless.planning.key_plan import Made, plan_of

MADE = Made(("k",), ("string",), 7, 0.05)


def planned(n: int = 4, capacities: Any = None) -> KeyPlan:
    loads = [5000.0, 900.0, *np.full(2000, 3.0)]
    counts = counted(loads, n, capacities)
    names = [f"key {place}" for place in range(counts.hashes.size)]
    return KeyPlan(**plan_of(counts, pack(counts, n, capacities), MADE, capacities, names))


def test_a_plan_says_which_keys_are_split() -> None:
    plan = planned()
    assert [key.load for key in plan.split] == [5000.0]
    assert plan.imbalance <= 0.05
    assert plan.replication == pytest.approx(1 + 1 / 2002)
    text = str(plan)
    assert "2,002 keys of k, counted in all records" in text
    assert "1 of them split" in text
    assert plan.split[0].name in text


def test_a_saved_plan_is_the_same_plan(tmp_path: Path) -> None:
    for plan in (planned(), planned(3, (1.0, 0.5, 0.0))):
        plan.save(tmp_path / "plan.json")
        assert KeyPlan.load(tmp_path / "plan.json") == plan
    assert (tmp_path / "plan.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is no skewless key plan"),
        ({"version": 2}, "has version 2"),
        ({"n_workers": 0}, "n_workers must be 1 … "),
        ({"homes": [99]}, "homes must be 0 … 3, not 99"),
        ({"homes": []}, "homes cannot be"),
        ({"loads": [1.0]}, "loads cannot be"),
        ({"loads": [float("inf")] * 4}, "loads cannot be"),
        ({"table": [[1, 2.0, None, [[0, 0.5]]]]}, "table cannot be"),
        ({"table": [[1, 2.0, None, [[9, 1.0]]]]}, "table must be 0 … 3, not 9"),
        ({"table": [[1 << 63, 2.0, None, [[0, 1.0]]]]}, "table cannot be"),
        ({"table": [[1, 2.0, 3, [[0, 1.0]]]]}, "table cannot be"),
        ({"made": {}}, "made cannot be"),
        ({"capacities": [1.0]}, "capacities cannot be"),
        ({"capacities": [0, 0, 0, 0]}, "capacities cannot be"),
        ({"version": True}, "has version True"),
        ({"loads": [10**400] * 4}, "is damaged"),
        ({"loads": [1e308] * 4}, "loads cannot be"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "plan.json"
    planned().save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message):
        KeyPlan.load(path)


def test_what_is_not_json_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(b"\x80\x04pickle")
    with pytest.raises(ValueError, match="is not JSON"):
        KeyPlan.load(path)


def test_a_seed_as_a_number_with_a_point_is_a_whole_number(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    planned().save(path)
    saved = json.loads(path.read_text())
    path.write_text(json.dumps(saved | {"made": saved["made"] | {"seed": 5.0}}))
    assert KeyPlan.load(path).made.seed.__class__ is int

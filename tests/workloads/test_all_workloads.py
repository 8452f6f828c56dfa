"""What holds for every workload."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skewless import workloads
from skewless.keys import hash_keys
from skewless.parameters import as_dict
from workloads.streams import SMALL, whole

each_small = pytest.mark.parametrize("workload", SMALL, ids=repr)


@each_small
@given(chunk_size=st.integers(1, 1_100), seed=st.integers(0, 3))
@settings(deadline=None, max_examples=20)
def test_chunking_is_invisible(workload: Any, chunk_size: int, seed: int) -> None:
    chunks = list(workload.chunks(seed, chunk_size))
    assert all(chunk.size == chunk_size for chunk in chunks[:-1])
    assert np.array_equal(np.concatenate(chunks), np.concatenate(list(workload.chunks(seed))))


@each_small
def test_a_stream_has_its_number_of_records(workload: Any) -> None:
    keys = np.concatenate(list(workload.chunks(0, 300)))
    assert keys.size == workload.n_records
    assert keys.dtype == np.uint64
    assert list(replace(workload, n_records=0).chunks(0)) == []


@each_small
def test_a_longer_stream_begins_with_the_shorter(workload: Any) -> None:
    longer = replace(workload, n_records=workload.n_records + 137)
    assert np.array_equal(whole(longer, 5)[: workload.n_records], whole(workload, 5))


@each_small
def test_keys_are_the_hashes_of_the_ranks(workload: Any) -> None:
    keys = np.concatenate(list(workload.chunks(2)))
    assert np.array_equal(keys, hash_keys(whole(workload, 2)))
    assert whole(workload, 2).min() >= 1


@each_small
def test_another_seed_is_another_stream(workload: Any) -> None:
    assert not np.array_equal(whole(workload, 0), whole(workload, 1))
    assert np.array_equal(whole(workload, 0), whole(workload, 0))


@each_small
@pytest.mark.parametrize("chunk_size", [0, -1])
def test_an_impossible_chunk_size_is_refused(workload: Any, chunk_size: int) -> None:
    with pytest.raises(ValueError, match=f"chunk_size must be at least 1, not {chunk_size}"):
        next(workload.chunks(0, chunk_size))


@each_small
def test_parameters_survive_a_round_through_text(workload: Any) -> None:
    settings = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in as_dict(workload).items()
    }
    assert workloads.make(workload.name, **settings) == workload


def test_every_workload_is_tried_here_or_is_a_trace() -> None:
    assert {type(workload) for workload in SMALL} | {workloads.Trace} == set(workloads.ALL)


def test_names_are_unique_and_lead_back() -> None:
    assert len(set(workloads.names())) == len(workloads.ALL)
    assert [workloads.get(name) for name in workloads.names()] == list(workloads.ALL)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="unknown workload 'zipff'; did you mean 'zipf'"):
        workloads.make("zipff")
    with pytest.raises(ValueError, match="zipf: unknown parameter 'n_key'; did you mean 'n_keys'"):
        workloads.make("zipf", n_key=3)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("zipf", "z", -0.1),
        ("zipf", "z", float("nan")),
        ("zipf", "z", 21),
        ("zipf", "n_keys", 0),
        ("zipf", "n_records", -1),
        ("evolving-zipf", "period", 0),
        ("evolving-zipf", "reversed_share", 1.1),
        ("fluctuation", "interval", 0),
        ("fluctuation", "f", -1),
        ("fluctuation", "n_workers", 1),
        ("alternating", "period", 0),
        ("shifting-zipf", "z_min", -1),
        ("shifting-zipf", "z_max", 0.1),
        ("shifting-zipf", "period", 0),
        ("per-source", "exponents", ()),
        ("per-source", "exponents", (1.0, -1.0)),
        ("per-source", "exponents", "1,x"),
        ("per-source", "heavy_hitters", "some"),
        ("burst", "period", 0),
        ("burst", "duration", 1_000_001),
        ("burst", "share", -0.5),
    ],
)
def test_a_parameter_out_of_range_is_named(name: str, parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: {parameter} must be .*, not "):
        workloads.get(name)(**{parameter: value})


def digest() -> str:
    """Return a digest of all small streams."""
    keys = [chunk for workload in SMALL for chunk in workload.chunks(3)]
    return hashlib.sha256(np.concatenate(keys).tobytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.parametrize("jit_off", ["0", "1"])
def test_another_process_makes_the_same_stream(jit_off: str) -> None:
    program = "from workloads.test_all_workloads import digest; print(digest())"
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": jit_off, "PYTHONPATH": path}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == digest()

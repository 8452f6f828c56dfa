"""What kernels cost that are compiled for any CPU, as a ratio to those for this machine's CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from time import process_time_ns
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from rich.progress import track

from benchmarks.records import Report, Row, grouped, markdown, range_of, ratios, times
from benchmarks.streams import zipf_keys
from skewless import registry
from skewless.arrays import Keys
from skewless.cli.option import option
from skewless.keys import hash_keys

CPUS: dict[str, dict[str, str]] = {"host": {}, "generic": {"NUMBA_CPU_NAME": "generic"}}
STRATEGIES = ("hash", "pkg", "cascade-ahead")  # those that `skewless compile` compiles for


def measure(turns: int) -> Iterator[Row]:
    """Yield a record per kind of kernel, CPU and turn; turn -1 compiles.

    numba reads the CPU's name when it is imported, so each CPU has a process of its own.
    """
    others = {name: value for name, value in os.environ.items() if name != "NUMBA_CPU_NAME"}
    command = [sys.executable, "-m", "benchmarks.generic_cpu", "--one-turn"]
    for turn in track(range(-1, turns), "turns"):
        for cpu in list(CPUS)[:: 1 - 2 * (turn % 2)]:  # a machine that becomes busy hits both
            said = subprocess.check_output(command, env=others | CPUS[cpu])
            for what, ns in json.loads(said).items() if turn >= 0 else ():
                yield {"what": what, "cpu": cpu, "turn": turn, "ns_per_record": ns}


def one_turn(n_records: int = 1_000_000) -> dict[str, float]:
    """Return the CPU time per record, in ns, of each kind of kernel in this process.

    The second half of a stream is measured: the first one loads kernels and fills states.
    """
    keys = zipf_keys(1.4, 100_000, n_records)
    texts = pa.array([f"customer {key}" for key in (keys % 100_000).tolist()])
    jobs: dict[str, tuple[Callable[[Any], Any], Any]] = {"hashing texts": (hash_keys, texts)}
    jobs |= {f"routing by `{name}`": (routing(name), keys) for name in STRATEGIES}
    found, half = {}, n_records // 2
    for what, (job, records) in jobs.items():
        job(records[:half])
        begin = process_time_ns()
        job(records[half:])
        found[what] = (process_time_ns() - begin) / half
    return found


def routing(name: str) -> Callable[[Keys], None]:
    """Return what routes keys by a strategy, with one state for all calls."""
    strategy = registry.make(name)
    state = strategy.start(64, seed=1)
    return lambda keys: strategy.route(keys, state, np.empty(keys.size, np.int32))


def table(records: Sequence[Row]) -> str:
    """Return a row per kind of kernel: generic to host within a turn."""
    rows = []
    for what, chosen in grouped(records, "what").items():
        cpus = grouped(chosen, "cpu")
        found = ratios(cpus["generic"], cpus["host"], lambda r: float(r["ns_per_record"]))
        rows.append([what, times(found), range_of(found)])
    return markdown("kernels | generic to host | lowest to highest", rows)


REPORT = Report(
    "generic_cpu.jsonl",
    {("docs/guides/cluster.md", "generic cpu"): table},
    command="python -m benchmarks.generic_cpu",
)


def main(
    turns: int = option(7, "Turns of both CPUs."),
    one: bool = typer.Option(False, "--one-turn", hidden=True),
) -> None:
    """Measure kernels for a generic CPU and for this one; write the raw records and the table."""
    if one:
        print(json.dumps(one_turn()))
    else:
        REPORT.write(measure(turns))


if __name__ == "__main__":
    typer.run(main)

"""`skewless compile`: compiles kernels into a folder that can be moved, packed and read-only."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input, stopped
from skewless.cli.option import option
from skewless.cli.screen import AsJson, print_json
from skewless.plumbing import new_process
from skewless.plumbing.private_files import KERNELS, read_only

_CPUS = {"host": {}, "generic": {"NUMBA_CPU_NAME": "generic"}}


@app.command("compile")
def compile_kernels(
    folder: Annotated[Path, typer.Argument(help="The folder; it is made if it is missing.")],
    strategy: str = option("cascade-ahead,hash,pkg", reading.STRATEGIES),
    cpu: str = option("host", "host: this machine's CPU. generic: any of its architecture."),
    as_json: AsJson = False,
) -> None:
    """Compile what routing needs into a folder, which may then be moved to other machines.

    Set SKEWLESS_CACHE_DIR to the folder to use it, and for --cpu generic NUMBA_CPU_NAME=generic
    too. Python, numba and skewless must have the same versions there.
    """
    with refusing_bad_input():
        if cpu not in _CPUS:
            raise ValueError(f"--cpu must be {' or '.join(_CPUS)}, not {cpu!r}")
        names = [one.name for one in reading.strategies(strategy, {})]
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"FOLDER must be a folder that can be made, not {str(folder)!r}: {error.strerror}"
            ) from None
        for place in (folder, folder / KERNELS):
            if read_only(place):  # kernels that it lacks would go to the user's cache
                raise ValueError(f"{place} is read-only: chmod u+w it, or name another folder")
    needed = {"SKEWLESS_CACHE_DIR": str(folder.resolve()), **_CPUS[cpu]}
    print(f"skewless: compiling for {', '.join(names)}, which takes a minute", file=sys.stderr)
    # A process of its own: numba reads the CPU's name when it is imported.
    others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    command = new_process.python(f"from {__name__} import in_new_process as run; run({strategy!r})")
    if subprocess.run(command, env=others | needed, check=False).returncode:
        raise stopped(f"kernels could not be compiled into {folder}", 1)
    if as_json:
        print_json({"folder": str(folder), "strategies": names, "environment": needed})
    else:
        print("To use it:", *(f"{name}={shlex.quote(value)}" for name, value in needed.items()))


def in_new_process(names: str) -> None:
    """Compile in this process; what goes wrong with files is one line."""
    try:
        use_kernels(names)
    except OSError as error:
        sys.exit(f"skewless: {' '.join(str(error).split())}")
    except KeyboardInterrupt:  # the process that waits for this one says so
        sys.exit(1)


def use_kernels(names: str) -> None:
    """Route a few records by each strategy in each way, so that all of its kernels are compiled."""
    import numpy as np
    import pyarrow as pa

    from skewless.arrays import read_only
    from skewless.plumbing.compiling import cache_folder

    cache_folder()  # what is wrong with the folder is said before anything is loaded
    from skewless.keys import hash_keys
    from skewless.simulator.syncing import merge_and_fork
    from skewless.spark.routing.bounded_counts import add, bounded_counts
    from skewless.spark.warming import warm, warm_strategy
    from skewless.strategy import Merges, Rescales, Weighs

    warm([])
    for kind in (pa.int32(), pa.int64(), pa.float64(), pa.decimal128(38), pa.large_string()):
        hash_keys(pa.array([None], kind))
    numbers = np.random.default_rng(0).zipf(1.5, 20_000)
    keys, out = read_only(numbers.astype(np.uint64)), np.empty(numbers.size, np.int32)
    for amounts in (None, np.ones(keys.size, np.int64)):
        add(bounded_counts(64), keys, amounts)
    for strategy in reading.strategies(names, {}):
        warm_strategy(strategy)
        states = [strategy.start(4, seed=0, source=source) for source in range(2)]
        for _ in range(2):  # what was learned may need other kernels than the first batch
            for state in states:
                strategy.route(keys, state, out)
                if isinstance(strategy, Weighs):
                    strategy.route_weighted(keys, read_only(np.ones(keys.size)), state, out)
            if isinstance(strategy, Merges):
                states = merge_and_fork(strategy, states)
        if isinstance(strategy, Rescales):
            strategy.route(keys, strategy.rescale(states[0], 5), out)

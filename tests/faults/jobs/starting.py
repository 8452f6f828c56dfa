"""Starting jobs as processes of their own, and reading what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skewless.spark.ledger.ledger import Ledger
from skewless.spark.ledger.names import plan_name
from spark.ledger.entries import read_reports, read_workers
from spark_sessions import local_settings

TESTS = Path(__file__).parents[2]
N_BATCHES = 4
_RECORDS_PER_FILE = 1_500
_LONGEST_S = 1_800  # of any one job, also on a busy machine
_OFF = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


def write_records(folder: Path) -> None:
    """Write two files per micro-batch: with a hot key that changes, null keys and late records."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True)
    for number in range(2 * N_BATCHES):
        hot = "early" if number < 2 * N_BATCHES - 2 else "late"
        n = _RECORDS_PER_FILE
        keys = np.where(rng.random(n) < 0.4, hot, rng.integers(0, 200, n).astype(str))
        ages = np.where(rng.random(n) < 0.05, 150, 0)  # of windows that the watermark has passed
        times = (1_700_000_000 + number * 20 + rng.integers(-60, 20, n) - ages) * 1_000_000
        table = pa.table(
            {
                "k": pa.array([None if i % 101 == 0 else k for i, k in enumerate(keys.tolist())]),
                "v": pa.array(rng.integers(0, 1000, n)),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )
        path = folder / f"{number:02}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000 + number, 1_000 + number))  # Spark reads the oldest file first


def query(
    name: str,
    strategy: str,
    *,
    merging: str = "blocks",
    windows: bool = False,
    mode: str | None = None,
    ledger: bool = True,
    workers: int | None = 8,
    bombed: bool = True,
    state: str | None = None,
    steps: Sequence[Sequence[Any]] = (),
    settings: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return one query of a job's configuration.

    Without `mode`, windows are appended when they are complete, and all else is updated. Without
    `bombed`, two queries with the same strategy have ledgers of the same identity. `state` is
    another type for the state of the own aggregator.
    """
    return {
        "name": name,
        "strategy": strategy,
        "merging": merging,
        "windows": windows,
        "mode": mode or ("append" if windows else "update"),
        "ledger": ledger,
        "workers": workers,
        "bombed": bombed,
        "state": state,
        "steps": [list(step) for step in steps],
        "settings": settings or {},
    }


class Job:
    """A driver in a process group of its own."""

    def __init__(
        self,
        folder: Path,
        records: Path,
        queries: Sequence[dict[str, Any]],
        *,
        master: str = "local[2,4]",
        settings: dict[str, str] | None = None,
    ) -> None:
        """Start the job; without other settings the state has two partitions."""
        two_partitions = {"spark.sql.shuffle.partitions": "2"}
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.json"
        config.write_text(
            json.dumps(
                {
                    "folder": str(folder),
                    "input": str(records),
                    "master": master,
                    "settings": two_partitions if settings is None else settings,
                    "queries": list(queries),
                }
            )
        )
        self.folder = folder
        self.began = time.time()
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "faults.jobs.job", str(config)],
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Wait for the driver's end, and return how it ended; leave no process behind."""
        try:
            return self.process.wait(_LONGEST_S)
        finally:
            end_session(self.process)

    def kill_when(self, happened: Callable[[float], bool], delay_s: float = 0.0) -> None:
        """Kill the driver, Python and Java, as soon as something has happened in this run."""
        give_up = time.time() + _LONGEST_S
        while not happened(self.began):
            if self.process.poll() is not None or time.time() > give_up:
                end_session(self.process)
                raise AssertionError(f"the job ended before it could be killed: {self.log()}")
            time.sleep(0.005)
        time.sleep(delay_s)
        assert self.kill() == -signal.SIGKILL

    def kill(self) -> int:
        """Kill the driver, Python and Java, and return how it ended, which may be earlier."""
        if self.process.poll() is None:  # otherwise the number may be another process's
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.wait()

    def log(self) -> str:
        """Return the end of what the job printed."""
        return (self.folder / "log").read_text(errors="replace")[-4000:]


def environment() -> dict[str, str]:
    """Return the environment in which Spark's Python workers find the tests' modules."""
    from skewless.spark.configuring import find_java

    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Many drivers live for seconds only: their JVMs compile little, and quickly.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Forks have these kernels loaded, so that no task waits for the compiler.
        "SKEWLESS_WARM": "cascade,fish,readj,hash",
    }


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a process's session: Python daemons have groups of their own."""
    give_up = time.time() + 30
    while (left := _in_session(leader.pid)) and time.time() < give_up:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        leader.poll()
        time.sleep(0.02)


def _in_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def appeared(folder: Path, pattern: str) -> Callable[[float], bool]:
    """Return whether a file that matches was written since a time."""

    def happened(since: float) -> bool:
        with contextlib.suppress(FileNotFoundError):  # renamed meanwhile: look again
            return any(path.stat().st_mtime >= since for path in folder.glob(pattern))
        return False

    return happened


def plans_of(folder: Path) -> dict[int, bytes]:
    """Return the plans of a query's ledger, byte for byte."""
    files = sorted((folder / "ledger" / "plans").glob("*.arrow"))
    return {int(file.stem): file.read_bytes() for file in files}


def n_different_plans(folder: Path) -> int:
    """Count the plans that share something that no other plan of the ledger does."""
    ledger = Ledger(str(folder / "ledger"))
    shared = set()
    for batch in plans_of(folder):
        plan = ledger.read(plan_name(batch))
        arrays = plan.arrays.items() if plan is not None else ()
        shared.add(tuple(a.tobytes() for name, a in sorted(arrays) if name.startswith("shared.")))
    return len(shared - {()})


def learned(folder: Path) -> dict[str, Any]:
    """Return all that sources and workers reported, but the seconds that it took them."""
    ledger = Ledger(str(folder / "ledger"))
    found: dict[str, Any] = {}
    for batch in ledger.batches():
        for kind, reports in (
            ("source", read_reports(ledger, batch)),
            ("worker", read_workers(ledger, batch)),
        ):
            for member, entry in reports.items():
                arrays = {name: array.tobytes() for name, array in entry.arrays.items()}
                about = {k: v for k, v in entry.about.items() if k != "seconds"}
                found[f"{batch} {kind} {member}"] = (arrays, about)
    return found


def run_without_checksums(
    job: str, folder: Path, records: Path, cases: Any, master: str, settings: Any
) -> None:
    """Run all cases of a job, with Spark's checksums off: only equal decisions save the results."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "folder": str(folder),
        "input": str(records),
        "master": master,
        "settings": local_settings(folder) | _OFF | settings,
        "cases": cases,
    }
    config = folder / "config.json"
    config.write_text(json.dumps(about))
    done = subprocess.run(
        [sys.executable, "-m", f"faults.jobs.{job}", str(config)],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]

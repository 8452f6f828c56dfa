"""A standalone cluster of Spark on loopback: a master and two workers, each a Java process."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from faults.jobs.starting import end_session, environment
from skewless.spark.worker_python import DAEMON

#: What a job on it is started with: two executors with one core each.
EXECUTORS = {
    **DAEMON,  # skewless is installed on this cluster
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # Both executors are there from the beginning, and each of them routes one file of batch 0.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    # As if on another machine: a dead executor does not answer, though its files are still there.
    "spark.shuffle.readHostLocalDisk": "false",
    "spark.shuffle.io.retryWait": "1s",
}


class Cluster:
    """Use it in a `with`; `master` is its address. Executors are Java processes of their own."""

    def __init__(self, folder: Path, n_workers: int = 2, *, apart: bool = False) -> None:
        """`apart`: each worker has an address of its own, as if it were another machine."""
        self.folder = folder
        self.n_workers = n_workers
        self.apart = apart
        self.port = _free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master.Master", "127.0.0.1", "--port", str(self.port))
            _wait_for(self.port)
            for number in range(self.n_workers):
                work = self.folder / f"worker-{number}"
                self._start(
                    "worker.Worker",
                    f"127.0.0.{number + 1 if self.apart else 1}",
                    *("--cores", "1", "--memory", "1g", "--work-dir", str(work), self.master),
                )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
            end_session(process)

    def _start(self, name: str, host: str, *arguments: str) -> None:
        import pyspark

        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{name}",
            *("--host", host, "--webui-port", "0"),
            *arguments,
        ]
        surroundings = environment() | {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": host,
        }
        with (self.folder / "log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    command,
                    env=surroundings,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    start_new_session=True,
                )
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    give_up = time.time() + 120
    while time.time() < give_up:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == os.EX_OK:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on port {port}")

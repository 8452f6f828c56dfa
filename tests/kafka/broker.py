"""Test support: a Kafka broker of its own, on loopback, that can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

JARS = Path(__file__).parents[2] / ".jars"
BROKER, CONNECTOR = JARS / "broker", JARS / "connector"
_CLUSTER = "c2tld2xlc3MtdGVzdHMtMQ"  # any 16 bytes, in base 64
_SECONDS_TO_START = 180  # a busy machine takes long to start a JVM
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def connector_jars() -> str:
    """Build the value of `spark.jars`."""
    return ",".join(str(path) for path in sorted(CONNECTOR.glob("*.jar")))


class Broker:
    """One broker that is its own controller (KRaft). Its records stay in its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.port, controller = _free_ports(2)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _SETTINGS.format(port=self.port, controller=controller, folder=folder), "utf-8"
        )
        self._process: subprocess.Popen[bytes] | None = None
        format_it = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c"]
        subprocess.run(
            self._command(*format_it, str(self._settings)), check=True, capture_output=True
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        assert self._process is None
        with (self.folder / "output").open("ab") as output:
            command = self._command("kafka.Kafka", str(self._settings))
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        end = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            said = (self.folder / "output").read_text("utf-8", errors="replace")
            assert self._process.poll() is None, f"the broker ended: {said[-2000:]}"
            assert time.monotonic() < end, f"the broker does not answer: {said[-2000:]}"
            time.sleep(0.2)

    def kill(self) -> None:
        """End the broker without any warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def _command(self, *arguments: str) -> list[str]:
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        return [str(java), "-Xmx384m", "-cp", f"{BROKER}/*", *arguments]

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def _free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on; all are held until all are known."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]

"""The work of a job: it waits, computes, calls a server of Redis, or makes partial results."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: What a task does with the keys of a batch, of which so many are new to it.
Spend = Callable[[list[str], int], None]

WITHIN_S = 10.0  # a server of Redis starts in less than one
_SKETCH = 32_768  # bytes of a partial result
_BLOCK = b"x" * 1024


def counting(start: Callable[[], contextlib.AbstractContextManager[Spend]]) -> Work:
    """Return work that counts records and keys, and spends time as each task begins to."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known: set[str] = set()
        n_records = 0
        with start() as spend:
            for batch in batches:
                before, keys = len(known), batch.column(0).to_pylist()
                known.update(keys)
                n_records += len(keys)
                spend(keys, len(known) - before)
        yield pa.RecordBatch.from_pydict({"records": [n_records], "keys": [len(known)]})

    return work


def waiting(per_record: float, per_pair: float) -> Work:
    """Return work that waits, for each record and for each key that is new to the task."""

    def spend(keys: list[str], n_new: int) -> None:
        time.sleep(len(keys) * per_record + n_new * per_pair)

    return counting(lambda: contextlib.nullcontext(spend))


def computing(per_record: float) -> Work:
    """Return work that computes as long for each record, by as many rounds as that takes here."""
    rounds = rounds_for(per_record)

    def spend(keys: list[str], n_new: int) -> None:
        for _ in keys:
            checksum = 0
            for _ in range(rounds):
                checksum = zlib.crc32(_BLOCK, checksum)

    return counting(lambda: contextlib.nullcontext(spend))


def calling(port: int) -> Work:
    """Return work that counts each record in Redis, and waits for each answer."""

    @contextlib.contextmanager
    def start() -> Iterator[Spend]:
        with connection(port) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def spend(keys: list[str], n_new: int) -> None:
                for name in map(str.encode, keys):
                    server.sendall(b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(name), name))
                    answer = server.recv(64)
                    assert answer.startswith(b":"), answer

            yield spend

    return counting(start)


def sketching() -> Work:
    """Return work that makes a partial result for each key of the task."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: dict[str, int] = {}
        for batch in batches:
            for count in batch.column(0).value_counts().to_pylist():
                counts[count["values"]] = counts.get(count["values"], 0) + count["counts"]
        keys = list(counts)
        for begin in range(0, len(keys), 1000):
            some = keys[begin : begin + 1000]
            sketches = [key.encode()[:_SKETCH].ljust(_SKETCH, b"0") for key in some]
            columns = [pa.array(some), pa.array([counts[key] for key in some]), pa.array(sketches)]
            yield pa.RecordBatch.from_arrays(columns, ["key", "records", "sketch"])

    return work


def seconds_of_a_call(port: int) -> float:
    """Measure the seconds of one call, from one connection."""
    n = 5_000
    begin = time.perf_counter()
    list(calling(port)(iter([pa.RecordBatch.from_pydict({"key": ["a"] * n})])))
    return (time.perf_counter() - begin) / n


def rounds_for(seconds: float) -> int:
    """Count the checksums of a kilobyte that take so long on this machine."""
    n = 20_000
    begin = time.process_time()
    for _ in range(n):
        zlib.crc32(_BLOCK)
    return max(1, round(seconds * n / (time.process_time() - begin)))


@contextlib.contextmanager
def redis() -> Iterator[int | None]:
    """Start a server of Redis on this machine alone; yield its port, None without one."""
    program = shutil.which("redis-server")
    if program is None:
        print("redis-server was not found: the case that calls it is left out")
        yield None
        return
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = int(found.getsockname()[1])
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        wait_for(server, port)
        yield port
    finally:
        server.terminate()
        server.wait()


def wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    """Return when the server answers; end the program if it has ended, or takes too long."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), connection(port):
            return
        if server.poll() is not None:
            raise SystemExit(f"redis-server ended with exit code {server.returncode} as it started")
        time.sleep(0.05)
    raise SystemExit(f"redis-server did not answer on port {port} within {WITHIN_S:g} s")


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))

"""A fuzzer of ledger files: `python -m spark.ledger.damage FILES SEED [STRATEGY …]`.

Every round damages one file of a small ledger, seals it again, and does what a task and what a
person would do with it. Either the file is refused in one line that names it, or all records get a
worker that exists. Prints whatever else happens, and the number of files of each kind at the end. A
crash of compiled code ends the process: so it is run in a process of its own.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from skewless import registry
from skewless.checks.tampering import stream_of, tampered
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger import ledger as ledgers
from skewless.spark.ledger.files import from_bytes, seal, to_bytes, unseal
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.plans import PlanMaker

#: Large tables would make a round slow and show nothing more.
SMALL = {
    "cm": {"window": 64},
    "cam": {"window": 64},
    "dagreedy": {"interval": 50, "hot_divisor": 1},
    "fish": {"capacity": 20, "epoch": 30},
    "dalton": {"stats_window": 40, "slide": 15, "n_slides": 3},
}
IDENTITY = {"strategy": "any", "seed": 3, "key": "k"}
ODD_VALUES = (None, True, -1, 0, 7, 2**70, 1e308, "", "x", [], {}, [[1]], {"a": {"b": []}})
ODD_TYPES = ("|O", "<i2", ">i8", "<f4", "V8", "i4,i4", "<U1", "|b1", "", "<i8\0", "<M8[D]")
ODD_SHAPES = ("[]", "[-1]", "[1073741824]", "[4294967296, 4294967296]", "[1e3]", "[[1]]", "{", "7")


class Memory:
    """The part of a ledger's folder that is needed here, in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def create(self, name: str, data: bytes) -> bytes:
        return self.content.setdefault(name, data)

    def overwrite(self, name: str, data: bytes) -> None:
        self.content[name] = data

    def files(self, under: str) -> list[str]:
        return sorted(name for name in self.content if name.rpartition("/")[0] == under)

    def folders(self, under: str) -> list[str]:
        depth = under.count("/") + 2
        found = (name.split("/") for name in self.content if name.startswith(under + "/"))
        return sorted({"/".join(parts[:depth]) for parts in found if len(parts) > depth})

    def delete(self, name: str) -> None:
        self.content.pop(name, None)

    def delete_folder(self, name: str) -> None:
        self.content = {n: d for n, d in self.content.items() if not n.startswith(name + "/")}


class Subject:
    """One strategy with a ledger of two batches, and what may be done with it."""

    def __init__(self, strategy: Any, n_workers: int) -> None:
        self.plans = PlanMaker(strategy, n_workers, 3)
        self.keys = stream_of(n_workers, 3).keys
        self.folder = Memory()
        ledgers.open_folder = lambda address: self.folder  # type: ignore[assignment]
        self.ledger = Ledger("fuzzed").of_run("a")
        self.identity = IDENTITY | {"workers": n_workers}
        for batch in range(2):
            for source in range(2):
                self.task(batch, source)
            for worker in range(2):
                top = [["a", 3, 5], ["b", 1, 6]]
                about = {"records": 4, "seconds": 0.1, "pairs": 2, "sampled_by": 1, "top": top}
                entry = Entry({"keys": np.array([5, 6], np.uint64)}, about)
                self.ledger.write_worker(batch, worker, entry)
        self.task(2, 0)
        self.folder.delete("reports/00000002/a/source-00000.arrow")
        # Most damage goes where states are.
        names = sorted(self.folder.content)
        self.names = names + 4 * [name for name in names if name.startswith(("plans", "reports"))]

    def task(self, batch: int, source: int) -> None:
        """Do what a task does."""
        self.ledger.claim(self.identity)
        self.ledger.bind("query")
        state = self.plans.begin(self.ledger, batch, source)[1]
        for keys in (self.keys, self.keys[::-1].copy()):
            out = np.full(keys.size, -1, np.int32)
            self.plans.strategy.route(keys, state, out)
            assert ((out >= 0) & (out < self.plans.n_workers)).all(), "out of range"
        loads = np.bincount(out, minlength=self.plans.n_workers)
        seen = self.plans.seen()
        if seen is not None:
            add(seen, keys)
        report = self.plans.report(state, loads, seen, {"records": 1, "seconds": 0.5})
        self.ledger.write_report(batch, source, report)

    def use(self, name: str) -> None:
        """Do whatever reads the file `name`."""
        people = Ledger("fuzzed")
        for batch in (0, 1):
            read_balance(people, batch, people.workers() or 1)
        if "0000002" not in name:
            self.folder.delete("plans/00000002.arrow")
        self.task(2, 1)
        self.task(2, 2)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a sealed file with something wrong in it."""
    kind = int(rng.integers(0, 10))
    content = unseal(data, "here")
    if kind < 3:
        return seal(_flipped(content, rng))
    entry = from_bytes(data, "here")
    if kind < 8:
        return to_bytes(Entry(tampered(entry.arrays, rng), entry.about))
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    if kind == 8 and table.num_columns:
        return _redescribed(table, rng)
    about = json.loads(table.schema.metadata[b"about"])
    for name in rng.permutation(sorted(about))[:2].tolist():
        about[name] = ODD_VALUES[int(rng.integers(0, len(ODD_VALUES)))]
    return to_bytes(Entry(entry.arrays, about))


def _flipped(content: bytes, rng: np.random.Generator) -> bytes:
    flipped = bytearray(content)
    # Half of the time in the headers, which are where the shapes are.
    end = len(flipped) if rng.integers(0, 2) else min(len(flipped), 3_000)
    for at in rng.integers(0, end, int(rng.choice([1, 1, 2, 8]))).tolist():
        flipped[at] = int(rng.integers(0, 256))
    return bytes(flipped)


def _redescribed(table: Any, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(0, table.num_columns))
    column = table.schema.field(at)
    described = dict(column.metadata)
    if rng.integers(0, 2):
        described[b"dtype"] = ODD_TYPES[int(rng.integers(0, len(ODD_TYPES)))].encode()
    else:
        described[b"shape"] = ODD_SHAPES[int(rng.integers(0, len(ODD_SHAPES)))].encode()
    fields = [
        field.with_metadata(described) if i == at else field for i, field in enumerate(table.schema)
    ]
    if rng.integers(0, 8) == 0:
        fields[at] = fields[at].with_name(fields[0].name)
    schema = pa.schema(fields, table.schema.metadata)
    batch = pa.record_batch([c.combine_chunks() for c in table.columns], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return seal(sink.getvalue().to_pybytes())


def damaged_text(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a statement with something wrong in it."""
    if rng.integers(0, 2):
        return _flipped(data, rng)[: int(rng.integers(0, len(data) + 1)) or None]
    content = json.loads(data)
    inner = content.get("identity", content)
    name = str(rng.choice(sorted(inner)))
    inner[name] = ODD_VALUES[int(rng.integers(0, len(ODD_VALUES)))]
    return json.dumps(content).encode()


def attempt(subject: Subject, rng: np.random.Generator) -> str:
    """Read one damaged file: refused, accepted, or an error in its own words."""
    name = str(rng.choice(subject.names))
    before = dict(subject.folder.content)
    change = damaged if name.endswith(".arrow") else damaged_text
    subject.folder.content[name] = change(before[name], rng)
    try:
        subject.use(name)
        return "accepted"
    except (LedgerCorrupt, LedgerTooNew, LedgerMismatch) as error:
        text = str(error)
        # A changed identity may contradict a file that is as it was.
        names_it = name in text or "the ledger in" in text or name == "identity.json"
        if "\n" in text or len(text) > 700 or not names_it:
            return f"{name}: not one line that names it: {text!r}"
        return "refused"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    finally:
        subject.folder.content = before


def main() -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")  # of arithmetic on odd numbers
    n_files, seed = int(sys.argv[1]), int(sys.argv[2])
    names = sys.argv[3:] or registry.names()
    told: Counter[str] = Counter()
    for number, name in enumerate(names):
        strategy = registry.get(name)(**SMALL.get(name, {}))
        rng = np.random.default_rng([seed, number])
        for n_workers in (5, 70):
            subject = Subject(strategy, n_workers)
            print(f"{name} {n_workers}", file=sys.stderr, flush=True)
            for _ in range(max(1, n_files // (2 * len(names)))):
                said = attempt(subject, rng)
                told[said if said in ("accepted", "refused") else "failed"] += 1
                if said not in ("accepted", "refused"):
                    print(f"{name}, {n_workers} workers: {said}", flush=True)
    print(json.dumps(told))


if __name__ == "__main__":
    main()

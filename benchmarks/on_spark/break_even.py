"""Compute which costs of a key per worker let routing by key pay; write the records and table.

Nothing is timed. The loads and (key, worker) pairs of each job are counted as `hot_keys` counts
them, and the costs are turned into seconds as it does. `spark_alternatives.py` measures some of
these cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import typer

from benchmarks.on_spark.spark_alternatives import OURS
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from benchmarks.streams import real_streams, zipf_keys
from skewless.arrays import Keys
from skewless.cli.option import option
from skewless.diagnosis.costs import ALIKE, Costs
from skewless.diagnosis.job import Job, SampledKeys
from skewless.diagnosis.ways import chosen_strategies, placed
from skewless.keys import hash_keys
from skewless.plumbing.rounding import seconds_text

N_RECORDS, N_KEYS, N_FILES = 2_000_000, 10_000, 8
#: Records of a job for each that is counted, where they are generated.
TIMES = 10
SLOTS = (8, 32, 128)
PER_RECORD = (0.0, 5e-6, 50e-6, 500e-6)
#: Costs of a key on each worker that has it, in seconds.
PER_PAIR = tuple(round(10.0 ** (step / 6), 9) for step in range(-36, 7))


def streams(data: Path | None) -> Iterator[tuple[str, Keys]]:
    """Yield the key hashes of streams by name: Zipf, and the real ones in a folder."""
    for z in (0.6, 0.8, 1.0, 1.2, 1.4):
        yield f"Zipf {z}", zipf_keys(z, N_KEYS, N_RECORDS)
    for name, column in real_streams(data, N_RECORDS):
        yield name, hash_keys(pa.chunked_array(column))


def measured(stream: str, keys: Keys) -> Iterator[Row]:
    """Yield a raw record for each number of slots and cost of a record."""
    records = keys.size * (TIMES if stream.startswith("Zipf") else 1)
    sizes = [part.size for part in np.array_split(keys, N_FILES)]
    sample = SampledKeys(keys, tuple(sizes))
    for slots in SLOTS:
        job = Job(sample, slots, slots, records)
        counted = {}
        for way in placed(job, chosen_strategies([OURS])):
            loads = np.bincount(way.workers, minlength=way.n_places)
            counted[way.name] = loads, sample.pairs(way.workers, way.n_places), way.moving
        for per_record in PER_RECORD:
            times = []
            for per_pair in PER_PAIR:
                priced = Job(sample, slots, slots, records, Costs(per_record, per_pair))
                times.append({name: priced.seconds(*of) or 0.0 for name, of in counted.items()})
            row = {"stream": stream, "slots": slots, "per_record": per_record}
            row |= dict.fromkeys(("from", "to", "below", "above"))
            pays = costs_that_pay(times)
            if pays is not None:
                first, last = pays
                row |= {"from": PER_PAIR[first], "to": PER_PAIR[last]}
                # What is the best just outside.
                row["below"] = best_other(times[max(first - 1, 0)])[0]
                row["above"] = best_other(times[min(last + 1, len(times) - 1)])[0]
            yield row


def costs_that_pay(times: Sequence[Mapping[str, float]]) -> tuple[int, int] | None:
    """Return the first and the last place where ours is the fastest by more than chance, or None.

    `times` has the seconds of each job, by its name, for costs that grow.

    >>> slow, fast = {"cascade-ahead": 2.0, "hash": 2.0}, {"cascade-ahead": 1.0, "hash": 2.0}
    >>> costs_that_pay([slow, fast, fast, slow]), costs_that_pay([slow])
    ((1, 2), None)
    """
    found = [number for number, one in enumerate(times) if best_other(one)[1] > ALIKE * one[OURS]]
    return (found[0], found[-1]) if found else None


def best_other(times: Mapping[str, float]) -> tuple[str, float]:
    """Return the fastest job that is not ours, and its seconds."""
    name = min((job for job in times if job != OURS), key=lambda job: times[job])
    return name, times[name]


def table(records: Sequence[Row]) -> str:
    """Return a row per cost of a record and number of slots, and a column per stream."""
    streams = grouped(records, "stream")
    rows = []
    for (per_record, slots), mine in grouped(records, "per_record", "slots").items():
        cells = {record["stream"]: _cell(record) for record in mine}
        row = [cells.get(stream, "–") for stream in streams]
        rows.append([seconds_text(per_record), slots, *row])
    return markdown(["a record costs", "slots", *streams], rows)


def _cell(record: Row) -> str:
    if record["from"] is None:
        return "never"
    begin = f"{seconds_text(record['from'])} ({record['below']})"
    if record["to"] >= PER_PAIR[-1]:
        return f"from {begin} on"
    return f"{begin} – {seconds_text(record['to'])} ({record['above']})"


REPORT = Report("on_spark/break_even.jsonl", {(BENCHMARKS, "break-even"): table})


def main(
    data: Path | None = option(None, "A folder of Parquet files with `key`."),
) -> None:
    """Compute which costs of a key per worker let routing by key pay."""
    REPORT.write(row for name, keys in streams(data) for row in measured(name, keys))


if __name__ == "__main__":
    typer.run(main)

"""Measure ways of partitioning by replay: what each takes on n slots, from runs on one slot.

Two cores cannot show what balance gains. Task times are real, though, and a replay supplies the
slots. Each way runs with n partitions on `local[1]`, where no task slows another one down, and its
event log is replayed on n slots. What a way counts, plans or routes beforehand is in the log, and
so in its time. The runner writes the records of a cell when it has measured the cell, and leaves
out cells that have records: start it again, and it goes on.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import tomllib
import typer
from pyspark.sql import SparkSession

from benchmarks.on_spark.event_logs import logged_session, run, runs_of
from benchmarks.on_spark.ways import FAMILIES, REBALANCE, Cell, Ways
from benchmarks.on_spark.ways_tables import PLACE, REPORT, constants, left_out, place, ten_rows
from benchmarks.records import Row, grouped, read_records, write_records
from benchmarks.streams import cut, stream_table, write_files
from benchmarks.turns import in_turns
from skewless.cli.option import option
from skewless.diagnosis.costs import Costs, Moving
from skewless.diagnosis.replay import Replay
from skewless.diagnosis.ways import WAYS, Job, SampledKeys, chosen_strategies, predict
from skewless.keys import hash_keys

_ADAPTIVE = "spark.sql.adaptive."


def cells() -> Iterator[Cell]:
    """Yield all cells of `cells.toml`, one for each stream and number of slots."""
    listed = Path(__file__).with_name("cells.toml").read_text(encoding="utf-8")
    for one in tomllib.loads(listed)["cell"]:
        streams, slots = one.pop("streams"), one.pop("slots")
        yield from (Cell(stream=stream, slots=n, **one) for stream in streams for n in slots)


@contextmanager
def session_of(cell: Cell, stream: pa.Table, folder: Path) -> Iterator[tuple[SparkSession, Ways]]:
    """Write the stream, and start the session of the cell; give it with the ways."""
    files, n = cut(stream, cell.slots) if cell.is_cut else [stream], str(cell.slots)
    path = write_files(folder / "in", files)
    # What Spark and `hot_keys` take for the number of slots.
    settings = {"spark.default.parallelism": n, "spark.sql.shuffle.partitions": n}
    if cell.is_cut:
        settings["spark.sql.files.minPartitionNum"] = n
    if cell.family == "join":  # the tables stand for larger ones
        settings["spark.sql.autoBroadcastJoinThreshold"] = "-1"
    with logged_session(1, folder / "log", settings) as spark:
        yield spark, FAMILIES[cell.family](cell, spark.read.parquet(str(path)), folder)


def measure(cell: Cell, stream: pa.Table, folder: Path, rounds: int, title: str) -> Iterator[Row]:
    """Yield a raw record for each way and round."""
    facts: dict[str, Row] = {}
    with session_of(cell, stream, folder) as (spark, (ways, said)):
        first = next(iter(ways))
        before = shuffled_bytes(spark)
        expected = ways[first]()["result"]  # starts Python, too
        scale_down(spark, (shuffled_bytes(spark) - before) // cell.slots)
        for number, name in in_turns(ways, rounds, title, first=-1):
            # Spark's partitions of a join or a groupBy are to be as many as the slots. Where
            # records are moved first, the number of partitions is given, and Spark keeps it.
            merges = cell.family not in ("join", "aggregate", "merge") or name == REBALANCE
            spark.conf.set(f"{_ADAPTIVE}coalescePartitions.enabled", str(merges))
            with run(spark, f"{number} {name}"):
                begin = time.time()
                found = facts[f"{number} {name}"] = ways[name]()
                found["begin"] = begin
            if found.pop("result") != expected:
                raise RuntimeError(f"{cell.says}: {name} has another result than {first}")
    for name, application in runs_of(folder / "log").items():
        turn, _, way = name.partition(" ")
        if int(turn) < 0:
            continue
        replay, found = Replay(application), facts[name]
        # The log has the time from the first job to the last one. What the driver did before
        # belongs to the run, and so does the commit of a write after it.
        ended = max(job.ended for job in application.jobs) / 1e3
        driver = application.jobs[0].submitted / 1e3 - found.pop("begin")
        driver += max(0.0, found.pop("end", ended) - ended)
        row = {**cell.about, "way": way, "round": int(turn), "said": said}
        took = {"seconds": driver + replay.run(cell.slots).seconds}
        took["alone"] = driver + replay.measured
        yield row | took | found


def with_rests(cell: Cell, stream: pa.Table, records: Sequence[Row]) -> list[Row]:
    """Return the records with what is predicted for their ways, without constants: `rest`.

    The costs are those of the cell. So nothing runs, and the same records give the same constants.
    """
    sizes = tuple(part.num_rows for part in cut(stream, cell.slots))
    costs, n = Costs(cell.per_record, cell.per_pair), cell.slots
    job = Job(SampledKeys(hash_keys(stream["key"]), sizes), n, n, stream.num_rows, costs)
    rests = {}
    for one in predict(job, chosen_strategies(["cascade-ahead"])):
        _, constant = (WAYS[one.way].moving if one.way else Moving.ROUTED).value
        rests[one.strategy] = {"rest": round((one.seconds or 0.0) - constant, 4)}
    return [{**one, **rests.get(one["way"], {})} for one in records]


def shuffled_bytes(spark: SparkSession) -> int:
    """Return the bytes that this session has written for shuffles so far."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return int(store.executorList(True).head().totalShuffleWrite())


def scale_down(spark: SparkSession, size: int) -> None:
    """Make this the size of a partition that Spark aims at, and above which one may be skewed.

    Spark's own sizes are for tables of 64 MB per task and more. Ours stand for such tables.
    """
    names = ("advisoryPartitionSize", "coalescePartitions.minPartitionSize")
    for name in (*names, "skewJoin.skewedPartitionThreshold"):
        in_bytes = name if name.endswith("minPartitionSize") else f"{name}InBytes"
        spark.conf.set(_ADAPTIVE + in_bytes, str(max(size, 1)))


def main(
    data: Path | None = option(None, "A folder of Parquet files with `key`."),
    rounds: int = option(3, "Rounds of each way.", min=1),
    full: bool = option(False, "All cells, and not only the README's.", "--full"),
    only: str = option("", "Cells that have this text in their work or stream."),
    most: int = option(1 << 40, "Records of a cell, at most: for a try, with --out."),
    out: Path | None = option(None, "Another file of records; the documents stay as they are."),
    advice: bool = option(
        False, "Ask `hot_keys` again about measured cells, and measure nothing.", "--advice"
    ),
    refit: bool = option(
        False, "Predict measured cells again, and fit the constants of advice.", "--constants"
    ),
) -> None:
    """Measure all cells that have no records yet."""
    path = out or REPORT.path
    chosen = [replace(cell, records=min(cell.records, most)) for cell in cells()]
    records = read_records(path) if path.exists() else []
    if out is None:
        if most < 1 << 40:
            raise typer.BadParameter("--most is for a try: give --out as well")
        # What an earlier list of cells had is gone.
        listed = {place(cell.about) for cell in chosen}
        records = [one for one in records if place(one) in listed]
    chosen = [cell for cell in chosen if (full or not cell.full) and only in str(cell.about)]
    known = grouped(records, *PLACE)
    again = advice or refit
    chosen = [cell for cell in chosen if (place(cell.about) in known) == again]
    chosen = [cell for cell in chosen if cell.per_record or not again]
    for number, cell in enumerate(chosen, 1):
        title = f"{number}/{len(chosen)} {cell.says}, {cell.stream}, {cell.slots} slots"
        stream = stream_table(cell.stream, cell.records, cell.n_keys, cell.columns, data)
        if stream is None:
            print(f"{title}: left out, the folder of --data has no such file")
            continue
        mine = known.get(place(cell.about), [])
        with tempfile.TemporaryDirectory() as folder:
            if refit:
                found = mine
            elif advice:
                with session_of(cell, stream, Path(folder)) as (_, (_, said)):
                    # None if the way that it names has no time: it is to be measured again.
                    is_known = said in {one["way"] for one in mine}
                    found = [{**one, "said": said} for one in mine if is_known]
                print(f"{title}: {mine[0]['said']} before, now {said}")
            else:
                found = list(measure(cell, stream, Path(folder), rounds, title))
        known[place(cell.about)] = with_rests(cell, stream, found) if cell.per_record else found
        records = list(chain.from_iterable(known.values()))
        write_records(path, records)
    if out is None:
        REPORT.write_tables()
    else:
        print(ten_rows(records))
    if refit:
        print(constants(records), left_out(records), sep="\n\n")


if __name__ == "__main__":
    typer.run(main)

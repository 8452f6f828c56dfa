"""`skewless diagnose columns` and `key`: which columns are uneven keys, and what would help?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewless.cli import reading
from skewless.cli.application import (
    needing_bokeh,
    refusing_bad_input,
    require_spark,
    scratch_folder,
    spark_session,
)
from skewless.cli.diagnosing import diagnose
from skewless.cli.option import option, shared, taking
from skewless.cli.screen import AsJson, console, number_table, print_json
from skewless.diagnosis.costs import Costs, given_costs
from skewless.plumbing.arguments import MOST_WORKERS, shown

if TYPE_CHECKING:
    from skewless.diagnosis.key_facts import KeyReport

_TEXT = re.compile(r"\.txt(\.gz|\.bz2)?$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Which records are read, and for how many workers."""

    input_: str = shared(..., reading.INPUT, "--input")
    format_: str = shared("auto", reading.FORMAT, "--format")
    delimiter: str = shared("auto", reading.DELIMITER)
    workers: str = shared("16", "Number of workers.")

    @property
    def format(self) -> str:
        """The format as traces call it; `run` calls one of them otherwise."""
        return "jsonl" if self.format_ == "json" else self.format_

    @property
    def n_workers(self) -> int:
        """The number of workers."""
        return reading.count(self.workers, "--workers", least=1, most=MOST_WORKERS)


@diagnose.command()
@taking(InputOptions)
def columns(
    given: InputOptions,
    limit: str = option("5e6", "Read at most this many records."),
    as_json: AsJson = False,
) -> None:
    """Rank the columns of a file by how uneven hashing by them would be.

    Example: skewless diagnose columns --input orders.parquet
    """
    from skewless.diagnosis.key_facts import rank_columns
    from skewless.workloads.trace import columns_of, delimiter_hint, is_remote

    path, format, between = given.input_, given.format, given.delimiter
    with refusing_bad_input(), reading.naming(reading.OF_INPUT):
        n_workers = given.n_workers
        n_records = reading.count(limit, "--limit", least=1)
        if is_remote(path):
            raise ValueError(
                f"--input: only Spark can open {shown(path)}; use `skewless diagnose key --spark`"
            )
        names = columns_of(path, format, between)
        if not names:
            raise ValueError(
                f"--input: {shown(path)} is a text without columns; `skewless diagnose key` counts "
                "its words"
            )
        found = rank_columns(
            path, n_workers=n_workers, limit=n_records, format=format, delimiter=between
        )
    if as_json:
        for one in found:
            print_json(one._asdict())
        return
    if hint := delimiter_hint(names):
        print(f"{hint}.")
    if found:
        headings = ("column", "type", "keys", "heaviest key", "imbalance")
        title = f"Hashing by each column, {n_workers} workers"
        table = number_table(*headings, left="column", title=title)
        for one in found:
            numbers = f"{one.n_keys:,}", f"{one.top_share:.1%}", f"{one.imbalance:.2g}"
            table.add_row(one.column, one.type, *numbers)
        console().print(table)
        print("\nLook closer with skewless diagnose key --key COLUMN.")
    else:
        print("No column could be a key: all are measured values, identifiers, or constant.")
    if any(one.n_records == n_records for one in found):
        print(f"{n_records:,} records were read, which is --limit.")


@dataclass(frozen=True)
class Asked:
    """What to diagnose."""

    # The file or folder, its format, and the separator of CSV columns.
    path: str
    format: str
    key: str | None  # the columns, separated by commas; None: the words of a text
    # As `report_on` takes them.
    n_workers: int
    limit: int  # the most records that are read; on Spark, that are routed for the predictions
    window: int
    delimiter: str = "auto"
    n_slots: int | None = None
    costs: Costs | None = None
    page: Path | None = None  # to write; its folder is made when all else is checked

    def is_text(self) -> bool:
        """Whether the input is plain text, which has words and no columns."""
        from skewless.workloads.trace import columns_of, is_remote

        if is_remote(self.path):
            by_name = self.format == "auto" and _TEXT.search(self.path.split("?")[0]) is not None
            return by_name or self.format == "text"
        return not columns_of(self.path, self.format, self.delimiter)

    @property
    def columns(self) -> list[str]:
        """The columns of the key."""
        return [name.strip() for name in (self.key or "word").split(",")]

    def require_page(self) -> None:
        """Refuse a page that cannot be written, before the work; call it after all other checks."""
        if self.page is not None:
            reading.file_to_write(self.page, "--page")

    def report(
        self, facts: Any, keys: Any, values: Mapping[int, tuple[Any, ...]], *, goes_on: bool
    ) -> KeyReport:
        """Build the report from the counts, the first keys, and the values of the heaviest."""
        from skewless.diagnosis.key_facts import report_on

        texts = {
            hashed: "/".join(
                part.decode(errors="replace") if isinstance(part, bytes) else str(part)
                for part in parts
            )
            for hashed, parts in values.items()
        }
        return report_on(
            facts,
            keys,
            n_workers=self.n_workers,
            n_slots=self.n_slots,
            costs=self.costs,
            window=self.window,
            texts=texts,
            goes_on=goes_on,
        )


@diagnose.command()
@taking(InputOptions)
def key(
    given: InputOptions,
    key: str | None = option(None, "The key column(s); a plain text needs none: its words."),
    slots: str | None = option(None, "Tasks at the same time; as many as workers if not given."),
    per_record: float | None = option(None, "Seconds of work for each record, to predict times."),
    per_pair: float | None = option(None, "Seconds for each key on each worker that has it."),
    limit: str = option(
        "5e6",
        "Read at most this many records. With --spark, all are counted, and the "
        "predictions are made from this many.",
    ),
    window: str = option("10000", "Records per micro-batch of a stream."),
    on_spark: bool = option(False, "Count all records on Spark.", "--spark"),
    master: str | None = option(None, "With --spark: where Spark runs; local[*] if not given."),
    page: Path | None = option(None, "Write a page with plots to this file."),
    as_json: AsJson = False,
) -> None:
    """Show the heaviest keys, their drift, and what each way of partitioning would do.

    Example: skewless diagnose key --input orders.parquet --key customer_id --workers 64
    """
    if page is not None:
        with needing_bokeh():
            from skewless.dashboard.diagnose_pages import write_key_page
    from skewless.workloads.trace import is_remote

    if on_spark:
        require_spark()
    with refusing_bad_input():
        with reading.naming(reading.OF_INPUT):
            if master is not None and not on_spark:
                raise ValueError("--master goes with --spark")
            asked = Asked(
                path=given.input_,
                format=given.format,
                key=key,
                n_workers=given.n_workers,
                limit=reading.count(limit, "--limit", least=1),
                window=reading.count(window, "--window", least=1),
                delimiter=given.delimiter,
                n_slots=None if slots is None else reading.count(slots, "--slots", 1, MOST_WORKERS),
                costs=given_costs(per_record, per_pair, ("--per-record", "--per-pair")),
                page=page,
            )
            if is_remote(asked.path) and not on_spark:
                raise ValueError(f"--input: only Spark can open {shown(asked.path)}; add --spark")
            if key is None and not asked.is_text():
                raise ValueError(
                    "--key COLUMN is missing; `skewless diagnose columns` ranks the columns"
                )
            report = None if on_spark else diagnose_in_memory(asked)
        if report is None:
            report = diagnose_on_spark(asked, "local[*]" if master is None else master)
        told = report.as_dict()
        if page is not None:
            write_key_page(told, asked.path, page)
    if as_json:
        print_json(told)
        return
    print(report)
    if not on_spark and report.facts.n_records == asked.limit:
        print(f"{asked.limit:,} records were read, which is --limit; --spark counts all records.")
    if page is not None:
        print(f"\nThe page: {page}")


def diagnose_in_memory(asked: Asked) -> KeyReport:
    """Return the report on the first records."""
    import numpy as np

    from skewless.diagnosis.key_facts import TOP, count_facts, first_keys
    from skewless.workloads import Trace

    trace = Trace(
        path=asked.path,
        key=tuple(asked.columns),
        limit=asked.limit,
        format=asked.format,  # type: ignore[arg-type]
        delimiter=asked.delimiter,
    )
    asked.require_page()
    facts = count_facts(trace, n_workers=asked.n_workers)
    values = trace.values(np.array([key for key, _ in facts.heaviest[:TOP]], np.uint64))
    goes_on = facts.n_records == asked.limit
    return asked.report(facts, first_keys(trace), values, goes_on=goes_on)


def diagnose_on_spark(asked: Asked, master: str) -> KeyReport:
    """Return the report on all records; the predictions are made from the first ones."""
    from skewless.apps.records.inputs import find_input
    from skewless.spark.session_arguments import require_session

    require_session("skewless", master, "1g", None)
    records = find_input(asked.path, asked.format, asked.delimiter)
    records.require_columns(asked.columns, "--key")
    asked.require_page()
    with scratch_folder() as scratch, spark_session(master, scratch, []) as spark:
        return report_by_spark(asked, records.read_in_places(spark))


def report_by_spark(asked: Asked, records: Any) -> KeyReport:
    """Return the report from a DataFrame of all records and their places in the files."""
    from skewless.diagnosis.key_facts import MOST_ROUTED
    from skewless.spark.diagnosis.counted_keys import count_on_spark

    most = min(asked.limit, MOST_ROUTED)
    counted = count_on_spark(records, asked.columns, n_workers=asked.n_workers, beginning=most)
    return asked.report(counted.facts, counted.beginning, counted.values, goes_on=False)

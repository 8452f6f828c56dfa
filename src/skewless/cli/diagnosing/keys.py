"""`skewless diagnose key`: is a key skewed, and what would each way of partitioning do?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skewless.cli import reading
from skewless.cli.application import refusing_bad_input
from skewless.cli.diagnosing import diagnose
from skewless.cli.diagnosing.columns import Delimiter, Format, Input, NWorkers
from skewless.cli.needs import needing_bokeh
from skewless.cli.on_spark import require_spark, scratch_folder, spark_session
from skewless.cli.option import option
from skewless.cli.screen import AsJson, print_json
from skewless.diagnosis.costs import Costs, given_costs
from skewless.plumbing.arguments import MOST_WORKERS, shown

if TYPE_CHECKING:
    from skewless.diagnosis.key_column import KeyReport

_TEXT = re.compile(r"\.txt(\.gz|\.bz2)?$", re.IGNORECASE)


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

    def report(
        self, facts: Any, keys: Any, values: Mapping[int, tuple[Any, ...]], *, goes_on: bool
    ) -> KeyReport:
        """Build the report from the counts, the first keys, and the values of the heaviest."""
        from skewless.diagnosis.key_column import report_on

        texts = {hashed: "/".join(map(_text, parts)) for hashed, parts in values.items()}
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
def key(
    input_: Input,
    key: str | None = option(None, "The key column(s); a plain text needs none: its words."),
    format_: Format = "auto",
    delimiter: Delimiter = None,
    workers: NWorkers = "16",
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
            from skewless.dashboard.key_page import write_key_page
    from skewless.workloads.trace import is_remote

    if on_spark:
        require_spark()
    with refusing_bad_input():
        if master is not None and not on_spark:
            raise ValueError("--master goes with --spark")
        asked = Asked(
            path=input_,
            format="jsonl" if format_ == "json" else format_,  # as `run` calls it
            key=key,
            n_workers=reading.count(workers, "--workers", least=1, most=MOST_WORKERS),
            limit=reading.count(limit, "--limit", least=1),
            window=reading.count(window, "--window", least=1),
            delimiter="auto" if delimiter is None else delimiter,
            n_slots=None if slots is None else reading.count(slots, "--slots", 1, MOST_WORKERS),
            costs=given_costs(per_record, per_pair, ("--per-record", "--per-pair")),
        )
        if is_remote(input_) and not on_spark:
            raise ValueError(f"--input: only Spark can open {shown(input_)}; add --spark")
        with reading.naming_input():
            if key is None and not asked.is_text():
                raise ValueError(
                    "--key COLUMN is missing; `skewless diagnose columns` ranks the columns"
                )

        def checked() -> None:
            if page is not None:
                reading.file_to_write(page, "--page")

        if on_spark:
            report = diagnose_on_spark(asked, "local[*]" if master is None else master, checked)
        else:
            with reading.naming_input():
                report = diagnose_in_memory(asked, checked)
        told = report.as_dict()
        if page is not None:
            write_key_page(told, input_, page)
    if as_json:
        print_json(told)
        return
    print(report)
    if not on_spark and report.facts.n_records == asked.limit:
        print(f"{asked.limit:,} records were read, which is --limit; --spark counts all records.")
    if page is not None:
        print(f"\nThe page: {page}")


def diagnose_in_memory(asked: Asked, checked: Callable[[], object] = lambda: None) -> KeyReport:
    """Return the report on the first records.

    `checked` is called before the work, when the files and columns are known to exist.
    """
    import numpy as np

    from skewless.diagnosis.key_column import first_keys
    from skewless.diagnosis.key_facts import TOP, count_facts
    from skewless.workloads import Trace

    trace = Trace(
        path=asked.path,
        key=tuple(asked.columns),
        limit=asked.limit,
        format=asked.format,  # type: ignore[arg-type]
        delimiter=asked.delimiter,
    )
    checked()
    facts = count_facts(trace, n_workers=asked.n_workers)
    values = trace.values(np.array([key for key, _ in facts.heaviest[:TOP]], np.uint64))
    goes_on = facts.n_records == asked.limit
    return asked.report(facts, first_keys(trace), values, goes_on=goes_on)


def diagnose_on_spark(
    asked: Asked, master: str, checked: Callable[[], object] = lambda: None
) -> KeyReport:
    """Return the report on all records; the predictions are made from the first ones.

    `checked` is called before Spark starts, after everything that can be checked without Spark.
    """
    from skewless.apps.records.inputs import find_input
    from skewless.spark.session_arguments import require_session

    require_session("skewless", master, "1g", None)
    format = "json" if asked.format == "jsonl" else asked.format
    records = find_input(asked.path, format, asked.delimiter)
    records.require_columns(asked.columns, "--key")
    checked()
    with scratch_folder() as scratch, spark_session(master, scratch, []) as spark:
        return report_by_spark(asked, records.read_in_places(spark))


def report_by_spark(asked: Asked, records: Any) -> KeyReport:
    """Return the report from a DataFrame of all records and their places in the files."""
    from skewless.diagnosis.key_column import MOST_ROUTED
    from skewless.spark.diagnosis.counted_keys import count_on_spark

    most = min(asked.limit, MOST_ROUTED)
    counted = count_on_spark(records, asked.columns, n_workers=asked.n_workers, beginning=most)
    return asked.report(counted.facts, counted.beginning, counted.values, goes_on=False)


def _text(part: object) -> str:
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)

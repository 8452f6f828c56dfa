"""Sessions that leave an event log, and what the log tells about each run in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from skewless.diagnosis.application import Application
from skewless.diagnosis.event_log import Event, read_events
from skewless.diagnosis.stages import summarise
from skewless.spark import session

#: The property of a job that names its run. Jobs without it count in no run.
RUN = "skewless.run"


@contextlib.contextmanager
def logged_session(slots: int, folder: Path, settings: dict[str, str]) -> Iterator[SparkSession]:
    """Yield a session whose log is in the folder once it has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    logging = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        # Else the number of tasks depends on the slots, and on how small the data is.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    spark = session("replay", master=f"local[{slots}]", memory="4g", settings=logging | settings)
    try:
        yield spark
    finally:
        spark.stop()


@contextlib.contextmanager
def run(spark: SparkSession, name: str) -> Iterator[None]:
    """Name the jobs that begin inside, on all threads of the query."""
    spark.sparkContext.setLocalProperty(RUN, name)
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(RUN, None)  # type: ignore[arg-type]


def runs_of(folder: Path) -> dict[str, Application]:
    """Summarise each run of the log in a folder, by its name."""
    return {name: summarise(events) for name, events in by_run(read_events(folder)).items()}


def by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the events of each run; those that belong to no job are in all of them."""
    general: list[Event] = []
    found: dict[str, list[Event]] = {}
    of_job: dict[int, str] = {}
    of_stage: dict[int, str] = {}
    for event in events:
        if event["Event"] == "SparkListenerJobStart":
            name = str((event.get("Properties") or {}).get(RUN, ""))
            of_job[event["Job ID"]] = name
            for stage in event["Stage IDs"]:
                of_stage.setdefault(stage, name)
        stage = event.get("Stage ID", event.get("Stage Info", {}).get("Stage ID"))
        if "Job ID" in event:
            found.setdefault(of_job.get(event["Job ID"], ""), []).append(event)
        elif stage is not None:
            found.setdefault(of_stage.get(stage, ""), []).append(event)
        else:
            general.append(event)
    return {name: [*general, *mine] for name, mine in found.items() if name}

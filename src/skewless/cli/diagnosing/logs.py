"""`skewless diagnose --event-log`: shows what the log of a job says, for people or as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from skewless.cli.screen import console, print_json
from skewless.diagnosis.event_log import is_compacted, read_events
from skewless.diagnosis.stages import Application, summarise
from skewless.diagnosis.stragglers import Straggler, find_stragglers
from skewless.plumbing.rounding import seconds_text

_LISTED = 10
_LITTLE = 0.05  # of the time of a stage


def show_log(path: Path, *, slow: float, as_json: bool) -> None:
    """Print which stages of an application have a straggler, and what the log does not show."""
    compacted = is_compacted(path)
    application = summarise(read_events(path))
    stragglers = find_stragglers(application, slow=slow)
    if as_json:
        _print_objects(application, stragglers, compacted=compacted)
        return
    seconds = sum(stage.seconds for stage in application.stages)
    print(
        f"{application.name or 'application'}: {len(application.stages)} stages with tasks, "
        f"{seconds_text(seconds)} in stages, Spark {application.spark or 'of unknown version'}"
    )
    _print_gaps(application, compacted=compacted)
    if stragglers:
        _print_stragglers(stragglers)
    elif not application.stages:
        print("No stage has tasks that ended, so nothing is known about skew.")
    elif _rules_skew_out(application, stragglers, compacted=compacted):
        print("No stage has a task far above the others: skew is not what makes it slow.")
    else:
        print(
            "No task that ended is far above the others. The log does not show the rest, so skew "
            "cannot be ruled out."
        )


def _rules_skew_out(
    application: Application, stragglers: list[Straggler], *, compacted: bool
) -> bool:
    has_tasks = bool(application.stages)
    return has_tasks and application.tells_all and not compacted and not stragglers


def _print_objects(
    application: Application, stragglers: list[Straggler], *, compacted: bool
) -> None:
    print_json(
        {
            "kind": "application",
            "name": application.name,
            "spark": application.spark,
            "complete": application.complete,
            "compacted": compacted,
            "stages": len(application.stages),
            "open_jobs": application.open_jobs,
            "stragglers": len(stragglers),
            "unfinished": len(application.unfinished),
            "failed": len(application.failed),
            "skew_ruled_out": _rules_skew_out(application, stragglers, compacted=compacted),
        }
    )
    for one in stragglers:
        print_json({"kind": "straggler"} | one.as_dict())
    for task in application.unfinished:
        print_json({"kind": "unfinished"} | asdict(task))
    for partition in application.failed:
        print_json({"kind": "failed"} | asdict(partition))


def _print_gaps(application: Application, *, compacted: bool) -> None:
    """Print what the log does not show, and what failed or did not end."""
    if not application.complete:
        print("The log has no end: the application was killed, still runs, or the log is damaged.")
    if compacted:
        print("The log is compacted: Spark has left out jobs that ended earlier.")
    if application.open_jobs:
        jobs = "1 job has" if application.open_jobs == 1 else f"{application.open_jobs} jobs have"
        print(f"{jobs} no end in the log.")
    for task in application.unfinished[:_LISTED]:
        how = "was killed" if task.killed else "had not ended"
        print(
            f"Stage {task.stage}: the task of partition {task.partition} {how} after "
            f"{seconds_text(task.seconds)}."
        )
    _print_rest(len(application.unfinished), "tasks without an end")
    for one in application.failed[:_LISTED]:
        times = "once" if one.failures == 1 else f"{one.failures} times"
        print(
            f"Stage {one.stage}: partition {one.partition} never succeeded. It failed {times}, "
            f"after {seconds_text(one.seconds)} at most: {one.reason}."
        )
    _print_rest(len(application.failed), "partitions that never succeeded")
    if application.failed:
        print(
            "A hot key can be the reason, above all if memory ran out: hot_keys names the heaviest "
            "keys of a DataFrame, and skewless diagnose --input --key those of a file."
        )


def _print_rest(number: int, of_what: str) -> None:
    if number > _LISTED:
        print(f"… and {number - _LISTED} more {of_what}.")


def _print_stragglers(stragglers: list[Straggler]) -> None:
    table = Table(box=None)
    for heading in ("stage", "tasks", "median", "slowest", "share of records", "to save"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("what it does")
    for one in stragglers[:_LISTED]:
        share = one.share_of_records
        table.add_row(
            f"{one.stage}.{one.attempt}",
            str(one.tasks),
            seconds_text(one.median_seconds),
            seconds_text(one.slowest_seconds),
            "?" if share is None else f"{share:.0%}",
            seconds_text(one.saved_seconds),
            ", ".join(one.operators) or one.name,
        )
    console().print(table)
    alike: dict[tuple[str, bool], list[str]] = {}
    for one in stragglers[:_LISTED]:
        what = f" ({one.job})" if one.job else ""
        saves_little = one.complete and one.saved_seconds < _LITTLE * one.stage_seconds
        place = f"Stage {one.stage}{what}, partition {one.slowest_partition}"
        alike.setdefault((one.remedy, saves_little), []).append(place)
    for (remedy, saves_little), places in alike.items():
        print(f"\n{'; '.join(places)}: {remedy}.")
        if saves_little:
            print("Balance would save little there: the other tasks take as long together.")

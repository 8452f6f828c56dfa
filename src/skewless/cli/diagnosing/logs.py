"""`skewless diagnose log`: shows what the log of a job says, for people or as JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skewless.cli import reading
from skewless.cli.application import needing_bokeh, refusing_bad_input
from skewless.cli.diagnosing import diagnose
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, number_table, print_json
from skewless.diagnosis import SLOW
from skewless.diagnosis.writes import advice
from skewless.plumbing.arguments import MOST_WORKERS, whole
from skewless.plumbing.text_tables import seconds_text

if TYPE_CHECKING:
    from skewless.diagnosis.application import Application
    from skewless.diagnosis.replay import WhatIf
    from skewless.diagnosis.stragglers import Straggler

_LISTED = 10
_LITTLE = 0.05  # of the time of a stage


@diagnose.command()
def log(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The event log of a Spark application: a file or folder."
        ),
    ],
    slow: float = option(SLOW, "A task counts as slow from this many times the median on."),
    slots: str | None = option(None, "Replay the application on this many tasks at a time."),
    executors: str | None = option(None, "Instead of --slots, with --cores: this many executors."),
    cores: str | None = option(None, "With --executors: cores of each executor."),
    page: Path | None = option(None, "Write a page with the replayed timeline to this file."),
    as_json: AsJson = False,
) -> None:
    """Show which stages of a job had a straggler, what would help, and what it costs.

    With --slots, also show how long the job would take on other slots and without stragglers.

    Example: skewless diagnose log logs/eventlog_v2_app-20260101120000-0001 --slots 64
    """
    if page is not None:
        with needing_bokeh():
            from skewless.dashboard.diagnose_pages import write_replay_page
    from skewless.diagnosis.event_log import read_events
    from skewless.diagnosis.replay import what_if
    from skewless.diagnosis.stages import summarise
    from skewless.diagnosis.stragglers import find_stragglers

    with refusing_bad_input():
        if not slow > 1.0:
            raise ValueError(f"--slow must be above 1, not {slow}")
        _slots(slots, executors, cores)  # wrong ones are told before a long log is read
        application = summarise(read_events(file))
        n_slots = _slots(slots, executors, cores, application.task_cores)
        if page is not None:
            reading.file_to_write(page, "--page")
        stragglers = find_stragglers(application, slow=slow)
        _show_log(application, stragglers, as_json=as_json)
        if n_slots is None and page is None:
            return
        replays = what_if(application, stragglers, n_slots)
        if page is not None:
            told = [one.as_dict() for one in replays]
            write_replay_page(told, application.name or "application", page)
    if as_json:
        for one in replays:
            print_json(one.as_dict())
        return
    _print_what_if(replays)
    if page is not None:
        print(f"\nThe page: {page}")


def _slots(
    slots: str | None, executors: str | None, cores: str | None, task_cores: int = 1
) -> int | None:
    """Return how many tasks run at the same time by these options; None without any."""
    if (executors is None) != (cores is None) or (executors is not None and slots is not None):
        raise ValueError("--executors and --cores go together, or give --slots alone")
    if executors is None or cores is None:
        return None if slots is None else reading.count(slots, "--slots", 1, MOST_WORKERS)
    n_executors = reading.count(executors, "--executors", 1, MOST_WORKERS)
    n_cores = reading.count(cores, "--cores", 1, MOST_WORKERS)
    whole(n_executors * n_cores, "--executors times --cores", most=MOST_WORKERS)
    if n_cores < task_cores:
        raise ValueError(f"--cores must be at least {task_cores}, the log's spark.task.cpus")
    return n_executors * (n_cores // task_cores)


def _print_what_if(replays: list[WhatIf]) -> None:
    own, asked = replays[0], replays[-1]
    own_slots, on_slots = (
        f"{one.slots} slot" if one.slots == 1 else f"{one.slots} slots" for one in (own, asked)
    )
    print(
        f"\nReplayed from the first job to the last, on the {own_slots} of the log: "
        f"{seconds_text(own.seconds)}, measured {seconds_text(own.measured_seconds or 0.0)}"
        + ("." if own.error is None else f", an error of {own.error:+.1%}.")
    )
    print(
        f"{on_slots}: {seconds_text(asked.seconds)}; without stragglers "
        f"{seconds_text(asked.balanced_seconds)}, so they cost "
        f"{seconds_text(asked.straggler_seconds)}."
    )
    table = number_table("stage", "tasks", "logged", on_slots, "balanced", "straggler costs")
    table.add_column("what it does")
    longest = sorted(asked.stages, key=lambda one: -one.seconds)[:_LISTED]
    for one in sorted(longest, key=lambda one: (one.begin, one.stage)):
        even = one.balanced_seconds
        table.add_row(
            f"{one.stage}.{one.attempt}",
            str(one.tasks),
            seconds_text(one.logged_seconds),
            seconds_text(one.seconds),
            *("–", "–") if even is None else map(seconds_text, (even, one.straggler_seconds)),
            one.what,
        )
    console().print(table)
    _print_rest(len(asked.stages), "stages, all shorter")


def _show_log(application: Application, stragglers: list[Straggler], *, as_json: bool) -> None:
    has_gaps = application.unfinished or application.failed or application.open_jobs
    rules_skew_out = bool(application.stages) and not has_gaps and not stragglers
    if as_json:
        told = {
            "kind": "application",
            "name": application.name,
            "spark": application.spark,
            "complete": application.complete,
            "stages": len(application.stages),
            "open_jobs": application.open_jobs,
            "stragglers": len(stragglers),
            "unfinished": len(application.unfinished),
            "failed": len(application.failed),
            "skew_ruled_out": rules_skew_out,
        }
        print_json(told)
        found: list[tuple[str, Any]] = [("straggler", one) for one in stragglers]
        found += [("unfinished", task) for task in application.unfinished]
        found += [("failed", partition) for partition in application.failed]
        for kind, thing in found:
            print_json({"kind": kind} | asdict(thing))
        for shuffle in application.undone:
            print_json({"kind": "undone"} | shuffle._asdict() | {"remedy": advice(shuffle.write)})
        return
    seconds = sum(stage.seconds for stage in application.stages)
    print(
        f"{application.name or 'application'}: {len(application.stages)} stages with tasks, "
        f"{seconds_text(seconds)} in stages, Spark {application.spark or 'of unknown version'}"
    )
    _print_gaps(application)
    for shuffle in application.undone:
        what = f" ({shuffle.query})" if shuffle.query else ""
        print(
            f"A write{what} shuffles again what was routed, so its tasks are as uneven as before: "
            f"{advice(shuffle.write)}.\n  {shuffle.write}\n  {shuffle.exchange}"
        )
    if stragglers:
        _print_stragglers(stragglers)
    elif not application.stages:
        print("No stage has tasks that ended, so nothing is known about skew.")
    elif rules_skew_out:
        print("No stage has a task far above the others: skew is not what makes it slow.")
    else:
        print(
            "No task that ended is far above the others. The log does not show the rest, so skew "
            "cannot be ruled out."
        )


def _print_gaps(application: Application) -> None:
    """Print what the log does not show, and what failed or did not end."""
    if not application.complete:
        print("The log has no end: the application was killed, still runs, or the log is damaged.")
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
            "keys of a DataFrame, and skewless diagnose key those of a file."
        )


def _print_rest(number: int, of_what: str) -> None:
    if number > _LISTED:
        print(f"… and {number - _LISTED} more {of_what}.")


def _print_stragglers(stragglers: list[Straggler]) -> None:
    table = number_table("stage", "tasks", "median", "slowest", "share of records", "to save")
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

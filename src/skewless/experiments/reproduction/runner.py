"""Measures the cells of figures, each once, in one process or several; a run can be resumed."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from skewless.experiments.reproduction import raw
from skewless.experiments.reproduction.figure import Cell, Figure, Size
from skewless.experiments.tables import Row

#: Called with the number of cells that are done, and the number of all.
Progress = Callable[[int, int], None]

_TIMED = 3  # a simulation with a clock takes about this many times as long


class Failure(NamedTuple):
    """Why there is no row, in one line."""

    error: str


#: The rows of a figure by label, or why there are none.
Outcome = Mapping[str, Row] | Failure


def measure(
    figures: Sequence[Figure],
    size: Size,
    out: Path,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Measure all cells of some figures; return what each figure got, in their order.

    Records go to `out`/raw/SIZE. What is there already, measured from the same sources, is not
    measured again, so a run that was stopped can be resumed. If a cell raises, the figures
    that need it get the error instead of rows, and all others are measured.
    """
    folder = out / "raw" / size.name
    wanted = [_labelled(figure, size) for figure in figures]
    cells: dict[raw.Identity, Cell] = {}
    for labelled in wanted:
        if not isinstance(labelled, Failure):
            cells.update({known: cell for known, cell in labelled.values() if known not in cells})
    digests = {cls: raw.sources(cell) for cls, cell in {type(c): c for c in cells.values()}.items()}
    done: dict[raw.Identity, Row | Failure] = {}
    for known, cell in cells.items():
        stored = raw.read(folder, known, digests[type(cell)])
        if stored is not None:
            done[known] = stored
    if progress is not None:
        progress(len(done), len(cells))
    waiting = {known: cell for known, cell in cells.items() if known not in done}
    # Closed even if storing fails or is stopped, so that no process keeps measuring.
    with contextlib.closing(_measured(waiting, size, jobs)) as rows:
        for known, row in rows:
            digest = digests[type(waiting[known])]
            done[known] = row if isinstance(row, Failure) else _stored(folder, known, digest, row)
            if progress is not None:
                progress(len(done), len(cells))
    return [_outcome(labelled, done) for labelled in wanted]


Labelled = Mapping[str, tuple[raw.Identity, Cell]]
Rows = Generator[tuple[raw.Identity, Row | Failure], None, None]


def _labelled(figure: Figure, size: Size) -> Labelled | Failure:
    """Return the cells of a figure by label."""
    try:
        return {label: (raw.identity(cell), cell) for label, cell in figure.cells(size).items()}
    except Exception as error:  # a mistake in one figure must not stop the others
        return failure(error)


def _outcome(labelled: Labelled | Failure, done: Mapping[raw.Identity, Row | Failure]) -> Outcome:
    if isinstance(labelled, Failure):
        return labelled
    rows = {}
    for label, (known, _) in labelled.items():
        measured = done[known]
        if isinstance(measured, Failure):
            return Failure(f"cell {label!r}: {measured.error}")
        rows[label] = measured
    return rows


def _stored(folder: Path, known: raw.Identity, digest: str, row: Row) -> Row | Failure:
    try:
        return raw.write(folder, known, digest, row)
    except ValueError as error:  # a row that is no plain value; a full disk stops everything
        return failure(error)


def failure(error: BaseException) -> Failure:
    """Return what went wrong as one line.

    >>> failure(KeyError("imbalance")).error
    "KeyError: 'imbalance'"
    """
    return Failure(" ".join(f"{type(error).__name__}: {error}".split()))


def _measured(cells: Mapping[raw.Identity, Cell], size: Size, jobs: int) -> Rows:
    """Measure cells, those that take longest first, and return them as they are done."""
    order = sorted(cells, key=lambda known: expected_work(cells[known], size), reverse=True)
    n_processes = min(jobs, len(order))
    if n_processes <= 1:
        for known in order:
            yield known, run(cells[known])
    else:
        yield from _in_processes({known: cells[known] for known in order}, n_processes)


def _in_processes(cells: Mapping[raw.Identity, Cell], n_processes: int) -> Rows:
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        n_processes, mp_context=multiprocessing.get_context("spawn"), initializer=_ignore_ctrl_c
    )
    try:
        with _without_ctrl_c():
            futures = {_submitted(pool, cell): known for known, cell in cells.items()}
        for future in as_completed(futures):
            error = future.exception()  # of the process, or of what it was sent
            yield futures[future], future.result() if error is None else failure(error)
    except BaseException:
        # Ctrl-C: what is being measured is given up, however long it would take.
        with _without_ctrl_c():
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _submitted(pool: ProcessPoolExecutor, cell: Cell) -> Future[Row | Failure]:
    """Give a cell to the processes; if one of them has died already, the future says so."""
    try:
        return pool.submit(run, cell)
    except BrokenExecutor as error:
        lost: Future[Row | Failure] = Future()
        lost.set_exception(error)
        return lost


@contextlib.contextmanager
def _without_ctrl_c() -> Generator[None, None, None]:
    """Ignore Ctrl-C for a moment; processes that start meanwhile ignore it as long as they live.

    The process that waits gets it, and ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can be interrupted
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ignore_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems where a process inherits nothing


def run(cell: Cell) -> Row | Failure:
    """Measure one cell; return its row, or why there is none."""
    try:
        return cell.run()
    except Exception as error:  # one bad cell must not cost the others' results
        return failure(error)


def expected_work(cell: Cell, size: Size) -> float:
    """Return about how long a cell takes, in records of a plain simulation.

    It decides only the order: with the longest first, no process ends long after the others.
    """
    fields = {field.name: getattr(cell, field.name) for field in dataclasses.fields(cell)}  # type: ignore[arg-type]
    records = _largest(fields, "records") or size.records
    return records * (_TIMED if getattr(cell, "timing", None) is not None else 1)


def _largest(values: Mapping[str, Any], name: str) -> float:
    """Return the largest number whose name has this ending, at any depth."""
    found = [0.0]
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.append(_largest(value, name))
        elif key.endswith(name) and isinstance(value, (int, float)):
            found.append(value)
    return max(found)

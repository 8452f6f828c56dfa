"""Measures the cells of figures, each once, in one process or several; a run can be resumed."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from benchmarks.records import Row
from experiments.reproduction import raw
from experiments.reproduction.figure import Cell, Figure, Placed, Size

#: Called with the number of cells that are done, and the number of all.
Progress = Callable[[int, int], None]

_TIMED = 3  # a simulation with a clock takes about this many times as long


class Failure(NamedTuple):
    """Why there is no row, in one line."""

    error: str


#: The rows of a figure, in the order of its cells, or why there are none.
Outcome = list[Row] | Failure


def measure(
    figures: Sequence[Figure],
    size: Size,
    out: Path,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[Outcome]:
    """Measure all cells of some figures; return what each figure got, in their order.

    Records go to `out`/raw/SIZE. What is there already, measured from the same sources, is not
    measured again, so a run that was stopped can be resumed. If a cell raises, the figures
    that need it get the error instead of rows, and all others are measured.
    """
    folder = out / "raw" / size.name
    wanted = [_identified(figure, size) for figure in figures]
    cells: dict[raw.Identity, Cell] = {}
    for identified in wanted:
        if not isinstance(identified, Failure):
            cells |= {known: placed.cell for known, placed in identified if known not in cells}
    digests = {kind: raw.sources(known) for kind, known in {one.kind: one for one in cells}.items()}
    done: dict[raw.Identity, Row | Failure] = {}
    for known in cells:
        stored = raw.read(folder, known, digests[known.kind])
        if stored is not None:
            done[known] = stored
    progress(len(done), len(cells))
    waiting = {known: cell for known, cell in cells.items() if known not in done}
    # Closed even if storing fails or is stopped, so that no process keeps measuring.
    with contextlib.closing(_measured(waiting, jobs)) as rows:
        for known, row in rows:
            digest = digests[known.kind]
            done[known] = row if isinstance(row, Failure) else _stored(folder, known, digest, row)
            progress(len(done), len(cells))
    return [_outcome(identified, done) for identified in wanted]


Identified = list[tuple[raw.Identity, Placed]]
Rows = Generator[tuple[raw.Identity, Row | Failure], None, None]


def _identified(figure: Figure, size: Size) -> Identified | Failure:
    try:
        return [(raw.identity(placed.cell), placed) for placed in figure.cells(size)]
    except Exception as error:  # a mistake in one figure must not stop the others
        return failure(error)


def _outcome(
    identified: Identified | Failure, done: Mapping[raw.Identity, Row | Failure]
) -> Outcome:
    if isinstance(identified, Failure):
        return identified
    rows: list[Row] = []
    for known, placed in identified:
        measured = done[known]
        if isinstance(measured, Failure):
            return Failure(f"cell {placed.label!r}: {measured.error}")
        rows.append(measured)
    return rows


def _stored(folder: Path, known: raw.Identity, digest: str, row: Row) -> Row | Failure:
    try:
        return raw.write(folder, known, digest, row)
    except ValueError as error:  # a row that is no plain value; a full disk stops everything
        return failure(error)


def failure(error: BaseException) -> Failure:
    """Build a failure from an error: its type and its message in one line."""
    return Failure(" ".join(f"{type(error).__name__}: {error}".split()))


def _measured(cells: Mapping[raw.Identity, Cell], jobs: int) -> Rows:
    """Measure cells, those that take longest first, and return them as they are done."""
    order = sorted(cells, key=expected_work, reverse=True)
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


def expected_work(known: raw.Identity) -> int:
    """Return about how long a cell takes, in records of a plain simulation.

    It decides only the order: with the longest first, no process ends long after the others.
    """
    records = [int(number) for number in re.findall(r'records":(\d+)', known.parameters)]
    return max(records, default=0) * (1 if '"timing":{' not in known.parameters else _TIMED)

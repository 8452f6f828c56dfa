"""`skewless tune`: finds the weights and the threshold of PStream for a stream, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input
from skewless.cli.option import option, taking
from skewless.cli.screen import AsJson, console, number_table, print_json, progress_bar
from skewless.cli.simulating import StreamOptions
from skewless.plumbing.arguments import MOST_WORKERS, seed_number

if TYPE_CHECKING:
    from skewless.workloads import Workload


#: The columns of the table for people, by their headings; see `tried`.
_COLUMNS = {
    "w_T": "{time_weight:.3f}",
    "w_S": "{space_weight:.3f}",
    "f": "{f:.2g}",
    "p": "{p:.2g}",
    "f from – to": "{f_lowest:.2g} – {f_highest:.2g}",
    "at the floor": "{at_the_floor:.0%}",
    "window imbalance": "{window_imbalance:.2g}",
    "window replicas": "{window_replication:.3f}",
    "cost": "{cost:.3f}",
}


def tried(
    time_weight: float, stream: Workload, n_workers: int, window: int, pair_cost: float, seed: int
) -> dict[str, float]:
    """Route the stream by PStream with this w_T, as one source; numbers of windows are means.

    `f` is the median of its values at the ends of windows, and `at_the_floor` the part of the
    windows that end with the smallest f that may be. `cost` is that of the slowest worker and of
    the merge, per record of a fair share.
    """
    import numpy as np

    from skewless.strategies import PStream

    strategy = PStream(time_weight=time_weight)
    state = strategy.start(n_workers, seed)
    settings = state.predictor.settings[0]
    windows = []
    for keys in stream.chunks(seed, window):
        out = np.full(keys.size, -1, np.int32)
        strategy.route(keys, state, out)
        fair = keys.size / n_workers
        slowest = np.bincount(out, minlength=n_workers).max() / fair
        n_pairs = np.unique(np.column_stack((keys, out.astype(np.uint64))), axis=0).shape[0]
        replication = n_pairs / np.unique(keys).size
        cost = slowest + pair_cost * n_pairs / keys.size
        windows.append((float(settings["share"]), slowest - 1.0, replication, cost))
    if not windows:
        raise ValueError("the stream has no records")
    thresholds, imbalances, replications, costs = np.array(windows).T
    return {
        "time_weight": time_weight,
        "space_weight": 1.0 - time_weight,
        "f": float(np.median(thresholds)),
        "p": float(np.median(thresholds)) / 2,
        "f_lowest": float(thresholds.min()),
        "f_highest": float(thresholds.max()),
        "at_the_floor": float(np.mean(thresholds <= float(settings["least"]))),
        "window_imbalance": float(np.mean(imbalances)),
        "window_replication": float(np.mean(replications)),
        "cost": float(np.mean(costs)),
    }


@app.command("tune")
@taking(StreamOptions)
def tune_command(
    given: StreamOptions,
    workers: str = option("16", "Number of workers."),
    seed: int = option(0, "Seed of workload, routing and walk."),
    window: str = option("10000", "Records per window, at whose end partial results are merged."),
    pair_cost: float = option(
        1.0, "What merging a partial result costs, shared by all workers, in records."
    ),
    trials: str = option("20", "Most steps of the walk; each routes the whole stream."),
    as_json: AsJson = False,
) -> None:
    """Find w_T, w_S, f and p of PStream for a stream: section 4.4 of its paper.

    The walk begins with the default, equal weights. The first row is the default, the row with the
    least cost is the best.
    """
    from skewless.strategies.pstream.tuning import tune

    with refusing_bad_input():
        n_workers = reading.count(workers, "--workers", least=1, most=MOST_WORKERS)
        n_trials = reading.count(trials, "--trials", least=1, most=1000)
        size = reading.count(window, "--window", least=1)
        seed_number(seed, "--seed")
        if not 0 <= pair_cost < float("inf"):
            raise ValueError(f"--pair-cost must be at least 0 and finite, not {pair_cost}")
    found: list[dict[str, float]] = []
    with refusing_bad_input(), given.naming(), progress_bar() as bar:
        stream = given.stream()
        task = bar.add_task("pstream", total=n_trials + 1)

        def gain(time_weight: float) -> float:
            found.append(tried(time_weight, stream, n_workers, size, pair_cost, seed))
            bar.update(task, completed=len(found))
            return 1.0 / found[-1]["cost"]

        # Gains are below 1: the paper's temperature would accept nearly every step down.
        tune(gain, seed=seed, first=0.5, max_steps=n_trials, temperature=lambda i: 0.01 / i)
    best = min(found, key=lambda trial: trial["cost"])
    if as_json:
        for trial in found:
            print_json({**trial, "best": trial is best})
        return
    table = number_table(*_COLUMNS, "")
    for trial in found:
        cells = [form.format_map(trial) for form in _COLUMNS.values()]
        table.add_row(*cells, "best" if trial is best else "")
    console().print(table)
    print(f"\nThe best: --strategy pstream --set time_weight={best['time_weight']:.4g}")

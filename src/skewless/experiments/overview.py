"""All strategies side by side on two streams: the table of the README."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skewless import registry
from skewless.experiments.tables import Row, markdown
from skewless.simulator import simulate
from skewless.workloads import EvolvingZipf, Workload, Zipf

N_WORKERS = 64
N_SOURCES = 4
STREAMS: dict[str, Workload] = {
    "skewed": Zipf(z=1.4, n_keys=100_000, n_records=2_000_000),
    "drifting": EvolvingZipf(z=1.4, n_keys=100_000, n_records=2_000_000, period=500_000),
}


def measure(names: Sequence[str], streams: dict[str, Workload] = STREAMS) -> Iterator[Row]:
    """Yield one raw record per stream and strategy."""
    for stream, workload in streams.items():
        for name in names:
            run = simulate(
                registry.make(name), workload, n_workers=N_WORKERS, n_sources=N_SOURCES, seed=1
            )
            yield {"stream": stream, **run.summary()}


def table(records: Sequence[Row]) -> str:
    """Return a row per strategy: what it is, and its balance and replicas on both streams."""
    by_cell = {(r["stream"], r["strategy"]): r for r in records}
    names = list(dict.fromkeys(r["strategy"] for r in records))
    rows = []
    for name in names:
        strategy = registry.get(name)()
        fan_out = strategy.traits.fan_out
        skewed, drifting = by_cell["skewed", name], by_cell["drifting", name]
        rows.append(
            [
                f"[`{name}`](docs/strategies/{name}.md)",
                strategy.traits.family,
                "up to n" if fan_out is None else fan_out,
                f"{skewed['imbalance']:.2g}",
                f"{skewed['replication']:.3f}",
                f"{drifting['window_imbalance_mean']:.2g}",
                f"{drifting['window_replication_mean']:.3f}",
            ]
        )
    limit = by_cell["skewed", names[0]]["replication_limit"]
    rows.append(["the limit", "", "", "0", f"{limit:.3f}", "0", ""])
    headings = (
        "strategy",
        "family",
        "workers per key",
        "imbalance",
        "replicas per key",
        "drifting: imbalance",
        "drifting: replicas per key",
    )
    return markdown(headings, rows)

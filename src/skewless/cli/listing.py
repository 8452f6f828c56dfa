"""`skewless strategies` and `skewless workloads`: list what is registered."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from skewless.cli.application import app
from skewless.cli.screen import AsJson, console, print_json


def _described(cls: type[Any]) -> dict[str, Any]:
    from skewless import parameters

    summary = (cls.__doc__ or "").strip().splitlines()[0]
    return {"name": cls.name, "summary": summary, "parameters": parameters.defaults(cls)}


def _show(rows: list[dict[str, Any]], headings: dict[str, str], as_json: bool) -> None:
    """Print rows as JSON, or as a table with these columns, by their headings."""
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table(*headings, box=None)
    for row in rows:
        settings = ", ".join(f"{name}={value}" for name, value in row["parameters"].items())
        fan_out = "up to n" if row.get("fan_out") is None else str(row["fan_out"])
        told = {**row, "parameters": settings, "fan_out": fan_out}
        table.add_row(*(told[name] for name in headings.values()))
    console().print(table)


@app.command("strategies")
def list_strategies(as_json: AsJson = False) -> None:
    """List the strategies with their parameters."""
    from skewless import registry
    from skewless.strategy import Merges, Rebalances, Rescales, Weighs

    abilities = {"merge": Merges, "rebalance": Rebalances, "rescale": Rescales, "weigh": Weighs}
    rows = []
    for name in registry.names():
        strategy = registry.get(name)()
        traits = {one: getattr(strategy.traits, one) for one in ("family", "fan_out", "decides")}
        able = [ability for ability, kind in abilities.items() if isinstance(strategy, kind)]
        rows.append(_described(type(strategy)) | traits | {"abilities": able})
    headings = {"strategy": "name", "family": "family", "workers per key": "fan_out"}
    headings |= {"what it does": "summary", "parameters": "parameters"}
    _show(rows, headings, as_json)


@app.command("workloads")
def list_workloads(as_json: AsJson = False) -> None:
    """List the workloads with their parameters (set them with --with name=value)."""
    from skewless import workloads

    headings = {"workload": "name", "what it is": "summary", "parameters": "parameters"}
    _show([_described(cls) for cls in workloads.ALL], headings, as_json)

"""`skewless strategies` and `skewless workloads`: list what is registered."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from skewless.cli.application import app
from skewless.cli.screen import AsJson, console, print_json


def _first_line(thing: Any) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def _describe(cls: type[Any]) -> dict[str, Any]:
    from skewless import parameters
    from skewless.strategy import Merges, Rebalances, Rescales, Weighs

    strategy = cls()
    abilities = {"merge": Merges, "rebalance": Rebalances, "rescale": Rescales, "weigh": Weighs}
    return {
        "name": cls.name,
        "summary": _first_line(cls),
        "family": strategy.traits.family,
        "fan_out": strategy.traits.fan_out,
        "decides": strategy.traits.decides,
        "abilities": [name for name, kind in abilities.items() if isinstance(strategy, kind)],
        "parameters": parameters.defaults(cls),
    }


def _settings_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


@app.command("strategies")
def list_strategies(as_json: AsJson = False) -> None:
    """List the strategies with their parameters."""
    from skewless import registry

    rows = [_describe(registry.get(name)) for name in registry.names()]
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table("strategy", "family", "workers per key", "what it does", "parameters", box=None)
    for row in rows:
        fan_out = "up to n" if row["fan_out"] is None else str(row["fan_out"])
        table.add_row(
            row["name"], row["family"], fan_out, row["summary"], _settings_text(row["parameters"])
        )
    console().print(table)


@app.command("workloads")
def list_workloads(as_json: AsJson = False) -> None:
    """List the workloads with their parameters (set them with --with name=value)."""
    from skewless import parameters, workloads

    rows: list[dict[str, Any]] = [
        {
            "name": cls.name,
            "summary": _first_line(cls),
            "parameters": parameters.defaults(cls),
        }
        for cls in workloads.ALL
    ]
    if as_json:
        for row in rows:
            print_json(row)
        return
    table = Table("workload", "what it is", "parameters", box=None)
    for row in rows:
        table.add_row(row["name"], row["summary"], _settings_text(row["parameters"]))
    console().print(table)

"""`skewless strategies`, `workloads` and `check`: list what is registered, and test a strategy."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input, stopped
from skewless.cli.option import option
from skewless.cli.screen import AsJson, console, print_json
from skewless.plumbing.arguments import shown

#: Tampered states to try: enough to find an index that is not checked.
_TAMPERED = 60


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


@app.command()
def check(
    strategy: Annotated[str, typer.Argument(help="A name, or module:Class for your own.")],
    set_: list[str] | None = option(None, "Set a parameter: name=value.", "--set"),
    as_json: AsJson = False,
) -> None:
    """Check a strategy against the contract; the exit code is 1 if it breaks a rule."""
    from skewless.checks import CheckFailed, check_strategy
    from skewless.checks.tampering import failures_elsewhere

    with refusing_bad_input():
        settings = reading.pairs(set_ or [], "--set")
        subject, *others = reading.strategies(strategy, settings)
        if others:
            raise ValueError(f"STRATEGY takes one strategy, not {shown(strategy)}")
    try:
        passed = check_strategy(subject)
    except CheckFailed as error:
        raise stopped(str(error), 1) from None
    for name in passed:
        _tell(name.replace("_", " "), as_json)
    unsafe = failures_elsewhere([subject], _TAMPERED)
    if unsafe:
        raise stopped(
            f"a tampered state from a file is accepted, and then: {unsafe[0]}. Give the state "
            "a method `check(fresh)` that refuses it; see skewless.state",
            1,
        )
    _tell(f"{_TAMPERED} tampered states are refused or safe", as_json)


def _tell(passed: str, as_json: bool) -> None:
    if as_json:
        print_json({"check": passed, "passed": True})
    else:
        print(f"passed  {passed}")

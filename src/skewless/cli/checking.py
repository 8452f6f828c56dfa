"""`skewless check`: tests a strategy against the contract."""

from __future__ import annotations

from typing import Annotated

import typer

from skewless.cli import reading
from skewless.cli.application import app, refusing_bad_input, stopped
from skewless.cli.option import option
from skewless.cli.screen import AsJson, print_json

#: Tampered states to try: enough to find an index that is not checked.
_TAMPERED = 60


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
        subject = reading.one_strategy(strategy, settings, "STRATEGY")
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

"""Options of commands, each declared in one line, and options that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    """Declare an option: its default (`...`: it must be given), its help, and other names.

    `more` is for `typer.Option`.
    """
    return typer.Option(default, *names, help=help, **more)


def shared(default: Any, help: str, *names: str) -> Any:
    """Declare an option of several commands, as a field of an object that they take."""
    return dataclasses.field(default=default, metadata={"option": typer.Option(*names, help=help)})


def taking(options: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of `options` as options of the command line.

    The command gets them as one object, its first argument. Its other arguments are options of this
    command only, which the help lists first. A field without a default must be given: `...`.
    """
    hints = get_type_hints(options, include_extras=True)
    common = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=Annotated[hints[one.name], one.metadata["option"]],
        )
        for one in dataclasses.fields(options)
    ]

    def wrapped(command: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]

        @functools.wraps(command)
        def run(**values: Any) -> None:
            command(options(**{one.name: values.pop(one.name) for one in common}), **values)

        signature = inspect.Signature([*own, *common])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return wrapped

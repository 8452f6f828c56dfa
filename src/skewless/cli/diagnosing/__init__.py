"""`skewless diagnose`: `columns`, `key` and `log` are its three commands."""

import typer

from skewless.cli.application import app

diagnose = typer.Typer(
    help="Show whether records or a finished job are skewed, and what would help.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(diagnose, name="diagnose")

"""`skewless dashboard`: the live page of a query, running or finished, from its ledger."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from skewless.cli import reading
from skewless.cli.application import app, needing_bokeh, needing_spark, refusing_bad_input
from skewless.cli.option import option
from skewless.cli.screen import AsJson, print_json
from skewless.plumbing.arguments import path_text, whole
from skewless.plumbing.private_files import write_private


@app.command()
def dashboard(
    ledger: Annotated[
        str, typer.Argument(help="The ledger folder of a query: a path, or a URI such as s3://…")
    ],
    port: int = option(0, "Port on 127.0.0.1; 0 takes a free one."),
    once: Path | None = option(None, "Write one self-contained page to this file, and exit."),
    no_browser: bool = option(False, "Print the address; do not open a browser.", "--no-browser"),
    as_json: AsJson = False,
) -> None:
    """Show load, imbalance, replicas, moves, state and hot keys of a query, running or finished.

    It only reads the files of the ledger; it does not change or slow down a running query. With
    --json, it prints what the page would show now, one line per micro-batch.
    """
    if not as_json:
        with needing_bokeh():
            from skewless.dashboard.live_page import write_live_page
    with needing_spark():
        from skewless.spark.balance.history import find_history
    with refusing_bad_input():
        path_text(ledger, "LEDGER", "a folder, as a path or as a URI")
        whole(port, "--port", most=65_535)
        if as_json and once is not None:
            raise ValueError("give one of --json and --once FILE")
        history = find_history(ledger)
        if as_json:
            for batch in history.as_dict()["batches"]:
                print_json(batch)
            return
        if once is not None:
            reading.file_to_write(once, "--once")
            write_live_page(history.as_dict(), once)
            print(f"The page: {once}")
            return
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve(history, port, opens=not no_browser))


async def _serve(history: Any, port: int, *, opens: bool) -> None:
    """Serve the live page of a history, print its address, and open it in a browser if asked to."""
    from skewless.dashboard.live_server import live_page

    def look() -> dict[str, Any]:
        history.look()
        found: dict[str, Any] = history.as_dict()
        return found

    with tempfile.TemporaryDirectory(prefix="skewless-") as folder:
        async with live_page(look, port) as address:
            print(f"The live page: {address}", flush=True)
            if opens:
                # Every user of the machine can read the browser's command line, so the browser gets
                # a private page that leads on to the address.
                page = Path(folder, "live-page.html")
                write_private(page, f'<meta http-equiv="refresh" content="0; url={address}">\n')
                await asyncio.to_thread(webbrowser.open, page.as_uri())
            await asyncio.Event().wait()

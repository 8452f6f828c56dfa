"""The server of a live page: on loopback only, at an address that cannot be guessed.

Every user of a machine can open its loopback ports, and the page shows texts of keys, which the
ledger keeps from other users. So the page is under a secret path. A site can let its own name lead
to 127.0.0.1, so only requests to names of this machine are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.settings import settings
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.routing import HostMatches, Rule, RuleRouter

from skewless.dashboard.live_history import Record
from skewless.dashboard.live_page import fill_document

LOOPBACK = "127.0.0.1"
_HOSTS = rf"({re.escape(LOOPBACK)}|localhost)$"
_LOOK_EVERY_S = 1.0
_LOGGER = logging.getLogger("skewless")


@contextlib.asynccontextmanager
async def live_page(look: Callable[[], Record], port: int = 0) -> AsyncIterator[str]:
    """Serve the page of a query as long as the block runs; yield the address of the page.

    Parameters
    ----------
    look
        Returns the history of the query as it is now. It is called about once a second, by one
        thread at a time.
    port
        The port to listen on; 0: a free one. Raises OSError if the port is taken.
    """
    # Bokeh logs every request, which would clutter what this program prints.
    for name in ("bokeh", "tornado.access"):
        logging.getLogger(name).setLevel(logging.ERROR)
    settings.resources = "server"  # whatever BOKEH_RESOURCES says: nothing from elsewhere
    history = look()

    def fill(doc: Any) -> None:
        update = fill_document(doc, history)
        doc.add_periodic_callback(lambda: update(history), round(1000 * _LOOK_EVERY_S))

    async def look_again() -> None:
        nonlocal history
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            history = await asyncio.to_thread(_looked, look, history)

    try:
        opened = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise OSError(f"--port {port} cannot be used: {error.strerror or error}") from None
    opened.setblocking(False)
    port, path = opened.getsockname()[1], f"/{secrets.token_urlsafe(16)}"
    pages = BokehTornado(
        {path: Application(FunctionHandler(fill))},
        # Pages of other sites cannot open a connection in this user's browser.
        extra_websocket_origins=[f"{LOOPBACK}:{port}", f"localhost:{port}"],
        use_index=False,
    )
    http = HTTPServer(RuleRouter([Rule(HostMatches(_HOSTS), pages)]))
    http.add_socket(opened)
    server = BaseServer(IOLoop.current(), pages, http)
    server.start()
    looking = asyncio.create_task(look_again())
    try:
        yield f"http://{LOOPBACK}:{port}{path}"
    finally:
        looking.cancel()
        server.stop()
        await http.close_all_connections()


def _looked(look: Callable[[], Record], known: Record) -> Record:
    """Return the history as it is now, with a problem if it cannot be read."""
    try:
        found = look()
    except Exception as error:
        # Whatever it is: without this, the page would look alive and show nothing new. The next
        # look may succeed again.
        problem = " ".join(f"{type(error).__name__}: {error}".split())
        if problem != known["problem"]:  # not again every second
            _LOGGER.warning("the live page cannot read its query", exc_info=True)
        found = {**known, "problem": problem}
    return known if found == known else found  # else pages would get the same columns again

"""The server of a live page: on loopback only, at an address that cannot be guessed.

Every user of a machine can open its loopback ports, and the page shows texts of keys, which the
ledger keeps from other users. So the page is under a secret path. A site can let its own name lead
to 127.0.0.1, so only requests to names of this machine are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
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
_START_WITHIN_S = 60.0
_LOGGER = logging.getLogger("skewless")


@contextlib.contextmanager
def live_page(look: Callable[[], Record], port: int = 0) -> Iterator[_Server]:
    """Serve the page of a query, from a separate thread, as long as the block runs.

    Yield the server, which has the `address` and the `port` of the page.

    Parameters
    ----------
    look
        Returns the history of the query as it is now. It is called about once a second, from one
        thread.
    port
        The port to listen on; 0: a free one. Raises OSError if the port is taken.
    """
    server = _Server(look, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _Server:
    """Bokeh's server in a thread with its own event loop, and a thread that calls `look`."""

    def __init__(self, look: Callable[[], Record], port: int) -> None:
        self.port = port
        self.address = ""
        self._socket: Any = None
        self._look = look
        self._history = look()
        self._path = f"/{secrets.token_urlsafe(16)}"
        self._loop: Any = None
        self._problem: BaseException | None = None
        self._is_ready, self._is_over = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=run, name=f"skewless-{name}", daemon=True)
            for name, run in (("page", self._serve), ("look", self._look_again))
        ]

    def start(self) -> None:
        """Return when the page can be opened; raise what went wrong."""
        # Bokeh logs every request, which would clutter what this program prints.
        for name in ("bokeh", "tornado.access"):
            logging.getLogger(name).setLevel(logging.ERROR)
        settings.resources = "server"  # whatever BOKEH_RESOURCES says: nothing from elsewhere
        self._socket = _listening(self.port)
        self.port = int(self._socket.getsockname()[1])
        self.address = f"http://{LOOPBACK}:{self.port}{self._path}"
        for thread in self._threads:
            thread.start()
        if not self._is_ready.wait(_START_WITHIN_S):
            self.stop()
            raise OSError(f"the live page did not start within {_START_WITHIN_S:.0f} s")
        if self._problem is not None:
            self.stop()
            raise self._problem

    def stop(self) -> None:
        """End both threads, and stop listening."""
        self._is_over.set()
        if self._loop is not None:
            self._loop.add_callback(self._loop.stop)
        for thread in self._threads:
            thread.join(timeout=10.0)
        self._socket.close()  # even if the thread that serves hangs

    def _look_again(self) -> None:
        problem = ""
        while not self._is_over.wait(_LOOK_EVERY_S):
            try:
                found, now = self._look(), ""
            except Exception as error:
                # Whatever it is: an error that ended this thread would leave a page that looks
                # alive and shows nothing new. The next look may succeed again.
                now = " ".join(f"{type(error).__name__}: {error}".split())
                found = {**self._history, "problem": now}
                if now != problem:  # not again every second
                    _LOGGER.warning("the live page cannot read its query", exc_info=True)
            problem = now
            if found != self._history:  # else pages would get the same columns again
                self._history = found

    def _fill(self, doc: Any) -> None:
        update = fill_document(doc, self._history)
        doc.add_periodic_callback(lambda: update(self._history), round(1000 * _LOOK_EVERY_S))

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        server = None
        try:
            pages = BokehTornado(
                {self._path: Application(FunctionHandler(self._fill))},
                # Pages of other sites cannot open a connection in this user's browser.
                extra_websocket_origins=[f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"],
                use_index=False,
            )
            http = HTTPServer(RuleRouter([Rule(HostMatches(_HOSTS), pages)]))
            http.add_sockets([self._socket])
            server = BaseServer(IOLoop.current(), pages, http)
            server.start()
            self._loop = server.io_loop
            self._is_ready.set()
            if not self._is_over.is_set():  # else `stop` may have come before there was a loop
                server.io_loop.start()
        except BaseException as error:
            self._problem = error
            self._is_ready.set()
        finally:
            if server is not None:
                server.unlisten()
                server.stop()
            self._socket.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback, or raise OSError with one line."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # there it would take a port from another program
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setblocking(False)
        opened.bind((LOOPBACK, port))
        opened.listen(128)
    except OSError as error:
        opened.close()
        raise OSError(f"--port {port} cannot be used: {error.strerror or error}") from None
    return opened

"""A real browser for tests: Chromium without a window, driven by its own protocol.

Only what Bokeh brings along is needed: Tornado's WebSocket client.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_S = 240.0


def find_chromium() -> str | None:
    """Return the browser that SKEWLESS_CHROMIUM names, or one that is on the path, or None."""
    named = os.environ.get("SKEWLESS_CHROMIUM")
    found = (shutil.which(name) for name in ([named] if named else _NAMES))
    return next((path for path in found if path), None)


@contextlib.contextmanager
def running(program: str, folder: Path) -> Iterator[int]:
    """Run the browser with its files in `folder`; yield the port of its protocol, on loopback."""
    command = [
        program,
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={folder}",
        "--remote-debugging-port=0",
        "--remote-allow-origins=*",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--no-sandbox")  # Chromium refuses root otherwise; only our pages are opened
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield _port(folder / "DevToolsActivePort", process)
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _port(file: Path, process: subprocess.Popen[bytes]) -> int:
    limit = time.monotonic() + _PATIENCE_S
    while time.monotonic() < limit and process.poll() is None:
        text = file.read_text() if file.exists() else ""
        if "\n" in text:
            return int(text.splitlines()[0])
        time.sleep(0.1)
    said = (file.parent / "log").read_text(errors="replace")[-500:]
    raise RuntimeError(f"Chromium did not start: {said}")


class Tab:
    """One page of the browser."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self.requests: list[str] = []  # addresses that the page asked for
        self.errors: list[str] = []  # what the page complained about
        self._number = 0

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        await self.socket.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while True:
            text = await asyncio.wait_for(self.socket.read_message(), _PATIENCE_S)
            assert text is not None, "the browser has gone"
            message = json.loads(text)
            if message.get("id") == number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    async def value(self, expression: str) -> Any:
        """Evaluate an expression of JavaScript."""
        told = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true."""
        limit = time.monotonic() + _PATIENCE_S
        while not await self.value(expression):
            assert time.monotonic() < limit, f"never true: {expression}; {self.errors}"
            await asyncio.sleep(0.2)

    async def read(self, address: str) -> None:
        """Open a page without plots, and wait until all of it is there."""
        await self.call("Page.navigate", url=address)
        await self.until("document.readyState === 'complete' && location.protocol !== 'about:'")

    async def open(self, address: str) -> None:
        """Open a page with plots, and wait until it is drawn in the colours of the screen."""
        await self.call("Page.navigate", url=address)
        # Right after the call there may be no document yet, and no Bokeh in it.
        await self.until("document.documentElement?.dataset.dressed !== undefined")
        await self.until("globalThis.Bokeh?.documents[0]?.is_idle")

    async def screen(self, width: int, *, dark: bool) -> None:
        """Make the screen so wide, light or dark; a narrow one is that of a phone."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=844 if width < 600 else 900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def shot(self, path: Path) -> None:
        """Take a picture of the whole page."""
        told = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(told["data"]))

    def _note(self, message: dict[str, Any]) -> None:
        told = message.get("params", {})
        method = message.get("method")
        if method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requests.append(told["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(str(told["entry"])[:500])


@contextlib.asynccontextmanager
async def tab(port: int) -> AsyncIterator[Tab]:
    """Yield a page of a wide and light screen."""
    protocol = f"http://127.0.0.1:{port}/json"
    request = urllib.request.Request(f"{protocol}/new?about:blank", method="PUT")
    with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:
        made = json.load(answer)
    socket = await websocket_connect(made["webSocketDebuggerUrl"], max_message_size=1 << 28)
    try:
        page = Tab(socket)
        for domain in ("Page", "Network", "Runtime", "Log"):
            await page.call(f"{domain}.enable")
        await page.screen(1280, dark=False)
        yield page
    finally:
        # The browser closes the connection with the tab; then nothing is left open here.
        with urllib.request.urlopen(f"{protocol}/close/{made['id']}", timeout=_PATIENCE_S):
            pass
        while await asyncio.wait_for(socket.read_message(), _PATIENCE_S) is not None:
            pass
        socket.close()

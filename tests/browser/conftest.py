"""One browser for all tests of this folder; without one they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the pages are drawn by Bokeh")

from browser.chromium import find_chromium, running


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of a running browser."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium was found: install it, or name it by SKEWLESS_CHROMIUM=PATH")
    with running(program, tmp_path_factory.mktemp("chromium")) as port:
        yield port


@pytest.fixture(scope="session")
def shots() -> Path:
    """Return the folder of the pictures, for a person to look at."""
    return Path(os.environ.get("SKEWLESS_SHOTS", "out/browser")).absolute()

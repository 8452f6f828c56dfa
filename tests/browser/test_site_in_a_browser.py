"""The documentation site in a real browser: readable on any screen, and nothing is fetched."""

import asyncio
from pathlib import Path

import pytest

from browser.chromium import tab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SITE = Path(__file__).parents[2] / "out" / "site"
SCREENS = {"site": (1280, False), "site-dark": (1280, True), "site-phone": (390, False)}
#: Pages, with what must be on them besides text.
PAGES = {
    "index.html": "img",
    "overview.html": "table",
    "tutorial.html": "pre code",
    "strategies/cascade.html": "img",
    "guides/delta.html": "table",
}
BROKEN = "[...document.images].filter(one => !one.complete || one.naturalWidth === 0).length"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_is_readable_and_fetches_nothing_from_outside(browser, shots, page):
    file = SITE / page
    if not SITE.exists():
        pytest.skip("the site is not built: run `make test-browser`, or `make docs` before")

    async def look():
        async with tab(browser) as seen:
            for screen, (width, dark) in SCREENS.items():
                await seen.screen(width, dark=dark)
                await seen.read(file.as_uri())
                # The site keeps the scheme that it chose first, so let it choose anew.
                await seen.value("localStorage.clear()")
                await seen.call("Page.reload")
                await seen.until(f"window.innerWidth === {width}")
                scheme = "slate" if dark else "default"
                await seen.until(f"document.body?.dataset.mdColorScheme === '{scheme}'")
                await seen.until("document.readyState === 'complete'")
                assert await seen.value("document.documentElement.scrollWidth") <= width
                await seen.shot(shots / f"{screen}-{file.stem}.png")
            found = await seen.value(f"document.querySelectorAll('article {PAGES[page]}').length")
            assert found, PAGES[page]
            assert await seen.value("document.querySelector('article h1').innerText")
            assert await seen.value(BROKEN) == 0
            outside = [one for one in seen.requests if not one.startswith(("file:", "data:"))]
            assert outside == []
            assert seen.errors == []

    asyncio.run(look())

"""Our pages in a real browser: what is drawn, in which colours, and that nothing is fetched."""

import asyncio
import io
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the pages are drawn by Bokeh")

from PIL import Image

from browser.chromium import tab
from dashboard.histories import history, keeping, simulated, splitting
from dashboard.test_live_page import KEEPING, SPLITTING
from skewless.dashboard.diagnose_pages import write_key_page
from skewless.dashboard.live_page import write_live_page
from skewless.dashboard.live_server import live_page
from skewless.diagnosis.key_facts import diagnose_keys
from skewless.workloads import Zipf

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCREENS = {
    "light": (1280, False),
    "dark": (1280, True),
    "phone-dark": (390, True),
    "phone": (390, False),
}
KEYS = {
    "curve": ("rank of the key", "share of the records"),
    "heaviest": ("rank of the key", "share of the records"),
}


def keys():
    """Return the report on a skewed stream, as `skewless diagnose key` has it."""
    stream = Zipf(z=1.4, n_keys=500, n_records=5_000)
    found = diagnose_keys(stream, n_workers=16, window=1_000).as_dict()
    return found | {"top_key_texts": [f"customer {key % 1000}" for key, _ in found["top_keys"]]}


PAGES = {
    "aggregate": (lambda path: write_live_page(splitting(), path), SPLITTING),
    "process": (lambda path: write_live_page(keeping(), path), KEEPING),
    # Their upper parts are the stills of README.md.
    "live-hash": (lambda path: write_live_page(simulated("hash"), path), SPLITTING),
    "live-cascade-ahead": (
        lambda path: write_live_page(simulated("cascade-ahead"), path),
        SPLITTING,
    ),
    "diagnose": (lambda path: write_key_page(keys(), "orders.parquet", path), KEYS),
}
#: The plots of the page with the titles of their axes, as the page itself holds them.
PLOTS = """
Object.fromEntries(Bokeh.documents[0].roots().filter(root => root.below).map(root =>
  [root.name, [root.below[0].axis_label, root.left[0].axis_label]]))
"""
#: The canvases that are drawn: their widths, and whether they are inside the screen.
BOXES = """
[...document.querySelectorAll(".card")].map(card => {
  const box = card.getBoundingClientRect();
  return [card.id, Math.round(box.width), box.left >= 0 && box.right <= window.innerWidth];
})
"""
COLOURS = """
[...Bokeh.documents[0].all_models].filter(model => "major_label_text_color" in model.properties)
  .map(model => model.major_label_text_color)
"""
PALE = "getComputedStyle(document.documentElement).getPropertyValue('--pale').trim()"


@pytest.mark.parametrize("name", PAGES)
def test_a_written_page_is_drawn_and_fetches_nothing(browser, shots, tmp_path, name):
    write, axes = PAGES[name]
    page = tmp_path / f"{name}.html"
    write(page)
    boxes = {}

    async def look():
        async with tab(browser) as seen:
            await seen.open(page.as_uri())
            plots = await seen.value(PLOTS)
            for screen, (width, dark) in SCREENS.items():
                await seen.screen(width, dark=dark)
                wanted = "dark" if dark else "light"
                await seen.until(f"document.documentElement.dataset.dressed === '{wanted}'")
                await seen.until(f"window.innerWidth === {width}")
                await seen.until("Bokeh.documents[0].is_idle")
                assert set(await seen.value(COLOURS)) == {await seen.value(PALE)}
                assert await seen.value("document.documentElement.scrollWidth") <= width
                boxes[screen] = await seen.value(BOXES)
                await seen.shot(shots / f"{name}-{screen}.png")
            assert seen.errors == []
            fetched = [one for one in seen.requests if not one.startswith("data:")]
            assert fetched == [page.as_uri()]
            return plots

    plots = asyncio.run(look())
    assert {key: tuple(titles) for key, titles in plots.items()} == axes
    for screen, (width, dark) in SCREENS.items():
        assert {key for key, _, _ in boxes[screen]} >= set(axes)
        for key, wide, is_inside in boxes[screen]:
            assert is_inside, (screen, key)
            assert wide >= (0.85 if width < 600 else 0.4) * width, (screen, key)
        require_colours(shots / f"{name}-{screen}.png", dark)


@pytest.mark.parametrize("name", ["live-hash", "live-cascade-ahead"])
def test_a_still_of_the_live_page_ends_below_its_first_cards(browser, shots, tmp_path, name):
    """The stills of the documents: copy them to docs/pictures when the page changes."""
    page = tmp_path / f"{name}.html"
    PAGES[name][0](page)
    taken, still = tmp_path / "taken.png", shots / "stills" / f"{name}.png"

    async def look():
        async with tab(browser) as seen:
            await seen.screen(960, dark=False)
            await seen.open(page.as_uri())
            await seen.shot(taken)
            return await seen.value(
                "document.querySelector('#imbalance').offsetTop"
            ), await seen.value("document.querySelector('#imbalance').offsetHeight")

    top, height = asyncio.run(look())
    with Image.open(taken) as opened:
        upper = opened.convert("RGB").crop((0, 0, opened.width, top + height + 16))
    still.parent.mkdir(parents=True, exist_ok=True)
    few = upper.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(still, optimize=True)
    assert still.stat().st_size < 50_000
    kept = Path(__file__).parents[2] / "docs" / "pictures" / still.name
    with Image.open(kept) as known:
        assert known.size == upper.size


def require_colours(picture: Path, dark: bool) -> None:
    """Raise AssertionError unless the page is light or dark as it should be, and not empty."""
    with Image.open(io.BytesIO(picture.read_bytes())) as opened:
        image = opened.convert("RGB")
    corner = sum(image.getpixel((2, image.height - 3))) / 3
    assert corner < 60 if dark else corner > 200
    found = image.getcolors(maxcolors=1 << 24) or []
    assert len(found) > 100
    most = max(count for count, _ in found)
    assert most < 0.9 * image.width * image.height


def test_a_served_page_follows_the_query_and_stays_on_this_machine(browser, shots):
    """It waits for the query, gets its cards when the query is known, and then more batches."""
    told = [history([], known=False)]

    async def look():
        async with live_page(lambda: told[0]) as address, tab(browser) as seen:
            await seen.open(address)
            assert "waiting for its first" in await seen.value(
                "Bokeh.documents[0].get_model_by_name('status').text"
            )
            told[0] = splitting(n_batches=3)
            await seen.until("document.querySelectorAll('.card').length > 5")
            await seen.until("document.documentElement.dataset.dressed !== undefined")
            batches = (
                "Bokeh.documents[0].get_model_by_name('imbalance')"
                ".renderers[0].data_source.get_column('batch').length"
            )
            assert await seen.value(batches) == 3
            told[0] = splitting(n_batches=9)
            await seen.until(f"{batches} == 9")
            await seen.until("Bokeh.documents[0].is_idle")
            await seen.shot(shots / "served.png")
            assert seen.errors == []
            hosts = {urllib.parse.urlsplit(one).netloc for one in seen.requests}
            assert hosts - {""} == {urllib.parse.urlsplit(address).netloc}

    asyncio.run(look())

"""The document of the live page, and the page as a file."""

import json
import os
import stat

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from bokeh.document import Document
from bokeh.models import Legend, Plot

from dashboard.histories import AWKWARD, batch, history, keeping, splitting
from dashboard.pages import require_alone
from skewless.dashboard.live_page import fill_document, sections_of, write_live_page

COMMON = {
    "load_map": ("micro-batch", "worker"),
    "last_loads": ("worker", "load, 1 = fair share"),
    "imbalance": ("micro-batch", "(max − mean) / mean"),
    "throughput": ("micro-batch", "records per second"),
    "batch_time": ("micro-batch", "seconds"),
}
SPLITTING = COMMON | {"replicas": ("micro-batch", "replicas per key")}
KEEPING = COMMON | {
    "moves": ("micro-batch", "keys moved"),
    "state": ("worker", "bytes"),
}


def filled(told):
    doc = Document()
    return doc, fill_document(doc, told)


def plots_of(doc):
    return {plot.name: plot for plot in doc.select({"type": Plot})}


@pytest.mark.parametrize(("told", "axes"), [(splitting(), SPLITTING), (keeping(), KEEPING)])
def test_each_kind_of_query_has_its_plots_with_titles(told, axes):
    doc, _ = filled(told)
    plots = plots_of(doc)
    assert {
        name: (plot.xaxis[0].axis_label, plot.yaxis[0].axis_label) for name, plot in plots.items()
    } == axes
    assert list(doc.select({"type": Legend})) == []  # a legend would cover the data
    assert all(plot.sizing_mode == "stretch_width" for plot in plots.values())
    sections = sections_of(told)
    assert all(section.title and section.about for section in sections)
    roots = {root.name for root in doc.roots}
    assert roots == {section.root for section in sections} | {"status", "summary"}


def test_an_even_load_has_no_colour_and_half_the_fair_share_has_one():
    doc, _ = filled(splitting())
    (image,) = plots_of(doc)["load_map"].renderers
    colours = image.glyph.color_mapper

    def opacity(load):
        place = (load - colours.low) / (colours.high - colours.low)
        return int(colours.palette[min(255, int(place * len(colours.palette)))][-2:], 16)

    assert opacity(1.0) == 0
    assert opacity(0.5) == pytest.approx(opacity(1.5), abs=2) == pytest.approx(122, abs=2)
    assert opacity(0.0) == opacity(2.0) == 245


def test_the_page_follows_the_history():
    doc, update = filled(history([batch(0, [1, 3], seconds=1.0)]))
    series = plots_of(doc)["throughput"].renderers[0].data_source
    assert series.data["records_per_second"] == [4.0]
    update(history([batch(0, [1, 3], seconds=1.0), batch(1, [5, 5], seconds=1.0)]))
    assert series.data["records_per_second"] == [4.0, 10.0]
    (image,) = plots_of(doc)["load_map"].renderers[0].data_source.data["image"]
    assert image.tolist() == [[0.5, 1.0], [1.5, 1.0]]
    assert "Last complete micro-batch: 1, at 1970-01-0" in doc.get_model_by_name("status").text


def test_columns_that_are_the_same_are_not_sent_again():
    told = splitting()
    doc, update = filled(told)
    sent = []
    doc.on_change(lambda event: sent.append(event))
    update(told)
    assert sent == []
    update(splitting(n_batches=3))
    assert sent


def test_a_page_that_waits_is_loaded_again_when_the_query_is_known():
    doc, update = filled(history([], known=False))
    status = doc.get_model_by_name("status")
    assert status.tags == ["waiting"]
    assert plots_of(doc) == {}
    update(keeping())
    assert status.tags != ["waiting"]


def test_a_problem_is_told_and_the_rest_stays():
    doc, update = filled(splitting())
    update(splitting() | {"problem": "workers/0 is damaged"})
    assert "workers/0 is damaged" in doc.get_model_by_name("status").text
    assert plots_of(doc)["imbalance"].renderers[0].data_source.data["batch"]


@pytest.mark.parametrize("told", [splitting(), keeping(), history([], known=False), history([])])
def test_a_written_page_needs_no_network_and_is_for_its_owner_alone(tmp_path, told):
    path = tmp_path / "page.html"
    write_live_page(told, path)
    html = path.read_text(encoding="utf-8")
    require_alone(html)
    assert AWKWARD not in html
    for section in sections_of(told):
        assert f"<h2>{section.title}</h2>" in html
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_page_of_many_workers_stays_small(tmp_path):
    wide = history([batch(number, [1] * 1024) for number in range(100)])
    doc, _ = filled(wide)
    assert len(json.dumps(doc.to_json(), default=str)) < 8_000_000

"""The page about keys: self-contained, with what the report says, and no HTML from keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="bokeh is not installed")

from skewless.dashboard.diagnose_pages import heaviest_bars, skew_curve, write_key_page
from skewless.diagnosis.key_facts import diagnose_keys
from skewless.workloads import Zipf


def test_the_page_has_all_plots_and_needs_no_network(tmp_path: Path) -> None:
    keys = Zipf(z=1.4, n_keys=500, n_records=5_000)
    report = diagnose_keys(keys, n_workers=16, window=1_000).as_dict()
    report["top_key_texts"][0] = "<script>alert(1)</script>"
    path = tmp_path / "keys.html"
    advised = report | {"advice": "Call `apply` <now>."}
    write_key_page(advised, "<b>orders</b>", path)
    page = path.read_text(encoding="utf-8")
    for expected in (
        "Share of the records by rank",
        "The heaviest keys",
        "drift 0",
        "the fullest worker",
        "salt-16",
        "5,000 records",
    ):
        assert expected in page
    assert "Call <code>apply</code> &lt;now&gt;." in page
    assert "<script>alert(1)" not in page
    assert "<b>orders" not in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=[\"']https?:", page)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("share", [0.001, 0.9])
def test_the_fair_share_is_inside_the_axes(share: float) -> None:
    report = {"n_workers": 16, "curve": [(1, share)], "top_keys": [(7, share)]}
    report["top_key_texts"] = ["seven"]
    for plot in (skew_curve(report), heaviest_bars(report)):
        assert plot.y_range.start < 1 / 16 < plot.y_range.end
        assert plot.y_range.start < share < plot.y_range.end

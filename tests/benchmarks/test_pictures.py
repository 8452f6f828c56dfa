import re

import pytest

pytest.importorskip("matplotlib", reason="matplotlib draws the pictures of the documents")

from benchmarks import pictures

BASELINE = {"loads": [4.0, 1.0, 1.0], "peaks": [1.5, 2.0]}
RECORD = {
    **{"strategy": "pkg", "about": "Zipf 1.4, 3 workers", "baseline": BASELINE},
    **{"loads": [2.0, 2.0, 2.0], "peaks": [1.0, 1.25]},
}


def test_same_records_same_bytes(tmp_path):
    for name in ("a", "b"):
        pictures.strategy_picture(RECORD, tmp_path / name / "pkg.svg")
    first, second = ((tmp_path / name / "pkg.svg").read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_picture_holds_neither_date_nor_version(tmp_path):
    pictures.strategy_picture(RECORD, tmp_path / "pkg.svg")
    text = (tmp_path / "pkg.svg").read_text(encoding="utf-8")
    assert "dc:date" not in text
    assert "Matplotlib v" not in text


@pytest.mark.parametrize(("name", "shown"), [("pkg", {"pkg", "hash"}), ("hash", {"hash"})])
def test_the_baseline_is_behind_a_strategy_and_alone_in_its_own_picture(tmp_path, name, shown):
    pictures.strategy_picture({**RECORD, "strategy": name}, tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
    named = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert shown == {"pkg", "hash"} & set(named)
    assert "load per worker, last window (Zipf 1.4, 3 workers)" in named

import re

import pytest

pytest.importorskip("matplotlib", reason="matplotlib draws the pictures of the documents")

from benchmarks import pictures


def point(strategy, imbalance, replication, on_front, panel="z = 1.4"):
    return {
        "panel": panel,
        "strategy": strategy,
        "label": "ideal*" if strategy == "ideal" else strategy,
        "imbalance": imbalance,
        "replication": replication,
        "on_front": on_front,
    }


POINTS = [
    point("hash", 20.0, 1.0, True),
    point("ideal", 0.0, 5.0, True),
    point("pkg", 21.0, 1.02, False),
    point("cascade", 1e-4, 1.01, True),
]


def texts(path):
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))


def test_same_records_same_bytes(tmp_path):
    for name in ("a", "b"):
        pictures.frontier(POINTS, tmp_path / name / "front.svg")
    assert (tmp_path / "a" / "front.svg").read_bytes() == (
        tmp_path / "b" / "front.svg"
    ).read_bytes()


def test_a_picture_holds_neither_date_nor_version(tmp_path):
    pictures.frontier(POINTS, tmp_path / "front.svg")
    text = (tmp_path / "front.svg").read_text(encoding="utf-8")
    assert "dc:date" not in text
    assert "Matplotlib v" not in text


def test_the_front_is_named_and_the_rest_is_not(tmp_path):
    pictures.frontier(POINTS, tmp_path / "front.svg")
    found = texts(tmp_path / "front.svg")
    assert {"hash", "ideal*", "cascade", "z = 1.4"} <= set(found)
    assert "pkg" not in found


def test_cascade_is_named_even_off_the_front(tmp_path):
    others = [p for p in POINTS if p["strategy"] != "cascade"]
    pictures.frontier([*others, point("cascade", 22.0, 7.0, False)], tmp_path / "front.svg")
    assert "cascade" in texts(tmp_path / "front.svg")


def test_neighbours_on_the_front_share_a_label(tmp_path):
    near = [point("pkg", 1e-2, 1.10, True), point("fish", 2e-2, 1.09, True)]
    pictures.frontier([*near, point("hash", 20.0, 1.0, True)], tmp_path / "front.svg")
    assert {"pkg, fish", "hash"} <= set(texts(tmp_path / "front.svg"))


@pytest.mark.parametrize("n_cells", [1, 3, 4])
def test_there_is_a_panel_per_cell(tmp_path, n_cells):
    records = [{**p, "panel": f"cell {i}"} for i in range(n_cells) for p in POINTS]
    pictures.frontier(records, tmp_path / "front.svg")
    titles = [text for text in texts(tmp_path / "front.svg") if text.startswith("cell")]
    assert titles == [f"cell {i}" for i in range(n_cells)]


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(ValueError, match="records must be of at least one cell, not 0"):
        pictures.frontier([], tmp_path / "x.svg")

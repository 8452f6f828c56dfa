"""Word count on files: batch and stream count what is there, and a stream goes on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from skewless.apps.computation import ledger_beside, require_writable
from skewless.apps.records.inputs import find_input
from skewless.apps.windowed import WordCount

TEXT = "to be or not to be\n\n  that is   the question\n"


def counts(df: Any, *key: str) -> dict[Any, int]:
    return {tuple(row[name] for name in key): row["count"] for row in df.collect()}


@pytest.mark.spark
def test_a_batch_counts_words_of_texts_and_keys_of_tables(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(TEXT)
    words = find_input(str(tmp_path / "play.txt")).read(spark)
    found = counts(WordCount(("word",), workers=3).of(words), "word")
    assert found == {(word,): n for word, n in Counter(TEXT.split()).items()}

    rows = "ann,x,2026-01-01 00:00:30\nbob,x,\n" * 3
    (tmp_path / "visits.csv").write_text("who,where,at\n" + rows)
    visits = find_input(str(tmp_path / "visits.csv")).read(spark)
    found = counts(WordCount(("who", "where"), workers=2).of(visits), "who", "where")
    assert found == {("ann", "x"): 3, ("bob", "x"): 3}

    counting = WordCount(("who",), workers=2, time="at", window="1 minute")
    assert counts(counting.of(visits), "who") == {("ann",): 3}  # bob was there at no time


@pytest.mark.spark
def test_a_stream_goes_on_where_it_ended(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.txt").write_text(TEXT)
    counting = WordCount(("word",), workers=2)
    output, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    source = find_input(str(folder))
    counting.stream(source.read_stream(spark), output, checkpoint)
    (folder / "2.txt").write_text("to be")
    done: list[int] = []
    counting.stream(source.read_stream(spark), output, checkpoint, done.append)
    expected = Counter((TEXT + "to be").split())
    found = counts(spark.read.parquet(output), "word")
    assert found == {(word,): n for word, n in expected.items()}
    assert done == [2]  # the second run had one micro-batch, the second of the stream
    assert Path(ledger_beside(checkpoint)).is_dir()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": ("",)}, "--key must name at least one column"),
        ({"window": "1 minute"}, "--window and --time go together"),
        ({"time": "at"}, "--window and --time go together"),
        ({"watermark": "1 minute"}, "--watermark goes with --window"),
        ({"time": "at", "window": "soon"}, "--window: a duration must be numbers with units"),
        ({"time": "at", "window": "0 seconds"}, "--window must be above 0"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WordCount(**{"key": ("word",), **settings})


def test_nothing_of_others_is_overwritten(tmp_path: Path) -> None:
    require_writable(str(tmp_path / "absent"), going_on=False)
    require_writable(str(tmp_path), going_on=False)  # empty
    (tmp_path / "part-0.snappy.parquet").touch()
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(ValueError, match="exists already"):
        require_writable(str(tmp_path), going_on=False)
    require_writable(str(tmp_path), going_on=True)
    (tmp_path / "thesis.doc").touch()
    with pytest.raises(ValueError, match="holds files that are not results"):
        require_writable(str(tmp_path), going_on=True)

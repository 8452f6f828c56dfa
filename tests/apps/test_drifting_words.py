"""The stream of the main job: the same for the same seed, in the order of its files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from skewless.apps.drifting_words import write_words


def written(folder: Path, n_records: int, **settings: int) -> list[pa.Table]:
    """Return the tables in the order in which Spark takes the files."""
    write_words(folder, n_records, **settings)
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime)
    return [pq.read_table(file) for file in files]


def test_the_same_seed_makes_the_same_files_and_another_makes_others(tmp_path: Path) -> None:
    a, b, c = (
        written(tmp_path / name, 500, n_batches=2, n_files=4, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert all(x.equals(y) for x, y in zip(a, b, strict=True))
    assert not all(x.equals(y) for x, y in zip(a, c, strict=True))


def test_every_record_is_in_one_file_and_batches_follow_each_other(tmp_path: Path) -> None:
    tables = written(tmp_path / "words", 1003, n_batches=3, n_files=2)
    assert len(tables) == 6
    assert sum(table.num_rows for table in tables) == 1003
    batches = [pa.concat_tables(tables[i : i + 2])["ts"].to_pylist() for i in (0, 2, 4)]
    assert max(batches[0]) < min(batches[1])
    assert max(batches[1]) < min(batches[2])
    assert (max(batches[2]) - min(batches[0])).total_seconds() < 360


def test_the_hot_word_of_every_period_is_another_one(tmp_path: Path) -> None:
    tables = written(tmp_path / "words", 5000, n_batches=5, n_files=1)
    hot = [Counter(table["word"].to_pylist()).most_common(1)[0] for table in tables]
    assert len({word for word, _ in hot}) == 5
    # With exponent 1.4 the hottest of 20,000 words has 33 % of the records: here at least 25 %.
    assert all(count > 250 for _, count in hot)

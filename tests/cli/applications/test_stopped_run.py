"""Ctrl-C on `skewless run APP --stream`: one line says where it goes on, and it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from command_line import lend_session, run
from skewless.cli.applications.run import RunOptions, _where_it_resumes

N_FILES = 30
# As in a terminal: a shell that starts the tests in the background lets them ignore Ctrl-C.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from skewless.cli import main
main()
"""


def write_words(folder: Path, n_files: int) -> Counter[str]:
    folder.mkdir()
    counts: Counter[str] = Counter()
    for number in range(n_files):
        words = ["hot"] * 20 + [f"w{number % 7}"] * 3
        counts.update(words)
        path = folder / f"{number:03}.parquet"
        pq.write_table(pa.table({"word": words}), path)
        os.utime(path, (1_000 + number, 1_000 + number))
    return counts


def command(folder: Path, *more: str) -> list[str]:
    return [
        *("run", "wordcount", "--input", str(folder), "--key", "word", "--workers", "2"),
        *("--stream", "--files-per-batch", "1", *more),
    ]


@pytest.mark.spark
def test_an_interrupt_ends_with_one_line_and_exit_code_130(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lend_session(spark, monkeypatch)
    write_words(tmp_path / "in", 2)

    def interrupted(writer: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("skewless.apps.computation.finish", interrupted)
    checkpoint = str(tmp_path / "checkpoint")
    kept = run(*command(tmp_path / "in", "--checkpoint", checkpoint))
    assert kept.exit_code == 130
    assert kept.stderr.strip().splitlines()[-1] == (
        "skewless: stopped: the same command resumes where it was before, by checkpoint "
        + checkpoint
    )
    lost = run(*command(tmp_path / "in"))
    assert lost.exit_code == 130
    assert "begins with the first record again" in lost.stderr


def test_the_next_micro_batch_is_named() -> None:
    said = _where_it_resumes(RunOptions(stream=True, checkpoint="c"), 7)
    assert said == "stopped: the same command resumes with micro-batch 7 of checkpoint c"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_a_stopped_stream_goes_on_and_counts_every_record_once(
    spark: object, tmp_path: Path
) -> None:
    """`spark` is there to skip without Java."""
    counts = write_words(tmp_path / "in", N_FILES)
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "out"
    arguments = command(tmp_path / "in", "--checkpoint", str(checkpoint), "--output", str(output))
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    deadline = time.monotonic() + 600
    while not (checkpoint / "commits" / "1").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130, err
    assert out == ""
    said = [line for line in err.splitlines() if "skewless:" in line]
    assert len(said) == 1, err
    assert "the same command resumes with micro-batch" in said[0]
    assert len(list((checkpoint / "commits").glob("[0-9]*"))) < N_FILES

    again = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = pq.read_table(output).to_pylist()
    assert {row["word"]: row["count"] for row in rows} == counts

"""The table of alternatives: best turns, ratios, and verdicts that can go either way."""

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark.spark_alternatives import cells, summary, table


def rows(stream: str, predicted: str | None = None, **seconds: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "case": "a model per key",
            "stream": stream,
            "slots": 8,
            "job": job.replace("_", "-"),
            "turn": turn,
            "seconds": took,
            "predicted": predicted,
        }
        for job, times in seconds.items()
        for turn, took in enumerate(times)
    ]


WIN = rows(
    "win",
    "cascade-ahead",
    hash=[4.0, 9.0, 5.0],
    round_robin=[3.0],
    salt_4=[2.0],
    cascade_ahead=[1.0],
)
LOSS = rows("loss", "cascade-ahead", hash=[1.0], pd_stream=[0.5], local=[3.0], cascade_ahead=[2.0])
TIE = rows("tie", "pd-stream", hash=[1.1], pd_stream=[1.05], cascade_ahead=[1.0])


def test_a_cell_has_the_best_turn_of_each_job_and_the_best_that_needs_no_strategy():
    win, loss, tie = cells(WIN + LOSS + TIE)
    assert (win.seconds["hash"], win.best_other, win.gain) == (4.0, "salt-4", 2.0)
    assert (loss.best_other, loss.gain) == ("hash", 0.5)  # pd-stream is a strategy
    assert tie.gain == pytest.approx(1.1)
    assert [one.is_predicted_well for one in (win, loss, tie)] == [True, False, True]


def test_the_table_says_where_cascade_loses():
    win, loss, tie = table(WIN + LOSS + TIE).splitlines()[2:]
    assert win == "| a model per key | win | 8 | 4.00 | 3.00 | salt-4 2.00 | win | cascade-ahead |"
    assert loss == "| a model per key | loss | 8 | 0.50 | – | hash 0.50 | loss | cascade-ahead ✗ |"
    assert tie.endswith("| hash 1.10 | tie | pd-stream |")
    assert summary(WIN + LOSS + TIE).startswith(
        "Of 3 cells, cascade-ahead wins 1, ties 1 and loses 1 against the best alternative."
    )
    assert summary(WIN + LOSS + TIE).endswith("in 2.")


def test_a_cell_without_a_prediction_is_not_predicted_well():
    (cell,) = cells(rows("none", hash=[1.0], cascade_ahead=[1.0]))
    assert not cell.is_predicted_well

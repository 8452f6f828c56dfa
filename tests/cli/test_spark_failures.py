"""What goes wrong inside Spark while a command runs is one line on standard error, exit code 1."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from py4j.protocol import Py4JNetworkError

from skewless.apps.quiet_session import SparkFailed, quiet_session


def test_java_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def stop(self) -> None:
            raise Py4JNetworkError("cannot reach Java")

    monkeypatch.setenv("SKEWLESS_WARM", "")
    monkeypatch.setattr("skewless.apps.quiet_session.session", lambda *_, **__: Gone())
    with (
        pytest.raises(SparkFailed, match="Spark failed: Answer from Java side is empty"),
        quiet_session("local[1]", tmp_path, "", {}),
    ):
        raise Py4JNetworkError("Answer from Java side is empty\nand more")

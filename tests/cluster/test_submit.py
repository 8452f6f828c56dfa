"""spark-submit with a packed environment, a ledger on a shared folder, a killed executor."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from faults.conftest import require_faults
from faults.jobs.cluster import Cluster
from faults.jobs.starting import environment, write_records

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

PROJECT = Path(__file__).parent.parent.parent
_LONGEST_S = 3_600


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return an environment with skewless and what it needs, without Spark; and its archive.

    SKEWLESS_PACKED names a folder with an environment that was made before.
    """
    require_faults()
    given = os.environ.get("SKEWLESS_PACKED")
    folder = Path(given) if given else tmp_path_factory.mktemp("packed") / "environment"
    python = folder / "bin" / "python"
    if not given:
        venv.create(folder, with_pip=True, symlinks=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        constraints = str(PROJECT / "constraints.txt")
        packages = [str(PROJECT), "pandas<3"]
        subprocess.check_call([*pip, "--no-input", "-c", constraints, *packages])
    archive = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    subprocess.check_call(["tar", "-czf", str(archive), "-C", str(folder), "."])
    return python, archive


def submit(packed: tuple[Path, Path], master: str, place: Path, records: Path) -> str:
    """Submit the job as docs/guides/cluster.md says; return what was printed."""
    import pyspark

    python, archive = packed
    settings = {
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": str(python),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.SKEWLESS_WARM": "cascade",
        "spark.local.dir": str(place / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    confs = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", master, *confs]
    command += ["--archives", f"{archive}#environment"]
    command += [str(Path(__file__).with_name("job.py")), str(records), str(place)]
    # Nothing of this environment: what the job needs is in the archive.
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    surroundings = {n: v for n, v in environment().items() if n not in hidden}
    surroundings["SPARK_HOME"] = str(home)
    done = subprocess.run(
        command,
        cwd=place,
        env=surroundings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr


def last_results(out: Path) -> dict[str | None, tuple[int, int | None]]:
    """Return the newest result of each key over all micro-batches."""
    found = {}
    for batch in sorted(out.iterdir(), key=lambda path: int(path.name)):
        for row in pq.read_table(batch).to_pylist():
            found[row["k"]] = (row["n"], row["spread"])
    return found


def test_a_submitted_stream_survives_a_killed_executor(
    packed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, place = tmp_path / "records", tmp_path / "job"
    place.mkdir()
    write_records(records)
    # Executors must not find skewless by the variables of this process.
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with Cluster(tmp_path / "cluster") as cluster:
        said = submit(packed, cluster.master, place, records)
    assert (place / "killed").exists()
    assert "Lost executor" in said
    plain: pa.Table = pq.read_table(place / "plain")
    wanted = {row["k"]: (row["n"], row["spread"]) for row in plain.to_pylist()}
    assert last_results(place / "out") == wanted
    assert sum(n for n, _ in wanted.values()) == sum(
        pq.read_metadata(path).num_rows for path in records.glob("*.parquet")
    )
    # The plans went through the shared folder, and the workers ran what was packed.
    assert len(list((place / "ledger" / "plans").iterdir())) > 1
    pythons = (place / "pythons").read_text().splitlines()
    assert all("cluster/worker-" in line for line in pythons), pythons
    assert not any(line.startswith(sys.prefix) for line in pythons)

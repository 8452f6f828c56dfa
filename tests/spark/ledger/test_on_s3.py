"""The ledger on an object store: moto's server, on this machine."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from pyarrow import fs

from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.folder import open_folder
from skewless.spark.ledger.ledger import Entry, Ledger, LedgerCorrupt, LedgerMismatch
from skewless.spark.ledger.names import plan_name
from skewless.spark.routing.plan_turns import latest_plan
from spark.ledger.entries import read_reports, read_workers, write_report, write_worker

moto_server = pytest.importorskip(
    "moto.server", reason="moto with its server is not installed: pip install 'moto[s3,server]'"
)

IDENTITY = {"strategy": "pkg", "workers": 32}


def entry(value: int) -> Entry:
    return Entry({"loads": np.arange(value)}, {"value": value})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def options(server: str) -> str:
    """Give each test an empty bucket."""
    s3 = fs.S3FileSystem(
        access_key="name",
        secret_key="secret",
        endpoint_override=server,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )
    if s3.get_file_info("bucket").type != fs.FileType.NotFound:
        s3.delete_dir("bucket")
    s3.create_dir("bucket")
    return f"endpoint_override={server}&scheme=http&region=us-east-1"


@pytest.fixture(params=["s3://name:secret@bucket/deep/ledger", "s3a://name:secret@bucket/a b ☂/"])
def ledger(request: pytest.FixtureRequest, options: str) -> Ledger:
    return Ledger(f"{request.param}?{options}")


def test_a_ledger_lives_on_s3(ledger):
    assert ledger.batches() == []
    assert not ledger.check(IDENTITY)
    ledger.claim(IDENTITY)
    ledger.claim(IDENTITY)
    with pytest.raises(LedgerMismatch, match="workers=32, not 64") as refused:
        ledger.claim(IDENTITY | {"workers": 64})
    assert "secret" not in str(refused.value)
    ledger.bind("query")
    with pytest.raises(LedgerMismatch):
        ledger.bind("other")

    assert ledger.read(plan_name(3)) is None
    assert latest_plan(ledger, 3) is None
    assert ledger.publish(plan_name(3), entry(1)).about == {"value": 1}
    assert ledger.publish(plan_name(3), entry(2)).about == {"value": 1}
    ledger.publish(plan_name(5), entry(5))
    assert latest_plan(ledger, 5)[0] == 3
    for source in (4, 2):
        write_report(ledger, 3, source, entry(source))
        write_report(ledger, 3, source, entry(source))
    write_worker(ledger, 4, 0, entry(7))
    reports = read_reports(ledger, 3)
    assert list(reports) == [2, 4]
    assert to_bytes(reports[4]) == to_bytes(entry(4))
    assert read_workers(ledger, 4)[0].about == {"value": 7}
    assert ledger.batches() == [3, 4, 5]


def test_purging_works_on_s3(ledger):
    ledger.claim(IDENTITY)
    for batch in range(4):
        ledger.publish(plan_name(batch), entry(batch))
        write_report(ledger, batch, batch % 2, entry(batch))
        write_worker(ledger, batch, 0, entry(batch))
    ledger.purge(3)
    assert read_reports(ledger, 2) == read_workers(ledger, 2) == {}
    assert ledger.batches() == [3]
    ledger.purge(9)
    assert ledger.batches() == []
    assert ledger.check(IDENTITY)


def test_no_unfinished_names_are_used_on_s3(ledger):
    ledger.publish(plan_name(0), entry(100_000))
    assert open_folder(ledger.folder).files("plans") == ["plans/00000000.arrow"]
    assert ledger.read(plan_name(0)).arrays["loads"].size == 100_000


def test_what_others_deleted_is_no_error_on_s3(ledger):
    folder = open_folder(ledger.folder)
    folder.delete("plans/00000000.arrow")
    folder.delete_folder("reports/00000000")


def test_damage_on_s3_is_noticed(ledger):
    open_folder(ledger.folder).overwrite("plans/00000000.arrow", to_bytes(entry(3))[:-1])
    with pytest.raises(LedgerCorrupt, match=r"plans/00000000\.arrow") as damaged:
        ledger.read(plan_name(0))
    assert "secret" not in str(damaged.value)


def test_a_ledger_inside_another_is_a_folder_on_s3(ledger):
    ledger.below("query 1").publish(plan_name(0), entry(1))
    assert open_folder(ledger.folder).folders("") == ["query 1"]


def test_a_missing_bucket_is_named(options):
    ledger = Ledger(f"s3://name:secret@nowhere/ledger?{options}")
    with pytest.raises(OSError, match="s3://nowhere/ledger cannot be written") as refused:
        write_report(ledger, 0, 0, entry(1))
    assert "name:secret" not in str(refused.value)


PUBLISH = """
import sys
import numpy as np
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.names import plan_name
ledger = Ledger(sys.argv[1])
for batch in range(5):
    plan = Entry({"loads": np.arange(batch)}, {"value": batch})
    assert to_bytes(ledger.publish(plan_name(batch), plan)) == to_bytes(plan)
print("done")
"""


@pytest.mark.slow
def test_processes_that_publish_equal_plans_all_get_them(ledger):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISH, ledger.folder], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["done\n"] * 2
    assert ledger.batches() == [0, 1, 2, 3, 4]

"""Several processes write to one ledger, and some of them die."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanes import slow
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.names import plan_name
from spark.ledger.entries import IDENTITY, leftovers, read_reports, same, small, write_report

PUBLISH = """
import hashlib, sys
import numpy as np
from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.names import plan_name
def fill_together(file, data):
    file.write(data)
    print("writing", flush=True)
    sys.stdin.readline()
ledger_folder._fill = fill_together
folder, who, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for batch in range(n):
    mine = Entry({"loads": np.full(5000, who)}, {"who": who})
    plan = Ledger(folder).publish(plan_name(batch), mine)
    print(plan.about["who"], hashlib.sha256(to_bytes(plan)).hexdigest(), flush=True)
"""


@pytest.mark.slow
def test_processes_that_publish_at_once_all_get_the_same_plan(ledger):
    n_batches = 8
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISH, ledger.folder, str(who), str(n_batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in range(4)
    ]
    for batch in range(n_batches):
        # All of them have found no plan and hold one of their own before anyone may go on.
        for process in processes:
            assert process.stdout.readline() == "writing\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        seen = {process.stdout.readline() for process in processes}
        plan = ledger.read(plan_name(batch))
        assert seen == {f"{plan.about['who']} {hashlib.sha256(to_bytes(plan)).hexdigest()}\n"}
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert leftovers(Path(ledger.folder)) == []


DIE = """
import sys, time
import numpy as np
from skewless.spark.ledger import local_folder as ledger_folder
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import SOURCES, plan_name, report_name
def half(file, data):
    file.write(data[: len(data) // 2])
    file.flush()
    print("half", flush=True)
    time.sleep(600)
ledger_folder._fill = half
ledger = Ledger(sys.argv[1])
entry = Entry({"loads": np.arange(5000)})
if sys.argv[2] == "plan":
    ledger.publish(plan_name(3), entry)
elif sys.argv[2] == "report":
    ledger.write(report_name(SOURCES, 3, None, 0), entry)
else:
    ledger.claim({"seed": 1})
"""


@pytest.mark.parametrize("what", ["plan", *slow(["report", "claim"])])
def test_a_writer_killed_in_the_middle_leaves_nothing_visible(ledger, what):
    process = subprocess.Popen(
        [sys.executable, "-c", DIE, ledger.folder, what], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (unfinished,) = leftovers(Path(ledger.folder))
    assert unfinished.stat().st_size > 0

    assert ledger.batches() == []
    assert ledger.read(plan_name(3)) is None
    assert read_reports(ledger, 3) == {}
    assert not ledger.check(IDENTITY)
    assert same(ledger.publish(plan_name(3), small()), small())
    write_report(ledger, 3, 0, small())
    assert list(read_reports(ledger, 3)) == [0]
    os.utime(unfinished, (0, 0))
    ledger.purge(4)
    assert leftovers(Path(ledger.folder)) == []

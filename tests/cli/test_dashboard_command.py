"""`skewless dashboard`: what it refuses, writes and serves."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the ledger is read by skewless.spark")
pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from command_line import refused, run
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import plan_name
from spark.balance.reports import IDENTITY, source, worker
from spark.ledger.entries import write_report, write_worker


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    made.bind("query-1")
    made.publish(plan_name(0), Entry({}, {}))
    write_report(made, 0, 0, source(2, 1, 0))
    for number, keys in enumerate((["hot <key>", "b"], ["hot <key>"], [])):
        write_worker(made, 0, number, worker(keys))
    return tmp_path / "ledger"


def test_once_writes_a_page_for_its_owner_alone(ledger, tmp_path):
    page = tmp_path / "pages" / "page.html"
    result = run("dashboard", str(ledger), "--once", str(page))
    assert result.exit_code == 0, result.output
    assert result.output == f"The page: {page}\n"
    html = page.read_text(encoding="utf-8")
    assert "Load per worker over time" in html
    assert "hot <key>" not in html
    assert os.name == "nt" or stat.S_IMODE(page.stat().st_mode) == 0o600


def test_programs_get_an_object_per_micro_batch(ledger, tmp_path):
    told = run("dashboard", str(ledger), "--json")
    assert told.exit_code == 0, told.output
    [batch] = [json.loads(line) for line in told.stdout.splitlines()]
    assert batch["batch"] == 0
    assert batch["loads"] == [2, 1, 0]
    both = refused("dashboard", str(ledger), "--json", "--once", str(tmp_path / "page.html"))
    assert "give one of --json and --once" in both


def test_what_is_no_ledger_is_refused_in_one_line(ledger, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    assert "there is no ledger in" in refused("dashboard", str(tmp_path / "empty"))
    assert "there is no ledger in" in refused("dashboard", str(tmp_path / "missing"))
    assert not (tmp_path / "missing").exists()
    assert "must be a folder" in refused("dashboard", str(tmp_path / "file"))
    assert "LEDGER" in refused("dashboard", "")
    assert "--port" in refused("dashboard", str(ledger), "--port", "70000")
    assert "is a folder" in refused("dashboard", str(ledger), "--once", str(tmp_path))
    (ledger / "identity.json").write_text("{")
    assert "identity.json" in refused("dashboard", str(ledger))
    (ledger / "identity.json").unlink()
    assert "there is no ledger in" in refused("dashboard", str(ledger))


def test_a_damaged_report_is_refused_in_one_line(ledger):
    report = next((ledger / "workers").rglob("*.arrow"))
    report.write_bytes(b"nonsense")
    assert "is truncated or not a file of skewless" in refused("dashboard", str(ledger))


#: A shell lets programs in the background ignore Ctrl-C; a person's program does not.
HEARS_CTRL_C = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "import skewless.cli; skewless.cli.main()"
)


@pytest.mark.skipif(os.name == "nt", reason="Windows sends Ctrl-C to whole groups of programs")
def test_the_address_is_printed_the_page_answers_and_ctrl_c_ends_it(ledger):
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS_CTRL_C, "dashboard", str(ledger), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("The live page: http://127.0.0.1:")
        with urllib.request.urlopen(line.split(": ")[1].strip(), timeout=60) as answer:
            assert "Load per worker over time" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=120) == ("", "")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_the_browser_gets_a_private_file_instead_of_the_secret_path(ledger, monkeypatch):
    """Every user of a machine can read the command line of a browser."""
    opened = []

    def browser(address):
        file = Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
        opened.append((address, file, file.read_text(encoding="utf-8")))
        for place, mode in ((file, 0o600), (file.parent, 0o700)):
            assert os.name == "nt" or stat.S_IMODE(place.stat().st_mode) == mode
        raise KeyboardInterrupt  # as the user who closes the page

    monkeypatch.setattr("webbrowser.open", browser)
    told = run("dashboard", str(ledger))
    [(given, file, html)] = opened
    address = told.stdout.split("The live page: ")[1].split()[0]
    assert given.startswith("file:")
    assert urllib.parse.urlsplit(address).path not in given
    assert f"url={address}" in html
    assert not file.parent.exists()


@pytest.mark.slow
def test_without_bokeh_one_line_says_what_to_install(ledger):
    hide = "import sys; sys.modules['bokeh'] = None; import skewless.cli; skewless.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", hide, "dashboard", str(ledger)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == (
        "skewless: the page with the plots needs Bokeh: install skewless with its extra "
        "'dashboard'\n"
    )

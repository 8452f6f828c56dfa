"""CSV files with other delimiters than the comma, as `diagnose` and `simulate` read them."""

import json

import pytest

from command_line import refused, run


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    rows = (f"{'a,b' if i % 2 else i % 7};{i % 3}" for i in range(300))
    path.write_text("user;page\n" + "\n".join(rows) + "\n")
    return str(path)


def test_diagnose_ranks_and_counts_columns(visits):
    ranked = run("diagnose", "columns", "--input", visits, "--delimiter", ";", "--json")
    assert ranked.exit_code == 0, ranked.output
    assert {json.loads(line)["column"] for line in ranked.stdout.splitlines()} == {"user", "page"}
    counted = run(
        "diagnose", "key", "--input", visits, "--delimiter", ";", "--key", "user", "--json"
    )
    assert counted.exit_code == 0, counted.output
    assert json.loads(counted.stdout)["top_key_texts"][0] == "a,b"


def test_simulate_takes_it_as_a_parameter_of_the_trace(visits):
    command = ["simulate", "--strategy", "hash", "--workers", "2", "--trace", visits, "--json"]
    routed = run(*command, "--key", "user", "--with", "delimiter=;")
    assert routed.exit_code == 0, routed.output
    row = json.loads(routed.stdout)
    assert (row["records"], row["keys"]) == (300, 8)
    no_key = ["simulate", "--strategy", "hash", "--trace", visits, "--with", "delimiter=;"]
    assert "--trace needs --key COLUMN" in refused(*no_key)


def test_what_does_not_fit_is_one_line(visits, tmp_path):
    other = tmp_path / "words.jsonl"
    other.write_text('{"user": "a"}')
    simulate = ["simulate", "--strategy", "hash", "--key", "user", "--trace"]
    cases = {
        "--delimiter must be one ASCII character": ["--input", visits, "--delimiter", ";;"],
        "--delimiter goes with CSV files, and 'words.jsonl' is read as jsonl": [
            *["--input", str(other), "--delimiter", ";"]
        ],
    }
    for message, options in cases.items():
        assert message in refused("diagnose", "columns", *options), options
    message = "--with delimiter must be one ASCII character"
    assert message in refused(*simulate, visits, "--with", "delimiter=;;")
    assert message in refused(*simulate, visits, "--with", "delimiter=")
    message = "--with delimiter goes with CSV files"
    assert message in refused(*simulate, str(other), "--with", "delimiter=;")


def test_a_column_that_may_be_several_is_told(tmp_path):
    (tmp_path / "semi.csv").write_text("user;n\na;1\nb;2\n")
    path = str(tmp_path / "semi.csv")
    line = refused("diagnose", "key", "--input", path, "--key", "user")
    assert line.startswith("skewless: --key: ")
    assert "give the delimiter ';'" in line
    ranked = run("diagnose", "columns", "--input", path)
    assert ranked.exit_code == 0
    assert "give the delimiter ';'" in ranked.stdout

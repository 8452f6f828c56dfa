"""A ledger belongs to one query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skewless.spark.ledger.ledger import LedgerCorrupt, LedgerMismatch, LedgerTooNew
from spark.ledger.entries import IDENTITY


def test_the_same_identity_may_claim_again(ledger):
    assert not ledger.check(IDENTITY)
    ledger.claim(IDENTITY)
    ledger.claim(dict(reversed(IDENTITY.items())))
    assert ledger.check(IDENTITY)
    found = json.loads((Path(ledger.folder) / "identity.json").read_text())
    assert found["identity"] == IDENTITY


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (IDENTITY | {"workers": 64}, "was written for workers=32, not 64"),
        (IDENTITY | {"workers": 64, "strategy": "hash"}, "was written for strategy=pkg, not hash"),
        (IDENTITY | {"more": 1}, "was written for no more, not 1"),
        ({k: v for k, v in IDENTITY.items() if k != "key"}, "for key=k, not without it"),
    ],
)
def test_another_identity_is_refused_by_its_first_difference(ledger, wanted, text):
    ledger.claim(IDENTITY)
    for ask in (ledger.claim, ledger.check):
        with pytest.raises(LedgerMismatch, match=text) as refused:
            ask(wanted)
        assert ledger.folder in str(refused.value)
    assert ledger.check(IDENTITY)


def test_another_version_of_the_package_is_no_other_identity(ledger):
    ledger.claim(IDENTITY | {"skewless": "0.1", "state_layout": "abc-1"})
    ledger.claim(IDENTITY | {"skewless": "0.2", "state_layout": "abc-1"})
    assert ledger.identity()["skewless"] == "0.1"


@pytest.mark.parametrize(
    ("wrote", "text"),
    [
        ({"skewless": "0.1", "state_layout": "abc-1"}, "by skewless 0.1, whose strategy pkg keeps"),
        ({}, "by an older skewless, whose strategy pkg keeps its state in another layout"),
    ],
)
def test_another_layout_of_the_state_is_refused_by_name(ledger, wrote, text):
    ledger.claim(IDENTITY | wrote)
    for ask in (ledger.claim, ledger.check):
        with pytest.raises(LedgerMismatch, match=text):
            ask(IDENTITY | {"skewless": "0.2", "state_layout": "abc-2"})


def test_checking_creates_nothing(ledger):
    ledger.check(IDENTITY)
    assert not Path(ledger.folder).exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "7",
        "[" * 100_000,
        '{"format": "skewless-identity", "version": 2}',
        '{"format": "skewless-identity", "version": 2, "identity": []}',
        '{"format": "skewless-identity", "version": 2, "identity": {"seed": [1]}}',
        '{"format": "skewless-identity", "version": 2, "identity": {"seed": NaN}}',
        '{"format": {}, "version": 2, "identity": {}}',
    ],
)
def test_a_damaged_identity_is_corrupt(ledger, content):
    ledger.claim(IDENTITY)
    (Path(ledger.folder) / "identity.json").write_text(content)
    for ask in (lambda: ledger.check(IDENTITY), ledger.identity):
        with pytest.raises(LedgerCorrupt, match=r"identity\.json") as refused:
            ask()
        assert "\n" not in str(refused.value)


def test_an_identity_of_a_later_version_is_refused(ledger):
    ledger.claim(IDENTITY)
    path = Path(ledger.folder) / "identity.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 3'))
    with pytest.raises(LedgerTooNew, match="version 3"):
        ledger.claim(IDENTITY)


def test_identities_hold_json_values_only(ledger):
    with pytest.raises(ValueError, match="identity must be"):
        ledger.claim({"seed": float("nan")})


def test_a_ledger_belongs_to_one_query(ledger):
    ledger.bind("first")
    ledger.bind("first")
    with pytest.raises(LedgerMismatch, match=r"query first, not second: give .* or delete"):
        ledger.bind("second")

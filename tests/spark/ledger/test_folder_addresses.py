"""Addresses of ledger folders: what they mean, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.spark.ledger.folder import open_folder
from skewless.spark.ledger.ledger import Ledger


@pytest.mark.parametrize("name", ["a#1", "b c", "ü", "semi;colon", "per%25cent"])
def test_a_file_address_means_the_folder_that_it_names(tmp_path: Path, name: str) -> None:
    ledger = Ledger(f"{tmp_path.as_uri()}/{name}")
    open_folder(ledger.folder).create("identity.json", b"x")
    meant = name.replace("%25", "%")
    assert (tmp_path / meant / "identity.json").read_bytes() == b"x"
    assert [path.name for path in tmp_path.iterdir()] == [meant]


def test_options_of_a_file_address_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has a '\?'.* Write %3F"):
        Ledger(f"{tmp_path.as_uri()}/q?x=1")

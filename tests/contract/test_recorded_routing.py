"""The routing is byte for byte what it was when it was recorded."""

import json

import pytest

from contract.cases import CASES, IDS
from contract.recorded_routing import RECORDED, digest
from lanes import needs_a_long_stream

RECORDS = json.loads(RECORDED.read_text())


@needs_a_long_stream
@pytest.mark.parametrize("strategy", CASES, ids=IDS)
def test_routing_is_what_was_recorded(strategy, request):
    name = request.node.callspec.id
    assert name in RECORDS, "a new case: run `python tests/contract/recorded_routing.py`"
    assert digest(strategy) == RECORDS[name], (
        "routing has changed. If it was meant to, say so in CHANGELOG.md and run "
        "`python tests/contract/recorded_routing.py`"
    )


def test_nothing_is_recorded_that_is_not_there():
    assert sorted(RECORDS) == sorted(IDS)

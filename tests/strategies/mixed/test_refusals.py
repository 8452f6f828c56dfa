"""Parameters and reports of Mixed's family that are refused."""

import numpy as np
import pytest

from skewless.strategies import MinMig, MinTable, Mixed, Readj, Simple
from skewless.strategy import Report
from strategies.streams import as_keys


@pytest.mark.parametrize(
    ("cls", "parameter", "value"),
    [
        (Mixed, "tolerance", -0.1),
        (Mixed, "tolerance", float("nan")),
        (Mixed, "beta", -1.0),
        (Mixed, "max_entries", -1),
        (MinTable, "discretisation", -1),
        (MinTable, "discretisation", 31),
        (MinMig, "beta", float("nan")),
        (Simple, "tolerance", float("inf")),
        (Readj, "sigma", 0.0),
    ],
)
def test_parameters_out_of_range_are_refused(cls, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        cls(**{parameter: value})


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_report_with_impossible_numbers_is_refused(bad):
    keys = as_keys([1, 2])
    for loads, sizes in (([1, bad], [1, 1]), ([1, 1], [bad, 1])):
        with pytest.raises(ValueError, match="report"):
            Mixed().rebalance(
                Report(keys, *(np.array(part, np.float64) for part in (loads, sizes))),
                Mixed().start(2, 0),
            )

"""A processor that counts and adds, for the benchmarks of keyed state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.spark import Processor, Update


class Totals(Processor):
    """Counts and adds, all keys of a worker at once."""

    state_schema = "n bigint, total double"
    result_schema = "k string, n bigint, total double"

    def update(self, keyed: Any) -> Update:
        n = pc.add(keyed.states.field("n").fill_null(0), pa.array(np.diff(keyed.starts)))
        sums = np.add.reduceat(keyed.records["v"].to_numpy(), keyed.starts[:-1])
        total = pc.add(keyed.states.field("total").fill_null(0.0), pa.array(sums))
        results = pa.table([keyed.keys["k"], n, total], ["k", "n", "total"])
        return Update(results, pa.StructArray.from_arrays([n, total], ["n", "total"]))

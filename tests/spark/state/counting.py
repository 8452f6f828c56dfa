"""Test support: a fast processor that counts the records of each key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skewless.spark import Processor, Update
from skewless.spark.state.processor import KeyedRecords
from spark.state.chains import BEGIN, SCHEMA

SECOND = 1_000_000


class Counts(Processor):
    """Returns how many records each key has had so far."""

    state_schema = "n bigint"
    result_schema = "k string, n bigint"

    def update(self, keyed: KeyedRecords) -> Update:
        before = keyed.states.field("n").fill_null(0).to_numpy(zero_copy_only=False)
        n = pa.array(before + np.diff(keyed.starts))
        results = pa.table([keyed.keys["k"], n], ["k", "n"])
        return Update(results, pa.StructArray.from_arrays([n], ["n"]))


class Visits(Counts):
    """Forgets a key that has had no record for three seconds."""

    ttl = "3 seconds"


def of_keys(keys: list[str], batch: int = 0) -> pa.Table:
    """Return one record for each of `keys`, all in the second of the batch."""
    n = len(keys)
    times = [BEGIN + batch * SECOND] * n
    return pa.table({"k": keys, "v": [0] * n, "ts": times}, schema=SCHEMA)

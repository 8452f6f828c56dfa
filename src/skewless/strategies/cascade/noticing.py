"""How Cascade notices that the heavy keys have changed.

Counts fade slowly, so that chance does not change what is heavy. When hot keys change, the old ones
would long stay the heaviest, and the new ones would be graded as if they were light. So every
few records the counts are compared with the last ones. A key whose records since then are far from
what its count predicts gets the count that these records imply. In a stream that does not change
this happens to no key. Where weights vary, nothing is corrected: a few heavy records would look
like a change.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.counting import grade_all, watch
from skewless.strategies.cascade.heavy_keys import n_places
from skewless.strategies.cascade.state import BLOCK, CascadeState

LOOKS_PER_EPOCH = 8  # at most: how often counts are compared with what was expected
_OTHER = 2.0  # a rate is another one only if it is more than this many times as large or small
#: The number of standard deviations of a Poisson variable that rules out chance, squared.
_SURE = 36.0


@kernel
def notice(state: CascadeState) -> None:
    """Correct the counts of keys whose records since the last look contradict them.

    `seen` and `expected` are stored counts. A sweep changes neither them nor their total.
    """
    heavy, watched = state.heavy, state.watched
    numbers, counters = state.numbers[0], state.counters[0]
    total = (numbers["old_weight"] + numbers["weight"]) * heavy.unit[0]
    new = total - numbers["watched"]
    is_corrected = False
    alike = counters["varies"] == 0
    if alike and numbers["watched"] > 0.0 and new > 0.0 and numbers["keep"] < 1.0:
        record = heavy.unit[0] * numbers["scale"]
        least = _SURE * record
        rate = new / numbers["watched"]
        for place in range(n_places(heavy)):
            seen = heavy.counts[place] - watched[place]
            expected = watched[place] * rate
            larger, gap = max(seen, expected), seen - expected
            if larger <= least:  # nearly all keys
                continue
            is_other = _OTHER * min(seen, expected) < larger and gap * gap > least * larger
            # Light keys are counted by samples. A few of them would look like many records.
            is_exact = gap < 0.0 or watched[place] >= numbers["heavy"]
            if is_other and is_exact:
                heavy.counts[place] = max(seen * (total / new), record)
                is_corrected = True
    watch(state)
    state.counters[0]["look_at"] = state.counters[0]["records"] + stretch(
        state.counters[0]["epoch"]
    )
    if is_corrected:
        grade_all(state)


@kernel
def stretch(epoch: I64) -> I64:
    """Return the least number of records between two looks."""
    return max(epoch // LOOKS_PER_EPOCH, np.int64(BLOCK))

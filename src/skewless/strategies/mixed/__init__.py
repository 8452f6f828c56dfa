"""Mixed and its family: moving strategies with a routing table over a consistent-hash ring.

Read `mixed` first: Mixed, MinTable, MinMig, MixedBF and Simple; `readj` is a baseline. Then read
`controller`: when a plan is made (Figure 5 of Mixed). The paper's parts: `routing_table` is
the table, the hash of equation 1 (section II) and the ring; `goals` is the balance indicator and
L_max, and says which keys are too large for any worker; `phases` is one attempt at a plan, phases I
to III (section III), with Algorithm 1, by which they place keys; `compact_representation` is
section IV-A, with the few values of IV-B (HLHE) and the orders of keys.
"""

from skewless.strategies.mixed.mixed import MinMig, MinTable, Mixed, MixedBruteForce, Simple
from skewless.strategies.mixed.readj import Readj

__all__ = ["MinMig", "MinTable", "Mixed", "MixedBruteForce", "Readj", "Simple"]

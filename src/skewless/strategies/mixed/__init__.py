"""Mixed and its family: moving strategies with a routing table over a consistent-hash ring.

The strategies: `mixed`, `mixed_bf`, `min_table`, `min_mig`, `simple` and `readj`. Read `mixed`
first, then `controller`: when a plan is made (Figure 5 of Mixed). The paper's parts:
`routing_table` is the table and the hash of equation 1 (section II), and `even_arcs` is its ring;
`goals` is the balance indicator and L_max, and says which keys are too large for any worker;
`phases` is one attempt at a plan, phases I to III (section III); `llfd` is Algorithm 1, by which
the phases place keys; `compact_representation` is section IV-A, `discretisation` makes its few
values (HLHE, IV-B), and `ordering` sorts keys, for example by migration priority.
"""

from skewless.strategies.mixed.min_mig import MinMig
from skewless.strategies.mixed.min_table import MinTable
from skewless.strategies.mixed.mixed import Mixed
from skewless.strategies.mixed.mixed_bf import MixedBruteForce
from skewless.strategies.mixed.readj import Readj
from skewless.strategies.mixed.simple import Simple

__all__ = ["MinMig", "MinTable", "Mixed", "MixedBruteForce", "Readj", "Simple"]

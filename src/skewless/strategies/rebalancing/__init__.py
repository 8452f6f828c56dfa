"""What the moving strategies with a routing table over a consistent-hash ring share.

The strategies are files beside this folder: `mixed`, `mixed_bf`, `min_table`, `min_mig`, `simple`
and `readj`. Read `mixed` first, then `controller`: when a plan is made (Figure 5 of Mixed). The
paper's parts: `routing_table` is the table and the hash of equation 1 (section II), and `even_arcs`
is its ring; `goals` is the balance indicator and L_max, and says which keys are too large for any
worker; `phases` is one attempt at a plan, phases I to III (section III); `llfd` is Algorithm 1, by
which the phases place keys; `compact_representation` is section IV-A, `discretisation` makes its
few values (HLHE, IV-B), and `ordering` sorts keys, for example by migration priority.
"""

from skewless.strategies.rebalancing.controller import PhasedPlanning, TableRouting

__all__ = ["PhasedPlanning", "TableRouting"]

"""Dalton's figures: learned partitioning for distributed data streams (PVLDB 16(3), 2022).

`pipeline` is the dataflow that most of them measure: partitioners, combiners of a sliding window,
reducers; the slowest stage decides. `slides` counts for it, `streams` has the data sets of Table 2,
`systems` the algorithms. `scaling` is section 5.1, `shifts` 5.2, `overhead` (with `memory` and
`forcing`) and `parts` 5.3, `partitioners`, `synchronising` and `converging` 5.4.

What the paper does not say had to be chosen, and some verdicts depend on it: the costs of a record,
of a partial result and of a decision (`pipeline`), and the number of workers of sections 5.2 and
5.4, for which 64 is taken, the most of section 5.1. Where we saw a verdict change with such a
choice, the figure has evidence that shows it.
"""

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.dalton import (
    converging,
    overhead,
    partitioners,
    parts,
    scaling,
    shifts,
    synchronising,
)

#: All figures, in the order of the paper.
FIGURES: tuple[Figure, ...] = (
    *partitioners.FIGURES_1,
    *scaling.FIGURES,
    *shifts.FIGURES,
    *overhead.FIGURES,
    *parts.FIGURES,
    *partitioners.FIGURES_13,
    *synchronising.FIGURES,
    *converging.FIGURES,
)

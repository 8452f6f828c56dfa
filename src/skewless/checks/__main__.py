"""Tampers with states of strategies in a separate process, which they may crash.

Reads pickled strategies from standard input and prints what went wrong, a line each.
"""

from __future__ import annotations

import pickle
import sys
import warnings

from skewless.checks.tampering import failures

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of arithmetic on odd numbers
    strategies, n_states, seed = pickle.load(sys.stdin.buffer)
    for strategy in strategies:
        for line in failures(strategy, n_states, seed):
            print(line, flush=True)

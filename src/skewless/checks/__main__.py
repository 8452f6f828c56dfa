"""Runs a check in a separate process, which states that were tampered with may crash.

Reads a pickled function and its arguments from standard input, and prints a line for each result.
"""

from __future__ import annotations

import pickle
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of arithmetic on odd numbers
    task, arguments = pickle.load(sys.stdin.buffer)
    for line in task(*arguments):
        print(line, flush=True)

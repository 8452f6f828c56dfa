"""Compiled pieces that two or more strategies use, or a strategy and another part of the package.

What only one strategy uses is in the file or the folder of that strategy. `xxhash64` serves no
strategy: the keys and the workloads use it.
"""

"""Benchmarks of `aggregate`."""

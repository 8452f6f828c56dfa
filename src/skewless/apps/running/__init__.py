"""A Spark session that people watch, and a stream that runs to its end.

Read `streams` first: it runs a query to its end and stops it on an interrupt. `sessions` makes the
session.
"""

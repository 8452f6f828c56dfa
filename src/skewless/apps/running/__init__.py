"""A quiet Spark session for the command line, and streams that run to their end.

Read `streams` first: it runs a query to its end and stops it on an interrupt. `sessions` makes the
session.
"""

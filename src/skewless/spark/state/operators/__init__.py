"""Ready operators on `process`: deduplicate, sessions, top_n and join.

Each verb checks its arguments, selects what its processor needs, and calls `processed`. `held_rows`
has what their processors share: rows that are held per key, and searches by key and time.
`join_processor` does the work of joins.
"""

"""Ready operators on `process`: deduplicate, sessions, top_n and join.

Each verb checks its arguments, selects what its processor needs, and calls `process`. `options` has
what they share as arguments, `held_rows` what their processors share: rows that are held per key,
and searches by key and time.
"""

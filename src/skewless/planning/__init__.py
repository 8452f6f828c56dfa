"""Plan first: where the keys of known records go, without an engine.

`packing` decides which worker gets which key. `key_plan` is the result, for people and for a file.
`pairs` divides the hot keys of a join into cells, and `join_plan` is the result of that. An engine
counts the keys and moves the records: `skewless.spark.plan_keys`.
"""

from skewless.planning.join_plan import JoinPlan
from skewless.planning.key_plan import KeyPlan, PlannedKey
from skewless.planning.packing import KeyCounts, Packed, pack

__all__ = ["JoinPlan", "KeyCounts", "KeyPlan", "Packed", "PlannedKey", "pack"]

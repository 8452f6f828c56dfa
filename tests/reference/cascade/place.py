"""A place of Cascade's table: one key, and all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Place:
    """Where one key is counted, and how far it has come in its order of workers."""

    key: int = 0
    count: float = 0.0
    watched: float = 0.0  # the count at the last look
    is_heavy: bool = False
    room: float = 0.0
    limit: float = 0.0
    recheck: float = 0.0
    floor: float = 0.0
    order: list[int] = field(default_factory=list)
    reach: int = 1
    position: int = 1  # of many: where it looks next
    waiting: list[int] = field(default_factory=list)  # of many: who was seen to have room
    turn: int = 0  # of few: with whom it is

"""How long an application would take on other slots, and without its stragglers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from skewless.diagnosis.application import Application
from skewless.diagnosis.replay import Replay
from skewless.diagnosis.stragglers import Straggler

#: What makes a task slow that even tasks would not be: not a slow machine.
_CAN_BE_BALANCED = ("records", "input", "cost")


@dataclass(frozen=True)
class StageWhatIf:
    """One attempt of a stage, as logged and as replayed."""

    stage: int
    attempt: int
    tasks: int
    what: str  # its operators, or its name
    logged_seconds: float  # from its submission to its end, as everywhere here
    seconds: float
    balanced_seconds: float | None  # None: it has no straggler
    begin: float
    balanced_begin: float

    @property
    def straggler_seconds(self) -> float:
        """What its straggler costs; nothing if even tasks fill the slots worse."""
        balanced = self.seconds if self.balanced_seconds is None else self.balanced_seconds
        return max(0.0, self.seconds - balanced)


@dataclass(frozen=True)
class WhatIf:
    """An application replayed on some slots: as it is, and with even tasks in skewed stages."""

    slots: int
    seconds: float  # from the beginning of the first job to the end of the last one
    balanced_seconds: float
    measured_seconds: float | None  # by the log, if these are its slots
    stages: tuple[StageWhatIf, ...]

    @property
    def straggler_seconds(self) -> float:
        """What the stragglers cost."""
        return max(0.0, self.seconds - self.balanced_seconds)

    @property
    def error(self) -> float | None:
        """By which part of the measured time the replay is too long, if that is known."""
        if not self.measured_seconds:
            return None
        return self.seconds / self.measured_seconds - 1.0

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        told = asdict(self) | {"straggler_seconds": self.straggler_seconds, "error": self.error}
        if self.measured_seconds is None:
            del told["measured_seconds"], told["error"]
        return {"kind": "what-if"} | told


def what_if(
    application: Application, stragglers: Sequence[Straggler], slots: int | None
) -> list[WhatIf]:
    """Replay an application on the slots of its log, and on these if they are others."""
    replay = Replay(application)
    skewed = [(one.stage, one.attempt) for one in stragglers if one.cause in _CAN_BE_BALANCED]
    wanted = dict.fromkeys([replay.slots, replay.slots if slots is None else slots])
    return [_what_if(application, replay, n_slots, skewed) for n_slots in wanted]


def _what_if(
    application: Application, replay: Replay, n_slots: int, skewed: Sequence[tuple[int, int]]
) -> WhatIf:
    as_is = replay.run(n_slots)
    balanced = replay.run(n_slots, skewed) if skewed else as_is
    stages = []
    for stage in application.stages:
        identity = stage.number, stage.attempt
        own, even = as_is.stages[identity], balanced.stages[identity]
        stages.append(
            StageWhatIf(
                stage=stage.number,
                attempt=stage.attempt,
                tasks=int(stage.tasks.seconds.size),
                what=", ".join(stage.operators) or stage.name,
                logged_seconds=stage.seconds,
                seconds=own.end - own.begin,
                balanced_seconds=even.end - even.begin if identity in skewed else None,
                begin=own.begin,
                balanced_begin=even.begin,
            )
        )
    measured = replay.measured if n_slots == replay.slots else None
    return WhatIf(n_slots, as_is.seconds, balanced.seconds, measured, tuple(stages))

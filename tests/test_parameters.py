import re
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from skewless import parameters


@dataclass(frozen=True)
class Example:
    name: ClassVar[str] = "example"

    choices: int = 2
    share: float = 0.5
    ring: bool = False
    capacity: int | None = None
    kind: Literal["exact", "sketch"] = "exact"

    def __post_init__(self):
        parameters.require(self, "choices", self.choices >= 1, "at least 1")


@dataclass(frozen=True)
class Bare:
    name: ClassVar[str] = "bare"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ({"choices": "3"}, Example(choices=3)),
        ({"choices": "1e3"}, Example(choices=1000)),
        ({"share": "0.25"}, Example(share=0.25)),
        ({"ring": "on"}, Example(ring=True)),
        ({"capacity": "7"}, Example(capacity=7)),
        ({"capacity": "none"}, Example()),
        ({"kind": "sketch"}, Example(kind="sketch")),
        ({"choices": 4, "ring": True}, Example(choices=4, ring=True)),
    ],
)
def test_text_is_read_as_the_declared_type(text, value):
    assert parameters.make(Example, text) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"choices": "two"}, "example: choices must be a whole number, not 'two'"),
        ({"choices": "1.5"}, "example: choices must be a whole number, not '1.5'"),
        ({"share": "much"}, "example: share must be a number, not 'much'"),
        ({"ring": "perhaps"}, "example: ring must be true or false, not 'perhaps'"),
        ({"kind": "magic"}, "example: kind must be one of exact, sketch, not 'magic'"),
        ({"choices": "0"}, "example: choices must be at least 1, not 0"),
        ({"choises": "2"}, "example: unknown parameter 'choises'; did you mean 'choices'?"),
    ],
)
def test_bad_text_is_refused_by_name(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parameters.make(Example, text)


def test_a_strategy_without_parameters_says_so():
    with pytest.raises(ValueError, match="bare has no parameters, so 'x' cannot be set"):
        parameters.make(Bare, {"x": "1"})


def test_an_unlike_name_lists_what_is_known():
    assert parameters.nearest("zzz", ["hash", "pkg"], "strategy").endswith("known: hash, pkg")

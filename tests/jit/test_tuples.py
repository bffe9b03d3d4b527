"""Named tuples of the package do what those of the module `typing` do."""

import copy
import inspect
import pickle
import typing
from typing import Any

import pytest

from drjit.jit import tuples


def made(base: Any) -> Any:
    class Row(base):
        """A row."""

        key: int
        text: "str"
        weight: float = 0.5

        @property
        def twice(self) -> float:
            return 2 * self.weight

        def __str__(self) -> str:
            return f"{self.key}: {self.text}"

    return Row


class Pair(tuples.NamedTuple):
    first: Any
    second: Any


CASES = {
    "positions": lambda row: row(1, "a", 2.0),
    "names": lambda row: row(text="a", key=1),
    "item": lambda row: (row(1, "a").text, row(1, "a")[1], row(1, "a")[-1]),
    "unpacked": lambda row: [*row(1, "a")],
    "equal": lambda row: (row(1, "a") == (1, "a", 0.5), hash(row(1, "a"))),
    "shown": lambda row: (repr(row(1, "a")), str(row(1, "a"))),
    "replaced": lambda row: row(1, "a")._replace(weight=3, key=4),
    "replaced by copy": lambda row: copy.replace(row(1, "a"), weight=3),  # from Python 3.13 on
    "dictionary": lambda row: row(1, "a")._asdict(),
    "sequence": lambda row: row._make([1, "a", 2]),
    "copied": lambda row: copy.deepcopy(row(1, ["a"])),
    "method": lambda row: row(1, "a").twice,
    "fields": lambda row: (row._fields, row._field_defaults, row.__match_args__),
    "documented": lambda row: (row.__doc__, row.key.__doc__, row.__name__),
    "signature": lambda row: list(inspect.signature(row).parameters),
    "missing": lambda row: row(1),
    "surplus": lambda row: row(1, 2, 3, 4),
    "unknown": lambda row: row(1, 2, other=3),
    "no such field": lambda row: row(1, "a")._replace(other=3),
    "too short": lambda row: row._make([1]),
    "constant": lambda row: setattr(row(1, "a"), "key", 2),
    "slots": lambda row: setattr(row(1, "a"), "other", 2),
}


@pytest.mark.parametrize("case", CASES)
def test_named_tuples_are_those_of_typing(case: str):
    def outcome(base: Any) -> Any:
        try:
            return CASES[case](made(base))
        except Exception as error:
            return type(error), str(error)

    assert outcome(tuples.NamedTuple) == outcome(typing.NamedTuple)


def test_patterns_and_pickles():
    match Pair(1, 2):
        case Pair(first, second):
            assert (first, second) == (1, 2)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(Pair([1], "a"), protocol))
        assert type(found) is Pair and found == ([1], "a")

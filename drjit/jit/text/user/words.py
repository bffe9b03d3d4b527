"""The words of the parameter block that a user's text refers to, and what its statements use them
for: arrays to read, numbers, sizes, arrays to write to, and results.
"""

from collections.abc import Iterable
from typing import Any

from ...ir import dtype as dt
from ...ir.dtype import DType
from ...tuples import NamedTuple

KINDS = {
    "array": "an array to read from",
    "number": "a number",
    "count": "the size of a bounds check",
    "target": "an array to write to",
    "store": "a result",
    "reduced": "the result of a reduction",
    "hidden": "memory of the launcher's",
}
WITHOUT_ARRAYS = (dt.i16, dt.u16)
"""Element types of the language that no array of the interface has."""

ARGUMENTS = ("array", "number", "count", "target")


class Range(NamedTuple):
    """The entries that a product or a sum of vectors accesses, in the statement `where`: `count` of
    them, of which the number in the word `offset` is the first."""

    offset: int
    count: int
    where: str


class TextWord:
    """A word: its kind, its element type, the statement from which these are known, and its name.

    An array has one entry for each lane (`lanes`), one for all (`single`), or any number, and lanes
    may read `anywhere` in it. A target has the reduction and mode of its effect. `ranges` must be
    within the array.
    """

    def __init__(self, kind: str, dtype: DType, where: str, name: str = "") -> None:
        self.kind, self.dtype, self.where, self.name = kind, dtype, where, name
        self.lanes = self.single = self.anywhere = False
        self.reduce, self.mode = "", ""
        self.ranges: list[Range] = []
        # The launcher's words that precede and follow it.
        self.before: tuple[int, ...] = ()
        self.after: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.kind == "number":
            return f"{self.dtype.code} number"
        if self.kind == "count":
            return "size"
        more = " of 1 entry" if self.single and not self.lanes else ""
        if self.dtype.is_vector:
            return f"vector of {self.dtype.count} {self.dtype.element.code} features{more}"
        return f"{self.dtype.code} array{more}" + (", changed" if self.kind == "target" else "")


class Check:
    """A bounds check: the element type of the index, what messages say of the access, where it is,
    and whether the index was signed before. The size is that of the smallest of some `arrays`,
    given with the entries of a record, a `constant`, or the argument for a `word` of the text."""

    def __init__(self, dtype: DType, what: Any, location: tuple, signed: bool) -> None:
        self.dtype, self.what, self.location, self.signed = dtype, what, location, signed
        self.arrays: list[tuple[int, int]] = []
        self.constant: int | None = None
        self.word: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether the size follows from the arrays and the text."""
        return bool(self.arrays) or self.constant is not None

    def adopt(self, other: "Check") -> None:
        """Takes over the size of another check."""
        self.arrays, self.constant = other.arrays, other.constant

    def data(self, sizes: dict[int, int], argument: int) -> tuple:
        """Returns the data of the check, given the sizes of arrays and the argument that may be its
        size; see `ErrorRecord.check`."""
        size, packet = argument if self.constant is None else self.constant, 1
        if self.arrays:
            size, packet = min(
                [(sizes[k], packet) for k, packet in self.arrays], key=lambda s: s[0] // s[1]
            )
        return (size // packet, self.what, self.location, self.signed, size, packet)


class WordLayout(NamedTuple):
    """The words of a text in the order that launches need: inputs, literals, targets and outputs,
    as the user numbers them, and the bounds checks (None for a word that nothing uses), each with
    the word whose argument may be its size. `new` maps words of the text to their final numbers,
    `words` is their total."""

    inputs: tuple[int, ...]
    literals: tuple[int, ...]
    checks: tuple[tuple[Check | None, int], ...]
    targets: tuple[int, ...]
    outputs: tuple[int, ...]
    new: dict[int, int]
    words: int


def layout(
    words: dict[int, TextWord], checks: dict[int, Check], relative: Iterable[int]
) -> WordLayout:
    """Arranges words. The checks in the words `relative` keep their distances, by which functions
    of the text find them.

    Raises:
        ValueError: other words are among these; the argument of the error is such a word.
    """
    of_kind: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for k in sorted(words):
        of_kind[words[k].kind].append(k)
    inputs, literals, targets = (of_kind[kind] for kind in ("array", "number", "target"))
    outputs = sorted(of_kind["store"] + of_kind["reduced"])
    numbers = {k: 1 + j for j, k in enumerate((*inputs, *literals))}
    first = 1 + len(numbers)
    fixed = sorted(relative)
    block = [*range(fixed[0], fixed[-1] + 1)] if fixed else []
    for k in block:
        if k in words and words[k].kind != "count":
            raise ValueError(k)
    ordered = sorted({*checks, *block})
    numbers |= {k: first + j for j, k in enumerate(ordered)}
    at = first + len(ordered)
    for k in (*targets, *outputs):
        word = words[k]
        for j, one in enumerate((*word.before, k, *word.after)):
            numbers[one] = at + j
        at += 1 + len(word.before) + len(word.after)
    sizes = []
    for k in ordered:
        check = checks.get(k)
        sizes.append((check, k if check is None or check.word is None else check.word))
    return WordLayout(
        tuple(inputs), tuple(literals), tuple(sizes), tuple(targets), tuple(outputs), numbers, at
    )

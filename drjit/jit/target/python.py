"""Kernel texts lane by lane on single numbers: how a new process computes a few of them, before it
would have imported NumPy or loaded a compiled kernel.

Texts with operations on single lanes, gathers, and reductions over all lanes can be run, and give
the results of the other targets; `handles` tells which texts these are. Operations are those of
`number`. Since nobody knows how long a loop takes, there is a time limit.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce as fold
from math import inf
from time import thread_time
from typing import Any

from ..ir.dtype import DType
from ..ir.folding import normalize
from ..ir.op import REDUCTIONS, starting_value
from . import number
from .number import Number

# Python would make quiet NaNs of others, and convert a whole buffer of halves to read one.
_EXCLUDED = "bitcast(f", "gather(f16"


class Output:
    """The values of an output: one per lane, or those to be reduced."""

    __slots__ = ("reduction", "values")

    def __init__(self) -> None:
        self.reduction, self.values = "", []

    def result(self, dtype: DType) -> list:
        """Returns the elements to be written to memory."""
        return [_reduced(self.reduction, dtype, self.values)] if self.reduction else self.values


class ErrorReport:
    """The words of an error record, the lane that the kernel runs for, and the time limit."""

    __slots__ = ("lane", "seconds", "words")

    def __init__(self, words: Any, seconds: float = inf) -> None:
        self.lane, self.words, self.seconds = 0, words, seconds


def handles(text: str) -> bool:
    """Returns whether `run` can execute a text.

    >>> handles("def kernel(i, p):\\n    x = load(f32, p[1], i)\\n    store(f32, p[2], i, x * x)")
    True
    """
    if any(part in text for part in _EXCLUDED):
        return False
    called, defined = set(), {""}  # the empty name precedes parentheses that are no calls
    for line in text.split("\n"):  # a regular expression takes longer to be compiled
        for part in line.partition("#")[0].split("(")[:-1]:
            before, _, name = part.rpartition(" ")
            (defined if before.endswith("def") else called).add(name)
    return called <= namespace.keys() | defined


class TooLong(Exception):
    """A loop has not ended within the time limit."""


_deadline = inf


def run(kernel: Callable[[int, list], None], p: list[Any], size: int) -> None:
    """Runs a kernel whose globals are initially `namespace`. Its parameters are an `ErrorReport` or
    None, sequences of Python numbers, literals, sizes, and an `Output` for each output.

    Raises:
        TooLong: a loop goes on after the time limit.
    """
    global _deadline
    report = p[0]
    _deadline = thread_time() + report.seconds if report is not None else inf
    for lane in range(size):
        if report is not None:
            report.lane = lane
        kernel(lane, p)


def _value(x: Any) -> Any:
    return x.value if type(x) is Number else x


def lane(i: int) -> Number:
    return _U32(i)


def active(i: int) -> Number:
    return _MASK(True)


def load(t: Any, buffer: Sequence, i: int) -> Number:
    return Number(t.dtype, buffer[i])


def broadcast(t: Any, buffer: Sequence) -> Number:
    return Number(t.dtype, buffer[0])


def literal(t: Any, word: Any) -> Number:
    return Number(t.dtype, word)


def store(t: Any, output: Output, i: int, x: Any) -> None:
    output.values.append(_value(x))


def reduce(t: Any, name: str, partial: None, output: Output, i: int, x: Any) -> None:
    output.reduction = name
    output.values.append(_value(x))


def in_bounds(report: ErrorReport, site: int, x: Any, n: int, m: Any) -> Number:
    """`m & (x < n)`; reports the first active lane beyond the end."""
    index, words = _value(x), report.words
    if _value(m) and index >= n and not words[0]:
        signed = index - (1 << 64) if index >> 63 else index
        for k, word in enumerate((1, site, signed, n, report.lane)):
            words[k] = word
    return _MASK(_value(m) and index < n)


def gather(t: Any, buffer: Sequence, x: Any, m: Any) -> Number:
    """Element `x`, or 0 where the mask is false; an index beyond the end never reaches memory."""
    index = _value(x)
    return t(buffer[index] if _value(m) and index < len(buffer) else 0)


def sincos(x: Number) -> tuple[Number, Number]:
    return namespace["sin"](x), namespace["cos"](x)


def any_lane(m: Any) -> bool:
    """Whether the mask of an `if` or `while` is true for the lane."""
    if _value(m) and thread_time() > _deadline:
        raise TooLong
    return _value(m)


def going(report: ErrorReport, m: Any) -> Any:
    """The mask of the lanes that continue with a loop."""
    return m


def _reduced(name: str, dtype: DType, values: list) -> Any:
    """Combines values in the type of accumulators."""
    wide = dtype.accumulator
    if dtype.is_float and name == "add":
        try:
            total = math.fsum(values)
        except (OverflowError, ValueError):  # of infinite terms, or too large in between
            total = sum(values)
        if not total:
            total = max(values, key=lambda v: math.copysign(1.0, v)) * 0.0
        return normalize(dtype, normalize(wide, total))
    if name in ("min", "max"):
        return REDUCTIONS[name].python(
            [starting_value(name, dtype), *values]
        )  # a NaN is passed over
    function = REDUCTIONS[name].python
    return normalize(dtype, fold(lambda a, b: normalize(wide, function(a, b)), values))


_FUNCTIONS = (
    lane, active, load, broadcast, literal, store, reduce, in_bounds, gather, sincos, any_lane,
    going,
)  # fmt: skip
namespace: dict[str, Any] = {
    **number.LANGUAGE,
    **{f.__name__: f for f in _FUNCTIONS},
    "stream": store,
}
_U32, _MASK = namespace["u32"], namespace["mask"]

"""Sizes of an exported function: which of them are free, and how numbers depend on them."""

from collections.abc import Callable, Sequence
from math import gcd
from typing import Any

from ...jit import log
from ...jit.ir.location import describe
from ...jit.run.freeze import RecordedLaunch, Recording
from ..freeze.sizes import Different, General, _Number, _Proportion, merged
from .trace import dimensions, recording, stand_in

# What sizes are multiplied with in two traces. Multiples remain divisible by what the example is
# divisible by, and few programs have other arrays of such sizes.
_FIRST, _SECOND = (37, 43, 53, 61, 71, 79), (41, 47, 59, 67, 73, 83)
_LARGE = 1 << 13  # sizes that other arrays rarely have anyway


class _ShapeFunction:
    """A function with examples of its arguments, whose distinct sizes are `sizes`."""

    def __init__(self, function: Callable, examples: Sequence[Any], what: str) -> None:
        self.function, self.examples, self.what = function, tuple(examples), what
        self.sizes = list(dict.fromkeys(n for n in dimensions(self.examples) if n > 1))
        self.reasons: dict[int, str] = {}

    def trace(self, factors: dict[int, int]) -> Recording:
        """Returns the recording for sizes multiplied by some factors."""
        arguments = stand_in(self.examples, factors, self.what)
        sizes = tuple([n * factors.get(n, 1) for n in self.sizes])
        return recording(self.function, arguments, sizes, self.what)

    def general(self, free: Sequence[int]) -> General:
        """Returns the recording for any values of some sizes."""
        if not free:
            return General(self.trace({}), (), ())
        pairs = [
            (a, b) if n < _LARGE else (1, 2 + k)
            for k, (n, a, b) in enumerate(zip(free, _FIRST, _SECOND, strict=False))
        ]
        first, second = (dict(zip(free, row, strict=False)) for row in zip(*pairs, strict=True))
        a, b = self.trace(first), self.trace(second)
        try:
            return merged(a, b)
        except Different:
            self.reasons[free[-1]] = _difference(a, b)
            raise

    def allows(self, free: Sequence[int]) -> bool:
        """Whether some sizes may change together; if not, the last one gets a reason."""
        try:
            self.general(free)
        except Different:
            return False
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            self.reasons[free[-1]] = f"the function cannot run with another one: {error}"
            return False
        return True


def _difference(a: Recording, b: Recording) -> str:
    """Says where two recordings differ in more than sizes."""
    for n, m, place in zip(a.uses.decisions, b.uses.decisions, a.uses.places, strict=False):
        if n != m:
            return f"it decides about the trace at {short(place)}"
    for s, other in zip(a.steps, b.steps, strict=False):
        if isinstance(s, RecordedLaunch) and isinstance(other, RecordedLaunch):
            lines, others = (step.kernel.text.split("\n") for step in (s, other))
            comments = [line.partition("  # ")[2] for line in lines]
            for k, (x, y) in enumerate(zip(lines, others, strict=False)):
                seen = [c for c in comments[: k + 1] if c]
                if x != y and seen:
                    place = seen[-1].rpartition("/")[2]
                    return f"the kernels differ from here on: {place}"
    return "the function does other things with another one"


def short(place: Any) -> str:
    """Returns a place without its folder."""
    return describe(place).rpartition("/")[2]


def traced(
    function: Callable, examples: Sequence[Any], what: str
) -> tuple[General, list[int], dict[int, str]]:
    """Traces a function for several sizes of its arguments. Returns the recording, the distinct
    sizes of the examples that must stay as they are, 0 in place of those that are free, and why.

    A size is free if traces for two values of it differ only in numbers that are proportional to
    it.
    """
    f = _ShapeFunction(function, examples, what)
    free: list[int] = f.sizes
    if not f.allows(free):
        f.trace({})  # raises what is wrong with the function itself
        free = []
        for n in f.sizes:
            if f.allows([*free, n]):
                free.append(n)
    fixed = [n if n not in free else 0 for n in f.sizes]
    reasons = {n: f.reasons[n] for n in fixed if n}
    for n, reason in reasons.items():
        log.log(log.LogLevel.Warn, "%s: the size %d is fixed, because %s.", what, n, reason)
    return f.general(free), fixed, reasons


def text(number: Any, names: Sequence[str]) -> str:
    """Returns a number of a recording as an expression of the sizes with these names."""
    if type(number) is not _Number:
        return str(int(number))
    return min((_proportion(o, names) for o in number.options), key=len)


def _proportion(p: _Proportion, names: Sequence[str]) -> str:
    shared = gcd(p.value, p.at)
    factor, divisor = p.value // shared, p.at // shared
    parts = names[p.which] if p.length == 1 else f"(-(-{names[p.which]} // {p.length}))"
    if divisor == 1:
        return parts if factor == 1 else f"{factor} * {parts}"
    return f"{factor} * {parts} // {divisor}" if factor != 1 else f"{parts} // {divisor}"

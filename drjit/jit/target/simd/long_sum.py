"""Sums of many floats: short ones of a few terms, which are added to a long one together with what
rounding has taken from it, so that the error of a sum does not grow with the number of its terms.

The error of an addition is Knuth's (The Art of Computer Programming, volume 2, section 4.2.2,
theorem B); sums with their errors are from Ogita, Rump and Oishi, "Accurate sum and dot product"
(2005), algorithm 4.4.
"""

from collections.abc import Sequence

from .ir import BYTES, FLOATS, Function

SHORT = 8
"""The terms of a short sum: each of its lanes adds as many as those of NumPy's pairwise sums."""


def is_long(op: str, code: str) -> bool:
    """Whether a reduction is a sum that rounds."""
    return op == "add" and code in FLOATS


def add(f: Function, kind: str, before: Sequence[str], x: str) -> tuple[str, str]:
    """A sum and its error after one more term; scalars or vectors of an IR type."""
    total, error = before
    after = f.op(f"fadd {kind} {total}, {x}")
    added = f.op(f"fsub {kind} {after}, {total}")
    kept = f.op(f"fsub {kind} {after}, {added}")
    lost = f.op(f"fsub {kind} {total}, {kept}")
    missed = f.op(f"fsub {kind} {x}, {added}")
    return after, f.op(f"fadd {kind} {error}, {f.op(f'fadd {kind} {lost}, {missed}')}")


def settled(f: Function, kind: str, found: Sequence[str]) -> str:
    """A sum with its error. Where that is zero, or no number because the sum is infinite, the sum
    stays as it is: -0.0 is a sum of its like."""
    total, error = found
    count, _, _ = kind.rpartition("x")
    mask, zero = (f"{count}x i1>", "zeroinitializer") if count else ("i1", "0.0")
    some = f.op(f"fcmp one {kind} {error}, {zero}")
    full = f.op(f"fadd {kind} {total}, {error}")
    return f.op(f"select {mask} {some}, {kind} {full}, {kind} {total}")


class LongSum:
    """A long sum of packets, in memory of the stack, so that it takes no registers from what is
    between two additions."""

    def __init__(self, f: Function, code: str, number: int):
        self.kind, self.align = f.vector[code], BYTES[code]
        self.places = []
        for part in ("sum", "error"):
            place = f.once(f"%long{number}.{part}", f"alloca {self.kind}, align 64")
            f.prologue.append(f"store {self.kind} {f.constant(code, -0.0)}, ptr {place}")
            self.places.append(place)

    def _load(self, f: Function) -> list[str]:
        return [f.op(f"load {self.kind}, ptr {p}, align {self.align}") for p in self.places]

    def add(self, f: Function, x: str) -> None:
        """Adds a packet."""
        for place, after in zip(self.places, add(f, self.kind, self._load(f), x), strict=True):
            f.do(f"store {self.kind} {after}, ptr {place}, align {self.align}")

    def value(self, f: Function) -> str:
        """The packet of the sums of each lane."""
        return settled(f, self.kind, self._load(f))

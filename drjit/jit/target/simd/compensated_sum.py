"""Compensated sums of many floats. Short sums of a few terms are added to a long one together with
its previous rounding error, so the error does not grow with the number of terms: W. Kahan, "Further
remarks on reducing truncation errors" (1965). For the error bound, and why it also holds for terms
larger than the sum, see N. J. Higham, "Accuracy and Stability of Numerical Algorithms" (2002),
section 4.3.
"""

from collections.abc import Sequence

from .ir import BYTES, FLOATS, Function

SHORT = 8
"""Number of terms in a short sum: each of its lanes adds as many as those of NumPy's pairwise
sums."""


def is_long(op: str, code: str) -> bool:
    """Returns whether a reduction is a sum with rounding."""
    return op == "add" and code in FLOATS


def add_long(f: Function, kind: str, before: Sequence[str], x: str) -> tuple[str, str]:
    """Adds a term to a sum, and returns the sum and its rounding error; all are scalars or vectors
    of an IR type. Both start at -0.0, so that the sum of negative zeros is -0.0."""
    total, lost = before
    full = f.op(f"fadd {kind} {x}, {lost}")
    after = f.op(f"fadd {kind} {total}, {full}")
    added = f.op(f"fsub {kind} {after}, {total}")
    lost = f.op(f"fsub {kind} {full}, {added}")
    # Nothing is lost if the sum is infinite: the difference is NaN then, as is that of infinities.
    count, _, _ = kind.rpartition("x")
    mask, zero = (f"{count}x i1>", "zeroinitializer") if count else ("i1", "0.0")
    difference = f.op(f"fsub {kind} {lost}, {lost}")
    known = f.op(f"fcmp ord {kind} {difference}, {zero}")
    return after, f.op(f"select {mask} {known}, {kind} {lost}, {kind} {zero}")


class CompensatedSum:
    """A long sum of packets in stack memory, so that it occupies no registers between two
    additions."""

    def __init__(self, f: Function, code: str, number: int):
        self.kind, self.align = f.vector[code], BYTES[code]
        self.places = []
        for part in ("sum", "lost"):
            place = f.once(f"%long{number}.{part}", f"alloca {self.kind}, align 64")
            f.prologue.append(f"store {self.kind} {f.constant(code, -0.0)}, ptr {place}")
            self.places.append(place)

    def _load(self, f: Function) -> list[str]:
        return [f.op(f"load {self.kind}, ptr {p}, align {self.align}") for p in self.places]

    def add(self, f: Function, x: str) -> None:
        """Adds a packet."""
        for place, after in zip(self.places, add_long(f, self.kind, self._load(f), x), strict=True):
            f.do(f"store {self.kind} {after}, ptr {place}, align {self.align}")

    def value(self, f: Function) -> str:
        """Returns the packet of the sums of each lane."""
        return self._load(f)[0]

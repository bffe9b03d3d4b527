"""Minima and maxima of two operands, for the same operands as `inline.RECORDED`; see
`function.math.arithmetic` for what they are for all others.

The kernel operation returns its second operand if either is NaN, and so is combined with a select.
"""

from collections.abc import Callable
from typing import Any

from ..jit.ir import op as ops
from ..jit.ir.op import Op
from . import inline
from .base import ArrayBase
from .inline import RECORDERS, nothing
from .pytree import leaf_arrays


def exceeding(op_: Op) -> tuple[Op, Op]:
    """Returns the comparison of an array with a number that tells where the extremum of the two is
    the number, for one that is the second operand, and for one that is the first: if they are
    equal, the first operand receives the gradient of a minimum, the second one that of a maximum.
    """
    return (ops.gt, ops.ge) if op_ is ops.minimum else (ops.le, ops.lt)


NEAR_ZERO = 1e-7
"""Some types round smaller numbers to 0."""


def at_zero(op_: Op, keeps_nan: bool) -> Op:
    """Returns the comparison of an array with a zero that tells where the extremum of the two is
    the zero, if that is the second operand (`keeps_nan`), or otherwise where it is the array, if
    that is the second one. Of two zeros the extremum is the second operand, whatever their
    signs."""
    return ops.ge if (op_ is ops.minimum) is keeps_nan else ops.le


def is_tracked(a: Any) -> bool:
    """Returns whether the derivative of an array is tracked."""
    return a._diff and any(v._var is not None for v in leaf_arrays(a))


class Extrema(dict[type, Callable]):
    """Functions that record `op_` on arrays of a class and on numbers, or return None, by the class
    of the second operand, or of the first one if the second one is a number. If an operand is NaN,
    the result is NaN (`keeps_nan`) or the other operand."""

    def __init__(self, op_: Op, keeps_nan: bool) -> None:
        super().__init__()
        self._op, self._keeps_nan = op_, keeps_nan
        inline.derived.append(self)

    def __missing__(self, cls: type) -> Callable:
        if not issubclass(cls, ArrayBase) or "__meta__" not in cls.__dict__:
            return nothing
        self[cls] = made = _for_class(self._op, self._keeps_nan, cls)
        return made


def _for_class(op_: Op, keeps_nan: bool, cls: type[ArrayBase]) -> Callable:
    of_both, select, differ = [RECORDERS[o][cls] for o in (op_, ops.select, ops.ne)]
    after, before = [RECORDERS[o][cls] for o in exceeding(op_)]
    decides = RECORDERS[at_zero(op_, keeps_nan)][cls]
    is_float, is_leaf = cls._dtype.is_float, cls._kind == "leaf"
    if of_both is nothing:
        return nothing

    def extremum(a: Any, b: Any) -> Any:
        kind, other = type(a), type(b)
        if kind is other:
            found = of_both(a, b)
            if found is None or not is_float:
                return found
            decisive = a if keeps_nan else b
            return select(differ(decisive, decisive), a, found)
        if (other is float or other is int) and b == b:
            number, array, exceeds = b, a, after
        elif (kind is float or kind is int) and a == a:
            number, array, exceeds = a, b, before
        else:
            return None
        if keeps_nan and (array._var is not None if is_leaf else is_tracked(array)):
            return select(exceeds(array, number), number, array)
        if -NEAR_ZERO < number < NEAR_ZERO and is_float and (number is b) is keeps_nan:
            first, second = (number, array) if keeps_nan else (array, number)
            return select(decides(array, number), first, second)
        return of_both(number, array) if keeps_nan else of_both(array, number)

    return extremum

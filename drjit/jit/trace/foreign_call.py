"""Calls of functions that another compiler made, as nodes."""

from collections.abc import Sequence

from ..ir import dtype as dt
from ..ir import op, scope
from ..ir.location import user_location
from ..ir.node import LITERAL, Node, apply, broadcast_size, literal, make
from ..target.foreign import ForeignFunction


def call(function: ForeignFunction, arguments: Sequence[Node]) -> list[Node]:
    """Returns the results of a function for the active lanes, and 0 for the others. If a lane
    raises an exception, so does reading what depends on the results.

    Raises:
        RuntimeError: the arguments have incompatible sizes.
    """
    codes = [dt.BY_CODE[code] for code in function.returned]
    lanes = broadcast_size(tuple(arguments), f"{function.title}()") if arguments else 1
    mask = scope.active()
    if lanes == 0 or (mask.op is LITERAL and not mask.data):
        return [literal(t, 0, lanes) for t in codes[: len(function.results)]]
    size = mask.size if lanes == 1 else lanes
    called = make(op.foreign, codes[0], size, (*arguments, mask), function)
    results = [make(op.component, t, size, (called,), k) for k, t in enumerate(codes)]
    if not function.errors:
        return results
    # The number of an exception is reported like an index of an array with one entry.
    *results, number = results
    data = (1, function, user_location(), False, 1, 1)
    passed = make(op.in_bounds, dt.mask, size, (number, mask), data)
    return [apply(op.select, passed, r, literal(r.dtype, 0)) for r in results]

"""`while_loop`: loops whose lanes terminate individually."""

from collections.abc import Callable, Sequence
from typing import Any

from ...array import signatures
from ...array.base import type_label
from ...jit import flags
from ...jit.device import using
from ...jit.flags import JitFlag
from ...jit.ir.node import LITERAL
from ...jit.trace import record
from ..region.condition import check_mode, chosen_mode, mask_of
from ..region.failure import call
from ..region.state import State, names
from ..region.tables import known
from ..region.vectors import holds_vectors, joined, reading, spread, spreading
from . import evaluated as loop_evaluated
from .body import ArrayLoop, returned
from .symbolic import Symbolic

LARGEST_COUNT = (1 << 32) - 1


@signatures.looping
def while_loop(
    state: tuple,
    cond: Callable[..., Any],
    body: Callable[..., tuple],
    labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
    compress: bool | None = None,
    max_iterations: int | None = None,
) -> tuple:
    """Returns the final state of the loop `while cond(*state): state = body(*state)`, in which
    every lane continues as long as its entry of the condition is true.

    `state` is a tuple of arrays or PyTrees; `labels` are their names for messages. If `cond`
    returns a Python `bool`, this is an ordinary loop (mode 'scalar'). Otherwise, the loop becomes
    part of a kernel ('symbolic') or runs one iteration at a time ('evaluated'). The default is
    symbolic unless `JitFlag.SymbolicLoops` is off. In evaluated mode, `compress` (default:
    `JitFlag.CompressLoops`) removes lanes that have left the loop from the arrays.

    Variables must keep their type, shape and number of entries. With `strict`, variables other than
    arrays must not change. `max_iterations` helps reverse-mode differentiation: it is an upper
    bound on the number of iterations, or -1 for a loop that only sums up terms that do not depend
    on the sum. For any other loop, -1 computes the sum of the derivatives of individual iterations.

    Raises:
        RuntimeError: the state is not initialized or changes in structure, type or size, or the
            condition is not a mask.

    >>> from drjit.llvm import UInt
    >>> dr.while_loop((UInt(1, 5, 20),), lambda i: i < 10, lambda i: (i * 2,))
    ([16, 10, 20],)
    """
    what = f"dr.while_loop('{label}')" if label else "dr.while_loop()"
    if mode is not None:
        check_mode(mode, what)
    if not isinstance(state, tuple):
        raise TypeError(f"{what}: 'state' must be a tuple, not {type_label(state)}")
    limit = max_iterations
    if limit is not None and not (type(limit) is int and -1 <= limit <= LARGEST_COUNT):
        raise RuntimeError(
            f"{what}: 'max_iterations' must be an integer from -1 to {LARGEST_COUNT}, not {limit!r}"
        )
    titles = names(len(state), labels, "state", what)
    evaluated = mode == "evaluated" or not (mode or flags.current & JitFlag.SymbolicLoops)
    if compress is None:
        compress = bool(flags.current & JitFlag.CompressLoops)
    if evaluated and compress and not record.recording() and holds_vectors(state):
        options = labels, label, mode, strict, compress, max_iterations
        return joined(while_loop(spread(state), reading(cond), spreading(body), *options))
    if mode == "scalar":
        return _scalar(state, cond, body, call(what, cond, *state), what)
    start = State(state, titles, what, True, known(body).taken_apart(state, "state"))
    before = start.contents()
    try:
        test = call(what, cond, *start.values)
    except BaseException:
        start.restore(before)
        raise
    if type(test) is bool and mode is None:
        return _scalar(state, cond, body, test, what)
    loop = ArrayLoop(
        start, cond, body, label or "", strict, mask_of(test, what, "the loop condition")
    )
    mode = chosen_mode(mode, JitFlag.SymbolicLoops, what)
    if mode == "evaluated" and record.recording():
        raise RuntimeError(
            f"{what}: cannot execute a loop in *evaluated mode* while another loop, branch or call "
            "is recorded, as values are known only when its kernel runs. Leave mode='evaluated' "
            "out, or use it for what is around as well."
        )
    if loop.test._node.op is LITERAL and not loop.test._node.data:
        start.restore(before)
        return state
    with using(loop.test._device):
        if mode == "evaluated":
            return loop_evaluated.run(loop, before, compress)
        start.put(before)
        symbolic = Symbolic(loop, before, limit)
        del before  # nothing else may hold what the loop writes to
        return symbolic.run()


def _scalar(state: tuple, cond: Callable, body: Callable, test: Any, what: str) -> tuple:
    while test:
        state = returned(call(what, body, *state), len(state), what)
        test = call(what, cond, *state)
    return state

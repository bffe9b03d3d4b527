"""`while_loop`: loops whose lanes terminate individually."""

from collections.abc import Callable, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

from ...ad.graph import Value
from ...array import signatures
from ...array.base import type_label
from ...array.tree import Tree
from ...jit import flags
from ...jit.device import using
from ...jit.flags import JitFlag
from ...jit.ir.node import LITERAL
from ...jit.trace import record
from ..region.functions import BodyProfile, call, check_mode, chosen_mode, mask_of, profile_of
from ..region.merging import has_vectors, joined, reading, spread, spreading
from ..region.state import State, names
from . import evaluated as loop_evaluated
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
    if evaluated and compress and not record.recording() and has_vectors(Tree(state)):
        options = labels, label, mode, strict, compress, max_iterations
        return joined(while_loop(spread(state), reading(cond), spreading(body), *options))
    if mode == "scalar":
        return _scalar(state, cond, body, call(what, cond, *state), what)
    profile = profile_of(body)
    start = State(state, titles, what, True, profile.decompose(state, "state"))
    before = start.contents()
    try:
        test = call(what, cond, *start.values)
    except BaseException:
        start.restore(before)
        raise
    if type(test) is bool and mode is None:
        return _scalar(state, cond, body, test, what)
    test = mask_of(test, what, "the loop condition")
    loop = ArrayLoop(start, profile, cond, body, label or "", strict, test)
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
        state = _returned(call(what, body, *state), len(state), what)
        test = call(what, cond, *state)
    return state


def _returned(result: Any, count: int, what: str) -> tuple:
    """Checks the result of a body that received `count` variables.

    Raises:
        RuntimeError: it is not a tuple of that length.
    """
    if not isinstance(result, tuple):
        raise RuntimeError(f"{what}: 'body' must return a tuple, not {type_label(result)}")
    if len(result) != count:
        raise RuntimeError(
            f"{what}: 'body' must return the {count} variables that it got, not {len(result)}"
        )
    return result


_size, _node_size = attrgetter("_node.size"), attrgetter("node.size")


class ArrayLoop:
    """The components of a loop whose condition is an array, with the initial value `test`."""

    def __init__(
        self, start: State, profile: BodyProfile, cond: Callable, body: Callable, label: str,
        strict: bool, test: Any,
    ) -> None:  # fmt: skip
        self.start, self.what, self.profile, self.test = start, start.what, profile, test
        self.cond, self.body, self.label, self.strict = cond, body, label, strict
        if test._node.size and 0 in map(_size, start.leaves):
            start.check_initialized()

    def run_cond(self, state: State) -> Any:
        return mask_of(call(self.what, self.cond, *state.values), self.what, "the loop condition")

    def run_body(self, state: State, written: Set[int] = frozenset()) -> tuple[Tree, list[Any]]:
        """Returns the result of the body, and the arrays in it. `written` receives the serial
        numbers of nodes created by scatters."""
        values = _returned(call(self.what, self.body, *state.values), len(state.values), self.what)
        if state.attributes:
            state.check_attributes(written)
        after = state.match(Tree(values, state.tree.layout), self.strict)
        arrays, leaves = after.leaves, state.leaves
        if len({*map(id, leaves)}) == len(leaves):
            return after, arrays
        first: dict[int, int] = {}
        for k, array in enumerate(leaves):
            other = first.setdefault(id(array), k)
            if arrays[k] is not arrays[other]:
                paths = state.paths
                raise RuntimeError(
                    f"{self.what}: variables '{paths[other]}' and '{paths[k]}' are the same object "
                    "before an iteration, but not after it"
                )
        return after, arrays

    def check_sizes(
        self,
        state: State,
        before: Sequence[Value | None],
        after: Sequence[Value],
        size: int,
        written: Set[int] = frozenset(),
        broadcast: bool = True,
        lanes: int = 1,
    ) -> None:
        """Raises a RuntimeError if the size of a changing variable is incompatible with the
        condition or with another variable. A condition of size 1 is compatible with all, if it
        may be `broadcast`; the number of `lanes` is that of a variable if it is another one."""
        if {1, size}.issuperset(map(_node_size, chain(filter(None, before), after))):
            return  # as in most loops
        fits: int | None = None  # the variable that determines the size, if not the condition
        if size == 1 != lanes:
            fits = next((k for k, a in enumerate(self.start.leaves) if _size(a) == lanes), None)
            size = 1 if fits is None else lanes
        for k, (a, b) in enumerate(zip(before, after, strict=True)):
            if a is None or b.node is a.node or b.node.serial in written:
                continue
            for n in (a.node, b.node):
                if n.size != 1 and n.size != size:
                    if size != 1 or not broadcast:
                        raise self._misfit(state, k, (a.node.size, b.node.size), size, fits)
                    size, fits = n.size, k

    def _misfit(
        self, state: State, k: int, sizes: tuple[int, int], size: int, fits: int | None
    ) -> RuntimeError:
        """Returns the error for a variable whose `sizes`, before and after an iteration, do not fit
        the size of the loop, which has been determined by another one, or the condition."""
        before, after = sizes
        origin = "the condition" if fits is None else f"'{state.paths[fits]}'"
        typed = f"state variable '{state.paths[k]}' of type '{type_label(state.leaves[k])}'"
        if after == 0:
            return RuntimeError(
                f"{self.what}: {typed} is uninitialized: it has 0 entries after an iteration, and "
                f"{origin} has {size}."
            )
        if before != after and 1 not in sizes:
            changed = f"{self.what}: the size of {typed} changed from {before} to {after}."
            return RuntimeError(changed + f" In {origin} it is {size}." * (fits != k))
        wrong = before if before not in (1, size) else after
        return RuntimeError(
            f"{self.what}: this operation processes arrays of size {size}, while state variable "
            f"'{state.paths[k]}' has an incompatible size {wrong}. The size {size} is that of "
            f"{origin}."
        )

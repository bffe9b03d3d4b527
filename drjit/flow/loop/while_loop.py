"""`while_loop`: loops whose lanes terminate individually. In symbolic mode, the body is traced once
and becomes part of a kernel."""

from collections.abc import Callable, Sequence, Set
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

from ...ad import graph
from ...ad.bodies import OuterGradients, body_scope
from ...ad.graph import GradScope, Value, Var, as_value, variable_of, visible
from ...array import leaf, signatures
from ...array.base import type_label
from ...array.tree import Tree
from ...jit import flags, log
from ...jit.ir.node import AFTER, BUFFER, LITERAL, Node, SizeError
from ...jit.ir.scope import ACTIVE, StateAccessError, using
from ...jit.trace import record
from ..region import state as region
from ..region.merging import has_vectors, on_features, taking_features, to_features, to_vectors
from ..region.recording import NOTHING, RecordedRegion, Targets, adds_to
from ..region.state import PrivateState, RecordAgain, State, WeakValue, call
from . import evaluated as loop_evaluated
from .gradient import Dependences, RecordedLoop

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

    `state` is a tuple of arrays or PyTrees; `labels` are their names for messages and for the texts
    of kernels that people see. If `cond` returns a Python `bool`, this is an ordinary loop (mode
    'scalar'). Otherwise, the loop becomes part of a kernel ('symbolic') or runs one iteration at a
    time ('evaluated'). The default is symbolic unless `JitFlag.SymbolicLoops` is off. In evaluated
    mode, `compress` (default: `JitFlag.CompressLoops`) removes lanes that have left the loop from
    the arrays.

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
        region.check_mode(mode, what)
    if not isinstance(state, tuple):
        raise TypeError(f"{what}: 'state' must be a tuple, not {type_label(state)}")
    limit = max_iterations
    if limit is not None and not (type(limit) is int and -1 <= limit <= LARGEST_COUNT):
        raise RuntimeError(
            f"{what}: 'max_iterations' must be an integer from -1 to {LARGEST_COUNT}, not {limit!r}"
        )
    titles = region.names(len(state), labels, "state", what)
    evaluated = mode == "evaluated" or not (mode or flags.current & flags.JitFlag.SymbolicLoops)
    if compress is None:
        compress = bool(flags.current & flags.JitFlag.CompressLoops)
    if evaluated and compress and not record.recording() and has_vectors(Tree(state)):
        options = labels, label, mode, strict, compress, max_iterations
        return to_vectors(
            while_loop(to_features(state), taking_features(cond), on_features(body), *options)
        )
    if mode == "scalar":
        return _scalar(state, cond, body, call(what, cond, *state), what)
    start = State(state, titles, what)
    before = start.contents()
    try:
        test = call(what, cond, *start.values)
    except BaseException:
        start.restore(before)
        raise
    if type(test) is bool and mode is None:
        return _scalar(state, cond, body, test, what)
    test = region.mask_of(test, what, "the loop condition")
    loop = ArrayLoop(start, cond, body, label or "", strict, test)
    mode = region.chosen_mode(mode, flags.JitFlag.SymbolicLoops, what)
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
        symbolic = SymbolicLoop(loop, before, limit, bool(labels))
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
        self, start: State, cond: Callable, body: Callable, label: str,
        strict: bool, test: Any,
    ) -> None:  # fmt: skip
        self.start, self.what, self.test = start, start.what, test
        self.cond, self.body, self.label, self.strict = cond, body, label, strict
        if test._node.size and 0 in map(_size, start.leaves):
            start.check_initialized()

    def run_cond(self, state: State) -> Any:
        return region.mask_of(
            call(self.what, self.cond, *state.values), self.what, "the loop condition"
        )

    def run_body(self, state: State, written: Set[int] = frozenset()) -> tuple[Tree, list[Any]]:
        """Returns the result of the body, and the arrays in it. `written` receives the serial
        numbers of nodes created by scatters."""
        values = _returned(call(self.what, self.body, *state.values), len(state.values), self.what)
        if state.attributes:
            state.check_attributes(written)
        after = state.match(Tree(values), self.strict)
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


# ---- Symbolic mode


def _differentiable(contents: Sequence[Value | None]) -> list[int]:
    """Returns the positions of the contents for which derivatives are recorded."""
    return [k for k, v in enumerate(contents) if v and v.var is not None and visible(v.var)]


class SymbolicLoop:
    """A loop that is recorded once, with arrays that stand for any iteration.

    Arrays whose size differs from the number of lanes, such as tables that the body reads or
    accumulators that it scatters to, are not part of the state: they are `captured`. Sometimes this
    is known only after the body has been traced; then the recording is undone and starts again.
    `own` says that the program has names of its own for the variables.
    """

    def __init__(self, loop: ArrayLoop, before: list[Value], limit: int | None, own: bool) -> None:
        self.loop, self.limit, self.is_named = loop, limit, own
        self.before: list[Value | None] = [*before]
        self.state = loop.start
        self.closure = region.captured_arrays((loop.cond, loop.body), loop.start.leaves)
        self.serials = [v.node.serial for v in before]
        self.captured = self._non_lane_arrays(loop.test._node.size)
        self.lanes_are_known = loop.test._node.size != 1
        # Whether arrays of several entries are considered per-lane variables.
        self.lanes_are_guessed = not (
            self.lanes_are_known or self.captured or {v.node.size for v in before} <= {1}
        )
        # Whether derivatives are recorded: from the beginning, or once they turn out to be needed.
        self.profile = region.profile_of(loop.body)
        self.tracked = _differentiable(before)
        self.tracking_is_presumed = self.profile.tracks and not self.tracked
        self.tracking = bool(self.tracked) or self.tracking_is_presumed
        self.dependences: Dependences | None = None
        self.condition = ACTIVE
        self.targets: Targets
        self.released: dict[int, WeakValue] = {}  # former entries of `before`
        if self.lanes_are_known:
            for k in self.captured:
                self._release(k)
        # Arrays that the body has read like tables before.
        self.tables = self.profile.tables
        self.presumed_tables = {k for k in self.tables if k < len(before) and self._may_be_read(k)}
        self.captured |= self.presumed_tables
        self.sums: set[int] = set()
        self.places: list[int] = []  # of the variables in the state
        self.nodes: list[Node] = []  # which stand for these in the condition and the body
        self.after: Tree
        self.results: list[Value]

    def _may_be_read(self, k: int) -> bool:
        """Returns whether an array that was a table before may be one again."""
        before = self.before[k]
        return before is not None and before.node.size != 1 and before.node.op is not AFTER

    def _release(self, k: int) -> None:
        """Releases the previous contents of an array: nothing else may hold what the loop writes
        to."""
        before, self.before[k] = self.before[k], None
        if before is not None:
            self.released[k] = WeakValue(before)

    def _restore(self) -> None:
        """Undoes the body's changes to the arrays, including its scatters: nodes that stood for
        targets become their memory again."""
        before = list(self.before)
        for k, saved in self.released.items():
            now = self.state.leaves[k]._node
            if now.op is AFTER or (now.op is BUFFER and now.data is saved.memory):
                continue
            before[k] = saved.recovered()
        self.state.restore(before)

    def _non_lane_arrays(self, width: int) -> set[int]:
        """Returns the arrays whose number of entries is neither 1 nor `width`. If that is 1, any
        number may be the number of lanes; if there are several, tracing the body decides which."""
        sizes = [1 if v is None else v.node.size for v in self.before]
        found = {1, *sizes}
        if width == 1 and len(found) == 2:
            width = max(sizes)
        found.discard(width)
        if len(found) <= 1:
            return set()
        return {k for k, size in enumerate(sizes) if size not in (1, width)}

    def run(self) -> tuple:
        """Returns the final values of the variables."""
        if self.loop.test._node.size == 0:
            return self.state.values
        while True:
            try:
                return self._record()
            except RecordAgain:
                continue

    def _record(self) -> tuple:
        # Nothing else may hold what the loop writes to.
        start = self.loop.start
        self.after, self.results = start.tree, []
        private = PrivateState(start, self.captured)
        self.state = state = private.state
        self.places = places = [k for k in range(len(self.before)) if k not in self.captured]
        self.nodes, self.dependences = [], None
        outer_gradients = OuterGradients(atomic=True)
        try:
            finals = record.loop(
                [self.before[k].node for k in places],  # type: ignore[union-attr]
                self._cond,
                partial(self._body, outer_gradients),
                self.loop.label,
                partial(start.tree.structure().names, start.titles, places)
                if self.is_named
                else None,
            )
        except StateAccessError as target:
            self._restore()
            for k, n in zip(places, self.nodes, strict=False):
                if n is target.node:
                    self.captured.add(k)
                    if target.written:
                        self._release(k)
                    else:
                        self.tables.add(k)
                    raise RecordAgain from None
            raise
        except BaseException as error:
            self._restore()
            self.closure.restore()
            if isinstance(error, SizeError) and self.lanes_are_guessed:
                # The arrays of another size may be tables or targets of scatters.
                self.lanes_are_guessed = False
                sizes = [1 if v is None else v.node.size for v in self.before]
                self.captured = {k for k, size in enumerate(sizes) if size != 1}
                raise RecordAgain from None
            raise
        outer_gradients.finish()
        self._check_end(finals)
        found = list(self.results)
        for k, n in zip(places, finals, strict=True):
            before = self.before[k]
            found[k] = before if before is not None and n is before.node else as_value((n, None))
        if self.dependences is not None:
            for k, value in self._recorded(self.dependences, finals).items():
                found[k] = value
            for k in self.captured:
                now = leaf.value(state.leaves[k])  # depends on what was written to it
                found[k] = now if now.node is found[k].node else found[k]
        return private.returned(state.place(self.after, found, True))

    def _check_end(self, finals: list[Node]) -> None:
        """Warns of a loop that does not change its condition."""
        rows = zip(self.places, self.nodes, finals, strict=True)
        unchanged = {n: k for k, n, final in rows if (v := self.before[k]) and final is v.node}
        used = record.condition_inputs(self.condition, self.nodes) if unchanged else set()
        if not used or not used <= unchanged.keys():
            return
        names = [f"'{self.state.paths[k]}'" for n, k in unchanged.items() if n in used]
        log.warn(
            f"{self.loop.what} never ends: the body changes none of the variables on which the "
            f"condition depends ({', '.join(names)}), so lanes that enter the loop do not leave it"
        )

    def _recorded(self, dependences: Dependences, finals: list[Node]) -> dict[int, Value]:
        """Returns the results that depend on differentiable variables."""
        places = self.places
        changing = {
            k
            for k, n in zip(places, finals, strict=True)
            if (v := self.before[k]) is None or n is not v.node
        }
        saved = [
            v or self.released[k].content() or self.released[k].stand_in()
            for k, v in enumerate(self.before)
        ]
        start = self.loop.start
        paths = partial(region.array_paths, start.tree.structure(), start.titles)
        recorded = RecordedLoop(
            self.loop.what, paths, saved, places, self.condition, dependences, self.targets,
            changing, self.sums, self.limit,
        )  # fmt: skip
        if not recorded.outputs and not self.targets.rows:
            return {}
        return recorded.attach(finals)

    def _put(self, tracking: bool) -> list[Value | None]:
        """Returns the contents that stand for those of any iteration, which the state now has."""
        values: list[Value | None] = [None] * len(self.before)
        for k, n in zip(self.places, self.nodes, strict=True):
            values[k] = as_value((n, None))
        if tracking:
            leaves = self.state.leaves
            tracked = [k for k in self.places if leaves[k]._diff and leaves[k]._dtype.is_float]
            own = [values[k].node for k in tracked]  # type: ignore[union-attr]
            for k, n, v in zip(tracked, own, map(graph.new_input, own), strict=True):
                values[k] = as_value((n, v))
        self.state.put(values)
        return values

    def _cond(self, nodes: list[Node]) -> Node:
        self.nodes = nodes
        self._put(False)
        test = self.loop.run_cond(self.state)
        for k, n in zip(self.places, nodes, strict=True):
            if self.state.leaves[k]._node is not n:
                raise RuntimeError(
                    f"{self.loop.what}: the condition changes variable '{self.state.paths[k]}'"
                )
        self.condition = test._node
        return test._node

    def _body(self, outer_gradients: OuterGradients, nodes: list[Node]) -> list[Node]:
        with body_scope(outer_gradients) as inner:
            inputs = self._put(self.tracking)
            variables = [a._var for a in self.state.leaves]
            if self.tracking:
                pairs = zip(inputs, self.before, strict=True)
                outer_gradients.alias(
                    {v.var: b.var for v, b in pairs if v and b and v.var and visible(b.var)}  # type: ignore[misc]
                )
            self.after, arrays = self.loop.run_body(self.state)
            self.closure.check(self.loop.what)
            self.results = results = leaf.values(arrays)
            for k in self.captured:
                self._check_captured(k, results[k].node)
            reached = outer_gradients.reached
            for k, v in enumerate(inputs if reached else ()):
                if v is not None and v.var in reached and results[k].node is not v.node:
                    raise RuntimeError(
                        f"{self.loop.what}: the body propagates gradients to variable "
                        f"'{self.state.paths[k]}', which it changes, so that they would have to go "
                        "back through the iterations before. Use mode='evaluated'."
                    )
            self._note(inputs, variables, inner)
        before = [*self.before]
        for k in self.captured:
            before[k] = None
        self.state.put(before)
        size = self.loop.test._node.size
        lanes = nodes[0].size if nodes else 1
        if len({1, size, lanes, *map(_node_size, results)}) > 2:
            # The sizes of the values before the loop, not of those that stand for them in the body.
            changing = [
                v if now is not None and results[k].node is not now.node else None
                for k, (v, now) in enumerate(zip(self.before, inputs, strict=True))
            ]
            self.loop.check_sizes(self.state, changing, results, size, lanes=lanes)
        found = [results[k].node for k in self.places]
        if flags.current & flags.JitFlag.OptimizeLoops:
            for i, k in enumerate(self.places):
                if found[i].op is LITERAL and self._is_invariant(k):
                    found[i] = nodes[i]
        return found

    def _is_invariant(self, k: int) -> bool:
        """Returns whether a variable that becomes a constant in an iteration already had the same
        value."""
        before, after = self.before[k], self.results[k]
        return (
            before is not None
            and before.node.op is LITERAL
            and repr(after.node.data) == repr(before.node.data)
            and not visible(before.var)
            and not visible(after.var)
        )

    def _note(self, inputs: list[Value | None], own: list[Var | None], inner: GradScope) -> None:
        """Records the variables and captured arrays on which the results depend."""
        results = [*self.results]
        for k in self.captured:
            results[k] = NOTHING
        derived = inner.tape or inner.outer_gradients.written
        if not (self.tracked or derived or any(map(variable_of, results))):
            return
        self.targets = Targets()
        body = RecordedRegion(self.nodes, own, results, self.targets, inner)
        # Lanes that never enter the loop keep the previous value of a variable.
        tracked = _differentiable(self.before) if self.tracked else ()
        replaced = [
            k for k in tracked if (now := inputs[k]) and self.results[k].node is not now.node
        ]
        variables = [*map(variable_of, body.results)]
        if not any(variables) and not body.scatters and not replaced:
            return
        if not self.tracking:
            self.tracking = True
            self.profile.tracks = True
            raise RecordAgain
        owners = {v.var: k for k, v in enumerate(inputs) if v is not None and v.var is not None}
        self.dependences = dependences = Dependences(body, variables, owners)
        if self.tracking_is_presumed and not body.free_variables:
            self.dependences, self.tracking_is_presumed = None, False
            if body.scatters:  # recorded, these would make their targets differentiable
                self.tracking = False
                raise RecordAgain
            return
        self.sums = {
            k
            for own, k in owners.items()
            if k in dependences.reach[k] and adds_to(variables[k], own, body)
        }

    def _check_captured(self, k: int, now: Node) -> None:
        """Raises a RuntimeError if an array that is not part of the state has changed other than by
        scatters."""
        if now.serial == self.serials[k] or now.op is AFTER:
            return
        if k in self.presumed_tables:
            self.tables.discard(k)
            self.captured.discard(k)
            self.presumed_tables.discard(k)
            raise RecordAgain
        if not self.lanes_are_known:
            self.lanes_are_known = True
            self.captured = self._non_lane_arrays(now.size)
            raise RecordAgain
        sizes = [self.loop.test._node.size, *map(_node_size, self.results)]
        size, path = next((n for n in sizes if n not in (1, now.size)), None), self.state.paths[k]
        if size is None:
            raise RuntimeError(
                f"{self.loop.what}: variable '{path}' with {now.size} entries is read or written "
                "to as a whole, by dr.gather() or by scatters, and changes in other ways as well. "
                "Use two variables."
            )
        raise RuntimeError(
            f"{self.loop.what}: this operation processes arrays of size {size}, while state "
            f"variable '{path}' has an incompatible size {now.size}."
        )

"""Branches whose lanes diverge: `if_stmt` in its three modes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...ad.bodies import OuterGradients, body_scope
from ...ad.graph import Value, node_of
from ...array import leaf, pytree, signatures
from ...array.base import type_label
from ...function.evaluation import eval as evaluate
from ...jit import flags
from ...jit.ir import op
from ...jit.ir.node import AFTER, LITERAL, Node, combine, literal, next_serial
from ...jit.ir.scope import StateAccessError, active, nothing_runs, using
from ...jit.trace import record
from ..region import state as region
from ..region.merging import on_features, same_constant, to_features, to_vectors
from ..region.state import RecordAgain, State, WeakValue, call
from .gradient import RecordedCall
from .outcome import Branch, BranchOutcome, diverging


@signatures.branching
def if_stmt(
    args: tuple,
    cond: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    arg_labels: Sequence[str] = (),
    rv_labels: Sequence[str] = (),
    label: str | None = None,
    mode: str | None = None,
    strict: bool = True,
) -> Any:
    """Returns `true_fn(*args)` in the lanes where the mask `cond` is true, and `false_fn(*args)` in
    the others.

    Both functions return arrays or PyTrees of the same structure and types. `arg_labels` and
    `rv_labels` are names of the arguments and of the entries of the result for messages. If `cond`
    is a Python `bool` (mode 'scalar'), only one function is called. Otherwise, either both are
    traced and become part of a kernel that skips code that no lane needs ('symbolic'), or both are
    evaluated for all lanes ('evaluated'). The default is symbolic unless
    `JitFlag.SymbolicConditionals` is off. With `strict`, entries other than arrays must be equal.

    Raises:
        RuntimeError: the results differ in structure, type or size, or `cond` is not a mask.

    >>> from drjit.llvm import Float
    >>> x = Float(-1, 4)
    >>> dr.if_stmt((x,), x > 0, lambda x: dr.sqrt(x), lambda x: -x)
    [1, 2]
    """
    what = f"dr.if_stmt('{label}')" if label else "dr.if_stmt()"
    if mode is not None:
        region.check_mode(mode, what)
    if not isinstance(args, tuple):
        raise TypeError(f"{what}: 'args' must be a tuple, not {type_label(args)}")
    titles = region.names(len(args), arg_labels, "args", what)
    if mode == "scalar" or (type(cond) is bool and mode is None):
        return call(what, true_fn if cond else false_fn, *args)
    mask = region.mask_of(cond, what, "'cond'")
    if mask._node.size == 0 and active().size and not nothing_runs():
        raise RuntimeError(f"{what}: 'cond' cannot be empty")
    if mask._node.op is LITERAL and mask._node.size:
        if 0 in [a._node.size for a in pytree.leaf_arrays(args)]:
            State(args, titles, what).check_initialized()
        return call(what, true_fn if mask._node.data else false_fn, *args)
    mode = region.chosen_mode(mode, flags.JitFlag.SymbolicConditionals, what)
    if mode == "evaluated" and record.recording():
        mode = "symbolic"  # which returns the same values
    if mode == "evaluated":
        args, true_fn, false_fn = to_features(args), on_features(true_fn), on_features(false_fn)
    branch = Branch(State(args, titles, what), mask, (true_fn, false_fn), rv_labels, strict)
    with using(mask._device):
        if mode == "evaluated":
            evaluate(mask, args)
            return to_vectors(branch.select())
        if mask._node.size == 0:
            return branch.select()
        return SymbolicBranch(branch, label or "").run()


class SymbolicBranch:
    """A branch whose functions are recorded with arrays that stand for their arguments.

    Arguments whose size is incompatible with the mask, or that are written to by scatters, are
    passed unchanged: they are `captured`, and nothing else may hold their contents.
    """

    def __init__(self, branch: Branch, label: str) -> None:
        self.branch, self.label = branch, label
        wide, sizes = branch.mask._node.size, branch.sizes
        if wide == 1:
            wide = max(sizes, default=1)
        self.captured: dict[int, WeakValue] = {}
        self.tables = region.profile_of(branch.bodies[0]).tables
        self.presumed_tables: set[int] = set()
        for k, n in enumerate(sizes):
            if n != 1 and n != wide:
                self._capture(k)
            elif k in self.tables and (v := branch.before[k]) and v.node.op is not AFTER:
                self.presumed_tables.add(k)
                self._capture(k)
        self.closure = region.captured_arrays(branch.bodies, branch.args.leaves)
        self.outcomes: list[BranchOutcome] = []
        self.inner_arguments: list[list[Value]] = []

    def _capture(self, k: int) -> None:
        before = self.branch.before[k]
        if before is not None:
            self.captured[k] = WeakValue(before)
            self.branch.before[k] = None

    def run(self) -> Any:
        """Returns the result."""
        branch = self.branch
        while True:
            try:
                return self._record()
            except BaseException as error:
                for k in self.presumed_tables:  # they become arguments, with what they held
                    branch.before[k] = self.captured.pop(k).recovered()
                self.presumed_tables = set()
                branch.args.restore(branch.before)
                if isinstance(error, StateAccessError):
                    k = self._position(error.node)
                    if k is None:
                        raise
                    if not error.written:
                        self.tables.add(k)
                    self._capture(k)
                elif not isinstance(error, RecordAgain):
                    for k, saved in self.captured.items():
                        saved.restore(branch.args.leaves[k])
                    self.closure.restore()
                    raise
                self._begin_again()

    def _begin_again(self) -> None:
        """Records the contents of tables: undone scatters may have left other nodes."""
        args = self.branch.args
        for k, saved in self.captured.items():
            saved.restore(args.leaves[k])
            self.captured[k] = WeakValue(leaf.value(args.leaves[k]))
        self.closure.restore()
        self.closure = region.captured_arrays(self.branch.bodies, args.leaves)

    def _position(self, n: Node) -> int | None:
        rows = ((k, values[k]) for values in self.inner_arguments for k in self._places())
        return next((k for k, v in rows if v.node is n), None)

    def _places(self) -> Sequence[int]:
        return [k for k in range(len(self.branch.before)) if k not in self.captured]

    def _record(self) -> Any:
        branch = self.branch
        places = self._places()
        self.outcomes, self.inner_arguments = [], []
        branch.first = next_serial()
        mask, outer_gradients = branch.mask._node, OuterGradients(atomic=True)
        masks = [mask, combine(op.not_, (mask,))]
        arguments: Any = [*branch.before]  # nothing else may hold what is captured
        for k, saved in self.captured.items():
            arguments[k] = saved.stand_in()
        recorded = RecordedCall(branch.what, arguments, places, masks, self.captured.keys())
        del arguments
        bodies = [partial(self._body, f, recorded, outer_gradients) for f in branch.bodies]
        finals = record.branches(masks, bodies, recorded.nodes, self.label)
        outer_gradients.finish()
        unchanged = self._unchanged(places)
        if recorded.outputs:
            recorded.outputs.difference_update(unchanged)
        if self.captured and recorded.differentiable:
            for k, saved in self.captured.items():
                recorded.argument_values[k] = saved.content() or saved.stand_in()
        made: list[Value | None] = recorded.attach(finals)  # type: ignore[assignment]
        for j, v in unchanged.items():
            made[j] = v
        return branch.place(self.outcomes, made)

    def _body(
        self, function: Any, recorded: RecordedCall, outer_gradients: Any, nodes: list[Node]
    ) -> list[Node]:
        branch, args = self.branch, self.branch.args
        with body_scope(outer_gradients) as inner:
            values = recorded.begin(nodes, inner)
            given = [None if k in self.captured else v for k, v in enumerate(values)]
            args.put(given)
            self.inner_arguments.append(values)
            result = call(branch.what, function, *args.values)
            if self.captured or self.closure.rows:
                self._check()
            outcome = branch.outcome(result, self.outcomes, given)
            found, size = outcome.contents, branch.mask._node.size
            outcome.fits = all(found) and {1, size}.issuperset([v.node.size for v in found if v])
            recorded.note(nodes, values, found, inner)
            self.outcomes.append(outcome)
            args.restore_variables(branch.before)
            if len(self.outcomes) == 2:
                more = {*diverging(self.outcomes, args)}.difference(
                    branch.diverging, branch.unmergeable
                )
                if more:
                    branch.diverging += sorted(more)
                    raise RecordAgain
                branch.check(self.outcomes)  # here, so that an error undoes the recording
        if outcome.fits:
            return [*map(node_of, found)]  # type: ignore[arg-type]
        final: list[Node] = []
        for k, v in enumerate(found):
            n = None if v is None else v.node
            if n is None or (n.size != 1 and n.size != size and size != 1):
                n = literal(outcome.arrays[k]._node.dtype, 0)
            final.append(n)
        return final

    def _check(self) -> None:
        """Raises a RuntimeError if a function has changed captured arrays, or arguments that are
        captured, other than by scatters."""
        branch, args = self.branch, self.branch.args
        self.closure.check(branch.what)
        for k, saved in self.captured.items():
            now = args.leaves[k]._node
            if now.serial != saved.serial and now.op is not AFTER:
                if k in self.presumed_tables:
                    self.tables.discard(k)
                    raise RecordAgain
                raise RuntimeError(
                    f"{branch.what}: argument '{args.paths[k]}' changes, but it has {now.size} "
                    f"entries, which does not fit 'cond' with {branch.mask._node.size}; or it is "
                    "the target of a scatter, and changes in other ways as well"
                )

    def _unchanged(self, places: Sequence[int]) -> dict[int, Value | None]:
        """Returns the results, by number, that neither function changes. None stands for those that
        are written to."""
        unchanged: dict[int, Value | None] = {}
        left: dict[tuple[Value, Value], int] = {}
        first, second = self.outcomes
        for j, (a, b) in enumerate(zip(first.contents, second.contents, strict=True)):
            if a is None or b is None:
                unchanged[j] = None
            elif a == b:
                unchanged[j] = a
            elif a.node.op is LITERAL:
                same = a.node.size == b.node.size and same_constant(a, b)
                if same and flags.current & flags.JitFlag.OptimizeCalls:
                    unchanged[j] = a
            elif a.node.op is op.state:
                if not left:  # arguments by their counterparts in the functions
                    left = {
                        (self.inner_arguments[0][k], self.inner_arguments[1][k]): k
                        for k in reversed(places)
                    }
                if (k := left.get((a, b))) is not None and self.branch.before[k] is not None:
                    unchanged[j] = self.branch.before[k]
        return unchanged

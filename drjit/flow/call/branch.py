"""Branches whose lanes diverge: `if_stmt` in its three modes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter, is_
from typing import Any

from ...ad import capture, graph
from ...ad.graph import Value, node_of
from ...array import leaf, pytree, signatures
from ...array.base import type_label
from ...array.tree import Tree
from ...function.ad.scopes import isolate_grad
from ...function.evaluation import eval as evaluate
from ...jit import flags
from ...jit.device import using
from ...jit.flags import JitFlag
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.node import AFTER, LITERAL, Node
from ...jit.ir.scope import StateTarget, active, all_lanes, nothing_runs, stack
from ...jit.trace import record
from ..region.functions import (
    BodyProfile,
    ClosureArrays,
    RecordAgain,
    call,
    check_mode,
    chosen_mode,
    mask_of,
    profile_of,
)
from ..region.merging import (
    BranchOutcome,
    Version,
    as_version,
    joined,
    masked,
    merged,
    parted,
    same_constant,
    spread,
    spreading,
)
from ..region.state import State, WeakValue, names
from .gradient import RecordedCall


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
        check_mode(mode, what)
    if not isinstance(args, tuple):
        raise TypeError(f"{what}: 'args' must be a tuple, not {type_label(args)}")
    titles = names(len(args), arg_labels, "args", what)
    if mode == "scalar" or (type(cond) is bool and mode is None):
        return call(what, true_fn if cond else false_fn, *args)
    mask = mask_of(cond, what, "'cond'")
    if mask._node.size == 0 and active().size and not nothing_runs():
        raise RuntimeError(f"{what}: 'cond' cannot be empty")
    if mask._node.op is LITERAL and mask._node.size:
        if 0 in [a._node.size for a in pytree.leaf_arrays(args)]:
            State(args, titles, what).check_initialized()
        return call(what, true_fn if mask._node.data else false_fn, *args)
    mode = chosen_mode(mode, JitFlag.SymbolicConditionals, what)
    if mode == "evaluated" and record.recording():
        mode = "symbolic"  # which returns the same values
    profile = profile_of(true_fn)
    if mode == "evaluated":
        args, true_fn, false_fn = spread(args), spreading(true_fn), spreading(false_fn)
    state = State(args, titles, what, True, profile.decompose(args, "args"))
    branch = _Branch(state, mask, (true_fn, false_fn), rv_labels, strict, profile)
    with using(mask._device):
        if mode == "evaluated":
            evaluate(mask, args)
            return joined(branch.select())
        if mask._node.size == 0:
            return branch.select()
        return _Symbolic(branch, label or "").run()


_size, _array_size = attrgetter("node.size"), attrgetter("_node.size")
_Reader = Callable[[list[Any]], list[Value | None]]
"""Gives the contents of arrays, with None for those that a function has written to."""


class Passthrough:
    """The second function of a branch without `else`: returns those of its arguments that the first
    one may change, given by their places."""

    __slots__ = ("places",)

    def __init__(self, places: Sequence[int]) -> None:
        self.places = places

    def __call__(self, *args: Any) -> tuple:
        return tuple([args[k] for k in self.places])


class _Branch:
    """The components of a branch.

    The versions that each lane has of `parted` arguments, given by number, are further results.
    """

    def __init__(
        self, args: State, mask: Any, bodies: tuple, labels: Sequence[str], strict: bool,
        profile: BodyProfile,
    ) -> None:  # fmt: skip
        self.args, self.mask, self.bodies, self.profile = args, mask, bodies, profile
        self.labels, self.strict, self.what = labels, strict, args.what
        self.before: list[Value | None] = leaf.values(args.leaves)  # type: ignore[assignment]
        self.first = 0  # nodes with serial numbers from here on belong to the functions
        self.parted: list[int] = []
        self.whole: set[int] = set()  # further ones, whose versions cannot be merged
        self.writes = False  # whether a function has written to arrays, or might
        self.sizes = [*map(_size, self.before)]
        if 0 in self.sizes and mask._node.size:
            args.check_initialized()

    def select(self) -> Any:
        """Runs both functions for all lanes and merges their results, including derivatives."""
        args, before = self.args, self.before
        outcomes: list[BranchOutcome] = []
        every: set[int] = set()
        try:
            # Propagated gradients continue after both have run.
            with isolate_grad(), all_lanes():
                inner: Any = graph.scope()
                inner.arguments = {v.var for v in before if v and v.var}
                for body, mask in zip(self.bodies, (self.mask, ~self.mask), strict=True):
                    with masked(mask._node) as written:
                        result = call(self.what, body, *args.values)
                    every |= written
                    outcomes.append(self.outcome(result, outcomes, before, every))
                    args.restore(before, outcomes[-1].altered)
        except BaseException:
            args.restore(before)
            raise
        for versions in self.parted_versions(outcomes).values():
            for outcome, version in zip(outcomes, versions, strict=True):
                outcome.add(version)
        self.check(outcomes)
        pairs = zip(outcomes[0].contents, outcomes[1].contents, strict=True)
        return self.place(outcomes, [a and b and merged(self.mask, a, b) for a, b in pairs])

    def parted_versions(
        self, outcomes: Sequence[BranchOutcome]
    ) -> dict[int, tuple[Version, Version]]:
        """Returns the versions of parted arguments by number. Arguments that cannot be merged are
        omitted and do not change."""
        found: dict[int, tuple[Version, Version]] = {}
        for k in parted(outcomes, self.args):
            unchanged = self._version(k, leaf.values)  # type: ignore[arg-type]
            first, second = (o.version(k, unchanged, self.args) for o in outcomes)
            with suppress(RuntimeError):
                found[k] = first, second.like(first, False)
        return found

    def _version(self, k: int, contents_of: _Reader) -> Version:
        """Returns the current version of an argument, given by number."""
        state = State((self.args.objects()[k],), ("argument",), self.what, False)
        return Version(state, state.tree, [*contents_of(state.leaves)])

    def outcome(
        self,
        result: Any,
        others: Sequence[BranchOutcome],
        given: Sequence[Value | None],
        written: set[int] | None = None,
    ) -> BranchOutcome:
        """Returns the outcome of the function that ran last; `others` are the previous outcomes,
        and `given` is what its arguments held.

        Arrays that it wrote to by masked scatters keep their contents. Nothing else may hold these,
        or they would have to be copied. They are the arrays whose nodes have the serial numbers
        `written`, or that wait for their scatters.

        Raises:
            RuntimeError: the arrays do not match those of the first function.
        """
        args = self.args
        if args.attributes:
            args.check_attributes(written or frozenset())
        contents_of = self._reader(written)
        rows = self._rows(result)
        found = as_version((rows, rows.tree, contents_of(rows.leaves)))
        if others:
            found = found.like(others[0].versions[0], self.strict)
        outcome = BranchOutcome(found)
        if contents_of is not leaf.values:
            for k, v in enumerate(contents_of(args.leaves)):
                if v is None:
                    self.before[k] = None
            given = [v and g for v, g in zip(self.before, given, strict=True)]
        if changed := args.changed(given):
            outcome.altered = changed
            outcome.places = outcome.located(args, changed)
            for k in changed:
                if k not in outcome.places:  # it is not visible to the program
                    args.undo(k, given)
                elif written is not None:
                    a = args.leaves
                    outcome.kept[k] = (
                        contents_of([a[k]]) if k < len(a) else self._version(k, contents_of)
                    )
        if written is not None:
            outcome.left = contents_of(args.leaves)
        if self.parted:
            self._add_parted(outcome, others, contents_of)
        return outcome

    def passed_through(
        self, function: Passthrough, others: Sequence[BranchOutcome]
    ) -> BranchOutcome:
        """Returns the outcome of a function that returns its arguments."""
        contents_of, result = self._reader(None), function(*self.args.values)
        rows, first = result if self.labels else (result,), others[0].versions[0]
        last = max(others[0].altered, default=0)
        if last < len(self.args.leaves) and all(map(is_, rows, first.state.values)):
            # The other function has changed what the same arrays hold, as restored since.
            outcome = BranchOutcome(first._replace(contents=contents_of(first.arrays)))
            outcome.places = others[0].places
        else:
            everything = self.labels and function.places == [*range(len(self.args.values))]
            tree = self.args.tree if everything else Tree(rows)
            found = as_version((first.state, tree, contents_of(tree.leaves)))
            outcome = BranchOutcome(found.like(first, self.strict))
        if self.parted:
            self._add_parted(outcome, others, contents_of)
        return outcome

    def _reader(self, written: set[int] | None) -> _Reader:
        """Returns the function that reads what the function that ran last has left in arrays."""
        if written is not None:

            def contents_of(arrays: list[Any]) -> list[Value | None]:
                found = leaf.values(arrays)
                return [None if v.node.serial in written else v for v in found]

            return contents_of
        # Nothing may hold pending tables, because the other function may write to them.
        if not self.writes:
            opened = stack()
            if opened and not opened[-1].afters and None not in self.before:
                return leaf.values  # type: ignore[return-value]
            self.writes = True
        first = self.first
        tables = {id(a) for a, v in zip(self.args.leaves, self.before, strict=True) if v is None}
        return lambda arrays: [
            None if v.node.op is AFTER and (v.node.serial > first or id(a) in tables) else v
            for a, v in zip(arrays, leaf.values(arrays), strict=True)
        ]

    def _add_parted(
        self,
        outcome: BranchOutcome,
        others: Sequence[BranchOutcome],
        contents_of: _Reader,
    ) -> None:
        """Adds the versions of parted arguments to an outcome."""
        for j, k in enumerate(self.parted, 1):
            version = self._version(k, contents_of)
            if others:
                try:
                    version = version.like(others[0].versions[j], False)
                except RuntimeError:
                    self.parted.remove(k)
                    self.whole.add(k)
                    raise RecordAgain from None
            outcome.add(version)

    def _rows(self, result: Any) -> State:
        """Returns a result as a tuple with names."""
        values, labels = result, self.labels
        if not labels:
            values, labels = (result,), ("rv",)
        elif not isinstance(result, tuple) or len(result) != len(labels):
            raise self._wrong(result)
        tree = self.profile.decompose(values, "result")
        state = State(values, labels, self.what, False, tree)
        state.origin = self.args
        if 0 in map(_array_size, state.leaves) and self.mask._node.size:
            state.check_initialized()
        return state

    def _wrong(self, result: Any) -> RuntimeError:
        """Returns the error for a result that does not match the names."""
        if not isinstance(result, tuple):
            return RuntimeError(
                f"{self.what}: there are names for the results, so that functions must return a "
                f"tuple, not {type_label(result)}"
            )
        return RuntimeError(
            f"{self.what}: there are {len(self.labels)} names for {len(result)} results"
        )

    def check(self, outcomes: Sequence[BranchOutcome]) -> None:
        """Raises a RuntimeError if the sizes of results are incompatible, or if one function
        returns an array that was written to, and the other one a different array."""
        first, second = outcomes
        if first.fits and second.fits:
            return
        size = self.mask._node.size
        rows = zip(first.contents, second.contents, first.arrays, second.arrays, strict=True)
        for k, (a, b, one, other) in enumerate(rows):
            if a is None or b is None:
                if one is not other:
                    path = first.paths[k]
                    raise RuntimeError(
                        f"{self.what}: the result '{path}' is in one function an array that it has "
                        "written to by scatters, and another array in the other function. What "
                        "such an array holds is known only afterwards; choose between them then."
                    )
                continue
            if a.node is b.node or size == 1:
                continue
            n, m, path = a.node.size, b.node.size, first.paths[k]
            if n != m and 1 not in (n, m):
                raise RuntimeError(
                    f"{self.what}: the size of state variable '{path}' of type "
                    f"'{type_label(one)}' changed from {n} to {m}. 'cond' has {size} entries."
                )
            if n not in (1, size) or m not in (1, size):
                raise RuntimeError(
                    f"{self.what}: operands have incompatible sizes: the results '{path}' have {n} "
                    f"and {m} entries, and 'cond' has {size}"
                )

    def place(self, outcomes: Sequence[BranchOutcome], contents: Sequence[Value | None]) -> Any:
        """Returns the result, with these contents in its arrays; None leaves an array that
        functions have written to unchanged."""
        first, second = outcomes
        if None in contents:
            pairs = zip(contents, second.arrays, strict=True)
            contents = [v or leaf.value(array) for v, array in pairs]
        end = 0
        placed: list[tuple] = []
        for one, other in zip(first.versions, second.versions, strict=True):
            begin, end = end, end + len(one.tree.leaves)
            placed.append(one.state.place(other.tree, contents[begin:end]))  # type: ignore[arg-type]
        return placed[0] if self.labels else placed[0][0]


class _Symbolic:
    """A branch whose functions are recorded with arrays that stand for their arguments.

    Arguments whose size is incompatible with the mask, or that are written to by scatters, are
    passed unchanged: they are `captured`, and nothing else may hold their contents.
    """

    def __init__(self, branch: _Branch, label: str) -> None:
        self.branch, self.label = branch, label
        wide, sizes = branch.mask._node.size, branch.sizes
        if wide == 1:
            wide = max(sizes, default=1)
        self.captured: dict[int, WeakValue] = {}
        self.tables = branch.profile.tables
        self.presumed: set[int] = set()
        for k, n in enumerate(sizes):
            if n != 1 and n != wide:
                self._capture(k)
            elif k in self.tables:
                self._presume(k)
        self.closure = ClosureArrays(branch.bodies, branch.args.leaves)
        self.outcomes: list[BranchOutcome] = []
        self.inside: list[list[Value]] = []

    def _capture(self, k: int) -> None:
        before = self.branch.before[k]
        if before is not None:
            self.captured[k] = WeakValue(before)
            self.branch.before[k] = None

    def _presume(self, k: int) -> None:
        """Captures an argument that was a table before, unless a scatter to it is pending."""
        before = self.branch.before[k]
        if before is not None and before.node.op is not AFTER:
            self.presumed.add(k)
            self._capture(k)

    def _presume_nothing(self) -> None:
        """Makes presumed tables arguments like others, with the contents that they had."""
        for k in self.presumed:
            self.branch.before[k] = self.captured.pop(k).recovered()
        self.presumed = set()

    def run(self) -> Any:
        """Returns the result."""
        branch = self.branch
        while True:
            try:
                return self._record()
            except StateTarget as target:
                self._presume_nothing()
                branch.args.restore(branch.before)
                k = self._position(target.node)
                if k is None:
                    raise
                if not target.written:
                    self.tables.add(k)
                self._capture(k)
                self._begin_again()
            except RecordAgain:
                self._presume_nothing()
                branch.args.restore(branch.before)
                self._begin_again()
            except BaseException:
                self._presume_nothing()
                branch.args.restore(branch.before)
                for k, saved in self.captured.items():
                    saved.restore(branch.args.leaves[k])
                self.closure.restore()
                raise

    def _begin_again(self) -> None:
        """Records the contents of tables: undone scatters may have left other nodes."""
        args = self.branch.args
        for k, saved in self.captured.items():
            saved.restore(args.leaves[k])
            self.captured[k] = WeakValue(leaf.value(args.leaves[k]))
        self.closure.restore()
        self.closure = ClosureArrays(self.branch.bodies, args.leaves)

    def _position(self, n: Node) -> int | None:
        for values in self.inside:
            for k in self._places():
                if values[k].node is n:
                    return k
        return None

    def _places(self) -> Sequence[int]:
        return [k for k in range(len(self.branch.before)) if k not in self.captured]

    def _record(self) -> Any:
        branch = self.branch
        places = self._places() if self.captured else range(len(branch.before))
        self.outcomes, self.inside = [], []
        branch.first = ir.next_serial()
        mask, outer_gradients = branch.mask._node, capture.OuterGradients(atomic=True)
        masks = [mask, ir.combine(op.not_, (mask,))]
        arguments: Any = [*branch.before]  # nothing else may hold what is captured
        for k, saved in self.captured.items():
            arguments[k] = saved.stand_in()
        recorded = RecordedCall(branch.what, arguments, places, masks, self.captured.keys())
        del arguments
        scope = capture.body(outer_gradients)
        first, second = branch.bodies
        bodies = (
            partial(self._body, first, recorded, scope),
            partial(self._body, second, recorded, scope),
        )
        finals = record.branches(masks, bodies, recorded.nodes, self.label)
        outer_gradients.finish()
        unchanged = self._unchanged(places)
        if recorded.outputs:
            recorded.outputs.difference_update(unchanged)
        if self.captured and recorded.differentiable:
            for k, saved in self.captured.items():
                recorded.given[k] = saved.content() or saved.stand_in()
        made: list[Value | None] = recorded.attached(finals)  # type: ignore[assignment]
        for j, v in unchanged.items():
            made[j] = v
        return branch.place(self.outcomes, made)

    def _body(
        self, function: Any, recorded: RecordedCall, scope: capture.body, nodes: list[Node]
    ) -> list[Node]:
        branch, args = self.branch, self.branch.args
        with scope as inner:
            values = recorded.begin(nodes, inner)
            given: list[Value | None] = [*values]
            for k in self.captured:
                given[k] = None
            args.put(given)
            self.inside.append(values)
            if type(function) is Passthrough:
                outcome = branch.passed_through(function, self.outcomes)
            else:
                result = call(branch.what, function, *args.values)
                if self.captured or self.closure.arrays:
                    self._check()
                outcome = branch.outcome(result, self.outcomes, given)
            found, size = outcome.contents, branch.mask._node.size
            outcome.fits = all(found) and {1, size}.issuperset(map(_size, found))
            recorded.note(nodes, values, found, inner)
            self.outcomes.append(outcome)
            args.restore(branch.before, outcome.altered)
            if len(self.outcomes) == 2:
                more = {*parted(self.outcomes, args)}.difference(branch.parted, branch.whole)
                if more:
                    branch.parted += sorted(more)
                    raise RecordAgain
                branch.check(self.outcomes)  # here, so that an error undoes the recording
        if outcome.fits:
            return [*map(node_of, found)]  # type: ignore[arg-type]
        final: list[Node] = []
        for k, v in enumerate(found):
            n = None if v is None else v.node
            if n is None or (n.size != 1 and n.size != size and size != 1):
                n = ir.literal(outcome.arrays[k]._node.dtype, 0)
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
                if k in self.presumed:
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
                if same and flags.current & JitFlag.OptimizeCalls:
                    unchanged[j] = a
            elif a.node.op is op.state:
                if not left:  # arguments by their counterparts in the functions
                    left = {(self.inside[0][k], self.inside[1][k]): k for k in reversed(places)}
                if (k := left.get((a, b))) is not None and self.branch.before[k] is not None:
                    unchanged[j] = self.branch.before[k]
        return unchanged

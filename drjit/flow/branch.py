"""Branches whose lanes go different ways: `if_stmt`, in its three modes."""

from collections.abc import Callable, Sequence
from typing import Any

from ..ad import capture
from ..ad.graph import visible
from ..array.base import type_label
from ..function.evaluation import eval as evaluate
from ..jit import flags, op, record
from ..jit import node as jit
from ..jit.flags import JitFlag
from ..jit.node import AFTER, LITERAL, Node
from ..jit.scope import StateTarget
from .captured import Captured
from .condition import check_mode, mask_of
from .masked import masked, merged
from .state import Content, State, content, names
from .vectors import joined, spread, spreading


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
    """`true_fn(*args)` in the lanes where the mask `cond` holds, `false_fn(*args)` in the others.

    Both functions give arrays or PyTrees of the same structure and types. `arg_labels` and
    `rv_labels` are names of the arguments and of the entries of the result for messages. If `cond`
    is a Python `bool` (mode 'scalar'), only one function is called. Otherwise both are traced, and
    become part of a kernel that skips what no lane needs ('symbolic'), or both are evaluated for
    all lanes ('evaluated'); the default is symbolic unless `JitFlag.SymbolicConditionals` is off.
    `strict` forbids that entries that are no arrays differ.

    Raises:
        RuntimeError: the results differ in structure, type or size, or `cond` is no mask.

    >>> from drjit.llvm import Float
    >>> x = Float(-1, 4)
    >>> dr.if_stmt((x,), x > 0, lambda x: dr.sqrt(x), lambda x: -x)
    [1, 2]
    """
    what = f"dr.if_stmt('{label}')" if label else "dr.if_stmt()"
    check_mode(mode, what)
    if not isinstance(args, tuple):
        raise TypeError(f"{what}: 'args' must be a tuple, not {type_label(args)}")
    titles = names(len(args), arg_labels, "args", what)
    if mode == "scalar" or (type(cond) is bool and mode is None):
        return true_fn(*args) if cond else false_fn(*args)
    mask = mask_of(cond, what, "'cond'")
    if mask._n.op is LITERAL and mask._n.size:
        return true_fn(*args) if mask._n.data else false_fn(*args)
    if mode is None:
        mode = "symbolic" if flags.current & JitFlag.SymbolicConditionals else "evaluated"
    if mode == "evaluated":
        args, true_fn, false_fn = spread(args), spreading(true_fn), spreading(false_fn)
    branch = _Branch(State(args, titles, what), mask, (true_fn, false_fn), rv_labels, strict)
    if mode == "evaluated":
        evaluate(mask, args)
        return joined(branch.select())
    return _Symbolic(branch, label or "").run()


class _Differentiable(Exception):
    """A result depends on an array whose derivatives are tracked."""


class _Branch:
    """The parts of a branch."""

    def __init__(
        self, args: State, mask: Any, bodies: tuple, labels: Sequence[str], strict: bool
    ) -> None:
        self.args, self.mask, self.bodies = args, mask, bodies
        self.labels, self.strict, self.what = labels, strict, args.what
        self.before: list[Content | None] = [*args.contents()]
        if mask._n.size:
            args.check_initialized()

    def select(self) -> Any:
        """Runs both functions for all lanes and merges their results; derivatives follow."""
        args, before = self.args, self.before
        results: list[Any] = []
        found: list[list[Content | None]] = []
        try:
            for body, mask in zip(self.bodies, (self.mask, ~self.mask), strict=True):
                with masked(mask._n) as written:
                    results.append(body(*args.values))
                found.append(self.outcome(results, written))
                args.restore(before)
        except BaseException:
            args.restore(before)
            raise
        return self.place(results, found, lambda k, cls, a, b: merged(self.mask, cls, a, b))

    def outcome(self, results: list[Any], written: set[int] | None = None) -> list[Content | None]:
        """What the arrays hold that the function that ran last has given.

        None stands for arrays that it wrote to by scatters, which have masks: these keep what they
        hold, and nobody else may hold it, as it would have to be copied. They are those whose nodes
        have the serial numbers `written`, or that wait for their scatters.

        Raises:
            RuntimeError: the arrays do not match those of the first function.
        """
        self.args.check_attributes(written or frozenset())
        arrays = self.rows(results[0]).match(self._tuple(results[-1]), self.strict)

        def in_place(array: Any) -> bool:
            return array._n.op is AFTER if written is None else array._n.serial in written

        for k, array in enumerate(self.args.leaves):
            if in_place(array):
                self.before[k] = None
        return [None if in_place(a) else content(a) for a in arrays]

    def rows(self, result: Any) -> State:
        """A result as a tuple with names."""
        values = self._tuple(result)
        titles = names(len(values), self.labels, "rv", self.what) if self.labels else ["rv"]
        state = State(values, titles, self.what)
        if self.mask._n.size:
            state.check_initialized()
        return state

    def _tuple(self, result: Any) -> tuple:
        if not self.labels:
            return (result,)
        if not isinstance(result, tuple):
            raise RuntimeError(
                f"{self.what}: there are names for the results, so that functions must return a "
                f"tuple, not {type_label(result)}"
            )
        if len(result) != len(self.labels):
            raise RuntimeError(
                f"{self.what}: there are {len(self.labels)} names for {len(result)} results"
            )
        return result

    def place(self, results: list[Any], found: list[list[Content | None]], merge: Any) -> Any:
        """The result, of which array `k` of a class gets `merge(k, class, true, false)`."""
        state = self.rows(results[0])
        last = self._tuple(results[1])
        arrays = state.match(last, self.strict)
        if len(arrays) != len(found[0]) or len(arrays) != len(found[1]):
            raise RuntimeError(f"{self.what}: the functions give different numbers of arrays")
        size = self.mask._n.size
        contents: list[Content] = []
        for k, (array, a, b) in enumerate(zip(arrays, *found, strict=True)):
            if a is None or b is None:
                contents.append(content(array))
                continue
            for n in (a.node, b.node):
                if a.node is not b.node and n.size not in (1, size) and size != 1:
                    raise RuntimeError(
                        f"{self.what}: the results '{state.paths[k]}' have {a.node.size} and "
                        f"{b.node.size} entries, which does not fit 'cond' with {size}"
                    )
            contents.append(merge(k, type(array), a, b))
        placed = state.place(last, contents)
        return placed if self.labels else placed[0]


class _Symbolic:
    """A branch whose functions are recorded, with arrays that stand for their arguments.

    Arguments that do not fit the mask, or that are written to by scatters, are used as they are.
    """

    def __init__(self, branch: _Branch, label: str) -> None:
        self.branch, self.label = branch, label
        size = branch.mask._n.size
        sizes = [v.node.size for v in branch.before if v is not None]
        wide = max(sizes, default=1) if size == 1 else size
        self.outside = {k for k, n in enumerate(sizes) if n not in (1, wide)}
        self.captured = Captured(branch.bodies, branch.args)
        self.results: list[Any] = []
        self.found: list[list[Content | None]] = []
        self.inside: list[list[Node]] = []

    def run(self) -> Any:
        """The result."""
        branch = self.branch
        if branch.mask._n.size == 0 or any(visible(v and v.var) for v in branch.before):
            return branch.select()
        while True:
            try:
                return self._record()
            except StateTarget as target:
                branch.args.restore(branch.before)
                k = self._position(target.node)
                if k is None:
                    raise
                self.outside.add(k)
            except _Differentiable:
                branch.args.restore(branch.before)
                return branch.select()
            except BaseException:
                branch.args.restore(branch.before)
                self.captured.restore()
                raise

    def _position(self, n: Node) -> int | None:
        for names_ in self.inside:
            for k, name in zip(self._places(), names_, strict=True):
                if name is n:
                    return k
        return None

    def _places(self) -> list[int]:
        return [k for k in range(len(self.branch.before)) if k not in self.outside]

    def _record(self) -> Any:
        branch, places = self.branch, self._places()
        self.results, self.found, self.inside = [], [], []
        mask, slots = branch.mask._n, capture.Slots(atomic=True)

        def traced(function: Any) -> Any:
            def body(nodes: list[Node]) -> list[Node]:
                with capture.body(slots):
                    return self._body(function, places, nodes)

            return body

        finals = record.branches(
            [mask, jit.apply(op.not_, mask)],
            [traced(f) for f in branch.bodies],
            [branch.before[k].node for k in places],  # type: ignore[union-attr]
            self.label,
        )
        slots.finish()
        merge = lambda k, _, a, b: self._outcome(k, a, b, finals)  # noqa: E731
        return branch.place(self.results, self.found, merge)

    def _body(self, function: Any, places: list[int], nodes: list[Node]) -> list[Node]:
        branch, args = self.branch, self.branch.args
        values: list[Content | None] = [None] * len(branch.before)
        for k, n in zip(places, nodes, strict=True):
            values[k] = Content(n, None)
        args.put(values)
        self.inside.append(nodes)
        self.results.append(function(*args.values))
        self.captured.check(branch.what)
        found = branch.outcome(self.results)
        if any(v is not None and visible(v.var) for v in found):
            raise _Differentiable
        self.found.append(found)
        args.restore(branch.before)
        size = branch.mask._n.size
        kinds = [a._n.dtype for a in branch.rows(self.results[0]).leaves]
        return [
            jit.literal(kind, 0)
            if v is None or (size != 1 and v.node.size not in (1, size))
            else v.node
            for kind, v in zip(kinds, found, strict=True)
        ]

    def _outcome(self, k: int, a: Content, b: Content, finals: list[Node]) -> Content:
        """Result `k`: what both functions leave alone stays what it was."""
        if a.node is b.node:
            return a
        for x, y, before in zip(
            *self.inside, [self.branch.before[p] for p in self._places()], strict=True
        ):
            if a.node is x and b.node is y:
                return before
        return Content(finals[k], None)

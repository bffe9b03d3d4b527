"""Operations with user-defined derivatives: `CustomOp` and `custom`."""

from collections.abc import Sequence
from functools import cache, partial, reduce
from typing import Any, ParamSpec, TypeVar

from ...ad import graph, traverse
from ...ad.algebra import keep_graph
from ...ad.graph import ADFlag, ADMode, GradScope, Value, Var, visible
from ...ad.memory_rules import LaneRule, broadcast_to, copy
from ...array import leaf
from ...array.base import ArrayBase, IncompatibleError, type_label
from ...jit import locks, log
from ...jit.ir import dtype as dt
from ...jit.ir.node import CONSTANTS, Node, apply, cast, literal, resize
from ...jit.ir.op import add, mul
from ..signature import CustomOpT, signature
from .grad import accum_grad, accumulate, detach, fit_gradient, grad, leaves, map_arrays, variables

P = ParamSpec("P")
T = TypeVar("T")


class IntrusiveBase:
    """Base class of objects shared with other languages; here, of `CustomOp`."""

    __module__ = "drjit.detail"


class CustomOp(IntrusiveBase):
    """Base class of operations that define their own derivatives; see `custom`.

    A subclass overrides `eval`, `forward`, `backward` and `name`. `eval` receives detached
    arguments and returns an array or a PyTree. It may store intermediate values as attributes.

    >>> class Square(dr.CustomOp):
    ...     def eval(self, x):
    ...         self.x = x
    ...         return x * x
    ...     def forward(self):
    ...         self.set_grad_out(2 * self.x * self.grad_in("x"))
    ...     def backward(self):
    ...         self.set_grad_in("x", 2 * self.x * self.grad_out())
    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(dr.custom(Square, x))
    >>> x.grad
    [6]
    """

    __module__ = "drjit"

    # Stand-ins for arguments and results: PyTrees of arrays with variables but without values, so
    # that the operation keeps neither memory nor, through its result, itself alive.
    _inputs: dict[Any, Any]
    _variadic: tuple[str, str] = ("", "")  # names of the parameters after * and **
    _output: Any = None
    _more_inputs: tuple = ()
    _more_outputs: tuple = ()
    _assigned = False

    def name(self) -> str:
        """The name of the operation in messages and graphs."""
        return type_label(self)

    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the result from detached arguments."""
        raise RuntimeError(f"{type_label(self)}.eval(): not implemented")

    def forward(self) -> None:
        """Computes the gradient of the result from `grad_in` and passes it to `set_grad_out`."""
        raise RuntimeError(f"{type_label(self)}.forward(): not implemented")

    def backward(self) -> None:
        """Computes gradients of the arguments from `grad_out` and passes them to `set_grad_in`."""
        raise RuntimeError(f"{type_label(self)}.backward(): not implemented")

    def grad_in(self, arg: str | int, /) -> Any:
        """Returns the gradient of the argument with the given name, or zeros if it has none.
        Arguments in `*args` are a tuple of that name, or are accessed by number; those in
        `**kwargs` are a dictionary.

        Raises:
            RuntimeError: there is no such argument.
        """
        return grad(self._input(arg, "grad_in"))

    def set_grad_in(self, arg0: str | int, arg1: object, /) -> None:
        """Adds to the gradient of the argument with the given name; see `grad_in`.

        Raises:
            RuntimeError: there is no such argument, or the sizes are incompatible.
        """
        target = self._input(arg0, "set_grad_in")
        self._assigned = True
        accum_grad(target, arg1)

    def _input(self, name: str | int, what: str) -> Any:
        inputs = self._inputs
        if name in inputs:
            return inputs[name]
        positional, named = self._variadic
        if isinstance(name, int) and 0 <= name < len(inputs.get(positional, ())):
            return inputs[positional][name]
        if name in inputs.get(named, ()):
            return inputs[named][name]
        known = ", ".join(repr(n) for n in inputs)
        raise RuntimeError(
            f"drjit.CustomOp.{what}(): could not find an input argument named {name!r} of "
            f"{self.name()}, only {known}"
        )

    def grad_out(self) -> Any:
        """Returns the gradient of the result, with the same structure; zeros where it has none."""
        return grad(self._output)

    def set_grad_out(self, arg: object, /) -> None:
        """Adds to the gradient of the result.

        Raises:
            RuntimeError: the sizes are incompatible.
        """
        self._assigned = True
        accum_grad(self._output, arg)

    def recomputed(self, enclosing: object = None) -> list[Value]:
        """Recomputes the one-dimensional arrays of the result from the arguments, by operations
        that can be differentiated twice. Implemented by those operations of this package that
        support it. `enclosing` has the values of the body that contains the operation, if that is
        recomputed as well (`flow.region.recording.Recomputation`).

        Raises:
            RuntimeError: the operation does not support this.
        """
        raise RuntimeError(
            f"dr.custom(<{self.name()}>): ADFlag.KeepGraph needs derivatives of derivatives, "
            "which a custom operation does not define"
        )

    def add_input(self, arg: ArrayBase, /) -> None:
        """Declares, within `eval`, an array that the result depends on but that is not an argument.

        The callbacks access its gradient with `dr.grad` and `dr.accum_grad`.
        """
        self._more_inputs = (*self._more_inputs, arg)

    def add_output(self, arg: ArrayBase, /) -> None:
        """Declares, within `eval`, an array that depends on the arguments but is not returned.

        The callbacks access its gradient with `dr.grad` and `dr.accum_grad`.

        Raises:
            RuntimeError: the array is already the result of a differentiable computation.
        """
        self._more_outputs = (*self._more_outputs, arg)


class ValueOp(CustomOp):
    """An operation of this package whose arguments and results are variables rather than arrays.
    `attach` adds it to the graph; it has no `eval`."""

    arguments: list[Var]
    results: list[Var]

    def uses_copies(self) -> bool:
        """Returns whether the derivatives can use the primal values of a copy of the body that
        contains the operation (see `flow.region.recording`)."""
        return False

    def gradients(self, variables: list[Var]) -> list[Node]:
        """Returns the gradients of its arguments or results, with zeros where there are none."""
        hiding = graph.may_hide()
        return [
            literal(v.dtype, 0, v.size)
            if (g := v.grad) is None or (hiding and not visible(v))
            else resize(g, v.size) if g.size == 1 else g
            for v in variables
        ]  # fmt: skip

    def accumulate(self, variables: list[Var], gradients: list[Node]) -> None:
        """Adds to the gradients of its arguments or results."""
        self._assigned = True
        pairs, what = zip(variables, gradients, strict=True), self.name()
        hiding = graph.may_hide()
        accumulate([(v, fit_gradient(v, g, what)) for v, g in pairs if not hiding or visible(v)])


def weighted_sum(factors: Sequence[Node], gradients: Sequence[Node], dtype: dt.DType) -> Node:
    """Returns the sum of products of partial derivatives and gradients."""
    terms = [
        apply(mul, cast(dtype, factor), cast(dtype, gradient))
        for factor, gradient in zip(factors, gradients, strict=True)
    ]
    return reduce(partial(apply, add), terms) if terms else literal(dtype, 0)


def attach(op: ValueOp, results: list[Node], arguments: list[Var]) -> list[Var | None]:
    """Returns the variables of an operation's results, which depend on those of its arguments."""
    if not any(visible(v) for v in arguments):
        return [None] * len(results)
    state = _Attachment(op)
    hub = state.hub(tuple(arguments))
    op.arguments = arguments
    op.results = state.result_slots = [*map(graph.new_slot, results)]
    state.keep_scope()
    return [_RESULT.record(n, (), (hub,), k) for k, n in enumerate(results)]


class _Attachment:
    """The graph's data about a custom operation: variables that store the gradients of its results
    (`result_slots`), whether any arrived (`active`), variables that keep their gradients until the
    callback has read them (`kept`), and the scope in which the operation was created, whose
    suspensions apply to its callbacks."""

    def __init__(self, op: CustomOp) -> None:
        self.op = op
        self.scope = GradScope()  # without suspensions
        self.result_slots: list[Var] = []
        self.active = False
        self.kept: list[Var] = []

    def hub(self, arguments: tuple[Var, ...]) -> Any:
        """Returns the variable of the operation itself."""
        hub: Any = HUB.record(CONSTANTS[dt.f32, 0], (), arguments, self)
        graph.labels[hub] = self.op.name()
        return hub

    def keep_scope(self) -> None:
        """Stores the enclosing scope, which by now contains the variables of the results."""
        around = graph.scope()
        if around is not None:
            self.scope = GradScope(around.all, around.variables)

    def run(self, name: str, setter: str, inputs: list[Var]) -> None:
        """Propagates gradients between inputs and results with the callback of the given name."""
        op = self.op
        if keep_graph():
            self._differentiate(ADMode.Forward if name == "forward" else ADMode.Backward, inputs)
            return
        op._assigned = False
        outer = graph.scope()
        outer_gradients = None if outer is None else outer.outer_gradients
        scope = GradScope(self.scope.all, self.scope.variables, outer_gradients=outer_gradients)
        with graph.within(scope):
            if isinstance(op, ValueOp):
                getattr(op, name)()
            else:
                with locks.released():
                    getattr(op, name)()
        if not op._assigned and not op._more_inputs and not op._more_outputs:
            log.warn(
                f"{type_label(op)}.{name}() did not call {setter}(): the gradient is taken to be 0"
            )

    def _differentiate(self, mode: ADMode, inputs: list[Var]) -> None:
        """Propagates gradients with operations that are themselves differentiable."""
        inner = (graph.scope() or GradScope()).isolated()
        with graph.within(inner):
            found = zip(self.result_slots, self.op.recomputed(), strict=True)
            pairs: list[tuple[Var, Var]] = []
            for slot, value in found:
                v = value.var and broadcast_to(copy(value), slot.size).var
                if v is not None:
                    pairs.append((slot, v))
            if mode is ADMode.Backward:
                for slot, v in pairs:
                    v.grad, v.grad_var = slot.grad, slot.grad_var
            seeds = inputs if mode is ADMode.Forward else [v for _, v in pairs]
            keep = ADFlag.Default | ADFlag.KeepGraph
            traverse.propagate(mode, seeds, keep, inner.isolate_from)
            if mode is ADMode.Forward:
                for slot, v in pairs:
                    slot.grad, slot.grad_var = v.grad, v.grad_var


class _Hub(LaneRule):
    """The rule of the operation itself. Its variable has neither value nor gradient; the variables
    of the results depend on it."""

    name = "custom"
    always = True
    keeps_inputs = False
    lanewise = True

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        if not any(t is not None for t in tangents):
            return None
        # Variables that are not involved may have a gradient, such as one of an earlier traversal.
        idle = [d for d, t in zip(v.deps, tangents, strict=True) if d is not None and t is None]
        with graph.restored_gradients(idle):
            for d in idle:
                d.grad = d.grad_var = None
            v.data.run("forward", "set_grad_out", [d for d in v.deps if d is not None])
        return None

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        state = v.data
        if not state.active:
            return
        state.active = False
        inputs = [d for d in v.deps if d is not None]
        others = () if sink.members is None else inputs
        elsewhere = [(d, d.grad, d.grad_var) for d in others if not sink.takes(d)]
        try:
            state.run("backward", "set_grad_in", inputs)
            for d, gradient, own in elsewhere:
                d.grad, d.grad_var = gradient, own
            for d in inputs if sink.masking else ():
                if d.grad is not None:
                    sink.mark(d)
        finally:
            self.reset(v)

    def reset(self, v: Var) -> None:
        state = v.data
        state.active = False
        for d in (*state.result_slots, *state.kept):
            d.grad = d.grad_var = None
        state.kept = []


class _Result(LaneRule):
    """The rule of a result; `data` is its number. The operation has no state any more if an earlier
    traversal from another result has freed its edges."""

    name = "result"
    always = True
    keeps_inputs = False
    lanewise = True

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        state = v.deps[0].data
        if state is None:
            return None
        slot = state.result_slots[v.data]
        result = None if slot.grad is None else Value(slot.grad, slot.grad_var)
        slot.grad = slot.grad_var = None
        return result

    def backward(self, v: Var, g: Value | None, sink: Any) -> None:
        state = v.deps[0].data
        if g is not None and state is not None:
            slot = state.result_slots[v.data]
            slot.grad, slot.grad_var = g
            state.active = True


class _SideResult(LaneRule):
    """The rule of an array that the operation changes; the callbacks handle its gradient."""

    name = "side result"
    keeps_inputs = False
    keeps_gradient = True

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        return None

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        state = v.deps[0].data
        if state is not None:
            state.active = True

    @staticmethod
    def defer_clearing(v: Var) -> None:
        """Defers clearing of a gradient until the callback has read it."""
        state = v.deps[0].data
        if state is not None:
            state.kept.append(v)
        else:
            v.grad = v.grad_var = None


HUB, _RESULT, _SIDE_RESULT = _Hub(), _Result(), _SideResult()


_signature = cache(signature)


def _named(op: CustomOp, args: tuple, kwargs: dict) -> dict[str, Any]:
    """Returns the arguments by name; those after `*` are a tuple, those after `**` a dictionary."""
    try:
        bound = _signature(type(op).eval).bind(op, *args, **kwargs)
    except TypeError as error:
        raise IncompatibleError(f"dr.custom(<{type_label(op)}>): {error}") from None
    kinds = {p.kind.name: p.name for p in bound.signature.parameters.values()}
    op._variadic = kinds.get("VAR_POSITIONAL", ""), kinds.get("VAR_KEYWORD", "")
    return dict(list(bound.arguments.items())[1:])


def _stand_in(a: Any, cls: Any) -> Any:
    """Returns an array without a value that has the variable of another one."""
    if not isinstance(a, ArrayBase):
        return a
    return leaf.from_value(cls, Value(literal(cls._dtype, 0, a._node.size), visible(a._var)))


def custom(arg0: type[CustomOpT[P, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Applies a custom operation, a subclass of `CustomOp`, to arguments that are passed to its
    method `eval`, and returns the result.

    If the derivative of any argument (array or PyTree) is tracked, so is that of the result.

    Raises:
        TypeError: the class is not a subclass of `CustomOp`, or the arguments do not match its
            `eval` (in which case the error is also a RuntimeError).
        RuntimeError: `eval` failed.
    """
    if not isinstance(arg0, type) or not issubclass(arg0, CustomOp):
        raise TypeError(
            f"dr.custom(): incompatible function arguments: expected a subclass of dr.CustomOp, "
            f"not {arg0!r}"
        )
    op = arg0()
    named = _named(op, args, kwargs)
    op._more_inputs = op._more_outputs = ()
    try:
        result = op.eval(*detach(args), **detach(kwargs))
    except Exception as error:
        raise RuntimeError(
            f"dr.custom(<{type_label(op)}>): eval() failed: {type(error).__name__}: {error}"
        ) from error
    deps = tuple(variables((named, op._more_inputs)))
    if not deps:
        return detach(result)
    op._inputs = map_arrays(_stand_in, named)
    state = _Attachment(op)
    hub = state.hub(deps)

    def attach(a: Any, cls: Any) -> Any:
        if not isinstance(a, ArrayBase):
            return a
        v = None
        if cls._diff and cls._dtype.is_float:
            v = _RESULT.record(a._node, (), (hub,), len(state.result_slots))
            state.result_slots.append(graph.new_slot(a._node))
        return leaf.from_value(cls, Value(a._node, v))

    joined = map_arrays(attach, result)
    slots = iter(state.result_slots)

    def slot(a: Any, cls: Any) -> Any:
        result = _stand_in(a, cls)
        if isinstance(a, ArrayBase) and cls._diff:
            result._var = next(slots) if cls._dtype.is_float else None
        return result

    op._output = map_arrays(slot, result)
    for a in leaves(op._more_outputs):
        _change(op, a, hub)
    state.keep_scope()
    return joined


def _change(op: CustomOp, a: Any, hub: Var) -> None:
    """Makes an array depend on the operation that changed it."""
    v = a._var = a._var or graph.new_input(a._node)
    if v.rule is not None:
        raise RuntimeError(
            f"drjit.CustomOp.add_output(): {op.name()} names an array that was computed from "
            "others; only arrays with dr.enable_grad() can be outputs"
        )
    v.rule, v.deps = _SIDE_RESULT, (hub,)
    graph.renew(v)

"""Gradients of arrays and PyTrees: enabling, reading and setting them. The traversals that compute
them are in `propagate.py`.

Throughout, `args` are arrays or PyTrees of arrays. Anything other than differentiable floating
point arrays is ignored.
"""

from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from ...ad import graph, memory_rules, scatter_target
from ...ad.algebra import RECORDED
from ...ad.graph import Value, Var, as_value, visible
from ...array import leaf, pytree, signatures
from ...array.base import ArrayBase, IncompatibleError, KernelValue, type_label
from ...array.promote import promote
from ...jit import frames
from ...jit.ir import node as ir
from ...jit.ir.scope import active, recording, region
from ...jit.run import events, launch, schedule
from ..conversion import T, converted
from ..data import create
from ..inspect.traits import detached_t
from ..math.arithmetic import select
from ..signature import explains_misuse

# ---- Leaves


def leaves(args: Iterable[Any]) -> Iterator[Any]:
    """Yields the one-dimensional arrays and cooperative vectors in the arguments that may have a
    gradient."""
    for arg in args:
        for a in pytree.leaf_arrays(arg):
            if a._kind != "tensor" and a._diff and a._dtype.is_float:
                yield a


def variables(args: Iterable[Any]) -> list[Var]:
    """Returns the variables of the arguments that are not suspended."""
    result = []
    for arg in args:
        for a in (arg,) if getattr(type(arg), "_kind", "") == "leaf" else pytree.leaf_arrays(arg):
            v = a._var if a._diff else None
            if v is not None and a._kind != "tensor":
                result.append(v)
            if graph.scopes and (v := scatter_target.variable(a)) is not None:
                result.append(v)
    return [v for v in result if visible(v) is not None] if graph.scopes else result


def variable(a: Any) -> Var | None:
    """Returns the variable of a one-dimensional array. An array to which the body being traced has
    written has a variable within that body."""
    v = a._var
    if v is None and graph.scopes:
        v = scatter_target.variable(a)
    return visible(v)


def detached_class(cls: Any, preserve_type: bool) -> Any:
    return cls if preserve_type or not cls._diff else detached_t(cls)


def map_arrays(f: Callable[[Any, Any], Any], tree: Any) -> Any:
    """Returns a PyTree with each of its arrays `converted` to its own class."""
    return pytree.map_tree(
        lambda v: converted(v, type(v), f) if isinstance(v, ArrayBase) else v, tree
    )


# ---- Tracking


@explains_misuse
def set_grad_enabled(arg: object, value: bool, /) -> None:
    """Enables or disables derivative tracking for arrays.

    >>> x = ad.Float(1)
    >>> dr.set_grad_enabled(x, True); dr.grad_enabled(x)
    True
    """
    _track((arg,), value)


def _track(args: tuple, value: bool) -> None:
    for a in leaves(args):
        if launch.on_change is not None and (a._var is None) is value:
            launch.on_change(a, a._node)
        if not value:
            if a._var is not None:
                graph.lose("disabled")
            a._var = None
        elif a._var is None and not (graph.scopes and graph.suspends_inputs()):
            if isinstance(a, KernelValue) and not a._tracks:
                raise RuntimeError(
                    f"drjit.enable_grad(): cannot track derivatives with respect to {a!r}: to "
                    "create a differentiable cooperative vector, construct it from grad-enabled "
                    "components. That is dr.enable_grad(x, y); v = nn.CoopVec(x, y)"
                )
            a._var = graph.new_input(a._node)


@explains_misuse
def enable_grad(*args: object) -> None:
    """Enables derivative tracking for arrays from now on.

    Arrays that already depend on a tracked one do not change. Within `suspend_grad`, this has no
    effect.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> x.grad
    [6]
    """
    for a in args:
        if isinstance(a, (str, bytes, FunctionType)):
            raise TypeError(
                f"dr.enable_grad(): expected arrays, or trees of them, got {a!r} of type "
                f"{type_label(a)}"
            )
    _track(args, True)


@explains_misuse
def disable_grad(*args: object) -> None:
    """Detaches arrays, in place, from the computation that produced them.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.disable_grad(x); dr.grad_enabled(x)
    False
    """
    _track(args, False)


@explains_misuse
def grad_enabled(*args: object) -> bool:
    """Returns whether derivatives are tracked for any of the arrays.

    >>> dr.grad_enabled(ad.Float(1))
    False
    """
    return bool(variables(args))


@signatures.derivative
@explains_misuse
def detach(arg: T, preserve_type: bool = True) -> T:
    """Returns the same values without derivatives. By default they keep their types; otherwise they
    get the non-differentiable counterparts.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> dr.grad_enabled(dr.detach(x)), type(dr.detach(x, preserve_type=False))
    (False, <class 'drjit.llvm.Float'>)
    """
    if events.sink is not None and variables((arg,)):
        graph.lose("detached")
    return pytree.map_tree(lambda v: _detached(v, preserve_type), arg, what="dr.detach")


def _detached(value: Any, preserve_type: bool) -> Any:
    if isinstance(value, KernelValue):
        return value._with(Value(value._node), not preserve_type)
    if not isinstance(value, ArrayBase) or not value._diff:
        return value
    cls = detached_class(type(value), preserve_type)
    return converted(value, cls, lambda a, c: leaf.wrap(c, a._node))


# ---- Gradients


@signatures.derivative
@explains_misuse
def grad(arg: T, preserve_type: bool = True) -> T:
    """Returns the gradients of arrays in the structure of the argument, with zeros where there is
    none.

    >>> x = ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.backward(x * x)
    >>> dr.grad({"x": x})
    {'x': [2, 4]}
    """
    return pytree.map_tree(lambda v: _gradient(v, preserve_type), arg, what="dr.grad")


def _gradient(value: Any, preserve_type: bool) -> Any:
    if isinstance(value, KernelValue):
        return value._with(_gradient_of(value), not preserve_type)
    if not isinstance(value, ArrayBase):
        return 0 if type(value) is int else 0.0
    return converted(value, detached_class(type(value), preserve_type), _leaf_gradient)


def _leaf_gradient(a: Any, cls: Any) -> Any:
    return leaf.from_value(cls, _gradient_of(a)) if isinstance(a, ArrayBase) else type(a)(0)


def _gradient_of(a: Any) -> Value:
    """Returns the gradient of a one-dimensional array or cooperative vector."""
    v = variable(a)
    if v is None or v.grad is None:
        graph.lose("not enabled" if a._var is None else "suspended" if v is None else "not reached")
        return Value(ir.literal(a._node.dtype, 0, a._node.size))
    gradient = Value(v.grad, v.grad_var)
    if v.grad_var is not None:
        gradient = memory_rules.copy(gradient)  # other computations may start from that variable
    return gradient if v.grad.size != 1 else memory_rules.broadcast_to(gradient, a._node.size)


def _pairs(target: Any, source: Any, what: str) -> Iterator[tuple[Any, Any]]:
    """Yields corresponding leaves of two PyTrees. An array may be paired with a value that converts
    to it, and a structure with a single number or array for all of its fields."""
    branches = pytree.children(target)
    if branches is None:
        yield target, source
        return
    other = pytree.children(source)
    is_value = issubclass(type(source), (bool, int, float, ArrayBase))
    if is_value and pytree.role(type(target)) == "struct":
        for _, t in branches:
            yield from _pairs(t, source, what)
        return
    others = [v for _, v in other or ()]
    matches = other is not None and len(others) == len(branches)
    if matches and isinstance(target, dict):
        matches = isinstance(source, dict) and target.keys() == source.keys()
        others = [source[k] for k in target] if matches else []
    elif matches and not isinstance(target, (list, tuple)):
        matches = type(source) is type(target)
    if not matches or isinstance(source, dict) != isinstance(target, dict):
        raise TypeError(
            f"{what}(): incompatible function arguments: the gradients, of type "
            f"{type_label(source)}, do not have the structure of the variables, of type "
            f"{type_label(target)}"
        )
    for (_, t), s in zip(branches, others, strict=True):
        yield from _pairs(t, s, what)


def _assignments(
    target: Any, source: Any, what: str, by_lanes: bool = False
) -> list[tuple[Var, Value]]:
    """Returns variables, each as often as it occurs, and the gradients to assign to them or
    (`by_lanes`) the contributions of those lanes that execute the current code."""
    fit = _of_lanes if by_lanes and region() else fit_gradient
    if source is None:
        raise TypeError(
            f"{what}(): incompatible function arguments: expected an array or a number as the "
            "gradient, not None"
        )
    result: list[tuple[Var, Value]] = []
    is_array = isinstance(target, ArrayBase)
    for t, s in ((target, source),) if is_array else _pairs(target, source, what):
        if isinstance(t, KernelValue):
            v = visible(t._var)
            if v is not None:
                result.append((v, fit(v, t._like(s, what).node, what)))
            continue
        if not isinstance(t, ArrayBase) or not t._diff or not t._dtype.is_float:
            continue
        if t._kind == "tensor" and not isinstance(s, (int, float, type(t), type(t._array))):
            s = type(t)(s)
        if t._kind == "tensor":  # compares the number of entries, not the shape
            t, s = t._array, s._array if isinstance(s, type(t)) else s
        if type(s) is not type(t):
            s = type(t)(s)
        mine, theirs = pytree.leaf_arrays(t), pytree.leaf_arrays(s)
        if len(theirs) == 1:
            theirs = theirs * len(mine)
        if len(mine) != len(theirs):
            raise RuntimeError(
                f"{what}(): attempted to store a gradient with {len(theirs)} components in a "
                f"variable with {len(mine)}"
            )
        for a, b in zip(mine, theirs, strict=True):
            v = variable(a)
            if v is not None:
                if launch.on_change is not None:
                    launch.on_change(a, a._node)
                result.append((v, fit(v, b._node, what)))
    return result


def fit_gradient(v: Var, gradient: ir.Node, what: str) -> Value:
    """Returns a gradient of the variable's size: a single entry is broadcast, and several are
    summed if the variable has one entry (in code that runs for several lanes, where it leaves
    that code)."""
    size = gradient.size
    if size in (1, v.size):
        return as_value((gradient, None))
    if v.size == 1:
        from ...ad.sink import summed_contribution  # which programs without derivatives do not need

        return summed_contribution(v, Value(gradient))
    raise RuntimeError(
        f"{what}(): attempted to store a gradient of size {size} into AD variable a{v.serial}, "
        f"which has size {v.size}{graph.location_note(v)}"
    )


@explains_misuse
def set_grad(target: object, source: object) -> None:
    """Sets the gradients of arrays; the new gradients are detached. A source with one entry is
    broadcast, as is a number or an array paired with a structure. Arrays whose derivatives are not
    tracked are ignored. If a variable occurs several times, its gradients add up.

    Raises:
        RuntimeError: the sizes are incompatible.
        TypeError: the PyTrees differ in structure, or the source does not convert to an array.

    >>> x = ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.set_grad(x, 5)
    >>> x.grad
    [5, 5]
    """
    assignments = _assignments(target, source, "dr.set_grad")
    if region() and not recording():
        assignments = [(v, _in_active_lanes(v, g)) for v, g in assignments]
    with schedule.lock:
        clear_grad(target)
        for v, g in assignments:
            _add(v, g)


def _in_active_lanes(v: Var, g: Value) -> Value:
    """Returns a new gradient, and the present one in lanes that do not execute the current code."""
    mask, before = active(), v.grad
    if v.size == 1 and v in (graph.scope() or graph.OUTSIDE).arguments:
        return _of_lanes(v, g.node, "dr.set_grad")
    if v.size == 1 or mask.size != v.size or v.rule is memory_rules.SCATTER:
        return g
    before = Value(ir.literal(v.dtype, 0) if before is None else before, v.grad_var)
    return RECORDED.select(as_value((mask, None)), g, before)


def _add(v: Var, g: Value) -> None:
    v.grad, v.grad_var = g if v.grad is None else RECORDED.add(as_value((v.grad, v.grad_var)), g)


@explains_misuse
def accum_grad(target: object, source: object) -> None:
    """Adds to the gradients of arrays; see `set_grad`.

    >>> x = ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.accum_grad(x, 5); dr.accum_grad(x, ad.Float(1, 2))
    >>> x.grad
    [6, 7]
    """
    accumulate(_assignments(target, source, "dr.accum_grad", True))


def _of_lanes(v: Var, gradient: ir.Node, what: str) -> Value:
    """Returns the contribution of the lanes that execute the current code to the gradient of a
    variable."""
    from ...ad.sink import in_active_lanes  # see `fit_gradient`

    code = region()
    if code is not None and v.serial < code.begin and not recording():
        gradient = in_active_lanes(v, Value(gradient)).node
    return fit_gradient(v, gradient, what)


def accumulate(gradients: list[tuple[Var, Value]]) -> None:
    """Adds to the gradients of variables."""
    inner = graph.scope() if recording() else None
    outer_gradients = None if inner is None else inner.outer_gradients
    with schedule.lock:  # another thread may be adding to the same ones
        for v, g in gradients:
            if outer_gradients is not None and outer_gradients.takes(v):
                outer_gradients.add(v, g.node)
                continue
            _add(v, g)


@explains_misuse
def clear_grad(arg: object, /) -> None:
    """Sets the gradients of arrays to 0.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> x.grad = 5
    >>> dr.clear_grad(x)
    >>> x.grad
    [0]
    """
    for a in leaves((arg,)):  # even if suspended
        v = a._var or (scatter_target.variable(a) if graph.scopes else None)
        if v is not None:
            if launch.on_change is not None:
                launch.on_change(a, a._node)
            v.grad = v.grad_var = None


@explains_misuse
def replace_grad(arg0: T, arg1: object, /) -> T:
    """Returns the values of the first argument with the derivatives of the second.

    Raises:
        RuntimeError: the types or sizes are incompatible.

    >>> x = ad.Float(2)
    >>> dr.enable_grad(x)
    >>> y = dr.replace_grad(ad.Float(10), x * x)
    >>> dr.backward(y)
    >>> y, x.grad
    ([10], [4])
    """
    for array, other in ((arg0, arg1), (arg1, arg0)):
        if isinstance(array, ArrayBase) and isinstance(other, (list, tuple)):
            return _replaced(arg0, arg1)  # not a PyTree, but convertible to an array
    if not pytree.is_container(arg0):
        return pytree.map_tree(_replaced, arg0, arg1, what="dr.replace_grad")
    try:
        return pytree.map_tree(_replaced_entry, arg0, arg1, what="dr.replace_grad")
    except (IncompatibleError, ir.SizeError) as error:
        raise IncompatibleError(f"{_arguments(arg0, arg1)}. {error}") from error


def relative_grad(x: T) -> T:
    """Returns 1 with the derivative of `x` relative to `x`: the gradient is that of `log(x)`, and 0
    where `x` is 0.

    >>> x = ad.Float(2, 4)
    >>> dr.enable_grad(x)
    >>> y = dr.relative_grad(x * x)
    >>> dr.backward(y)
    >>> y, x.grad
    ([1, 1], [1, 0.5])
    """
    value = detach(x)
    return replace_grad(create.ones_like(x), x * select(value != 0, 1 / value, 0))


def _arguments(a: Any, b: Any) -> str:
    return (
        "dr.replace_grad(): error encountered while processing arguments of type "
        f"'{type_label(a)}' and '{type_label(b)}'"
    )


def _replaced_entry(a: Any, b: Any) -> Any:
    """Implements `replace_grad` for entries of PyTrees, which are not promoted."""
    if type(a) is not type(b):
        raise IncompatibleError(f"{_arguments(a, b)}: incompatible input types.")
    return _replaced(a, b)


def _replaced(a: Any, b: Any) -> Any:
    if isinstance(a, KernelValue):
        return a._with(_with_gradient(Value(a._node), a._like(b, "dr.replace_grad")))
    if not isinstance(a, ArrayBase) and not isinstance(b, ArrayBase):
        return a
    a, b = promote(a, b, name="dr.replace_grad")
    _check_form(a, b)
    if not a._diff:
        return a
    gradients = iter(pytree.leaf_arrays(b))

    def replaced(x: Any, cls: Any) -> Any:
        return leaf.from_value(cls, _with_gradient(leaf.value(x), leaf.value(next(gradients))))

    return converted(a, type(a), replaced)


def _check_form(a: Any, b: Any) -> None:
    """Raises a RuntimeError if arrays of the same type have different numbers of components, or
    tensors different shapes."""
    if a._kind == "tensor" and a._shape != b._shape:
        raise IncompatibleError(
            f"{_arguments(a, b)}: incompatible tensor shape ({a._shape} and {b._shape})"
        )
    if a._kind == "nested":
        n, m = len(a._components), len(b._components)
        if n != m:
            raise IncompatibleError(
                f"{_arguments(a, b)}: incompatible input lengths ({n} and {m})."
            )
        if issubclass(a.Value, ArrayBase):
            for x, y in zip(a._components, b._components, strict=True):
                _check_form(x, y)


def _with_gradient(a: Value, b: Value) -> Value:
    """Returns the first value with the derivatives of the second."""
    n, m = a.node.size, b.node.size
    if n != m and (1 not in (n, m) or 0 in (n, m)):
        raise ir.SizeError(f"dr.replace_grad(): incompatible input sizes ({n} and {m}).")
    size = m if n == 1 else n
    v = visible(b.var)
    if v is not None:
        v = memory_rules.broadcast_to(Value(b.node, v), size).var
    return Value(ir.resize(a.node, size), v)


ArrayBase.grad = property(
    frames.guard(lambda self: _gradient(self, True)),
    frames.guard(set_grad),
    doc="The gradient; see `dr.grad` and `dr.set_grad`.",
)

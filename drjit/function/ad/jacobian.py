"""Matrices of derivatives: of all entries of a result by all entries of an argument, or those of
each lane."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, Literal

from ...ad import memory_rules
from ...ad.graph import ADFlag, ADMode
from ...array import leaf, pytree
from ...array.base import ArrayBase, type_label
from ...array.meta import type_name
from ...array.special import from_rows
from ...array.table import SPECS
from ...jit.ir.scope import recording
from ..conversion import converted, lanes, map_leaves, related, shape_of, tensor, tensor_class
from ..data.reorder import moveaxis
from ..data.shape import concat
from ..evaluation import eval as evaluate
from ..math.arithmetic import select
from .grad import clear_grad, detach, enable_grad, grad, set_grad
from .propagate import backward, enqueue, resume_grad, resumed, suspend_grad, traverse

_ENTRIES = 1 << 27  # the largest number for which a result is computed


def jacobian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    mode: Literal["reverse", "forward"] = "reverse",
    per_lane: bool = False,
) -> Callable[..., Any]:
    """Returns a function that takes the arguments of `f` and returns the derivatives of its result
    with respect to one argument, or to several, as a tuple. Both are differentiable arrays or
    PyTrees of such.

    By default, lanes are entries like any others: the derivatives of an array of shape S by an
    argument of shape T are a tensor of shape S + T, as those of `jax.jacobian`. This takes a
    traversal for each entry of the result, or with `mode="forward"` for each one of the argument:
    forward mode is the better choice if the result is larger.

    With `per_lane`, each lane is an instance of its own, as if `jax.vmap` were applied: a lane of
    the result may depend on the same lane of the arguments only. There is a traversal for each
    component, and derivatives are arrays of lanes: those of a one-dimensional array by an argument
    have the form of the argument, and those of an `Array3f` by an `Array3f` are a `Matrix3f`. Of
    others, there is a list of rows, and so on.

    Derivatives of `f` with respect to anything else are not tracked meanwhile, and those returned
    have no derivatives themselves.

    Raises:
        TypeError: an argument or the result has no differentiable arrays; or tensors, with
            `per_lane`.
        RuntimeError: the result would have more than 2²⁷ entries.

    >>> dr.jacobian(lambda x: x * x)(Float(1, 2))
    [[2, 0],
     [0, 4]]
    >>> dr.jacobian(lambda p, t: Array2f(p.x * p.y, p.y * t), per_lane=True)(Array2f(1, [2, 3]), 5)
    [[[2, 1],
      [0, 5]],
     [[3, 1],
      [0, 5]]]
    """
    what = "dr.jacobian"
    if mode not in ("reverse", "forward"):
        raise RuntimeError(f"{what}(): 'mode' must be 'reverse' or 'forward', not {mode!r}")

    @wraps(f)
    def derivatives(*args: Any, **kwargs: Any) -> Any:
        inputs, y = _called(f, args, kwargs, argnums, what, per_lane)
        return _table(y, inputs, mode, per_lane, what)

    return derivatives


def hessian(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, *, per_lane: bool = False
) -> Callable[..., Any]:
    """Returns a function that takes the arguments of `f` and returns the second derivatives of its
    result, a single number, with respect to one argument, or to several, as a tuple of tuples.

    These are the derivatives of the gradient in the form that `jacobian` gives them: for an
    argument of shape S, a tensor of shape S + S; with `per_lane`, the result has a number in each
    lane, and the Hessian of an `Array3f` is a `Matrix3f`.

    Raises:
        TypeError, RuntimeError: as for `jacobian`, or the result is not a number.

    >>> dr.hessian(lambda x: dr.sum(x) ** 3)(TensorXf([1, 2]))
    [[18, 18],
     [18, 18]]
    >>> dr.hessian(lambda p: p.x * p.x * p.y, per_lane=True)(Array2f(1, [2, 3]))
    [[[4, 2],
      [2, 0]],
     [[6, 2],
      [2, 0]]]
    """
    what = "dr.hessian"

    @wraps(f)
    def derivatives(*args: Any, **kwargs: Any) -> Any:
        inputs, y = _called(f, args, kwargs, argnums, what, per_lane)
        found = pytree.leaf_arrays(y)
        if len(found) != 1 or (len(found[0]) != 1 and not per_lane):
            shown = " and ".join(str(shape_of(a, what)) for a in pytree.arrays(y))
            raise TypeError(f"{what}(): the result must be one number, but has the shape {shown}")
        with resumed():
            backward(y, flags=ADFlag.Default | ADFlag.KeepGraph | ADFlag.AllowNoGrad)
            gradient = grad(inputs)
            clear_grad(inputs)
        try:
            return _table(gradient, inputs, "reverse", per_lane, what)
        finally:  # frees what the gradient refers to
            clear_grad([inputs, gradient])

    return derivatives


def _called(
    f: Callable, args: tuple, kwargs: dict, argnums: Any, what: str, per_lane: bool
) -> tuple[Any, Any]:
    """Returns copies of the arguments to differentiate by, and the result for them."""
    values = list(args)
    chosen = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if not all(-len(args) <= k < len(args) for k in chosen):
        raise ValueError(f"{what}(): 'argnums' is {argnums!r}, but there are {len(args)} arguments")
    sizes = [len(a) for a in pytree.leaf_arrays(args)] if per_lane else []
    width = max(sizes, default=1)
    for k in chosen:
        values[k] = pytree.map_tree(lambda v: _even(v, width), detach(args[k]))
        _check(values[k], f"{what}(): argument {k}", per_lane)
    inputs = values[chosen[0]] if isinstance(argnums, int) else tuple([values[k] for k in chosen])
    with resumed():
        enable_grad(inputs)
    with suspend_grad(), resume_grad(inputs):
        # Of the result, copies: variables at which traversals begin or end.
        y = pytree.map_tree(lambda v: _even(v, 1, copied=True), f(*values, **kwargs))
    _check(y, f"{what}(): the result", per_lane)
    others = {len(a) for a in pytree.leaf_arrays(y) if a._var is not None} - {width}
    if per_lane and others:
        raise RuntimeError(
            f"{what}(): with 'per_lane', a result has as many lanes as the arguments, {width}, but "
            f"there is one of {max(others)}"
        )
    return inputs, y


def _has_entries(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._diff and value._dtype.is_float


def _check(tree: Any, what: str, per_lane: bool) -> None:
    found = [a for a in pytree.arrays(tree) if _has_entries(a)]
    if not found:
        raise TypeError(
            f"{what}, of type {type_label(tree)}, has no array of floating point numbers that "
            "derivatives are tracked for, such as drjit.auto.ad.Float"
        )
    if per_lane and any(a._kind == "tensor" for a in found):
        raise TypeError(f"{what} is a tensor, which has no lanes as 'per_lane' needs them")


def _even(value: Any, width: int, copied: bool = False) -> Any:
    """Returns an array whose components all have as many lanes as the widest, or `width`."""
    if not _has_entries(value):
        return value
    if value._kind != "tensor":
        width = max([width, *[len(a) for a in pytree.leaf_arrays(value)]])
        value = map_leaves(value, lambda a: leaf.resize(a, width) if len(a) == 1 else a)
    if not copied:
        return value
    return map_leaves(value, lambda a: leaf.from_value(type(a), memory_rules.copy(leaf.value(a))))


def _table(y: Any, inputs: Any, mode: str, per_lane: bool, what: str) -> Any:
    """Returns the derivatives of every array of a result with respect to every one of the inputs,
    as a PyTree like the result of PyTrees like the inputs."""
    start, end = (y, inputs) if mode == "reverse" else (inputs, y)
    of_start, of_end = ([a for a in pytree.arrays(t) if _has_entries(a)] for t in (start, end))
    _check_size(of_start, of_end, per_lane, what)
    # By array where traversals end, the derivatives of its entries, for each traversal.
    found = {
        id(a): [
            [list(pytree.leaf_arrays(g)) for g in t] for t in _traversals(a, of_end, mode, per_lane)
        ]
        for a in of_start
    }
    ends = {id(a): k for k, a in enumerate(of_end)}

    def block(o: Any, i: Any) -> Any:
        a, b = (o, i) if mode == "reverse" else (i, o)
        passes = [t[ends[id(b)]] for t in found[id(a)]]
        if per_lane:
            if mode == "forward":  # components of the result by those of the argument
                passes = [list(row) for row in zip(*passes, strict=True)]
            return _of_lanes(o, i, iter(passes))
        parts = [x for leaves in passes for x in leaves]
        flat = concat(parts) if parts else type(pytree.leaf_arrays(b)[0])()
        made = tensor(tensor_class(type(flat)), flat, (*shape_of(a, what), *shape_of(b, what)))
        if mode == "reverse":
            return made
        n, m = len(shape_of(i, what)), len(shape_of(o, what))
        return moveaxis(made, tuple(range(n)), tuple(range(m, m + n)))

    def by_inputs(o: Any) -> Any:
        if not _has_entries(o):
            return o
        return pytree.map_tree(lambda i: block(o, i) if _has_entries(i) else i, inputs)

    return pytree.map_tree(by_inputs, y)


def _traversals(start: Any, ends: list[Any], mode: str, per_lane: bool) -> Iterator[list[Any]]:
    """Yields the derivatives at the arrays where traversals end, for each that begins at an
    entry, or (`per_lane`) at all lanes of a component."""
    direction = ADMode.Backward if mode == "reverse" else ADMode.Forward
    for a in pytree.leaf_arrays(start):
        n = len(a)
        for k in range(1 if per_lane else n):
            if a._var is not None:
                at = None if per_lane or n == 1 else lanes(type(a), n) == k
                with resumed():
                    set_grad(a, type(a)(1) if at is None else select(at, type(a)(1), 0))
                    enqueue(direction, a)
                    traverse(direction, ADFlag.ClearVertices)
            with resumed():
                gradients = detach(grad(ends))
                clear_grad(ends)
            if not recording():
                evaluate(gradients)  # the kernel of the next traversal is the same
            yield gradients


def _of_lanes(o: Any, i: Any, rows: Iterator[list[Any]]) -> Any:
    """Returns the derivatives of an array by another one, from those of its components."""
    if o._kind == "leaf":
        values = iter(next(rows))
        return converted(i, type(i), lambda *_: next(values))
    parts = [_of_lanes(c, i, rows) for c in o._components]
    n = len(parts)
    square = o.__meta__.kind == "vector" and i.__meta__.kind == "vector" and len(i) == n
    if square and type_name("matrix", i._dtype, (n, n)) in SPECS and len(i.__meta__.dims) == 1:
        return from_rows(
            related(type(i), kind="matrix", dims=(n, n)), [p._components for p in parts]
        )
    return parts


def _check_size(starts: list[Any], ends: list[Any], per_lane: bool, what: str) -> None:
    n, m = (sum(len(x) for x in pytree.leaf_arrays(a)) for a in (starts, ends))
    if n * m > _ENTRIES and not per_lane:
        raise RuntimeError(
            f"{what}(): there are {n} times {m} derivatives. If the lanes of the result depend on "
            "the same lanes of the arguments only, pass per_lane=True"
        )

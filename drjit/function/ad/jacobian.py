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
from ..data.reorder import reshaped, transpose
from ..data.shape import concat
from ..evaluation import eval as evaluate
from .grad import clear_grad, detach, enable_grad, grad, set_grad
from .propagate import backward, propagate, resume_grad, resumed, suspend_grad

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
    width = max(map(len, pytree.leaf_arrays(args)), default=1) if per_lane else 1
    for k in chosen:
        values[k] = _variables(detach(args[k]), f"{what}(): argument {k}", per_lane, width)
    inputs = values[chosen[0]] if isinstance(argnums, int) else tuple([values[k] for k in chosen])
    with resumed():
        enable_grad(inputs)
    with suspend_grad(), resume_grad(inputs):
        y = _variables(f(*values, **kwargs), f"{what}(): the result", per_lane)
    others = {len(a) for a in pytree.leaf_arrays(y) if a._var is not None} - {width}
    if per_lane and others:
        raise RuntimeError(
            f"{what}(): with 'per_lane', a result has as many lanes as the arguments, {width}, but "
            f"there is one of {max(others)}"
        )
    return inputs, y


def _has_entries(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._diff and value._dtype.is_float


def _mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    return pytree.map_tree(lambda v: f(v) if _has_entries(v) else v, tree)


def _variables(tree: Any, what: str, per_lane: bool, width: int = 1) -> Any:
    """Returns copies of arrays, at which traversals begin or end: all components of one have as
    many lanes as the widest, or `width`."""
    found = [a for a in pytree.arrays(tree) if _has_entries(a)]
    if not found:
        raise TypeError(
            f"{what}, of type {type_label(tree)}, has no array of floating point numbers that "
            "derivatives are tracked for, such as drjit.auto.ad.Float"
        )
    if per_lane and any(a._kind == "tensor" for a in found):
        raise TypeError(f"{what} is a tensor, which has no lanes as 'per_lane' needs them")

    def copied(value: Any) -> Any:
        size = max([width, *map(len, pytree.leaf_arrays(value))])
        even = map_leaves(value, lambda a: leaf.resize(a, size) if len(a) == 1 else a)
        return map_leaves(even, _copy)

    return _mapped(copied, tree)


def _copy(a: Any) -> Any:
    return leaf.from_value(type(a), memory_rules.copy(leaf.value(a)))


def _table(y: Any, inputs: Any, mode: str, per_lane: bool, what: str) -> Any:
    """Returns the derivatives of every array of a result with respect to every one of the inputs,
    as a PyTree like the result of PyTrees like the inputs."""
    outer, inner = (list(filter(_has_entries, pytree.leaf_arrays(t))) for t in (y, inputs))
    n, m = sum(map(len, outer)), sum(map(len, inner))
    if n * m > _ENTRIES and not per_lane:
        raise RuntimeError(
            f"{what}(): there are {n} times {m} derivatives. If the lanes of the result depend on "
            "the same lanes of the arguments only, pass per_lane=True"
        )
    found = _derivatives(outer, inner, mode, per_lane)

    def block(o: Any, i: Any) -> Any:
        columns = pytree.leaf_arrays(i)
        rows = [[found[id(a), id(b)] for b in columns] for a in pytree.leaf_arrays(o)]
        if per_lane:
            return _of_lanes(o, i, iter(rows))
        whole = concat([concat(row, axis=1) for row in rows])
        return reshaped(whole, (*shape_of(o, what), *shape_of(i, what)))

    return _mapped(lambda o: _mapped(lambda i: block(o, i), inputs), y)


def _derivatives(outer: list[Any], inner: list[Any], mode: str, per_lane: bool) -> dict:
    """Returns the derivatives of one-dimensional arrays by others, for each pair of their ids:
    matrices, or (`per_lane`) arrays."""
    reverse = mode == "reverse"
    starts, ends = (outer, inner) if reverse else (inner, outer)
    found = {}
    for a in starts:
        cls, n = type(a), len(a)
        seeds = [1] if per_lane else [cls(lanes(cls, n) == k) for k in range(n)]
        passes = [_traversed(a, seed, ends, reverse) for seed in seeds]
        for b, *parts in zip(ends, *passes, strict=True):
            made = concat(parts or [type(b)()])
            if not per_lane:
                made = tensor(tensor_class(type(b)), made, (n, len(b)))
                made = made if reverse else transpose(made)
            found[(id(a), id(b)) if reverse else (id(b), id(a))] = made
    return found


def _traversed(start: Any, seed: Any, ends: list[Any], reverse: bool) -> list[Any]:
    """Returns the derivatives at `ends` for one at the start."""
    direction = ADMode.Backward if reverse else ADMode.Forward
    with resumed():
        if start._var is not None:
            set_grad(start, seed)
            propagate(direction, start, ADFlag.ClearVertices)
        gradients = detach(grad(ends))
        clear_grad(ends)
    if not recording():
        evaluate(gradients)  # the kernel of the next traversal is the same
    return gradients


def _of_lanes(o: Any, i: Any, rows: Iterator[list[Any]]) -> Any:
    """Returns the derivatives of an array by another one, from those of its components."""
    if o._kind == "leaf":
        values = iter(next(rows))
        return converted(i, type(i), lambda *_: next(values))
    parts = [_of_lanes(c, i, rows) for c in o._components]
    n, kinds = len(parts), (o.__meta__.kind, i.__meta__.kind)
    square = kinds == ("vector", "vector") and len(i.__meta__.dims) == 1 and len(i) == n
    if not square or type_name("matrix", i._dtype, (n, n)) not in SPECS:
        return parts
    matrix = related(type(i), kind="matrix", dims=(n, n))
    return from_rows(matrix, [row._components for row in parts])

"""Packing: arrays move into one shared buffer, and each module into a buffer of its own."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar, cast, overload

from ..array import pytree
from ..array.base import ArrayBase, type_label
from ..array.derived import derived
from ..function.data.shape import concat
from .matrix import LayoutName, MatrixView, check, entries, viewed
from .module import Module

ModuleT = TypeVar("ModuleT", bound=Module)


Layout: TypeAlias = Literal["inference", "training"]
Container: TypeAlias = list[Any] | tuple[Any, ...] | dict[Any, Any]


@overload
def pack(arg: ModuleT, /, *, layout: Layout = "inference") -> ModuleT: ...
@overload
def pack(arg: ModuleT, layout: Layout, /) -> ModuleT: ...
@overload
def pack(arg: ArrayBase | MatrixView, /, *, layout: Layout = "inference") -> MatrixView: ...
@overload
def pack(arg: ArrayBase | MatrixView, layout: Layout, /) -> MatrixView: ...
@overload
def pack(arg: Container, /, *, layout: Layout = "inference") -> Any: ...
@overload
def pack(arg: Container, layout: Layout, /) -> Any: ...
@overload
def pack(*args: ArrayBase | MatrixView, layout: Layout = "inference") -> tuple[MatrixView, ...]: ...
@overload
def pack(
    *args: Module | Container | ArrayBase | MatrixView, layout: Layout = "inference"
) -> tuple[Any, ...]: ...
def pack(*args: Any, layout: Layout = "inference") -> Any:
    """Replaces the arrays, tensors and views in PyTrees by views of one new buffer. Returns a tuple
    if there are several arguments. A packed module is a network for cooperative vectors.

    Each module among the arguments gets its own buffer, which becomes the only entry, `weights`, of
    the packed module's mapping. Reverse-mode derivatives with respect to matrices need the layout
    `training`. Packing is differentiable: gradients of the buffer propagate to what was packed, any
    number of times. After a single PyTree, the layout may also be the second positional argument.

    Raises:
        TypeError: arrays have different element types, or are neither tensors nor one-dimensional
            arrays.
        RuntimeError: the layout is neither `inference` nor `training`; see also `view`.

    >>> from drjit.auto.ad import TensorXf16
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1), prefix="mlp").alloc(TensorXf16)
    >>> net = nn.pack(net, layout="training")
    >>> net["mlp.weights"].shape
    (13,)
    >>> A, b = nn.pack(TensorXf16([[1, 2], [3, 4]]), TensorXf16([5, 6]), layout="training")
    >>> A.layout, b.offset, b.buffer
    ('training', 4, [1, 2, 3, 4, 5, 6])
    """
    if len(args) == 2 and isinstance(args[1], str):
        return pack(args[0], layout=cast(Any, args[1]))
    if layout not in ("inference", "training"):
        raise RuntimeError(f"{_WHAT}: 'layout' must be 'inference' or 'training', not {layout!r}")
    rest = [k for k, arg in enumerate(args) if not isinstance(arg, Module)]
    found = list(args)
    for group in (rest, *[[k] for k in range(len(args)) if k not in rest]):
        made = _packed([args[k] for k in group], layout)
        for k, arg in zip(group, made, strict=True):
            found[k] = arg
    return found[0] if len(found) == 1 else tuple(found)


_WHAT = "drjit.nn.pack()"


def _packed(args: Sequence[Any], layout: LayoutName) -> Sequence[Any]:
    """Returns PyTrees with views of one new buffer."""
    views: list[MatrixView] = []
    for leaf in pytree.leaves(args, MatrixView):
        if isinstance(leaf, (ArrayBase, MatrixView)):
            v = leaf if isinstance(leaf, MatrixView) else viewed(leaf, _WHAT)
            check(v, _WHAT)
            views.append(v)
    if not views:
        return args
    types = {type(v.buffer) for v in views}
    if len(types) > 1:
        names = " and ".join(sorted(type_label(t) for t in types))
        raise TypeError(f"{_WHAT}: all arrays must be of the same element type, got {names}")

    def joined(*buffers: Any) -> list[Any]:
        parts = [entries(v.changed(buffer=b)) for v, b in zip(views, buffers, strict=True)]
        return [type(parts[0])(parts[0]) if len(parts) == 1 else concat(parts)]

    (buffer,) = derived(joined, *[v.buffer for v in views])
    placed = iter(_place_views(views, buffer, layout))

    def packed(leaf: Any) -> Any:
        return next(placed) if isinstance(leaf, (ArrayBase, MatrixView)) else leaf

    return pytree.map_tree(packed, args, stop=MatrixView)


def _place_views(views: list[MatrixView], buffer: Any, layout: LayoutName) -> list[MatrixView]:
    """Returns the views, placed one after the other in a buffer."""
    found = []
    offset = 0
    for v in views:
        rows, columns = v.shape
        found.append(
            v.changed(
                buffer=buffer,
                offset=offset,
                stride=columns,
                size=rows * columns,
                layout="row_major" if columns == 1 else layout,
            )
        )
        offset += rows * columns
    return found

"""Matrices for products with cooperative vectors: views of a shared buffer, and the product itself.

All layouts store matrices row by row, the order that kernels read fastest. They differ in the
operations that a view allows.
"""

from operator import index
from typing import Any, Literal, TypeVar, TypeVarTuple, overload

from ..ad import vector as derivatives
from ..ad.graph import as_value
from ..array import pytree, table
from ..array.base import ArrayBase, BoundsError, IncompatibleError, type_label
from ..function.ad.grad import grad
from ..function.data.create import arange
from ..function.data.memory import gather
from ..jit.ir import dtype as dt
from ..jit.trace.feature_vectors import Matrix, matrix
from .coopvec import CoopVec, wrap

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

LAYOUTS = ("inference", "training", "row_major")
LayoutName = Literal["inference", "training", "row_major"]

_REPR = """drjit.nn.MatrixView[
    dtype={dtype},
    layout="{layout}",
    shape={shape},
    stride={stride},
    offset={offset}
    size={size}
    buffer=<{buffer} instance>
]"""


class MatrixView:
    """A matrix or vector in a buffer that may be shared with others.

    Element (r, c) is entry `offset + r * stride + c` of the one-dimensional array `buffer`; `size`
    is the number of entries from the first to the last. `shape` is the shape of the stored matrix,
    even if `transpose` says that products use its transpose. `layout` is `row_major`, or for a
    packed matrix `inference` or `training`.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import TensorXf
    >>> A = nn.view(TensorXf([[1, 2, 3], [4, 5, 6]]))
    >>> A.shape, A[:, 1:].shape, A.T.transpose
    ((2, 3), (2, 2), True)
    >>> TensorXf(A[:, 1:])
    [[2, 3],
     [5, 6]]
    """

    DRJIT_STRUCT = {  # noqa: RUF012
        "layout": str,
        "buffer": object,
        "dtype": dt.VarType,
        "shape": tuple,
        "offset": int,
        "size": int,
        "stride": int,
        "transpose": bool,
    }
    __slots__ = ("_layout", *[name for name in DRJIT_STRUCT if name != "layout"])

    def __init__(self) -> None:
        self._layout: LayoutName = "row_major"
        self.buffer: Any = None
        self.dtype = dt.VarType.Void
        self.shape, self.offset, self.size, self.stride = (0, 0), 0, 0, 0
        self.transpose = False

    @property
    def layout(self) -> LayoutName:
        """`row_major`, `inference` or `training`."""
        return self._layout

    @layout.setter
    def layout(self, value: LayoutName) -> None:
        if value not in LAYOUTS:
            raise RuntimeError(
                f"drjit.nn.MatrixView.layout: expected one of {', '.join(LAYOUTS)}, got {value!r}"
            )
        self._layout = value

    def changed(self, **fields: Any) -> "MatrixView":
        """Returns a view with other values for some of the fields."""
        made = MatrixView()
        for name in self.DRJIT_STRUCT:
            setattr(made, name, fields.get(name, getattr(self, name)))
        return made

    @property
    def T(self) -> "MatrixView":
        """The transpose; no data is moved."""
        return self.changed(transpose=not self.transpose)

    @property
    def grad(self) -> "MatrixView":
        """The gradient of the matrix, as a view of the buffer's gradient."""
        return self.changed(buffer=grad(self.buffer))

    def __getitem__(self, arg: int | slice | tuple[int | slice, int | slice]) -> "MatrixView":
        """Selects rows and columns of the stored matrix, each by an index or a slice.

        Raises:
            RuntimeError: the matrix is packed, or the selection is empty.
            IndexError: an index is out of bounds.
            TypeError: an index is neither an integer nor a slice, or there are more than two.
        """
        if self.layout != "row_major":
            raise RuntimeError(
                "drjit.nn.MatrixView.__getitem__(): a matrix in the layout "
                f"{self.layout!r} cannot be sliced. Slice it before drjit.nn.pack(), or unpack it "
                "with drjit.nn.unpack()."
            )
        keys = arg if isinstance(arg, tuple) else (arg,)
        if not 1 <= len(keys) <= 2:
            raise IncompatibleError(
                f"drjit.nn.MatrixView.__getitem__(): expected one or two indices, got {len(keys)}"
            )
        keys = (*keys, slice(None))[:2]
        rows, columns = [_range(k, n) for k, n in zip(keys, self.shape, strict=True)]
        if len(rows) == 0 or len(columns) == 0:
            raise RuntimeError(
                f"drjit.nn.MatrixView.__getitem__(): no entry is left of shape {self.shape}"
            )
        if columns.step != 1 or rows.step < 1:
            raise RuntimeError(
                "drjit.nn.MatrixView.__getitem__(): columns have to be consecutive, and rows in "
                "increasing order"
            )
        shape = (len(rows), len(columns))
        stride = self.stride * rows.step
        return self.changed(
            shape=shape,
            stride=stride,
            offset=self.offset + rows.start * self.stride + columns.start,
            size=_extent(shape, stride),
        )

    def __matmul__(self, arg: CoopVec[Any]) -> CoopVec[Any]:
        if not isinstance(arg, CoopVec):
            return NotImplemented
        return matvec(self, arg)

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in self.DRJIT_STRUCT}
        return _REPR.format(**fields | {"buffer": type_label(self.buffer)})

    def _as_tensor(self, what: str) -> tuple[Any, tuple[int, ...]]:
        """Returns the entries in order, and their shape, for the tensor constructor."""
        if self.layout != "row_major":
            raise TypeError(
                f"{what}: the matrix is in the layout {self.layout!r}. Convert it back by "
                "drjit.nn.unpack() first."
            )
        if not self.transpose:
            return entries(self), self.shape
        rows, columns = self.shape
        return entries(self, by_columns=True), (columns, rows)


def _range(key: Any, n: int) -> range:
    if isinstance(key, slice):
        return range(n)[key]
    if not isinstance(key, int) or isinstance(key, bool):
        raise IncompatibleError(
            f"drjit.nn.MatrixView.__getitem__(): expected an int or a slice, got {type_label(key)}"
        )
    if not -n <= key < n:
        raise BoundsError(
            f"drjit.nn.MatrixView.__getitem__(): index {key} is out of bounds for {n} rows or "
            "columns"
        )
    key %= n
    return range(key, key + 1)


def _extent(shape: tuple[int, int], stride: int) -> int:
    return (shape[0] - 1) * stride + shape[1]


def entries(v: MatrixView, by_columns: bool = False) -> Any:
    """Returns the entries of a view as an array, row by row or column by column."""
    (rows, columns), buffer = v.shape, v.buffer
    whole = v.offset == 0 and v.stride == columns and rows * columns == len(buffer)
    if whole and not by_columns:
        return buffer
    place_of = arange(table.find(buffer._namespace, "leaf", dt.u32), rows * columns)
    if by_columns:
        entry = place_of // rows + place_of % rows * v.stride
    else:
        entry = place_of // columns * v.stride + place_of % columns
    return gather(type(buffer), buffer, entry + v.offset)


def view(arg: ArrayBase, /) -> MatrixView:
    """Returns a view of the entries of a two-dimensional tensor, or of a vector as a matrix with
    one column.

    Raises:
        TypeError: the argument is neither a tensor nor a one-dimensional traced array.
        RuntimeError: the tensor has more dimensions, or no entries.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import Float16
    >>> nn.view(Float16(1, 2, 3)).shape
    (3, 1)
    """
    return viewed(arg, "drjit.nn.view()")


def viewed(arg: Any, what: str) -> MatrixView:
    kind = arg._kind if isinstance(arg, ArrayBase) else None
    if kind not in ("leaf", "tensor") or not arg.__meta__.is_jit:
        raise TypeError(
            f"{what}: unsupported input of type {type_label(arg)}, expected a tensor such as "
            "TensorXf16 or a one-dimensional array"
        )
    shape, buffer = (arg._shape, arg._array) if kind == "tensor" else ((len(arg),), arg)
    if not 1 <= len(shape) <= 2:
        raise RuntimeError(f"{what}: a tensor must have 1 or 2 dimensions, not the shape {shape}")
    if 0 in shape:
        raise RuntimeError(f"{what}: an array without entries, of shape {shape}")
    made = MatrixView()
    made.buffer, made.dtype = buffer, buffer._dtype.var_type
    made.shape = shape if len(shape) == 2 else (shape[0], 1)
    made.stride = made.shape[1]
    made.size = _extent(made.shape, made.stride)
    return made


@overload
def unpack(arg: T, /) -> T: ...


@overload
def unpack(*args: *Ts) -> tuple[*Ts]: ...


def unpack(*args: Any) -> Any:
    """Replaces packed views in PyTrees by views in the layout `row_major`, which convert to
    tensors. Everything else stays as it is. Returns a tuple if there are several arguments.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import TensorXf16
    >>> A = nn.pack(TensorXf16([[1, 2], [3, 4]]))
    >>> TensorXf16(nn.unpack(A))
    [[1, 2],
     [3, 4]]
    """

    def unpacked(leaf: Any) -> Any:
        return leaf.changed(layout="row_major") if isinstance(leaf, MatrixView) else leaf

    found = tuple([pytree.map_tree(unpacked, arg, stop=MatrixView) for arg in args])
    return found[0] if len(found) == 1 else found


# Products


def check(v: MatrixView, what: str) -> None:
    """Raises a RuntimeError if a view exceeds its buffer, and a TypeError if its fields do not
    describe a matrix."""
    buffer = v.buffer
    if not isinstance(buffer, ArrayBase) or buffer._kind != "leaf":
        raise RuntimeError(
            f"{what}: the view refers to no one-dimensional array, but to {type_label(buffer)}"
        )
    try:
        rows, columns, stride, offset = map(index, (*v.shape, v.stride, v.offset))
    except TypeError:
        raise TypeError(
            f"{what}: the shape {v.shape!r}, the stride {v.stride!r} and the offset {v.offset!r} "
            "of the view are no integers"
        ) from None
    size = buffer._node.size  # type: ignore[attr-defined]
    inside = offset >= 0 and offset + (rows - 1) * stride + columns <= size
    if rows < 1 or columns < 1 or stride < columns or not inside:
        raise RuntimeError(
            f"{what}: a matrix of shape {v.shape} with stride {stride} at offset {offset} does not "
            f"lie within its buffer of {size} entries"
        )


def _check_operands(views: dict[str, Any], x: Any, what: str) -> None:
    """Raises a TypeError unless the operands are views and a vector."""
    for name, v in views.items():
        if not isinstance(v, MatrixView):
            hint = ""
            if isinstance(v, ArrayBase):
                hint = f". Pack it first: {name} = nn.pack({name}, layout='training')"
                if getattr(v, "_kind", None) in ("leaf", "tensor"):
                    hint = f" of shape {tuple(v.shape)}{hint}"
            raise TypeError(
                f"{what}: '{name}' must be a drjit.nn.MatrixView, got {type_label(v)}{hint}"
            )
    if not isinstance(x, CoopVec):
        raise TypeError(
            f"{what}: 'x' must be a cooperative vector, got {type_label(x)}; make one of it with "
            "drjit.nn.CoopVec()"
        )


def _operands(views: dict[str, Any], cls: Any, what: str) -> tuple[list[Matrix], Any]:
    """Returns where the entries of views are, and the class of the product of the matrix with
    features of class `cls`, which is differentiable if the matrix is.

    Raises:
        RuntimeError: a view exceeds its buffer, element types differ, or the arrays are of
            different backends.
    """
    places = []
    for name, v in views.items():
        check(v, what)
        buffer: Any = v.buffer
        if buffer._dtype is not cls._dtype:
            raise IncompatibleError(
                f"{what}: '{name}' has entries of type {buffer._dtype.name}, but 'x' has features "
                f"of type {cls._dtype.name}. Convert the vector with drjit.nn.cast(), or pack "
                "matrices of that type."
            )
        if buffer._backend is not cls._backend:
            raise IncompatibleError(
                f"{what}: {type_label(buffer)} and {type_label(cls)} are of different backends"
            )
        if buffer._diff and not cls._diff:
            cls = type(buffer)
        (rows, columns), reversible = v.shape, v._layout != "inference"
        place = matrix(int(v.offset), rows, columns, int(v.stride), bool(v.transpose), reversible)
        places.append(place)
    return places, cls


def matvec(
    A: MatrixView,
    x: CoopVec[T],
    b: MatrixView | None = None,
    /,
    transpose: bool = False,
) -> CoopVec[T]:
    """Returns the product `A @ x + b` of a matrix and a cooperative vector, or `A.T @ x + b` with
    `transpose`.

    Halves are multiplied and summed in single precision.

    Raises:
        TypeError: `A` or `b` is not a view, or `x` is not a cooperative vector.
        RuntimeError: shapes or element types are incompatible.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import Array2f, Float, TensorXf
    >>> A, b = nn.pack(TensorXf([[1, 2, 3], [4, 5, 6]]), TensorXf([10, 20]))
    >>> Array2f(nn.matvec(A, nn.CoopVec(Float(1), 0, [2]), b))
    [[17, 36]]
    """
    what = "drjit.nn.matvec()"
    views = {"A": A} if b is None else {"A": A, "b": b}
    _check_operands(views, x, what)
    (place, *bias), cls = _operands(views, x._type, what)
    if transpose:
        place = place.transpose
    _, rows, columns, _, transposed, *_ = place
    inner, count = (rows, columns) if transposed else (columns, rows)
    if inner != x._node.dtype.count:
        form = "the transpose of a" if transposed else "a"
        raise IncompatibleError(
            f"{what}: incompatible shapes, cannot multiply {form} {rows}x{columns} matrix by a "
            f"vector of {len(x)} features"
        )
    array = A.buffer
    source, vector = as_value((array._node, array._var)), as_value((x._node, x._var))
    if b is None:
        return wrap(cls, derivatives.matvec(source, place, vector, what=what))
    if b.shape != (count, 1) or (b.stride != 1 and count > 1):
        raise IncompatibleError(
            f"{what}: 'b' must be a vector of {count} entries (shape ({count}, 1), stride 1), "
            f"but it has shape {b.shape} and stride {b.stride}"
        )
    if b.buffer is not array:
        array = b.buffer
        added = as_value((array._node, array._var))
    else:
        added = source
    return wrap(cls, derivatives.matvec(source, place, vector, added, bias[0], what))

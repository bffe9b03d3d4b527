"""Per-lane local memory: `alloc_local` and `Local`.

Each array in an entry is represented by one vector for all entries, a value that exists within
kernels only. Kernels keep it in memory, where the time of an access does not depend on the number
of entries. It can be the state of symbolic loops or an argument of functions, and it is
differentiable.
"""

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ...ad import algebra
from ...ad import vector as derivatives
from ...ad.graph import Value
from ...array import leaf, pytree, table
from ...array.base import ArrayBase, IncompatibleError, KernelValue, type_label
from ...array.meta import DYNAMIC
from ...array.tree import Tree, map_arrays, traced_arrays
from ...function.conversion import index_leaf, mask_leaf
from ...function.data.create import zeros
from ...jit.ir import dtype as dt
from ...jit.ir import node, op
from ...jit.ir.node import LITERAL, Node
from ...jit.ir.scope import ACTIVE
from ...jit.ir.scope import active as active_lanes
from ...jit.run.launch import OutOfBoundsError, out_of_bounds
from ...jit.trace import feature_vectors as vector
from ...jit.trace.access import Access
from .messages import matched

if TYPE_CHECKING:
    from ...array.kinds import Active, Convertible, Index
    from ...array.promotion import PyTree

T = TypeVar("T", bound=Any)

LARGEST = 65536


class Cells(KernelValue):
    """One array of the entries of local memory: a vector with one feature per entry."""

    __module__ = "drjit"
    __slots__ = ("_layout",)

    _tracks = True

    def __init__(self, cls: Any, value: Value, layout: "EntryLayout") -> None:
        self._type, self._layout, self._node = cls, layout, value.node
        self._var = value.var if cls._diff else None

    def __len__(self) -> int:
        return self._node.dtype.count

    def __repr__(self) -> str:
        return f"{len(self)} entries of local memory of type {type_label(self._type)}"

    def _with(self, value: Value, detached: bool = False) -> "Cells":
        cls = self._type
        if detached and cls._diff:
            cls = table.find(cls._namespace.removesuffix(".ad"), "leaf", cls._dtype)
        return Cells(cls, value, self._layout)

    def _with_number(self, number: float) -> "Cells":
        return self._with(Value(node.literal(self._node.dtype, number)))

    def _like(self, value: Any, name: str) -> Value:
        if isinstance(value, Cells) and value._node.dtype is self._node.dtype:
            return leaf.value(value)
        raise TypeError(f"{name}(): {type_label(value)} does not go together with {self!r}")

    def _elementwise(self, op_: op.Op, args: tuple, name: str) -> "Cells":
        if op_ is not op.select or not isinstance(args[0], ArrayBase):
            raise TypeError(f"{name}(): operation not supported for local memory")
        values = [leaf.value(args[0]), *[self._like(a, name) for a in args[1:]]]
        return self._with(algebra.checked(op_, *values))

    def _reduce(self, key: str) -> NoReturn:
        raise TypeError(f"the reduction '{key}' is not defined for local memory")

    def _unpacked(self, opaque: bool) -> list[Any]:
        n, count = self._node, len(self)
        parts = [vector.feature(n, k) for k in range(1 if n.op in vector.SCALAR else count)]
        if opaque:
            parts = [
                node.make(op.copy, p.dtype, p.size, (p,)) if p.op is LITERAL else p for p in parts
            ]
        if len(parts) < count:
            self._node = node.splat(count, parts[0])
        elif n.op is not op.vector or opaque:
            self._node = node.make(op.vector, n.dtype, n.size, tuple(parts))
        return [leaf.wrap(self._type, part) for part in parts]


class EntryLayout:
    """The structure of the entries of local memory: that of the example `entry`, which `tree`
    decomposes."""

    def __init__(self, entry: Any) -> None:
        self.entry, self.tree = entry, Tree((entry,))

    def __eq__(self, other: object) -> bool:
        try:
            tree = other.tree if isinstance(other, EntryLayout) else Tree((other,))
            matched("", self.tree, tree)
        except IncompatibleError:
            return False
        return True

    def __hash__(self) -> int:
        return hash(tuple(map(type, self.tree.leaves)))


@dataclass(init=False, repr=False, eq=False)
class Local(Generic[T]):
    """Local memory with a fixed number of entries of type `dtype`, separate for each lane; see
    `alloc_local`. It is a PyTree.

    `Local(other)` creates a copy.
    """

    __module__ = "drjit"

    dtype: type[T]
    cells: list[Any]  # one item per array in an entry

    def __init__(self, arg: "Local[T]") -> None:
        if not isinstance(arg, Local):
            raise TypeError(
                f"dr.Local(): expected local memory to copy, not {type_label(arg)}; "
                "dr.alloc_local() makes new memory"
            )
        self.dtype = arg.dtype
        self.cells = [c._with(leaf.value(c)) for c in arg.cells]

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def __repr__(self) -> str:
        return f"Local[{type_label(self.dtype)}, {len(self)}]"

    def __getitem__(self, arg: "Index", /) -> T:
        return self.read(arg)

    def __setitem__(self, arg0: "Index", arg1: "T | Convertible | PyTree", /) -> None:
        self.write(arg1, arg0)

    def read(self, index: "Index", active: "Active" = True) -> T:
        """Returns the entry at `index`, an integer or an array of integers; zeros where `active` is
        false.

        Raises:
            IndexError: the index is out of bounds (for an array: raised at the next
                synchronization).
            TypeError: the index is not an integer, or `active` is not a mask.
        """
        what = "dr.Local.read"
        place, mask = self._place(index, active, what)
        if active is True and place.op is LITERAL:
            mask = ACTIVE  # nothing can be wrong if no lane is active
        found = iter([derivatives.take(leaf.value(c), place, mask, what) for c in self.cells])
        tree = self.cells[0]._layout.tree
        leaves = [
            leaf.from_value(type(a), next(found)) if a._kind == "leaf" else a for a in tree.leaves
        ]
        return tree.reassemble(leaves)[0]

    def write(
        self, value: "T | Convertible | PyTree", index: "Index", active: "Active" = True
    ) -> None:
        """Sets the entry at `index`, an integer or an array of integers, where `active` is true.

        Raises:
            IndexError: the index is out of bounds (for an array: raised at the next
                synchronization).
            TypeError: the index is not an integer, `active` is not a mask, or the value has another
                type.
        """
        what = "dr.Local.write"
        place, mask = self._place(index, active, what)
        layout = self.cells[0]._layout
        given = Tree((value,))
        if not given.has_structure_of(layout.tree):
            given = Tree((_fitting(layout.entry, value, what),))
        values = [a for a in given.leaves if a._kind == "leaf"]
        self.cells = [
            c._with(derivatives.put(leaf.value(c), place, leaf.value(v), mask, what))
            for c, v in zip(self.cells, values, strict=True)
        ]

    def _place(self, index: Any, active: Any, what: str) -> tuple[Node, Node]:
        """Returns the index as `u32`, and the mask of lanes in which it is in bounds."""
        size = len(self)
        if type(index) is int and not 0 <= index < size:
            raise OutOfBoundsError(out_of_bounds(f"{what}()", index, size, 1, "local memory"))
        if not size:
            raise OutOfBoundsError(f"{what}(): the local memory has no entries")
        if isinstance(index, float) or getattr(index, "_dtype", dt.u32).is_float:
            raise TypeError(f"{what}(): the index is of type {type_label(index)}, not an integer")
        cls = self.cells[0]._type
        place = (
            node.literal(dt.u32, index)
            if type(index) is int
            else index_leaf(index, cls, what)._node
        )
        inside = _is_below(place, size)
        if inside and active is True and place.op is LITERAL:
            return node.cast(dt.u32, place), active_lanes()
        mask = mask_leaf(active, cls, what)._node
        place, mask, _ = Access(place, mask, what, inside=inside).bounds(size)
        place = node.cast(dt.u32, place)
        if mask.op is not op.in_bounds and not inside:
            place = node.apply(op.minimum, place, node.literal(dt.u32, size - 1))
        return place, mask


def _is_below(index: Node, size: int) -> bool:
    """Returns whether an index is a constant, or the result of an operation, that is always less
    than a size."""
    if index.op is LITERAL:
        return 0 <= index.data < size
    if index.dtype.is_signed:
        return False
    deps = index.deps  # read before the op: another thread may be evaluating the node
    if index.op is op.remainder:
        return index.data is not None and 0 < index.data <= size
    return index.op is op.and_ and any(d.op is LITERAL and d.data < size for d in deps)


def _fitting(entry: Any, value: Any, what: str) -> Any:
    """Converts a value to a tree with the types of an entry."""

    def convert(old: Any, new: Any) -> Any:
        if not isinstance(old, ArrayBase) or type(new) is type(old):
            return new
        try:
            return type(old)(new)
        except (TypeError, RuntimeError) as error:
            raise TypeError(
                f"{what}(): a value of type {type_label(new)} cannot be stored as "
                f"{type_label(old)}: {error}"
            ) from None

    made = pytree.map_tree(convert, entry, value, what=what)
    if len(traced_arrays(made)) != len(traced_arrays(entry)):
        raise IncompatibleError(f"{what}(): the value has another number of components")
    return made


def alloc_local(
    dtype: type[T], size: int, value: "T | Convertible | PyTree | None" = None
) -> Local[T]:
    """Allocates local memory with `size` entries of type `dtype` (an array or PyTree type),
    separate for each lane, filled with `value` or zeros.

    The time of an access does not depend on `size`. The first access in a kernel fills the memory.

    Raises:
        RuntimeError: the type contains tensors, or arrays whose size is unknown without a `value`,
            or there are more than 65536 entries.
        TypeError: the type contains no traced arrays, the value does not have that type, or the
            size is negative.

    >>> from drjit.llvm import Float, UInt
    >>> stack = dr.alloc_local(Float, 3)
    >>> stack[UInt(0, 2)] = Float(5, 6)
    >>> stack[0], stack[2]
    ([5, 0], [0, 6])
    """
    what = f"dr.alloc_local({type_label(dtype)})" if isinstance(dtype, type) else "dr.alloc_local()"
    if not isinstance(dtype, type):
        raise TypeError(f"{what}: 'dtype' is {dtype!r}; expected an array or PyTree type")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise TypeError(f"{what}: 'size' is {size!r}; expected an integer that is not negative")
    size = operator.index(size)
    if size > LARGEST:
        raise RuntimeError(f"{what}: {size} entries are too many; the limit is {LARGEST}")
    if value is None:
        _check_zeros_exist(what, dtype)
        value = zeros(dtype)
    else:
        _check_type(what, dtype, value)
    if not traced_arrays(value):
        raise TypeError(f"{what}: the type does not contain any Jit-tracked arrays")
    if any(a._kind == "tensor" for a in pytree.arrays(value)):
        raise RuntimeError(f"{what}: tensors cannot be stored in local memory")
    made: Any = object.__new__(Local)
    made.dtype = dtype
    layout = EntryLayout(map_arrays(lambda _, cls: leaf.literal(cls, 0), value))
    made.cells = [
        Cells(type(a), derivatives.splat(size, leaf.value(a)), layout)
        for a in traced_arrays(value)
        if size
    ]
    return made


def _check_zeros_exist(what: str, dtype: Any) -> None:
    """Raises if zeros of a type cannot be created."""
    if issubclass(dtype, ArrayBase):
        if dtype._kind == "nested" and DYNAMIC in dtype.__meta__.dims:
            raise RuntimeError(
                f"{what}: {type_label(dtype)} has a dynamic size; pass a 'value' that has it"
            )
    elif issubclass(dtype, (list, tuple, dict)):
        raise RuntimeError(f"{what}: a {type_label(dtype)} has a dynamic size; pass a 'value'")
    else:
        fields = pytree.struct_fields(dtype)
        if fields is None:
            raise TypeError(f"{what}: the type does not contain any Jit-tracked arrays")
        for field in fields.values():
            if isinstance(field, type) and field not in (bool, int, float):
                _check_zeros_exist(what, field)


def _check_type(what: str, dtype: Any, value: Any) -> None:
    if type(value) is not dtype:
        raise IncompatibleError(
            f"{what}: 'value' is of type {type_label(value)}; expected {type_label(dtype)}"
        )
    fields = None if isinstance(value, ArrayBase) else pytree.struct_fields(dtype)
    for name, field in (fields or {}).items():
        if isinstance(field, type) and issubclass(field, ArrayBase):
            _check_type(f"{what}, field '{name}'", field, getattr(value, name))

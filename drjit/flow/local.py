"""Memory that every lane has for itself: `alloc_local` and `Local`.

An entry is a value like any other: a tree of arrays. An access at an index that differs between
lanes selects among all entries, so that local memory can be the state of symbolic loops, be an
argument of functions, and be differentiated.
"""

from dataclasses import dataclass
from typing import Any

from ..array import leaf, leaf_access, pytree, table
from ..array.base import ArrayBase, IncompatibleError, type_label
from ..function.create import zeros
from ..function.parts import index_leaf, mask_leaf
from ..jit import dtype as dt
from ..jit import op
from ..jit.node import broadcast_size
from .result import map_arrays, traced

LARGEST = 65536


@dataclass(init=False, repr=False, eq=False)
class Local:
    """Local memory of a fixed number of entries of type `dtype`, of which each lane has its own;
    see `alloc_local`. It is a PyTree.

    `Local(other)` is a copy.
    """

    __module__ = "drjit"

    dtype: type
    entries: list

    def __init__(self, arg: "Local") -> None:
        if not isinstance(arg, Local):
            raise TypeError(
                f"dr.Local(): expected local memory to copy, not {type_label(arg)}; "
                "dr.alloc_local() makes new memory"
            )
        self.dtype = arg.dtype
        self.entries = [_copied(e) for e in arg.entries]

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Local[{type_label(self.dtype)}, {len(self)}]"

    def __getitem__(self, arg: Any, /) -> Any:
        return self.read(arg)

    def __setitem__(self, arg0: Any, arg1: Any, /) -> None:
        self.write(arg1, arg0)

    def read(self, index: Any, active: Any = True) -> Any:
        """The entry at `index`, an integer or an array of them; zeros where `active` is false.

        Raises:
            IndexError: the index is out of bounds (an array: at the next synchronisation).
            TypeError: the index is no integer, or `active` no mask.
        """
        what = "dr.Local.read"
        if type(index) is int and active is True:
            return _copied(self.entries[self._checked(index, what)])
        place, mask = self._place(index, active, what)
        columns = zip(*[traced(e) for e in self.entries], strict=True)
        chosen = iter([_masked(mask, _chosen(place, list(values))) for values in columns])
        return map_arrays(lambda _, cls: next(chosen), self.entries[0])

    def write(self, value: Any, index: Any, active: Any = True) -> None:
        """Sets the entry at `index`, an integer or an array of them, where `active` holds.

        Raises:
            IndexError: the index is out of bounds (an array: at the next synchronisation).
            TypeError: the index is no integer, `active` no mask, or the value of another type.
        """
        what = "dr.Local.write"
        if type(index) is int and active is True:
            k = self._checked(index, what)
            new = _fitting(self.entries[k], value, what)
            for a, b in zip(traced(self.entries[k]), traced(new), strict=True):
                broadcast_size((a._n, b._n), what)
            self.entries[k] = new
            return
        place, mask = self._place(index, active, what)
        new = traced(_fitting(self.entries[0], value, what))
        nowhere = leaf.literal(type(place), len(self))
        place = place if _everywhere(mask) else _select(mask, place, nowhere)
        for k, entry in enumerate(self.entries):
            here = leaf.apply(op.eq, place, leaf.literal(type(place), k))
            written = iter([_select(here, a, b) for a, b in zip(new, traced(entry), strict=True)])
            self.entries[k] = map_arrays(lambda _, cls, it=written: next(it), entry)

    def _checked(self, index: int, what: str) -> int:
        if not 0 <= index < len(self):
            raise IndexError(
                f"{what}(): index {index} is out of bounds for local memory of size {len(self)}"
            )
        return index

    def _place(self, index: Any, active: Any, what: str) -> tuple[Any, Any]:
        """The index as 32-bit array, and the mask of lanes in which it is within bounds."""
        if not self.entries:
            raise IndexError(f"{what}(): the local memory has no entries")
        example = traced(self.entries[0])[0]
        cls = table.find(example._namespace, "leaf", dt.u32)
        if type(index) is int:
            place = leaf.literal(cls, self._checked(index, what))
        else:
            place = index_leaf(index, cls, what)
        enabled = mask_leaf(active, cls, what)
        place, mask = leaf_access.bounded(place, enabled, len(self), what)
        return cls(place), cls.Mask(mask)


def _copied(tree: Any) -> Any:
    return map_arrays(lambda a, cls: leaf.from_value(cls, leaf.value(a)), tree)


def _select(mask: Any, a: Any, b: Any) -> Any:
    return leaf.apply(op.select, type(a).Mask(mask), a, b)


def _everywhere(mask: Any) -> bool:
    return mask._n.is_literal and mask._n.data


def _masked(mask: Any, value: Any) -> Any:
    if _everywhere(mask):
        return value
    return _select(mask, value, leaf.literal(type(value), 0))


def _chosen(place: Any, values: list[Any]) -> Any:
    """The value whose number is `place`: by its bits, lowest first, each of which halves the
    list."""
    bit = 1
    while len(values) > 1:
        low = leaf.apply(op.and_, place, leaf.literal(type(place), bit))
        is_odd = leaf.apply(op.ne, low, leaf.literal(type(place), 0))
        pairs = [_select(is_odd, b, a) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) & ~1 :]
        bit <<= 1
    return values[0]


def _fitting(entry: Any, value: Any, what: str) -> Any:
    """A value as a tree of the types of an entry."""

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
    if len(traced(made)) != len(traced(entry)):
        raise IncompatibleError(f"{what}(): the value has another number of components")
    return _copied(made)


def alloc_local(dtype: type, size: int, value: Any = None) -> Local:
    """Local memory of `size` entries of type `dtype` (an array or PyTree type), of which each lane
    has its own, filled with `value` or zeros.

    An access at an index that differs between lanes takes time in proportion to `size`; one at a
    Python integer costs nothing.

    Raises:
        RuntimeError: the type contains tensors, or arrays of a size that is not known without a
            `value`; there are more than 65536 entries.
        TypeError: the type contains no traced arrays, the value is not of the type, or the size is
            negative.

    >>> from drjit.llvm import Float, UInt
    >>> stack = dr.alloc_local(Float, 3)
    >>> stack[UInt(0, 2)] = Float(5, 6)
    >>> stack[0], stack[2]
    ([5, 0], [0, 6])
    """
    what = f"dr.alloc_local({type_label(dtype)})" if isinstance(dtype, type) else "dr.alloc_local()"
    if not isinstance(dtype, type):
        raise TypeError(f"{what}: 'dtype' is {dtype!r}; expected an array or PyTree type")
    if type(size) is not int or size < 0:
        raise TypeError(f"{what}: 'size' is {size!r}; expected an integer that is not negative")
    if size > LARGEST:
        raise RuntimeError(f"{what}: {size} entries are too many; the limit is {LARGEST}")
    if value is None:
        _check_known(what, dtype)
        value = zeros(dtype)
    else:
        _check_type(what, dtype, value)
    if not traced(value):
        raise TypeError(f"{what}: the type contains no traced arrays")
    if any(a._kind == "tensor" for a in pytree.arrays(value)):
        raise RuntimeError(f"{what}: tensors cannot be stored in local memory")
    made = object.__new__(Local)
    made.dtype = dtype
    made.entries = [_copied(value) for _ in range(size)]
    return made


def _check_known(what: str, dtype: Any) -> None:
    """Raises if zeros of a type cannot be made."""
    if issubclass(dtype, ArrayBase):
        if dtype._kind == "tensor":
            raise RuntimeError(f"{what}: tensors cannot be stored in local memory")
        if dtype._kind == "nested" and None in _sizes(dtype):
            raise RuntimeError(
                f"{what}: {type_label(dtype)} has a dynamic size; pass a 'value' that has it"
            )
    elif issubclass(dtype, (list, tuple, dict)):
        raise RuntimeError(f"{what}: a {type_label(dtype)} has a dynamic size; pass a 'value'")
    else:
        fields = pytree.struct_fields(dtype)
        if fields is None:
            raise TypeError(f"{what}: the type contains no traced arrays")
        for field in fields.values():
            if isinstance(field, type) and field not in (bool, int, float):
                _check_known(what, field)


def _sizes(cls: Any) -> list[int | None]:
    found = []
    while isinstance(cls, type) and issubclass(cls, ArrayBase) and cls._kind == "nested":
        found.append(cls._size)
        cls = cls.Value
    return found


def _check_type(what: str, dtype: Any, value: Any) -> None:
    if type(value) is not dtype:
        raise IncompatibleError(
            f"{what}: 'value' is of type {type_label(value)}; expected {type_label(dtype)}"
        )
    fields = None if isinstance(value, ArrayBase) else pytree.struct_fields(dtype)
    for name, field in (fields or {}).items():
        if isinstance(field, type) and issubclass(field, ArrayBase):
            _check_type(f"{what}, field '{name}'", field, getattr(value, name))


__all__ = ["Local", "alloc_local"]

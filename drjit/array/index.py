"""Reading and writing of entries and components: `a[key]`, `a[key] = value`, and swizzles such as
`a.zyx`.

In a 1-D array, a key addresses lanes; in a nested array, components. Keys apply one after the
other, so `m[0, 1]` is `m[0][1]`. In an assignment, a mask as the key selects lanes of any kind of
array.
"""

import operator
from collections.abc import Sequence
from functools import cache
from opcode import opmap
from typing import Any, cast

from ..jit import log
from ..jit.ir import op
from ..jit.ir.location import user_location
from ..jit.ir.node import BUFFER, LITERAL, normalize
from ..jit.lazy import np
from ..jit.run import freeze_size, launch, pending, schedule
from ..jit.trace import access
from . import elementwise, foreign_names, leaf, leaf_access, table, tensor
from .base import ArrayBase, BoundsError, ComponentError, nested, type_label
from .meta import DYNAMIC, ArrayMeta
from .show import is_array
from .tensor import is_integer, is_mask, title

LETTERS = "xyzw"


def getitem(self: Any, key: Any) -> Any:
    """`self[key]`; see the module docstring.

    Raises:
        IndexError: an entry or component does not exist.
        TypeError: the key has an unsupported type.
    """
    kind = self._kind
    if type(key) is int:
        if kind == "nested":
            c = self._components
            if 0 <= key < len(c):
                return c[key]
            return c[_position(self, key, len(c), "__getitem__")]
        if kind == "leaf":
            n = self._node
            i = key if 0 <= key < n.size else _position(self, key, n.size, "__getitem__")
            if n.op is not BUFFER or pending.effects or schedule.observers:
                schedule.complete([n], self._device)
                if n.op is LITERAL:
                    return n.data
            return launch.entry(n.dtype, i, n.data)
    if isinstance(key, slice) and key.start is key.stop is None and key.step in (None, 1):
        return self
    if kind == "tensor":
        return tensor.getitem(self, key)
    if isinstance(key, tuple):
        value = self
        for k in key:
            try:
                value = value[k]
            except (IndexError, TypeError) as problem:
                text = f"{title(self, '__getitem__')}: Item retrieval failed. {problem}"
                kind = BoundsError if isinstance(problem, IndexError) else TypeError
                raise kind(text) from problem
        return value
    if isinstance(key, slice):
        return _leaf_slice(self, key) if kind == "leaf" else _nested_slice(self, key)
    if is_mask(key):
        _warn_of_mask(self)
        return type(self)(self)
    if is_integer(key):
        return getitem(self, operator.index(key))
    if kind == "leaf" and _is_index_array(key):
        index = _index(self, key)
        if self._node.size == 1:
            return leaf.resize(self, index._node.size)
        at = access.Access(index._node, what=title(self, "__getitem__"))
        return leaf_access.gather(self, at)
    if _is_entries_index(self, key):
        return copies(type(self), [self[i] for i in cast(Any, key)._components])
    raise _bad_key(self, key, "__getitem__")


_COPY = opmap["COPY"]
_augmented: set[tuple] = set()  # places of `x[mask] += y` in programs


def _warn_of_mask(a: Any) -> None:
    """Warns of `x[mask]`, unless it is part of `x[mask] += y`: there, the interpreter has just
    copied references to `x` and the mask for the assignment."""
    place = user_location(3)
    if not place or place in _augmented:
        return
    code, offset = place
    if offset >= 2 and code.co_code[offset - 2] == _COPY:
        _augmented.add(place)
        return
    log.warn(
        f"{title(a, '__getitem__')} with a mask: the result has all entries, as in Dr.Jit; only an "
        "assignment, x[mask] = y, takes those that are set. Use dr.gather(type(x), x, "
        "dr.compress(mask)) to read them, or dr.select(mask, x, 0)"
    )


def setitem(self: Any, key: Any, value: Any) -> None:
    """`self[key] = value`; see the module docstring.

    Raises:
        IndexError: an entry or component does not exist.
        TypeError: the key has an unsupported type, or the value cannot be converted.
    """
    kind = self._kind
    if type(key) is int and kind != "tensor":
        size = self._node.size if kind == "leaf" else len(self._components)
        i = _position(self, key, size, "__setitem__")
        (_set_entry if kind == "leaf" else _set_component)(self, i, value)
    elif is_mask(key):
        (_set_masked_tensor if kind == "tensor" else _set_masked)(self, key, value)
    elif kind == "tensor":
        tensor.setitem(self, key, value)
    elif isinstance(key, tuple):
        first, *rest = key or (slice(None),)
        if rest:
            part = self[first]
            part[tuple(rest)] = value
            value = part
        setitem(self, first, value)
    elif isinstance(key, slice):
        if kind == "leaf":
            _scatter(self, _range_index(self, key), value)
        else:
            _set_components(self, list(range(*key.indices(len(self._components)))), value)
    elif is_integer(key):
        setitem(self, operator.index(key), value)
    elif kind == "leaf" and _is_index_array(key):
        _scatter(self, _index(self, key), value)
    elif _is_entries_index(self, key):
        _set_entries(self, cast(Any, key)._components, value)
    else:
        raise _bad_key(self, key, "__setitem__")


def _bad_key(self: Any, key: Any, method: str) -> TypeError:
    if key is None or key is ...:
        return TypeError(
            f"{title(self, method)}: Complex slicing operations involving 'None' / '...' are "
            "currently only supported on tensors."
        )
    allowed = "an integer, a slice, a mask" + (
        ", or an array of integers" if self._kind == "leaf" else ", or a tuple of them"
    )
    return TypeError(
        f"{title(self, method)}: invalid key of type '{type_label(key)}'; expected {allowed}"
    )


def _is_index_array(key: Any) -> bool:
    return is_array(key) and key._dtype.is_int and key._kind != "nested"


def _is_entries_index(self: Any, key: Any) -> bool:
    """Returns whether a key is an array of Python integers, and `self` is a dynamically sized array
    of Python numbers."""
    if self._namespace != "scalar" or self.__meta__.dims != (DYNAMIC,) or not is_array(key):
        return False
    kind, dims = key.__meta__.kind, key.__meta__.dims
    return key._dtype.is_int and key._namespace == "scalar" and kind == "vector" and len(dims) == 1


def _set_entries(self: Any, index: list, value: Any) -> None:
    cls, size = type(self), len(self._components)
    values = (value if type(value) is cls else cls(value))._components
    if len(values) not in (1, len(index)):
        raise TypeError(
            f"{title(self, '__setitem__')}: cannot assign {len(values)} values to "
            f"{len(index)} entries"
        )
    positions = [_position(self, i, size, "__setitem__") for i in index]
    for k, i in enumerate(positions):
        self._numbers[i] = values[k if len(values) > 1 else 0]


def _position(self: Any, i: int, size: int, method: str) -> int:
    """Returns the index counted from the start. When reading, an array with one entry is
    broadcast."""
    if i and self._kind == "leaf":
        freeze_size.decided(size)
    at = i + size if i < 0 else i
    if 0 <= at < size:
        return at
    if size == 1 and method == "__getitem__":
        return 0
    raise BoundsError(
        f"{title(self, method)}: entry {at} is out of bounds (the array is of size {size})."
    )


def _index(self: Any, key: Any) -> Any:
    """Returns an index array in the namespace of `self`, with negative indices counted from the
    end."""
    if key._kind == "tensor":
        key = key._array
    size = self._node.size
    wide, signed = key._dtype.bits == 64 or size >= 1 << 31, key._dtype.is_signed
    cls = tensor.index_class(self._namespace, wide, signed)
    index = key if type(key) is cls else cls(key)
    if not key._dtype.is_signed:
        return index
    # Indices below the range stay unchanged, for the message.
    from_end = (index < 0) & (index >= -size)
    return elementwise.elementwise(op.select, from_end, index + size, index)


def _range_index(self: Any, key: slice) -> Any:
    """Returns the index array of a slice of a 1-D array."""
    chosen = freeze_size.positions(key, self._node.size)
    cls = tensor.index_class(self._namespace, self._node.size >= 1 << 31, True)
    return leaf.lane(cls, len(chosen)) * chosen.step + chosen.start


def _leaf_slice(self: Any, key: slice) -> Any:
    cls = type(self)
    size = self._node.size
    chosen = freeze_size.positions(key, size)
    if chosen == range(size):
        return cls(self)
    if not chosen:
        return cls()
    index, what = _range_index(self, key), title(self, "__getitem__")
    return leaf_access.gather(self, access.Access(index._node, what=what))


def _scatter(self: Any, index: Any, value: Any) -> None:
    cls = type(self)
    what = title(self, "__setitem__")
    if is_array(value) and value._kind == "nested":
        raise TypeError(f"{what}: cannot assign a '{type_label(value)}' to entries of a 1-D array")
    source = value if type(value) is cls else cls(value)
    if source._node.size not in (1, index._node.size):
        raise TypeError(
            f"{what}: cannot assign {source._node.size} values to {index._node.size} entries"
        )
    leaf_access.scatter(self, [source], access.Access(index._node, what=what))


def _set_entry(self: Any, i: int, value: Any) -> None:
    """Assigns a Python number to an entry, immediately if no derivative is involved and nothing is
    being recorded."""
    number = _number(self, type(self), value)
    if self._var is not None or launch.on_read is not None:
        _scatter(self, leaf.literal(tensor.index_class(self._namespace, i >= 1 << 32), i), number)
        return
    leaf_access.replace(self, access.WriteTarget.own, True)
    owned = self._node
    schedule.complete([owned], self._device)
    launch.put(owned.dtype, owned.data, i, number)


def _number(self: Any, cls: Any, value: Any) -> Any:
    """Returns a Python number whose kind matches the element type exactly.

    Raises:
        TypeError: it is not such a number, or is out of the type's range.
    """
    dtype, kind = cls._dtype, type(value)
    if kind not in (bool, int, float) and isinstance(value, np.generic):
        value = value.item()
        kind = type(value)
    kinds = (bool,) if dtype.is_mask else (bool, int, float) if dtype.is_float else (bool, int)
    if kind in kinds:
        converted = normalize(dtype, value)
        if dtype.is_float or converted == value:
            return converted
    raise TypeError(
        f"{title(self, '__setitem__')}: could not initialize an element of type {dtype.name} with "
        + (f"{value!r}" if kind in (bool, int, float) else f"a value of type '{type_label(value)}'")
    )


def _set_component(self: Any, i: int, value: Any) -> None:
    kind: Any = self.Value
    if not issubclass(kind, ArrayBase):
        self._numbers[i] = _number(self, type(self), value)
        return
    if not isinstance(value, kind):
        if isinstance(value, (bool, int, float, np.number, np.bool_)):
            value = _number(self, kind, value)
        try:
            if is_array(value) and len(value.__meta__.shape) > len(kind.__meta__.shape):
                raise TypeError("it has more dimensions")
            value = kind(value)
        except (TypeError, RuntimeError) as error:
            raise TypeError(
                f"{title(self, '__setitem__')}: could not initialize a component of type "
                f"'{type_label(kind)}' with a value of type '{type_label(value)}'"
            ) from error
    self._components[i]._assign(value)


def _set_components(self: Any, positions: Sequence[int], value: Any) -> None:
    """Assigns the parts of a sequence or nested array one by one, and anything else to all
    components."""
    n = len(positions)
    if isinstance(value, (list, tuple)) or (is_array(value) and value._kind == "nested"):
        values = list(value)
        if len(values) != n:
            raise TypeError(
                f"{title(self, '__setitem__')}: {len(values)} values cannot go to {n} components"
            )
        # Components may be assigned to one another: take the values before the first is changed.
        values = [type(v)(v) if is_array(v) else v for v in values]
    else:
        values = [value] * n
    for i, v in zip(positions, values, strict=True):
        _set_component(self, i, v)


def _nested_slice(self: Any, key: slice) -> Any:
    parts = self._components[key]
    cls = type(self)
    same = self._size == len(parts) or (self._size is None and not self.__meta__.is_jit)
    return copies(cls if same else _sized(cls.__meta__, len(parts)), parts)


@cache
def _sized(meta: ArrayMeta, count: int) -> Any:
    """Returns the class with another number of components.

    Raises:
        TypeError: there is no such class.
    """
    cls = table.find(meta.namespace, meta.kind, meta.dtype, meta.dims)
    kind = "vector" if meta.kind == "quaternion" and count == 3 else meta.kind
    dims = (count if count <= 4 else DYNAMIC, *meta.dims[1:])
    try:
        found = table.find(meta.namespace, kind, meta.dtype, dims)
    except RuntimeError as error:
        raise TypeError(f"{type_label(cls)}: {error}") from None
    if found.__meta__.dims != dims:  # a matrix is named by its columns
        raise TypeError(f"{type_label(cls)}: there is no such type of {count} components")
    return found


def copies(cls: Any, parts: Sequence[Any]) -> Any:
    """Returns an array of copies of components."""
    return nested(cls, [type(c)(c) if is_array(c) else c for c in parts])


def _set_masked_tensor(self: Any, mask: Any, value: Any) -> None:
    """Assigns where a mask is true. A mask of the leading axes selects entries along a single axis,
    which the values also have, as in NumPy, unless they are the same for all selected entries. A
    mask of all axes, or one that broadcasts, also accepts values for the whole tensor.
    """
    if mask._kind != "tensor":
        mask = self.Mask(mask)
    shape, own = self._shape, mask._shape
    if own == shape[: len(own)]:
        if isinstance(value, (list, tuple, np.ndarray)):
            value = type(self)(value)
        values: tuple[int, ...] = ()
        if is_array(value):
            values = value._shape if value._kind == "tensor" else (len(value),)
        rest = len(shape) - len(own)
        if rest:
            leading = next((i for i, n in enumerate(values) if n != 1), len(values))
            values = values[leading:]
            whole = len(values) <= rest
        else:
            whole = tensor.is_assignable(values, shape)
        if not whole:
            tensor.setitem(self, mask, value)
            return
        if rest and is_array(value) and value._kind == "tensor":
            value = tensor.wrap(type(value), value._array, values)
        mask = tensor.wrap(type(mask), mask._array, own + (1,) * rest)
    _set_masked(self, mask, value)


def _set_masked(self: Any, mask: Any, value: Any) -> None:
    what = title(self, "__setitem__")
    result = elementwise.elementwise(op.select, mask, value, self, name=what[:-2])
    if type(result) is not type(self):
        raise TypeError(
            f"{what}: a masked assignment cannot change the type from '{type_label(self)}' to "
            f"'{type_label(result)}'; convert the value first"
        )
    self._assign(result)


def getattr_swizzle(self: Any, name: str) -> Any:
    """`self.zyx`: returns an array of copies of the named components, which may repeat.

    Raises:
        AttributeError: the array has no such components.
    """
    return swizzled(self, _letters(self, name))


def swizzled(self: Any, positions: Sequence[int]) -> Any:
    """Returns an array of copies of the components at some positions."""
    parts = [self._components[i] for i in positions]
    return copies(_sized(self.__meta__, len(parts)), parts)


def setattr_swizzle(self: Any, name: str, value: Any) -> None:
    """`self.zyx = value`: assigns components one by one, and anything else to each of them. If a
    component is named twice, the last assignment wins.

    Raises:
        AttributeError: the array has no such components, or contains numbers and the number of
            values differs.
        IndexError: the value has a different number of components.
    """
    places = _letters(self, name)
    if is_array(value) and value._kind == "nested":
        if len(value._components) != len(places):
            raise IndexError(
                f"{type_label(self)}.{name}: Mismatched sizes in swizzle assignment, cannot assign "
                f"{len(value._components)} components to {len(places)}"
            )
    elif isinstance(value, (list, tuple)):
        if self.__meta__.is_jit:
            value = self._leaf(value)
        elif len(value) != len(places):
            raise ComponentError(
                f"{type_label(self)}.{name}: {len(value)} values cannot go to {len(places)} "
                "components"
            )
    _set_components(self, places, value)


def _letters(self: Any, name: str) -> list[int]:
    """Returns the positions of the components that a swizzle names.

    Raises:
        AttributeError: the array has no such components.
    """
    meta = self.__meta__
    letters = LETTERS[: max(meta.dims[0], 0)] if meta.kind in ("vector", "quaternion") else ""
    if len(name) > 1 and set(name) <= set(letters):
        return positions(name)
    if len(name) == 1 and name in LETTERS:
        raise no_component(self, name)
    raise no_attribute(self, name)


def positions(name: str) -> list[int]:
    """Returns the positions that letters stand for."""
    return [LETTERS.index(c) for c in name]


def no_component(self: Any, name: str) -> ComponentError:
    """Returns the error to raise for a missing component."""
    return ComponentError(f"{type_label(self)} does not have a '{name}' component.")


def no_attribute(self: Any, name: str) -> AttributeError:
    """Returns the error to raise for a missing attribute."""
    text = f"{type(self).__name__!r} object has no attribute {name!r}"
    if name[:1] != "_":
        text += foreign_names.array_hint(name)
    return AttributeError(text, name=name, obj=self)

"""Construction of arrays from numbers, sequences, other arrays, and objects that provide their
contents as an array.

Explicit conversions follow the kernel's casts. Python numbers must be in range: `UInt(-1)` is an
error. A sequence for an integer type must not contain a `float`.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..ad.graph import visible
from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.lazy import np
from ..jit.trace.access import Access
from . import interop, leaf, leaf_access, pytree, table, tensor
from .base import ArrayBase, KernelValue, type_label
from .inline import broadcasts_to_components
from .leaf import new
from .promote import number_type
from .show import component_shape, innermost

_MISSING = object()


def init(self: Any, *args: Any, **kwargs: Any) -> None:
    """The `__init__` of all arrays.

    Raises:
        TypeError: the arguments cannot be converted, or their number is wrong.
    """
    cls: Any = type(self)
    kind = cls._kind
    if kwargs or not args:
        pass
    elif kind == "leaf":
        if len(args) == 1 and (contents := _contents(cls, args[0])) is not None:
            self._node, v = contents
            if cls._diff:
                self._var = v
            return
    elif cls._part is not None:
        parts = _parts(cls, cls._part, args)
        if parts is not None:
            self._components = parts
            return
    if not cls._usable:
        table.refuse(cls)
    if kind == "tensor":
        try:
            arguments = _tensor_arguments(*args, **kwargs)
        except TypeError as problem:  # that names the class that was called
            text = str(problem).replace("_tensor_arguments()", f"{type_label(cls)}()")
            raise TypeError(text) from None
        return _init_tensor(self, cls, *arguments)
    if kwargs:
        args = _without_keywords(cls, args, kwargs)
    if kind == "leaf":
        leaf.assign(self, leaf.value(_leaf(cls, args[0] if len(args) == 1 else list(args))))
    elif cls.__meta__.kind == "matrix":
        self._components = _matrix(cls, args)
    else:
        self._components = _nested(cls, args)


def _contents(cls: Any, arg: Any) -> tuple[node.Node, Any] | None:
    """Returns the node and the variable of an array of the class made from the usual arguments, a
    number or a one-dimensional array; None for others."""
    kind = type(arg)
    if kind is cls:
        v = arg._var
        return arg._node, v if v is None else visible(v)
    if kind is float or (kind is int and -EXACT <= arg <= EXACT):
        n = node.literal_converter(cls._dtype)(arg)
        return None if n is None else (n, None)
    if getattr(kind, "_kind", "") == "leaf" and arg._backend is cls._backend:
        if arg._var is None:
            return node.cast(cls._dtype, arg._node), None
        return leaf.value(leaf.cast(cls, arg))
    return None


def _parts(cls: Any, part: Any, args: tuple) -> list | None:
    """Returns new components of an array of a class with components `part`, from the usual
    arguments: one for each of them, one for all of a vector, or an array of that kind and shape;
    None for others."""
    size, shared = cls._size, None
    if len(args) == 1 != size:
        if type(args[0]) is cls:
            args = args[0]._components
        elif cls.__meta__.kind == "vector":
            shared, args = _contents(part, args[0]), args * size
    if len(args) != size:
        return None
    found, diff = [], cls._diff
    for a in args:
        c = new(part)
        if type(a) is part:  # as in `_contents`
            c._node = a._node
            v = a._var if diff else None
            v = v if v is None else visible(v)
        else:
            contents = shared or _contents(part, a)
            if contents is None:
                return None
            c._node, v = contents
        if diff:
            c._var = v
        found.append(c)
    return found


def _without_keywords(cls: Any, args: tuple, kwargs: dict[str, Any]) -> tuple:
    """Returns the arguments after applying `flip_axes`."""
    if kwargs.pop("flip_axes", False) and len(args) == 1:
        (arg,) = args
        if isinstance(arg, ArrayBase) and arg._kind == "tensor":
            if cls.__meta__.kind != "complex":
                args = (tensor.transposed(arg, range(len(arg._shape))[::-1]),)
        elif interop.is_foreign_array(arg) and not _is_number(arg):
            args = (interop.from_object(cls, arg, flip_axes=True),)
    if kwargs:
        raise _invalid(cls, f"Unknown keyword argument '{next(iter(kwargs))}'")
    return args


def _invalid(cls: Any, problem: str) -> TypeError:
    """Returns the error to raise for arguments of the class."""
    return TypeError(f"{type_label(cls)}(): {problem}")


def number(cls: Any, dtype: dt.DType, value: Any, strict: bool = False) -> Any:
    """Converts a Python number to the nearest value of an element type.

    Integers must be in range. A `float` is truncated, or rejected if `strict`, as within sequences.

    Raises:
        TypeError: the value is not a number, or is out of range.
    """
    kind = number_type(type(value))
    if kind is None:
        value = _as_number(cls, dtype, value)
        kind = type(value)
    if dtype.is_mask:
        if strict and kind is not bool:
            raise _invalid(cls, f"a sequence for a mask may only contain bool, not {value!r}")
        return bool(value)
    if dtype.is_float:
        try:
            return node.normalize(dtype, float(value))
        except OverflowError:
            raise _invalid(cls, "the integer is beyond any float") from None
    if kind is float and strict:
        raise _invalid(cls, f"a sequence for an integer type may not contain a float ({value!r})")
    if kind is float and not math.isfinite(value):
        raise _invalid(cls, f"{value} has no integer value")
    value = int(value)
    if not dtype.low <= value <= dtype.high:
        raise _invalid(cls, f"{value} is out of range ({dtype.low} to {dtype.high})")
    return value


def _as_number(cls: Any, dtype: dt.DType, value: Any) -> Any:
    """Returns the number that an object stands for; a mask is its truth value.

    Raises:
        TypeError: it does not stand for a number.
    """
    if value is not None and not isinstance(value, (str, bytes, complex, Iterable)):
        if dtype.is_mask:
            return bool(value)
        if dtype.is_float and hasattr(value, "__float__"):
            return float(value)
        if hasattr(value, "__index__"):
            return operator.index(value)
    raise _invalid(cls, f"cannot convert a value of type {type_label(value)}")


def _is_number(value: Any) -> bool:
    return number_type(type(value)) is not None


def _sequence(cls: Any, value: Any) -> list:
    """Returns the entries of an iterable that is not an array.

    Raises:
        TypeError: it is not iterable, or is text.
    """
    if is_sequence(value):
        iterable = isinstance(value, Iterable)
        return list(value) if iterable else [value[i] for i in range(len(value))]
    raise _invalid(cls, f"cannot convert a value of type {type_label(value)}")


def is_sequence(value: Any) -> bool:
    """Returns whether an object has entries. Text does not count, nor do numbers and bools."""
    if isinstance(value, (str, type)):
        return False
    if isinstance(value, Iterable):
        return True
    return hasattr(value, "__getitem__") and hasattr(value, "__len__")


# One-dimensional


_NUMERIC = {float, int}
EXACT = 1 << 53  # integers up to here are exact as Python floats


def _leaf(cls: Any, arg: Any) -> Any:
    if type(arg) is list or type(arg) is tuple:
        return _leaf_of_numbers(cls, list(arg))
    if isinstance(arg, ArrayBase):
        return _leaf_from_array(cls, arg)
    if arg is None and cls._dtype.is_mask:
        return leaf.literal(cls, False)
    if not _is_number(arg):
        if interop.is_foreign_array(arg):
            return interop.from_object(cls, arg)
        if is_sequence(arg):
            return _leaf_of_numbers(cls, _sequence(cls, arg))
    return leaf.literal(cls, number(cls, cls._dtype, arg))


def _leaf_from_array(cls: Any, arg: Any) -> Any:
    kind = arg._kind
    if kind == "leaf":
        return leaf.cast(cls, arg if arg._backend is cls._backend else _moved(cls, arg))
    if kind == "tensor":
        if len(arg._shape) != 1:
            raise _invalid(
                cls,
                f"the tensor has {len(arg._shape)} dimensions, 1 is needed; use .array for its "
                "entries in order",
            )
        return _leaf_from_array(cls, arg._array)
    if arg._namespace == "scalar" and arg.__meta__.kind == "vector" and len(arg.__meta__.dims) == 1:
        return leaf.from_numpy(cls, np.array(arg._components, arg._dtype.numpy), copy=True)
    raise TypeError(
        f"{type_label(cls)}(): cannot convert {type_label(arg)}, which has several components; "
        "use dr.ravel() for its entries in order"
    )


def _moved(cls: Any, arg: Any) -> Any:
    """Returns an array of another backend with the same element type, as an array of this one.

    Raises:
        TypeError: it has a derivative, which stays behind.
    """
    if arg._var is not None and visible(arg._var) is not None:
        raise TypeError(
            f"{type_label(cls)}(): {type_label(arg)} belongs to another backend, where its "
            "derivatives are; convert dr.detach(x) instead"
        )
    home = table.find(cls._namespace, "leaf", arg._dtype)
    if arg._node.is_literal:
        return leaf.wrap(home, arg._node)
    return leaf.from_numpy(home, leaf.host(arg), copy=True)


def _leaf_of_numbers(cls: Any, values: list) -> Any:
    dtype = cls._dtype
    if not values:
        return leaf.literal(cls, 0, 0)
    kinds = set(map(type, values))
    # The common case in one step: conversions that are the same for all entries.
    if dtype.is_float:
        exact = kinds <= _NUMERIC or kinds == {bool}
    else:
        exact = kinds == {bool if dtype.is_mask else int}
    if exact and len(values) > 1:
        try:
            return leaf.from_numbers(cls, [*map(float, values)] if dtype.is_float else values)
        except OverflowError:
            pass
    entries = []
    for i, value in enumerate(values):
        if not _is_number(value):
            raise TypeError(
                f"{type_label(cls)}(): invalid type in input, entry {i} is of type "
                f"{type_label(value)}, a number is needed"
            )
        entries.append(number(cls, dtype, value, strict=True))
    if len(entries) == 1:
        return leaf.literal(cls, entries[0])
    return leaf.from_numbers(cls, entries)


# Nested


def component(cls: Any, value: Any, strict: bool = True) -> Any:
    """Returns a value as a component of an array of the class: a new object."""
    kind = cls.Value
    if type(value) is float and strict and cls._dtype.is_int:
        return number(cls, cls._dtype, value, strict)
    if value is None:
        raise _invalid(cls, "Item assignment failed. A component cannot be None.")
    if not issubclass(kind, ArrayBase):
        if isinstance(value, ArrayBase):
            value = value.item() if value._kind == "leaf" and len(value) == 1 else value
        if strict and interop.is_foreign_array(value) and not _is_number(value):
            value = interop.host_array(value)
            value = value.item() if value.ndim == 0 else value
        return number(cls, cls._dtype, value, strict)
    return kind(value)


def _check_size(cls: Any, got: int) -> None:
    """Raises a TypeError if arrays of the class have another number of components."""
    n = cls._size
    if n is None or got == n:
        return
    hint = f" {_of_matrix(n)}." if cls.__meta__.kind == "matrix" else ""
    raise _invalid(cls, f"Input has the wrong size (expected {n} elements, got {got}).{hint}")


def _of_matrix(n: int) -> str:
    return f"A matrix is made from a number, {n} rows, or {n * n} entries"


def _components(cls: Any, values: Sequence[Any]) -> list:
    _check_size(cls, len(values))
    return [component(cls, v) for v in values]


def _nested(cls: Any, args: tuple[Any, ...]) -> list:
    size = cls._size
    if len(args) != 1:
        return _components(cls, args) if args else [cls.Value() for _ in range(size or 0)]
    arg = args[0]
    kind = cls.__meta__.kind
    if isinstance(arg, ArrayBase):
        if arg._kind == "tensor":
            return _from_tensor(cls, arg)
        if arg._kind == "nested" and len(arg.__meta__.dims) == len(cls.__meta__.dims):
            return _from_nested(cls, arg)
        if arg._kind == "leaf" and cls._namespace == "scalar":
            return _components(cls, [*leaf.entries(arg)])
        if arg._kind == "nested" and not broadcasts_to_components(cls, arg):
            return _components(cls, list(arg._components))
    elif isinstance(arg, (list, tuple, KernelValue)):
        return _components(cls, _sequence(cls, arg))
    elif _is_number(arg):
        if size == 0:
            _check_size(cls, 1)
    elif isinstance(arg, complex) and kind == "complex":
        return [component(cls, arg.real), component(cls, arg.imag)]
    elif interop.is_foreign_array(arg):
        return interop.from_object(cls, arg)._components
    elif is_sequence(arg):
        return _components(cls, _sequence(cls, arg))
    elif arg is None and cls._dtype.is_mask:
        arg = False
    elif not cls._dtype.is_mask:
        arg = number(cls, cls._dtype, arg)
    if kind in ("complex", "quaternion"):
        parts = [component(cls, 0) for _ in range(size)]
        parts[0 if kind == "complex" else -1] = component(cls, arg, strict=False)
        return parts
    return [component(cls, arg, strict=False) for _ in range(1 if size is None else size)]


def _from_nested(cls: Any, arg: Any) -> list:
    if arg.__meta__.kind == "matrix" and cls.__meta__.kind not in ("vector", "matrix"):
        raise _invalid(cls, f"cannot convert {type_label(arg)}")
    _check_size(cls, len(arg._components))
    if issubclass(cls.Value, ArrayBase) or arg._dtype is cls._dtype:
        return [component(cls, c, strict=False) for c in arg._components]
    return [node.normalize(cls._dtype, c) for c in arg._components]


def _from_tensor(cls: Any, arg: Any) -> list:
    """Splits a tensor along its first axis, or along the last axis for complex numbers, whose parts
    NumPy stores side by side."""
    if cls.__meta__.kind == "complex" and len(arg._shape) == 2:
        arg = tensor.transposed(arg, (1, 0))
    depth = len(cls.__meta__.dims) + cls.__meta__.is_jit
    shape = arg._shape
    if len(shape) != depth:
        raise _invalid(
            cls,
            f"dimensionality mismatch (target has {depth}, source has {len(shape)} dimensions); "
            f"the shape of the tensor is {shape}",
        )
    if cls._size is not None and shape[0] != cls._size:
        raise _invalid(
            cls,
            f"mismatched shape (axis 0 has size {cls._size} in target type, {shape[0]} in source "
            f"tensor); the shape of the tensor is {shape}",
        )
    if cls._namespace == "scalar":
        values = np.array(list(arg._array), arg._dtype.numpy).reshape(shape)
        if cls.__meta__.kind == "complex":
            return interop.build(cls, values.astype(cls._dtype.numpy))._components
        return interop.from_object(cls, values)._components
    count = math.prod(shape[1:])
    flat = arg._array
    index_type = table.find(flat._namespace, "leaf", dt.u32)
    parts = []
    for i in range(shape[0]):
        index = leaf.lane(index_type, count) + i * count
        rows = leaf_access.gather(flat, Access(index._node))
        if issubclass(cls.Value, ArrayBase) and cls.Value._kind != "leaf":
            rows = tensor.wrap(type(arg), rows, shape[1:])
        parts.append(cls.Value(rows))
    return parts


# Matrices


def _matrix(cls: Any, args: tuple) -> list:
    n, row = cls._size, cls.Value
    if not args:
        return [row() for _ in range(n)]
    if len(args) == 1:
        (arg,) = args
        kind = arg._kind if isinstance(arg, ArrayBase) else ""
        if kind == "tensor":
            return _from_tensor(cls, arg)
        if (kind and arg.__meta__.dims in ((), cls.__meta__.dims[2:])) or _is_number(arg):
            return _rows(cls, lambda i, j: arg if i == j else 0)
        if not kind:
            if interop.is_foreign_array(arg):
                return interop.from_object(cls, arg)._components
            args = tuple(_sequence(cls, arg))
        elif arg.__meta__.kind == "matrix":
            return _resized(cls, arg)
        else:
            dims = arg.__meta__.dims
            args = tuple(arg._components)
            if len(dims) > 1 or dims == (n,) * (len(cls.__meta__.dims) - 2):
                return _components(cls, args)
            if len(args) == n or arg.__meta__.kind != "vector":
                raise _invalid(cls, f"cannot convert {type_label(arg)}. {_of_matrix(n)}")
    if len(args) == n * n and n != 1:
        return [row([component(row, e) for e in args[i * n : i * n + n]]) for i in range(n)]
    return _components(cls, args)


def _resized(cls: Any, arg: Any) -> list:
    """Returns the rows of a matrix, cropped, or padded like the identity matrix."""
    n, m, rows = cls._size, arg._size, arg._components
    if arg.__meta__.dims[2:] not in ((), cls.__meta__.dims[2:]):
        raise _invalid(cls, f"cannot convert {type_label(arg)}")
    if n == m and len(arg.__meta__.dims) == len(cls.__meta__.dims):
        return _from_nested(cls, arg)
    return _rows(cls, lambda i, j: rows[i]._components[j] if max(i, j) < m else int(i == j))


def _rows(cls: Any, entry: Callable[[int, int], Any]) -> list:
    row, places = cls.Value, range(cls._size)
    return [row([component(row, entry(i, j), strict=False) for j in places]) for i in places]


# Tensors


def _tensor_arguments(array: Any = _MISSING, shape: Any = None, flip_axes: bool = False) -> tuple:
    return array, shape, flip_axes


def _init_tensor(self: Any, cls: Any, array: Any, shape: Any, flip_axes: bool) -> None:
    if flip_axes:
        if shape is not None or not isinstance(array, ArrayBase) or array._kind == "tensor":
            raise _invalid(
                cls, "'flip_axes' is for nested arrays such as Array3f, and goes without 'shape'"
            )
        flat, natural = _flat(cls, array)
        self._array = tensor.permuted(flat, natural, range(len(natural))[::-1])
        self._shape = natural[::-1]
        return
    if array is _MISSING:
        if shape is not None:
            raise _invalid(cls, "Input array must be specified beside the shape")
        array = []
    sizes = shape if isinstance(shape, tuple) else (-1,)
    if shape is not None and not all(isinstance(n, int) and n >= 0 for n in sizes):
        raise _invalid(cls, f"'shape' must be a tuple of sizes such as (2, 3), not {shape!r}")
    flat, natural = _flat(cls, array)
    if shape is not None and len(flat) != math.prod(shape):
        raise TypeError(
            f"{type_label(cls)}(): Input array has the wrong number of entries (got {len(flat)}, "
            f"expected {math.prod(shape)}), they do not fill the shape {shape}"
        )
    self._array = flat
    self._shape = natural if shape is None else tuple(map(int, shape))


def _flat(cls: Any, arg: Any) -> tuple[Any, tuple[int, ...]]:
    """Returns the entries in order, as a new array of the storage type, and their shape."""
    storage = cls.Array
    if isinstance(arg, ArrayBase):
        if arg._kind == "tensor":
            return storage(arg._array), arg._shape
        if arg._kind == "leaf" or (arg._namespace == "scalar" and len(arg.__meta__.dims) == 1):
            return storage(arg), (len(arg),)
        return _flat_nested(storage, arg)
    if _is_number(arg):
        return storage(number(cls, cls._dtype, arg)), ()
    if hasattr(arg, "_as_tensor"):
        entries, shape = arg._as_tensor(f"{type_label(cls)}()")
        return storage(entries), shape
    if interop.is_foreign_array(arg):
        made = interop.from_object(cls, arg)
        return made._array, made._shape
    return _flat_sequence(cls, _sequence(cls, arg))


def _flat_nested(storage: Any, arg: Any) -> tuple[Any, tuple[int, ...]]:
    """Returns the components one after the other, with lanes last."""
    shape = component_shape(arg)
    if arg.__meta__.is_jit and shape is not None:
        flat, (_, *lanes) = _joined(storage, [(storage(c), (len(c),)) for c in innermost(arg)])
        return flat, (*shape, *lanes)
    if not issubclass(arg.Value, ArrayBase):
        return storage(list(arg._components)), (len(arg._components),)
    nested = arg.Value._kind == "nested"
    parts = [
        _flat_nested(storage, c) if nested else (storage(c), (len(c),)) for c in arg._components
    ]
    return _joined(storage, parts)


def _joined(storage: Any, parts: list) -> tuple[Any, tuple[int, ...]]:
    """Stacks flat arrays with their shapes along a new first axis; a lane count of 1 is
    broadcast.
    """
    shapes = {s for _, s in parts}
    widest = max(shapes, key=math.prod) if shapes else (0,)
    for s in shapes:
        if len(s) != len(widest) or any(a not in (1, b) for a, b in zip(s, widest, strict=True)):
            shown = " and ".join(map(str, sorted(shapes)))
            raise TypeError(f"{type_label(storage)}: parts have different shapes {shown}")
    count = math.prod(widest)
    parts = [(tensor.broadcast(part, s, widest), s) for part, s in parts]
    if storage._kind == "nested":
        entries = [
            v for part, _ in parts for v in (part._components * count if len(part) == 1 else part)
        ]
        return storage(entries), (len(parts), *widest)
    if not parts:
        return storage(), (0, *widest)
    return tensor.joined([part for part, _ in parts], [count] * len(parts)), (len(parts), *widest)


def _flat_sequence(cls: Any, values: list) -> tuple[Any, tuple[int, ...]]:
    storage = cls.Array
    if any(isinstance(v, ArrayBase) for v in values):
        return _joined(storage, [_flat(cls, v) for v in values])
    numbers: list = []
    try:
        shape = _collect(cls, values, numbers)
    except RecursionError:
        raise pytree.too_deep() from None
    return storage(numbers), shape


def _collect(cls: Any, values: list, numbers: list) -> tuple[int, ...]:
    """Appends the numbers in nested sequences and returns the shape."""
    shapes = set()
    for v in values:
        if _is_number(v):
            numbers.append(v)
            shapes.add(())
        elif interop.is_foreign_array(v):
            data = interop.host_array(v)
            numbers.extend(data.ravel().tolist())
            shapes.add(data.shape)
        else:
            shapes.add(_collect(cls, _sequence(cls, v), numbers))
    if len(shapes) > 1:
        raise _invalid(cls, "ragged input, the rows of the nested sequences differ in size")
    return (len(values), *(shapes.pop() if shapes else ()))

"""Exchange of data with NumPy, with objects that support the array, buffer or DLPack protocols, and
with pickle.

Axes are those of the class, with lanes last: N 3D vectors are an array of shape (3, N). If element
types agree, a leaf array and the NumPy array made from it (or vice versa) share memory, wherever
the memory is; `drjit.jit.cpu.memory` says how kernels read it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from math import prod
from typing import Any

from ..ad import graph
from ..jit import log
from ..jit.device import Device, ForeignArray
from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.lazy import np
from ..jit.run import launch, schedule
from ..jit.trace.access import Access
from . import leaf, leaf_access, pytree, table, tensor
from .base import ArrayBase, nested, type_label
from .meta import DYNAMIC
from .show import component_shape, evaluated, innermost, is_array, ragged, shape_of

_PROTOCOLS = (
    "__array_interface__", "__array__", "__dlpack__", "__cuda_array_interface__", "__buffer__",
)  # fmt: skip
_ON_CUDA = 2  # according to DLPack
_BUFFERS = (memoryview, bytes, bytearray)
_COMPLEX = {dt.f32: "complex64", dt.f64: "complex128"}


def is_foreign_array(obj: object) -> bool:
    """Returns whether an object, not one of ours, provides its contents as an array of numbers."""
    if is_array(obj):
        return False
    if isinstance(obj, (np.ndarray, np.generic, *_BUFFERS)):
        return True
    if isinstance(obj, (str, int, float, complex, list, tuple, dict, type)) or obj is None:
        return False
    if any(hasattr(obj, name) for name in _PROTOCOLS):
        return True
    try:
        memoryview(obj)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def host_array(obj: Any) -> np.ndarray:
    """Returns the contents of an object as a NumPy array, without a copy if its protocol allows
    that.

    Raises:
        TypeError: the object does not provide its contents, or they are not on the host.
    """
    if isinstance(obj, np.ndarray):
        return np.asarray(obj)
    if isinstance(obj, (bytes, bytearray)):
        return np.frombuffer(obj, np.uint8)
    if getattr(obj, "requires_grad", False):
        obj = obj.detach()  # PyTorch tensors in a graph do not provide their contents
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        try:
            return np.asarray(obj)
        except (TypeError, ValueError, RuntimeError):
            if not hasattr(obj, "__dlpack__"):
                raise
    if hasattr(obj, "__dlpack__"):
        try:
            return np.from_dlpack(obj)
        except (BufferError, RuntimeError, ValueError) as error:
            raise TypeError(
                f"a {type_label(obj)} cannot be read through DLPack: {error}. "
                "Copy it to the host first, in a dense layout."
            ) from error
    return np.asarray(memoryview(obj))


def _warn_of_gradients(cls: Any, obj: Any) -> None:
    log.warn(
        f"{type_label(cls)}() of a tensor that requires gradients: the array does not, they do not "
        f"propagate from one library to the other. Pass tensor.detach(), or use dr.wrap()"
    )


def from_object(cls: Any, obj: Any, flip_axes: bool = False) -> Any:
    """Returns an array of the class with the contents of a foreign array.

    Accepts NumPy arrays and objects with the buffer protocol, `__array_interface__`, `__array__` or
    DLPack, with any strides and byte order. The shape is that of the class with lanes last, (3, N)
    for an array of 3D vectors. The last axis may be missing, which means one lane; a single number
    is broadcast. With `flip_axes`, the axes are in reverse order, (N, 3). Complex arrays accept
    complex numbers of shape (N,). Element types are converted like casts in C, with integers modulo
    their range.

    Raises:
        TypeError: shape or element type is incompatible.
    """
    if getattr(obj, "requires_grad", False):
        _warn_of_gradients(cls, obj)
        obj = obj.detach()
    there = off_host_device(cls)
    if there is not None:
        found = there.import_array(obj, f"{type_label(cls)}()")
        if found is not None:
            return _from_foreign(cls, obj, found, flip_axes)
    given = host_array(obj)
    data = given.T if flip_axes else given
    mismatch = partial(_mismatch, cls, obj, given.shape, given.dtype, flip_axes)
    is_complex = cls.__meta__.kind == "complex"
    if data.dtype.kind not in ("biufc" if is_complex else "biuf") or (is_complex and data.ndim > 1):
        raise mismatch()
    if is_complex:
        wide: Any = data.astype(_COMPLEX[cls._dtype], copy=False)
        return build(cls, np.array([wide.real, wide.imag], cls._dtype.numpy), mismatch)
    return build(cls, _converted(cls._dtype, data), mismatch)


def _from_foreign(cls: Any, obj: Any, found: Any, flip_axes: bool) -> Any:
    """Implements `from_object` for an array on the device of the class."""
    made = to_tensor(cls, found, flip_axes)
    if cls._kind == "tensor":
        return made
    if cls._kind == "leaf" and len(made._shape) <= 1:
        return made._array
    if len(made._shape) == 0:
        return cls(made._array)
    lanes_missing = len(made._shape) == len(_expected(cls)) - 1
    try:
        if lanes_missing and cls.__meta__.kind != "complex":
            made._shape = (*made._shape, 1)
        return cls(made)
    except TypeError:
        raise _mismatch(cls, obj, found.shape, found.dtype.numpy, flip_axes) from None


def build(cls: Any, data: np.ndarray, mismatch: Callable[[], TypeError] | None = None) -> Any:
    """Returns an array of the class from a NumPy array of exactly its element type; see
    `from_object` for shapes. `mismatch` makes the error to raise for one of another shape."""
    mismatch = mismatch or partial(_mismatch, cls, data, data.shape, data.dtype)
    if cls._kind == "tensor":
        flat = build(cls.Array, np.ascontiguousarray(data).reshape(-1))
        return tensor.wrap(cls, flat, data.shape)
    if cls._kind == "leaf":
        if data.ndim > 1:
            raise mismatch()
        return leaf.from_numpy(cls, data.reshape(-1), copy=data.ndim == 0)
    if data.ndim == 0 and cls.__meta__.kind != "complex":
        return cls(data.item())
    shape = _expected(cls)
    if cls.__meta__.is_jit and data.ndim == len(shape) - 1:
        data = data[..., np.newaxis]
    if not _is_like(data.shape, shape):
        raise mismatch()
    return _nested(cls, data)


def _nested(cls: type, data: np.ndarray) -> Any:
    if not issubclass(cls, ArrayBase):
        return data.item()
    if cls._kind == "leaf":
        return leaf.from_numpy(cls, data.reshape(-1))
    return nested(cls, [_nested(cls.Value, row) for row in data])


def _expected(cls: Any) -> tuple[int, ...]:
    """Returns the shape of NumPy arrays that convert to a class; lanes and components of dynamic
    number are `DYNAMIC`."""
    meta = cls.__meta__
    return (*meta.dims, DYNAMIC) if meta.is_jit else meta.dims


def _converted(dtype: dt.DType, data: np.ndarray) -> np.ndarray:
    if data.dtype == dtype.numpy:
        return data
    if dtype.is_int and data.dtype.kind == "f":
        from ..jit.target import numpy as numpy_target

        cast = numpy_target.namespace[dtype.code]
        return np.asarray(cast(data.astype(data.dtype.newbyteorder("="), copy=False)))
    with np.errstate(over="ignore"):
        return data.astype(dtype.numpy)


def _is_like(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(
        n in (DYNAMIC, size) for n, size in zip(expected, shape, strict=True)
    )


def _mismatch(
    cls: Any, obj: Any, shape: tuple[int, ...], dtype: Any, flip_axes: bool = False
) -> TypeError:
    """Returns the error to raise for an array whose shape or element type does not fit."""
    is_complex = cls.__meta__.kind == "complex"
    expected = _expected(cls)[is_complex:][:: -1 if flip_axes else 1]
    axes = ", ".join(["*" if n == DYNAMIC else str(n) for n in expected])
    wanted = "" if cls._kind == "tensor" else f"ndim={len(expected)}, shape=({axes}), "
    element = _COMPLEX[cls._dtype] if is_complex else cls._dtype.numpy.name
    hint = ""
    if wanted and not _is_like(shape, expected) and _is_like(shape[::-1], expected):
        hint = f" Pass the transpose, or flip_axes={not flip_axes}."
    return TypeError(
        f"{type_label(cls)}(): Unable to initialize from an array of type '{type(obj).__name__}'. "
        f"The input should have the following configuration for this to succeed: {wanted}"
        f"dtype={element}, order='C'. It has the shape {shape} and the element type {dtype}.{hint}"
    )


def components(value: Any) -> np.ndarray:
    """Returns the entries of an array as a new or shared NumPy array, with the axes of the class
    and lanes last.

    Raises:
        RuntimeError: components differ in size.
    """
    dtype = value._dtype.numpy
    if value._kind == "tensor":
        return components(value._array).reshape(value._shape)
    if value._kind == "leaf":
        n = value._node
        if n.size == 0:
            return np.empty(0, dtype)
        if not n.is_evaluated:
            n = value._node = schedule.materialize(n, value._device)
        return launch.view(n.dtype, n.size, n.data)
    shape = shape_of(value)
    if shape is None:
        raise ragged(value, f"{type_label(value)}.numpy()")
    leaves = list(innermost(value))
    if not value.__meta__.is_jit:
        return np.array(leaves, dtype).reshape(shape)
    result = np.empty((len(leaves), shape[-1]), dtype)
    for row, n in zip(result, evaluated(leaves), strict=True):
        row[:] = n.data if n.is_literal else launch.to_numpy(n.dtype, n.size, n.data)
    return result.reshape(shape)


def _shared(value: Any) -> np.ndarray:
    """Returns a NumPy array of the entries of a `drjit.scalar` array, which stores them there from
    then on."""
    if value._kind == "tensor":
        return _shared(value._array).reshape(value._shape)
    shape = component_shape(value)
    if shape is None:
        raise ragged(value, f"{type_label(value)}.numpy()")
    if not issubclass(value.Value, ArrayBase):
        if type(value._numbers) is list:
            value._numbers = np.array(value._numbers, value._dtype.numpy)
        return value._numbers
    vectors = list(_vectors(value))
    owner: Any = getattr(vectors[0]._numbers, "base", None) if vectors else None
    if owner is not None and owner.size == prod(shape):
        rows = owner.reshape(-1, shape[-1])
        if [_address(v._numbers) for v in vectors] == [_address(row) for row in rows]:
            return owner.reshape(shape)
    owner = components(value)
    for vector, row in zip(vectors, owner.reshape(-1, shape[-1]), strict=True):
        vector._numbers = row
    return owner


def _vectors(value: Any) -> Iterator[Any]:
    """Yields the components of a `drjit.scalar` array whose own components are numbers."""
    if issubclass(value.Value, ArrayBase):
        for c in value._components:
            yield from _vectors(c)
    else:
        yield value


def _address(held: Any) -> Any:
    return None if type(held) is list else held.__array_interface__["data"][0]


def to_numpy(value: Any) -> np.ndarray:
    """Converts the array to a NumPy array, with the shape of the class and lanes last; complex
    arrays become complex numbers.

    A leaf array, a tensor or an array of `drjit.scalar` shares its memory with the result: writes
    to one are visible in the other, until a traced array is written to by a scatter or an
    assignment, which leaves the NumPy array unchanged unless the traced array was made from NumPy's
    memory. Nested traced arrays are copied. Evaluates the array.

    Raises:
        RuntimeError: components differ in size.
    """
    if value._diff and any(a._var is not None for a in pytree.leaf_arrays(value)):
        graph.lose("NumPy")
    data = _shared(value) if value._namespace == "scalar" else components(value)
    if value.__meta__.kind != "complex":
        return data
    if value._namespace == "scalar":
        return data.view(_COMPLEX[value._dtype]).reshape(data.shape[1:])
    joined = np.empty(data.shape[1:], _COMPLEX[value._dtype])
    joined.real, joined.imag = data[0], data[1]
    return joined


def to_array(value: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """Implements `__array__`; see the NumPy documentation.

    `copy=False` copies only if necessary.
    """
    data = to_numpy(value)
    if dtype is not None and np.dtype(dtype) != data.dtype:
        return data.astype(dtype)
    copied = value._kind == "nested" and value._namespace != "scalar"
    return data.copy() if copy and not copied else data


def to_memoryview(value: Any) -> memoryview:
    """Converts the array to a memoryview; shares memory like `numpy()`."""
    return to_numpy(value).data


def dlpack(value: Any, stream: Any = None, **arguments: Any) -> Any:
    """Implements `__dlpack__`: returns a capsule with the array's memory. On a GPU, the reader's
    `stream` waits for queued work; nested arrays are copied.

    Raises:
        BufferError: `stream` is not None, though the array is on the host.
    """
    there = off_host_device(value)
    if there is not None:
        return there.dlpack(*_dense(value, there), stream, **arguments)
    if stream is not None:
        raise BufferError(f"{type_label(value)}.__dlpack__(): an array on the host has no streams")
    return to_numpy(value).__dlpack__(**arguments)


def dlpack_device(value: Any) -> tuple[int, int]:
    """Implements `__dlpack_device__`: (1, 0) for the host, (2, 0) for the first GPU."""
    return (1, 0) if value._device is None else value._device.dlpack_device


def to_torch(value: Any) -> Any:
    """Converts the array to a PyTorch tensor, which shares memory like `numpy()`, without
    derivatives.

    Raises:
        ModuleNotFoundError: PyTorch is not installed.
    """
    torch = _library(value, "torch", "PyTorch")
    if dlpack_device(value)[0] == _ON_CUDA:
        return torch.from_dlpack(value)
    data = to_numpy(value)
    if data.dtype.name in ("uint16", "uint32", "uint64") and not hasattr(torch, data.dtype.name):
        data = data.view(data.dtype.name[1:])  # an older version has no such type
    # PyTorch has no read-only arrays.
    return torch.from_numpy(data if data.flags.writeable else data.copy())


def to_jax(value: Any) -> Any:
    """Converts the array to a JAX array.

    Raises:
        ModuleNotFoundError: JAX is not installed.
    """
    numpy = _library(value, "jax.numpy", "JAX")
    if dlpack_device(value)[0] == _ON_CUDA:
        return numpy.from_dlpack(value)
    return numpy.asarray(to_numpy(value))


def _library(value: Any, module: str, title: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ModuleNotFoundError(
            f"{type_label(value)}.{package}(): {title} is not installed. "
            f"Install it with `pip install {package}`, or use .numpy()."
        ) from None


def get_state(value: Any) -> tuple[tuple[int, ...], bytes]:
    """Returns the pickled state, without gradients: the shape, with lanes last, and the entries."""
    data = components(value)
    return data.shape, data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def set_state(value: Any, state: tuple[tuple[int, ...], bytes]) -> None:
    """Restores the result of `get_state`.

    Raises:
        TypeError: the state does not match the class.
    """
    cls = type(value)
    try:
        shape, data = state
        entries = np.frombuffer(bytearray(data), cls._dtype.numpy.newbyteorder("<")).reshape(shape)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{type_label(cls)}.__setstate__(): not a pickled state: {error}") from None
    made = build(cls, entries.astype(cls._dtype.numpy, copy=False))
    for name in ("_node", "_components", "_array", "_shape"):
        if hasattr(cls, name):
            object.__setattr__(value, name, getattr(made, name))
    if cls._kind == "leaf" and cls._diff:
        value._var = None


# Arrays in memory of a device, such as a GPU, rather than of the process


def off_host_device(value: Any) -> Device | None:
    """Returns the device of an array or class if its memory is not that of the process."""
    device = value._device
    return None if device is None or device.on_host else device


def to_tensor(cls: Any, found: ForeignArray, flip_axes: bool = False) -> Any:
    """Returns a tensor with the element type of a class and the contents of an array on its
    device. Dense arrays share the memory until they are written to."""
    shape, strides = found.shape, found.strides
    flat = node.buffer(found.dtype, found.size, found.buffer)
    if found.size == 0:
        flat = node.literal(found.dtype, 0, 0)
    if flip_axes and len(shape) > 1:
        shape, strides = shape[::-1], (strides or tensor.strides(shape))[::-1]
    if strides is not None:
        index = tensor.strided_index(cls._namespace, shape, strides, found.offset, flat.size)
        source = leaf.wrap(cls._leaf, flat)
        flat = leaf_access.gather(source, Access(index._node, inside=True))._node
    made = table.find(cls._namespace, "tensor", cls._dtype)
    return tensor.wrap(made, leaf.wrap(made.Array, node.cast(cls._dtype, flat)), shape)


def _dense(value: Any, device: Device) -> tuple[Any, dt.DType, tuple[int, ...]]:
    """Returns the memory of an evaluated array, its element type and its shape."""
    if value._kind == "nested":
        value = table.related(type(value), kind="tensor")(value)
    if launch.on_read is not None:  # a frozen function would not export what it is called for
        launch.on_read()
    held = value._array if value._kind == "tensor" else value
    shape = value._shape if value._kind == "tensor" else (held._node.size,)
    n = held._node
    if not n.is_evaluated and n.size:
        n = held._node = schedule.materialize(n, held._device)
    return n.data if n.size else device.allocate(0), n.dtype, shape


def cuda_interface(value: Any) -> dict[str, Any]:
    """Returns the value of `__cuda_array_interface__`, for CuPy, Numba and others.

    The memory stays valid as long as this array exists, even if the array is written to, which
    makes a copy.
    """
    device = off_host_device(value)
    if device is None:
        raise AttributeError(f"{type_label(value)} has no attribute '__cuda_array_interface__'")
    value._exported = device.export(*_dense(value, device))
    return value._exported.interface


def _add_cuda_interface(cls: Any) -> None:
    if cls._kind != "nested" and off_host_device(cls) is not None:
        cls.__cuda_array_interface__ = property(cuda_interface)


table.finishers.append(_add_cuda_interface)

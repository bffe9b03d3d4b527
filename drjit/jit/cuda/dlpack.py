"""DLPack, the protocol by which array libraries share memory: https://dmlc.github.io/dlpack/

A capsule owns a structure that describes an array and has a function that releases it. Both
versions of the protocol are supported, with and without the structure's version.
"""

import ctypes
from ctypes import c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, NamedTuple

import numpy as np

from ..ir import dtype as dt
from ..ir.dtype import DType

# Of DLDeviceType. The emulated device is an extension, which other libraries refuse.
CUDA, EMULATED, CUDA_MANAGED = 2, 12, 13
_TYPES = {
    (6, 8): dt.mask, (0, 8): dt.i8, (1, 8): dt.u8, (0, 16): dt.i16, (1, 16): dt.u16,
    (0, 32): dt.i32, (1, 32): dt.u32, (0, 64): dt.i64, (1, 64): dt.u64, (2, 16): dt.f16,
    (2, 32): dt.f32, (2, 64): dt.f64,
}  # fmt: skip
_COMPLEX = 5
_NAMES = {True: b"dltensor_versioned", False: b"dltensor"}
_USED = {True: b"used_dltensor_versioned", False: b"used_dltensor"}
_versions = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)  # whether NumPy knows them


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32),
        ("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


_DELETER = ctypes.CFUNCTYPE(None, c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", _DELETER),
        ("flags", c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


_function, _python = ctypes.PYFUNCTYPE, ctypes.pythonapi
_is_valid = _function(ctypes.c_int, ctypes.py_object, c_char_p)(("PyCapsule_IsValid", _python))
_pointer = _function(c_void_p, ctypes.py_object, c_char_p)(("PyCapsule_GetPointer", _python))
_rename = _function(ctypes.c_int, ctypes.py_object, c_char_p)(("PyCapsule_SetName", _python))


class CapsuleArray(NamedTuple):
    """What a capsule describes. `owner` releases the memory when it is gone."""

    address: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in entries; None if the array is dense
    owner: object


def make_capsule(
    address: int, dtype: DType, shape: tuple[int, ...], device: tuple[int, int], owner: object,
    versioned: bool,
) -> Any:  # fmt: skip
    """Returns a capsule for a dense array on a device, given by type and ordinal; it keeps the
    owner as long as anybody uses it."""
    # NumPy makes the capsule, as if for host memory, which it does not touch: the destructor of a
    # capsule cannot be written in Python, as it also runs while an exception is raised.
    holder = _Holder(address, dtype, shape, owner)
    options = {"max_version": (1, 0)} if versioned and _versions else {}
    shown: Any = np.asarray(holder)
    capsule = shown.__dlpack__(**options)
    tensor = _structure(capsule).tensor
    tensor.device_type, tensor.device_id = device
    return capsule


class _Holder:
    """The base of NumPy's array of an address."""

    def __init__(self, address: int, dtype: DType, shape: tuple[int, ...], owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3, "typestr": dtype.numpy.str, "shape": shape, "data": (address, False),
        }  # fmt: skip


def _structure(capsule: Any) -> Any:
    """Returns the structure in a capsule."""
    versioned = bool(_is_valid(capsule, _NAMES[True]))
    address = _pointer(capsule, _NAMES[versioned])
    return (_Versioned if versioned else _Managed).from_address(address)


class _Owner:
    """Releases the memory of a structure that was taken out of a capsule."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure

    def __del__(self, _address: Any = ctypes.addressof) -> None:
        if self.structure.deleter:
            self.structure.deleter(_address(self.structure))


def take_array(capsule: Any, what: str) -> CapsuleArray:
    """Takes the array out of a capsule; `what` names its origin in errors.

    Raises:
        TypeError: it is of an element type that does not exist here.
    """
    structure = _structure(capsule)
    _rename(capsule, _USED[isinstance(structure, _Versioned)])
    owner = _Owner(structure)
    tensor = structure.tensor
    code, bits = tensor.code, tensor.bits
    parts = code == _COMPLEX
    if parts:  # real and imaginary part follow each other
        code, bits = 2, bits // 2
    dtype = _TYPES.get((code, bits)) if tensor.lanes == 1 else None
    if dtype is None:
        raise TypeError(
            f"{what}: elements of DLPack's type ({tensor.code}, {tensor.bits} bits, {tensor.lanes} "
            "lanes) have no equivalent; convert them first"
        )
    n = tensor.ndim
    shape = tuple(tensor.shape[:n])
    strides = tuple(tensor.strides[:n]) if tensor.strides else None
    if parts:
        shape = (*shape, 2)
        strides = None if strides is None else (*[2 * s for s in strides], 1)
    return CapsuleArray((tensor.data or 0) + tensor.byte_offset, dtype, shape, strides, owner)

"""Element types. There is one `DType` object per type, so types compare by identity; every other
property of a type is an attribute of that object.
"""

import enum
from functools import cache, cached_property
from typing import Any

from ..enumeration import Named
from ..lazy import np


class VarType(Named, enum.Enum):
    """The element type of an array, numbered as in the public interface."""

    Void = 0
    Bool = 1
    Int8 = 3
    UInt8 = 4
    Int16 = 5
    UInt16 = 6
    Int32 = 7
    UInt32 = 8
    Int64 = 9
    UInt64 = 10
    Pointer = 11
    Float16 = 13
    Float32 = 14
    Float64 = 15


class DType:
    """An element type: its long name (`float32`), its name in kernel text (`f32`), NumPy type, size
    in bytes, and kind: `b`ool, `i`nteger or `f`loat.

    A vector type (`vector`) has `count` features of type `element` and shares the properties of
    that type; any other type is its own element. `mask_type` is the type of comparison results, and
    `accumulator` the type in which reductions accumulate. Integers lie between `low` and `high`.
    Operands are promoted to the type with the highest `order`. The `number` is the same in all
    processes.
    """

    __slots__ = ("__dict__", "__weakref__", "number")  # native code reads the number

    accumulator: "DType"
    element: "DType"
    mask_type: "DType"

    def __init__(self, var_type: VarType):
        self.name, self.var_type = var_type.name.lower(), var_type
        kind = self.name.rstrip("0123456789")
        self.code = code = "mask" if kind == "bool" else kind[0] + self.name.removeprefix(kind)
        self.element, self.count, self.is_vector = self, 1, False
        self.accumulator = self
        self.bits = int(code[1:] if code != "mask" else 1)
        self.itemsize = -(-self.bits // 8)
        self.is_mask = code == "mask"
        self.is_float = code[0] == "f"
        self.kind = "b" if self.is_mask else "f" if self.is_float else "i"
        self.is_int = code[0] in "iu"
        self.is_signed = code[0] in "if"
        self.is_arithmetic = not self.is_mask
        self.low = -(1 << self.bits - 1) if self.is_signed else 0
        self.high = self.low + (1 << self.bits) - 1
        self.order = self.number = var_type.value

    @cached_property
    def numpy(self) -> Any:
        return np.dtype(self.var_type.name.lower())

    @cached_property
    def scalar(self) -> Any:
        """The NumPy type of single numbers."""
        return self.numpy.type

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return (by_name, (self.name,))


ALL = tuple([DType(v) for v in VarType if v not in (VarType.Void, VarType.Pointer)])
BY_NAME = {t.name: t for t in ALL}
BY_CODE = {t.code: t for t in ALL}
BY_VAR_TYPE = {t.var_type: t for t in ALL}

mask, i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 = ALL
for _type in ALL:
    _type.mask_type = mask
f16.accumulator = f32

FORMATS = dict(zip(ALL, "?bBhHiIqQefd", strict=True))
"""The format characters of `struct`."""

VECTOR_BLOCK = 64
"""Number of lanes per block in the memory layout of vectors. A block has one row per feature, and
its width is a multiple of the packet width."""


class _Vectors(dict[tuple[DType, int], DType]):
    """The vector types, created on first use."""

    def __missing__(self, key: tuple[DType, int]) -> DType:
        element, count = key
        t = DType(element.var_type)
        t.name, t.code = f"{element.name}x{count}", f"{element.code}x{count}"
        t.element, t.count, t.is_vector = element, count, True
        t.number = element.number + 16 * count
        t.mask_type = t if element is mask else vector(mask, count)
        # Two threads that get here at the same time end up with the same object.
        return self.setdefault(key, t)


VECTORS = _Vectors()
"""Vector types by element type and number of features: like `vector`, but without a call."""


def vector(element: DType, count: int) -> DType:
    """Returns the vector type with `count` features; there is one object per type.

    >>> vector(f16, 64).name, vector(f16, 64) is vector(f16, 64)
    ('float16x64', True)
    """
    return VECTORS[element, count]


@cache
def types_by_numpy() -> dict[Any, DType]:
    """Returns the element types by their NumPy types, which are in native byte order."""
    return {t.numpy: t for t in ALL}


def by_name(name: str) -> DType:
    """Returns the type with the given long name (`float32`, `float32x3`)."""
    element, _, count = name.partition("x")
    return vector(BY_NAME[element], int(count)) if count else BY_NAME[name]

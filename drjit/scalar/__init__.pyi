# Written by .ci/stubs.py.
# fmt: off
# ruff: noqa
from ..array.kinds import Complex, Floats, Integers, Masks, Matrix, Part, Quaternion, T, Tensor, Textures, ToFloat, ToFloat16, ToFloat64, ToInt, ToInt64, ToInt8, ToUInt, ToUInt64, ToUInt8, Vector, Vector1, Vector2, Vector3, Vector4
from typing import Any, ClassVar, Never, TypeAlias
from ..array.swizzles import Swizzles2, Swizzles3, Swizzles4
from ..random.pcg import Generator as _PCG32
from ..random.philox import Generator as _Philox4x32
Bool: TypeAlias = bool
Int8: TypeAlias = int
UInt8: TypeAlias = int
Int: TypeAlias = int
UInt: TypeAlias = int
Int64: TypeAlias = int
UInt64: TypeAlias = int
Float16: TypeAlias = float
Float: TypeAlias = float
Float64: TypeAlias = float
Float32: TypeAlias = float
Int32: TypeAlias = int
UInt32: TypeAlias = int
Int16: TypeAlias = int
UInt16: TypeAlias = int
_Array0b: TypeAlias = bool | Array0b
class Array0b(Vector[_Array0b, Array0b, bool, bool], Masks[_Array0b, Array0b], ToInt8[Array0i8, Array0u8, Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Array0b]]
_Array1b: TypeAlias = bool | Array1b
class Array1b(Vector1[_Array1b, Array1b, bool, bool], Masks[_Array1b, Array1b], ToInt8[Array1i8, Array1u8, Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Array1b]]
_Array2b: TypeAlias = bool | Array2b
class Array2b(Vector2[_Array2b, Array2b, bool, bool], Masks[_Array2b, Array2b], Swizzles2[bool, Array2b, Array3b, Array4b], ToInt8[Array2i8, Array2u8, Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Array2b]]
_Array3b: TypeAlias = bool | Array3b
class Array3b(Vector3[_Array3b, Array3b, bool, bool], Masks[_Array3b, Array3b], Swizzles3[bool, Array2b, Array3b, Array4b], ToInt8[Array3i8, Array3u8, Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Array3b]]
_Array4b: TypeAlias = bool | Array4b
class Array4b(Vector4[_Array4b, Array4b, bool, bool], Masks[_Array4b, Array4b], Swizzles4[bool, Array2b, Array3b, Array4b], ToInt8[Array4i8, Array4u8, Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Array4b]]
_ArrayXb: TypeAlias = bool | Array0b | Array1b | Array2b | Array3b | Array4b | ArrayXb
class ArrayXb(Vector[_ArrayXb, ArrayXb, bool, bool], Masks[_ArrayXb, ArrayXb], ToInt8[ArrayXi8, ArrayXu8, ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i8: TypeAlias = int | Array0i8 | ToInt8[Array0i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array0i8(Vector[_Array0i8, Array0b, int, int], Integers[_Array0i8, Array0b], ToUInt8[Array0u8, Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1i8: TypeAlias = int | Array1i8 | ToInt8[Array1i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array1i8(Vector1[_Array1i8, Array1b, int, int], Integers[_Array1i8, Array1b], ToUInt8[Array1u8, Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2i8: TypeAlias = int | Array2i8 | ToInt8[Array2i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array2i8(Vector2[_Array2i8, Array2b, int, int], Integers[_Array2i8, Array2b], Swizzles2[int, Array2i8, Array3i8, Array4i8], ToUInt8[Array2u8, Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3i8: TypeAlias = int | Array3i8 | ToInt8[Array3i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array3i8(Vector3[_Array3i8, Array3b, int, int], Integers[_Array3i8, Array3b], Swizzles3[int, Array2i8, Array3i8, Array4i8], ToUInt8[Array3u8, Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4i8: TypeAlias = int | Array4i8 | ToInt8[Array4i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array4i8(Vector4[_Array4i8, Array4b, int, int], Integers[_Array4i8, Array4b], Swizzles4[int, Array2i8, Array3i8, Array4i8], ToUInt8[Array4u8, Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi8: TypeAlias = int | Array0i8 | ToInt8[Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array1i8 | ToInt8[Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array2i8 | ToInt8[Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array3i8 | ToInt8[Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array4i8 | ToInt8[Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | ArrayXi8 | ToInt8[ArrayXi8, Any, Any, Any, Any, Any, Any, Any, Any]
class ArrayXi8(Vector[_ArrayXi8, ArrayXb, int, int], Integers[_ArrayXi8, ArrayXb], ToUInt8[ArrayXu8, ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u8: TypeAlias = int | Array0u8 | ToUInt8[Array0u8, Any, Any, Any, Any, Any, Any, Any]
class Array0u8(Vector[_Array0u8, Array0b, int, int], Integers[_Array0u8, Array0b], ToInt[Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1u8: TypeAlias = int | Array1u8 | ToUInt8[Array1u8, Any, Any, Any, Any, Any, Any, Any]
class Array1u8(Vector1[_Array1u8, Array1b, int, int], Integers[_Array1u8, Array1b], ToInt[Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2u8: TypeAlias = int | Array2u8 | ToUInt8[Array2u8, Any, Any, Any, Any, Any, Any, Any]
class Array2u8(Vector2[_Array2u8, Array2b, int, int], Integers[_Array2u8, Array2b], Swizzles2[int, Array2u8, Array3u8, Array4u8], ToInt[Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3u8: TypeAlias = int | Array3u8 | ToUInt8[Array3u8, Any, Any, Any, Any, Any, Any, Any]
class Array3u8(Vector3[_Array3u8, Array3b, int, int], Integers[_Array3u8, Array3b], Swizzles3[int, Array2u8, Array3u8, Array4u8], ToInt[Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4u8: TypeAlias = int | Array4u8 | ToUInt8[Array4u8, Any, Any, Any, Any, Any, Any, Any]
class Array4u8(Vector4[_Array4u8, Array4b, int, int], Integers[_Array4u8, Array4b], Swizzles4[int, Array2u8, Array3u8, Array4u8], ToInt[Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu8: TypeAlias = int | Array0u8 | ToUInt8[Array0u8, Any, Any, Any, Any, Any, Any, Any] | Array1u8 | ToUInt8[Array1u8, Any, Any, Any, Any, Any, Any, Any] | Array2u8 | ToUInt8[Array2u8, Any, Any, Any, Any, Any, Any, Any] | Array3u8 | ToUInt8[Array3u8, Any, Any, Any, Any, Any, Any, Any] | Array4u8 | ToUInt8[Array4u8, Any, Any, Any, Any, Any, Any, Any] | ArrayXu8 | ToUInt8[ArrayXu8, Any, Any, Any, Any, Any, Any, Any]
class ArrayXu8(Vector[_ArrayXu8, ArrayXb, int, int], Integers[_ArrayXu8, ArrayXb], ToInt[ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i: TypeAlias = int | Array0i | ToInt[Array0i, Any, Any, Any, Any, Any, Any]
class Array0i(Vector[_Array0i, Array0b, int, int], Integers[_Array0i, Array0b], ToUInt[Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1i: TypeAlias = int | Array1i | ToInt[Array1i, Any, Any, Any, Any, Any, Any]
class Array1i(Vector1[_Array1i, Array1b, int, int], Integers[_Array1i, Array1b], ToUInt[Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2i: TypeAlias = int | Array2i | ToInt[Array2i, Any, Any, Any, Any, Any, Any]
class Array2i(Vector2[_Array2i, Array2b, int, int], Integers[_Array2i, Array2b], Swizzles2[int, Array2i, Array3i, Array4i], ToUInt[Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3i: TypeAlias = int | Array3i | ToInt[Array3i, Any, Any, Any, Any, Any, Any]
class Array3i(Vector3[_Array3i, Array3b, int, int], Integers[_Array3i, Array3b], Swizzles3[int, Array2i, Array3i, Array4i], ToUInt[Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4i: TypeAlias = int | Array4i | ToInt[Array4i, Any, Any, Any, Any, Any, Any]
class Array4i(Vector4[_Array4i, Array4b, int, int], Integers[_Array4i, Array4b], Swizzles4[int, Array2i, Array3i, Array4i], ToUInt[Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi: TypeAlias = int | Array0i | ToInt[Array0i, Any, Any, Any, Any, Any, Any] | Array1i | ToInt[Array1i, Any, Any, Any, Any, Any, Any] | Array2i | ToInt[Array2i, Any, Any, Any, Any, Any, Any] | Array3i | ToInt[Array3i, Any, Any, Any, Any, Any, Any] | Array4i | ToInt[Array4i, Any, Any, Any, Any, Any, Any] | ArrayXi | ToInt[ArrayXi, Any, Any, Any, Any, Any, Any]
class ArrayXi(Vector[_ArrayXi, ArrayXb, int, int], Integers[_ArrayXi, ArrayXb], ToUInt[ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u: TypeAlias = int | Array0u | ToUInt[Array0u, Any, Any, Any, Any, Any]
class Array0u(Vector[_Array0u, Array0b, int, int], Integers[_Array0u, Array0b], ToInt64[Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1u: TypeAlias = int | Array1u | ToUInt[Array1u, Any, Any, Any, Any, Any]
class Array1u(Vector1[_Array1u, Array1b, int, int], Integers[_Array1u, Array1b], ToInt64[Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2u: TypeAlias = int | Array2u | ToUInt[Array2u, Any, Any, Any, Any, Any]
class Array2u(Vector2[_Array2u, Array2b, int, int], Integers[_Array2u, Array2b], Swizzles2[int, Array2u, Array3u, Array4u], ToInt64[Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3u: TypeAlias = int | Array3u | ToUInt[Array3u, Any, Any, Any, Any, Any]
class Array3u(Vector3[_Array3u, Array3b, int, int], Integers[_Array3u, Array3b], Swizzles3[int, Array2u, Array3u, Array4u], ToInt64[Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4u: TypeAlias = int | Array4u | ToUInt[Array4u, Any, Any, Any, Any, Any]
class Array4u(Vector4[_Array4u, Array4b, int, int], Integers[_Array4u, Array4b], Swizzles4[int, Array2u, Array3u, Array4u], ToInt64[Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu: TypeAlias = int | Array0u | ToUInt[Array0u, Any, Any, Any, Any, Any] | Array1u | ToUInt[Array1u, Any, Any, Any, Any, Any] | Array2u | ToUInt[Array2u, Any, Any, Any, Any, Any] | Array3u | ToUInt[Array3u, Any, Any, Any, Any, Any] | Array4u | ToUInt[Array4u, Any, Any, Any, Any, Any] | ArrayXu | ToUInt[ArrayXu, Any, Any, Any, Any, Any]
class ArrayXu(Vector[_ArrayXu, ArrayXb, int, int], Integers[_ArrayXu, ArrayXb], ToInt64[ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i64: TypeAlias = int | Array0i64 | ToInt64[Array0i64, Any, Any, Any, Any]
class Array0i64(Vector[_Array0i64, Array0b, int, int], Integers[_Array0i64, Array0b], ToUInt64[Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1i64: TypeAlias = int | Array1i64 | ToInt64[Array1i64, Any, Any, Any, Any]
class Array1i64(Vector1[_Array1i64, Array1b, int, int], Integers[_Array1i64, Array1b], ToUInt64[Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2i64: TypeAlias = int | Array2i64 | ToInt64[Array2i64, Any, Any, Any, Any]
class Array2i64(Vector2[_Array2i64, Array2b, int, int], Integers[_Array2i64, Array2b], Swizzles2[int, Array2i64, Array3i64, Array4i64], ToUInt64[Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3i64: TypeAlias = int | Array3i64 | ToInt64[Array3i64, Any, Any, Any, Any]
class Array3i64(Vector3[_Array3i64, Array3b, int, int], Integers[_Array3i64, Array3b], Swizzles3[int, Array2i64, Array3i64, Array4i64], ToUInt64[Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4i64: TypeAlias = int | Array4i64 | ToInt64[Array4i64, Any, Any, Any, Any]
class Array4i64(Vector4[_Array4i64, Array4b, int, int], Integers[_Array4i64, Array4b], Swizzles4[int, Array2i64, Array3i64, Array4i64], ToUInt64[Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi64: TypeAlias = int | Array0i64 | ToInt64[Array0i64, Any, Any, Any, Any] | Array1i64 | ToInt64[Array1i64, Any, Any, Any, Any] | Array2i64 | ToInt64[Array2i64, Any, Any, Any, Any] | Array3i64 | ToInt64[Array3i64, Any, Any, Any, Any] | Array4i64 | ToInt64[Array4i64, Any, Any, Any, Any] | ArrayXi64 | ToInt64[ArrayXi64, Any, Any, Any, Any]
class ArrayXi64(Vector[_ArrayXi64, ArrayXb, int, int], Integers[_ArrayXi64, ArrayXb], ToUInt64[ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u64: TypeAlias = int | Array0u64 | ToUInt64[Array0u64, Any, Any, Any]
class Array0u64(Vector[_Array0u64, Array0b, int, int], Integers[_Array0u64, Array0b], ToFloat16[Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array0b]]
_Array1u64: TypeAlias = int | Array1u64 | ToUInt64[Array1u64, Any, Any, Any]
class Array1u64(Vector1[_Array1u64, Array1b, int, int], Integers[_Array1u64, Array1b], ToFloat16[Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array1b]]
_Array2u64: TypeAlias = int | Array2u64 | ToUInt64[Array2u64, Any, Any, Any]
class Array2u64(Vector2[_Array2u64, Array2b, int, int], Integers[_Array2u64, Array2b], Swizzles2[int, Array2u64, Array3u64, Array4u64], ToFloat16[Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array2b]]
_Array3u64: TypeAlias = int | Array3u64 | ToUInt64[Array3u64, Any, Any, Any]
class Array3u64(Vector3[_Array3u64, Array3b, int, int], Integers[_Array3u64, Array3b], Swizzles3[int, Array2u64, Array3u64, Array4u64], ToFloat16[Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array3b]]
_Array4u64: TypeAlias = int | Array4u64 | ToUInt64[Array4u64, Any, Any, Any]
class Array4u64(Vector4[_Array4u64, Array4b, int, int], Integers[_Array4u64, Array4b], Swizzles4[int, Array2u64, Array3u64, Array4u64], ToFloat16[Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu64: TypeAlias = int | Array0u64 | ToUInt64[Array0u64, Any, Any, Any] | Array1u64 | ToUInt64[Array1u64, Any, Any, Any] | Array2u64 | ToUInt64[Array2u64, Any, Any, Any] | Array3u64 | ToUInt64[Array3u64, Any, Any, Any] | Array4u64 | ToUInt64[Array4u64, Any, Any, Any] | ArrayXu64 | ToUInt64[ArrayXu64, Any, Any, Any]
class ArrayXu64(Vector[_ArrayXu64, ArrayXb, int, int], Integers[_ArrayXu64, ArrayXb], ToFloat16[ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f16: TypeAlias = float | Array0f16 | ToFloat16[Array0f16, Any, Any]
class Array0f16(Vector[_Array0f16, Array0b, float, float], Floats[_Array0f16, Array0b], ToFloat[Array0f, Array0f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array0b]]
_Array1f16: TypeAlias = float | Array1f16 | ToFloat16[Array1f16, Any, Any]
class Array1f16(Vector1[_Array1f16, Array1b, float, float], Floats[_Array1f16, Array1b], ToFloat[Array1f, Array1f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array1b]]
_Array2f16: TypeAlias = float | Array2f16 | ToFloat16[Array2f16, Any, Any]
class Array2f16(Vector2[_Array2f16, Array2b, float, float], Floats[_Array2f16, Array2b], Swizzles2[float, Array2f16, Array3f16, Array4f16], ToFloat[Array2f, Array2f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array2b]]
_Array3f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any]
class Array3f16(Vector3[_Array3f16, Array3b, float, float], Floats[_Array3f16, Array3b], Swizzles3[float, Array2f16, Array3f16, Array4f16], ToFloat[Array3f, Array3f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array3b]]
_Array4f16: TypeAlias = float | Array4f16 | ToFloat16[Array4f16, Any, Any]
class Array4f16(Vector4[_Array4f16, Array4b, float, float], Floats[_Array4f16, Array4b], Swizzles4[float, Array2f16, Array3f16, Array4f16], ToFloat[Array4f, Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf16: TypeAlias = float | Array0f16 | ToFloat16[Array0f16, Any, Any] | Array1f16 | ToFloat16[Array1f16, Any, Any] | Array2f16 | ToFloat16[Array2f16, Any, Any] | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | ArrayXf16 | ToFloat16[ArrayXf16, Any, Any]
class ArrayXf16(Vector[_ArrayXf16, ArrayXb, float, float], Floats[_ArrayXf16, ArrayXb], ToFloat[ArrayXf, ArrayXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f: TypeAlias = float | Array0f | ToFloat[Array0f, Any]
class Array0f(Vector[_Array0f, Array0b, float, float], Floats[_Array0f, Array0b], ToFloat64[Array0f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array0b]]
_Array1f: TypeAlias = float | Array1f | ToFloat[Array1f, Any]
class Array1f(Vector1[_Array1f, Array1b, float, float], Floats[_Array1f, Array1b], ToFloat64[Array1f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array1b]]
_Array2f: TypeAlias = float | Array2f | ToFloat[Array2f, Any]
class Array2f(Vector2[_Array2f, Array2b, float, float], Floats[_Array2f, Array2b], Swizzles2[float, Array2f, Array3f, Array4f], ToFloat64[Array2f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array2b]]
_Array3f: TypeAlias = float | Array3f | ToFloat[Array3f, Any]
class Array3f(Vector3[_Array3f, Array3b, float, float], Floats[_Array3f, Array3b], Swizzles3[float, Array2f, Array3f, Array4f], ToFloat64[Array3f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array3b]]
_Array4f: TypeAlias = float | Array4f | ToFloat[Array4f, Any]
class Array4f(Vector4[_Array4f, Array4b, float, float], Floats[_Array4f, Array4b], Swizzles4[float, Array2f, Array3f, Array4f], ToFloat64[Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf: TypeAlias = float | Array0f | ToFloat[Array0f, Any] | Array1f | ToFloat[Array1f, Any] | Array2f | ToFloat[Array2f, Any] | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | ArrayXf | ToFloat[ArrayXf, Any]
class ArrayXf(Vector[_ArrayXf, ArrayXb, float, float], Floats[_ArrayXf, ArrayXb], ToFloat64[ArrayXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f64: TypeAlias = float | Array0f64 | ToFloat64[Array0f64]
class Array0f64(Vector[_Array0f64, Array0b, float, float], Floats[_Array0f64, Array0b]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array0b]]
_Array1f64: TypeAlias = float | Array1f64 | ToFloat64[Array1f64]
class Array1f64(Vector1[_Array1f64, Array1b, float, float], Floats[_Array1f64, Array1b]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array1b]]
_Array2f64: TypeAlias = float | Array2f64 | ToFloat64[Array2f64]
class Array2f64(Vector2[_Array2f64, Array2b, float, float], Floats[_Array2f64, Array2b], Swizzles2[float, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array2b]]
_Array3f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64]
class Array3f64(Vector3[_Array3f64, Array3b, float, float], Floats[_Array3f64, Array3b], Swizzles3[float, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array3b]]
_Array4f64: TypeAlias = float | Array4f64 | ToFloat64[Array4f64]
class Array4f64(Vector4[_Array4f64, Array4b, float, float], Floats[_Array4f64, Array4b], Swizzles4[float, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf64: TypeAlias = float | Array0f64 | ToFloat64[Array0f64] | Array1f64 | ToFloat64[Array1f64] | Array2f64 | ToFloat64[Array2f64] | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | ArrayXf64 | ToFloat64[ArrayXf64]
class ArrayXf64(Vector[_ArrayXf64, ArrayXb, float, float], Floats[_ArrayXf64, ArrayXb]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[ArrayXb]]
_Array22b: TypeAlias = bool | Array2b | Array22b
class Array22b(Vector[_Array22b, Array22b, Array2b, bool], Masks[_Array22b, Array22b], ToInt8[Never, Never, Never, Never, Never, Never, Array22f16, Array22f, Array22f64]):
    Value: ClassVar[type[Array2b]]
    Mask: ClassVar[type[Array22b]]
_Array33b: TypeAlias = bool | Array3b | Array33b
class Array33b(Vector[_Array33b, Array33b, Array3b, bool], Masks[_Array33b, Array33b], ToInt8[Never, Never, Never, Never, Never, Never, Array33f16, Array33f, Array33f64]):
    Value: ClassVar[type[Array3b]]
    Mask: ClassVar[type[Array33b]]
_Array44b: TypeAlias = bool | Array4b | Array44b
class Array44b(Vector[_Array44b, Array44b, Array4b, bool], Masks[_Array44b, Array44b], ToInt8[Never, Never, Never, Never, Never, Never, Array44f16, Array44f, Array44f64]):
    Value: ClassVar[type[Array4b]]
    Mask: ClassVar[type[Array44b]]
_Array34b: TypeAlias = bool | Array3b | Array4b | Array34b
class Array34b(Vector[_Array34b, Array34b, Array4b, bool], Masks[_Array34b, Array34b], ToInt8[Never, Never, Never, Never, Never, Never, Array34f16, Array34f, Array34f64]):
    Value: ClassVar[type[Array4b]]
    Mask: ClassVar[type[Array34b]]
_Array41b: TypeAlias = bool | Array1b | Array4b | Array41b
class Array41b(Vector[_Array41b, Array41b, Array1b, bool], Masks[_Array41b, Array41b], ToInt8[Never, Never, Never, Never, Never, Never, Array41f16, Array41f, Array41f64]):
    Value: ClassVar[type[Array1b]]
    Mask: ClassVar[type[Array41b]]
_Array43b: TypeAlias = bool | Array3b | Array4b | Array43b
class Array43b(Vector[_Array43b, Array43b, Array3b, bool], Masks[_Array43b, Array43b], ToInt8[Never, Never, Never, Never, Never, Never, Array43f16, Array43f, Array43f64]):
    Value: ClassVar[type[Array3b]]
    Mask: ClassVar[type[Array43b]]
_Array334b: TypeAlias = bool | Array3b | Array4b | Array33b | Array34b | Array334b
class Array334b(Vector[_Array334b, Array334b, Array34b, bool], Masks[_Array334b, Array334b], ToInt8[Never, Never, Never, Never, Never, Never, Array334f16, Array334f, Array334f64]):
    Value: ClassVar[type[Array34b]]
    Mask: ClassVar[type[Array334b]]
_Array441b: TypeAlias = bool | Array1b | Array4b | Array44b | Array41b | Array441b
class Array441b(Vector[_Array441b, Array441b, Array41b, bool], Masks[_Array441b, Array441b], ToInt8[Never, Never, Never, Never, Never, Never, Array441f16, Array441f, Array441f64]):
    Value: ClassVar[type[Array41b]]
    Mask: ClassVar[type[Array441b]]
_Array443b: TypeAlias = bool | Array3b | Array4b | Array44b | Array43b | Array443b
class Array443b(Vector[_Array443b, Array443b, Array43b, bool], Masks[_Array443b, Array443b], ToInt8[Never, Never, Never, Never, Never, Never, Array443f16, Array443f, Array443f64]):
    Value: ClassVar[type[Array43b]]
    Mask: ClassVar[type[Array443b]]
_Array444b: TypeAlias = bool | Array4b | Array44b | Array444b
class Array444b(Vector[_Array444b, Array444b, Array44b, bool], Masks[_Array444b, Array444b], ToInt8[Never, Never, Never, Never, Never, Never, Array444f16, Array444f, Array444f64]):
    Value: ClassVar[type[Array44b]]
    Mask: ClassVar[type[Array444b]]
_Array22f16: TypeAlias = float | Array2f16 | ToFloat16[Array2f16, Any, Any] | Array22f16 | ToFloat16[Array22f16, Any, Any]
class Array22f16(Vector[_Array22f16, Array22b, Array2f16, float], Floats[_Array22f16, Array22b], ToFloat[Array22f, Array22f64]):
    Value: ClassVar[type[Array2f16]]
    Mask: ClassVar[type[Array22b]]
_Array33f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array33f16 | ToFloat16[Array33f16, Any, Any]
class Array33f16(Vector[_Array33f16, Array33b, Array3f16, float], Floats[_Array33f16, Array33b], ToFloat[Array33f, Array33f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array33b]]
_Array44f16: TypeAlias = float | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any]
class Array44f16(Vector[_Array44f16, Array44b, Array4f16, float], Floats[_Array44f16, Array44b], ToFloat[Array44f, Array44f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array44b]]
_Array34f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array34f16 | ToFloat16[Array34f16, Any, Any]
class Array34f16(Vector[_Array34f16, Array34b, Array4f16, float], Floats[_Array34f16, Array34b], ToFloat[Array34f, Array34f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array34b]]
_Array41f16: TypeAlias = float | Array1f16 | ToFloat16[Array1f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array41f16 | ToFloat16[Array41f16, Any, Any]
class Array41f16(Vector[_Array41f16, Array41b, Array1f16, float], Floats[_Array41f16, Array41b], ToFloat[Array41f, Array41f64]):
    Value: ClassVar[type[Array1f16]]
    Mask: ClassVar[type[Array41b]]
_Array43f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array43f16 | ToFloat16[Array43f16, Any, Any]
class Array43f16(Vector[_Array43f16, Array43b, Array3f16, float], Floats[_Array43f16, Array43b], ToFloat[Array43f, Array43f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array43b]]
_Array334f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array33f16 | ToFloat16[Array33f16, Any, Any] | Array34f16 | ToFloat16[Array34f16, Any, Any] | Array334f16 | ToFloat16[Array334f16, Any, Any]
class Array334f16(Vector[_Array334f16, Array334b, Array34f16, float], Floats[_Array334f16, Array334b], ToFloat[Array334f, Array334f64]):
    Value: ClassVar[type[Array34f16]]
    Mask: ClassVar[type[Array334b]]
_Array441f16: TypeAlias = float | Array1f16 | ToFloat16[Array1f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | Array41f16 | ToFloat16[Array41f16, Any, Any] | Array441f16 | ToFloat16[Array441f16, Any, Any]
class Array441f16(Vector[_Array441f16, Array441b, Array41f16, float], Floats[_Array441f16, Array441b], ToFloat[Array441f, Array441f64]):
    Value: ClassVar[type[Array41f16]]
    Mask: ClassVar[type[Array441b]]
_Array443f16: TypeAlias = float | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | Array43f16 | ToFloat16[Array43f16, Any, Any] | Array443f16 | ToFloat16[Array443f16, Any, Any]
class Array443f16(Vector[_Array443f16, Array443b, Array43f16, float], Floats[_Array443f16, Array443b], ToFloat[Array443f, Array443f64]):
    Value: ClassVar[type[Array43f16]]
    Mask: ClassVar[type[Array443b]]
_Array444f16: TypeAlias = float | Array4f16 | ToFloat16[Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | Array444f16 | ToFloat16[Array444f16, Any, Any]
class Array444f16(Vector[_Array444f16, Array444b, Array44f16, float], Floats[_Array444f16, Array444b], ToFloat[Array444f, Array444f64]):
    Value: ClassVar[type[Array44f16]]
    Mask: ClassVar[type[Array444b]]
_Array22f: TypeAlias = float | Array2f | ToFloat[Array2f, Any] | Array22f | ToFloat[Array22f, Any]
class Array22f(Vector[_Array22f, Array22b, Array2f, float], Floats[_Array22f, Array22b], ToFloat64[Array22f64]):
    Value: ClassVar[type[Array2f]]
    Mask: ClassVar[type[Array22b]]
_Array33f: TypeAlias = float | Array3f | ToFloat[Array3f, Any] | Array33f | ToFloat[Array33f, Any]
class Array33f(Vector[_Array33f, Array33b, Array3f, float], Floats[_Array33f, Array33b], ToFloat64[Array33f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array33b]]
_Array44f: TypeAlias = float | Array4f | ToFloat[Array4f, Any] | Array44f | ToFloat[Array44f, Any]
class Array44f(Vector[_Array44f, Array44b, Array4f, float], Floats[_Array44f, Array44b], ToFloat64[Array44f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array44b]]
_Array34f: TypeAlias = float | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | Array34f | ToFloat[Array34f, Any]
class Array34f(Vector[_Array34f, Array34b, Array4f, float], Floats[_Array34f, Array34b], ToFloat64[Array34f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array34b]]
_Array41f: TypeAlias = float | Array1f | ToFloat[Array1f, Any] | Array4f | ToFloat[Array4f, Any] | Array41f | ToFloat[Array41f, Any]
class Array41f(Vector[_Array41f, Array41b, Array1f, float], Floats[_Array41f, Array41b], ToFloat64[Array41f64]):
    Value: ClassVar[type[Array1f]]
    Mask: ClassVar[type[Array41b]]
_Array43f: TypeAlias = float | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | Array43f | ToFloat[Array43f, Any]
class Array43f(Vector[_Array43f, Array43b, Array3f, float], Floats[_Array43f, Array43b], ToFloat64[Array43f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array43b]]
_Array334f: TypeAlias = float | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | Array33f | ToFloat[Array33f, Any] | Array34f | ToFloat[Array34f, Any] | Array334f | ToFloat[Array334f, Any]
class Array334f(Vector[_Array334f, Array334b, Array34f, float], Floats[_Array334f, Array334b], ToFloat64[Array334f64]):
    Value: ClassVar[type[Array34f]]
    Mask: ClassVar[type[Array334b]]
_Array441f: TypeAlias = float | Array1f | ToFloat[Array1f, Any] | Array4f | ToFloat[Array4f, Any] | Array44f | ToFloat[Array44f, Any] | Array41f | ToFloat[Array41f, Any] | Array441f | ToFloat[Array441f, Any]
class Array441f(Vector[_Array441f, Array441b, Array41f, float], Floats[_Array441f, Array441b], ToFloat64[Array441f64]):
    Value: ClassVar[type[Array41f]]
    Mask: ClassVar[type[Array441b]]
_Array443f: TypeAlias = float | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | Array44f | ToFloat[Array44f, Any] | Array43f | ToFloat[Array43f, Any] | Array443f | ToFloat[Array443f, Any]
class Array443f(Vector[_Array443f, Array443b, Array43f, float], Floats[_Array443f, Array443b], ToFloat64[Array443f64]):
    Value: ClassVar[type[Array43f]]
    Mask: ClassVar[type[Array443b]]
_Array444f: TypeAlias = float | Array4f | ToFloat[Array4f, Any] | Array44f | ToFloat[Array44f, Any] | Array444f | ToFloat[Array444f, Any]
class Array444f(Vector[_Array444f, Array444b, Array44f, float], Floats[_Array444f, Array444b], ToFloat64[Array444f64]):
    Value: ClassVar[type[Array44f]]
    Mask: ClassVar[type[Array444b]]
_Array22f64: TypeAlias = float | Array2f64 | ToFloat64[Array2f64] | Array22f64 | ToFloat64[Array22f64]
class Array22f64(Vector[_Array22f64, Array22b, Array2f64, float], Floats[_Array22f64, Array22b]):
    Value: ClassVar[type[Array2f64]]
    Mask: ClassVar[type[Array22b]]
_Array33f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64] | Array33f64 | ToFloat64[Array33f64]
class Array33f64(Vector[_Array33f64, Array33b, Array3f64, float], Floats[_Array33f64, Array33b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array33b]]
_Array44f64: TypeAlias = float | Array4f64 | ToFloat64[Array4f64] | Array44f64 | ToFloat64[Array44f64]
class Array44f64(Vector[_Array44f64, Array44b, Array4f64, float], Floats[_Array44f64, Array44b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array44b]]
_Array34f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | Array34f64 | ToFloat64[Array34f64]
class Array34f64(Vector[_Array34f64, Array34b, Array4f64, float], Floats[_Array34f64, Array34b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array34b]]
_Array41f64: TypeAlias = float | Array1f64 | ToFloat64[Array1f64] | Array4f64 | ToFloat64[Array4f64] | Array41f64 | ToFloat64[Array41f64]
class Array41f64(Vector[_Array41f64, Array41b, Array1f64, float], Floats[_Array41f64, Array41b]):
    Value: ClassVar[type[Array1f64]]
    Mask: ClassVar[type[Array41b]]
_Array43f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | Array43f64 | ToFloat64[Array43f64]
class Array43f64(Vector[_Array43f64, Array43b, Array3f64, float], Floats[_Array43f64, Array43b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array43b]]
_Array334f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | Array33f64 | ToFloat64[Array33f64] | Array34f64 | ToFloat64[Array34f64] | Array334f64 | ToFloat64[Array334f64]
class Array334f64(Vector[_Array334f64, Array334b, Array34f64, float], Floats[_Array334f64, Array334b]):
    Value: ClassVar[type[Array34f64]]
    Mask: ClassVar[type[Array334b]]
_Array441f64: TypeAlias = float | Array1f64 | ToFloat64[Array1f64] | Array4f64 | ToFloat64[Array4f64] | Array44f64 | ToFloat64[Array44f64] | Array41f64 | ToFloat64[Array41f64] | Array441f64 | ToFloat64[Array441f64]
class Array441f64(Vector[_Array441f64, Array441b, Array41f64, float], Floats[_Array441f64, Array441b]):
    Value: ClassVar[type[Array41f64]]
    Mask: ClassVar[type[Array441b]]
_Array443f64: TypeAlias = float | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | Array44f64 | ToFloat64[Array44f64] | Array43f64 | ToFloat64[Array43f64] | Array443f64 | ToFloat64[Array443f64]
class Array443f64(Vector[_Array443f64, Array443b, Array43f64, float], Floats[_Array443f64, Array443b]):
    Value: ClassVar[type[Array43f64]]
    Mask: ClassVar[type[Array443b]]
_Array444f64: TypeAlias = float | Array4f64 | ToFloat64[Array4f64] | Array44f64 | ToFloat64[Array44f64] | Array444f64 | ToFloat64[Array444f64]
class Array444f64(Vector[_Array444f64, Array444b, Array44f64, float], Floats[_Array444f64, Array444b]):
    Value: ClassVar[type[Array44f64]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f16: TypeAlias = float | Matrix2f16 | ToFloat16[Matrix2f16, Any, Any]
class Matrix2f16(Matrix[_Matrix2f16, Array22b, Array2f16, float, Array22f16], Floats[_Matrix2f16, Array22b], ToFloat[Matrix2f, Matrix2f64]):
    Value: ClassVar[type[Array2f16]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f16: TypeAlias = float | Matrix3f16 | ToFloat16[Matrix3f16, Any, Any]
class Matrix3f16(Matrix[_Matrix3f16, Array33b, Array3f16, float, Array33f16], Floats[_Matrix3f16, Array33b], ToFloat[Matrix3f, Matrix3f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f16: TypeAlias = float | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any]
class Matrix4f16(Matrix[_Matrix4f16, Array44b, Array4f16, float, Array44f16], Floats[_Matrix4f16, Array44b], ToFloat[Matrix4f, Matrix4f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f16: TypeAlias = float | Matrix3f16 | ToFloat16[Matrix3f16, Any, Any] | Matrix34f16 | ToFloat16[Matrix34f16, Any, Any]
class Matrix34f16(Matrix[_Matrix34f16, Array334b, Array34f16, float, Array334f16], Floats[_Matrix34f16, Array334b], ToFloat[Matrix34f, Matrix34f64]):
    Value: ClassVar[type[Array34f16]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f16: TypeAlias = float | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | Matrix41f16 | ToFloat16[Matrix41f16, Any, Any]
class Matrix41f16(Matrix[_Matrix41f16, Array441b, Array41f16, float, Array441f16], Floats[_Matrix41f16, Array441b], ToFloat[Matrix41f, Matrix41f64]):
    Value: ClassVar[type[Array41f16]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f16: TypeAlias = float | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | Matrix43f16 | ToFloat16[Matrix43f16, Any, Any]
class Matrix43f16(Matrix[_Matrix43f16, Array443b, Array43f16, float, Array443f16], Floats[_Matrix43f16, Array443b], ToFloat[Matrix43f, Matrix43f64]):
    Value: ClassVar[type[Array43f16]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f16: TypeAlias = float | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | Matrix44f16 | ToFloat16[Matrix44f16, Any, Any]
class Matrix44f16(Matrix[_Matrix44f16, Array444b, Array44f16, float, Array444f16], Floats[_Matrix44f16, Array444b], ToFloat[Matrix44f, Matrix44f64]):
    Value: ClassVar[type[Array44f16]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f: TypeAlias = float | Matrix2f | ToFloat[Matrix2f, Any]
class Matrix2f(Matrix[_Matrix2f, Array22b, Array2f, float, Array22f], Floats[_Matrix2f, Array22b], ToFloat64[Matrix2f64]):
    Value: ClassVar[type[Array2f]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f: TypeAlias = float | Matrix3f | ToFloat[Matrix3f, Any]
class Matrix3f(Matrix[_Matrix3f, Array33b, Array3f, float, Array33f], Floats[_Matrix3f, Array33b], ToFloat64[Matrix3f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f: TypeAlias = float | Matrix4f | ToFloat[Matrix4f, Any]
class Matrix4f(Matrix[_Matrix4f, Array44b, Array4f, float, Array44f], Floats[_Matrix4f, Array44b], ToFloat64[Matrix4f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f: TypeAlias = float | Matrix3f | ToFloat[Matrix3f, Any] | Matrix34f | ToFloat[Matrix34f, Any]
class Matrix34f(Matrix[_Matrix34f, Array334b, Array34f, float, Array334f], Floats[_Matrix34f, Array334b], ToFloat64[Matrix34f64]):
    Value: ClassVar[type[Array34f]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f: TypeAlias = float | Matrix4f | ToFloat[Matrix4f, Any] | Matrix41f | ToFloat[Matrix41f, Any]
class Matrix41f(Matrix[_Matrix41f, Array441b, Array41f, float, Array441f], Floats[_Matrix41f, Array441b], ToFloat64[Matrix41f64]):
    Value: ClassVar[type[Array41f]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f: TypeAlias = float | Matrix4f | ToFloat[Matrix4f, Any] | Matrix43f | ToFloat[Matrix43f, Any]
class Matrix43f(Matrix[_Matrix43f, Array443b, Array43f, float, Array443f], Floats[_Matrix43f, Array443b], ToFloat64[Matrix43f64]):
    Value: ClassVar[type[Array43f]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f: TypeAlias = float | Matrix4f | ToFloat[Matrix4f, Any] | Matrix44f | ToFloat[Matrix44f, Any]
class Matrix44f(Matrix[_Matrix44f, Array444b, Array44f, float, Array444f], Floats[_Matrix44f, Array444b], ToFloat64[Matrix44f64]):
    Value: ClassVar[type[Array44f]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f64: TypeAlias = float | Matrix2f64 | ToFloat64[Matrix2f64]
class Matrix2f64(Matrix[_Matrix2f64, Array22b, Array2f64, float, Array22f64], Floats[_Matrix2f64, Array22b]):
    Value: ClassVar[type[Array2f64]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f64: TypeAlias = float | Matrix3f64 | ToFloat64[Matrix3f64]
class Matrix3f64(Matrix[_Matrix3f64, Array33b, Array3f64, float, Array33f64], Floats[_Matrix3f64, Array33b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f64: TypeAlias = float | Matrix4f64 | ToFloat64[Matrix4f64]
class Matrix4f64(Matrix[_Matrix4f64, Array44b, Array4f64, float, Array44f64], Floats[_Matrix4f64, Array44b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f64: TypeAlias = float | Matrix3f64 | ToFloat64[Matrix3f64] | Matrix34f64 | ToFloat64[Matrix34f64]
class Matrix34f64(Matrix[_Matrix34f64, Array334b, Array34f64, float, Array334f64], Floats[_Matrix34f64, Array334b]):
    Value: ClassVar[type[Array34f64]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f64: TypeAlias = float | Matrix4f64 | ToFloat64[Matrix4f64] | Matrix41f64 | ToFloat64[Matrix41f64]
class Matrix41f64(Matrix[_Matrix41f64, Array441b, Array41f64, float, Array441f64], Floats[_Matrix41f64, Array441b]):
    Value: ClassVar[type[Array41f64]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f64: TypeAlias = float | Matrix4f64 | ToFloat64[Matrix4f64] | Matrix43f64 | ToFloat64[Matrix43f64]
class Matrix43f64(Matrix[_Matrix43f64, Array443b, Array43f64, float, Array443f64], Floats[_Matrix43f64, Array443b]):
    Value: ClassVar[type[Array43f64]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f64: TypeAlias = float | Matrix4f64 | ToFloat64[Matrix4f64] | Matrix44f64 | ToFloat64[Matrix44f64]
class Matrix44f64(Matrix[_Matrix44f64, Array444b, Array44f64, float, Array444f64], Floats[_Matrix44f64, Array444b]):
    Value: ClassVar[type[Array44f64]]
    Mask: ClassVar[type[Array444b]]
_Complex2f: TypeAlias = float | Array2f | ToFloat[Array2f, Any] | Complex2f | ToFloat[Complex2f, Any]
class Complex2f(Complex[_Complex2f, Array2b, float, float], Floats[_Complex2f, Array2b], ToFloat64[Complex2f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array2b]]
_Complex2f64: TypeAlias = float | Array2f64 | ToFloat64[Array2f64] | Complex2f64 | ToFloat64[Complex2f64]
class Complex2f64(Complex[_Complex2f64, Array2b, float, float], Floats[_Complex2f64, Array2b]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array2b]]
_Quaternion4f16: TypeAlias = float | Array4f16 | ToFloat16[Array4f16, Any, Any] | Quaternion4f16 | ToFloat16[Quaternion4f16, Any, Any]
class Quaternion4f16(Quaternion[_Quaternion4f16, Array4b, float, float, Array3f16], Floats[_Quaternion4f16, Array4b], Swizzles4[float, Array2f16, Array3f16, Array4f16], ToFloat[Quaternion4f, Quaternion4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_Quaternion4f: TypeAlias = float | Array4f | ToFloat[Array4f, Any] | Quaternion4f | ToFloat[Quaternion4f, Any]
class Quaternion4f(Quaternion[_Quaternion4f, Array4b, float, float, Array3f], Floats[_Quaternion4f, Array4b], Swizzles4[float, Array2f, Array3f, Array4f], ToFloat64[Quaternion4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_Quaternion4f64: TypeAlias = float | Array4f64 | ToFloat64[Array4f64] | Quaternion4f64 | ToFloat64[Quaternion4f64]
class Quaternion4f64(Quaternion[_Quaternion4f64, Array4b, float, float, Array3f64], Floats[_Quaternion4f64, Array4b], Swizzles4[float, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Array4b]]
_TensorXb: TypeAlias = bool | Array0b | Array1b | Array2b | Array3b | Array4b | ArrayXb | TensorXb
class TensorXb(Tensor[_TensorXb, TensorXb, ArrayXb, bool], Masks[_TensorXb, TensorXb], ToInt8[TensorXi8, TensorXu8, TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi8: TypeAlias = int | Array0i8 | ToInt8[Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array1i8 | ToInt8[Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array2i8 | ToInt8[Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array3i8 | ToInt8[Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array4i8 | ToInt8[Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | ArrayXi8 | ToInt8[ArrayXi8, Any, Any, Any, Any, Any, Any, Any, Any] | TensorXi8 | ToInt8[TensorXi8, Any, Any, Any, Any, Any, Any, Any, Any]
class TensorXi8(Tensor[_TensorXi8, TensorXb, ArrayXi8, int], Integers[_TensorXi8, TensorXb], ToUInt8[TensorXu8, TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu8: TypeAlias = int | Array0u8 | ToUInt8[Array0u8, Any, Any, Any, Any, Any, Any, Any] | Array1u8 | ToUInt8[Array1u8, Any, Any, Any, Any, Any, Any, Any] | Array2u8 | ToUInt8[Array2u8, Any, Any, Any, Any, Any, Any, Any] | Array3u8 | ToUInt8[Array3u8, Any, Any, Any, Any, Any, Any, Any] | Array4u8 | ToUInt8[Array4u8, Any, Any, Any, Any, Any, Any, Any] | ArrayXu8 | ToUInt8[ArrayXu8, Any, Any, Any, Any, Any, Any, Any] | TensorXu8 | ToUInt8[TensorXu8, Any, Any, Any, Any, Any, Any, Any]
class TensorXu8(Tensor[_TensorXu8, TensorXb, ArrayXu8, int], Integers[_TensorXu8, TensorXb], ToInt[TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi: TypeAlias = int | Array0i | ToInt[Array0i, Any, Any, Any, Any, Any, Any] | Array1i | ToInt[Array1i, Any, Any, Any, Any, Any, Any] | Array2i | ToInt[Array2i, Any, Any, Any, Any, Any, Any] | Array3i | ToInt[Array3i, Any, Any, Any, Any, Any, Any] | Array4i | ToInt[Array4i, Any, Any, Any, Any, Any, Any] | ArrayXi | ToInt[ArrayXi, Any, Any, Any, Any, Any, Any] | TensorXi | ToInt[TensorXi, Any, Any, Any, Any, Any, Any]
class TensorXi(Tensor[_TensorXi, TensorXb, ArrayXi, int], Integers[_TensorXi, TensorXb], ToUInt[TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu: TypeAlias = int | Array0u | ToUInt[Array0u, Any, Any, Any, Any, Any] | Array1u | ToUInt[Array1u, Any, Any, Any, Any, Any] | Array2u | ToUInt[Array2u, Any, Any, Any, Any, Any] | Array3u | ToUInt[Array3u, Any, Any, Any, Any, Any] | Array4u | ToUInt[Array4u, Any, Any, Any, Any, Any] | ArrayXu | ToUInt[ArrayXu, Any, Any, Any, Any, Any] | TensorXu | ToUInt[TensorXu, Any, Any, Any, Any, Any]
class TensorXu(Tensor[_TensorXu, TensorXb, ArrayXu, int], Integers[_TensorXu, TensorXb], ToInt64[TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi64: TypeAlias = int | Array0i64 | ToInt64[Array0i64, Any, Any, Any, Any] | Array1i64 | ToInt64[Array1i64, Any, Any, Any, Any] | Array2i64 | ToInt64[Array2i64, Any, Any, Any, Any] | Array3i64 | ToInt64[Array3i64, Any, Any, Any, Any] | Array4i64 | ToInt64[Array4i64, Any, Any, Any, Any] | ArrayXi64 | ToInt64[ArrayXi64, Any, Any, Any, Any] | TensorXi64 | ToInt64[TensorXi64, Any, Any, Any, Any]
class TensorXi64(Tensor[_TensorXi64, TensorXb, ArrayXi64, int], Integers[_TensorXi64, TensorXb], ToUInt64[TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu64: TypeAlias = int | Array0u64 | ToUInt64[Array0u64, Any, Any, Any] | Array1u64 | ToUInt64[Array1u64, Any, Any, Any] | Array2u64 | ToUInt64[Array2u64, Any, Any, Any] | Array3u64 | ToUInt64[Array3u64, Any, Any, Any] | Array4u64 | ToUInt64[Array4u64, Any, Any, Any] | ArrayXu64 | ToUInt64[ArrayXu64, Any, Any, Any] | TensorXu64 | ToUInt64[TensorXu64, Any, Any, Any]
class TensorXu64(Tensor[_TensorXu64, TensorXb, ArrayXu64, int], Integers[_TensorXu64, TensorXb], ToFloat16[TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf16: TypeAlias = float | Array0f16 | ToFloat16[Array0f16, Any, Any] | Array1f16 | ToFloat16[Array1f16, Any, Any] | Array2f16 | ToFloat16[Array2f16, Any, Any] | Array3f16 | ToFloat16[Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | ArrayXf16 | ToFloat16[ArrayXf16, Any, Any] | TensorXf16 | ToFloat16[TensorXf16, Any, Any]
class TensorXf16(Tensor[_TensorXf16, TensorXb, ArrayXf16, float], Floats[_TensorXf16, TensorXb], ToFloat[TensorXf, TensorXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf: TypeAlias = float | Array0f | ToFloat[Array0f, Any] | Array1f | ToFloat[Array1f, Any] | Array2f | ToFloat[Array2f, Any] | Array3f | ToFloat[Array3f, Any] | Array4f | ToFloat[Array4f, Any] | ArrayXf | ToFloat[ArrayXf, Any] | TensorXf | ToFloat[TensorXf, Any]
class TensorXf(Tensor[_TensorXf, TensorXb, ArrayXf, float], Floats[_TensorXf, TensorXb], ToFloat64[TensorXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf64: TypeAlias = float | Array0f64 | ToFloat64[Array0f64] | Array1f64 | ToFloat64[Array1f64] | Array2f64 | ToFloat64[Array2f64] | Array3f64 | ToFloat64[Array3f64] | Array4f64 | ToFloat64[Array4f64] | ArrayXf64 | ToFloat64[ArrayXf64] | TensorXf64 | ToFloat64[TensorXf64]
class TensorXf64(Tensor[_TensorXf64, TensorXb, ArrayXf64, float], Floats[_TensorXf64, TensorXb]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
class PCG32(_PCG32):
    state: Part[UInt64]
    inc: Part[UInt64]
    def next_uint32(self, mask: Any = True) -> UInt:
        """Returns the next uniform 32-bit integer."""
    def next_uint64(self, mask: Any = True) -> UInt64:
        """Returns the next uniform 64-bit integer."""
    def next_float(self, dtype: type[T], mask: Any = True) -> T:
        """Returns the next uniform number in [0, 1), in the precision of `dtype`.

        Raises:
            TypeError: `dtype` is not a floating point type.
        """
    def next_float16(self, mask: Any = True) -> Float16:
        """Returns the next uniform number in [0, 1), in half precision."""
    def next_float32(self, mask: Any = True) -> Float:
        """Returns the next uniform number in [0, 1), in single precision."""
    def next_float64(self, mask: Any = True) -> Float64:
        """Returns the next uniform number in [0, 1), in double precision."""
    def next_float_normal(self, dtype: type[T], mask: Any = True) -> T:
        """Returns the next standard normal number, in the precision of `dtype`.

        Raises:
            TypeError: `dtype` is not a floating point type.
        """
    def next_float16_normal(self, mask: Any = True) -> Float16:
        """Returns the next standard normal number, in half precision."""
    def next_float32_normal(self, mask: Any = True) -> Float:
        """Returns the next standard normal number, in single precision."""
    def next_float64_normal(self, mask: Any = True) -> Float64:
        """Returns the next standard normal number, in double precision."""
    def prev_uint32(self, mask: Any = True) -> UInt:
        """Returns the previous uniform 32-bit integer."""
    def prev_uint64(self, mask: Any = True) -> UInt64:
        """Returns the previous uniform 64-bit integer."""
    def prev_float(self, dtype: type[T], mask: Any = True) -> T:
        """Returns the previous uniform number in [0, 1), in the precision of `dtype`.

        Raises:
            TypeError: `dtype` is not a floating point type.
        """
    def prev_float16(self, mask: Any = True) -> Float16:
        """Returns the previous uniform number in [0, 1), in half precision."""
    def prev_float32(self, mask: Any = True) -> Float:
        """Returns the previous uniform number in [0, 1), in single precision."""
    def prev_float64(self, mask: Any = True) -> Float64:
        """Returns the previous uniform number in [0, 1), in double precision."""
    def prev_float_normal(self, dtype: type[T], mask: Any = True) -> T:
        """Returns the previous standard normal number, in the precision of `dtype`.

        Raises:
            TypeError: `dtype` is not a floating point type.
        """
    def prev_float16_normal(self, mask: Any = True) -> Float16:
        """Returns the previous standard normal number, in half precision."""
    def prev_float32_normal(self, mask: Any = True) -> Float:
        """Returns the previous standard normal number, in single precision."""
    def prev_float64_normal(self, mask: Any = True) -> Float64:
        """Returns the previous standard normal number, in double precision."""
    def next_uint32_bounded(self, bound: int, mask: Any = True) -> UInt:
        """Returns an unbiased uniform 32-bit integer in [0, bound).

        Raises:
            TypeError: `bound` is not an integer from 1 to 2**32 - 1.
        """
    def next_uint64_bounded(self, bound: int, mask: Any = True) -> UInt64:
        """Returns an unbiased uniform 64-bit integer in [0, bound).

        Raises:
            TypeError: `bound` is not an integer from 1 to 2**64 - 1.
        """
class Philox4x32(_Philox4x32):
    seed: Part[Array2u]
    counter: Part[Array4u]
    def next_uint32x4(self, mask: Any = True) -> Array4u:
        """Returns four uniform 32-bit integers."""
    def next_uint64x2(self, mask: Any = True) -> Array2u64:
        """Returns two uniform 64-bit integers."""
    def next_float16x4(self, mask: Any = True) -> Array4f16:
        """Returns four uniform float16 numbers in [0, 1)."""
    def next_float16x4_normal(self, mask: Any = True) -> Array4f16:
        """Returns four standard normal float16 numbers."""
    def next_float32x4(self, mask: Any = True) -> Array4f:
        """Returns four uniform float32 numbers in [0, 1)."""
    def next_float32x4_normal(self, mask: Any = True) -> Array4f:
        """Returns four standard normal float32 numbers."""
    def next_float64x2(self, mask: Any = True) -> Array2f64:
        """Returns two uniform float64 numbers in [0, 1)."""
    def next_float64x2_normal(self, mask: Any = True) -> Array2f64:
        """Returns two standard normal float64 numbers."""
class Texture1f16(Textures[TensorXf16, float, Array1i]): ...
class Texture1f(Textures[TensorXf, float, Array1i]): ...
class Texture1f64(Textures[TensorXf64, float, Array1i]): ...
class Texture1f8u(Textures[TensorXu8, int, Array1i]): ...
class Texture2f16(Textures[TensorXf16, float, Array2i]): ...
class Texture2f(Textures[TensorXf, float, Array2i]): ...
class Texture2f64(Textures[TensorXf64, float, Array2i]): ...
class Texture2f8u(Textures[TensorXu8, int, Array2i]): ...
class Texture3f16(Textures[TensorXf16, float, Array3i]): ...
class Texture3f(Textures[TensorXf, float, Array3i]): ...
class Texture3f64(Textures[TensorXf64, float, Array3i]): ...
class Texture3f8u(Textures[TensorXu8, int, Array3i]): ...

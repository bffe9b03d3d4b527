# Written by .ci/stubs.py.
# fmt: off
# ruff: noqa
from ..array.kinds import ABool, AFloat, AFloat16, AFloat64, AUInt, AUInt64, AUInt8, AnInt, AnInt64, AnInt8, Complex, Floats, Integers, Leaf, Masks, Matrix, Part, Quaternion, T, Tensor, Textures, ToFloat, ToFloat16, ToFloat64, ToInt, ToInt64, ToInt8, ToUInt, ToUInt64, ToUInt8, Vector, Vector1, Vector2, Vector3, Vector4
from typing import Any, ClassVar, Never, TypeAlias
from ..array.swizzles import Swizzles2, Swizzles3, Swizzles4
from .. import scalar as _scalar
from .. import cuda as _cuda
from .graphics import green_context as green_context
from ..jit.device import Event as _Event
from ..random.pcg import Generator as _PCG32
from ..random.philox import Generator as _Philox4x32
_Bool: TypeAlias = bool | Bool | _cuda.Bool
class Bool(Leaf[_Bool, Bool, bool], Masks[_Bool, Bool], ABool, ToInt8[Int8, UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[Bool]]
_Int8: TypeAlias = int | Int8 | ToInt8[Int8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Int8 | ToInt8[_cuda.Int8, Any, Any, Any, Any, Any, Any, Any, Any]
class Int8(Leaf[_Int8, Bool, int], Integers[_Int8, Bool], AnInt8, ToUInt8[UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_UInt8: TypeAlias = int | UInt8 | ToUInt8[UInt8, Any, Any, Any, Any, Any, Any, Any] | _cuda.UInt8 | ToUInt8[_cuda.UInt8, Any, Any, Any, Any, Any, Any, Any]
class UInt8(Leaf[_UInt8, Bool, int], Integers[_UInt8, Bool], AUInt8, ToInt[Int, UInt, Int64, UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_Int: TypeAlias = int | Int | ToInt[Int, Any, Any, Any, Any, Any, Any] | _cuda.Int | ToInt[_cuda.Int, Any, Any, Any, Any, Any, Any]
class Int(Leaf[_Int, Bool, int], Integers[_Int, Bool], AnInt, ToUInt[UInt, Int64, UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_UInt: TypeAlias = int | UInt | ToUInt[UInt, Any, Any, Any, Any, Any] | _cuda.UInt | ToUInt[_cuda.UInt, Any, Any, Any, Any, Any]
class UInt(Leaf[_UInt, Bool, int], Integers[_UInt, Bool], AUInt, ToInt64[Int64, UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_Int64: TypeAlias = int | Int64 | ToInt64[Int64, Any, Any, Any, Any] | _cuda.Int64 | ToInt64[_cuda.Int64, Any, Any, Any, Any]
class Int64(Leaf[_Int64, Bool, int], Integers[_Int64, Bool], AnInt64, ToUInt64[UInt64, Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_UInt64: TypeAlias = int | UInt64 | ToUInt64[UInt64, Any, Any, Any] | _cuda.UInt64 | ToUInt64[_cuda.UInt64, Any, Any, Any]
class UInt64(Leaf[_UInt64, Bool, int], Integers[_UInt64, Bool], AUInt64, ToFloat16[Float16, Float, Float64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[Bool]]
_Float16: TypeAlias = float | Float16 | ToFloat16[Float16, Any, Any] | _cuda.Float16 | ToFloat16[_cuda.Float16, Any, Any]
class Float16(Leaf[_Float16, Bool, float], Floats[_Float16, Bool], AFloat16, ToFloat[Float, Float64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Bool]]
_Float: TypeAlias = float | Float | ToFloat[Float, Any] | _cuda.Float | ToFloat[_cuda.Float, Any]
class Float(Leaf[_Float, Bool, float], Floats[_Float, Bool], AFloat, ToFloat64[Float64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Bool]]
_Float64: TypeAlias = float | Float64 | ToFloat64[Float64] | _cuda.Float64 | ToFloat64[_cuda.Float64]
class Float64(Leaf[_Float64, Bool, float], Floats[_Float64, Bool], AFloat64):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[Bool]]
_Array0b: TypeAlias = _Bool | Array0b | _cuda.Array0b | _scalar.Array0b
class Array0b(Vector[_Array0b, Array0b, Bool, Bool], Masks[_Array0b, Array0b], ToInt8[Array0i8, Array0u8, Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[Array0b]]
_Array1b: TypeAlias = _Bool | Array1b | _cuda.Array1b | _scalar.Array1b
class Array1b(Vector1[_Array1b, Array1b, Bool, Bool], Masks[_Array1b, Array1b], ToInt8[Array1i8, Array1u8, Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[Array1b]]
_Array2b: TypeAlias = _Bool | Array2b | _cuda.Array2b | _scalar.Array2b
class Array2b(Vector2[_Array2b, Array2b, Bool, Bool], Masks[_Array2b, Array2b], Swizzles2[Bool, Array2b, Array3b, Array4b], ToInt8[Array2i8, Array2u8, Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[Array2b]]
_Array3b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b
class Array3b(Vector3[_Array3b, Array3b, Bool, Bool], Masks[_Array3b, Array3b], Swizzles3[Bool, Array2b, Array3b, Array4b], ToInt8[Array3i8, Array3u8, Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[Array3b]]
_Array4b: TypeAlias = _Bool | Array4b | _cuda.Array4b | _scalar.Array4b
class Array4b(Vector4[_Array4b, Array4b, Bool, Bool], Masks[_Array4b, Array4b], Swizzles4[Bool, Array2b, Array3b, Array4b], ToInt8[Array4i8, Array4u8, Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[Array4b]]
_ArrayXb: TypeAlias = _Bool | Array0b | _cuda.Array0b | _scalar.Array0b | Array1b | _cuda.Array1b | _scalar.Array1b | Array2b | _cuda.Array2b | _scalar.Array2b | Array3b | _cuda.Array3b | _scalar.Array3b | Array4b | _cuda.Array4b | _scalar.Array4b | ArrayXb | _cuda.ArrayXb | _scalar.ArrayXb
class ArrayXb(Vector[_ArrayXb, ArrayXb, Bool, Bool], Masks[_ArrayXb, ArrayXb], ToInt8[ArrayXi8, ArrayXu8, ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[Bool]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i8: TypeAlias = _Int8 | Array0i8 | ToInt8[Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array0i8 | ToInt8[_cuda.Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array0i8 | ToInt8[_scalar.Array0i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array0i8(Vector[_Array0i8, Array0b, Int8, Int8], Integers[_Array0i8, Array0b], ToUInt8[Array0u8, Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[Array0b]]
_Array1i8: TypeAlias = _Int8 | Array1i8 | ToInt8[Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array1i8 | ToInt8[_cuda.Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array1i8 | ToInt8[_scalar.Array1i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array1i8(Vector1[_Array1i8, Array1b, Int8, Int8], Integers[_Array1i8, Array1b], ToUInt8[Array1u8, Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[Array1b]]
_Array2i8: TypeAlias = _Int8 | Array2i8 | ToInt8[Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array2i8 | ToInt8[_cuda.Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array2i8 | ToInt8[_scalar.Array2i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array2i8(Vector2[_Array2i8, Array2b, Int8, Int8], Integers[_Array2i8, Array2b], Swizzles2[Int8, Array2i8, Array3i8, Array4i8], ToUInt8[Array2u8, Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[Array2b]]
_Array3i8: TypeAlias = _Int8 | Array3i8 | ToInt8[Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array3i8 | ToInt8[_cuda.Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array3i8 | ToInt8[_scalar.Array3i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array3i8(Vector3[_Array3i8, Array3b, Int8, Int8], Integers[_Array3i8, Array3b], Swizzles3[Int8, Array2i8, Array3i8, Array4i8], ToUInt8[Array3u8, Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[Array3b]]
_Array4i8: TypeAlias = _Int8 | Array4i8 | ToInt8[Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array4i8 | ToInt8[_cuda.Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array4i8 | ToInt8[_scalar.Array4i8, Any, Any, Any, Any, Any, Any, Any, Any]
class Array4i8(Vector4[_Array4i8, Array4b, Int8, Int8], Integers[_Array4i8, Array4b], Swizzles4[Int8, Array2i8, Array3i8, Array4i8], ToUInt8[Array4u8, Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi8: TypeAlias = _Int8 | Array0i8 | ToInt8[Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array0i8 | ToInt8[_cuda.Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array0i8 | ToInt8[_scalar.Array0i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array1i8 | ToInt8[Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array1i8 | ToInt8[_cuda.Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array1i8 | ToInt8[_scalar.Array1i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array2i8 | ToInt8[Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array2i8 | ToInt8[_cuda.Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array2i8 | ToInt8[_scalar.Array2i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array3i8 | ToInt8[Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array3i8 | ToInt8[_cuda.Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array3i8 | ToInt8[_scalar.Array3i8, Any, Any, Any, Any, Any, Any, Any, Any] | Array4i8 | ToInt8[Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array4i8 | ToInt8[_cuda.Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array4i8 | ToInt8[_scalar.Array4i8, Any, Any, Any, Any, Any, Any, Any, Any] | ArrayXi8 | ToInt8[ArrayXi8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.ArrayXi8 | ToInt8[_cuda.ArrayXi8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.ArrayXi8 | ToInt8[_scalar.ArrayXi8, Any, Any, Any, Any, Any, Any, Any, Any]
class ArrayXi8(Vector[_ArrayXi8, ArrayXb, Int8, Int8], Integers[_ArrayXi8, ArrayXb], ToUInt8[ArrayXu8, ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[Int8]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u8: TypeAlias = _UInt8 | Array0u8 | ToUInt8[Array0u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array0u8 | ToUInt8[_cuda.Array0u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array0u8 | ToUInt8[_scalar.Array0u8, Any, Any, Any, Any, Any, Any, Any]
class Array0u8(Vector[_Array0u8, Array0b, UInt8, UInt8], Integers[_Array0u8, Array0b], ToInt[Array0i, Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[Array0b]]
_Array1u8: TypeAlias = _UInt8 | Array1u8 | ToUInt8[Array1u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array1u8 | ToUInt8[_cuda.Array1u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array1u8 | ToUInt8[_scalar.Array1u8, Any, Any, Any, Any, Any, Any, Any]
class Array1u8(Vector1[_Array1u8, Array1b, UInt8, UInt8], Integers[_Array1u8, Array1b], ToInt[Array1i, Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[Array1b]]
_Array2u8: TypeAlias = _UInt8 | Array2u8 | ToUInt8[Array2u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array2u8 | ToUInt8[_cuda.Array2u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array2u8 | ToUInt8[_scalar.Array2u8, Any, Any, Any, Any, Any, Any, Any]
class Array2u8(Vector2[_Array2u8, Array2b, UInt8, UInt8], Integers[_Array2u8, Array2b], Swizzles2[UInt8, Array2u8, Array3u8, Array4u8], ToInt[Array2i, Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[Array2b]]
_Array3u8: TypeAlias = _UInt8 | Array3u8 | ToUInt8[Array3u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array3u8 | ToUInt8[_cuda.Array3u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array3u8 | ToUInt8[_scalar.Array3u8, Any, Any, Any, Any, Any, Any, Any]
class Array3u8(Vector3[_Array3u8, Array3b, UInt8, UInt8], Integers[_Array3u8, Array3b], Swizzles3[UInt8, Array2u8, Array3u8, Array4u8], ToInt[Array3i, Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[Array3b]]
_Array4u8: TypeAlias = _UInt8 | Array4u8 | ToUInt8[Array4u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array4u8 | ToUInt8[_cuda.Array4u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array4u8 | ToUInt8[_scalar.Array4u8, Any, Any, Any, Any, Any, Any, Any]
class Array4u8(Vector4[_Array4u8, Array4b, UInt8, UInt8], Integers[_Array4u8, Array4b], Swizzles4[UInt8, Array2u8, Array3u8, Array4u8], ToInt[Array4i, Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu8: TypeAlias = _UInt8 | Array0u8 | ToUInt8[Array0u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array0u8 | ToUInt8[_cuda.Array0u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array0u8 | ToUInt8[_scalar.Array0u8, Any, Any, Any, Any, Any, Any, Any] | Array1u8 | ToUInt8[Array1u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array1u8 | ToUInt8[_cuda.Array1u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array1u8 | ToUInt8[_scalar.Array1u8, Any, Any, Any, Any, Any, Any, Any] | Array2u8 | ToUInt8[Array2u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array2u8 | ToUInt8[_cuda.Array2u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array2u8 | ToUInt8[_scalar.Array2u8, Any, Any, Any, Any, Any, Any, Any] | Array3u8 | ToUInt8[Array3u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array3u8 | ToUInt8[_cuda.Array3u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array3u8 | ToUInt8[_scalar.Array3u8, Any, Any, Any, Any, Any, Any, Any] | Array4u8 | ToUInt8[Array4u8, Any, Any, Any, Any, Any, Any, Any] | _cuda.Array4u8 | ToUInt8[_cuda.Array4u8, Any, Any, Any, Any, Any, Any, Any] | _scalar.Array4u8 | ToUInt8[_scalar.Array4u8, Any, Any, Any, Any, Any, Any, Any] | ArrayXu8 | ToUInt8[ArrayXu8, Any, Any, Any, Any, Any, Any, Any] | _cuda.ArrayXu8 | ToUInt8[_cuda.ArrayXu8, Any, Any, Any, Any, Any, Any, Any] | _scalar.ArrayXu8 | ToUInt8[_scalar.ArrayXu8, Any, Any, Any, Any, Any, Any, Any]
class ArrayXu8(Vector[_ArrayXu8, ArrayXb, UInt8, UInt8], Integers[_ArrayXu8, ArrayXb], ToInt[ArrayXi, ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[UInt8]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i: TypeAlias = _Int | Array0i | ToInt[Array0i, Any, Any, Any, Any, Any, Any] | _cuda.Array0i | ToInt[_cuda.Array0i, Any, Any, Any, Any, Any, Any] | _scalar.Array0i | ToInt[_scalar.Array0i, Any, Any, Any, Any, Any, Any]
class Array0i(Vector[_Array0i, Array0b, Int, Int], Integers[_Array0i, Array0b], ToUInt[Array0u, Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[Array0b]]
_Array1i: TypeAlias = _Int | Array1i | ToInt[Array1i, Any, Any, Any, Any, Any, Any] | _cuda.Array1i | ToInt[_cuda.Array1i, Any, Any, Any, Any, Any, Any] | _scalar.Array1i | ToInt[_scalar.Array1i, Any, Any, Any, Any, Any, Any]
class Array1i(Vector1[_Array1i, Array1b, Int, Int], Integers[_Array1i, Array1b], ToUInt[Array1u, Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[Array1b]]
_Array2i: TypeAlias = _Int | Array2i | ToInt[Array2i, Any, Any, Any, Any, Any, Any] | _cuda.Array2i | ToInt[_cuda.Array2i, Any, Any, Any, Any, Any, Any] | _scalar.Array2i | ToInt[_scalar.Array2i, Any, Any, Any, Any, Any, Any]
class Array2i(Vector2[_Array2i, Array2b, Int, Int], Integers[_Array2i, Array2b], Swizzles2[Int, Array2i, Array3i, Array4i], ToUInt[Array2u, Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[Array2b]]
_Array3i: TypeAlias = _Int | Array3i | ToInt[Array3i, Any, Any, Any, Any, Any, Any] | _cuda.Array3i | ToInt[_cuda.Array3i, Any, Any, Any, Any, Any, Any] | _scalar.Array3i | ToInt[_scalar.Array3i, Any, Any, Any, Any, Any, Any]
class Array3i(Vector3[_Array3i, Array3b, Int, Int], Integers[_Array3i, Array3b], Swizzles3[Int, Array2i, Array3i, Array4i], ToUInt[Array3u, Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[Array3b]]
_Array4i: TypeAlias = _Int | Array4i | ToInt[Array4i, Any, Any, Any, Any, Any, Any] | _cuda.Array4i | ToInt[_cuda.Array4i, Any, Any, Any, Any, Any, Any] | _scalar.Array4i | ToInt[_scalar.Array4i, Any, Any, Any, Any, Any, Any]
class Array4i(Vector4[_Array4i, Array4b, Int, Int], Integers[_Array4i, Array4b], Swizzles4[Int, Array2i, Array3i, Array4i], ToUInt[Array4u, Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi: TypeAlias = _Int | Array0i | ToInt[Array0i, Any, Any, Any, Any, Any, Any] | _cuda.Array0i | ToInt[_cuda.Array0i, Any, Any, Any, Any, Any, Any] | _scalar.Array0i | ToInt[_scalar.Array0i, Any, Any, Any, Any, Any, Any] | Array1i | ToInt[Array1i, Any, Any, Any, Any, Any, Any] | _cuda.Array1i | ToInt[_cuda.Array1i, Any, Any, Any, Any, Any, Any] | _scalar.Array1i | ToInt[_scalar.Array1i, Any, Any, Any, Any, Any, Any] | Array2i | ToInt[Array2i, Any, Any, Any, Any, Any, Any] | _cuda.Array2i | ToInt[_cuda.Array2i, Any, Any, Any, Any, Any, Any] | _scalar.Array2i | ToInt[_scalar.Array2i, Any, Any, Any, Any, Any, Any] | Array3i | ToInt[Array3i, Any, Any, Any, Any, Any, Any] | _cuda.Array3i | ToInt[_cuda.Array3i, Any, Any, Any, Any, Any, Any] | _scalar.Array3i | ToInt[_scalar.Array3i, Any, Any, Any, Any, Any, Any] | Array4i | ToInt[Array4i, Any, Any, Any, Any, Any, Any] | _cuda.Array4i | ToInt[_cuda.Array4i, Any, Any, Any, Any, Any, Any] | _scalar.Array4i | ToInt[_scalar.Array4i, Any, Any, Any, Any, Any, Any] | ArrayXi | ToInt[ArrayXi, Any, Any, Any, Any, Any, Any] | _cuda.ArrayXi | ToInt[_cuda.ArrayXi, Any, Any, Any, Any, Any, Any] | _scalar.ArrayXi | ToInt[_scalar.ArrayXi, Any, Any, Any, Any, Any, Any]
class ArrayXi(Vector[_ArrayXi, ArrayXb, Int, Int], Integers[_ArrayXi, ArrayXb], ToUInt[ArrayXu, ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[Int]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u: TypeAlias = _UInt | Array0u | ToUInt[Array0u, Any, Any, Any, Any, Any] | _cuda.Array0u | ToUInt[_cuda.Array0u, Any, Any, Any, Any, Any] | _scalar.Array0u | ToUInt[_scalar.Array0u, Any, Any, Any, Any, Any]
class Array0u(Vector[_Array0u, Array0b, UInt, UInt], Integers[_Array0u, Array0b], ToInt64[Array0i64, Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[Array0b]]
_Array1u: TypeAlias = _UInt | Array1u | ToUInt[Array1u, Any, Any, Any, Any, Any] | _cuda.Array1u | ToUInt[_cuda.Array1u, Any, Any, Any, Any, Any] | _scalar.Array1u | ToUInt[_scalar.Array1u, Any, Any, Any, Any, Any]
class Array1u(Vector1[_Array1u, Array1b, UInt, UInt], Integers[_Array1u, Array1b], ToInt64[Array1i64, Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[Array1b]]
_Array2u: TypeAlias = _UInt | Array2u | ToUInt[Array2u, Any, Any, Any, Any, Any] | _cuda.Array2u | ToUInt[_cuda.Array2u, Any, Any, Any, Any, Any] | _scalar.Array2u | ToUInt[_scalar.Array2u, Any, Any, Any, Any, Any]
class Array2u(Vector2[_Array2u, Array2b, UInt, UInt], Integers[_Array2u, Array2b], Swizzles2[UInt, Array2u, Array3u, Array4u], ToInt64[Array2i64, Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[Array2b]]
_Array3u: TypeAlias = _UInt | Array3u | ToUInt[Array3u, Any, Any, Any, Any, Any] | _cuda.Array3u | ToUInt[_cuda.Array3u, Any, Any, Any, Any, Any] | _scalar.Array3u | ToUInt[_scalar.Array3u, Any, Any, Any, Any, Any]
class Array3u(Vector3[_Array3u, Array3b, UInt, UInt], Integers[_Array3u, Array3b], Swizzles3[UInt, Array2u, Array3u, Array4u], ToInt64[Array3i64, Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[Array3b]]
_Array4u: TypeAlias = _UInt | Array4u | ToUInt[Array4u, Any, Any, Any, Any, Any] | _cuda.Array4u | ToUInt[_cuda.Array4u, Any, Any, Any, Any, Any] | _scalar.Array4u | ToUInt[_scalar.Array4u, Any, Any, Any, Any, Any]
class Array4u(Vector4[_Array4u, Array4b, UInt, UInt], Integers[_Array4u, Array4b], Swizzles4[UInt, Array2u, Array3u, Array4u], ToInt64[Array4i64, Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu: TypeAlias = _UInt | Array0u | ToUInt[Array0u, Any, Any, Any, Any, Any] | _cuda.Array0u | ToUInt[_cuda.Array0u, Any, Any, Any, Any, Any] | _scalar.Array0u | ToUInt[_scalar.Array0u, Any, Any, Any, Any, Any] | Array1u | ToUInt[Array1u, Any, Any, Any, Any, Any] | _cuda.Array1u | ToUInt[_cuda.Array1u, Any, Any, Any, Any, Any] | _scalar.Array1u | ToUInt[_scalar.Array1u, Any, Any, Any, Any, Any] | Array2u | ToUInt[Array2u, Any, Any, Any, Any, Any] | _cuda.Array2u | ToUInt[_cuda.Array2u, Any, Any, Any, Any, Any] | _scalar.Array2u | ToUInt[_scalar.Array2u, Any, Any, Any, Any, Any] | Array3u | ToUInt[Array3u, Any, Any, Any, Any, Any] | _cuda.Array3u | ToUInt[_cuda.Array3u, Any, Any, Any, Any, Any] | _scalar.Array3u | ToUInt[_scalar.Array3u, Any, Any, Any, Any, Any] | Array4u | ToUInt[Array4u, Any, Any, Any, Any, Any] | _cuda.Array4u | ToUInt[_cuda.Array4u, Any, Any, Any, Any, Any] | _scalar.Array4u | ToUInt[_scalar.Array4u, Any, Any, Any, Any, Any] | ArrayXu | ToUInt[ArrayXu, Any, Any, Any, Any, Any] | _cuda.ArrayXu | ToUInt[_cuda.ArrayXu, Any, Any, Any, Any, Any] | _scalar.ArrayXu | ToUInt[_scalar.ArrayXu, Any, Any, Any, Any, Any]
class ArrayXu(Vector[_ArrayXu, ArrayXb, UInt, UInt], Integers[_ArrayXu, ArrayXb], ToInt64[ArrayXi64, ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[UInt]]
    Mask: ClassVar[type[ArrayXb]]
_Array0i64: TypeAlias = _Int64 | Array0i64 | ToInt64[Array0i64, Any, Any, Any, Any] | _cuda.Array0i64 | ToInt64[_cuda.Array0i64, Any, Any, Any, Any] | _scalar.Array0i64 | ToInt64[_scalar.Array0i64, Any, Any, Any, Any]
class Array0i64(Vector[_Array0i64, Array0b, Int64, Int64], Integers[_Array0i64, Array0b], ToUInt64[Array0u64, Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[Array0b]]
_Array1i64: TypeAlias = _Int64 | Array1i64 | ToInt64[Array1i64, Any, Any, Any, Any] | _cuda.Array1i64 | ToInt64[_cuda.Array1i64, Any, Any, Any, Any] | _scalar.Array1i64 | ToInt64[_scalar.Array1i64, Any, Any, Any, Any]
class Array1i64(Vector1[_Array1i64, Array1b, Int64, Int64], Integers[_Array1i64, Array1b], ToUInt64[Array1u64, Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[Array1b]]
_Array2i64: TypeAlias = _Int64 | Array2i64 | ToInt64[Array2i64, Any, Any, Any, Any] | _cuda.Array2i64 | ToInt64[_cuda.Array2i64, Any, Any, Any, Any] | _scalar.Array2i64 | ToInt64[_scalar.Array2i64, Any, Any, Any, Any]
class Array2i64(Vector2[_Array2i64, Array2b, Int64, Int64], Integers[_Array2i64, Array2b], Swizzles2[Int64, Array2i64, Array3i64, Array4i64], ToUInt64[Array2u64, Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[Array2b]]
_Array3i64: TypeAlias = _Int64 | Array3i64 | ToInt64[Array3i64, Any, Any, Any, Any] | _cuda.Array3i64 | ToInt64[_cuda.Array3i64, Any, Any, Any, Any] | _scalar.Array3i64 | ToInt64[_scalar.Array3i64, Any, Any, Any, Any]
class Array3i64(Vector3[_Array3i64, Array3b, Int64, Int64], Integers[_Array3i64, Array3b], Swizzles3[Int64, Array2i64, Array3i64, Array4i64], ToUInt64[Array3u64, Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[Array3b]]
_Array4i64: TypeAlias = _Int64 | Array4i64 | ToInt64[Array4i64, Any, Any, Any, Any] | _cuda.Array4i64 | ToInt64[_cuda.Array4i64, Any, Any, Any, Any] | _scalar.Array4i64 | ToInt64[_scalar.Array4i64, Any, Any, Any, Any]
class Array4i64(Vector4[_Array4i64, Array4b, Int64, Int64], Integers[_Array4i64, Array4b], Swizzles4[Int64, Array2i64, Array3i64, Array4i64], ToUInt64[Array4u64, Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[Array4b]]
_ArrayXi64: TypeAlias = _Int64 | Array0i64 | ToInt64[Array0i64, Any, Any, Any, Any] | _cuda.Array0i64 | ToInt64[_cuda.Array0i64, Any, Any, Any, Any] | _scalar.Array0i64 | ToInt64[_scalar.Array0i64, Any, Any, Any, Any] | Array1i64 | ToInt64[Array1i64, Any, Any, Any, Any] | _cuda.Array1i64 | ToInt64[_cuda.Array1i64, Any, Any, Any, Any] | _scalar.Array1i64 | ToInt64[_scalar.Array1i64, Any, Any, Any, Any] | Array2i64 | ToInt64[Array2i64, Any, Any, Any, Any] | _cuda.Array2i64 | ToInt64[_cuda.Array2i64, Any, Any, Any, Any] | _scalar.Array2i64 | ToInt64[_scalar.Array2i64, Any, Any, Any, Any] | Array3i64 | ToInt64[Array3i64, Any, Any, Any, Any] | _cuda.Array3i64 | ToInt64[_cuda.Array3i64, Any, Any, Any, Any] | _scalar.Array3i64 | ToInt64[_scalar.Array3i64, Any, Any, Any, Any] | Array4i64 | ToInt64[Array4i64, Any, Any, Any, Any] | _cuda.Array4i64 | ToInt64[_cuda.Array4i64, Any, Any, Any, Any] | _scalar.Array4i64 | ToInt64[_scalar.Array4i64, Any, Any, Any, Any] | ArrayXi64 | ToInt64[ArrayXi64, Any, Any, Any, Any] | _cuda.ArrayXi64 | ToInt64[_cuda.ArrayXi64, Any, Any, Any, Any] | _scalar.ArrayXi64 | ToInt64[_scalar.ArrayXi64, Any, Any, Any, Any]
class ArrayXi64(Vector[_ArrayXi64, ArrayXb, Int64, Int64], Integers[_ArrayXi64, ArrayXb], ToUInt64[ArrayXu64, ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[Int64]]
    Mask: ClassVar[type[ArrayXb]]
_Array0u64: TypeAlias = _UInt64 | Array0u64 | ToUInt64[Array0u64, Any, Any, Any] | _cuda.Array0u64 | ToUInt64[_cuda.Array0u64, Any, Any, Any] | _scalar.Array0u64 | ToUInt64[_scalar.Array0u64, Any, Any, Any]
class Array0u64(Vector[_Array0u64, Array0b, UInt64, UInt64], Integers[_Array0u64, Array0b], ToFloat16[Array0f16, Array0f, Array0f64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[Array0b]]
_Array1u64: TypeAlias = _UInt64 | Array1u64 | ToUInt64[Array1u64, Any, Any, Any] | _cuda.Array1u64 | ToUInt64[_cuda.Array1u64, Any, Any, Any] | _scalar.Array1u64 | ToUInt64[_scalar.Array1u64, Any, Any, Any]
class Array1u64(Vector1[_Array1u64, Array1b, UInt64, UInt64], Integers[_Array1u64, Array1b], ToFloat16[Array1f16, Array1f, Array1f64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[Array1b]]
_Array2u64: TypeAlias = _UInt64 | Array2u64 | ToUInt64[Array2u64, Any, Any, Any] | _cuda.Array2u64 | ToUInt64[_cuda.Array2u64, Any, Any, Any] | _scalar.Array2u64 | ToUInt64[_scalar.Array2u64, Any, Any, Any]
class Array2u64(Vector2[_Array2u64, Array2b, UInt64, UInt64], Integers[_Array2u64, Array2b], Swizzles2[UInt64, Array2u64, Array3u64, Array4u64], ToFloat16[Array2f16, Array2f, Array2f64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[Array2b]]
_Array3u64: TypeAlias = _UInt64 | Array3u64 | ToUInt64[Array3u64, Any, Any, Any] | _cuda.Array3u64 | ToUInt64[_cuda.Array3u64, Any, Any, Any] | _scalar.Array3u64 | ToUInt64[_scalar.Array3u64, Any, Any, Any]
class Array3u64(Vector3[_Array3u64, Array3b, UInt64, UInt64], Integers[_Array3u64, Array3b], Swizzles3[UInt64, Array2u64, Array3u64, Array4u64], ToFloat16[Array3f16, Array3f, Array3f64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[Array3b]]
_Array4u64: TypeAlias = _UInt64 | Array4u64 | ToUInt64[Array4u64, Any, Any, Any] | _cuda.Array4u64 | ToUInt64[_cuda.Array4u64, Any, Any, Any] | _scalar.Array4u64 | ToUInt64[_scalar.Array4u64, Any, Any, Any]
class Array4u64(Vector4[_Array4u64, Array4b, UInt64, UInt64], Integers[_Array4u64, Array4b], Swizzles4[UInt64, Array2u64, Array3u64, Array4u64], ToFloat16[Array4f16, Array4f, Array4f64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[Array4b]]
_ArrayXu64: TypeAlias = _UInt64 | Array0u64 | ToUInt64[Array0u64, Any, Any, Any] | _cuda.Array0u64 | ToUInt64[_cuda.Array0u64, Any, Any, Any] | _scalar.Array0u64 | ToUInt64[_scalar.Array0u64, Any, Any, Any] | Array1u64 | ToUInt64[Array1u64, Any, Any, Any] | _cuda.Array1u64 | ToUInt64[_cuda.Array1u64, Any, Any, Any] | _scalar.Array1u64 | ToUInt64[_scalar.Array1u64, Any, Any, Any] | Array2u64 | ToUInt64[Array2u64, Any, Any, Any] | _cuda.Array2u64 | ToUInt64[_cuda.Array2u64, Any, Any, Any] | _scalar.Array2u64 | ToUInt64[_scalar.Array2u64, Any, Any, Any] | Array3u64 | ToUInt64[Array3u64, Any, Any, Any] | _cuda.Array3u64 | ToUInt64[_cuda.Array3u64, Any, Any, Any] | _scalar.Array3u64 | ToUInt64[_scalar.Array3u64, Any, Any, Any] | Array4u64 | ToUInt64[Array4u64, Any, Any, Any] | _cuda.Array4u64 | ToUInt64[_cuda.Array4u64, Any, Any, Any] | _scalar.Array4u64 | ToUInt64[_scalar.Array4u64, Any, Any, Any] | ArrayXu64 | ToUInt64[ArrayXu64, Any, Any, Any] | _cuda.ArrayXu64 | ToUInt64[_cuda.ArrayXu64, Any, Any, Any] | _scalar.ArrayXu64 | ToUInt64[_scalar.ArrayXu64, Any, Any, Any]
class ArrayXu64(Vector[_ArrayXu64, ArrayXb, UInt64, UInt64], Integers[_ArrayXu64, ArrayXb], ToFloat16[ArrayXf16, ArrayXf, ArrayXf64]):
    Value: ClassVar[type[UInt64]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f16: TypeAlias = _Float16 | Array0f16 | ToFloat16[Array0f16, Any, Any] | _cuda.Array0f16 | ToFloat16[_cuda.Array0f16, Any, Any] | _scalar.Array0f16 | ToFloat16[_scalar.Array0f16, Any, Any]
class Array0f16(Vector[_Array0f16, Array0b, Float16, Float16], Floats[_Array0f16, Array0b], ToFloat[Array0f, Array0f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array0b]]
_Array1f16: TypeAlias = _Float16 | Array1f16 | ToFloat16[Array1f16, Any, Any] | _cuda.Array1f16 | ToFloat16[_cuda.Array1f16, Any, Any] | _scalar.Array1f16 | ToFloat16[_scalar.Array1f16, Any, Any]
class Array1f16(Vector1[_Array1f16, Array1b, Float16, Float16], Floats[_Array1f16, Array1b], ToFloat[Array1f, Array1f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array1b]]
_Array2f16: TypeAlias = _Float16 | Array2f16 | ToFloat16[Array2f16, Any, Any] | _cuda.Array2f16 | ToFloat16[_cuda.Array2f16, Any, Any] | _scalar.Array2f16 | ToFloat16[_scalar.Array2f16, Any, Any]
class Array2f16(Vector2[_Array2f16, Array2b, Float16, Float16], Floats[_Array2f16, Array2b], Swizzles2[Float16, Array2f16, Array3f16, Array4f16], ToFloat[Array2f, Array2f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array2b]]
_Array3f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any]
class Array3f16(Vector3[_Array3f16, Array3b, Float16, Float16], Floats[_Array3f16, Array3b], Swizzles3[Float16, Array2f16, Array3f16, Array4f16], ToFloat[Array3f, Array3f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array3b]]
_Array4f16: TypeAlias = _Float16 | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any]
class Array4f16(Vector4[_Array4f16, Array4b, Float16, Float16], Floats[_Array4f16, Array4b], Swizzles4[Float16, Array2f16, Array3f16, Array4f16], ToFloat[Array4f, Array4f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf16: TypeAlias = _Float16 | Array0f16 | ToFloat16[Array0f16, Any, Any] | _cuda.Array0f16 | ToFloat16[_cuda.Array0f16, Any, Any] | _scalar.Array0f16 | ToFloat16[_scalar.Array0f16, Any, Any] | Array1f16 | ToFloat16[Array1f16, Any, Any] | _cuda.Array1f16 | ToFloat16[_cuda.Array1f16, Any, Any] | _scalar.Array1f16 | ToFloat16[_scalar.Array1f16, Any, Any] | Array2f16 | ToFloat16[Array2f16, Any, Any] | _cuda.Array2f16 | ToFloat16[_cuda.Array2f16, Any, Any] | _scalar.Array2f16 | ToFloat16[_scalar.Array2f16, Any, Any] | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | ArrayXf16 | ToFloat16[ArrayXf16, Any, Any] | _cuda.ArrayXf16 | ToFloat16[_cuda.ArrayXf16, Any, Any] | _scalar.ArrayXf16 | ToFloat16[_scalar.ArrayXf16, Any, Any]
class ArrayXf16(Vector[_ArrayXf16, ArrayXb, Float16, Float16], Floats[_ArrayXf16, ArrayXb], ToFloat[ArrayXf, ArrayXf64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f: TypeAlias = _Float | Array0f | ToFloat[Array0f, Any] | _cuda.Array0f | ToFloat[_cuda.Array0f, Any] | _scalar.Array0f | ToFloat[_scalar.Array0f, Any]
class Array0f(Vector[_Array0f, Array0b, Float, Float], Floats[_Array0f, Array0b], ToFloat64[Array0f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array0b]]
_Array1f: TypeAlias = _Float | Array1f | ToFloat[Array1f, Any] | _cuda.Array1f | ToFloat[_cuda.Array1f, Any] | _scalar.Array1f | ToFloat[_scalar.Array1f, Any]
class Array1f(Vector1[_Array1f, Array1b, Float, Float], Floats[_Array1f, Array1b], ToFloat64[Array1f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array1b]]
_Array2f: TypeAlias = _Float | Array2f | ToFloat[Array2f, Any] | _cuda.Array2f | ToFloat[_cuda.Array2f, Any] | _scalar.Array2f | ToFloat[_scalar.Array2f, Any]
class Array2f(Vector2[_Array2f, Array2b, Float, Float], Floats[_Array2f, Array2b], Swizzles2[Float, Array2f, Array3f, Array4f], ToFloat64[Array2f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array2b]]
_Array3f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any]
class Array3f(Vector3[_Array3f, Array3b, Float, Float], Floats[_Array3f, Array3b], Swizzles3[Float, Array2f, Array3f, Array4f], ToFloat64[Array3f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array3b]]
_Array4f: TypeAlias = _Float | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any]
class Array4f(Vector4[_Array4f, Array4b, Float, Float], Floats[_Array4f, Array4b], Swizzles4[Float, Array2f, Array3f, Array4f], ToFloat64[Array4f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf: TypeAlias = _Float | Array0f | ToFloat[Array0f, Any] | _cuda.Array0f | ToFloat[_cuda.Array0f, Any] | _scalar.Array0f | ToFloat[_scalar.Array0f, Any] | Array1f | ToFloat[Array1f, Any] | _cuda.Array1f | ToFloat[_cuda.Array1f, Any] | _scalar.Array1f | ToFloat[_scalar.Array1f, Any] | Array2f | ToFloat[Array2f, Any] | _cuda.Array2f | ToFloat[_cuda.Array2f, Any] | _scalar.Array2f | ToFloat[_scalar.Array2f, Any] | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | ArrayXf | ToFloat[ArrayXf, Any] | _cuda.ArrayXf | ToFloat[_cuda.ArrayXf, Any] | _scalar.ArrayXf | ToFloat[_scalar.ArrayXf, Any]
class ArrayXf(Vector[_ArrayXf, ArrayXb, Float, Float], Floats[_ArrayXf, ArrayXb], ToFloat64[ArrayXf64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[ArrayXb]]
_Array0f64: TypeAlias = _Float64 | Array0f64 | ToFloat64[Array0f64] | _cuda.Array0f64 | ToFloat64[_cuda.Array0f64] | _scalar.Array0f64 | ToFloat64[_scalar.Array0f64]
class Array0f64(Vector[_Array0f64, Array0b, Float64, Float64], Floats[_Array0f64, Array0b]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array0b]]
_Array1f64: TypeAlias = _Float64 | Array1f64 | ToFloat64[Array1f64] | _cuda.Array1f64 | ToFloat64[_cuda.Array1f64] | _scalar.Array1f64 | ToFloat64[_scalar.Array1f64]
class Array1f64(Vector1[_Array1f64, Array1b, Float64, Float64], Floats[_Array1f64, Array1b]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array1b]]
_Array2f64: TypeAlias = _Float64 | Array2f64 | ToFloat64[Array2f64] | _cuda.Array2f64 | ToFloat64[_cuda.Array2f64] | _scalar.Array2f64 | ToFloat64[_scalar.Array2f64]
class Array2f64(Vector2[_Array2f64, Array2b, Float64, Float64], Floats[_Array2f64, Array2b], Swizzles2[Float64, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array2b]]
_Array3f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64]
class Array3f64(Vector3[_Array3f64, Array3b, Float64, Float64], Floats[_Array3f64, Array3b], Swizzles3[Float64, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array3b]]
_Array4f64: TypeAlias = _Float64 | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64]
class Array4f64(Vector4[_Array4f64, Array4b, Float64, Float64], Floats[_Array4f64, Array4b], Swizzles4[Float64, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array4b]]
_ArrayXf64: TypeAlias = _Float64 | Array0f64 | ToFloat64[Array0f64] | _cuda.Array0f64 | ToFloat64[_cuda.Array0f64] | _scalar.Array0f64 | ToFloat64[_scalar.Array0f64] | Array1f64 | ToFloat64[Array1f64] | _cuda.Array1f64 | ToFloat64[_cuda.Array1f64] | _scalar.Array1f64 | ToFloat64[_scalar.Array1f64] | Array2f64 | ToFloat64[Array2f64] | _cuda.Array2f64 | ToFloat64[_cuda.Array2f64] | _scalar.Array2f64 | ToFloat64[_scalar.Array2f64] | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | ArrayXf64 | ToFloat64[ArrayXf64] | _cuda.ArrayXf64 | ToFloat64[_cuda.ArrayXf64] | _scalar.ArrayXf64 | ToFloat64[_scalar.ArrayXf64]
class ArrayXf64(Vector[_ArrayXf64, ArrayXb, Float64, Float64], Floats[_ArrayXf64, ArrayXb]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[ArrayXb]]
_Array22b: TypeAlias = _Bool | Array2b | _cuda.Array2b | _scalar.Array2b | Array22b | _cuda.Array22b | _scalar.Array22b
class Array22b(Vector[_Array22b, Array22b, Array2b, Bool], Masks[_Array22b, Array22b], ToInt8[Never, Never, Never, Never, Never, Never, Array22f16, Array22f, Array22f64]):
    Value: ClassVar[type[Array2b]]
    Mask: ClassVar[type[Array22b]]
_Array33b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b | Array33b | _cuda.Array33b | _scalar.Array33b
class Array33b(Vector[_Array33b, Array33b, Array3b, Bool], Masks[_Array33b, Array33b], ToInt8[Never, Never, Never, Never, Never, Never, Array33f16, Array33f, Array33f64]):
    Value: ClassVar[type[Array3b]]
    Mask: ClassVar[type[Array33b]]
_Array44b: TypeAlias = _Bool | Array4b | _cuda.Array4b | _scalar.Array4b | Array44b | _cuda.Array44b | _scalar.Array44b
class Array44b(Vector[_Array44b, Array44b, Array4b, Bool], Masks[_Array44b, Array44b], ToInt8[Never, Never, Never, Never, Never, Never, Array44f16, Array44f, Array44f64]):
    Value: ClassVar[type[Array4b]]
    Mask: ClassVar[type[Array44b]]
_Array34b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b | Array4b | _cuda.Array4b | _scalar.Array4b | Array34b | _cuda.Array34b | _scalar.Array34b
class Array34b(Vector[_Array34b, Array34b, Array4b, Bool], Masks[_Array34b, Array34b], ToInt8[Never, Never, Never, Never, Never, Never, Array34f16, Array34f, Array34f64]):
    Value: ClassVar[type[Array4b]]
    Mask: ClassVar[type[Array34b]]
_Array41b: TypeAlias = _Bool | Array1b | _cuda.Array1b | _scalar.Array1b | Array4b | _cuda.Array4b | _scalar.Array4b | Array41b | _cuda.Array41b | _scalar.Array41b
class Array41b(Vector[_Array41b, Array41b, Array1b, Bool], Masks[_Array41b, Array41b], ToInt8[Never, Never, Never, Never, Never, Never, Array41f16, Array41f, Array41f64]):
    Value: ClassVar[type[Array1b]]
    Mask: ClassVar[type[Array41b]]
_Array43b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b | Array4b | _cuda.Array4b | _scalar.Array4b | Array43b | _cuda.Array43b | _scalar.Array43b
class Array43b(Vector[_Array43b, Array43b, Array3b, Bool], Masks[_Array43b, Array43b], ToInt8[Never, Never, Never, Never, Never, Never, Array43f16, Array43f, Array43f64]):
    Value: ClassVar[type[Array3b]]
    Mask: ClassVar[type[Array43b]]
_Array334b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b | Array4b | _cuda.Array4b | _scalar.Array4b | Array33b | _cuda.Array33b | _scalar.Array33b | Array34b | _cuda.Array34b | _scalar.Array34b | Array334b | _cuda.Array334b | _scalar.Array334b
class Array334b(Vector[_Array334b, Array334b, Array34b, Bool], Masks[_Array334b, Array334b], ToInt8[Never, Never, Never, Never, Never, Never, Array334f16, Array334f, Array334f64]):
    Value: ClassVar[type[Array34b]]
    Mask: ClassVar[type[Array334b]]
_Array441b: TypeAlias = _Bool | Array1b | _cuda.Array1b | _scalar.Array1b | Array4b | _cuda.Array4b | _scalar.Array4b | Array44b | _cuda.Array44b | _scalar.Array44b | Array41b | _cuda.Array41b | _scalar.Array41b | Array441b | _cuda.Array441b | _scalar.Array441b
class Array441b(Vector[_Array441b, Array441b, Array41b, Bool], Masks[_Array441b, Array441b], ToInt8[Never, Never, Never, Never, Never, Never, Array441f16, Array441f, Array441f64]):
    Value: ClassVar[type[Array41b]]
    Mask: ClassVar[type[Array441b]]
_Array443b: TypeAlias = _Bool | Array3b | _cuda.Array3b | _scalar.Array3b | Array4b | _cuda.Array4b | _scalar.Array4b | Array44b | _cuda.Array44b | _scalar.Array44b | Array43b | _cuda.Array43b | _scalar.Array43b | Array443b | _cuda.Array443b | _scalar.Array443b
class Array443b(Vector[_Array443b, Array443b, Array43b, Bool], Masks[_Array443b, Array443b], ToInt8[Never, Never, Never, Never, Never, Never, Array443f16, Array443f, Array443f64]):
    Value: ClassVar[type[Array43b]]
    Mask: ClassVar[type[Array443b]]
_Array444b: TypeAlias = _Bool | Array4b | _cuda.Array4b | _scalar.Array4b | Array44b | _cuda.Array44b | _scalar.Array44b | Array444b | _cuda.Array444b | _scalar.Array444b
class Array444b(Vector[_Array444b, Array444b, Array44b, Bool], Masks[_Array444b, Array444b], ToInt8[Never, Never, Never, Never, Never, Never, Array444f16, Array444f, Array444f64]):
    Value: ClassVar[type[Array44b]]
    Mask: ClassVar[type[Array444b]]
_Array22f16: TypeAlias = _Float16 | Array2f16 | ToFloat16[Array2f16, Any, Any] | _cuda.Array2f16 | ToFloat16[_cuda.Array2f16, Any, Any] | _scalar.Array2f16 | ToFloat16[_scalar.Array2f16, Any, Any] | Array22f16 | ToFloat16[Array22f16, Any, Any] | _cuda.Array22f16 | ToFloat16[_cuda.Array22f16, Any, Any] | _scalar.Array22f16 | ToFloat16[_scalar.Array22f16, Any, Any]
class Array22f16(Vector[_Array22f16, Array22b, Array2f16, Float16], Floats[_Array22f16, Array22b], ToFloat[Array22f, Array22f64]):
    Value: ClassVar[type[Array2f16]]
    Mask: ClassVar[type[Array22b]]
_Array33f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array33f16 | ToFloat16[Array33f16, Any, Any] | _cuda.Array33f16 | ToFloat16[_cuda.Array33f16, Any, Any] | _scalar.Array33f16 | ToFloat16[_scalar.Array33f16, Any, Any]
class Array33f16(Vector[_Array33f16, Array33b, Array3f16, Float16], Floats[_Array33f16, Array33b], ToFloat[Array33f, Array33f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array33b]]
_Array44f16: TypeAlias = _Float16 | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | _cuda.Array44f16 | ToFloat16[_cuda.Array44f16, Any, Any] | _scalar.Array44f16 | ToFloat16[_scalar.Array44f16, Any, Any]
class Array44f16(Vector[_Array44f16, Array44b, Array4f16, Float16], Floats[_Array44f16, Array44b], ToFloat[Array44f, Array44f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array44b]]
_Array34f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array34f16 | ToFloat16[Array34f16, Any, Any] | _cuda.Array34f16 | ToFloat16[_cuda.Array34f16, Any, Any] | _scalar.Array34f16 | ToFloat16[_scalar.Array34f16, Any, Any]
class Array34f16(Vector[_Array34f16, Array34b, Array4f16, Float16], Floats[_Array34f16, Array34b], ToFloat[Array34f, Array34f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array34b]]
_Array41f16: TypeAlias = _Float16 | Array1f16 | ToFloat16[Array1f16, Any, Any] | _cuda.Array1f16 | ToFloat16[_cuda.Array1f16, Any, Any] | _scalar.Array1f16 | ToFloat16[_scalar.Array1f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array41f16 | ToFloat16[Array41f16, Any, Any] | _cuda.Array41f16 | ToFloat16[_cuda.Array41f16, Any, Any] | _scalar.Array41f16 | ToFloat16[_scalar.Array41f16, Any, Any]
class Array41f16(Vector[_Array41f16, Array41b, Array1f16, Float16], Floats[_Array41f16, Array41b], ToFloat[Array41f, Array41f64]):
    Value: ClassVar[type[Array1f16]]
    Mask: ClassVar[type[Array41b]]
_Array43f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array43f16 | ToFloat16[Array43f16, Any, Any] | _cuda.Array43f16 | ToFloat16[_cuda.Array43f16, Any, Any] | _scalar.Array43f16 | ToFloat16[_scalar.Array43f16, Any, Any]
class Array43f16(Vector[_Array43f16, Array43b, Array3f16, Float16], Floats[_Array43f16, Array43b], ToFloat[Array43f, Array43f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array43b]]
_Array334f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array33f16 | ToFloat16[Array33f16, Any, Any] | _cuda.Array33f16 | ToFloat16[_cuda.Array33f16, Any, Any] | _scalar.Array33f16 | ToFloat16[_scalar.Array33f16, Any, Any] | Array34f16 | ToFloat16[Array34f16, Any, Any] | _cuda.Array34f16 | ToFloat16[_cuda.Array34f16, Any, Any] | _scalar.Array34f16 | ToFloat16[_scalar.Array34f16, Any, Any] | Array334f16 | ToFloat16[Array334f16, Any, Any] | _cuda.Array334f16 | ToFloat16[_cuda.Array334f16, Any, Any] | _scalar.Array334f16 | ToFloat16[_scalar.Array334f16, Any, Any]
class Array334f16(Vector[_Array334f16, Array334b, Array34f16, Float16], Floats[_Array334f16, Array334b], ToFloat[Array334f, Array334f64]):
    Value: ClassVar[type[Array34f16]]
    Mask: ClassVar[type[Array334b]]
_Array441f16: TypeAlias = _Float16 | Array1f16 | ToFloat16[Array1f16, Any, Any] | _cuda.Array1f16 | ToFloat16[_cuda.Array1f16, Any, Any] | _scalar.Array1f16 | ToFloat16[_scalar.Array1f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | _cuda.Array44f16 | ToFloat16[_cuda.Array44f16, Any, Any] | _scalar.Array44f16 | ToFloat16[_scalar.Array44f16, Any, Any] | Array41f16 | ToFloat16[Array41f16, Any, Any] | _cuda.Array41f16 | ToFloat16[_cuda.Array41f16, Any, Any] | _scalar.Array41f16 | ToFloat16[_scalar.Array41f16, Any, Any] | Array441f16 | ToFloat16[Array441f16, Any, Any] | _cuda.Array441f16 | ToFloat16[_cuda.Array441f16, Any, Any] | _scalar.Array441f16 | ToFloat16[_scalar.Array441f16, Any, Any]
class Array441f16(Vector[_Array441f16, Array441b, Array41f16, Float16], Floats[_Array441f16, Array441b], ToFloat[Array441f, Array441f64]):
    Value: ClassVar[type[Array41f16]]
    Mask: ClassVar[type[Array441b]]
_Array443f16: TypeAlias = _Float16 | Array3f16 | ToFloat16[Array3f16, Any, Any] | _cuda.Array3f16 | ToFloat16[_cuda.Array3f16, Any, Any] | _scalar.Array3f16 | ToFloat16[_scalar.Array3f16, Any, Any] | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | _cuda.Array44f16 | ToFloat16[_cuda.Array44f16, Any, Any] | _scalar.Array44f16 | ToFloat16[_scalar.Array44f16, Any, Any] | Array43f16 | ToFloat16[Array43f16, Any, Any] | _cuda.Array43f16 | ToFloat16[_cuda.Array43f16, Any, Any] | _scalar.Array43f16 | ToFloat16[_scalar.Array43f16, Any, Any] | Array443f16 | ToFloat16[Array443f16, Any, Any] | _cuda.Array443f16 | ToFloat16[_cuda.Array443f16, Any, Any] | _scalar.Array443f16 | ToFloat16[_scalar.Array443f16, Any, Any]
class Array443f16(Vector[_Array443f16, Array443b, Array43f16, Float16], Floats[_Array443f16, Array443b], ToFloat[Array443f, Array443f64]):
    Value: ClassVar[type[Array43f16]]
    Mask: ClassVar[type[Array443b]]
_Array444f16: TypeAlias = _Float16 | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Array44f16 | ToFloat16[Array44f16, Any, Any] | _cuda.Array44f16 | ToFloat16[_cuda.Array44f16, Any, Any] | _scalar.Array44f16 | ToFloat16[_scalar.Array44f16, Any, Any] | Array444f16 | ToFloat16[Array444f16, Any, Any] | _cuda.Array444f16 | ToFloat16[_cuda.Array444f16, Any, Any] | _scalar.Array444f16 | ToFloat16[_scalar.Array444f16, Any, Any]
class Array444f16(Vector[_Array444f16, Array444b, Array44f16, Float16], Floats[_Array444f16, Array444b], ToFloat[Array444f, Array444f64]):
    Value: ClassVar[type[Array44f16]]
    Mask: ClassVar[type[Array444b]]
_Array22f: TypeAlias = _Float | Array2f | ToFloat[Array2f, Any] | _cuda.Array2f | ToFloat[_cuda.Array2f, Any] | _scalar.Array2f | ToFloat[_scalar.Array2f, Any] | Array22f | ToFloat[Array22f, Any] | _cuda.Array22f | ToFloat[_cuda.Array22f, Any] | _scalar.Array22f | ToFloat[_scalar.Array22f, Any]
class Array22f(Vector[_Array22f, Array22b, Array2f, Float], Floats[_Array22f, Array22b], ToFloat64[Array22f64]):
    Value: ClassVar[type[Array2f]]
    Mask: ClassVar[type[Array22b]]
_Array33f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array33f | ToFloat[Array33f, Any] | _cuda.Array33f | ToFloat[_cuda.Array33f, Any] | _scalar.Array33f | ToFloat[_scalar.Array33f, Any]
class Array33f(Vector[_Array33f, Array33b, Array3f, Float], Floats[_Array33f, Array33b], ToFloat64[Array33f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array33b]]
_Array44f: TypeAlias = _Float | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array44f | ToFloat[Array44f, Any] | _cuda.Array44f | ToFloat[_cuda.Array44f, Any] | _scalar.Array44f | ToFloat[_scalar.Array44f, Any]
class Array44f(Vector[_Array44f, Array44b, Array4f, Float], Floats[_Array44f, Array44b], ToFloat64[Array44f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array44b]]
_Array34f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array34f | ToFloat[Array34f, Any] | _cuda.Array34f | ToFloat[_cuda.Array34f, Any] | _scalar.Array34f | ToFloat[_scalar.Array34f, Any]
class Array34f(Vector[_Array34f, Array34b, Array4f, Float], Floats[_Array34f, Array34b], ToFloat64[Array34f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array34b]]
_Array41f: TypeAlias = _Float | Array1f | ToFloat[Array1f, Any] | _cuda.Array1f | ToFloat[_cuda.Array1f, Any] | _scalar.Array1f | ToFloat[_scalar.Array1f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array41f | ToFloat[Array41f, Any] | _cuda.Array41f | ToFloat[_cuda.Array41f, Any] | _scalar.Array41f | ToFloat[_scalar.Array41f, Any]
class Array41f(Vector[_Array41f, Array41b, Array1f, Float], Floats[_Array41f, Array41b], ToFloat64[Array41f64]):
    Value: ClassVar[type[Array1f]]
    Mask: ClassVar[type[Array41b]]
_Array43f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array43f | ToFloat[Array43f, Any] | _cuda.Array43f | ToFloat[_cuda.Array43f, Any] | _scalar.Array43f | ToFloat[_scalar.Array43f, Any]
class Array43f(Vector[_Array43f, Array43b, Array3f, Float], Floats[_Array43f, Array43b], ToFloat64[Array43f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array43b]]
_Array334f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array33f | ToFloat[Array33f, Any] | _cuda.Array33f | ToFloat[_cuda.Array33f, Any] | _scalar.Array33f | ToFloat[_scalar.Array33f, Any] | Array34f | ToFloat[Array34f, Any] | _cuda.Array34f | ToFloat[_cuda.Array34f, Any] | _scalar.Array34f | ToFloat[_scalar.Array34f, Any] | Array334f | ToFloat[Array334f, Any] | _cuda.Array334f | ToFloat[_cuda.Array334f, Any] | _scalar.Array334f | ToFloat[_scalar.Array334f, Any]
class Array334f(Vector[_Array334f, Array334b, Array34f, Float], Floats[_Array334f, Array334b], ToFloat64[Array334f64]):
    Value: ClassVar[type[Array34f]]
    Mask: ClassVar[type[Array334b]]
_Array441f: TypeAlias = _Float | Array1f | ToFloat[Array1f, Any] | _cuda.Array1f | ToFloat[_cuda.Array1f, Any] | _scalar.Array1f | ToFloat[_scalar.Array1f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array44f | ToFloat[Array44f, Any] | _cuda.Array44f | ToFloat[_cuda.Array44f, Any] | _scalar.Array44f | ToFloat[_scalar.Array44f, Any] | Array41f | ToFloat[Array41f, Any] | _cuda.Array41f | ToFloat[_cuda.Array41f, Any] | _scalar.Array41f | ToFloat[_scalar.Array41f, Any] | Array441f | ToFloat[Array441f, Any] | _cuda.Array441f | ToFloat[_cuda.Array441f, Any] | _scalar.Array441f | ToFloat[_scalar.Array441f, Any]
class Array441f(Vector[_Array441f, Array441b, Array41f, Float], Floats[_Array441f, Array441b], ToFloat64[Array441f64]):
    Value: ClassVar[type[Array41f]]
    Mask: ClassVar[type[Array441b]]
_Array443f: TypeAlias = _Float | Array3f | ToFloat[Array3f, Any] | _cuda.Array3f | ToFloat[_cuda.Array3f, Any] | _scalar.Array3f | ToFloat[_scalar.Array3f, Any] | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array44f | ToFloat[Array44f, Any] | _cuda.Array44f | ToFloat[_cuda.Array44f, Any] | _scalar.Array44f | ToFloat[_scalar.Array44f, Any] | Array43f | ToFloat[Array43f, Any] | _cuda.Array43f | ToFloat[_cuda.Array43f, Any] | _scalar.Array43f | ToFloat[_scalar.Array43f, Any] | Array443f | ToFloat[Array443f, Any] | _cuda.Array443f | ToFloat[_cuda.Array443f, Any] | _scalar.Array443f | ToFloat[_scalar.Array443f, Any]
class Array443f(Vector[_Array443f, Array443b, Array43f, Float], Floats[_Array443f, Array443b], ToFloat64[Array443f64]):
    Value: ClassVar[type[Array43f]]
    Mask: ClassVar[type[Array443b]]
_Array444f: TypeAlias = _Float | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Array44f | ToFloat[Array44f, Any] | _cuda.Array44f | ToFloat[_cuda.Array44f, Any] | _scalar.Array44f | ToFloat[_scalar.Array44f, Any] | Array444f | ToFloat[Array444f, Any] | _cuda.Array444f | ToFloat[_cuda.Array444f, Any] | _scalar.Array444f | ToFloat[_scalar.Array444f, Any]
class Array444f(Vector[_Array444f, Array444b, Array44f, Float], Floats[_Array444f, Array444b], ToFloat64[Array444f64]):
    Value: ClassVar[type[Array44f]]
    Mask: ClassVar[type[Array444b]]
_Array22f64: TypeAlias = _Float64 | Array2f64 | ToFloat64[Array2f64] | _cuda.Array2f64 | ToFloat64[_cuda.Array2f64] | _scalar.Array2f64 | ToFloat64[_scalar.Array2f64] | Array22f64 | ToFloat64[Array22f64] | _cuda.Array22f64 | ToFloat64[_cuda.Array22f64] | _scalar.Array22f64 | ToFloat64[_scalar.Array22f64]
class Array22f64(Vector[_Array22f64, Array22b, Array2f64, Float64], Floats[_Array22f64, Array22b]):
    Value: ClassVar[type[Array2f64]]
    Mask: ClassVar[type[Array22b]]
_Array33f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array33f64 | ToFloat64[Array33f64] | _cuda.Array33f64 | ToFloat64[_cuda.Array33f64] | _scalar.Array33f64 | ToFloat64[_scalar.Array33f64]
class Array33f64(Vector[_Array33f64, Array33b, Array3f64, Float64], Floats[_Array33f64, Array33b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array33b]]
_Array44f64: TypeAlias = _Float64 | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array44f64 | ToFloat64[Array44f64] | _cuda.Array44f64 | ToFloat64[_cuda.Array44f64] | _scalar.Array44f64 | ToFloat64[_scalar.Array44f64]
class Array44f64(Vector[_Array44f64, Array44b, Array4f64, Float64], Floats[_Array44f64, Array44b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array44b]]
_Array34f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array34f64 | ToFloat64[Array34f64] | _cuda.Array34f64 | ToFloat64[_cuda.Array34f64] | _scalar.Array34f64 | ToFloat64[_scalar.Array34f64]
class Array34f64(Vector[_Array34f64, Array34b, Array4f64, Float64], Floats[_Array34f64, Array34b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array34b]]
_Array41f64: TypeAlias = _Float64 | Array1f64 | ToFloat64[Array1f64] | _cuda.Array1f64 | ToFloat64[_cuda.Array1f64] | _scalar.Array1f64 | ToFloat64[_scalar.Array1f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array41f64 | ToFloat64[Array41f64] | _cuda.Array41f64 | ToFloat64[_cuda.Array41f64] | _scalar.Array41f64 | ToFloat64[_scalar.Array41f64]
class Array41f64(Vector[_Array41f64, Array41b, Array1f64, Float64], Floats[_Array41f64, Array41b]):
    Value: ClassVar[type[Array1f64]]
    Mask: ClassVar[type[Array41b]]
_Array43f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array43f64 | ToFloat64[Array43f64] | _cuda.Array43f64 | ToFloat64[_cuda.Array43f64] | _scalar.Array43f64 | ToFloat64[_scalar.Array43f64]
class Array43f64(Vector[_Array43f64, Array43b, Array3f64, Float64], Floats[_Array43f64, Array43b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array43b]]
_Array334f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array33f64 | ToFloat64[Array33f64] | _cuda.Array33f64 | ToFloat64[_cuda.Array33f64] | _scalar.Array33f64 | ToFloat64[_scalar.Array33f64] | Array34f64 | ToFloat64[Array34f64] | _cuda.Array34f64 | ToFloat64[_cuda.Array34f64] | _scalar.Array34f64 | ToFloat64[_scalar.Array34f64] | Array334f64 | ToFloat64[Array334f64] | _cuda.Array334f64 | ToFloat64[_cuda.Array334f64] | _scalar.Array334f64 | ToFloat64[_scalar.Array334f64]
class Array334f64(Vector[_Array334f64, Array334b, Array34f64, Float64], Floats[_Array334f64, Array334b]):
    Value: ClassVar[type[Array34f64]]
    Mask: ClassVar[type[Array334b]]
_Array441f64: TypeAlias = _Float64 | Array1f64 | ToFloat64[Array1f64] | _cuda.Array1f64 | ToFloat64[_cuda.Array1f64] | _scalar.Array1f64 | ToFloat64[_scalar.Array1f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array44f64 | ToFloat64[Array44f64] | _cuda.Array44f64 | ToFloat64[_cuda.Array44f64] | _scalar.Array44f64 | ToFloat64[_scalar.Array44f64] | Array41f64 | ToFloat64[Array41f64] | _cuda.Array41f64 | ToFloat64[_cuda.Array41f64] | _scalar.Array41f64 | ToFloat64[_scalar.Array41f64] | Array441f64 | ToFloat64[Array441f64] | _cuda.Array441f64 | ToFloat64[_cuda.Array441f64] | _scalar.Array441f64 | ToFloat64[_scalar.Array441f64]
class Array441f64(Vector[_Array441f64, Array441b, Array41f64, Float64], Floats[_Array441f64, Array441b]):
    Value: ClassVar[type[Array41f64]]
    Mask: ClassVar[type[Array441b]]
_Array443f64: TypeAlias = _Float64 | Array3f64 | ToFloat64[Array3f64] | _cuda.Array3f64 | ToFloat64[_cuda.Array3f64] | _scalar.Array3f64 | ToFloat64[_scalar.Array3f64] | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array44f64 | ToFloat64[Array44f64] | _cuda.Array44f64 | ToFloat64[_cuda.Array44f64] | _scalar.Array44f64 | ToFloat64[_scalar.Array44f64] | Array43f64 | ToFloat64[Array43f64] | _cuda.Array43f64 | ToFloat64[_cuda.Array43f64] | _scalar.Array43f64 | ToFloat64[_scalar.Array43f64] | Array443f64 | ToFloat64[Array443f64] | _cuda.Array443f64 | ToFloat64[_cuda.Array443f64] | _scalar.Array443f64 | ToFloat64[_scalar.Array443f64]
class Array443f64(Vector[_Array443f64, Array443b, Array43f64, Float64], Floats[_Array443f64, Array443b]):
    Value: ClassVar[type[Array43f64]]
    Mask: ClassVar[type[Array443b]]
_Array444f64: TypeAlias = _Float64 | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Array44f64 | ToFloat64[Array44f64] | _cuda.Array44f64 | ToFloat64[_cuda.Array44f64] | _scalar.Array44f64 | ToFloat64[_scalar.Array44f64] | Array444f64 | ToFloat64[Array444f64] | _cuda.Array444f64 | ToFloat64[_cuda.Array444f64] | _scalar.Array444f64 | ToFloat64[_scalar.Array444f64]
class Array444f64(Vector[_Array444f64, Array444b, Array44f64, Float64], Floats[_Array444f64, Array444b]):
    Value: ClassVar[type[Array44f64]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f16: TypeAlias = _Float16 | Matrix2f16 | ToFloat16[Matrix2f16, Any, Any] | _cuda.Matrix2f16 | ToFloat16[_cuda.Matrix2f16, Any, Any] | _scalar.Matrix2f16 | ToFloat16[_scalar.Matrix2f16, Any, Any]
class Matrix2f16(Matrix[_Matrix2f16, Array22b, Array2f16, Float16, Array22f16], Floats[_Matrix2f16, Array22b], ToFloat[Matrix2f, Matrix2f64]):
    Value: ClassVar[type[Array2f16]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f16: TypeAlias = _Float16 | Matrix3f16 | ToFloat16[Matrix3f16, Any, Any] | _cuda.Matrix3f16 | ToFloat16[_cuda.Matrix3f16, Any, Any] | _scalar.Matrix3f16 | ToFloat16[_scalar.Matrix3f16, Any, Any]
class Matrix3f16(Matrix[_Matrix3f16, Array33b, Array3f16, Float16, Array33f16], Floats[_Matrix3f16, Array33b], ToFloat[Matrix3f, Matrix3f64]):
    Value: ClassVar[type[Array3f16]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f16: TypeAlias = _Float16 | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | _cuda.Matrix4f16 | ToFloat16[_cuda.Matrix4f16, Any, Any] | _scalar.Matrix4f16 | ToFloat16[_scalar.Matrix4f16, Any, Any]
class Matrix4f16(Matrix[_Matrix4f16, Array44b, Array4f16, Float16, Array44f16], Floats[_Matrix4f16, Array44b], ToFloat[Matrix4f, Matrix4f64]):
    Value: ClassVar[type[Array4f16]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f16: TypeAlias = _Float16 | Matrix3f16 | ToFloat16[Matrix3f16, Any, Any] | _cuda.Matrix3f16 | ToFloat16[_cuda.Matrix3f16, Any, Any] | _scalar.Matrix3f16 | ToFloat16[_scalar.Matrix3f16, Any, Any] | Matrix34f16 | ToFloat16[Matrix34f16, Any, Any] | _cuda.Matrix34f16 | ToFloat16[_cuda.Matrix34f16, Any, Any] | _scalar.Matrix34f16 | ToFloat16[_scalar.Matrix34f16, Any, Any]
class Matrix34f16(Matrix[_Matrix34f16, Array334b, Array34f16, Float16, Array334f16], Floats[_Matrix34f16, Array334b], ToFloat[Matrix34f, Matrix34f64]):
    Value: ClassVar[type[Array34f16]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f16: TypeAlias = _Float16 | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | _cuda.Matrix4f16 | ToFloat16[_cuda.Matrix4f16, Any, Any] | _scalar.Matrix4f16 | ToFloat16[_scalar.Matrix4f16, Any, Any] | Matrix41f16 | ToFloat16[Matrix41f16, Any, Any] | _cuda.Matrix41f16 | ToFloat16[_cuda.Matrix41f16, Any, Any] | _scalar.Matrix41f16 | ToFloat16[_scalar.Matrix41f16, Any, Any]
class Matrix41f16(Matrix[_Matrix41f16, Array441b, Array41f16, Float16, Array441f16], Floats[_Matrix41f16, Array441b], ToFloat[Matrix41f, Matrix41f64]):
    Value: ClassVar[type[Array41f16]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f16: TypeAlias = _Float16 | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | _cuda.Matrix4f16 | ToFloat16[_cuda.Matrix4f16, Any, Any] | _scalar.Matrix4f16 | ToFloat16[_scalar.Matrix4f16, Any, Any] | Matrix43f16 | ToFloat16[Matrix43f16, Any, Any] | _cuda.Matrix43f16 | ToFloat16[_cuda.Matrix43f16, Any, Any] | _scalar.Matrix43f16 | ToFloat16[_scalar.Matrix43f16, Any, Any]
class Matrix43f16(Matrix[_Matrix43f16, Array443b, Array43f16, Float16, Array443f16], Floats[_Matrix43f16, Array443b], ToFloat[Matrix43f, Matrix43f64]):
    Value: ClassVar[type[Array43f16]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f16: TypeAlias = _Float16 | Matrix4f16 | ToFloat16[Matrix4f16, Any, Any] | _cuda.Matrix4f16 | ToFloat16[_cuda.Matrix4f16, Any, Any] | _scalar.Matrix4f16 | ToFloat16[_scalar.Matrix4f16, Any, Any] | Matrix44f16 | ToFloat16[Matrix44f16, Any, Any] | _cuda.Matrix44f16 | ToFloat16[_cuda.Matrix44f16, Any, Any] | _scalar.Matrix44f16 | ToFloat16[_scalar.Matrix44f16, Any, Any]
class Matrix44f16(Matrix[_Matrix44f16, Array444b, Array44f16, Float16, Array444f16], Floats[_Matrix44f16, Array444b], ToFloat[Matrix44f, Matrix44f64]):
    Value: ClassVar[type[Array44f16]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f: TypeAlias = _Float | Matrix2f | ToFloat[Matrix2f, Any] | _cuda.Matrix2f | ToFloat[_cuda.Matrix2f, Any] | _scalar.Matrix2f | ToFloat[_scalar.Matrix2f, Any]
class Matrix2f(Matrix[_Matrix2f, Array22b, Array2f, Float, Array22f], Floats[_Matrix2f, Array22b], ToFloat64[Matrix2f64]):
    Value: ClassVar[type[Array2f]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f: TypeAlias = _Float | Matrix3f | ToFloat[Matrix3f, Any] | _cuda.Matrix3f | ToFloat[_cuda.Matrix3f, Any] | _scalar.Matrix3f | ToFloat[_scalar.Matrix3f, Any]
class Matrix3f(Matrix[_Matrix3f, Array33b, Array3f, Float, Array33f], Floats[_Matrix3f, Array33b], ToFloat64[Matrix3f64]):
    Value: ClassVar[type[Array3f]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f: TypeAlias = _Float | Matrix4f | ToFloat[Matrix4f, Any] | _cuda.Matrix4f | ToFloat[_cuda.Matrix4f, Any] | _scalar.Matrix4f | ToFloat[_scalar.Matrix4f, Any]
class Matrix4f(Matrix[_Matrix4f, Array44b, Array4f, Float, Array44f], Floats[_Matrix4f, Array44b], ToFloat64[Matrix4f64]):
    Value: ClassVar[type[Array4f]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f: TypeAlias = _Float | Matrix3f | ToFloat[Matrix3f, Any] | _cuda.Matrix3f | ToFloat[_cuda.Matrix3f, Any] | _scalar.Matrix3f | ToFloat[_scalar.Matrix3f, Any] | Matrix34f | ToFloat[Matrix34f, Any] | _cuda.Matrix34f | ToFloat[_cuda.Matrix34f, Any] | _scalar.Matrix34f | ToFloat[_scalar.Matrix34f, Any]
class Matrix34f(Matrix[_Matrix34f, Array334b, Array34f, Float, Array334f], Floats[_Matrix34f, Array334b], ToFloat64[Matrix34f64]):
    Value: ClassVar[type[Array34f]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f: TypeAlias = _Float | Matrix4f | ToFloat[Matrix4f, Any] | _cuda.Matrix4f | ToFloat[_cuda.Matrix4f, Any] | _scalar.Matrix4f | ToFloat[_scalar.Matrix4f, Any] | Matrix41f | ToFloat[Matrix41f, Any] | _cuda.Matrix41f | ToFloat[_cuda.Matrix41f, Any] | _scalar.Matrix41f | ToFloat[_scalar.Matrix41f, Any]
class Matrix41f(Matrix[_Matrix41f, Array441b, Array41f, Float, Array441f], Floats[_Matrix41f, Array441b], ToFloat64[Matrix41f64]):
    Value: ClassVar[type[Array41f]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f: TypeAlias = _Float | Matrix4f | ToFloat[Matrix4f, Any] | _cuda.Matrix4f | ToFloat[_cuda.Matrix4f, Any] | _scalar.Matrix4f | ToFloat[_scalar.Matrix4f, Any] | Matrix43f | ToFloat[Matrix43f, Any] | _cuda.Matrix43f | ToFloat[_cuda.Matrix43f, Any] | _scalar.Matrix43f | ToFloat[_scalar.Matrix43f, Any]
class Matrix43f(Matrix[_Matrix43f, Array443b, Array43f, Float, Array443f], Floats[_Matrix43f, Array443b], ToFloat64[Matrix43f64]):
    Value: ClassVar[type[Array43f]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f: TypeAlias = _Float | Matrix4f | ToFloat[Matrix4f, Any] | _cuda.Matrix4f | ToFloat[_cuda.Matrix4f, Any] | _scalar.Matrix4f | ToFloat[_scalar.Matrix4f, Any] | Matrix44f | ToFloat[Matrix44f, Any] | _cuda.Matrix44f | ToFloat[_cuda.Matrix44f, Any] | _scalar.Matrix44f | ToFloat[_scalar.Matrix44f, Any]
class Matrix44f(Matrix[_Matrix44f, Array444b, Array44f, Float, Array444f], Floats[_Matrix44f, Array444b], ToFloat64[Matrix44f64]):
    Value: ClassVar[type[Array44f]]
    Mask: ClassVar[type[Array444b]]
_Matrix2f64: TypeAlias = _Float64 | Matrix2f64 | ToFloat64[Matrix2f64] | _cuda.Matrix2f64 | ToFloat64[_cuda.Matrix2f64] | _scalar.Matrix2f64 | ToFloat64[_scalar.Matrix2f64]
class Matrix2f64(Matrix[_Matrix2f64, Array22b, Array2f64, Float64, Array22f64], Floats[_Matrix2f64, Array22b]):
    Value: ClassVar[type[Array2f64]]
    Mask: ClassVar[type[Array22b]]
_Matrix3f64: TypeAlias = _Float64 | Matrix3f64 | ToFloat64[Matrix3f64] | _cuda.Matrix3f64 | ToFloat64[_cuda.Matrix3f64] | _scalar.Matrix3f64 | ToFloat64[_scalar.Matrix3f64]
class Matrix3f64(Matrix[_Matrix3f64, Array33b, Array3f64, Float64, Array33f64], Floats[_Matrix3f64, Array33b]):
    Value: ClassVar[type[Array3f64]]
    Mask: ClassVar[type[Array33b]]
_Matrix4f64: TypeAlias = _Float64 | Matrix4f64 | ToFloat64[Matrix4f64] | _cuda.Matrix4f64 | ToFloat64[_cuda.Matrix4f64] | _scalar.Matrix4f64 | ToFloat64[_scalar.Matrix4f64]
class Matrix4f64(Matrix[_Matrix4f64, Array44b, Array4f64, Float64, Array44f64], Floats[_Matrix4f64, Array44b]):
    Value: ClassVar[type[Array4f64]]
    Mask: ClassVar[type[Array44b]]
_Matrix34f64: TypeAlias = _Float64 | Matrix3f64 | ToFloat64[Matrix3f64] | _cuda.Matrix3f64 | ToFloat64[_cuda.Matrix3f64] | _scalar.Matrix3f64 | ToFloat64[_scalar.Matrix3f64] | Matrix34f64 | ToFloat64[Matrix34f64] | _cuda.Matrix34f64 | ToFloat64[_cuda.Matrix34f64] | _scalar.Matrix34f64 | ToFloat64[_scalar.Matrix34f64]
class Matrix34f64(Matrix[_Matrix34f64, Array334b, Array34f64, Float64, Array334f64], Floats[_Matrix34f64, Array334b]):
    Value: ClassVar[type[Array34f64]]
    Mask: ClassVar[type[Array334b]]
_Matrix41f64: TypeAlias = _Float64 | Matrix4f64 | ToFloat64[Matrix4f64] | _cuda.Matrix4f64 | ToFloat64[_cuda.Matrix4f64] | _scalar.Matrix4f64 | ToFloat64[_scalar.Matrix4f64] | Matrix41f64 | ToFloat64[Matrix41f64] | _cuda.Matrix41f64 | ToFloat64[_cuda.Matrix41f64] | _scalar.Matrix41f64 | ToFloat64[_scalar.Matrix41f64]
class Matrix41f64(Matrix[_Matrix41f64, Array441b, Array41f64, Float64, Array441f64], Floats[_Matrix41f64, Array441b]):
    Value: ClassVar[type[Array41f64]]
    Mask: ClassVar[type[Array441b]]
_Matrix43f64: TypeAlias = _Float64 | Matrix4f64 | ToFloat64[Matrix4f64] | _cuda.Matrix4f64 | ToFloat64[_cuda.Matrix4f64] | _scalar.Matrix4f64 | ToFloat64[_scalar.Matrix4f64] | Matrix43f64 | ToFloat64[Matrix43f64] | _cuda.Matrix43f64 | ToFloat64[_cuda.Matrix43f64] | _scalar.Matrix43f64 | ToFloat64[_scalar.Matrix43f64]
class Matrix43f64(Matrix[_Matrix43f64, Array443b, Array43f64, Float64, Array443f64], Floats[_Matrix43f64, Array443b]):
    Value: ClassVar[type[Array43f64]]
    Mask: ClassVar[type[Array443b]]
_Matrix44f64: TypeAlias = _Float64 | Matrix4f64 | ToFloat64[Matrix4f64] | _cuda.Matrix4f64 | ToFloat64[_cuda.Matrix4f64] | _scalar.Matrix4f64 | ToFloat64[_scalar.Matrix4f64] | Matrix44f64 | ToFloat64[Matrix44f64] | _cuda.Matrix44f64 | ToFloat64[_cuda.Matrix44f64] | _scalar.Matrix44f64 | ToFloat64[_scalar.Matrix44f64]
class Matrix44f64(Matrix[_Matrix44f64, Array444b, Array44f64, Float64, Array444f64], Floats[_Matrix44f64, Array444b]):
    Value: ClassVar[type[Array44f64]]
    Mask: ClassVar[type[Array444b]]
_Complex2f: TypeAlias = _Float | Array2f | ToFloat[Array2f, Any] | _cuda.Array2f | ToFloat[_cuda.Array2f, Any] | _scalar.Array2f | ToFloat[_scalar.Array2f, Any] | Complex2f | ToFloat[Complex2f, Any] | _cuda.Complex2f | ToFloat[_cuda.Complex2f, Any] | _scalar.Complex2f | ToFloat[_scalar.Complex2f, Any]
class Complex2f(Complex[_Complex2f, Array2b, Float, Float], Floats[_Complex2f, Array2b], ToFloat64[Complex2f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array2b]]
_Complex2f64: TypeAlias = _Float64 | Array2f64 | ToFloat64[Array2f64] | _cuda.Array2f64 | ToFloat64[_cuda.Array2f64] | _scalar.Array2f64 | ToFloat64[_scalar.Array2f64] | Complex2f64 | ToFloat64[Complex2f64] | _cuda.Complex2f64 | ToFloat64[_cuda.Complex2f64] | _scalar.Complex2f64 | ToFloat64[_scalar.Complex2f64]
class Complex2f64(Complex[_Complex2f64, Array2b, Float64, Float64], Floats[_Complex2f64, Array2b]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array2b]]
_Quaternion4f16: TypeAlias = _Float16 | Array4f16 | ToFloat16[Array4f16, Any, Any] | _cuda.Array4f16 | ToFloat16[_cuda.Array4f16, Any, Any] | _scalar.Array4f16 | ToFloat16[_scalar.Array4f16, Any, Any] | Quaternion4f16 | ToFloat16[Quaternion4f16, Any, Any] | _cuda.Quaternion4f16 | ToFloat16[_cuda.Quaternion4f16, Any, Any] | _scalar.Quaternion4f16 | ToFloat16[_scalar.Quaternion4f16, Any, Any]
class Quaternion4f16(Quaternion[_Quaternion4f16, Array4b, Float16, Float16, Array3f16], Floats[_Quaternion4f16, Array4b], Swizzles4[Float16, Array2f16, Array3f16, Array4f16], ToFloat[Quaternion4f, Quaternion4f64]):
    Value: ClassVar[type[Float16]]
    Mask: ClassVar[type[Array4b]]
_Quaternion4f: TypeAlias = _Float | Array4f | ToFloat[Array4f, Any] | _cuda.Array4f | ToFloat[_cuda.Array4f, Any] | _scalar.Array4f | ToFloat[_scalar.Array4f, Any] | Quaternion4f | ToFloat[Quaternion4f, Any] | _cuda.Quaternion4f | ToFloat[_cuda.Quaternion4f, Any] | _scalar.Quaternion4f | ToFloat[_scalar.Quaternion4f, Any]
class Quaternion4f(Quaternion[_Quaternion4f, Array4b, Float, Float, Array3f], Floats[_Quaternion4f, Array4b], Swizzles4[Float, Array2f, Array3f, Array4f], ToFloat64[Quaternion4f64]):
    Value: ClassVar[type[Float]]
    Mask: ClassVar[type[Array4b]]
_Quaternion4f64: TypeAlias = _Float64 | Array4f64 | ToFloat64[Array4f64] | _cuda.Array4f64 | ToFloat64[_cuda.Array4f64] | _scalar.Array4f64 | ToFloat64[_scalar.Array4f64] | Quaternion4f64 | ToFloat64[Quaternion4f64] | _cuda.Quaternion4f64 | ToFloat64[_cuda.Quaternion4f64] | _scalar.Quaternion4f64 | ToFloat64[_scalar.Quaternion4f64]
class Quaternion4f64(Quaternion[_Quaternion4f64, Array4b, Float64, Float64, Array3f64], Floats[_Quaternion4f64, Array4b], Swizzles4[Float64, Array2f64, Array3f64, Array4f64]):
    Value: ClassVar[type[Float64]]
    Mask: ClassVar[type[Array4b]]
_TensorXb: TypeAlias = _Bool | TensorXb | _cuda.TensorXb | _scalar.TensorXb
class TensorXb(Tensor[_TensorXb, TensorXb, Bool, bool], Masks[_TensorXb, TensorXb], ToInt8[TensorXi8, TensorXu8, TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[bool]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi8: TypeAlias = _Int8 | TensorXi8 | ToInt8[TensorXi8, Any, Any, Any, Any, Any, Any, Any, Any] | _cuda.TensorXi8 | ToInt8[_cuda.TensorXi8, Any, Any, Any, Any, Any, Any, Any, Any] | _scalar.TensorXi8 | ToInt8[_scalar.TensorXi8, Any, Any, Any, Any, Any, Any, Any, Any]
class TensorXi8(Tensor[_TensorXi8, TensorXb, Int8, int], Integers[_TensorXi8, TensorXb], ToUInt8[TensorXu8, TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu8: TypeAlias = _UInt8 | TensorXu8 | ToUInt8[TensorXu8, Any, Any, Any, Any, Any, Any, Any] | _cuda.TensorXu8 | ToUInt8[_cuda.TensorXu8, Any, Any, Any, Any, Any, Any, Any] | _scalar.TensorXu8 | ToUInt8[_scalar.TensorXu8, Any, Any, Any, Any, Any, Any, Any]
class TensorXu8(Tensor[_TensorXu8, TensorXb, UInt8, int], Integers[_TensorXu8, TensorXb], ToInt[TensorXi, TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi: TypeAlias = _Int | TensorXi | ToInt[TensorXi, Any, Any, Any, Any, Any, Any] | _cuda.TensorXi | ToInt[_cuda.TensorXi, Any, Any, Any, Any, Any, Any] | _scalar.TensorXi | ToInt[_scalar.TensorXi, Any, Any, Any, Any, Any, Any]
class TensorXi(Tensor[_TensorXi, TensorXb, Int, int], Integers[_TensorXi, TensorXb], ToUInt[TensorXu, TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu: TypeAlias = _UInt | TensorXu | ToUInt[TensorXu, Any, Any, Any, Any, Any] | _cuda.TensorXu | ToUInt[_cuda.TensorXu, Any, Any, Any, Any, Any] | _scalar.TensorXu | ToUInt[_scalar.TensorXu, Any, Any, Any, Any, Any]
class TensorXu(Tensor[_TensorXu, TensorXb, UInt, int], Integers[_TensorXu, TensorXb], ToInt64[TensorXi64, TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXi64: TypeAlias = _Int64 | TensorXi64 | ToInt64[TensorXi64, Any, Any, Any, Any] | _cuda.TensorXi64 | ToInt64[_cuda.TensorXi64, Any, Any, Any, Any] | _scalar.TensorXi64 | ToInt64[_scalar.TensorXi64, Any, Any, Any, Any]
class TensorXi64(Tensor[_TensorXi64, TensorXb, Int64, int], Integers[_TensorXi64, TensorXb], ToUInt64[TensorXu64, TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXu64: TypeAlias = _UInt64 | TensorXu64 | ToUInt64[TensorXu64, Any, Any, Any] | _cuda.TensorXu64 | ToUInt64[_cuda.TensorXu64, Any, Any, Any] | _scalar.TensorXu64 | ToUInt64[_scalar.TensorXu64, Any, Any, Any]
class TensorXu64(Tensor[_TensorXu64, TensorXb, UInt64, int], Integers[_TensorXu64, TensorXb], ToFloat16[TensorXf16, TensorXf, TensorXf64]):
    Value: ClassVar[type[int]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf16: TypeAlias = _Float16 | TensorXf16 | ToFloat16[TensorXf16, Any, Any] | _cuda.TensorXf16 | ToFloat16[_cuda.TensorXf16, Any, Any] | _scalar.TensorXf16 | ToFloat16[_scalar.TensorXf16, Any, Any]
class TensorXf16(Tensor[_TensorXf16, TensorXb, Float16, float], Floats[_TensorXf16, TensorXb], ToFloat[TensorXf, TensorXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf: TypeAlias = _Float | TensorXf | ToFloat[TensorXf, Any] | _cuda.TensorXf | ToFloat[_cuda.TensorXf, Any] | _scalar.TensorXf | ToFloat[_scalar.TensorXf, Any]
class TensorXf(Tensor[_TensorXf, TensorXb, Float, float], Floats[_TensorXf, TensorXb], ToFloat64[TensorXf64]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
_TensorXf64: TypeAlias = _Float64 | TensorXf64 | ToFloat64[TensorXf64] | _cuda.TensorXf64 | ToFloat64[_cuda.TensorXf64] | _scalar.TensorXf64 | ToFloat64[_scalar.TensorXf64]
class TensorXf64(Tensor[_TensorXf64, TensorXb, Float64, float], Floats[_TensorXf64, TensorXb]):
    Value: ClassVar[type[float]]
    Mask: ClassVar[type[TensorXb]]
Float32: TypeAlias = Float
Int32: TypeAlias = Int
UInt32: TypeAlias = UInt
class Event(_Event):
    ...
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
class Texture1f16(Textures[TensorXf16, Float16, Array1i]): ...
class Texture1f(Textures[TensorXf, Float, Array1i]): ...
class Texture1f64(Textures[TensorXf64, Float64, Array1i]): ...
class Texture1f8u(Textures[TensorXu8, UInt8, Array1i]): ...
class Texture2f16(Textures[TensorXf16, Float16, Array2i]): ...
class Texture2f(Textures[TensorXf, Float, Array2i]): ...
class Texture2f64(Textures[TensorXf64, Float64, Array2i]): ...
class Texture2f8u(Textures[TensorXu8, UInt8, Array2i]): ...
class Texture3f16(Textures[TensorXf16, Float16, Array3i]): ...
class Texture3f(Textures[TensorXf, Float, Array3i]): ...
class Texture3f64(Textures[TensorXf64, Float64, Array3i]): ...
class Texture3f8u(Textures[TensorXu8, UInt8, Array3i]): ...

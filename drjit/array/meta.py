"""What an array class says about itself, its `ArrayMeta`, and the states of evaluation."""

import enum
from typing import NamedTuple

from ..jit import dtype as dt
from ..jit.backend import JitBackend
from ..jit.dtype import DType
from ..jit.named import Named


class VarState(Named, enum.Enum):
    """How far the evaluation of an array got; see `ArrayBase.state`."""

    Invalid = 0
    Undefined = 1
    Literal = 2
    Unevaluated = 3
    Evaluated = 4
    Dirty = 5
    Symbolic = 6
    Mixed = 7


DYNAMIC = -1
"""Stands for a size that is not part of the type."""

BACKENDS = {"scalar": JitBackend.Invalid, "llvm": JitBackend.LLVM, "cuda": JitBackend.CUDA}
KINDS = ("leaf", "vector", "complex", "quaternion", "matrix", "tensor")


class ArrayMeta(NamedTuple):
    """The descriptor of an array class.

    `kind` is one of `KINDS`. `dims` are the sizes of the nesting levels without the lanes of a
    traced type: `(3,)` for `Array3f`, `()` for `drjit.llvm.Float`; tensors have none.

    >>> import drjit as dr
    >>> dr.llvm.Array3f.__meta__
    ArrayMeta[
      type=float32,
      backend=llvm,
      is_jit=1,
      is_vector=1,
      shape=(3, *)
    ]
    """

    namespace: str
    kind: str
    dtype: DType
    dims: tuple[int, ...]

    @property
    def backend(self) -> JitBackend:
        return BACKENDS[self.namespace.partition(".")[0]]

    @property
    def is_jit(self) -> bool:
        return self.namespace != "scalar"

    @property
    def is_diff(self) -> bool:
        return self.namespace.endswith(".ad")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions, `DYNAMIC` where they are not part of the type."""
        if self.kind == "tensor" or self.dims[:1] == (0,):
            return ()
        return (*self.dims, DYNAMIC) if self.is_jit else self.dims

    def __repr__(self) -> str:
        fields = [f"type={self.dtype.name}"]
        if self.is_jit:
            fields += [f"backend={self.backend.name.lower()}", "is_jit=1"]
        if self.kind != "leaf":
            fields.append(f"is_{self.kind}=1")
        if self.is_diff:
            fields.append("is_diff=1")
        sizes = ", ".join("*" if n == DYNAMIC else str(n) for n in self.shape)
        fields.append(f"shape=({sizes})")
        return "ArrayMeta[\n  " + ",\n  ".join(fields) + "\n]"


SUFFIX = {
    dt.mask: "b", dt.i8: "i8", dt.u8: "u8", dt.i32: "i", dt.u32: "u",
    dt.i64: "i64", dt.u64: "u64", dt.f16: "f16", dt.f32: "f", dt.f64: "f64",
}  # fmt: skip
"""Element types that arrays exist for, and how they end a type's name."""

LEAF_NAME = {
    dt.mask: "Bool", dt.i8: "Int8", dt.u8: "UInt8", dt.i32: "Int", dt.u32: "UInt",
    dt.i64: "Int64", dt.u64: "UInt64", dt.f16: "Float16", dt.f32: "Float", dt.f64: "Float64",
}  # fmt: skip
"""Names of one-dimensional arrays."""


def type_name(kind: str, dtype: DType, dims: tuple[int, ...]) -> str:
    """The name of a type: `Array3f`, `Matrix4f64`, `Float`, whether or not it exists."""
    if kind == "leaf":
        return LEAF_NAME.get(dtype, dtype.name.title())
    suffix = SUFFIX.get(dtype, dtype.code)
    if kind == "tensor":
        return "TensorX" + suffix
    shown = dims[1:] if kind == "matrix" and len(dims) == 2 else dims
    if kind == "matrix" and len(dims) > 2:
        shown = dims[1:]
    prefix = "Array" if kind == "vector" else kind.capitalize()
    return prefix + "".join("X" if n == DYNAMIC else str(n) for n in shown) + suffix

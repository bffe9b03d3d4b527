"""The descriptor of an array class, `ArrayMeta`, and the states of evaluation."""

import enum
from functools import cache

from ..jit.backend import JitBackend
from ..jit.cpu.device import CPU
from ..jit.device import Device, register, register_discovery
from ..jit.enumeration import Named
from ..jit.ir import dtype as dt
from ..jit.ir.dtype import DType


class VarState(Named, enum.Enum):
    """The state of evaluation of an array; see `ArrayBase.state`."""

    Invalid = 0
    Undefined = 1
    Literal = 2
    Unevaluated = 3
    Evaluated = 4
    Dirty = 5
    Symbolic = 6
    Mixed = 7


DYNAMIC = -1
"""Represents a size that is not part of the type."""

BACKENDS = {"scalar": JitBackend.Invalid, "llvm": JitBackend.LLVM, "cuda": JitBackend.CUDA}
register(CPU)


def _cuda() -> Device:
    from ..jit.cuda.discovery import discover

    return discover()


register_discovery(JitBackend.CUDA, _cuda)
KINDS = ("leaf", "vector", "complex", "quaternion", "matrix", "tensor")
SPECIAL = KINDS[2:5]
"""The kinds with products of their own."""


class ArrayMeta(str):
    """The descriptor of an array class: a string, with its contents as attributes.

    `kind` is one of `KINDS`. `dims` are the sizes of the nesting levels, excluding the lanes of a
    traced type: `(3,)` for `Array3f`, `()` for `drjit.llvm.Float`, empty for tensors. `shape` are
    the sizes of all dimensions, `DYNAMIC` where they are not part of the type.

    >>> import drjit as dr
    >>> print(dr.llvm.Array3f.__meta__)
    ArrayMeta[
      type=float32,
      backend=llvm,
      is_jit=1,
      is_vector=1,
      shape=(3, *)
    ]
    """

    __slots__ = ("backend", "dims", "dtype", "is_diff", "is_jit", "kind", "namespace", "shape")

    namespace: str
    kind: str
    dtype: DType
    dims: tuple[int, ...]
    backend: JitBackend
    is_jit: bool
    is_diff: bool
    shape: tuple[int, ...]

    def __new__(cls, namespace: str, kind: str, dtype: DType, dims: tuple[int, ...]) -> "ArrayMeta":
        backend, _, suffix = namespace.partition(".")
        is_jit, is_diff = backend != "scalar", suffix == "ad"
        shape = ()
        if kind != "tensor" and dims[:1] != (0,):
            shape = (*dims, DYNAMIC) if is_jit else dims
        fields = [f"type={dtype.name}"]
        if is_jit:
            fields += [f"backend={backend}", "is_jit=1"]
        if kind != "leaf":
            fields.append(f"is_{kind}=1")
        if is_diff:
            fields.append("is_diff=1")
        sizes = ", ".join("*" if n == DYNAMIC else str(n) for n in shape)
        fields.append(f"shape=({sizes})")
        self = super().__new__(cls, "ArrayMeta[\n  " + ",\n  ".join(fields) + "\n]")
        self.namespace, self.kind, self.dtype, self.dims = namespace, kind, dtype, dims
        self.backend, self.is_jit, self.is_diff = BACKENDS[backend], is_jit, is_diff
        self.shape = shape
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


SUFFIX = {t: "b" if t.is_mask else t.code.removesuffix("32") for t in dt.ALL}
del SUFFIX[dt.i16], SUFFIX[dt.u16]
"""The element types of arrays, and the suffix of a type's name: `i8`, `f`, `f64`."""

LEAF_NAME = {t: t.name.title().replace("Uint", "UInt").removesuffix("32") for t in SUFFIX}
"""Names of one-dimensional arrays: `Int8`, `Float`, `Float64`."""


@cache
def type_name(kind: str, dtype: DType, dims: tuple[int, ...]) -> str:
    """Returns the name of a type: `Array3f`, `Matrix4f64`, `Float`, whether or not it exists."""
    if kind == "leaf":
        return LEAF_NAME.get(dtype, dtype.name.title())
    suffix = SUFFIX.get(dtype, dtype.code)
    if kind == "tensor":
        return "TensorX" + suffix
    shown = dims[1:] if kind == "matrix" and len(dims) > 1 else dims
    prefix = "Array" if kind == "vector" else kind.capitalize()
    return prefix + "".join("X" if n == DYNAMIC else str(n) for n in shown) + suffix

"""Types of functions whose result follows from the types of arguments, and the decorators that
state them. `promotion.pyi` has those of functions that promote.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType, ModuleType
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    TypeVarTuple,
    overload,
)

from numpy.typing import NDArray

from ..ad.graph import ADFlag
from ..function.exchange.text_kernel import TextKernel
from ..function.inspect.drawing import Drawing
from ..jit.backend import JitBackend
from ..jit.ir.dtype import VarType
from ..jit.ir.op import ReduceOp
from ..texture.texels import Texels
from .base import ArrayBase, KernelValue
from .kinds import (
    A2,
    A3,
    Active,
    Array,
    B_contra,
    Complex,
    Convertible,
    Dots,
    E,
    Entries,
    Exchanges,
    Extends,
    Floats,
    HasMask,
    HasParts,
    Index,
    Integers,
    Joins,
    Leaf,
    M,
    M_co,
    Masks,
    Matrix,
    Nested,
    OnCUDA,
    OnLLVM,
    PythonInt,
    PythonNumber,
    Quaternion,
    R,
    R_co,
    Rotates,
    Sequences,
    Sizes,
    Stores,
    T,
    Tensor,
    ToFloat,
    ToFloat16,
    ToFloat64,
    ToInt,
    ToInt8,
    ToInt64,
    ToUInt,
    ToUInt8,
    ToUInt64,
    Turns,
    Untyped,
    V,
    WithFloat,
    WithInt,
    WithMatrix,
    WithPlain,
    WithSingle,
    WithTensor,
    WithTracked,
    WithUInt,
    WithVector,
    WithWide,
)  # fmt: skip
from .promotion import Binary, BinaryFloat, Clamp, Clip, Extremum, Fma, Hypot, Lerp, PyTree, Select

B = TypeVar("B")
F = TypeVar("F", bound=Callable[..., Any])
Ts = TypeVarTuple("Ts")
Ps = ParamSpec("Ps")
Qs = ParamSpec("Qs")
# What functions of arrays take: arrays of a kind, values of kernels such as cooperative vectors,
# and arrays about which nothing is known.
FloatT = TypeVar("FloatT", bound=Floats[Any, Any] | KernelValue | Untyped)
NumberT = TypeVar("NumberT", bound=Floats[Any, Any] | Integers[Any, Any] | KernelValue | Untyped)
AnyNumberT = TypeVar(
    "AnyNumberT", bound=Floats[Any, Any] | Integers[Any, Any] | KernelValue | Untyped | float
)
IntegerT = TypeVar("IntegerT", bound=Integers[Any, Any] | KernelValue | Untyped | int)
FlatT = TypeVar("FlatT", bound=Leaf[Any, Any, Any] | Tensor[Any, Any, Any, Any])
LeafT = TypeVar("LeafT", bound=Leaf[Any, Any, Any])
MaskT = TypeVar("MaskT", bound=Masks[Any, Any])
ArrayT = TypeVar("ArrayT", bound=ArrayBase)
ComponentsT = TypeVar("ComponentsT", bound=Nested[Any, Any, Any, Any])
TreeT = TypeVar("TreeT", bound=ArrayBase | KernelValue | PyTree | float)
IndexT = TypeVar("IndexT", bound=Integers[Any, Any])
QuaternionT = TypeVar("QuaternionT", bound=Quaternion[Any, Any, Any, Any, Any] | Untyped)
MatrixT = TypeVar("MatrixT", bound=Matrix[Any, Any, Any, Any, Any] | Untyped)
TensorT = TypeVar("TensorT", bound=Tensor[Any, Any, Any, Any] | Untyped)
TextureT = TypeVar("TextureT", bound=Texels)
K = TypeVar("K")

class Elementary(Protocol):
    """A function of a floating point number, which returns its type."""

    __name__: str
    @overload
    def __call__(self, arg: FloatT, /) -> FloatT: ...
    @overload
    def __call__(self, arg: PythonNumber[R, Any], /) -> R: ...

class Numeric(Protocol):
    """A function of a number, which returns its type."""

    __name__: str
    def __call__(self, arg: AnyNumberT, /) -> AnyNumberT: ...

class Rounded(Protocol):
    """A function of a number, which returns its type, but a float for a Python number."""

    __name__: str
    @overload
    def __call__(self, arg: NumberT, /) -> NumberT: ...
    @overload
    def __call__(self, arg: PythonNumber[R, Any], /) -> R: ...

class Integral(Protocol):
    """A function of an integer, which returns its type."""

    __name__: str
    def __call__(self, arg: IntegerT, /) -> IntegerT: ...

class Both(Protocol):
    """Two functions of a floating point number at once."""

    __name__: str
    @overload
    def __call__(self, arg: FloatT, /) -> tuple[FloatT, FloatT]: ...
    @overload
    def __call__(self, arg: PythonNumber[R, Any], /) -> tuple[R, R]: ...

class Tested(Protocol):
    """A test of every entry, which returns a mask."""

    __name__: str
    @overload
    def __call__(self, arg: PythonNumber[Any, M], /) -> M: ...
    @overload
    def __call__(self, arg: Array[Any, M], /) -> M: ...
    @overload
    def __call__(self, arg: KernelValue | Untyped, /) -> Any: ...

class Modulus(Protocol):
    """The absolute value, a real number."""

    __name__: str
    @overload
    def __call__(
        self, arg: Complex[Any, Any, Any, E] | Quaternion[Any, Any, Any, E, Any], /
    ) -> E: ...
    @overload
    def __call__(self, arg: AnyNumberT, /) -> AnyNumberT: ...

class RealPart(Protocol):
    """A real number that belongs to a complex one or to a quaternion."""

    __name__: str
    @overload
    def __call__(self, arg: PythonNumber[R, Any], /) -> R: ...
    @overload
    def __call__(
        self, arg: Complex[Any, Any, Any, E] | Quaternion[Any, Any, Any, E, Any], /
    ) -> E: ...
    @overload
    def __call__(self, arg: NumberT, /) -> NumberT: ...

class ImaginaryPart(Protocol):
    """The imaginary part or parts of a number."""

    __name__: str
    @overload
    def __call__(self, arg: PythonNumber[R, Any], /) -> R: ...
    @overload
    def __call__(self, arg: Complex[Any, Any, Any, E], /) -> E: ...
    @overload
    def __call__(self, arg: Quaternion[Any, Any, Any, Any, A3], /) -> A3: ...
    @overload
    def __call__(self, arg: NumberT, /) -> NumberT: ...

class Reduction(Protocol):
    """A function that combines the entries or components of an array."""

    __name__: str
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, Any, E],
        axis: None,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> E: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, V, Any],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> V: ...
    @overload
    def __call__(
        self,
        value: ArrayT,
        axis: Literal[-1],
        mode: str | None = None,
        keepdims: bool = False,
    ) -> ArrayT: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, Any, Any],
        axis: int | tuple[int, ...],
        mode: str | None = None,
        keepdims: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        value: FlatT,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> FlatT: ...
    @overload
    def __call__(
        self,
        value: list[T] | tuple[T, ...],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        value: Sequences | KernelValue | Untyped | float | Iterable[Any],
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> Any: ...

class Deviation(Protocol):
    """A measure of how far entries or components are apart."""

    __name__: str
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, Any, E],
        axis: None,
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> E: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, V, Any],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> V: ...
    @overload
    def __call__(
        self,
        value: ArrayT,
        axis: Literal[-1],
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> ArrayT: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, Any, Any],
        axis: int | tuple[int, ...],
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        value: FlatT,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> FlatT: ...
    @overload
    def __call__(
        self,
        value: list[T] | tuple[T, ...],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> T: ...
    @overload
    def __call__(
        self,
        value: Sequences | KernelValue | Untyped | float | Iterable[Any],
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
        ddof: int = 0,
    ) -> Any: ...

class Fold(Protocol):
    """A reduction over all axes."""

    __name__: str
    @overload
    def __call__(self, arg: Nested[Any, Any, Any, E], /) -> E: ...
    @overload
    def __call__(self, arg: FlatT, /) -> FlatT: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class Logical(Protocol):
    """A function that combines masks."""

    __name__: str
    @overload
    def __call__(
        self, value: Nested[Any, Any, Any, MaskT], axis: None, keepdims: bool = False
    ) -> MaskT: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, MaskT, Any],
        axis: EllipsisType | Literal[0] = ...,
        keepdims: bool = False,
    ) -> MaskT: ...
    @overload
    def __call__(self, value: MaskT, axis: Literal[-1], keepdims: bool = False) -> MaskT: ...
    @overload
    def __call__(
        self,
        value: Nested[Any, Any, MaskT, Any],
        axis: int | tuple[int, ...],
        keepdims: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        value: MaskT,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        keepdims: bool = False,
    ) -> MaskT: ...
    @overload
    def __call__(
        self,
        value: bool | Sequence[bool],
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        keepdims: bool = False,
    ) -> bool: ...
    @overload
    def __call__(
        self,
        value: list[T] | tuple[T, ...],
        axis: EllipsisType | Literal[0] = ...,
        keepdims: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        value: Sequences | KernelValue | Untyped,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        keepdims: bool = False,
    ) -> Any: ...

class Counted(Protocol):
    """A function that counts entries of masks."""

    __name__: str
    @overload
    def __call__(
        self,
        value: ToUInt[R, Any, Any, Any, Any, Any],
        axis: Literal[-1],
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        value: Entries[ToUInt[R, Any, Any, Any, Any, Any]],
        axis: None,
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        value: Iterable[ToUInt[R, Any, Any, Any, Any, Any]],
        axis: EllipsisType | Literal[0] = ...,
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        value: ToUInt[R, Any, Any, Any, Any, Any],
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        value: bool | Sequence[bool],
        axis: EllipsisType | int | None = ...,
        keepdims: bool = False,
    ) -> int: ...
    @overload
    def __call__(
        self,
        value: Sequences | KernelValue | Untyped,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        keepdims: bool = False,
    ) -> Any: ...

class Product(Protocol):
    """The sum of products of components."""

    __name__: str
    @overload
    def __call__(self, arg0: Dots[B, R], arg1: B | Sequences, /) -> R: ...
    @overload
    def __call__(self, arg0: B | Sequences, arg1: Dots[B, R], /) -> R: ...
    @overload
    def __call__(self, arg0: Joins[B, R], arg1: B | Sequences, /) -> R: ...
    @overload
    def __call__(self, arg0: B | Sequences, arg1: Joins[B, R], /) -> R: ...
    @overload
    def __call__(self, arg0: Sequences, arg1: Sequences, /) -> Any: ...
    @overload
    def __call__(self, arg0: KernelValue | Untyped, arg1: Any, /) -> Any: ...
    @overload
    def __call__(self, arg0: Any, arg1: KernelValue | Untyped, /) -> Any: ...

class Compares(Protocol[B_contra, M_co]):
    def __lt__(self, other: B_contra, /) -> M_co: ...

class Stepped(Protocol):
    """A comparison that gives 0 and 1."""

    __name__: str
    @overload
    def __call__(self, arg0: PythonInt[R], arg1: float, /) -> R: ...
    @overload
    def __call__(
        self, arg0: Compares[B, ToInt[R, Any, Any, Any, Any, Any, Any]], arg1: B, /
    ) -> R: ...
    @overload
    def __call__(
        self, arg0: B, arg1: Compares[B, ToInt[R, Any, Any, Any, Any, Any, Any]], /
    ) -> R: ...
    @overload
    def __call__(self, arg0: KernelValue | Untyped, arg1: Any, /) -> Any: ...

class Angle(Protocol):
    """The angle between vectors."""

    __name__: str
    @overload
    def __call__(self, a: Dots[B, R], b: B) -> R: ...
    @overload
    def __call__(self, a: B, b: Dots[B, R]) -> R: ...
    @overload
    def __call__(self, a: Untyped, b: Any) -> Any: ...

class CrossProduct(Protocol):
    """The cross product."""

    __name__: str
    @overload
    def __call__(self, arg0: Joins[ComponentsT, R], arg1: ComponentsT, /) -> R: ...
    @overload
    def __call__(self, arg0: ComponentsT, arg1: Joins[ComponentsT, R], /) -> R: ...
    @overload
    def __call__(self, arg0: Untyped, arg1: Any, /) -> Any: ...
    @overload
    def __call__(self, arg0: Any, arg1: Untyped, /) -> Any: ...

class MatrixProduct(Protocol):
    """The product of matrices, or of a matrix and a vector."""

    __name__: str
    @overload
    def __call__(
        self, A: Matrix[B, Any, V, Any, Any], B: V, At: bool = False, Bt: bool = False
    ) -> V: ...
    @overload
    def __call__(self, A: Joins[B, R], B: B, At: bool = False, Bt: bool = False) -> R: ...
    @overload
    def __call__(self, A: B, B: Joins[B, R], At: bool = False, Bt: bool = False) -> R: ...
    @overload
    def __call__(self, A: Untyped, B: Any, At: bool = False, Bt: bool = False) -> Any: ...
    @overload
    def __call__(self, A: Any, B: Untyped, At: bool = False, Bt: bool = False) -> Any: ...

class MatrixScalar(Protocol):
    """A number that belongs to a matrix."""

    __name__: str
    @overload
    def __call__(self, arg: Nested[Any, Any, Any, E], /) -> E: ...
    @overload
    def __call__(self, arg: Untyped, /) -> Any: ...

class Diagonal(Protocol):
    """The diagonal of a matrix, or a diagonal matrix."""

    __name__: str
    @overload
    def __call__(self, arg: Matrix[Any, Any, V, Any, Any], /) -> V: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class Wrapping(Protocol):
    """Decorators that take functions of one framework for another. Type checkers cannot exchange
    the types of arrays in a signature, so that functions keep theirs."""

    __name__: str
    @overload
    def __call__(
        self,
        source: Literal["numba"],
        target: str | ModuleType,
        *,
        derivative: Callable[..., Any] | None = None,
    ) -> Callable[[Callable[..., Any]], Any]: ...
    @overload
    def __call__(
        self,
        source: str | ModuleType,
        target: Literal["numba"],
        *,
        derivative: Callable[..., Any] | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
    @overload
    def __call__(
        self,
        source: str | ModuleType,
        target: str | ModuleType,
        *,
        derivative: Callable[..., Any] | None = None,
    ) -> Callable[[F], F]: ...

class FrozenFunction(Protocol[Ps, R_co]):
    """A frozen function."""

    __name__: str
    @property
    def n_recordings(self) -> int:
        """The number of times that the function has been recorded since it was created or
        cleared."""
    @property
    def n_cached_recordings(self) -> int:
        """The number of recordings that are kept."""
    enabled: bool
    """Whether calls are recorded and replayed."""
    def clear(self) -> None:
        """Forgets all recordings."""
    def __call__(self, *args: Ps.args, **kwargs: Ps.kwargs) -> R_co: ...
    @overload
    def __get__(self, instance: None, owner: Any = None, /) -> Self: ...
    @overload
    def __get__(
        self: FrozenFunction[Concatenate[T, Qs], R], instance: T, owner: Any = None, /
    ) -> FrozenFunction[Qs, R]: ...

class FreezeDecorator(Protocol):
    """`freeze` with options."""

    def __call__(self, f: Callable[Ps, R], /) -> FrozenFunction[Ps, R]: ...

class Freezing(Protocol):
    """A decorator that keeps the signature of a function, and adds what a frozen one has."""

    __name__: str
    @overload
    def __call__(
        self,
        f: None = None,
        *,
        state_fn: Callable[..., Any] | None = None,
        limit: int | None = None,
        warn_after: int = 10,
        backend: JitBackend | None = None,
        auto_opaque: bool = True,
        enabled: bool = True,
    ) -> FreezeDecorator: ...
    @overload
    def __call__(
        self,
        f: Callable[Ps, R],
        *,
        state_fn: Callable[..., Any] | None = None,
        limit: int | None = None,
        warn_after: int = 10,
        backend: JitBackend | None = None,
        auto_opaque: bool = True,
        enabled: bool = True,
    ) -> FrozenFunction[Ps, R]: ...

class WhileLoop(Protocol):
    """A loop whose state keeps its types."""

    __name__: str
    def __call__(
        self,
        state: tuple[*Ts],
        cond: Callable[[*Ts], Any],
        body: Callable[[*Ts], tuple[Any, ...]],
        labels: Sequence[str] = (),
        label: str | None = None,
        mode: str | None = None,
        strict: bool = True,
        compress: bool | None = None,
        max_iterations: int | None = None,
    ) -> tuple[*Ts]: ...

class IfStmt(Protocol):
    """A branch with the result of its functions."""

    __name__: str
    def __call__(
        self,
        args: tuple[*Ts],
        cond: bool | Masks[Any, Any] | Untyped,
        true_fn: Callable[[*Ts], T],
        false_fn: Callable[[*Ts], Any],
        arg_labels: Sequence[str] = (),
        rv_labels: Sequence[str] = (),
        label: str | None = None,
        mode: str | None = None,
        strict: bool = True,
    ) -> T: ...

class Derivative(Protocol):
    """A function of arrays or PyTrees that keeps their types, unless told otherwise."""

    __name__: str
    @overload
    def __call__(self, arg: T, preserve_type: Literal[True] = True) -> T: ...
    @overload
    def __call__(self, arg: Any, preserve_type: bool) -> Any: ...

class FromMask(Protocol):
    """A function of a mask, which returns positions."""

    __name__: str
    @overload
    def __call__(self, arg: ToUInt[R, Any, Any, Any, Any, Any], /) -> R: ...
    @overload
    def __call__(self, arg: Untyped | Sequences | bool, /) -> Any: ...

class IndexOf(Protocol):
    """The position of an entry."""

    __name__: str
    @overload
    def __call__(
        self,
        value: HasMask[ToUInt[R, Any, Any, Any, Any, Any]],
        /,
        axis: int,
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        value: Tensor[Any, Any, HasMask[ToUInt[R, Any, Any, Any, Any, Any]], Any],
        /,
        axis: None = None,
        keepdims: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        value: HasMask[ToUInt[R, Any, Any, Any, Any, Any]],
        /,
        axis: int | None = None,
        keepdims: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self, value: Untyped, /, axis: int | None = None, keepdims: bool = False
    ) -> Any: ...

class SortedIndex(Protocol):
    """Positions of sorted entries."""

    __name__: str
    @overload
    def __call__(
        self,
        value: HasMask[ToUInt[R, Any, Any, Any, Any, Any]],
        /,
        axis: int = -1,
        descending: bool = False,
    ) -> R: ...
    @overload
    def __call__(self, value: Untyped, /, axis: int = -1, descending: bool = False) -> Any: ...

class Middle(Protocol):
    """The median."""

    __name__: str
    @overload
    def __call__(
        self,
        value: T,
        /,
        axis: int | tuple[int, ...] | None = -1,
        keepdims: bool = False,
        return_index: Literal[False] = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        value: T,
        /,
        axis: int | tuple[int, ...] | None = -1,
        keepdims: bool = False,
        *,
        return_index: bool,
    ) -> tuple[T, Any]: ...

class Flattened(Protocol):
    """The entries as a one-dimensional array."""

    __name__: str
    @overload
    def __call__(self, array: LeafT, order: str = "A") -> LeafT: ...
    @overload
    def __call__(
        self, array: Nested[Any, Any, Any, E] | Tensor[Any, Any, E, Any], order: str = "A"
    ) -> E: ...
    @overload
    def __call__(self, array: Untyped | Sequences, order: str = "A") -> Any: ...

class ComponentType(Protocol):
    """The type of components, or of entries."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[Nested[Any, Any, V, Any]] | Nested[Any, Any, V, Any], /
    ) -> type[V]: ...
    @overload
    def __call__(self, arg: type[Leaf[Any, Any, V]] | Leaf[Any, Any, V], /) -> type[V]: ...
    @overload
    def __call__(
        self, arg: type[Tensor[Any, Any, Any, V]] | Tensor[Any, Any, Any, V], /
    ) -> type[V]: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class LeafType(Protocol):
    """The one-dimensional type of the entries."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[Nested[Any, Any, Any, E]] | Nested[Any, Any, Any, E], /
    ) -> type[E]: ...
    @overload
    def __call__(self, arg: type[LeafT] | LeafT, /) -> type[LeafT]: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class PlainType(Protocol):
    """The plain array type."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[Tensor[Any, Any, E, Any]] | Tensor[Any, Any, E, Any], /
    ) -> type[E]: ...
    @overload
    def __call__(
        self, arg: type[Matrix[Any, Any, Any, Any, A2]] | Matrix[Any, Any, Any, Any, A2], /
    ) -> type[A2]: ...
    @overload
    def __call__(self, arg: type[LeafT] | LeafT, /) -> type[LeafT]: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class MaskType(Protocol):
    """The type of comparison results."""

    __name__: str
    @overload
    def __call__(self, arg: type[Array[Any, M]] | Array[Any, M], /) -> type[M]: ...
    @overload
    def __call__(self, arg: Any, /) -> Any: ...

class JointType(Protocol):
    """The type to which values promote."""

    __name__: str
    @overload
    def __call__(self, arg: type[T] | T, /) -> type[T]: ...
    @overload
    def __call__(self, arg0: type[Joins[B, R]] | Joins[B, R], arg1: type[B] | B, /) -> type[R]: ...
    @overload
    def __call__(self, arg0: type[B] | B, arg1: type[Joins[B, R]] | Joins[B, R], /) -> type[R]: ...
    @overload
    def __call__(self, *args: Any) -> Any: ...

# Types of the same shape with other entries are found by the mask, which promotes to all of them.
class Int8Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self,
        arg: type[HasMask[ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any]]]
        | HasMask[ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any]],
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class UInt8Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self,
        arg: type[HasMask[ToUInt8[R, Any, Any, Any, Any, Any, Any, Any]]]
        | HasMask[ToUInt8[R, Any, Any, Any, Any, Any, Any, Any]],
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class Int32Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self,
        arg: type[HasMask[ToInt[R, Any, Any, Any, Any, Any, Any]]]
        | HasMask[ToInt[R, Any, Any, Any, Any, Any, Any]],
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class UInt32Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self,
        arg: type[HasMask[ToUInt[R, Any, Any, Any, Any, Any]]]
        | HasMask[ToUInt[R, Any, Any, Any, Any, Any]],
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class Int64Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self,
        arg: type[HasMask[ToInt64[R, Any, Any, Any, Any]]]
        | HasMask[ToInt64[R, Any, Any, Any, Any]],
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class UInt64Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[HasMask[ToUInt64[R, Any, Any, Any]]] | HasMask[ToUInt64[R, Any, Any, Any]]
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class Float16Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[HasMask[ToFloat16[R, Any, Any]]] | HasMask[ToFloat16[R, Any, Any]]
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class Float32Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(
        self, arg: type[HasMask[ToFloat[R, Any]]] | HasMask[ToFloat[R, Any]]
    ) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class Float64Type(Protocol):
    """The type of the same shape with other entries."""

    __name__: str
    @overload
    def __call__(self, arg: type[HasMask[ToFloat64[R]]]) -> type[R]: ...
    @overload
    def __call__(self, arg: HasMask[ToFloat64[R]]) -> type[R]: ...
    @overload
    def __call__(self, arg: Any) -> Any: ...

class IntType(Protocol):
    """The type of the same shape with other entries of the same size."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithInt[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithInt[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...

class UIntType(Protocol):
    """The type of the same shape with other entries of the same size."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithUInt[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithUInt[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...

class FloatType(Protocol):
    """The type of the same shape with other entries of the same size."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithFloat[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithFloat[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...

class TensorType(Protocol):
    """The tensor type with the same entries; None for other values."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithTensor[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithTensor[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...
    @overload
    def __call__(self, arg: object, /) -> None: ...

class MatrixType(Protocol):
    """The matrix type of the same size; None if there is none."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithMatrix[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithMatrix[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...
    @overload
    def __call__(self, arg: object, /) -> None: ...

class TrackedType(Protocol):
    """The differentiable type, or the type itself."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithTracked[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithTracked[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...
    @overload
    def __call__(self, arg: type[T] | T, /) -> type[T]: ...

class DetachedType(Protocol):
    """The type that is not differentiable, or the type itself."""

    __name__: str
    @overload
    def __call__(self, arg: type[WithPlain[R]], /) -> type[R]: ...
    @overload
    def __call__(self, arg: WithPlain[R], /) -> type[R]: ...
    @overload
    def __call__(self, arg: type[Untyped] | Untyped, /) -> Any: ...
    @overload
    def __call__(self, arg: type[T] | T, /) -> type[T]: ...

class ReplacedType(Protocol):
    """The type of the same shape with entries of a type."""

    __name__: str
    @overload
    def __call__(self, arg0: type[HasMask[R]], arg1: Literal[VarType.Bool], /) -> type[R]: ...
    @overload
    def __call__(self, arg0: HasMask[R], arg1: Literal[VarType.Bool], /) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: type[HasMask[ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any]]],
        arg1: Literal[VarType.Int8],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: HasMask[ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any]],
        arg1: Literal[VarType.Int8],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: type[HasMask[ToUInt8[R, Any, Any, Any, Any, Any, Any, Any]]],
        arg1: Literal[VarType.UInt8],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: HasMask[ToUInt8[R, Any, Any, Any, Any, Any, Any, Any]],
        arg1: Literal[VarType.UInt8],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: type[HasMask[ToInt[R, Any, Any, Any, Any, Any, Any]]],
        arg1: Literal[VarType.Int32],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToInt[R, Any, Any, Any, Any, Any, Any]], arg1: Literal[VarType.Int32], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self,
        arg0: type[HasMask[ToUInt[R, Any, Any, Any, Any, Any]]],
        arg1: Literal[VarType.UInt32],
        /,
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToUInt[R, Any, Any, Any, Any, Any]], arg1: Literal[VarType.UInt32], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: type[HasMask[ToInt64[R, Any, Any, Any, Any]]], arg1: Literal[VarType.Int64], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToInt64[R, Any, Any, Any, Any]], arg1: Literal[VarType.Int64], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: type[HasMask[ToUInt64[R, Any, Any, Any]]], arg1: Literal[VarType.UInt64], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToUInt64[R, Any, Any, Any]], arg1: Literal[VarType.UInt64], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: type[HasMask[ToFloat16[R, Any, Any]]], arg1: Literal[VarType.Float16], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToFloat16[R, Any, Any]], arg1: Literal[VarType.Float16], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: type[HasMask[ToFloat[R, Any]]], arg1: Literal[VarType.Float32], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToFloat[R, Any]], arg1: Literal[VarType.Float32], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: type[HasMask[ToFloat64[R]]], arg1: Literal[VarType.Float64], /
    ) -> type[R]: ...
    @overload
    def __call__(
        self, arg0: HasMask[ToFloat64[R]], arg1: Literal[VarType.Float64], /
    ) -> type[R]: ...
    @overload
    def __call__(self, arg0: object, arg1: VarType, /) -> type[Any]: ...

class Closeness(Protocol):
    """A comparison of all entries."""

    __name__: str
    @overload
    def __call__(
        self,
        a: Tensor[Any, M, Any, Any],
        b: Convertible,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> M: ...
    @overload
    def __call__(
        self,
        a: Convertible,
        b: Tensor[Any, M, Any, Any],
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> M: ...
    @overload
    def __call__(
        self,
        a: HasMask[Nested[Any, Any, Any, R]],
        b: Convertible,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        a: Convertible,
        b: HasMask[Nested[Any, Any, Any, R]],
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> R: ...
    @overload
    def __call__(
        self,
        a: Leaf[Any, M, Any],
        b: Convertible,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> M: ...
    @overload
    def __call__(
        self,
        a: Convertible,
        b: Leaf[Any, M, Any],
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> M: ...
    @overload
    def __call__(
        self,
        a: Untyped,
        b: Any,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        a: Any,
        b: Untyped,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        a: complex | PyTree | NDArray[Any] | range,
        b: complex | PyTree | NDArray[Any] | range,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
    ) -> bool: ...

class Stacking(Protocol):
    """Tensors joined, or other arrays as tensors."""

    __name__: str
    @overload
    def __call__(self, arrays: Sequence[WithTensor[R]], /) -> R: ...
    @overload
    def __call__(self, arrays: Sequence[Untyped], /) -> Any: ...

class StackingAlong(Protocol):
    """The same along an axis."""

    __name__: str
    @overload
    def __call__(self, arrays: Sequence[WithTensor[R]], /, axis: int = 0) -> R: ...
    @overload
    def __call__(self, arrays: Sequence[Untyped], /, axis: int = 0) -> Any: ...

class Search(Protocol):
    """A search between indices, one for all lanes, or one for each."""

    __name__: str
    @overload
    def __call__(self, start: int, end: int, pred: Callable[[int], bool]) -> int: ...
    @overload
    def __call__(
        self,
        start: int,
        end: int,
        pred: Callable[[Any], ToInt[R, Any, Any, Any, Any, Any, Any]],
    ) -> R: ...
    @overload
    def __call__(
        self, start: IndexT, end: IndexT | int, pred: Callable[[IndexT], Masks[Any, Any] | bool]
    ) -> IndexT: ...
    @overload
    def __call__(
        self, start: int, end: IndexT, pred: Callable[[IndexT], Masks[Any, Any] | bool]
    ) -> IndexT: ...
    @overload
    def __call__(
        self, start: Untyped | int, end: Untyped | int, pred: Callable[[Any], Any]
    ) -> Any: ...

class Sliced(Protocol):
    """One lane or several of arrays."""

    __name__: str
    @overload
    def __call__(self, value: Leaf[Any, Any, V], index: int = 0) -> V: ...
    @overload
    def __call__(self, value: WithSingle[R], index: int = 0) -> R: ...
    @overload
    def __call__(self, value: list[Leaf[Any, Any, V]], index: int = 0) -> list[V]: ...
    @overload
    def __call__(self, value: list[WithSingle[R]], index: int = 0) -> list[R]: ...
    @overload
    def __call__(
        self, value: list[Any] | tuple[Any, ...] | dict[Any, Any], index: int = 0
    ) -> Any: ...
    @overload
    def __call__(self, value: T, index: slice | int | Sequences | Integers[Any, Any] = 0) -> T: ...

class WideProduct(Protocol):
    """The product of integers, in a type of twice the size."""

    __name__: str
    @overload
    def __call__(self, arg0: int, arg1: int, /) -> int: ...
    @overload
    def __call__(self, arg0: Joins[B, WithWide[R]], arg1: B | Sequences, /) -> R: ...
    @overload
    def __call__(self, arg0: B | Sequences, arg1: Joins[B, WithWide[R]], /) -> R: ...
    @overload
    def __call__(self, arg0: Untyped, arg1: Any, /) -> Any: ...
    @overload
    def __call__(self, arg0: Any, arg1: Untyped, /) -> Any: ...

class Direction(Protocol):
    """A unit vector, given angles."""

    __name__: str
    @overload
    def __call__(self, theta: Joins[B, WithVector[R]], phi: B) -> R: ...
    @overload
    def __call__(self, theta: B, phi: Joins[B, WithVector[R]]) -> R: ...
    @overload
    def __call__(self, theta: Untyped, phi: Any) -> Any: ...
    @overload
    def __call__(self, theta: Any, phi: Untyped) -> Any: ...

class FromAngles(Protocol):
    """The quaternion of three rotations."""

    __name__: str
    @overload
    def __call__(self, arg: Turns[R], /) -> R: ...
    @overload
    def __call__(self, arg: list[Any] | tuple[Any, ...] | Untyped, /) -> Any: ...

class FromMatrix(Protocol):
    """The quaternion of a matrix."""

    __name__: str
    @overload
    def __call__(self, arg: Rotates[R], /) -> R: ...
    @overload
    def __call__(self, arg: Untyped, /) -> Any: ...

class ToAngles(Protocol):
    """The angles of a quaternion."""

    __name__: str
    @overload
    def __call__(self, arg: Quaternion[Any, Any, Any, Any, A3], /) -> A3: ...
    @overload
    def __call__(self, arg: Untyped, /) -> Any: ...

class Rotation(Protocol):
    """A vector, rotated by a quaternion."""

    __name__: str
    @overload
    def __call__(self, arg0: Quaternion[Any, Any, Any, Any, A3], arg1: A3 | Sequences, /) -> A3: ...
    @overload
    def __call__(self, arg0: Untyped, arg1: Any, /) -> Any: ...
    @overload
    def __call__(self, arg0: Quaternion[Any, Any, Any, Any, Any], arg1: Untyped, /) -> Any: ...

class Interpolation(Protocol):
    """A quaternion between two others."""

    __name__: str
    @overload
    def __call__(
        self, a: Joins[B, QuaternionT], b: B, t: float | Leaf[Any, Any, Any] | Untyped
    ) -> QuaternionT: ...
    @overload
    def __call__(
        self, a: B, b: Joins[B, QuaternionT], t: float | Leaf[Any, Any, Any] | Untyped
    ) -> QuaternionT: ...

class Factors(Protocol):
    """The factors of a matrix."""

    __name__: str
    def __call__(self, arg: MatrixT, it: int = 10) -> tuple[MatrixT, MatrixT]: ...

class Decomposition(Protocol):
    """The parts of an affine transformation."""

    __name__: str
    @overload
    def __call__(self, a: HasParts[R], it: int = 10) -> R: ...
    @overload
    def __call__(self, a: Untyped, it: int = 10) -> tuple[Any, Any, Any]: ...

class Composition(Protocol):
    """An affine transformation of its parts."""

    __name__: str
    @overload
    def __call__(
        self,
        s: Extends[R],
        q: Quaternion[Any, Any, Any, Any, A3] | Untyped,
        t: A3 | Sequences | Untyped,
        /,
    ) -> R: ...
    @overload
    def __call__(self, s: Untyped, q: Any, t: Any, /) -> Any: ...

class Harmonics(Protocol):
    """Coefficients for a direction."""

    __name__: str
    @overload
    def __call__(self, d: Nested[Any, Any, Any, E], order: int) -> list[E]: ...
    @overload
    def __call__(self, d: Untyped, order: int) -> list[Any]: ...

class Width(Protocol):
    """The number of lanes as an array."""

    __name__: str
    @overload
    def __call__(self, arg: Entries[HasMask[ToUInt[R, Any, Any, Any, Any, Any]]], /) -> R: ...
    @overload
    def __call__(self, arg: Stores[HasMask[ToUInt[R, Any, Any, Any, Any, Any]]], /) -> R: ...
    @overload
    def __call__(
        self, arg: Sequence[Entries[HasMask[ToUInt[R, Any, Any, Any, Any, Any]]]], /
    ) -> R: ...
    @overload
    def __call__(self, arg: PyTree | Untyped, /) -> Any: ...

class Exchange(Protocol):
    """Entries that are compared and exchanged."""

    __name__: str
    @overload
    def __call__(
        self,
        target: Exchanges[R],
        compare: Convertible,
        value: Convertible,
        index: Index,
        active: Active = True,
    ) -> R: ...
    @overload
    def __call__(
        self,
        target: Untyped,
        compare: Convertible,
        value: Convertible,
        index: Index,
        active: Active = True,
    ) -> tuple[Any, Any]: ...

class Migration(Protocol):
    """Arrays on another backend."""

    __name__: str
    @overload
    def __call__(self, value: OnLLVM[R], backend: Literal[JitBackend.LLVM]) -> R: ...
    @overload
    def __call__(self, value: OnCUDA[R], backend: Literal[JitBackend.CUDA]) -> R: ...
    @overload
    def __call__(self, value: list[OnLLVM[R]], backend: Literal[JitBackend.LLVM]) -> list[R]: ...
    @overload
    def __call__(self, value: list[OnCUDA[R]], backend: Literal[JitBackend.CUDA]) -> list[R]: ...
    @overload
    def __call__(
        self, value: dict[K, OnLLVM[R]], backend: Literal[JitBackend.LLVM]
    ) -> dict[K, R]: ...
    @overload
    def __call__(
        self, value: dict[K, OnCUDA[R]], backend: Literal[JitBackend.CUDA]
    ) -> dict[K, R]: ...
    @overload
    def __call__(
        self, value: list[Any] | tuple[Any, ...] | dict[Any, Any] | ArrayBase, backend: JitBackend
    ) -> Any: ...
    @overload
    def __call__(self, value: T, backend: JitBackend) -> T: ...

class LineIntegral(Protocol):
    """An integral along rays."""

    __name__: str
    @overload
    def __call__(
        self,
        ray_o: Nested[Any, Any, Any, E],
        ray_d: Convertible,
        ray_max: Convertible,
        grid_min: Convertible,
        grid_max: Convertible,
        vol: Tensor[Any, Any, Any, Any] | Untyped,
        active: Active | None = None,
        mode: str | None = None,
    ) -> E: ...
    @overload
    def __call__(
        self,
        ray_o: Convertible,
        ray_d: Convertible,
        ray_max: Convertible,
        grid_min: Convertible,
        grid_max: Convertible,
        vol: Untyped | Tensor[Any, Any, Any, Any],
        active: Active | None = None,
        mode: str | None = None,
    ) -> Any: ...

class SampledIntegral(Protocol):
    """The same by samples."""

    __name__: str
    @overload
    def __call__(
        self,
        ray_o: Nested[Any, Any, Any, E],
        ray_d: Convertible,
        ray_max: Convertible,
        grid_min: Convertible,
        grid_max: Convertible,
        vol: Tensor[Any, Any, Any, Any] | Untyped,
        n_samples: int,
    ) -> E: ...
    @overload
    def __call__(
        self,
        ray_o: Convertible,
        ray_d: Convertible,
        ray_max: Convertible,
        grid_min: Convertible,
        grid_max: Convertible,
        vol: Untyped | Tensor[Any, Any, Any, Any],
        n_samples: int,
    ) -> Any: ...

class ReductionBy(Protocol):
    """The same by an operation."""

    __name__: str
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: Nested[Any, Any, Any, E],
        axis: None,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> E: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: Nested[Any, Any, V, Any],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> V: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: ArrayT,
        axis: Literal[-1],
        mode: str | None = None,
        keepdims: bool = False,
    ) -> ArrayT: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: Nested[Any, Any, Any, Any],
        axis: int | tuple[int, ...],
        mode: str | None = None,
        keepdims: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: FlatT,
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> FlatT: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: list[T] | tuple[T, ...],
        axis: EllipsisType | Literal[0] = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self,
        op: ReduceOp,
        value: Sequences | KernelValue | Untyped | float | Iterable[Any],
        axis: int | tuple[int, ...] | EllipsisType | None = ...,
        mode: str | None = None,
        keepdims: bool = False,
    ) -> Any: ...

class Meshgrid(Protocol):
    """Coordinates of a grid: an array for each axis."""

    __name__: str
    @overload
    def __call__(self, arg: T, /, *, indexing: Literal["xy", "ij"] = "xy") -> T: ...
    @overload
    def __call__(self, x: T, y: T, /, *, indexing: Literal["xy", "ij"] = "xy") -> tuple[T, T]: ...
    @overload
    def __call__(
        self, x: T, y: T, z: T, /, *, indexing: Literal["xy", "ij"] = "xy"
    ) -> tuple[T, T, T]: ...
    @overload
    def __call__(self, *args: Any, indexing: Literal["xy", "ij"] = "xy") -> Any: ...

class Reshape(Protocol):
    """The entries of an array in another shape, perhaps of another type."""

    __name__: str
    @overload
    def __call__(
        self,
        dtype: type[T],
        value: ArrayBase | PyTree,
        shape: Sizes | None = None,
        order: str = "A",
        shrink: bool = False,
    ) -> T: ...
    @overload
    def __call__(
        self, value: TensorT, shape: Sizes, order: str = "A", *, shrink: bool = False
    ) -> TensorT: ...
    @overload
    def __call__(
        self, value: ArrayBase | PyTree, shape: Sizes, order: str = "A", *, shrink: bool = False
    ) -> Any: ...

class Arange(Protocol):
    """A range of integers in an array of a given type."""

    __name__: str
    @overload
    def __call__(
        self, dtype: type[FlatT], start: int, stop: int | None = None, step: int = 1
    ) -> FlatT: ...
    @overload
    def __call__(self, dtype: type[FlatT], *, size: int) -> FlatT: ...

class Opaque(Protocol):
    """An evaluated copy, or an evaluated array of a given type."""

    __name__: str
    @overload
    def __call__(self, dtype: type[T], value: Convertible | PyTree, shape: Sizes = 1) -> T: ...
    @overload
    def __call__(self, arg: TreeT, /) -> TreeT: ...

class GradientsOf(Protocol):
    """Gradients of the arguments: of a single one itself, of several as a tuple."""

    __name__: str
    @overload
    def __call__(self, arg: T, /, flags: ADFlag | int = ADFlag.Default) -> T: ...
    @overload
    def __call__(self, *args: *Ts, flags: ADFlag | int = ADFlag.Default) -> tuple[*Ts,]: ...

class Load(Protocol):
    """A state with other contents, or without a state, a dictionary of the contents, or the
    function of a file."""

    __name__: str
    @overload
    def __call__(
        self,
        path: str | os.PathLike[str],
        state: None = None,
        /,
        *,
        strict: bool = True,
        trusted: bool = False,
    ) -> Any: ...
    @overload
    def __call__(
        self,
        path: str | os.PathLike[str],
        state: T,
        /,
        *,
        strict: bool = True,
        trusted: bool = False,
    ) -> T: ...

class Drawn(Protocol):
    """A drawing of a graph, or its text."""

    __name__: str
    @overload
    def __call__(self, as_string: Literal[False] = False) -> Drawing: ...
    @overload
    def __call__(self, as_string: Literal[True]) -> str: ...
    @overload
    def __call__(self, as_string: bool) -> Drawing | str: ...

class Compiling(Protocol):
    """A kernel, or a decorator that makes kernels."""

    __name__: str
    @overload
    def __call__(
        self,
        text: str | Callable[..., Any],
        /,
        *,
        derivative: Callable[..., Any] | str | None = None,
        backward: Callable[..., Any] | str | None = None,
        forward: Callable[..., Any] | str | None = None,
    ) -> TextKernel: ...
    @overload
    def __call__(
        self,
        *,
        derivative: Callable[..., Any] | str | None = None,
        backward: Callable[..., Any] | str | None = None,
        forward: Callable[..., Any] | str | None = None,
    ) -> Callable[[str | Callable[..., Any]], TextKernel]: ...

class Upsampling(Protocol):
    """A tensor or a texture at a higher resolution."""

    __name__: str
    @overload
    def __call__(
        self,
        t: TensorT,
        shape: Sequence[int] | None = None,
        scale_factor: Sequence[int] | None = None,
    ) -> TensorT: ...
    @overload
    def __call__(
        self,
        t: TextureT,
        shape: Sequence[int] | None = None,
        scale_factor: Sequence[int] | None = None,
    ) -> TextureT: ...

def reduction(function: Callable[..., Any], /) -> Reduction: ...
def logical(function: Callable[..., Any], /) -> Logical: ...
def counted(function: Callable[..., Any], /) -> Counted: ...
def folding(function: Callable[..., Any], /) -> Callable[[str], Fold]: ...
def elementary(function: Callable[..., Any], /) -> Elementary: ...
def numeric(function: Callable[..., Any], /) -> Numeric: ...
def rounded(function: Callable[..., Any], /) -> Rounded: ...
def integral(function: Callable[..., Any], /) -> Integral: ...
def extremum(function: Callable[..., Any], /) -> Extremum: ...
def binary(function: Callable[..., Any], /) -> Binary: ...
def binary_float(function: Callable[..., Any], /) -> BinaryFloat: ...
def hypotenuse(function: Callable[..., Any], /) -> Hypot: ...
def clipped(function: Callable[..., Any], /) -> Clip: ...
def clamped(function: Callable[..., Any], /) -> Clamp: ...
def fused(function: Callable[..., Any], /) -> Fma: ...
def interpolated(function: Callable[..., Any], /) -> Lerp: ...
def selected(function: Callable[..., Any], /) -> Select: ...
def tested(function: Callable[..., Any], /) -> Tested: ...
def both(function: Callable[..., Any], /) -> Both: ...
def real_part(function: Callable[..., Any], /) -> RealPart: ...
def imaginary_part(function: Callable[..., Any], /) -> ImaginaryPart: ...
def modulus(function: Callable[..., Any], /) -> Modulus: ...
def product(function: Callable[..., Any], /) -> Product: ...
def cross_product(function: Callable[..., Any], /) -> CrossProduct: ...
def matrix_product(function: Callable[..., Any], /) -> MatrixProduct: ...
def matrix_scalar(function: Callable[..., Any], /) -> MatrixScalar: ...
def diagonal(function: Callable[..., Any], /) -> Diagonal: ...
def derivative(function: Callable[..., Any], /) -> Derivative: ...
def index_of(function: Callable[..., Any], /) -> IndexOf: ...
def sorted_index(function: Callable[..., Any], /) -> SortedIndex: ...
def from_mask(function: Callable[..., Any], /) -> FromMask: ...
def middle(function: Callable[..., Any], /) -> Middle: ...
def flattened(function: Callable[..., Any], /) -> Flattened: ...
def component_type(function: Callable[..., Any], /) -> ComponentType: ...
def leaf_type(function: Callable[..., Any], /) -> LeafType: ...
def mask_type(function: Callable[..., Any], /) -> MaskType: ...
def plain_type(function: Callable[..., Any], /) -> PlainType: ...
def int8_type(function: Callable[..., Any], /) -> Int8Type: ...
def uint8_type(function: Callable[..., Any], /) -> UInt8Type: ...
def int32_type(function: Callable[..., Any], /) -> Int32Type: ...
def uint32_type(function: Callable[..., Any], /) -> UInt32Type: ...
def int64_type(function: Callable[..., Any], /) -> Int64Type: ...
def uint64_type(function: Callable[..., Any], /) -> UInt64Type: ...
def float16_type(function: Callable[..., Any], /) -> Float16Type: ...
def float32_type(function: Callable[..., Any], /) -> Float32Type: ...
def float64_type(function: Callable[..., Any], /) -> Float64Type: ...
def joint_type(function: Callable[..., Any], /) -> JointType: ...
def stepped(function: Callable[..., Any], /) -> Stepped: ...
def angle(function: Callable[..., Any], /) -> Angle: ...
def deviation(function: Callable[..., Any], /) -> Deviation: ...
def wrapping(function: Callable[..., Any], /) -> Wrapping: ...
def freezing(function: Callable[..., Any], /) -> Freezing: ...
def looping(function: Callable[..., Any], /) -> WhileLoop: ...
def branching(function: Callable[..., Any], /) -> IfStmt: ...
def int_type(function: Callable[..., Any], /) -> IntType: ...
def uint_type(function: Callable[..., Any], /) -> UIntType: ...
def float_type(function: Callable[..., Any], /) -> FloatType: ...
def tensor_type(function: Callable[..., Any], /) -> TensorType: ...
def matrix_type(function: Callable[..., Any], /) -> MatrixType: ...
def tracked_type(function: Callable[..., Any], /) -> TrackedType: ...
def detached_type(function: Callable[..., Any], /) -> DetachedType: ...
def replaced_type(function: Callable[..., Any], /) -> ReplacedType: ...
def closeness(function: Callable[..., Any], /) -> Closeness: ...
def stacking(function: Callable[..., Any], /) -> Stacking: ...
def stacking_along(function: Callable[..., Any], /) -> StackingAlong: ...
def search(function: Callable[..., Any], /) -> Search: ...
def sliced(function: Callable[..., Any], /) -> Sliced: ...
def wide_product(function: Callable[..., Any], /) -> WideProduct: ...
def direction(function: Callable[..., Any], /) -> Direction: ...
def from_angles(function: Callable[..., Any], /) -> FromAngles: ...
def from_matrix(function: Callable[..., Any], /) -> FromMatrix: ...
def to_angles(function: Callable[..., Any], /) -> ToAngles: ...
def rotation(function: Callable[..., Any], /) -> Rotation: ...
def interpolation(function: Callable[..., Any], /) -> Interpolation: ...
def factors(function: Callable[..., Any], /) -> Factors: ...
def decomposition(function: Callable[..., Any], /) -> Decomposition: ...
def composition(function: Callable[..., Any], /) -> Composition: ...
def harmonics(function: Callable[..., Any], /) -> Harmonics: ...
def width(function: Callable[..., Any], /) -> Width: ...
def exchange(function: Callable[..., Any], /) -> Exchange: ...
def migration(function: Callable[..., Any], /) -> Migration: ...
def line_integral(function: Callable[..., Any], /) -> LineIntegral: ...
def sampled_integral(function: Callable[..., Any], /) -> SampledIntegral: ...
def reduction_by(function: Callable[..., Any], /) -> ReductionBy: ...
def grid(function: Callable[..., Any], /) -> Meshgrid: ...
def reshaped(function: Callable[..., Any], /) -> Reshape: ...
def ranged(function: Callable[..., Any], /) -> Arange: ...
def evaluated(function: Callable[..., Any], /) -> Opaque: ...
def gradients_of(function: Callable[..., Any], /) -> GradientsOf: ...
def loading(function: Callable[..., Any], /) -> Load: ...
def drawn(function: Callable[..., Any], /) -> Drawn: ...
def compiling(function: Callable[..., Any], /) -> Compiling: ...
def upsampling(function: Callable[..., Any], /) -> Upsampling: ...

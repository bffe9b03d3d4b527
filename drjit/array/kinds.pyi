"""The kinds of arrays as type checkers and editors see them. `.ci/stubs.py` derives the
types of the namespaces from these, and there are no such classes when a program runs.

`Own` are the operands that promote to the class itself. A class that promotes to a wider element
type derives from that type's `To...`, with the classes of its shape and of all wider types as
arguments; the one-dimensional types derive from `An...`, which widens what it meets.
"""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false

from collections.abc import Iterable, Iterator
from types import EllipsisType
from typing import (
    Any,
    ClassVar,
    Generic,
    Protocol,
    Self,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

from numpy.typing import NDArray

from .base import ArrayBase, KernelValue
from .meta import VarState

Own = TypeVar("Own")
M = TypeVar("M")
V = TypeVar("V")
E = TypeVar("E")
R = TypeVar("R")
T = TypeVar("T")
P = TypeVar("P", bound=Nested[Any, Any, Any, Any])
M_co = TypeVar("M_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
B = TypeVar("B")
C_contra = TypeVar("C_contra", contravariant=True)
A2 = TypeVar("A2")
A3 = TypeVar("A3")
A4 = TypeVar("A4")
I8 = TypeVar("I8")
U8 = TypeVar("U8")
I = TypeVar("I")
U = TypeVar("U")
I64 = TypeVar("I64")
U64 = TypeVar("U64")
F16 = TypeVar("F16")
F = TypeVar("F")
F64 = TypeVar("F64")

Sequences: TypeAlias = list[Any] | tuple[Any, ...] | NDArray[Any]

class Foreign(Protocol):
    """An array of another library."""

    def __dlpack__(self) -> Any: ...

class SupportsArray(Protocol):
    """The same for NumPy."""

    def __array__(self) -> Any: ...

class View(Protocol):
    """A view of a matrix, such as those of networks."""

    def _as_tensor(self, what: str) -> Any: ...

class References(Protocol):
    """References to objects, which are numbers."""

    domain: ClassVar[type]

class ArrayInterface(Protocol):
    """The same by an older protocol."""

    @property
    def __array_interface__(self) -> Any: ...

class CudaInterface(Protocol):
    """The same on a GPU."""

    @property
    def __cuda_array_interface__(self) -> Any: ...

# What converts to an array, or to a component of one.
Convertible: TypeAlias = complex | ArrayBase | Sequences | range | Foreign | KernelValue
# What a constructor takes.
Initial: TypeAlias = (
    Convertible
    | SupportsFloat
    | SupportsIndex
    | SupportsArray
    | ArrayInterface
    | CudaInterface
    | View
    | References
    | Iterable[complex | SupportsFloat | SupportsIndex | ArrayBase | Sequences]
)
# What selects entries.
Key: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayBase | Sequences | None
# A number of lanes, or sizes of all dimensions.
Sizes: TypeAlias = SupportsIndex | list[Any] | tuple[Any, ...]

class ToFloat64(Generic[F64]): ...
class ToFloat(ToFloat64[F64], Generic[F, F64]): ...
class ToFloat16(ToFloat[F, F64], Generic[F16, F, F64]): ...
class ToUInt64(ToFloat16[F16, F, F64], Generic[U64, F16, F, F64]): ...
class ToInt64(ToUInt64[U64, F16, F, F64], Generic[I64, U64, F16, F, F64]): ...
class ToUInt(ToInt64[I64, U64, F16, F, F64], Generic[U, I64, U64, F16, F, F64]): ...
class ToInt(ToUInt[U, I64, U64, F16, F, F64], Generic[I, U, I64, U64, F16, F, F64]): ...
class ToUInt8(ToInt[I, U, I64, U64, F16, F, F64], Generic[U8, I, U, I64, U64, F16, F, F64]): ...
class ToInt8(
    ToUInt8[U8, I, U, I64, U64, F16, F, F64], Generic[I8, U8, I, U, I64, U64, F16, F, F64]
): ...
class ABool: ...

class AnInt8:
    def _widen(self, other: ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any], /) -> R: ...
    def _widen_with(
        self, other: ToInt8[R, Any, Any, Any, Any, Any, Any, Any, Any], third: UpToInt8, /
    ) -> R: ...

UpToInt8: TypeAlias = bool | ABool | AnInt8 | int

class AUInt8:
    def _widen(self, other: ToUInt8[R, Any, Any, Any, Any, Any, Any, Any], /) -> R: ...
    def _widen_with(
        self, other: ToUInt8[R, Any, Any, Any, Any, Any, Any, Any], third: UpToUInt8, /
    ) -> R: ...

UpToUInt8: TypeAlias = UpToInt8 | AUInt8

class AnInt:
    def _widen(self, other: ToInt[R, Any, Any, Any, Any, Any, Any], /) -> R: ...
    def _widen_with(
        self, other: ToInt[R, Any, Any, Any, Any, Any, Any], third: UpToInt, /
    ) -> R: ...

UpToInt: TypeAlias = UpToUInt8 | AnInt

class AUInt:
    def _widen(self, other: ToUInt[R, Any, Any, Any, Any, Any], /) -> R: ...
    def _widen_with(self, other: ToUInt[R, Any, Any, Any, Any, Any], third: UpToUInt, /) -> R: ...

UpToUInt: TypeAlias = UpToInt | AUInt

class AnInt64:
    def _widen(self, other: ToInt64[R, Any, Any, Any, Any], /) -> R: ...
    def _widen_with(self, other: ToInt64[R, Any, Any, Any, Any], third: UpToInt64, /) -> R: ...

UpToInt64: TypeAlias = UpToUInt | AnInt64

class AUInt64:
    def _widen(self, other: ToUInt64[R, Any, Any, Any], /) -> R: ...
    def _widen_with(self, other: ToUInt64[R, Any, Any, Any], third: UpToUInt64, /) -> R: ...

UpToUInt64: TypeAlias = UpToInt64 | AUInt64

class AFloat16:
    def _widen(self, other: ToFloat16[R, Any, Any], /) -> R: ...
    def _widen_with(self, other: ToFloat16[R, Any, Any], third: UpToFloat16, /) -> R: ...

UpToFloat16: TypeAlias = UpToUInt64 | AFloat16 | float

class AFloat:
    def _widen(self, other: ToFloat[R, Any], /) -> R: ...
    def _widen_with(self, other: ToFloat[R, Any], third: UpToFloat, /) -> R: ...

UpToFloat: TypeAlias = UpToFloat16 | AFloat

class AFloat64:
    def _widen(self, other: ToFloat64[R], /) -> R: ...
    def _widen_with(self, other: ToFloat64[R], third: UpToFloat64, /) -> R: ...

UpToFloat64: TypeAlias = UpToFloat | AFloat64

class HasMask(Protocol[M_co]):
    """Anything whose comparisons give a mask."""

    def _mask(self) -> M_co: ...

class Joins(Protocol[B_contra, R_co]):
    """A class to which others promote."""

    def _join(self, other: B_contra, /) -> R_co: ...

class JoinsBoth(Protocol[B_contra, C_contra, R_co]):
    """The same for two others."""

    def _join_both(self, one: B_contra, other: C_contra, /) -> R_co: ...

class Widens(Protocol[B_contra, R_co]):
    """A one-dimensional array that gives others its wider element type."""

    def _widen(self, other: B_contra, /) -> R_co: ...

class WidensWith(Protocol[B_contra, C_contra, R_co]):
    """The same beside a third operand, of no wider type."""

    def _widen_with(self, other: B_contra, third: C_contra, /) -> R_co: ...

class Dots(Protocol[B_contra, R_co]):
    """An array of components, which are what products with others add up to."""

    def _dot(self, other: B_contra, /) -> R_co: ...

class Entries(Protocol[R_co]):
    """An array of components with entries of a type."""

    def _entries(self) -> R_co: ...

# Relatives of a type: `.ci/stubs.py` gives the members by which they are found to every class that
# has them.
class WithInt(Protocol[R_co]):
    """Arrays whose shape there is with signed integers of the same size."""

    def _int(self) -> R_co: ...

class WithUInt(Protocol[R_co]):
    """The same with unsigned integers."""

    def _uint(self) -> R_co: ...

class WithFloat(Protocol[R_co]):
    """The same with floats."""

    def _float(self) -> R_co: ...

class WithTensor(Protocol[R_co]):
    """Arrays that convert to a tensor of the same entries."""

    def _tensor(self) -> R_co: ...

class WithPlain(Protocol[R_co]):
    """Arrays with a counterpart that is not differentiable."""

    def _plain(self) -> R_co: ...

class WithTracked(Protocol[R_co]):
    """Arrays with a counterpart that is differentiable."""

    def _tracked(self) -> R_co: ...

class WithSingle(Protocol[R_co]):
    """Arrays of which one lane is an array of `drjit.scalar`."""

    def _single(self) -> R_co: ...

class OnLLVM(Protocol[R_co]):
    """Arrays with a counterpart on the processor."""

    def _on_llvm(self) -> R_co: ...

class OnCUDA(Protocol[R_co]):
    """Arrays with a counterpart on the GPU."""

    def _on_cuda(self) -> R_co: ...

class WithMatrix(Protocol[R_co]):
    """Arrays to which a matrix of the same size belongs."""

    def _matrix(self) -> R_co: ...

class WithVector(Protocol[R_co]):
    """One-dimensional arrays, of which there are vectors of three."""

    def _vector(self) -> R_co: ...

class Rotates(Protocol[R_co]):
    """Matrices that a quaternion can stand for."""

    def _rotation(self) -> R_co: ...

class Turns(Protocol[R_co]):
    """Three angles that a quaternion can stand for."""

    def _turned(self) -> R_co: ...

class Extends(Protocol[R_co]):
    """Matrices that can be part of an affine one."""

    def _affine(self) -> R_co: ...

class HasParts(Protocol[R_co]):
    """Matrices of affine transformations, which can be decomposed."""

    def _parts(self) -> R_co: ...

class WithWide(Protocol[R_co]):
    """Integers with a type of twice the size."""

    def _wide(self) -> R_co: ...

class Exchanges(Protocol[R_co]):
    """One-dimensional arrays, whose entries can be compared and exchanged."""

    def _exchanged(self) -> R_co: ...

class Stores(Protocol[R_co]):
    """An array that stores its entries as an array of a type."""

    @property
    def array(self) -> R_co: ...

class Untyped(Protocol):
    """An array about which no more is known than that it is one; see `ArrayBase`."""

    def __getattr__(self, name: str, /) -> Any: ...

# A result of type `float` would be taken for that of an argument of type `Any`, too. These lead
# there by what all Python numbers have.
class PythonNumber(Protocol[R_co, M_co]):
    """A number of Python, which converts to a float and to a bool."""

    def as_integer_ratio(self) -> tuple[int, int]: ...
    def __float__(self) -> R_co: ...
    def __bool__(self) -> M_co: ...

class PythonInt(Protocol[R_co]):
    """The same, which converts to an int."""

    def as_integer_ratio(self) -> tuple[int, int]: ...
    def __int__(self) -> R_co: ...

class Part(Generic[V]):
    """A component, to which anything that converts to its type can be assigned."""

    @overload
    def __get__(self, instance: None, owner: type, /) -> Any: ...
    @overload
    def __get__(self, instance: object, owner: type, /) -> V: ...
    def __set__(self, instance: Any, value: Convertible, /) -> None: ...

class Array(ArrayBase, Generic[Own, M]):
    """An array of any kind."""

    # `ArrayBase` has any attribute and operator, for functions that take all arrays.
    __getattr__: ClassVar[None]
    __matmul__: ClassVar[None]
    __rmatmul__: ClassVar[None]

    """Type of comparison results."""
    grad: Part[Self]
    """The derivative, with the type and shape of the array."""
    label: str | None
    """A name shown in kernel text and graphs; None if there is none."""

    @property
    def state(self) -> VarState:
        """The state of evaluation: a literal, unevaluated, evaluated, dirty, symbolic or mixed."""
    @property
    def ndim(self) -> int:
        """The number of dimensions, including lanes."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of all dimensions, lanes last."""
    @property
    def index(self) -> int:
        """A number that identifies the traced value of a one-dimensional array."""
    @property
    def index_ad(self) -> int:
        """A number that identifies the variable in the derivative graph; 0 without one."""
    @property
    def T(self) -> Self:
        """The transpose of a matrix, a square array, or a two-dimensional tensor."""
    @property
    def mT(self) -> Self:
        """The transpose of a matrix, a square array, or the last two axes of a tensor."""
    def numpy(self) -> NDArray[Any]:
        """Returns the values as a NumPy array; one-dimensional results share memory."""
    def to_numpy(self) -> NDArray[Any]:
        """Same as `numpy`."""
    def torch(self) -> Any:
        """Returns the values as a PyTorch tensor."""
    def jax(self) -> Any:
        """Returns the values as a JAX array."""
    def memview(self) -> memoryview:
        """Returns the values as a memory view."""
    def item(self) -> Any:
        """Returns the only entry as a Python number."""
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __complex__(self) -> complex: ...
    def __trunc__(self) -> int: ...
    def __floor__(self) -> int: ...
    def __ceil__(self) -> int: ...
    @overload
    def __round__(self, ndigits: None = None) -> int: ...
    @overload
    def __round__(self, ndigits: int) -> float: ...
    def __contains__(self, value: Any) -> bool: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __hash__(self) -> int: ...
    def __pos__(self) -> Self: ...
    def _join(self, other: Own, /) -> Self: ...
    def _mask(self) -> M: ...
    def _join_both(self, one: Own, other: Own, /) -> Self: ...
    def __eq__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...  # type: ignore[override]
    def __ne__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...  # type: ignore[override]

class Masks(Array[Own, M]):
    """Masks, which combine with one another, and count as 0 and 1 beside numbers."""

    @overload
    def _promote(self: B, other: Widens[B, R], /) -> R: ...
    @overload
    def _promote(self: ToInt[R, Any, Any, Any, Any, Any, Any], other: int, /) -> R: ...
    @overload
    def _promote(self: ToFloat[R, Any], other: float, /) -> R: ...

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _promote

    @overload
    def _combine(self, other: Own, /) -> Self: ...
    @overload
    def _combine(self: B, other: Widens[B, R], /) -> R: ...
    @overload
    def _combine(self: ToInt[R, Any, Any, Any, Any, Any, Any], other: int, /) -> R: ...
    @overload
    def _combine(self: ToFloat[R, Any], other: float, /) -> R: ...
    @overload
    def _combine(self, other: Sequences, /) -> Self: ...

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _combine
    __truediv__: ClassVar[None]
    __rtruediv__: ClassVar[None]
    __floordiv__: ClassVar[None]
    __rfloordiv__: ClassVar[None]
    __mod__: ClassVar[None]
    __rmod__: ClassVar[None]
    __neg__: ClassVar[None]
    __abs__: ClassVar[None]
    def __invert__(self) -> Self: ...
    def __lt__(self, other: Own, /) -> M: ...
    def __le__(self, other: Own, /) -> M: ...
    def __gt__(self, other: Own, /) -> M: ...
    def __ge__(self, other: Own, /) -> M: ...

class _Numbers(Array[Own, M]):
    """The operators of all numbers."""

    @overload
    def _promote(self, other: Own, /) -> Self: ...
    @overload
    def _promote(self: B, other: Widens[B, R], /) -> R: ...
    @overload
    def _promote(self: ToInt[R, Any, Any, Any, Any, Any, Any], other: int, /) -> R: ...
    @overload
    def _promote(self: ToFloat[R, Any], other: float, /) -> R: ...
    @overload
    def _promote(self, other: Sequences, /) -> Self: ...

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _promote
    def __neg__(self) -> Self: ...
    def __abs__(self) -> Self: ...
    def __lt__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...
    def __le__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...
    def __gt__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...
    def __ge__(self, other: Own | float | Leaf[Any, Any, Any] | Sequences, /) -> M: ...

class Floats(_Numbers[Own, M]):
    """Floating point numbers."""

    @overload
    def _divide(self, other: Own, /) -> Self: ...
    @overload
    def _divide(self: B, other: Widens[B, R], /) -> R: ...
    @overload
    def _divide(self: ToFloat[R, Any], other: float, /) -> R: ...
    @overload
    def _divide(self, other: Sequences, /) -> Self: ...

    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _divide
    __floordiv__: ClassVar[None]
    __rfloordiv__: ClassVar[None]
    __mod__: ClassVar[None]
    __rmod__: ClassVar[None]
    __lshift__: ClassVar[None]
    __rlshift__: ClassVar[None]
    __rshift__: ClassVar[None]
    __rrshift__: ClassVar[None]
    __or__: ClassVar[None]
    __ror__: ClassVar[None]
    __xor__: ClassVar[None]
    __rxor__: ClassVar[None]
    __rand__: ClassVar[None]
    # A mask selects the entries that remain.
    def __and__(self, other: ABool | bool | M | Sequences, /) -> Self: ...

class Integers(_Numbers[Own, M]):
    """Integers; `//` and `%` truncate towards zero."""

    # True division: floats only.
    @overload
    def _divide(self: ToFloat16[R, Any, Any], other: AFloat16, /) -> R: ...
    @overload
    def _divide(self: ToFloat[R, Any], other: AFloat | float, /) -> R: ...
    @overload
    def _divide(self: ToFloat64[R], other: AFloat64, /) -> R: ...
    @overload
    def _combine(self, other: Own, /) -> Self: ...
    @overload
    def _combine(self: B, other: Widens[B, R], /) -> R: ...
    @overload
    def _combine(self: ToInt[R, Any, Any, Any, Any, Any, Any], other: int, /) -> R: ...
    @overload
    def _combine(self: ToFloat[R, Any], other: float, /) -> R: ...
    @overload
    def _combine(self, other: Sequences, /) -> Self: ...

    __truediv__ = __rtruediv__ = _divide
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = _combine
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _combine
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _combine
    def __rpow__(self, other: float, /) -> Any: ...
    def __invert__(self) -> Self: ...
    def __index__(self) -> int: ...

class Leaf(Array[Own, M], Generic[Own, M, V]):
    """A one-dimensional array."""

    """Type of the entries: a Python type."""
    def __init__(self, *args: Initial, flip_axes: bool = ...) -> None: ...
    @property
    def array(self) -> Self:
        """The array itself."""
    @overload
    def __getitem__(self, key: int, /) -> V: ...
    @overload
    def __getitem__(self, key: slice | Sequences | Leaf[Any, Any, Any], /) -> Self: ...
    @overload
    def __getitem__(self, key: EllipsisType | None, /) -> Any: ...
    def __setitem__(self, key: Key, value: Convertible, /) -> None: ...
    def __iter__(self) -> Iterator[V]: ...
    def _entries(self) -> Self: ...
    def _exchanged(self) -> tuple[Self, M]: ...
    def item(self) -> V:
        """Returns the only entry as a Python number."""

class Nested(Array[Own, M], Generic[Own, M, V, E]):
    """An array of components: a vector, matrix, complex number or quaternion."""

    """Type of the components."""
    def _entries(self) -> E: ...
    def _dot(self, other: Own, /) -> V: ...
    @overload
    def __getitem__(self, key: int, /) -> V: ...
    @overload
    def __getitem__(self, key: tuple[int, int], /) -> E: ...
    @overload
    def __getitem__(
        self, key: slice | EllipsisType | Sequences | Array[Any, Any] | None, /
    ) -> Any: ...
    def __setitem__(self, key: Key, value: Convertible, /) -> None: ...
    def __iter__(self) -> Iterator[V]: ...

class Vector(Nested[Own, M, V, E]):
    """An array of components that is computed component by component."""

    def __init__(self, *args: Initial, flip_axes: bool = ...) -> None: ...
    @property
    def array(self) -> Self:
        """The array itself."""
    def __matmul__(self, other: Self, /) -> Any: ...
    def __rmatmul__(self, other: float | Leaf[Any, Any, Any], /) -> Any: ...

class Vector1(Vector[Own, M, V, E]):
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, x: Initial, /) -> None: ...

class Vector2(Vector[Own, M, V, E]):
    @overload
    def __init__(self, value: Initial = ..., /, *, flip_axes: bool = ...) -> None: ...
    @overload
    def __init__(self, x: Initial, y: Initial, /) -> None: ...

class Vector3(Vector[Own, M, V, E]):
    @overload
    def __init__(self, value: Initial = ..., /, *, flip_axes: bool = ...) -> None: ...
    @overload
    def __init__(self, x: Initial, y: Initial, z: Initial, /) -> None: ...

class Vector4(Vector[Own, M, V, E]):
    @overload
    def __init__(self, value: Initial = ..., /, *, flip_axes: bool = ...) -> None: ...
    @overload
    def __init__(self, x: Initial, y: Initial, z: Initial, w: Initial, /) -> None: ...

class Complex(Nested[Own, M, V, E]):
    """A complex number per lane, with a real and an imaginary part."""

    real: Part[E]
    """The real part."""
    imag: Part[E]
    """The imaginary part."""
    __lt__: ClassVar[None]
    __le__: ClassVar[None]
    __gt__: ClassVar[None]
    __ge__: ClassVar[None]
    @overload
    def __init__(self, value: Initial = ..., /, *, flip_axes: bool = ...) -> None: ...
    @overload
    def __init__(self, real: Initial, imag: Initial, /) -> None: ...

class Quaternion(Nested[Own, M, V, E], Generic[Own, M, V, E, A3]):
    """A quaternion per lane: the imaginary parts x, y and z, and the real part w."""

    real: Part[E]
    """The real part, which is the component w."""
    imag: Part[A3]
    """The imaginary parts x, y and z."""
    __lt__: ClassVar[None]
    __le__: ClassVar[None]
    __gt__: ClassVar[None]
    __ge__: ClassVar[None]
    @overload
    def __init__(self, value: Initial = ..., /, *, flip_axes: bool = ...) -> None: ...
    @overload
    def __init__(self, x: Initial, y: Initial, z: Initial, w: Initial, /) -> None: ...

class Matrix(Nested[Own, M, V, E], Generic[Own, M, V, E, A2]):
    """A matrix per lane, whose components are its rows."""

    __lt__: ClassVar[None]
    __le__: ClassVar[None]
    __gt__: ClassVar[None]
    __ge__: ClassVar[None]
    def __init__(self, *args: Initial, flip_axes: bool = ...) -> None: ...
    @property
    def array(self) -> A2:
        """The entries as a plain array: `Array33f` for `Matrix3f`."""
    @overload
    def __matmul__(self, other: Self | Own, /) -> Self: ...
    @overload
    def __matmul__(self, other: V, /) -> V: ...
    def __rmatmul__(self, other: Own, /) -> Self: ...
    @overload
    def __mul__(self, other: V, /) -> V: ...
    @overload
    def __mul__(self, other: Own, /) -> Self: ...
    @overload
    def __mul__(self: ToFloat[R, Any], other: AFloat, /) -> R: ...
    @overload
    def __mul__(self: ToFloat64[R], other: AFloat64, /) -> R: ...

class Tensor(Array[Own, M], Generic[Own, M, E, V]):
    """An array of any number of dimensions, chosen when it is made."""

    """Type of the entries: a Python type."""
    def __init__(
        self, array: Initial = ..., shape: Sizes | None = ..., flip_axes: bool = ...
    ) -> None: ...
    @property
    def array(self) -> E:
        """The entries as a one-dimensional array, the last index running fastest."""
    def __getitem__(self, key: Any, /) -> Self: ...
    def __setitem__(self, key: Key, value: Convertible, /) -> None: ...
    def __iter__(self) -> Iterator[Self]: ...
    def __matmul__(self, other: Own | Sequences, /) -> Self: ...
    def __rmatmul__(self, other: Own | Sequences, /) -> Self: ...
    def item(self) -> V:
        """Returns the only entry as a Python number."""

# What functions that access memory take. Floats would be rounded towards zero, and numbers are
# true where they are not zero: there is no use for either.
Index: TypeAlias = SupportsIndex | Masks[Any, Any] | Integers[Any, Any] | Sequences | Untyped
Active: TypeAlias = bool | Masks[Any, Any] | Sequences | Untyped

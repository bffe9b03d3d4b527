"""The base of all array classes: what every class states about itself, and how one array takes over
the contents of another.
"""

from collections.abc import Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..ad.graph import Value
from ..jit.backend import JitBackend
from ..jit.ir.dtype import DType
from ..jit.ir.node import Node
from ..jit.ir.op import Op
from .meta import ArrayMeta


class IncompatibleError(RuntimeError, TypeError):
    """Values whose types do not go together: an error of either kind, as programs expect the one or
    the other.
    """


class OperandError(TypeError, RuntimeError):
    """An operator that the types do not have; see `IncompatibleError`."""


class ComponentError(RuntimeError, AttributeError, TypeError):
    """A component that the type does not have; an `AttributeError`, so that `hasattr` works, and a
    `TypeError` where one is assigned to.
    """


class BoundsError(IndexError, TypeError, RuntimeError):
    """An index beyond an array; an error of any kind that handlers look for."""


class ArrayBase:
    """Base class of all arrays, with all operators and properties.

    A traced one-dimensional array (`_kind` is `leaf`) holds a node in `_node`, and in `_var` what
    differentiation knows about it. A `nested` array holds its components in `_components`, a
    `tensor` a one-dimensional array in `_array` and its `_shape`. Components that are Python
    numbers are in `_held`, a list or, once a NumPy array shares them, that array; `_components` is
    then a copy.
    """

    __module__ = "drjit"
    __slots__ = ()

    __meta__: ClassVar[ArrayMeta]
    Value: ClassVar[Any]
    """Type of the components; of the entries for one-dimensional arrays and tensors."""
    Mask: ClassVar[Any]
    """Type that comparisons give."""
    Array: ClassVar[Any]
    """The plain array type of the same shape; for tensors the type of their storage."""
    _dtype: ClassVar[DType]
    _kind: ClassVar[str]
    _size: ClassVar[int | None]
    _diff: ClassVar[bool]
    _backend: ClassVar[JitBackend]
    _namespace: ClassVar[str]
    _usable: ClassVar[bool] = False
    """Whether arrays of the class can be made."""
    _held: Any
    _leaf: ClassVar[Any]
    """The one-dimensional type that components end in; a Python type in `drjit.scalar`."""

    _var: Any = None

    if TYPE_CHECKING:
        # What `operators`, `members` and `function.grad` give to this class.
        grad: Any

        def __getattr__(self, name: str) -> Any: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __getitem__(self, key: Any) -> Any: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        def __neg__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def _binary(self, other: Any) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _binary
        __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _binary
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _binary
        __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _binary
        __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = _binary

    __class_getitem__ = classmethod(GenericAlias)

    def _assign(self, other: Any) -> None:
        """Takes over the value of an array of the same class. Whoever holds this object, or a
        component of it, sees the change.
        """
        kind = self._kind
        if kind == "leaf":
            self._node = other._node
            if self._diff:
                self._var = other._var
        elif kind == "tensor":
            self._array._assign(other._array)
            self._shape = other._shape
        elif isinstance(self.Value, type) and issubclass(self.Value, ArrayBase):
            mine, theirs = self._components, other._components
            if len(mine) == len(theirs):
                for a, b in zip(mine, theirs, strict=True):
                    a._assign(b)
            else:
                self._components = list(theirs)
        else:
            entries = other._components
            if len(entries) == len(self._held):
                self._held[:] = entries
            else:
                self._components = list(entries)


class KernelValue:
    """Base of values that exist within kernels only, such as cooperative vectors: no arrays, but
    leaves of PyTrees beside them.

    Like a one-dimensional array, such a value has a node in `_node`, and in `_var` what
    differentiation knows about it; its `_kind` is `vector`, and `_type` the class of its features.
    Element-wise operations with such an operand are left to its `_elementwise`, reductions of it
    to `_reduce`; `_like` is another value as one that goes beside it, and `_with` the same kind
    of value for another node. `_unpacked` are arrays, of which it consists from then on, so
    that these can be evaluated.
    """

    __slots__ = ("_node", "_type", "_var")

    _kind: ClassVar[str] = "vector"
    _tracks: ClassVar[bool] = False  # whether derivatives with respect to it can be tracked
    _node: Node
    _var: Any
    _type: Any

    @property
    def _dtype(self) -> DType:
        return self._node.dtype.element

    @property
    def _diff(self) -> bool:
        return self._type._diff

    @property
    def __meta__(self) -> "ArrayMeta":
        return self._type.__meta__

    if TYPE_CHECKING:

        def _comparison(self, other: Any) -> Any: ...

        def __iter__(self) -> Any: ...

        __lt__ = __le__ = __gt__ = __ge__ = _comparison

    # Nodes are never changed, so that copies share one.
    def __copy__(self) -> Any:
        return self._with(Value(self._node, self._var))

    def __deepcopy__(self, memo: dict) -> Any:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled, as it exists within kernels only. Unpack it into arrays "
            "first."
        )

    def _elementwise(self, op_: Op, args: tuple, name: str) -> Any:
        raise NotImplementedError

    def _reduce(self, key: str) -> Any:
        raise NotImplementedError

    def _like(self, value: Any, name: str) -> Value:
        raise NotImplementedError

    def _with(self, value: Value, detached: bool = False) -> Any:
        raise NotImplementedError

    def _with_number(self, number: float) -> Any:
        raise NotImplementedError

    def _unpacked(self, opaque: bool) -> list[Any]:
        raise RuntimeError(
            f"{self!r}: Cooperative vectors cannot be evaluated, as they exist within kernels "
            "only. Unpack it into arrays first, as in 'x, y = v' or 'Array2f(v)'."
        )


def type_label(arg: Any) -> str:
    """The name of a type or of a value's type for messages: `drjit.llvm.Float`, `int`."""
    cls = arg if isinstance(arg, type) else type(arg)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

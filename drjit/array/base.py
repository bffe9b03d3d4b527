"""The base class of all arrays: the attributes of every class, and in-place assignment between
arrays.
"""

from collections.abc import Callable, Iterable, Iterator
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..ad.graph import Value
from ..jit.backend import JitBackend
from ..jit.device import Device
from ..jit.ir.dtype import DType
from ..jit.ir.node import Node
from ..jit.run import launch
from .meta import ArrayMeta


class IncompatibleError(RuntimeError, TypeError):
    """Values have incompatible types. The error has both types, because programs expect one or the
    other.
    """


class OperandError(TypeError, RuntimeError):
    """The types do not support the operator; see `IncompatibleError`."""


class ComponentError(RuntimeError, AttributeError, TypeError):
    """The type lacks a component. An `AttributeError`, so that `hasattr` works, and a `TypeError`
    for assignments.
    """


class BoundsError(IndexError, TypeError, RuntimeError):
    """An index exceeds an array; the error has every type that handlers look for."""


class ArrayBase:
    """Base class of all arrays, with all operators and properties.

    A traced one-dimensional array (`_kind` is `leaf`) stores a node in `_node`, and its variable in
    the derivative graph in `_var`. A `nested` array stores its components in `_components`, and a
    `tensor` a one-dimensional array in `_array` and its `_shape`. Components that are Python
    numbers are stored in `_numbers`, which is a list or, once shared with NumPy, a NumPy array;
    `_components` is then a copy.
    """

    __module__ = "drjit"
    __slots__ = ()

    __meta__: ClassVar[ArrayMeta]
    Value: ClassVar[Any]
    """Type of the components; for one-dimensional arrays and tensors, type of the entries."""
    Mask: ClassVar[Any]
    """Type of comparison results."""
    Array: ClassVar[Any]
    """The plain array type of the same shape; for tensors, the type of the storage."""
    _dtype: ClassVar[DType]
    _kind: ClassVar[str]
    _size: ClassVar[int | None]
    _diff: ClassVar[bool]
    _backend: ClassVar[JitBackend]
    _device: ClassVar[Device | None]
    _namespace: ClassVar[str]
    _usable: ClassVar[bool] = False
    """Whether arrays of the class can be created."""
    _numbers: Any
    _leaf: ClassVar[Any]
    """The one-dimensional type of the innermost components; a Python type in `drjit.scalar`."""

    _part: ClassVar[Any] = None
    """The same if all components are traced arrays of that type, and None otherwise."""

    _var: Any = None

    if TYPE_CHECKING:
        # Assigned by `operators`, `members` and `function.ad.grad`.
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

    def __class_getitem__(cls, arguments: Any) -> GenericAlias:
        parts = arguments if isinstance(arguments, tuple) else (arguments,)
        if any(isinstance(p, (bool, int, float, slice, ArrayBase)) for p in parts):
            name, shown = cls.__name__, ", ".join(map(repr, parts))
            raise TypeError(
                f"{name}[{shown}]: {name} is a class, which has no entries. Make an array "
                f"of these numbers with {name}({shown}), or index an array"
            )
        return GenericAlias(cls, arguments)

    def _assign(self, other: Any) -> None:
        """Takes over the value of an array of the same class. All references to this object, or to
        one of its components, see the change.
        """
        kind = self._kind
        if kind == "leaf":
            if launch.on_change is not None:
                launch.on_change(self, self._node)
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
        elif len(other._components) == len(self._numbers):
            self._numbers[:] = other._components
        else:
            self._components = list(other._components)


def nested(cls: Any, components: Iterable[Any]) -> Any:
    """Returns a nested array of a class with the given components."""
    result = object.__new__(cls)
    result._components = list(components)
    return result


def in_place(name: str) -> Callable[[Any, Any], Any]:
    """Returns the in-place form of an operator: it assigns the result to the array, unless the
    result is of another class."""
    method = f"__{name}__"

    def assign(self: Any, other: Any) -> Any:
        r = getattr(self, method)(other)
        if not isinstance(self, type(r)):  # arrays of a program's subclass keep that class
            return r
        self._assign(r)
        return self

    return assign


class KernelValue:
    """Base class of values that exist within kernels only, such as cooperative vectors. They are
    not arrays, but may be leaves of PyTrees like arrays.

    Like a one-dimensional array, such a value has a node in `_node`, and its variable in the
    derivative graph in `_var`; its `_kind` is `vector`, and `_type` the class of its features.
    Element-wise operations with such an operand are delegated to its `_elementwise`, reductions to
    `_reduce`. `_like` converts another value to a matching operand, and `_with` and `_with_number`
    create the same kind of value from another node or a number. `_unpacked` replaces the value by
    arrays, so that these can be evaluated.
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
        _elementwise: Any
        _reduce: Any
        _like: Any
        _with: Any
        _with_number: Any

        def _comparison(self, other: Any) -> Any: ...
        def __iter__(self) -> Any: ...

        __lt__ = __le__ = __gt__ = __ge__ = _comparison

    # Nodes are immutable, so copies share one.
    def __copy__(self) -> Any:
        return self._with(Value(self._node, self._var))

    def __deepcopy__(self, memo: dict) -> Any:
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled, as it exists within kernels only. Unpack it into arrays "
            "first."
        )

    def _unpacked(self, opaque: bool) -> list[Any]:
        raise RuntimeError(
            f"{self!r}: Cooperative vectors cannot be evaluated, as they exist within kernels "
            "only. Unpack it into arrays first, as in 'x, y = v' or 'Array2f(v)'."
        )


def listed(values: Iterable[object]) -> str:
    """Returns values as a list for messages: `2`, `2 and 3`, `2, 3, and 4`."""
    *others, last = map(str, values)
    return f"{', '.join(others)}{',' * (len(others) > 1)} and {last}" if others else last


def type_label(arg: object) -> str:
    """Returns the name of a type or of a value's type for messages: `drjit.llvm.Float`, `int`."""
    cls = arg if isinstance(arg, type) else type(arg)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"

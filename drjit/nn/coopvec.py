"""Cooperative vectors: many features per lane in a single value that exists within kernels only.

They are built from arrays, pass through element-wise operations and matrix products, and are
unpacked into arrays again, all in one kernel.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from ..ad import memory_rules
from ..ad import vector as derivatives
from ..ad.algebra import RECORDED, checked, element_recorder
from ..ad.graph import Value, as_value, visible
from ..array import leaf, pytree, table
from ..array.base import ArrayBase, IncompatibleError, KernelValue, type_label
from ..array.inline import RECORDERS
from ..array.promote import Incompatible, check_range, convert, number_type
from ..array.show import innermost
from ..jit.ir import dtype as dt
from ..jit.ir import node, op

T = TypeVar("T")
if TYPE_CHECKING:
    from ..array.kinds import E, Leaf, Nested, Tensor

    Flat = TypeVar("Flat", bound=Leaf[Any, Any, Any])
else:  # a bound in words would be compiled
    Flat = TypeVar("Flat")


class CoopVec(KernelValue, Generic[T]):
    """A cooperative vector: `len(v)` features per lane, all of the same numeric type.

    The arguments are concatenated. Each is an array, a number, another cooperative vector, or a
    PyTree or iterable of these. Components of nested arrays and rows of tensors are features. The
    first array determines the type of all features.

    Arithmetic (`+ - * /`) and element-wise functions (`dr.fma`, `dr.minimum`, `dr.maximum`,
    `dr.exp2`, `dr.tanh`, ...) combine cooperative vectors of the same length and type with each
    other and with arrays and numbers, which are broadcast to all features. Integer vectors support
    the operations of integer arrays.

    Raises:
        TypeError: there is no numeric array, or an argument is none of the above.
        RuntimeError: there are no features, or sizes are incompatible.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import Array3f, Float
    >>> v = nn.CoopVec(Array3f([1, 2], 3, 4), 5)
    >>> v
    drjit.nn.CoopVec[drjit.llvm.ad.Float, shape=(4, 2)]
    >>> x, *_, y = 2 * v
    >>> x, y
    ([2, 4], [10, 10])
    """

    __slots__ = ()
    __array_ufunc__ = None  # makes a NumPy number on the left defer to this class

    _type: Any

    if TYPE_CHECKING:
        # Assigned by `operators`.
        def _arithmetic(self, other: "CoopVec[T] | ArrayBase | float", /) -> "CoopVec[T]": ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _arithmetic
        __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = _arithmetic
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _arithmetic

        def __neg__(self) -> "CoopVec[T]": ...
        def __invert__(self) -> "CoopVec[T]": ...

    @overload
    def __init__(
        self: "CoopVec[E]",
        first: "CoopVec[E] | Nested[Any, Any, Any, E] | Tensor[Any, Any, E, Any]",
        /,
        *args: Any,
    ) -> None: ...

    @overload
    def __init__(self: "CoopVec[Flat]", first: Flat, /, *args: Any) -> None: ...

    @overload
    def __init__(self, *args: Any) -> None: ...

    def __init__(self, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], CoopVec):
            other = args[0]
            self._type, self._node, self._var = other._type, other._node, visible(other._var)
            return
        parts: list[Any] = []
        for arg in args:
            _flatten(arg, parts)
        if not parts:
            raise RuntimeError("drjit.nn.CoopVec(): cannot be empty, at least one array is needed")
        self._type = cls = _feature_type(parts)
        what = "drjit.nn.CoopVec()"
        try:
            if {*map(type, parts)} != {cls}:
                parts = [p if type(p) is cls else convert(cls, p) for p in parts]
        except Incompatible as problem:
            raise IncompatibleError(f"{what}: {problem}") from None
        self._node, self._var = derivatives.pack(leaf.values(parts), what)
        if not cls._diff:
            self._var = None

    @property
    def type(self) -> Any:
        """The type of the features, a one-dimensional array class."""
        return self._type

    @property
    def index(self) -> int:
        """A number that identifies the traced value."""
        return self._node.serial

    def __len__(self) -> int:
        return self._node.dtype.count

    def __iter__(self) -> Iterator[T]:
        cls = self._type
        found = derivatives.unpack(as_value((self._node, self._var)))
        return map(leaf.from_value, repeat(cls), found)

    def __getitem__(self, *_: object) -> NoReturn:
        raise TypeError(
            "drjit.nn.CoopVec has no indexing, as its features are not stored one by one. Unpack "
            "it into arrays, as in 'x, y = v' or 'Array2f(v)', or go through all of them, as in "
            "'for x in v'"
        )

    __setitem__ = __getitem__

    def __repr__(self) -> str:
        shape = (len(self), self._node.size)
        return f"drjit.nn.CoopVec[{type_label(self._type)}, shape={shape}]"

    def _with(self, value: Value, detached: bool = False) -> "CoopVec[Any]":
        cls = self._type
        if value.node.dtype.is_mask:
            cls = cls.Mask
        if detached and cls._diff:
            cls = table.find(cls._namespace.removesuffix(".ad"), "leaf", cls._dtype)
        return wrap(cls, value)

    def _with_number(self, number: float) -> "CoopVec[Any]":
        made = node.literal_converter(self._node.dtype)(number)
        return wrap(self._type, as_value((made, None)))  # type: ignore[arg-type]

    def _like(self, value: Any, name: str) -> Value:
        t = self._node.dtype
        if isinstance(value, CoopVec):
            other = value._node.dtype
            if other.count != t.count:
                raise RuntimeError(
                    f"{name}(): cooperative vectors of different lengths do not go together "
                    f"({t.count} and {other.count})"
                )
            if other is not t:
                raise RuntimeError(
                    f"{name}(): cooperative vectors with features of different types do not go "
                    f"together ({t.element.name} and {other.element.name}). Convert one of them "
                    "with drjit.nn.cast()."
                )
            return Value(value._node, visible(value._var))
        return _broadcast(self._type, t, value, name)

    def _elementwise(self, op_: op.Op, args: tuple, name: str) -> "CoopVec[Any]":
        mask = op_.result == "second"
        vectors = [a for a in args[mask:] if isinstance(a, CoopVec)]
        first = vectors[0] if vectors else self._typed(args[mask:], name)
        if not op_.accepts(first._dtype) and not self._dtype.is_mask:
            raise IncompatibleError(f"{name}(): operation not supported for {first!r}")
        values = [first._like(a, name) for a in args[mask:]]
        if mask:
            values.insert(0, first._mask(args[0], name))
        try:
            return first._with(checked(op_, *values))
        except (RuntimeError, TypeError) as problem:
            text = str(problem).removeprefix(f"{op_.name}: ")
            raise type(problem)(f"{name}(): {text}") from None

    def _typed(self, values: tuple, name: str) -> "CoopVec[Any]":
        """Returns a vector of this length whose features have the type of the first array among the
        values."""
        for a in values:
            if isinstance(a, ArrayBase) and a._kind == "leaf" and a._dtype.is_arithmetic:
                return wrap(type(a), Value(node.literal(dt.vector(a._dtype, len(self)), 0)))
        raise TypeError(
            f"{name}(): with a mask for each feature, one of the values has to be a cooperative "
            "vector, or an array of numbers"
        )

    def _mask(self, value: Any, name: str) -> Value:
        """Converts a mask to the first operand of a select with this vector."""
        t = self._node.dtype.mask_type
        if isinstance(value, CoopVec):
            return self._with(Value(node.literal(t, False)))._like(value, name)
        return _broadcast(self._type.Mask, t, value, name)

    def _reduce(self, key: str) -> Any:
        if self._dtype.is_mask != (key in ("and", "or")):
            raise TypeError(f"the reduction '{key}' is not defined for the features of {self!r}")
        if key == "add" and self._dtype.is_float:
            total = derivatives.total(Value(self._node, visible(self._var)))
            return leaf.from_value(self._type, total)
        operation = op.REDUCTIONS[key]
        first, *rest = [leaf.value(x) for x in self]
        for x in rest:
            first = RECORDED(operation, x, first)
        return leaf.from_value(self._type, first)


def _recorder(op_: op.Op) -> Callable[..., CoopVec[Any] | None]:
    """Returns the fast path of an operation for vectors of one floating point type, or for such
    vectors and numbers, which dominate in networks. It returns None for anything else, including
    errors, which the general path reports."""
    second, is_mask = op_.result == "second", op_.result == "mask"
    record = element_recorder(op_, dt.f32)[1]
    accepted = {t.kind for t in dt.ALL if t.is_float and op_.accepts(t)}

    def recorded(*args: Any) -> CoopVec[Any] | None:
        if second and type(args[0]) is not CoopVec:
            return None
        for a in args[second:]:
            if type(a) is CoopVec:
                first: Any = a
                break
        else:
            return None
        t = first._node.dtype
        if t.kind not in accepted:
            return None
        nodes, variables = [], []
        for a in args:
            if type(a) is CoopVec:
                n = a._node
                if n.dtype is not t and not (second and a is args[0] and n.dtype is t.mask_type):
                    return None
                variables.append(a._var)
            else:
                n = node.literal_converter(t)(a)
                if n is None:
                    return None
                variables.append(None)
            nodes.append(n)
        operands = tuple(nodes)
        try:
            n = node.combine(op_, operands)
        except RuntimeError:
            return None
        made = object.__new__(CoopVec)
        cls = first._type
        made._type, made._node, made._var = cls, n, None
        if is_mask:
            made._type = cls.Mask
        elif record is not None and cls._diff and any(variables):
            made._var = record(n, operands, tuple(variables))
        return made

    return recorded


def _operator(op_: op.Op, reflected: bool, general: Any) -> Any:
    recorded = RECORDERS[op_][CoopVec]

    def unary(self: CoopVec[Any]) -> Any:
        result = recorded(self)
        return general(self) if result is None else result

    def binary(self: CoopVec[Any], other: Any) -> Any:
        result = recorded(other, self) if reflected else recorded(self, other)
        return general(self, other) if result is None else result

    return unary if op_.arity == 1 else binary


for _op in op.TABLE.values():
    RECORDERS[_op][CoopVec] = _recorder(_op)
    if not _op.method or not _op.accepts(dt.f32):
        continue
    for _prefix in ("", "r") if _op in op.ARITHMETIC else ("",):
        _method = f"__{_prefix}{_op.method}__"
        setattr(CoopVec, _method, _operator(_op, _prefix == "r", getattr(ArrayBase, _method)))


def wrap(cls: Any, value: Value) -> CoopVec[Any]:
    """Wraps a traced value in a cooperative vector with features of the given class."""
    made = object.__new__(CoopVec)
    made._type, made._node = cls, value.node
    made._var = value.var if cls._diff else None
    return made


def _flatten(arg: Any, parts: list[Any]) -> None:
    """Appends the features that make up an argument to a list."""
    if isinstance(arg, ArrayBase):
        if arg._kind == "leaf":
            parts.append(arg)
        elif arg._kind == "nested":
            flat = getattr(arg.Value, "_kind", "") == "leaf"
            parts += arg._components if flat else innermost(arg)
        elif len(arg._shape) in (1, 2):
            parts += [row._array for row in arg]
        else:
            raise TypeError(
                f"drjit.nn.CoopVec(): a tensor must have one or two dimensions, not {arg._shape}"
            )
    elif isinstance(arg, CoopVec):
        parts.extend(arg)
    elif number_type(type(arg)) is not None:
        parts.append(number_type(type(arg))(arg))
    else:
        found = pytree.children(arg)
        if found is not None:
            values: Any = [value for _, value in found]
        elif isinstance(arg, Iterable) and not isinstance(arg, (str, bytes)):
            values = arg
        else:
            raise IncompatibleError(
                f"drjit.nn.CoopVec(): cannot convert a value of type {type_label(arg)}; arrays, "
                "numbers, cooperative vectors, and lists, dictionaries, structures and iterables "
                "of them are needed"
            )
        for value in values:
            _flatten(value, parts)


def _feature_type(parts: list[Any]) -> Any:
    """Returns the class of the features: that of the first array, and differentiable if any array
    is."""
    cls = type(parts[0])
    if len({*map(type, parts)}) == 1 and issubclass(cls, ArrayBase) and cls._dtype.is_float:
        return cls
    arrays = [p for p in parts if isinstance(p, ArrayBase)]
    if not arrays:
        raise TypeError(
            "drjit.nn.CoopVec(): at least one one-dimensional array is needed, which determines "
            "the type of the features, such as in nn.CoopVec(Float16(1), 2)"
        )
    cls = type(arrays[0])
    if cls._dtype.is_mask:
        raise TypeError(
            f"drjit.nn.CoopVec(): features are numbers, but the first array is of type "
            f"{type_label(cls)}"
        )
    namespaces = [cls._namespace, *[a._namespace for a in arrays if a._diff and not cls._diff]]
    return table.find(namespaces[-1], "leaf", cls._dtype)


def _broadcast(cls: Any, t: dt.DType, value: Any, name: str) -> Value:
    """Broadcasts a number or an array to a vector."""
    if number_type(type(value)) is not None:
        number = number_type(type(value))(value)
        try:
            check_range(cls, number)
        except Incompatible as problem:
            raise IncompatibleError(f"{name}(): {problem}") from None
        return Value(node.literal(t, number))
    if isinstance(value, ArrayBase) and value._kind != "leaf":
        raise TypeError(
            f"{name}(): {type_label(value)} does not go together with a cooperative vector; make "
            "one of it with drjit.nn.CoopVec()"
        )
    if not isinstance(value, ArrayBase):
        try:
            value = cls(value)
        except (TypeError, RuntimeError):
            raise TypeError(
                f"{name}(): unsupported operand of type {type_label(value)} beside a cooperative "
                "vector; a cooperative vector, an array or a number is needed"
            ) from None
    if cls._dtype.is_mask and not value._dtype.is_mask:
        raise TypeError(f"{name}(): expected a mask, got {type_label(value)}")
    scalar = memory_rules.cast(t.element, Value(value._node, visible(value._var)))
    return derivatives.splat(t.count, scalar)


def cast(arg0: CoopVec[Any], arg1: type[T], /) -> CoopVec[T]:
    """Converts the features of a cooperative vector to the kind and precision of an array type.
    Derivatives are converted back.

    Raises:
        TypeError: the first argument is not a cooperative vector, or the second is not a numeric
            array type.

    >>> import drjit.nn as nn
    >>> from drjit.auto.ad import Float16, Float32
    >>> nn.cast(nn.CoopVec(Float32(1), 2), Float16)
    drjit.nn.CoopVec[drjit.llvm.ad.Float16, shape=(2, 1)]
    """
    if not isinstance(arg0, CoopVec):
        raise TypeError(
            f"drjit.nn.cast(): expected a cooperative vector, got {type_label(arg0)}; convert an "
            "array by its type, as in Float16(x)"
        )
    cls = getattr(arg1, "_leaf", None) if isinstance(arg1, type) else None
    dtype = getattr(cls, "_dtype", None)
    if dtype is None or dtype.is_mask:
        raise TypeError(
            "drjit.nn.cast(): expected an array type of numbers such as Float16, got "
            f"{type_label(arg1) if isinstance(arg1, type) else repr(arg1)}"
        )
    target = table.find(arg0._type._namespace, "leaf", dtype)
    count = arg0._node.dtype.count
    value = memory_rules.cast(dt.vector(dtype, count), as_value((arg0._node, visible(arg0._var))))
    return wrap(target, value)

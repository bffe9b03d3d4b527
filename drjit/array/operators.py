"""The general operators of all arrays: promotion, special arrays, in-place forms, powers,
comparisons.

Integer `//` and `%` truncate towards zero as in C and in kernels, so `Int(-7) // 2` is -3; a
division by 0 returns 0. Importing this module adds the operators to `ArrayBase`. The classes inline
the common cases.
"""

import operator
from collections.abc import Callable
from typing import Any

from ..jit import substitutes
from ..jit.ir import op as ops
from ..jit.lazy import np
from . import leaf, special, tensor
from .base import ArrayBase, IncompatibleError, OperandError, in_place, type_label
from .elementwise import UnsupportedError, elementwise, promoted
from .inline import RECORDERS, record_nothing
from .promote import Incompatible, convert, expr_t, number_type, operand

_PRODUCTS = {ops.mul: special.product, ops.div: special.quotient}

# Maximum number of squarings for an integer exponent before a general power is cheaper: x**2 to
# x**1023.
_MAX_SQUARINGS = 10


_HINTS = {
    "/": ": true division needs floats, use // for integers or convert with Float(x)",
    "//": ": floor division needs integers, use dr.floor(x / y) for floats",
    "%": ": the remainder needs integers, use x - y * dr.floor(x / y) for floats",
}


def _expression(a: Any, symbol: str, b: Any) -> str:
    return f"{type_label(a)} {symbol} {type_label(b)}"


def _method(a: Any, op_: ops.Op) -> str:
    """Returns an operator of a class for messages; comparisons are one method."""
    name = "richcmp" if op_ in ops.COMPARISONS else op_.method or op_.name
    return f"{type_label(a)}.__{name}__()"


def _apply(op_: ops.Op, a: Any, symbol: str, b: Any) -> Any:
    try:
        return promoted(op_, (a, b), f"operator {symbol}")
    except UnsupportedError:
        hint = _HINTS.get(symbol, "")
        text = f"unsupported operand type(s) for {_expression(a, symbol, b)}{hint}"
        raise OperandError(text) from None
    except RuntimeError as problem:
        _, separator, text = str(problem).partition(f"operator {symbol}(): ")
        if not separator:
            raise
        raise type(problem)(f"{_method(a, op_)}: {text}") from problem.__cause__


def _of_tensors(op_: ops.Op) -> Callable:
    """Returns the operation on tensors of a class and one shape, or on a tensor and a number: None
    for others, and for element types that do not support it."""
    combine, recorders = getattr(operator, f"__{op_.method}__"), RECORDERS[op_]

    def combined(cls: Any, a: Any, b: Any) -> Any:
        record = recorders[cls]
        if type(a) is type(b) and a._shape == b._shape and record is not record_nothing:
            result = cls.Mask if op_.result == "mask" else cls
            return tensor.wrap(result, combine(a._array, b._array), a._shape)
        return record(a, b)

    return combined


def _arithmetic(op_: ops.Op, reflected: bool) -> Callable:
    symbol, of_tensors = op_.symbol, _of_tensors(op_)
    products = _PRODUCTS.get(op_)

    def method(self: Any, other: Any) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if not reflected and self._kind == "leaf" and getattr(other, "_kind", "") == "nested":
            return NotImplemented  # whose reflected operator goes through its components
        if self._kind == "tensor" and (result := of_tensors(type(self), a, b)) is not None:
            return result
        if products is not None and (special.is_special(a) or special.is_special(b)):
            try:
                return products(a, b)
            except Incompatible as problem:
                raise IncompatibleError(f"{_method(a, op_)}: {problem}") from None
        if op_ is ops.and_ and reflected and _is_mask_of_numbers(a, b):
            raise IncompatibleError(
                f"{_method(a, op_)}: Could not promote type '{type_label(a)}' to "
                f"'{type_label(b)}', as masks stand on the right: b & a"
            )
        if op_ is ops.and_ and _is_number_array(a):
            b = _as_mask(a, b)
            if _is_mask(b):
                return elementwise(ops.select, b, a, type(a)(0), name="drjit.ArrayBase.__and__")
        return _apply(op_, a, symbol, b)

    return method


def _is_number_array(a: Any) -> bool:
    return isinstance(a, ArrayBase) and a._dtype.is_arithmetic


def _as_mask(a: Any, b: Any) -> Any:
    """Converts an operand that is a nested sequence or a NumPy array of bools to a mask for an
    array."""
    if isinstance(b, (list, tuple, np.ndarray)):
        try:
            _, types = operand(b, [a])
        except Incompatible:
            return b
        if types and all(
            t is bool or (issubclass(t, ArrayBase) and t._dtype.is_mask) for t in types
        ):
            return a.Mask(b)
    return b


def _is_mask_of_numbers(a: Any, b: Any) -> bool:
    """Returns whether a sequence of bools is to the left of a nested array, where it is not a
    mask."""
    return (
        isinstance(a, (list, tuple)) and _is_number_array(b) and b._kind == "nested"
        and b.__meta__.is_jit and _is_mask(_as_mask(b, a))
    )  # fmt: skip


def _is_mask(a: Any) -> bool:
    return type(a) is bool or (isinstance(a, ArrayBase) and a._dtype.is_mask)


def _comparison(op_: ops.Op) -> Callable:
    symbol, of_tensors = op_.symbol, _of_tensors(op_)
    ordered = op_ is not ops.eq and op_ is not ops.ne

    def method(self: Any, other: Any) -> Any:
        if self._kind == "tensor" and (result := of_tensors(type(self), self, other)) is not None:
            return result
        if ordered and (special.is_special(self) or special.is_special(other)):
            raise RuntimeError(
                f"{_method(self, op_)}: complex numbers, quaternions and matrices have no order"
            )
        if ordered and self._dtype.is_mask and _is_mask(other):
            return _order_of_masks(op_, self, other)
        return _apply(op_, self, symbol, other)

    return method


def _order_of_masks(op_: ops.Op, a: Any, b: Any) -> Any:
    """Compares masks; False is the smaller value."""
    what = f"{type_label(a)}.__richcmp__"
    if op_ is ops.gt or op_ is ops.ge:
        op_, a, b = (ops.lt if op_ is ops.gt else ops.le), b, a
    first = elementwise(ops.not_, a) if isinstance(a, ArrayBase) else not a
    combined = ops.and_ if op_ is ops.lt else ops.or_
    return elementwise(combined, first, b, name=what)


def _unary(op_: ops.Op) -> Callable:
    recorders = RECORDERS[op_]

    def method(self: Any) -> Any:
        formula = special.formulas.get((self.__meta__.kind, op_.name))
        if formula is not None:
            return formula(tuple(self._components))
        result = recorders[type(self)](self)
        return promoted(op_, (self,), _method(self, op_)[:-2]) if result is None else result

    return method


def power(a: Any, b: Any) -> Any:
    """Returns `a ** b`. An integer exponent becomes a few multiplications and keeps the type,
    including integer types.

    Raises:
        RuntimeError: an integer base has a negative exponent, or one that is not a Python number,
            or types are incompatible.
    """
    exponent = _integer(b)
    if exponent is not None and isinstance(a, ArrayBase):
        if exponent < 0 and not a._dtype.is_float:
            raise RuntimeError(
                f"{_method(a, ops.pow)}: an integer array has no negative powers; convert it "
                "to float first"
            )
        if a._dtype.is_mask:
            raise RuntimeError(f"{_method(a, ops.pow)}: masks have no powers")
        if abs(exponent) < 1 << _MAX_SQUARINGS or not a._dtype.is_float or special.is_special(a):
            return _integer_power(a, exponent)
    if special.is_special(a) or special.is_special(b):
        try:
            return special.power(a, b)
        except Incompatible as problem:
            raise IncompatibleError(f"{_method(a, ops.pow)}: {problem}") from None
    if not isinstance(a, ArrayBase) and isinstance(b, ArrayBase) and not b._dtype.is_float:
        a = float(a) if number_type(type(a)) is not None else a
    elif isinstance(a, ArrayBase) and not a._dtype.is_float:
        raise RuntimeError(
            f"{_method(a, ops.pow)}: an integer base needs a Python integer as exponent; "
            "convert the base to float first"
        )
    return _apply(ops.pow, a, "**", b)


def _integer(b: Any) -> int | None:
    """Returns the exponent, if it is a number with an integer value."""
    number = number_type(type(b))
    whole = number in (bool, int) or (number is float and float(b).is_integer())
    return int(b) if whole else None


def _integer_power(a: Any, exponent: int) -> Any:
    """Computes a power by repeated squaring."""
    n = abs(exponent)
    result = None
    square = a
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        if n:
            square = square * square
    if result is None:
        return a * 0 + 1 if special.is_special(a) else filled(a, 1)
    if exponent < 0:
        return special.reciprocal(result) if special.is_special(a) else 1 / result
    return type(a)(a) if result is a else result


def filled(a: Any, number: int) -> Any:
    """Returns an array of the same type and size with all entries equal to a number."""
    cls = type(a)
    if a._kind == "leaf":
        return leaf.literal(cls, number, len(a))
    if a._kind == "tensor":
        return tensor.wrap(cls, filled(a._array, number), a._shape)
    python = cls.Value
    entries = [
        filled(c, number) if isinstance(c, ArrayBase) else python(number) for c in a._components
    ]
    return special.of_components(cls, entries)


def _pow(self: Any, other: Any, mod: None = None) -> Any:
    if mod is not None:
        raise TypeError("pow(): arrays take no modulus; compute (a ** b) % m")
    return power(self, other)


def _rpow(self: Any, other: Any, mod: None = None) -> Any:
    return power(other, self)


def _is_factor(a: Any, b: Any) -> bool:
    """Returns whether a value is a number per lane that scales the other operand."""
    if isinstance(a, ArrayBase):
        return a._kind == "leaf" and isinstance(b, ArrayBase) and b._kind == "nested"
    return number_type(type(a)) in (int, float)


class ProductError(OperandError, ValueError):
    """The shapes of tensors are incompatible in a product: raised by `@` and `dr.matmul`."""


def _matmul(a: Any, b: Any) -> Any:
    if type(a) is type(b) and a._kind == "tensor":
        try:
            return matmul["tensor"](a, b)
        except ValueError as problem:
            text = f"unsupported operand type(s) for {_expression(a, '@', b)}: {problem}"
            raise ProductError(text) from problem
    kinds = [*map(special.kind_of, (a, b))]
    function = matmul.get("tensor" if "tensor" in kinds else "")
    if "matrix" in kinds:
        nested = "" not in kinds and "leaf" not in kinds
        try:
            return special.matrix_product(a, b) if nested else special.product(a, b)
        except Incompatible as problem:
            raise OperandError(f"{type_label(a)}.__matmul__(): {problem}") from None
    if function is not None:
        return function(a, b)
    if _is_factor(a, b) or _is_factor(b, a):
        return a * b
    if kinds == ["vector", "vector"] and len(a._components) == len(b._components):
        if len(a.__meta__.dims) == 2:
            square = len(b.__meta__.dims) == 2
            cls = expr_t(type(a) if square else type(a).Value, type(b))
            b = convert(cls, b)
            return special.of_components(cls, [_matmul(row, b) for row in a._components])
        total = a._components[0] * b._components[0]
        for x, y in zip(a._components[1:], b._components[1:], strict=True):
            total = total + x * y
        return total
    raise OperandError(
        f"unsupported operand type(s) for {_expression(a, '@', b)}: use * for products by element"
    )


def _matmul_of_operator(a: Any, b: Any) -> Any:
    """Implements `a @ b`; an array of another framework uses its own product."""
    if not isinstance(b, ArrayBase) and hasattr(b, "__rmatmul__"):
        return NotImplemented
    return _matmul(a, b)


matmul: dict[str, Callable[[Any, Any], Any]] = {}
"""The matrix product of tensors, under the key `tensor`; set by the module that implements it."""


_METHODS: dict[str, Callable] = {
    "__pos__": lambda self: self,
    "__pow__": _pow,
    "__rpow__": _rpow,
    "__matmul__": _matmul_of_operator,
    "__rmatmul__": lambda self, other: _matmul(other, self),
}
_METHODS |= {f"__{o.method}__": _arithmetic(o, False) for o in ops.ARITHMETIC}
_METHODS |= {f"__r{o.method}__": _arithmetic(o, True) for o in ops.ARITHMETIC}
_METHODS |= {f"__{o.method}__": _comparison(o) for o in ops.COMPARISONS}
_METHODS |= {f"__{o.method}__": _unary(o) for o in ops.UNARY}
for _name in ("pow", "matmul", *[o.method for o in ops.ARITHMETIC]):
    _METHODS[f"__i{_name}__"] = in_place(_name)
for _name, _function in _METHODS.items():
    _function.__name__ = _name
    _function.__qualname__ = f"ArrayBase.{_name}"
    setattr(ArrayBase, _name, _function)
ArrayBase.__hash__ = object.__hash__
substitutes.modules["drjit.array.native_operators"] = 1 << 12

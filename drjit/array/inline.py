"""Fast paths for element-wise operations on traced one-dimensional arrays of one class
(`recorders`), and on vectors and tensors of these, possibly combined with Python numbers. They
exist as functions for each operation and class, and as operators. Everything else (promotion, other
kinds of arrays, errors) is left to `elementwise` and to the general operators of `ArrayBase`.
"""

import operator
from collections.abc import Callable
from functools import partial
from itertools import repeat
from types import FunctionType
from typing import Any

from ..jit import frames
from ..jit.ir import op as ops
from ..jit.ir.node import SizeError
from .base import ArrayBase
from .leaf import constant_maker, new
from .pytree import leaf_arrays
from .recorders import array_first, number_first, recorder, select, ternary, unary


def leaf_operators(cls: type, mask: type, general: type) -> dict[str, Callable]:
    """Returns the operator methods of a class whose comparisons return `mask`; `general` has the
    general methods."""
    rows: list[tuple[str, ops.Op, Callable, type]] = []
    rows += [(f"__{o.method}__", o, array_first, cls) for o in ops.ARITHMETIC]
    rows += [(f"__r{o.method}__", o, number_first, cls) for o in ops.ARITHMETIC]
    rows += [(f"__{o.method}__", o, array_first, mask) for o in ops.COMPARISONS]
    rows += [(f"__{o.method}__", o, unary, cls) for o in ops.UNARY]
    return {
        name: own_code(recorder(form, o, cls, result, getattr(general, name)), name, cls)
        for name, o, form, result in rows
        if o.accepts(cls._dtype)
    }


def own_code(f: Any, name: str, cls: type) -> Callable:
    """Returns the function with its own code object, because the interpreter specializes code for
    the types that it encounters.
    """
    code = f.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    method = FunctionType(code, f.__globals__, name, None, f.__closure__)
    method.__qualname__ = code.co_qualname
    return method


def _binary(op_: ops.Op, cls: Any, result: Any) -> Callable:
    first = own_code(recorder(array_first, op_, cls, result, record_nothing), op_.name, cls)
    second = own_code(recorder(number_first, op_, cls, result, record_nothing), op_.name, cls)

    def binary(a, b):
        return first(a, b) if type(a) is cls else second(b, a)

    return binary


def _on_components(op_: ops.Op, cls: Any) -> Callable:
    """Returns the operation on vectors of one class and length, combined with operands that are
    broadcast to the components."""
    entry = cls.Value
    on_entries = RECORDERS[op_][entry]
    if on_entries is record_nothing:
        return record_nothing
    result = cls.Mask if op_.result == "mask" else cls
    single, shared = frozenset((entry, float, int)), constant_maker(entry)
    kinds = [(cls, single)] * op_.arity
    if op_.result == "second":
        kinds[0] = (cls.Mask, frozenset((entry.Mask,)))

    def on_components(*args):
        columns: list[Any] = []
        count = 0
        for (several, one), a in zip(kinds, args):  # noqa: B905
            kind = type(a)
            if kind is several:
                if count not in (0, len(a._components)):
                    return None
                count = len(a._components)
                columns.append(a._components)
            elif kind in one:
                columns.append(repeat(shared(a) if kind is float or kind is int else a))
            else:
                return None
        if not count:
            return None
        components = list(map(on_entries, *columns))
        for c in components:
            if c is None:
                return None
        r = new(result)
        r._components = components
        return r

    return on_components


def _on_storage(op_: ops.Op, cls: Any) -> Callable:
    """Returns the operation on tensors of one class and shape, combined with numbers."""
    on_entries = RECORDERS[op_][cls.Array]
    if on_entries is record_nothing:
        return record_nothing
    result = cls.Mask if op_.result == "mask" else cls
    kinds = [cls.Mask if op_.result == "second" else cls] + [cls] * (op_.arity - 1)

    def on_storage(*args):
        shape, arrays = None, []
        for tensor, a in zip(kinds, args):  # noqa: B905
            kind = type(a)
            if kind is tensor and (shape is None or a._shape == shape):
                shape = a._shape
                arrays.append(a._array)
            elif kind is float or kind is int:
                arrays.append(a)
            else:
                return None
        array = None if shape is None else on_entries(*arrays)
        if array is None:
            return None
        r = new(result)
        r._array, r._shape = array, shape
        return r

    return on_storage


def record_nothing(*_: Any) -> None:
    """Records nothing: for classes that the general case handles."""


class ByClass(dict[type, Callable]):
    """Functions by the class of an operand, made on first use for the classes of the table."""

    def __init__(self, make: Callable[[Any], Callable]) -> None:
        super().__init__({float: record_nothing, int: record_nothing})
        self._make = make

    def __missing__(self, cls: Any) -> Callable:
        if "__meta__" not in cls.__dict__:
            return record_nothing
        made = self[cls] = self._make(cls)
        return made


_native: Callable[[ops.Op, type, Callable], Callable] | None = None
dependent_tables: "list[ByClass]" = []
"""Tables of functions that consist of recorders."""


def use_native(form: Callable[[ops.Op, type, Callable], Callable]) -> None:
    """Replaces all recorders by the forms that a function gives them."""
    global _native
    _native = form
    for op_, by_class in RECORDERS.items():
        for cls, function in [*by_class.items()]:
            kind = getattr(cls, "_kind", "")
            if kind == "leaf":
                by_class[cls] = form(op_, cls, function)
            elif kind in ("nested", "tensor"):
                del by_class[cls]  # made again, from those of its components
    for table in dependent_tables:
        table.clear()


def _recorder(op_: ops.Op, cls: Any) -> Callable:
    """Returns the function that records an operation on arrays of a class."""
    made = record_nothing if op_.arity > 3 else _for_class(op_, cls)
    return made if _native is None else _native(op_, cls, made)


RECORDERS = {o: ByClass(partial(_recorder, o)) for o in ops.TABLE.values()}


def _recorded(op_: ops.Op) -> Callable:
    by_class = RECORDERS[op_]

    def unary(a: Any) -> Any:
        return by_class[type(a)](a)

    def binary(a: Any, b: Any) -> Any:
        result = by_class[type(b)](a, b)
        return by_class[type(a)](a, b) if result is None else result

    def ternary(a: Any, b: Any, c: Any) -> Any:
        for kind in type(c), type(b), type(a):
            result = by_class[kind](a, b, c)
            if result is not None:
                return result
        return None

    return (record_nothing, unary, binary, ternary, record_nothing)[min(op_.arity, 4)]


RECORDED = {o: _recorded(o) for o in ops.TABLE.values()}
"""Functions that apply an operation to one-dimensional arrays of one class, to vectors of these, or
to tensors of one shape, each possibly combined with numbers: most operations in programs. They
return None for anything else, including errors."""


def _for_class(op_: ops.Op, cls: Any) -> Callable:
    if cls._kind == "leaf" and op_.accepts(cls._dtype):
        result = cls.Mask if op_.result == "mask" else cls
        if op_.arity == 2:
            made = _binary(op_, cls, result)
        else:
            form = select if op_.result == "second" else unary if op_.arity == 1 else ternary
            made = recorder(form, op_, cls, result, record_nothing)
        return own_code(made, op_.name, cls)
    meta = cls.__meta__
    if meta.kind == "tensor" and meta.is_jit:
        return _on_storage(op_, cls)
    of_leaves = meta.kind == "vector" and getattr(cls.Value, "_kind", "") == "leaf"
    return _on_components(op_, cls) if of_leaves and meta.is_jit else record_nothing


# Operators of nested arrays: an operand of the same class is combined component by component


def broadcasts_to_components(cls: Any, arg: Any) -> bool:
    """Returns whether a nested array has the type of the class's components, and is broadcast to
    all of them."""
    mine, theirs = cls.__meta__, arg.__meta__
    depth = len(theirs.dims)
    return (
        theirs.kind == "vector"
        and theirs.is_jit == mine.is_jit
        and depth < len(mine.dims)
        and mine.dims[len(mine.dims) - depth :] == theirs.dims
    )


def nested_operators(cls: type, general: type) -> dict[str, Callable]:
    """Returns operator methods for a nested class of a traced namespace; `general` has the general
    methods.

    They combine arrays of the class component by component, and each component with a number or a
    one-dimensional array, provided that this is the meaning of the operator: a number is added to
    the diagonal of a matrix, and `*` of special arrays is a product of its own.
    """
    if cls._namespace == "scalar" or cls._size is None:
        return {}
    leaf = cls._leaf
    numbers = (float, int) if leaf._dtype.is_float else (int,) if leaf._dtype.is_int else ()
    scalars = frozenset((leaf, *numbers))
    none: frozenset = frozenset()
    rows: list[tuple[str, Any, bool, frozenset, frozenset]] = []
    if cls.__meta__.kind == "vector":
        rows += [(o.method, cls, True, scalars, scalars) for o in ops.ARITHMETIC]
        rows += [(o.method, cls.Mask, True, scalars, none) for o in ops.COMPARISONS]
    else:
        rows += [(name, cls, True, none, none) for name in ("add", "sub")]
        rows += [("mul", cls, False, scalars, scalars), ("truediv", cls, False, scalars, none)]
        rows += [(name, cls.Mask, True, none, none) for name in ("eq", "ne")]
    found: dict[str, Callable] = {}
    for name, result, pairs, right, left in rows:
        method, reflected = f"__{name}__", f"__r{name}__"
        combine = getattr(operator, method)  # whose slots are faster than methods of `cls.Value`
        if getattr(leaf, method) is getattr(general, method):
            continue  # the element type does not support it
        otherwise = getattr(general, method)
        found[method] = _with_components(cls, result, combine, pairs, right, otherwise)
        if left:
            otherwise = getattr(general, reflected)
            found[reflected] = _with_components(cls, cls, combine, False, left, otherwise, True)
    for o in ops.UNARY if cls.__meta__.kind == "vector" else ():
        method = f"__{o.method}__"
        if getattr(leaf, method) is not getattr(general, method):
            found[method] = _of_components(cls, getattr(operator, method))
    return {name: own_code(f, name, cls) for name, f in found.items()}


@frames.guard_inner
def _of_components(cls: type, function: Callable) -> Callable:
    def unary(self):
        r = new(cls)
        r._components = list(map(function, self._components))
        return r

    return unary


@frames.guard_inner
def _with_components(
    cls: Any,
    result: Any,
    combine: Callable,
    pairs: bool,
    scalars: frozenset,
    otherwise: Callable,
    reflected: bool = False,
) -> Callable:
    leaf, shared = cls._leaf, constant_maker(cls._leaf)

    def binary(self, other):
        kind, components = type(other), None
        try:
            if kind is cls and pairs:
                components = list(map(combine, self._components, other._components))
            elif kind in scalars:
                each = repeat(other if kind is leaf else shared(other))  # one for all components
                if reflected:
                    components = list(map(combine, each, self._components))
                else:
                    components = list(map(combine, self._components, each))
        except SizeError:
            pass  # which the general method reports, unless a number meets empty components
        if components is None:
            return otherwise(self, other)
        r = new(result)
        r._components = components
        return r

    return binary


# Minima and maxima of two operands; `function.math.arithmetic` has those of all others. The kernel
# operation returns its second operand if either is NaN, and so is combined with a select.


def exceeding(op_: ops.Op) -> tuple[ops.Op, ops.Op]:
    """Returns two comparisons of an array with a number, which tell where the extremum is the
    number: the first if the number is the second operand, the second if it is the first one. They
    differ in ties: the first operand then receives the gradient of a minimum, the second one that
    of a maximum."""
    return (ops.gt, ops.ge) if op_ is ops.minimum else (ops.le, ops.lt)


NEAR_ZERO = 1e-7
"""Some types round smaller numbers to 0."""


def at_zero(op_: ops.Op, keeps_nan: bool) -> ops.Op:
    """Returns the comparison of an array with a zero that tells where the extremum is the second
    operand: the zero if `keeps_nan`, and the array otherwise. If both are zeros, whatever their
    signs, the extremum is the second operand."""
    return ops.ge if (op_ is ops.minimum) is keeps_nan else ops.le


def is_tracked(a: Any) -> bool:
    """Returns whether the derivative of an array is tracked."""
    return a._diff and any(v._var is not None for v in leaf_arrays(a))


def extrema(op_: ops.Op, keeps_nan: bool) -> ByClass:
    """Returns functions that record `op_` on arrays of a class and on numbers, or return None, by
    the class of the second operand, or of the first one if the second one is a number. If an
    operand is NaN, the result is NaN (`keeps_nan`) or the other operand."""
    dependent_tables.append(ByClass(partial(_extremum, op_, keeps_nan)))
    return dependent_tables[-1]


def _extremum(op_: ops.Op, keeps_nan: bool, cls: type[ArrayBase]) -> Callable:
    of_both, select, differ = [RECORDERS[o][cls] for o in (op_, ops.select, ops.ne)]
    after, before = [RECORDERS[o][cls] for o in exceeding(op_)]
    decides = RECORDERS[at_zero(op_, keeps_nan)][cls]
    is_float, is_leaf = cls._dtype.is_float, cls._kind == "leaf"
    if of_both is record_nothing:
        return record_nothing

    def extremum(a: Any, b: Any) -> Any:
        kind, other = type(a), type(b)
        if kind is other:
            found = of_both(a, b)
            if found is None or not is_float:
                return found
            decisive = a if keeps_nan else b
            return select(differ(decisive, decisive), a, found)
        if (other is float or other is int) and b == b:
            number, array, exceeds = b, a, after
        elif (kind is float or kind is int) and a == a:
            number, array, exceeds = a, b, before
        else:
            return None
        if keeps_nan and (array._var is not None if is_leaf else is_tracked(array)):
            return select(exceeds(array, number), number, array)
        if -NEAR_ZERO < number < NEAR_ZERO and is_float and (number is b) is keeps_nan:
            first, second = (number, array) if keeps_nan else (array, number)
            return select(decides(array, number), first, second)
        return of_both(number, array) if keeps_nan else of_both(array, number)

    return extremum

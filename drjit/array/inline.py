"""Operators of traced one-dimensional arrays with the common cases inlined: both operands of one
class and size, or a Python number on one side.

Tracing is what a program pays on every iteration, so these methods build the node themselves.
Everything else (promotion, broadcasting, literals, debug mode) is left to the general operator of
`ArrayBase`.
"""

from collections.abc import Callable
from struct import Struct
from types import FunctionType
from typing import Any

import numpy as np

from ..ad.algebra import element_recorder
from ..jit import flags, node
from ..jit import op as ops
from ..jit.dtype import DType
from ..jit.node import LITERAL, Node, combine, literal, next_serial
from ..jit.op import Op
from .leaf import new

# Divisors and counts are part of the code, which the general case sees to.
_ANY = range(-(1 << 63), 1 << 64)
# Python method name, op, and the numbers on the right that simplify, which is left to the general
# case.
ARITHMETIC = (
    ("add", ops.add, (0,)),
    ("sub", ops.sub, (0,)),
    ("mul", ops.mul, (0, 1)),
    ("truediv", ops.div, (1,)),
    ("floordiv", ops.quotient, _ANY),
    ("mod", ops.remainder, _ANY),
    ("and", ops.and_, (0, -1)),
    ("or", ops.or_, (0, -1)),
    ("xor", ops.xor, (0,)),
    ("lshift", ops.shl, _ANY),
    ("rshift", ops.shr, _ANY),
)
COMPARISONS = (
    ("lt", ops.lt), ("le", ops.le), ("gt", ops.gt), ("ge", ops.ge), ("eq", ops.eq), ("ne", ops.ne),
)  # fmt: skip
UNARY = (("neg", ops.neg), ("invert", ops.not_), ("abs", ops.abs))


def operators(cls: type, mask: type, general: type) -> dict[str, Callable]:
    """Methods for a class whose comparisons give `mask`; `general` has the general methods."""
    dtype = cls._dtype
    kind = "b" if dtype.is_mask else "f" if dtype.is_float else "i"
    found: dict[str, Callable] = {}
    for name, op_, special in ARITHMETIC:
        if kind in op_.domain:
            for method, reflected in ((f"__{name}__", False), (f"__r{name}__", True)):
                fallback = getattr(general, method)
                plain = _ANY if dtype.is_mask else special
                found[method] = _binary(cls, cls, op_, plain, reflected, fallback)
            found[f"__i{name}__"] = _in_place(cls, found[f"__{name}__"])
    for name, op_ in COMPARISONS:
        if kind in op_.domain:
            found[f"__{name}__"] = _binary(
                cls, mask, op_, (), False, getattr(general, f"__{name}__")
            )
    for name, op_ in UNARY:
        if kind in op_.domain:
            found[f"__{name}__"] = _unary(cls, op_, getattr(general, f"__{name}__"))
    return {name: _own_code(f, name, cls) for name, f in found.items()}


def _own_code(f: Any, name: str, cls: type) -> Callable:
    """The function with a code object of its own: the interpreter specializes code for the types
    that it meets.
    """
    code = f.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    method = FunctionType(code, f.__globals__, name, None, f.__closure__)
    method.__qualname__ = code.co_qualname
    return method


def _binary(
    cls: type, result: type, op_: Op, special: Any, reflected: bool, general: Callable
) -> Callable:
    dtype, out = cls._dtype, result._dtype
    diff = cls._diff
    record = element_recorder(op_, out)
    number = dtype.scalar(0).item().__class__  # bool, int or float
    also = int if number is float else number
    low, high = _range(dtype)
    exact = number is not float
    form = Struct({2: "e", 4: "f"}.get(dtype.itemsize, "d"))
    pack, unpack = form.pack, form.unpack  # rounds to the element type

    def folded(a, b, u, v):
        """The result where it may be a constant, or an operand."""
        r = new(result)
        r._n = n = combine(op_, (a, b))
        if diff:
            if record is None or (u is None and v is None):
                r._a = None
            else:
                r._a = record(n, (a, b), (u, v))
        return r

    def forward(self, other):
        kind = type(other)
        if kind is cls:
            a, b = self._n, other._n
            size = a.size
            if (
                size == b.size
                and a.op is not LITERAL
                and b.op is not LITERAL
                and not flags.current & 1
            ):
                r = new(result)
                r._n = n = Node()
                n.op = op_
                n.dtype = out
                n.size = size
                n.deps = (a, b)
                n.data = n.mark = None
                n.serial = next_serial()
                if diff:
                    u, v = self._a, other._a
                    if record is None or (u is None and v is None):
                        r._a = None
                    else:
                        r._a = record(n, n.deps, (u, v))
                return r
            if size == b.size or (size == 1 and b.size) or (b.size == 1 and size):
                return folded(a, b, self._a if diff else None, other._a if diff else None)
        elif (kind is number or kind is also) and low <= other <= high:
            a = self._n
            if a.op is LITERAL or other in special:
                if a.size:
                    return folded(a, literal(dtype, other), self._a if diff else None, None)
            elif not flags.current & 1:
                r = new(result)
                b = Node()
                b.op = LITERAL
                b.dtype = dtype
                b.size = 1
                b.deps = ()
                b.mark = None
                b.data = other if exact else unpack(pack(other))[0]
                b.serial = next_serial()
                r._n = n = Node()
                n.op = op_
                n.dtype = out
                n.size = a.size
                n.deps = (a, b)
                n.data = n.mark = None
                n.serial = next_serial()
                if diff:
                    v = self._a
                    if record is None or v is None:
                        r._a = None
                    else:
                        r._a = record(n, n.deps, (v, None))
                return r
        return general(self, other)

    def backward(self, other):
        kind = type(other)
        if (kind is number or kind is also) and low <= other <= high:
            a = self._n
            if a.op is LITERAL or other in special:
                if a.size:
                    return folded(literal(dtype, other), a, None, self._a if diff else None)
            elif not flags.current & 1:
                r = new(result)
                b = Node()
                b.op = LITERAL
                b.dtype = dtype
                b.size = 1
                b.deps = ()
                b.mark = None
                b.data = other if exact else unpack(pack(other))[0]
                b.serial = next_serial()
                r._n = n = Node()
                n.op = op_
                n.dtype = out
                n.size = a.size
                n.deps = (b, a)
                n.data = n.mark = None
                n.serial = next_serial()
                if diff:
                    v = self._a
                    if record is None or v is None:
                        r._a = None
                    else:
                        r._a = record(n, n.deps, (None, v))
                return r
        return general(self, other)

    return backward if reflected else forward


def _range(dtype: DType) -> tuple[Any, Any]:
    """The numbers that are taken as they are, or rounded; infinities and NaN are left to the
    general case.
    """
    if dtype.is_mask:
        return False, True
    info = np.finfo(dtype.numpy) if dtype.is_float else np.iinfo(dtype.numpy)
    number = float if dtype.is_float else int
    return number(info.min), number(info.max)


def _unary(cls: type, op_: Op, general: Callable) -> Callable:
    dtype, diff = cls._dtype, cls._diff
    simplifies = op_ in node.SIMPLIFY
    record = element_recorder(op_, dtype)

    def unary(self):
        a = self._n
        if a.op is LITERAL or (simplifies and a.op is op_) or flags.current & 1:
            return general(self)
        r = new(cls)
        r._n = n = Node()
        n.op = op_
        n.dtype = dtype
        n.size = a.size
        n.deps = (a,)
        n.data = n.mark = None
        n.serial = next_serial()
        if diff:
            v = self._a
            if record is None or v is None:
                r._a = None
            else:
                r._a = record(n, n.deps, (v,))
        return r

    return unary


def _in_place(cls: type, operator: Callable) -> Callable:
    diff = cls._diff

    def in_place(self, other):
        r = operator(self, other)
        if type(r) is not cls:
            return r
        self._n = r._n
        if diff:
            self._a = r._a
        return self

    return in_place

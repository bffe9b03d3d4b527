"""Element-wise operations on traced one-dimensional arrays of one class, and on vectors of these,
beside Python numbers: as functions that are made for each operation and class (`recorded`), and as
operators.

Tracing is what a program pays on every iteration, so these functions build the node themselves
where sizes agree. Everything else (promotion, other kinds of arrays, errors) is left to
`elementwise`, and to the general operators of `ArrayBase`.
"""

from collections.abc import Callable
from itertools import repeat
from types import FunctionType
from typing import Any

from ..ad.algebra import element_recorder
from ..jit import node
from ..jit import op as ops
from ..jit.dtype import DType
from ..jit.node import LITERAL, Node, next_serial
from ..jit.op import Op
from .leaf import beside, combined, new


def operators(cls: type, mask: type, general: type) -> dict[str, Callable]:
    """Methods for a class whose comparisons give `mask`; `general` has the general methods."""
    found: dict[str, Callable] = {}
    for op_ in ops.ARITHMETIC:
        if op_.accepts(cls._dtype):
            forward, backward = f"__{op_.method}__", f"__r{op_.method}__"
            found[forward] = _forward(op_, cls, cls, getattr(general, forward))
            found[backward] = _backward(op_, cls, cls, getattr(general, backward))
            found[f"__i{op_.method}__"] = _in_place(cls, found[forward])
    for op_ in ops.COMPARISONS:
        if op_.accepts(cls._dtype):
            name = f"__{op_.method}__"
            found[name] = _forward(op_, cls, mask, getattr(general, name))
    for op_ in ops.UNARY:
        if op_.accepts(cls._dtype):
            found[f"__{op_.method}__"] = _unary(op_, cls)
    return {name: _own_code(f, name, cls) for name, f in found.items()}


def _own_code(f: Any, name: str, cls: type) -> Callable:
    """The function with a code object of its own: the interpreter specializes code for the types
    that it meets.
    """
    code = f.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    method = FunctionType(code, f.__globals__, name, None, f.__closure__)
    method.__qualname__ = code.co_qualname
    return method


def _special(op_: Op, dtype: DType) -> tuple:
    """The numbers beside which an operation may simplify."""
    return (False, True) if dtype.is_mask else op_.simple


def _unary(op_: Op, cls: Any) -> Callable:
    dtype, diff = cls._dtype, cls._diff
    inverse = op_ if op_ in node.SIMPLIFY else None
    record, fold = element_recorder(op_, dtype), node.folder(op_, dtype)

    def unary(self):
        a, o, data = self._n, op_, None
        deps = nodes = (a,)
        made_by = a.op
        if made_by is LITERAL and fold is not None:
            deps, o, data = (), LITERAL, fold(a.data)
        if made_by is inverse or (made_by is LITERAL and data is None):
            return combined(cls, op_, nodes, (self._a,))
        r = new(cls)
        r._n = n = Node()
        n.op = o
        n.dtype = dtype
        n.size = a.size
        n.deps = deps
        n.data = data
        n.mark = None
        n.serial = next_serial()
        if diff:
            v = self._a
            if record is None or v is None:
                r._a = None
            else:
                r._a = record(n, nodes, (v,))
        return r

    return unary


def _forward(op_: Op, cls: Any, result: Any, general: Callable) -> Callable:
    """The operation with an array of the class on the left."""
    dtype, out, diff = cls._dtype, result._dtype, cls._diff
    record, number, special = element_recorder(op_, out), node.literals(dtype), _special(op_, dtype)
    fold, in_code = node.folder(op_, out), op_.in_code

    def forward(self, other):
        a, o = self._n, op_
        v = data = None
        if type(other) is cls:
            b, v = other._n, other._a
        elif (b := number(other)) is None:
            return general(self, other)
        deps = nodes = (a, b)
        size = a.size
        if b.op is LITERAL:
            if a.op is not LITERAL:
                plain = b.size == 1 and b.data not in special
                if in_code and plain:
                    deps, data = (a,), b.data
            else:
                if fold is not None and b.size == size:
                    deps, o, data = (), LITERAL, fold(a.data, b.data)
                plain = data is not None
        elif a.op is LITERAL:
            plain, size = size == 1 and a.data not in special, b.size
        else:
            plain = size == b.size
        if plain:
            r = new(result)
            r._n = n = Node()
            n.op = o
            n.dtype = out
            n.size = size
            n.deps = deps
            n.data = data
            n.mark = None
            n.serial = next_serial()
            if diff:
                u = self._a
                if record is None or (u is None and v is None):
                    r._a = None
                else:
                    r._a = record(n, nodes, (u, v))
            return r
        try:
            return combined(result, op_, nodes, (self._a, v))
        except RuntimeError:
            return general(self, other)

    return forward


def _backward(op_: Op, cls: Any, result: Any, general: Callable) -> Callable:
    """The operation with an array of the class on the right, and a number on the left."""
    dtype, out, diff = cls._dtype, result._dtype, cls._diff
    record, number, special = element_recorder(op_, out), node.literals(dtype), _special(op_, dtype)
    fold = node.folder(op_, out)

    def backward(self, other):
        a = number(other)
        if a is None:
            return general(self, other)
        b, o, data = self._n, op_, None
        nodes = (a, b)
        if b.op is LITERAL and fold is not None:
            data, o = fold(a.data, b.data), LITERAL
        plain = data is not None or (b.op is not LITERAL and a.data not in special)
        if not plain:
            return combined(result, op_, nodes, (None, self._a))
        r = new(result)
        r._n = n = Node()
        n.op = o
        n.dtype = out
        n.size = b.size
        n.deps = nodes if data is None else ()
        n.data = data
        n.mark = None
        n.serial = next_serial()
        if diff:
            v = self._a
            if record is None or v is None:
                r._a = None
            else:
                r._a = record(n, nodes, (None, v))
        return r

    return backward


def _binary(op_: Op, cls: Any) -> Callable:
    result = cls.Mask if op_.result == "mask" else cls
    forward = _own_code(_forward(op_, cls, result, nothing), op_.name, cls)
    backward = _own_code(_backward(op_, cls, result, nothing), op_.name, cls)

    def binary(a, b):
        return forward(a, b) if type(a) is cls else backward(b, a)

    return binary


def _ternary(op_: Op, cls: Any) -> Callable:
    dtype, diff = cls._dtype, cls._diff
    chooses = op_.result == "second"
    first = cls.Mask if chooses else cls
    record, number = element_recorder(op_, dtype), node.literals(dtype)
    fold = node.folder(op_, dtype)

    def ternary(a, b, c):
        u = v = w = data = None
        o = op_
        if type(a) is first:
            x = a._n
            if not chooses:
                u = a._a
        elif chooses or (x := number(a)) is None:
            return None
        if type(b) is cls:
            y, v = b._n, b._a
        elif (y := number(b)) is None:
            return None
        if type(c) is cls:
            z, w = c._n, c._a
        elif (z := number(c)) is None:
            return None
        deps = nodes = (x, y, z)
        size = x.size
        plain = (
            (y.size == size or (y.size == 1 and y.op is LITERAL))
            and (z.size == size or (z.size == 1 and z.op is LITERAL))
            and y is not z
        )
        if plain and x.op is LITERAL:
            if fold is not None and y.op is LITERAL and z.op is LITERAL:
                deps, o, data = (), LITERAL, fold(x.data, y.data, z.data)
            plain = data is not None
        if not plain:
            try:
                return combined(cls, op_, nodes, (u, v, w))
            except RuntimeError:
                return None
        r = new(cls)
        r._n = n = Node()
        n.op = o
        n.dtype = dtype
        n.size = size
        n.deps = deps
        n.data = data
        n.mark = None
        n.serial = next_serial()
        if diff:
            if record is None or (u is None and v is None and w is None):
                r._a = None
            else:
                r._a = record(n, nodes, (u, v, w))
        return r

    return ternary


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


def _on_components(op_: Op, cls: Any) -> Callable:
    """The operation on vectors of one class and length, beside what goes with each component."""
    entry = cls.Value
    on_entries = RECORDERS[op_][entry]
    if on_entries is nothing:
        return nothing
    result = cls.Mask if op_.result == "mask" else cls
    single, shared = frozenset((entry, float, int)), beside(entry)
    kinds = [(cls, single)] * op_.arity
    if op_.result == "second":
        kinds[0] = (cls.Mask, frozenset((entry.Mask,)))

    def on_components(*args):
        columns: list[Any] = []
        count = 0
        for (several, one), a in zip(kinds, args):  # noqa: B905
            kind = type(a)
            if kind is several:
                if count not in (0, len(a._c)):
                    return None
                count = len(a._c)
                columns.append(a._c)
            elif kind in one:
                columns.append(repeat(shared(a) if kind is float or kind is int else a))
            else:
                return None
        if not count:
            return None
        r = new(result)
        r._c = found = []
        for row in zip(*columns):  # noqa: B905
            c = on_entries(*row)
            if c is None:
                return None
            found.append(c)
        return r

    return on_components


def nothing(*_: Any) -> None:
    """What records nothing: for classes that are left to the general case."""


class _Recorders(dict[type, Callable]):
    """The functions of an operation by the class of an operand; made for the classes of the table
    when they are first asked for.
    """

    def __init__(self, op_: Op) -> None:
        super().__init__({float: nothing, int: nothing})
        self.op = op_

    def __missing__(self, cls: Any) -> Callable:
        if "__meta__" not in cls.__dict__ or self.op.arity > 3:
            return nothing
        self[cls] = made = _for_class(self.op, cls)
        return made


RECORDERS = {o: _Recorders(o) for o in ops.TABLE.values()}


def recorded(op_: Op, *args: Any) -> Any:
    """The operation on one-dimensional arrays of one class, or on vectors of them, and numbers that
    go beside these: what programs do most. None for anything else, and where something is wrong.
    """
    known = RECORDERS[op_]
    for a in reversed(args):
        result = known[type(a)](*args)
        if result is not None:
            return result
    return None


def _for_class(op_: Op, cls: Any) -> Callable:
    if cls._kind == "leaf" and op_.accepts(cls._dtype):
        made = (_unary, _binary, _ternary)[op_.arity - 1](op_, cls)
        return _own_code(made, op_.name, cls)
    meta = cls.__meta__
    of_leaves = meta.kind == "vector" and getattr(cls.Value, "_kind", "") == "leaf"
    return _on_components(op_, cls) if of_leaves and meta.is_jit else nothing

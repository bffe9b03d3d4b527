"""Fast paths for element-wise operations on traced one-dimensional arrays of one class, and on
vectors of these, possibly combined with Python numbers. They exist as functions generated for each
operation and class (`recorded`), and as operators.

A program pays for tracing in every iteration, so these functions build the node themselves if sizes
agree. Everything else (promotion, other kinds of arrays, errors) is left to `elementwise` and to
the general operators of `ArrayBase`.
"""

from collections.abc import Callable
from functools import cache, partial
from itertools import repeat
from types import FunctionType
from typing import Any

from ..ad.algebra import element_recorder
from ..ad.graph import Var, append, scopes, taped
from ..jit.ir import node
from ..jit.ir import op as ops
from ..jit.ir.dtype import DType
from ..jit.ir.node import LITERAL, Node, serials
from ..jit.ir.op import Op
from ..jit.run import bytecode, launch
from .leaf import combined, constants, new


def operators(cls: type, mask: type, general: type) -> dict[str, Callable]:
    """Returns the operator methods of a class whose comparisons return `mask`; `general` has the
    general methods."""
    found: dict[str, Callable] = {}
    for op_ in ops.ARITHMETIC:
        if op_.accepts(cls._dtype):
            forward, backward = f"__{op_.method}__", f"__r{op_.method}__"
            otherwise = _or_vector(cls, backward, getattr(general, forward))
            found[forward] = _forward(op_, cls, cls, otherwise)
            found[backward] = _backward(op_, cls, cls, getattr(general, backward))
            found[f"__i{op_.method}__"] = _in_place(cls, found[forward])
    for op_ in ops.COMPARISONS:
        if op_.accepts(cls._dtype):
            name = f"__{op_.method}__"
            found[name] = _forward(op_, cls, mask, getattr(general, name))
    for op_ in ops.UNARY:
        if op_.accepts(cls._dtype):
            found[f"__{op_.method}__"] = _unary(op_, cls, cls, nothing)
    return {name: own_code(f, name, cls) for name, f in found.items()}


def own_code(f: Any, name: str, cls: type) -> Callable:
    """Returns the function with its own code object, because the interpreter specializes code for
    the types that it encounters.
    """
    code = f.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    method = FunctionType(code, f.__globals__, name, None, f.__closure__)
    method.__qualname__ = code.co_qualname
    return method


def _or_vector(cls: type, backward: str, general: Callable) -> Callable:
    """Returns the general operator with a short way for a vector of such arrays on the right, whose
    reflected operator goes through its components. Errors are those of the general operator."""

    vectors = set()

    def method(self, other):
        kind: Any = type(other)
        if kind not in vectors:
            own = getattr(kind, "Value", None) is cls and "__meta__" in vars(kind)
            if not own or kind.__meta__.kind != "vector":
                return general(self, other)
            vectors.add(kind)
        try:
            return getattr(kind, backward)(other, self)
        except RuntimeError:
            return general(self, other)

    return method


def special_numbers(op_: Op, dtype: DType) -> tuple[tuple, tuple]:
    """Returns the numbers that may simplify an operation as its first and as its second operand."""
    if dtype.is_mask:
        return (False, True), (False, True)
    simple = (1,) if op_ is ops.mul and dtype.is_float else op_.simple
    return (simple if op_ in _COMMUTATIVE else ()), simple


_COMMUTATIVE = frozenset((ops.add, ops.mul, ops.and_, ops.or_, ops.xor))


class _Ordinary(dict[float, float | None]):
    """See `ordinary_numbers`. Programs use the same few constants over and over."""

    def __init__(self, dtype: DType, special: tuple) -> None:
        super().__init__()
        self._dtype, self._special = dtype, special

    def __missing__(self, value: float) -> float | None:
        if len(self) >= 4096:
            self.clear()
        found, t = value, self._dtype
        if value and t.is_float:
            found = node.ROUNDED[t][value]
        elif not t.low <= value <= t.high:
            found = None
        self[value] = found = None if not found or found in self._special else found
        return found


@cache
def ordinary_numbers(dtype: DType, special: tuple) -> dict[float, float | None]:
    """Returns a table of numbers rounded to the type; None for zeros, of which two compare equal if
    they are floats, for the `special` numbers, which may simplify an operation, and for integers
    that the type does not have."""
    return _Ordinary(dtype, special)


# The source of the function that records an operation; there is one function per operation and
# class. It defines how each operand is turned into a node `x0`, `x1`, ... and a variable: an array
# of the class, an array or a number, a number, or a mask.
_OPERANDS = {
    "array": """
        {x} = {a}._node
        {v} = {a}._var""",
    "either": """
        {v} = None
        if type({a}) is cls:
            {x} = {a}._node
            {v} = {a}._var
        elif type({a}) is number_type and (value := ordinary[{a}]) is not None:
            {x} = x = Node()
            x.op = LITERAL
            x.dtype = dtype
            x.size = 1
            x.deps = ()
            x.data = value
            x.mark = None
            x.serial = next(serials)
            is_ordinary = True
        elif ({x} := number({a})) is None:
            return general({parameters})""",
    "number": """
        if ({x} := number({a})) is None:
            return general({parameters})""",
    "mask": """
        if type({a}) is not mask:
            return general({parameters})
        {x} = {a}._node""",
}
# Whether the node is `plain`: the operation `o` on `deps`, or a literal with `data`; not where it
# simplifies.
_UNARY = """
        made_by = x0.op
        plain = made_by is not inverse
        if made_by is LITERAL:
            if fold is not None:
                deps, o, data = (), LITERAL, fold(x0.data)
            plain = data is not None"""
_FORWARD = """
        if x1.op is LITERAL:
            if x0.op is not LITERAL:
                plain = is_ordinary or (x1.size == 1 and size and x1.data not in special)
                if in_code and plain:
                    deps, data = (x0,), x1.data
            else:
                if fold is not None and x1.size == size:
                    deps, o, data = (), LITERAL, fold(x0.data, x1.data)
                plain = data is not None
        elif x0.op is LITERAL:
            plain, size = size == 1 and x1.size and x0.data not in first, x1.size
        elif (width := x1.size) != size:
            plain = (size == 1 and width != 0) or (width == 1 and size != 0)
            if plain and size == 1:
                size = width"""
_BACKWARD = """
        size = x1.size
        if x1.op is LITERAL:
            if fold is not None:
                deps, o, data = (), LITERAL, fold(x0.data, x1.data)
            plain = data is not None
        else:
            plain = x0.data not in first"""
_TERNARY = """
        width, width2 = x1.size, x2.size
        plain = x1 is not x2 or inverse is None
        if x0.op is LITERAL and (inverse is not None or x1.op is x2.op is LITERAL):
            if plain and fold is not None and x1.op is x2.op is LITERAL:
                if (width == size or (width == 1 and size)) and (
                    width2 == size or (width2 == 1 and size)
                ):
                    deps, o, data = (), LITERAL, fold(x0.data, x1.data, x2.data)
            plain = data is not None
        elif width != size or width2 != size:
            if size == 1:
                size = width2 if width == 1 else width
            if not size or (width != size and width != 1) or (width2 != size and width2 != 1):
                plain = False"""
_TRACK = """
            if record is None or ({untracked}):
                r._var = None
            elif scopes:
                r._var = record(n, nodes, ({variables}))
            else:
                r._var = v = Var()
                v.rule = rule
                v.deps = ({variables})
                v.dtype = out
                v.size = size
                v.inputs = nodes if keeps_inputs else ()
                v.result = n if keeps_result else None
                v.data = v.grad = v.grad_var = v.mark = None
                v.serial = n.serial
                if taped:
                    append(v)"""
_TEXT = """
def make(op_, cls, result, general):
    dtype, out = cls._dtype, result._dtype
    fold, number = node.folder(op_, out), node.literals(dtype)
    rule, record = element_recorder(op_, out)
    keeps_inputs, keeps_result = rule and rule.keeps_inputs, rule and rule.keeps_result
    first, special = special_numbers(op_, dtype)
    number_type = ordinary = None
    if dtype.is_float:
        number_type, ordinary = float, ordinary_numbers(dtype, special)
    in_code, inverse, mask = op_.in_code, op_ if op_ in node.SIMPLIFY else None, cls.Mask

    def recorded({parameters}):
        o, data = op_, None{start}{operands}
        deps = nodes = ({nodes})
        size = x0.size{check}
        if plain:
            r = new(result)
            r._node = n = Node()
            n.op = o
            n.dtype = out
            n.size = size
            n.deps = deps
            n.data = data
            n.mark = None
            n.serial = next(serials){track}
            return r
        try:
            return combined(result, op_, nodes, ({variables}), ({given}))
        except RuntimeError:
            return general({parameters})

    return recorded
"""


def _maker(parameters: str, operands: dict[str, str], check: str) -> Callable[..., Any]:
    """Returns the factory of the functions of one form, given the form of each operand. Its
    arguments are an operation, the class, the class of results, and a fallback for other
    operands."""
    compiled = cache(partial(_compiled, parameters, operands, check))
    return lambda op_, cls, result, general: compiled(cls._diff)(op_, cls, result, general)


def _compiled(parameters: str, operands: dict[str, str], check: str, diff: bool) -> Any:
    """Compiles the factory for classes with or without derivatives."""
    variables = [
        f"v{k}" if diff and "{v}" in _OPERANDS[kind] else "None"
        for k, kind in enumerate(operands.values())
    ]
    read = ""
    for k, (a, kind) in enumerate(operands.items()):
        lines = [line for line in _OPERANDS[kind].split("\n") if diff or "{v}" not in line]
        read += "\n".join(lines).format(x=f"x{k}", v=f"v{k}", a=a, parameters=parameters)
    all_variables = "".join([f"{v}, " for v in variables])
    untracked = " and ".join([f"{v} is None" for v in variables if v != "None"])
    text = _TEXT.format(
        parameters=parameters,
        start="\n        plain, is_ordinary = True, False" if check is _FORWARD else "",
        operands=read,
        nodes="".join([f"x{k}, " for k in range(len(operands))]),
        given="".join([f"{a}, " for a in operands]),
        check=check,
        track=_TRACK.format(untracked=untracked, variables=all_variables) if diff else "",
        variables=all_variables,
    )
    names: dict[str, Any] = {
        "LITERAL": LITERAL, "Node": Node, "__name__": __name__, "combined": combined, "new": new,
        "append": append, "element_recorder": element_recorder, "node": node,
        "ordinary_numbers": ordinary_numbers, "special_numbers": special_numbers,
        "scopes": scopes, "serials": serials, "taped": taped, "Var": Var,
    }  # fmt: skip
    exec(bytecode.compiled(text), names)
    return names["make"]


_unary = _maker("self", {"self": "array"}, _UNARY)
_forward = _maker("self, other", {"self": "array", "other": "either"}, _FORWARD)
_backward = _maker("self, other", {"other": "number", "self": "array"}, _BACKWARD)
_ternary = _maker("a, b, c", {"a": "either", "b": "either", "c": "either"}, _TERNARY)
_select = _maker("a, b, c", {"a": "mask", "b": "either", "c": "either"}, _TERNARY)


def _binary(op_: Op, cls: Any, result: Any, general: Callable) -> Callable:
    forward = own_code(_forward(op_, cls, result, general), op_.name, cls)
    backward = own_code(_backward(op_, cls, result, general), op_.name, cls)

    def binary(a, b):
        return forward(a, b) if type(a) is cls else backward(b, a)

    return binary


def _in_place(cls: type, operator: Callable) -> Callable:
    diff = cls._diff

    def in_place(self, other):
        r = operator(self, other)
        if type(r) is not cls:
            return r
        if launch.on_change is not None:
            launch.on_change(self, self._node)
        self._node = r._node
        if diff:
            self._var = r._var
        return self

    return in_place


def _on_components(op_: Op, cls: Any) -> Callable:
    """Returns the operation on vectors of one class and length, combined with operands that are
    broadcast to the components."""
    entry = cls.Value
    on_entries = RECORDERS[op_][entry]
    if on_entries is nothing:
        return nothing
    result = cls.Mask if op_.result == "mask" else cls
    single, shared = frozenset((entry, float, int)), constants(entry)
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
        return collected(map(on_entries, *columns))

    def on_pair(a, b):
        kind, other = type(a), type(b)
        if kind is cls:
            xs = a._components
            if other is cls:
                ys = b._components
                if len(xs) != len(ys):
                    return None
            elif other in single:
                ys = repeat(shared(b) if other is float or other is int else b)
            else:
                return None
        elif other is cls and kind in single:
            xs = repeat(shared(a) if kind is float or kind is int else a)
            ys = b._components
        else:
            return None
        return collected(map(on_entries, xs, ys))

    def on_one(a):
        return collected(map(on_entries, a._components)) if type(a) is cls else None

    def collected(entries):
        found = list(entries)
        for c in found:
            if c is None:
                return None
        if not found:
            return None
        r = new(result)
        r._components = found
        return r

    return (on_one, on_pair, on_components)[op_.arity - 1]


def _on_storage(op_: Op, cls: Any) -> Callable:
    """Returns the operation on tensors of one class and shape, combined with numbers."""
    known, flat = RECORDERS[op_], cls.Array
    if known[flat] is nothing:
        return nothing
    result = cls.Mask if op_.result == "mask" else cls
    first = cls.Mask if op_.result == "second" else cls

    def wrapped(array, shape):
        if array is None:
            return None
        r = new(result)
        r._array = array
        r._shape = shape
        return r

    def entries(x, shape):
        """The array of a tensor of that shape, or a number; None for anything else."""
        kind = type(x)
        if kind is cls:
            return x._array if x._shape == shape else None
        return x if kind is float or kind is int else None

    def unary(a):
        return wrapped(known[flat](a._array), a._shape)

    def binary(a, b):
        if type(a) is cls:
            shape, x = a._shape, a._array
            y = entries(b, shape)
        elif type(b) is cls:
            shape, y = b._shape, b._array
            x = entries(a, shape)
        else:
            return None
        return None if x is None or y is None else wrapped(known[flat](x, y), shape)

    def ternary(a, b, c):
        if type(a) is not first:
            return None
        shape = a._shape
        y, z = entries(b, shape), entries(c, shape)
        return None if y is None or z is None else wrapped(known[flat](a._array, y, z), shape)

    return (unary, binary, ternary)[op_.arity - 1]


def nothing(*_: Any) -> None:
    """Records nothing: for classes that are left to the general case."""


class _Recorders(dict[type, Callable]):
    """The recorders of an operation by the class of an operand, created on first use for the
    classes of the table.
    """

    def __init__(self, op_: Op) -> None:
        super().__init__({float: nothing, int: nothing})
        self.op = op_

    def __missing__(self, cls: Any) -> Callable:
        if "__meta__" not in cls.__dict__ or self.op.arity > 3:
            return nothing
        made = _for_class(self.op, cls)
        self[cls] = made = made if _native is None else _native(self.op, cls, made)
        return made


_native: Callable[[Op, type, Callable], Callable] | None = None
derived: list[dict[type, Callable]] = []
"""Tables of functions that consist of recorders."""


def use_native(form: Callable[[Op, type, Callable], Callable]) -> None:
    """Has all recorders take the form that the function gives them."""
    global _native
    _native = form
    for op_, known in RECORDERS.items():
        for cls, function in [*known.items()]:
            if cls is float or cls is int:
                continue
            if getattr(cls, "_kind", "") == "leaf":
                known[cls] = form(op_, cls, function)
            else:
                del known[cls]  # made again, from those of its components
    for made in derived:
        made.clear()


RECORDERS = {o: _Recorders(o) for o in ops.TABLE.values()}


def _recorded(op_: Op) -> Callable:
    known = RECORDERS[op_]

    def unary(a: Any) -> Any:
        return known[type(a)](a)

    def binary(a: Any, b: Any) -> Any:
        result = known[type(b)](a, b)
        return known[type(a)](a, b) if result is None else result

    def ternary(a: Any, b: Any, c: Any) -> Any:
        for kind in type(c), type(b), type(a):
            result = known[kind](a, b, c)
            if result is not None:
                return result
        return None

    return (nothing, unary, binary, ternary, nothing)[min(op_.arity, 4)]


RECORDED = {o: _recorded(o) for o in ops.TABLE.values()}
"""Functions that apply an operation to one-dimensional arrays of one class, or vectors of them, and
numbers that combine with these, which covers most operations in programs, and to tensors of one
shape. They return None for anything else, including errors."""


def _for_class(op_: Op, cls: Any) -> Callable:
    if cls._kind == "leaf" and op_.accepts(cls._dtype):
        form = _select if op_.result == "second" else (_unary, _binary, _ternary)[op_.arity - 1]
        made = form(op_, cls, cls.Mask if op_.result == "mask" else cls, nothing)
        return own_code(made, op_.name, cls)
    meta = cls.__meta__
    if meta.kind == "tensor" and meta.is_jit:
        return _on_storage(op_, cls)
    of_leaves = meta.kind == "vector" and getattr(cls.Value, "_kind", "") == "leaf"
    return _on_components(op_, cls) if of_leaves and meta.is_jit else nothing

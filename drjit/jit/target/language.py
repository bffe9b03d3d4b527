"""The kernel language: its operators and statements, and the types of their results.

A text does not state the types of values, so its readers infer them by the rules of this module,
forward from the statements that name a type. The reader of users' texts (`drjit.jit.text.user`)
reports what has no type; the targets rely on that.
"""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from ..ir import op
from ..ir.dtype import BY_CODE, DType, mask, vector
from ..tuples import NamedTuple
from . import library

INFIXES: dict[str, type] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "&": ast.BitAnd, "|": ast.BitOr,
    "^": ast.BitXor, "==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt,
    ">=": ast.GtE,
}  # fmt: skip
PREFIXES: dict[str, type] = {"-": ast.USub, "~": ast.Invert}
OPERATORS: dict[type, op.Op] = {
    (PREFIXES if o.kind == "prefix" else INFIXES)[o.text]: o
    for o in op.TABLE.values()
    if o.kind in ("prefix", "infix")
}
"""The operations that operators in a text stand for."""

CALLABLE = {o.text: o for o in op.TABLE.values() if o.kind == "call"}
"""Element-wise operations that are calls, by their names."""


class Statement(NamedTuple):
    """A call. `arguments` says how each of them is read in a user's text (see `CallText` in
    `drjit.jit.text.user.accesses`), with a star before the kind of all further ones; `result` is an
    element type, T for that of the first argument, T* for several values of that type, V for a
    vector, or `-` for none. With `outside`, it belongs outside of loops, branches and functions."""

    name: str
    arguments: tuple[str, ...]
    result: str
    op: op.Op
    outside: bool

    @property
    def is_of_vectors(self) -> bool:
        """Whether it takes or returns whole vectors."""
        return self.result == "V" or not {"vector", "features"}.isdisjoint(self.arguments)


_ROWS = """
lane                  u32  lane i
active                mask active i
load                  T    buffer type load i
broadcast             T    buffer type broadcast
literal               T    literal type number
load_vector           V    buffer type integer vectors i
broadcast_vector      V    buffer type integer one_vector
store_vector          -    copy type integer stored_vectors i features outside
bitcast               T    bitcast type operand
going                 mask active record mask
in_bounds             mask in_bounds record site index size mask
gather                T    gather type source index mask
gather_packet         T*   packet type source index mask count
gather_weighted       T*   weighted type source mask count *tap
scatter               -    scatter type target value index mask
scatter_packet        -    scatter_packet type target index mask *value
scatter_reduce        -    scatter_reduce type reduction mode target value index mask
scatter_reduce_expand -    scatter_reduce type reduction expanded value index mask
scatter_reduce_packet -    scatter_reduce_packet type reduction expanded index mask *value
scatter_inc           T    scatter_inc type target index mask
scatter_exch          T    scatter_exch type target value index mask
scatter_cas           T    scatter_cas type target value value index mask
vector                V    vector type *value
splat                 V    splat type integer value
feature               T    feature vector feature
total                 T    total vector
take                  T    take vector feature mask
put                   V    put vector feature value mask
matvec                V    matvec type matrix offset integer integer integer flag vector *bias
outer                 -    outer type expanded offset integer integer integer vector vector mask
accumulate            -    accumulate type expanded offset vector mask
store                 -    copy type store i value outside
stream                -    copy type store i value outside
reduce                -    reduce type reduction reduced i value outside
"""

STATEMENTS: dict[str, Statement] = {}
for _row in _ROWS.strip().splitlines():
    _name, _result, _op, *_rest = _row.split()
    _outside = _rest[-1] == "outside"
    _arguments = tuple(_rest[:-1] if _outside else _rest)
    STATEMENTS[_name] = Statement(_name, _arguments, _result, op.TABLE[_op], _outside)

PRIMITIVES = {
    "block_reduce": ("T", "dr.block_reduce()"),
    "scan_totals": ("-", "dr.prefix_reduce()"),
    "scan": ("T", "dr.prefix_reduce()"),
    "scan_blocks": ("T", "dr.block_prefix_reduce()"),
    "compress": ("-", "dr.compress()"),
    "radix_count": ("-", "dr.sort()"),
    "radix_move": ("-", "dr.sort()"),
    "matmul": ("-", "the operator @"),
    "reduce_rows": ("-", "dr.sum() with an axis"),
}
"""Statements of primitives, which texts of users cannot have: their results, and what to call."""

REFUSED = {
    name: f"belongs to an operation of several launches: call {instead} on arrays instead"
    for name, (_, instead) in PRIMITIVES.items()
} | {
    "table": "belongs to functions of the library: gather() from an array",
    "polynomial": "belongs to functions of the library: write it with fma()",
    "any_lane": "is only the test of if and while",
    "all_lanes": "is only the test of if and while",
}
"""Calls of the language that users' texts cannot have, and why."""

INSTEAD: dict[type, str] = {
    ast.FloorDiv: "// is quotient(x, y), truncated as in C",
    ast.Mod: "% is remainder(x, y), with the sign of x",
    ast.Pow: "** is pow(x, y)",
    ast.LShift: "<< is shl(x, y)",
    ast.RShift: ">> is shr(x, y)",
    ast.MatMult: "@ is not part of the language",
    ast.BoolOp: "masks are combined by & and |",
    ast.Not: "a mask is inverted by ~",
    ast.IfExp: "a choice for each lane is select(m, x, y)",
    ast.For: "loops are `while any_lane(m):`",
    ast.Subscript: "p[k] belongs into calls such as load(f32, p[k], i)",
    ast.AnnAssign: "types of variables are inferred: leave out the annotation",
    ast.NamedExpr: "assignments are statements",
}
"""What to write in place of expressions of Python that the language does not have."""

NAMES = frozenset(
    (*STATEMENTS, *CALLABLE, *BY_CODE, *library.names, "any_lane", "all_lanes", "i", "p", "kernel")
)
"""Names with a meaning in a text, which its variables cannot have."""


def operand_type(o: op.Op, types: Sequence[DType | None]) -> DType:
    """Returns the type that the operands of an element-wise operation have in common. `None` stands
    for a number, which takes the type of the others, and a scalar for all features of a vector.

    Raises:
        TypeError: there is none, or the operation does not exist for it.
    """
    if len(types) != o.arity:
        raise TypeError(f"{o.text} takes {o.arity} operands, not {len(types)}")
    if o.result == "second":
        first = types[0]
        if first is None or not first.is_mask:
            code = "a number" if first is None else first.code
            raise TypeError(f"the condition of {o.text} is {code}, not mask")
    own = [t for t in types[o.result == "second" :] if t is not None]
    elements = dict.fromkeys([t.element for t in own])
    if not elements:
        raise TypeError(f"the operands of {o.text} have no type: write f32(...)")
    if len(elements) > 1:
        codes = " and ".join([t.code for t in elements])
        hint = f"{own[0].element.code}(...) converts one"
        raise TypeError(f"the operands of {o.text} have the types {codes}; {hint}")
    counts = {t.count for t in types if t is not None and t.is_vector}
    if len(counts) > 1:
        raise TypeError(f"the vectors have {' and '.join(map(str, sorted(counts)))} features")
    (t,) = elements
    if not o.accepts(t):
        hint = " (integers: quotient(x, y))" if o is op.div and t.is_int else ""
        raise TypeError(f"{o.text} does not exist for {t.code}{hint}")
    return vector(t, counts.pop()) if counts else t


def result_type(o: op.Op, t: DType) -> DType:
    """Returns the type of an element-wise operation on operands of a type."""
    return t.mask_type if o.result == "mask" else t


def result_types(name: str, arguments: Sequence[Any]) -> tuple[DType, ...]:
    """Returns the types of the results of an operation or statement. Of the arguments, only types
    (of values, or named by the text), numbers and flags matter.

    Raises:
        TypeError: the operation does not exist for them.
    """
    statement = STATEMENTS.get(name)
    result = statement.result if statement is not None else PRIMITIVES.get(name, ("",))[0]
    if result == "-":
        return ()
    if result == "T":
        return (arguments[0].element,)
    if statement is not None and result == "T*":
        return (arguments[0],) * arguments[statement.arguments.index("count")]
    if statement is not None:
        t = _vector_type(statement, arguments) if result == "V" else BY_CODE[statement.result]
        return (t,)
    types = [_of_operand(a) for a in arguments]
    if name in BY_CODE:
        (t,), to = types, BY_CODE[name]
        return (vector(to, t.count) if t is not None and t.is_vector else to,)
    o = op.TABLE["sin" if name == "sincos" else name]
    found = result_type(o, operand_type(o, types))
    return (found,) * (2 if name == "sincos" else 1)


def _of_operand(argument: Any) -> DType | None:
    if isinstance(argument, bool):
        return mask
    return argument if isinstance(argument, DType) else None


def _vector_type(statement: Statement, arguments: Sequence[Any]) -> DType:
    if statement.op is op.put:
        return arguments[0]
    if statement.op is op.matvec:
        rows, columns = arguments[3:5]
        return vector(arguments[0], columns if arguments[6] else rows)
    return vector(arguments[0], len(arguments) - 1 if statement.op is op.vector else arguments[1])


def target_names(s: ast.stmt) -> list[str]:
    """Returns the names that an assignment defines."""
    nodes: list[Any] = getattr(s, "targets", None) or [getattr(s, "target", None)]
    names = [n for node in nodes for n in (node.elts if type(node) is ast.Tuple else [node])]
    return [n.id for n in names if type(n) is ast.Name]


def assigned(statements: Iterable[ast.stmt]) -> list[str]:
    """Returns the names that statements assign, in order of appearance."""
    names: dict[str, None] = {}
    for s in statements:
        inner = assigned(s.body) if isinstance(s, ast.If | ast.While) else target_names(s)
        names |= dict.fromkeys(inner)
    return list(names)

"""The statements of the kernel language as they may stand in a text that a user wrote: for each
name its arguments, its result and the operation that it is. Texts are read by this table.

Element-wise operations are not in it: the table of operations has them.
"""

import ast

from ...ir import op
from ...ir.dtype import BY_CODE
from ...target import library
from ...tuples import NamedTuple


class Statement(NamedTuple):
    """A call. `arguments` names what reads each of them (see `accesses.Call`), a star what reads
    all further ones; `result` is an element type, T for the type that the first argument names, T*
    for several values of that, V for a vector, `-` for none. With `outside`, it belongs outside of
    loops, branches and functions."""

    name: str
    arguments: tuple[str, ...]
    result: str
    op: op.Op
    outside: bool


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

CALLABLE = {o.text: o for o in op.TABLE.values() if o.kind == "call"}
"""Element-wise operations that are calls, by their names."""

_SPELLED = {o.text: o for o in op.TABLE.values() if o.kind == "infix"}
OPERATORS: dict[type, op.Op] = {
    ast.Add: _SPELLED["+"], ast.Sub: _SPELLED["-"], ast.Mult: _SPELLED["*"],
    ast.Div: _SPELLED["/"], ast.BitAnd: _SPELLED["&"], ast.BitOr: _SPELLED["|"],
    ast.BitXor: _SPELLED["^"], ast.Eq: _SPELLED["=="], ast.NotEq: _SPELLED["!="],
    ast.Lt: _SPELLED["<"], ast.LtE: _SPELLED["<="], ast.Gt: _SPELLED[">"],
    ast.GtE: _SPELLED[">="], ast.USub: op.TABLE["neg"], ast.Invert: op.TABLE["not_"],
}  # fmt: skip

_LAUNCHES = "belongs to an operation of several launches: call {} on arrays instead"
REFUSED = {
    "block_reduce": _LAUNCHES.format("dr.block_reduce()"),
    "scan_totals": _LAUNCHES.format("dr.prefix_reduce()"),
    "scan": _LAUNCHES.format("dr.prefix_reduce()"),
    "scan_blocks": _LAUNCHES.format("dr.block_prefix_reduce()"),
    "compress": _LAUNCHES.format("dr.compress()"),
    "radix_count": _LAUNCHES.format("dr.sort()"),
    "radix_move": _LAUNCHES.format("dr.sort()"),
    "matmul": _LAUNCHES.format("the operator @"),
    "reduce_rows": _LAUNCHES.format("dr.sum() with an axis"),
    "table": "belongs to functions of the library: gather() from an array",
    "polynomial": "belongs to functions of the library: write it with fma()",
    "any_lane": "is only the test of if and while",
    "all_lanes": "is only the test of if and while",
}
"""Calls of the language that a text of the user's cannot have, and why."""

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

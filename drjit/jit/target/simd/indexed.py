"""Features of vectors at an index that differs between lanes."""

import ast
from typing import Any

from . import elementwise
from .feature_loop import from_row, load_row, spelled, store_row, to_row
from .ir import BYTES, SCALAR, Function, KernelError, Value
from .memory import each_lane
from .translate import ACTIVE, CALLS
from .vector import VectorTranslator
from .vector_memory import HELD, Vector, row_code, row_type

# Vectors of up to so many features are read and written row by row.
_ROWS = 8


def _index(t: VectorTranslator, e: ast.expr) -> str:
    code, index = t.typed(e)
    if code != "u32":
        raise KernelError(f"{ast.unparse(e)} is {code}, not u32")
    return index


def _row(f: Function, v: Vector, place: str, k: int) -> str:
    return f.op(f"getelementptr {row_type(v.code, f.lanes)}, ptr {place}, i64 {k}") if k else place


def _position(f: Function, index: str) -> str:
    """Where the feature of each lane lies, in elements."""
    kind = f.vector["u32"]
    first = f.op(f"mul {kind} {index}, {f.constant('u32', f.lanes)}")
    return f.op(f"add {kind} {first}, <{f.types.iota}>")


def _addresses(f: Function, code: str, place: str, index: str) -> str:
    element = SCALAR[row_code(code)]
    return f.op(f"getelementptr {element}, ptr {place}, {f.vector['u32']} {_position(f, index)}")


def _suffix(f: Function, code: str) -> str:
    return f"{f.types.suffix[row_code(code)]}.v{f.lanes}p0"


def _operand(f: Function, code: str, place: str, index: str) -> str:
    """Pointers to the features of the lanes, as an operand of masked accesses."""
    addresses = _addresses(f, code, place, index)
    return f"<{f.lanes} x ptr> align {BYTES[row_code(code)]} {addresses}"


def take(t: VectorTranslator, e: ast.expr, x: ast.expr, m: ast.expr) -> Value:
    """`take(v, x, m)`."""
    f, v, index, mask = t.f, t.vector(e), _index(t, x), t.mask(m)
    place, kind, test = t.place(v), row_type(v.code, f.lanes), f.vector["mask"]
    if v.count <= _ROWS:
        result = load_row(f, v.code, place)
        held = f.vector[HELD[v.code]]
        for k in range(1, v.count):
            here = f.op(f"icmp eq {f.vector['u32']} {index}, {f.constant('u32', k)}")
            row = load_row(f, v.code, _row(f, v, place, k))
            result = f.op(f"select {test} {here}, {held} {row}, {held} {result}")
        if mask != ACTIVE:
            result = f.op(f"select {test} {mask}, {held} {result}, {held} zeroinitializer")
    else:
        where = f"{_operand(f, v.code, place, index)}, {test} {mask}, {kind} zeroinitializer"
        result = f.op(f"call {kind} @llvm.masked.gather.{_suffix(f, v.code)}({where})")
        result = from_row(f, v.code, result)
    return v.code, elementwise.narrow(f, result) if v.code == "f16" else result


def put(t: VectorTranslator, e: ast.expr, x: ast.expr, y: ast.expr, m: ast.expr) -> Value:
    """`put(v, x, y, m)`: in place where nothing needs the vector as it was."""
    f, v, mask = t.f, t.vector(e), t.mask(m)
    _, value = t.typed(y, v.code)
    constant = t.integer(x) if type(x) is ast.Constant else None
    index = _index(t, x) if constant is None else ""
    result = _own(t, e, v)
    place = t.place(result)
    if v.code == "f16":
        value = elementwise.widen(f, value)
    if constant is not None:
        if not 0 <= constant < v.count:
            raise KernelError(f"a vector of {v.count} features has no feature {constant}")
        _replace(f, v, _row(f, v, place, constant), value, mask)
    elif v.count <= _ROWS:
        for k in range(v.count):
            here = f.op(f"icmp eq {f.vector['u32']} {index}, {f.constant('u32', k)}")
            here = f.op(f"and {f.vector['mask']} {here}, {mask}")
            _replace(f, v, _row(f, v, place, k), value, here)
    else:
        _scatter(f, v, place, index, to_row(f, v.code, value), mask)
    return spelled(result)


def _own(t: VectorTranslator, e: ast.expr, v: Vector) -> Vector:
    """A vector that can be changed, with the features of another one: its memory, if nothing needs
    that any more, or a copy."""
    t.flush([v])
    slot: Any = v.slot
    name = e.id if type(e) is ast.Name else ""
    if name in t.dying and not slot.uniform and slot.holders <= 1:
        result = Vector(v.code, v.count)
        result.slot = slot
        return result
    return t.copied(v, t.room(v, (), t.homes_of(t.target)))


def _replace(f: Function, v: Vector, row: str, value: str, mask: str) -> None:
    """Another feature in the lanes of a mask; the others may get anything where it is that of the
    active lanes."""
    if mask != ACTIVE:
        held, old = f.vector[HELD[v.code]], load_row(f, v.code, row)
        value = f.op(f"select {f.vector['mask']} {mask}, {held} {value}, {held} {old}")
    store_row(f, v.code, value, row)


def _scatter(f: Function, v: Vector, place: str, index: str, value: str, mask: str) -> None:
    code = row_code(v.code)
    if f.lanes >= 16:
        kind = row_type(v.code, f.lanes)
        where = f"{_operand(f, v.code, place, index)}, {f.vector['mask']} {mask}"
        f.do(f"call void @llvm.masked.scatter.{_suffix(f, v.code)}({kind} {value}, {where})")
        return

    def body(elements: list[str]) -> None:
        element = SCALAR[code]
        at = f.op(f"zext i32 {elements[1]} to i64")
        address = f.op(f"getelementptr {element}, ptr {place}, i64 {at}")
        f.do(f"store {element} {elements[0]}, ptr {address}, align {BYTES[code]}")

    each_lane(f, mask, [(code, value), ("u32", _position(f, index))], body)


CALLS.update({"take": take, "put": put})

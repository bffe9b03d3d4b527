"""Features of vectors at an index that varies between lanes."""

import ast
from typing import Any

from . import feature_loop
from .arguments import statement
from .ir import BYTES, SCALAR, Function, Value
from .memory import gather_masked, lane_addresses, scatter_masked
from .translate import ACTIVE
from .vector import VectorTranslator
from .vector_memory import HELD, FeatureVector, row_code, row_type


def _goes_by_rows(f: Function, v: FeatureVector) -> bool:
    """Returns whether all rows are read and written: for few features, and for somewhat more with
    the masks and the many registers of AVX-512."""
    return v.count <= (8 if f.machine.has_gathers else 4)


def _is(f: Function, index: str, k: int) -> str:
    """Returns the lanes whose index equals a number."""
    return f.op(f"icmp eq {f.vector['u32']} {index}, {f.constant('u32', k)}")


def _position(f: Function, index: str) -> Value:
    """Returns the position of each lane's feature, in elements."""
    kind = f.vector["u32"]
    first = f.op(f"mul {kind} {index}, {f.constant('u32', f.lanes)}")
    return "u32", f.op(f"add {kind} {first}, <{f.types.iota}>")


@statement("vector node mask")
def take(t: VectorTranslator, v: FeatureVector, x: ast.expr, mask: str) -> Value:
    """`take(v, x, m)`."""
    f, (_, index), held = t.f, t.typed(x, "u32"), HELD[v.code]
    place = t.place(v)
    if _goes_by_rows(t.f, v):
        result = feature_loop.load_row(f, v.code, place)
        for k in range(1, v.count):
            here = _is(f, index, k)
            row = feature_loop.load_row(f, v.code, feature_loop.row_address(f, v.code, place, k))
            result = f.select(held, here, row, result)
        if mask != ACTIVE:
            result = f.select(held, mask, result)
    else:
        result = gather_masked(f, row_code(v.code), place, _position(f, index), mask)
        result = feature_loop.from_row(f, v.code, result)
    return v.code, feature_loop.from_held(f, v.code, result)


@statement("node node node mask")
def put(t: VectorTranslator, e: ast.expr, x: ast.expr, y: ast.expr, mask: str) -> Value:
    """`put(v, x, y, m)`: in place if nothing needs the previous vector."""
    f, v = t.f, t.vector(e)
    value = feature_loop.to_held(f, v.code, t.typed(y, v.code)[1])
    constant = t.integer(x) if type(x) is ast.Constant else None
    index = t.typed(x, "u32")[1] if constant is None else ""
    result = _own(t, e, v)
    place = t.place(result)
    if constant is not None:
        _replace(f, v, feature_loop.row_address(f, v.code, place, constant), value, mask)
    elif _goes_by_rows(t.f, v):
        for k in range(v.count):
            here = f.op(f"and {f.vector['mask']} {_is(f, index, k)}, {mask}")
            _replace(f, v, feature_loop.row_address(f, v.code, place, k), value, here)
    else:
        row = feature_loop.to_row(f, v.code, value)
        _scatter(f, v, place, row, _position(f, index), mask)
    return feature_loop.spelled(result)


def _scatter(f: Function, v: FeatureVector, place: str, row: str, index: Value, mask: str) -> None:
    """Stores the feature at a position. Without an instruction for that, lanes that are not in the
    mask store theirs too, to the row that follows the vector."""
    code = row_code(v.code)
    if f.machine.has_gathers:
        scatter_masked(f, code, place, row, index, mask)
        return
    spare = _position(f, f.constant("u32", v.count))
    index = "u32", f.select("u32", mask, index[1], spare[1])
    for k, address in enumerate(lane_addresses(f, SCALAR[code], place, index)):
        x = f.op(f"extractelement {row_type(code, f.lanes)} {row}, i32 {k}")
        f.do(f"store {SCALAR[code]} {x}, ptr {address}, align {BYTES[code]}")


def _own(t: VectorTranslator, e: ast.expr, v: FeatureVector) -> FeatureVector:
    """Returns a vector that can be changed, with the features of another one: in its memory, if
    nothing else needs that, or in a copy."""
    t.flush([v])
    slot: Any = v.slot
    name = e.id if type(e) is ast.Name else ""
    if name in t.dying and not slot.uniform and slot.holders <= 1:
        result = FeatureVector(v.code, v.count)
        result.slot = slot
        return result
    return t.copied(v, t.room(v, (), t.homes_of(t.target)))


def _replace(f: Function, v: FeatureVector, row: str, value: str, mask: str) -> None:
    """Replaces a feature in the lanes of a mask; the other lanes may become anything if it is the
    mask of the active lanes."""
    if mask != ACTIVE:
        held, before = HELD[v.code], feature_loop.load_row(f, v.code, row)
        if not f.machine.has_gathers:
            # Else LLVM would make a masked store of it, which takes processors of AMD many times
            # as long before AVX-512.
            before = f.op(f"freeze {f.vector[held]} {before}")
        value = f.select(held, mask, value, before)
    feature_loop.store_row(f, v.code, value, row)

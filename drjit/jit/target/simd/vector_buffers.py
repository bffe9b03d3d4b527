"""Vectors in buffers, where they lie in blocks of lanes that have a row for each feature."""

import ast
from collections.abc import Callable
from typing import Any

from ...dtype import VECTOR_BLOCK
from . import elementwise
from .conversion import from_memory, to_memory
from .feature_loop import load_row, spelled, store_row
from .ir import BYTES, MEMORY, Function, KernelError, Value
from .loops import loop, splat
from .translate import CALLS
from .vector import VectorTranslator
from .vector_memory import Vector, row_type


def load_vector(
    t: VectorTranslator, kind: ast.expr, count: ast.expr, p: ast.expr, i: ast.expr
) -> Value:
    """`load_vector(T, n, p[k], i)`."""
    t.lane_range(i)
    f, code, n = t.f, t.type(kind), t.integer(count)
    start = _first_row(t, code, n, p)
    alignment = min(64, f.lanes * BYTES[code])

    def read(place: str) -> str:
        return f.op(f"load {f.types.memory[code]}, ptr {place}, align {alignment}")

    return _read(t, code, n, start, read)


def broadcast_vector(t: VectorTranslator, kind: ast.expr, count: ast.expr, p: ast.expr) -> Value:
    """`broadcast_vector(T, n, p[k])`."""
    f, code, n = t.f, t.type(kind), t.integer(count)

    def read(place: str) -> str:
        x = f.op(f"load {MEMORY[code]}, ptr {place}, align {BYTES[code]}")
        return splat(f, MEMORY[code], f.lanes, x)

    return _read(t, code, n, t.pointer(p), read)


def _read(
    t: VectorTranslator, code: str, count: int, start: str, read: Callable[[str], str]
) -> Value:
    """The vector whose rows are in memory."""
    f, result = t.f, t.fresh(code, count)
    place = result.slot.name  # type: ignore[union-attr]

    def row(k: str, _: list[str]) -> tuple[()]:
        x = from_memory(f, code, read(_memory_row(f, code, start, k)))
        x = elementwise.widen(f, x) if code == "f16" else x
        store_row(
            f, code, x, f.op(f"getelementptr {row_type(code, f.lanes)}, ptr {place}, i64 {k}")
        )
        return ()

    loop(f, "0", str(count), "1", (), row)
    return spelled(result)


def store_vector(
    t: VectorTranslator,
    kind: ast.expr,
    count: ast.expr,
    p: ast.expr,
    i: ast.expr,
    e: ast.expr,
) -> None:
    """`store_vector(T, n, p[k], i, v)`, where a scalar is every feature."""
    t.lane_range(i)
    f, code, n = t.f, t.type(kind), t.integer(count)
    value: Any = t.expr(e)
    if type(value[1]) is not Vector:
        value = t.typed(e, code)
    elif (value[1].code, value[1].count) != (code, n):
        raise KernelError(f"{ast.unparse(e)} is a vector of another type")
    v: Any = value[1]
    start = _first_row(t, code, n, p)
    place = t.place(v) if type(v) is Vector else ""

    def row(k: str, _: list[str]) -> tuple[()]:
        x: Any = v
        if place:
            at = f.op(f"getelementptr {row_type(code, f.lanes)}, ptr {place}, i64 {k}")
            x = load_row(f, code, at)
            x = elementwise.narrow(f, x) if code == "f16" else x
        x = to_memory(f, code, x)
        target, alignment = _memory_row(f, code, start, k), min(64, f.lanes * BYTES[code])
        f.do(f"store {f.types.memory[code]} {x}, ptr {target}, align {alignment}")
        return ()

    loop(f, "0", str(n), "1", (), row)


def _first_row(t: VectorTranslator, code: str, count: int, p: ast.expr) -> str:
    """The address of the first feature of the lanes, in blocks that have a row for each."""
    f = t.f
    block, inside = f.op(f"and i64 %i, {-VECTOR_BLOCK}"), f.op(f"and i64 %i, {VECTOR_BLOCK - 1}")
    at = f.op(f"add i64 {f.op(f'mul i64 {block}, {count}')}, {inside}")
    return f.op(f"getelementptr {MEMORY[code]}, ptr {t.pointer(p)}, i64 {at}")


def _memory_row(f: Function, code: str, start: str, k: str) -> str:
    at = f.op(f"mul i64 {k}, {VECTOR_BLOCK}")
    return f.op(f"getelementptr {MEMORY[code]}, ptr {start}, i64 {at}")


CALLS.update(
    {
        "load_vector": load_vector,
        "broadcast_vector": broadcast_vector,
        "store_vector": store_vector,
    }
)

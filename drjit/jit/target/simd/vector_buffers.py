"""Vectors in buffers, stored in blocks of lanes with one row per feature."""

import ast
from collections.abc import Callable
from typing import Any

from ...ir.dtype import VECTOR_BLOCK
from .arguments import statement
from .conversion import from_memory, to_memory
from .feature_loop import from_held, load_row, row_address, spelled, store_row, to_held
from .ir import BYTES, Function, Value
from .loops import address, first_row, load_splat, loop
from .vector import VectorTranslator
from .vector_memory import FeatureVector


@statement("type integer pointer lane_range")
def load_vector(t: VectorTranslator, code: str, count: int, base: str) -> Value:
    """`load_vector(T, n, p[k], i)`."""
    f, start = t.f, first_row(t.f, code, count, base)
    how = f"align {min(64, f.lanes * BYTES[code])}"
    return _read(
        t, code, count, start, lambda p: f.op(f"load {f.types.memory[code]}, ptr {p}, {how}")
    )


@statement("type integer pointer")
def broadcast_vector(t: VectorTranslator, code: str, count: int, base: str) -> Value:
    """`broadcast_vector(T, n, p[k])`."""
    return _read(t, code, count, base, lambda place: load_splat(t.f, code, t.f.lanes, place))


def _read(
    t: VectorTranslator, code: str, count: int, start: str, read: Callable[[str], str]
) -> Value:
    """Returns the vector whose rows are in memory."""
    f, result = t.f, t.fresh(code, count)
    place = result.slot.name  # type: ignore[union-attr]
    with loop(f, 0, count, 1) as (k, _):
        x = from_memory(f, code, read(_memory_row(f, code, start, k)))
        store_row(f, code, to_held(f, code, x), row_address(f, code, place, k))
    return spelled(result)


@statement("type integer pointer lane_range node")
def store_vector(t: VectorTranslator, code: str, count: int, base: str, e: ast.expr) -> None:
    """`store_vector(T, n, p[k], i, v)`, where a scalar stands for every feature."""
    f, value = t.f, t.expr(e)
    if type(value[1]) is not FeatureVector:
        value = t.typed(e, code)
    v: Any = value[1]
    start = first_row(f, code, count, base)
    place = t.place(v) if type(v) is FeatureVector else ""
    with loop(f, 0, count, 1) as (k, _):
        x: Any = v
        if place:
            x = from_held(f, code, load_row(f, code, row_address(f, code, place, k)))
        target, how = _memory_row(f, code, start, k), f"align {min(64, f.lanes * BYTES[code])}"
        f.do(f"store {f.types.memory[code]} {to_memory(f, code, x)}, ptr {target}, {how}")


def _memory_row(f: Function, code: str, start: str, k: str) -> str:
    return address(f, code, start, f.op(f"mul i64 {k}, {VECTOR_BLOCK}"))

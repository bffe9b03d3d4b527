"""Sums over lanes of vectors in memory, one lane and element at a time."""

import ast
from typing import Any

from ..simd.atomic import atomic_update
from ..simd.conversion import first_element
from ..simd.feature_loop import load_row, row_address
from ..simd.loops import address, loop, when
from ..simd.vector_memory import FeatureVector
from .atomic import sums
from .calls import statement


def _added(t: Any, acc: str, place: str, v: FeatureVector, k: str, factor: str = "") -> None:
    f, source = t.f, t.place(v)
    x = load_row(f, v.code, row_address(f, v.code, source, k))
    if factor:
        x = f.op(f"fmul {f.vector[acc]} {x}, {factor}")
    atomic_update(f, "add", acc, place, first_element(f, acc, x))


@statement("type parameter parameter parameter parameter integer integer integer node node mask")
def outer(
    t: Any, code: str, k: int, a: int, n: int, offset: int, rows: int, columns: int,
    stride: int, y: ast.expr, x: ast.expr, mask: str,
) -> None:  # fmt: skip
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    f, (acc, base) = t.f, sums(t, "add", code, k, a, n)
    left, right = t.vector(y), t.vector(x)
    t.flush([v for v in (left, right) if v.op is not None])
    target = address(f, acc, base, f.word_here(offset))
    places = t.place(left), t.place(right)
    with when(f, f.scalar("mask", mask)), loop(f, 0, rows, 1) as (r, _):
        factor = load_row(f, left.code, row_address(f, left.code, places[0], r))
        row = address(f, acc, target, f.op(f"mul i64 {r}, {stride}"))
        with loop(f, 0, columns, 1) as (c, _):
            _added(t, acc, address(f, acc, row, c), right, c, factor)


@statement("type parameter parameter parameter parameter node mask")
def accumulate(
    t: Any, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> None:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    f, (acc, base) = t.f, sums(t, "add", code, k, a, n)
    v = t.vector(y)
    t.flush([v] if v.op is not None else [])
    target = address(f, acc, base, f.word_here(offset))
    t.place(v)
    with when(f, f.scalar("mask", mask)), loop(f, 0, v.count, 1) as (r, _):
        _added(t, acc, address(f, acc, target, r), v, r)

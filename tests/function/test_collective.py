"""Prefix and block reductions and compression, against sequential definitions in NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
from helpers import opaque, results

from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node as ir
from drjit.jit.ir import op
from drjit.jit.ir.dtype import DType
from drjit.jit.ir.node import Node
from drjit.jit.ir.op import starting_value
from drjit.jit.primitives import collective

pytestmark = pytest.mark.usefixtures("computing_nodes")

FUNCTIONS: dict[str, Callable] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "min": lambda a, b: b if b < a else a,
    "max": lambda a, b: b if b > a else a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
CASES = [
    (t, name)
    for t in dt.ALL
    for name in FUNCTIONS
    if (name in ("and", "or") and not t.is_float) or (name not in ("and", "or") and not t.is_mask)
]
every_case = pytest.mark.parametrize(("t", "name"), CASES, ids=str)


def result(n: Node) -> np.ndarray:
    return results([n])[0]


def sample(t: DType, name: str, size: int) -> np.ndarray:
    """Values whose reductions are exact in any order, but for the products of floats."""
    rng = np.random.default_rng(size)
    if t.is_mask:
        return rng.random(size) < (0.9 if name == "and" else 0.1)
    if t.is_float:
        if name == "mul":
            return rng.choice([0.5, 2.0, -1.0, 1.0], size).astype(t.numpy)
        return rng.integers(-3, 4, size).astype(t.numpy)
    info = np.iinfo(t.numpy)
    if name == "and":
        return (~(1 << rng.integers(0, t.bits, size))).astype(t.numpy)
    return rng.integers(info.min, info.max, size, t.numpy, endpoint=True)


def sequential(t: DType, name: str, values: np.ndarray, exclusive: bool) -> np.ndarray:
    """The definition, one element after the other, in the accumulator's type."""
    wide = np.dtype(np.float32) if t is dt.f16 else t.numpy
    total = wide.type(starting_value(name, dt.types_by_numpy()[wide]))
    running = np.empty(values.size, wide)
    with np.errstate(all="ignore"):
        for k, value in enumerate(values.astype(wide)):
            if exclusive:
                running[k] = total
            total = wide.type(FUNCTIONS[name](total, value))
            if not exclusive:
                running[k] = total
        return running.astype(t.numpy)


def runs(values: np.ndarray, length: int) -> list[np.ndarray]:
    return [values[k : k + length] for k in range(0, values.size, length)]


@every_case
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.compiled_every(5)
def test_prefix(tier: str, t: DType, name: str, exclusive: bool) -> None:
    sizes = (1, 2, 17, 64, 100, 1000)
    for size in sizes:
        values = sample(t, name, size)
        got = result(collective.prefix(name, opaque(t, values), exclusive))
        want = sequential(t, name, values, exclusive)
        np.testing.assert_array_equal(got, want, f"{size} entries")


@every_case
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.compiled_every(5)
def test_prefix_of_blocks(tier: str, t: DType, name: str, exclusive: bool) -> None:
    for size, length in ((12, 3), (64, 16), (100, 7), (130, 64), (90, 30), (20, 1), (33, 32)):
        values = sample(t, name, size)
        got = result(collective.prefix(name, opaque(t, values), exclusive, length))
        want = [sequential(t, name, run, exclusive) for run in runs(values, length)]
        np.testing.assert_array_equal(got, np.concatenate(want), f"{size} entries by {length}")


@every_case
@pytest.mark.compiled_every(5)
def test_block_reduce(tier: str, t: DType, name: str) -> None:
    for size, length in ((12, 3), (64, 16), (91, 7), (256, 64), (20, 20), (20, 1), (340, 17)):
        values = sample(t, name, size)
        got = result(collective.block_reduce(name, opaque(t, values), length))
        want = [sequential(t, name, run, False)[-1] for run in runs(values, length)]
        np.testing.assert_array_equal(got, np.array(want), f"{size} entries by {length}")


@pytest.mark.parametrize("size", [100_000, 262_144])
def test_long_arrays_that_span_blocks(tier: str, size: int) -> None:
    """Several threads take part, and every block starts where the one before has ended."""
    values = np.arange(size, dtype=np.uint32) * 7 % 11
    x = opaque(dt.u32, values)
    want = np.cumsum(values, dtype=np.uint32)
    np.testing.assert_array_equal(result(collective.prefix("add", x, False)), want)
    np.testing.assert_array_equal(result(collective.prefix("add", x, True)), want - values)
    np.testing.assert_array_equal(
        result(collective.prefix("max", opaque(dt.f32, values[::-1]), False)),
        np.maximum.accumulate(values[::-1].astype(np.float32)),
    )
    length = 1000
    got = result(collective.prefix("add", x, False, length))
    want = np.concatenate([np.cumsum(run, dtype=np.uint32) for run in runs(values, length)])
    np.testing.assert_array_equal(got, want)
    mask = values < 3
    np.testing.assert_array_equal(
        result(collective.compress(opaque(dt.mask, mask))), np.flatnonzero(mask)
    )


def test_sums_of_halves_accumulate_in_single_precision(tier: str) -> None:
    """In half precision the sum would stop at 2048."""
    ones = opaque(dt.f16, np.ones(5000, np.float16))
    want = np.arange(1, 5001, dtype=np.float32).astype(np.float16)
    np.testing.assert_array_equal(result(collective.prefix("add", ones, False)), want)
    assert result(collective.block_reduce("add", ones, 5000)).tolist() == [5000]


def test_sums_of_floats(tier: str) -> None:
    values = np.random.default_rng(1).random(5000)
    # One after the other, 5000 additions lose some 10 units in the last place.
    for t, tolerance in ((dt.f32, 1e-5), (dt.f64, 1e-13)):
        got = result(collective.prefix("add", opaque(t, values), False))
        np.testing.assert_allclose(got, np.cumsum(values), rtol=tolerance)


def test_prefix_of_unevaluated_and_literal_values(tier: str) -> None:
    x = ir.apply(op.add, opaque(dt.i32, np.arange(4)), ir.literal(dt.i32, 1))
    assert result(collective.prefix("mul", x, False)).tolist() == [1, 2, 6, 24]
    threes = ir.literal(dt.i32, 3, 4)
    assert result(collective.prefix("add", threes, True)).tolist() == [0, 3, 6, 9]
    assert result(collective.block_reduce("add", threes, 2)).tolist() == [6, 6]


def test_empty_arrays(tier: str) -> None:
    empty = opaque(dt.f32, np.zeros(0))
    assert result(collective.prefix("add", empty, False)).size == 0
    assert result(collective.block_reduce("add", empty, 4)).size == 0
    assert result(collective.compress(opaque(dt.mask, np.zeros(0, bool)))).size == 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_compress(tier: str, share: float) -> None:
    for size in (1, 15, 16, 17, 64, 1000):
        mask = np.random.default_rng(size).random(size) < share
        got = result(collective.compress(opaque(dt.mask, mask)))
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got, np.flatnonzero(mask))


def test_compress_of_literals_and_expressions(tier: str) -> None:
    assert result(collective.compress(ir.literal(dt.mask, True, 3))).tolist() == [0, 1, 2]
    assert result(collective.compress(ir.literal(dt.mask, False, 3))).tolist() == []
    mask = ir.apply(op.gt, opaque(dt.f32, np.arange(5)), ir.literal(dt.f32, 2.5))
    assert result(collective.compress(mask)).tolist() == [3, 4]

"""Statements with loops of their own, step by step on NumPy: without memory of the kernel's, where
reads beyond the end are errors, and with any width of registers.
"""

import doctest
from typing import Any

import numpy as np
import pytest
from helpers import uniform

from drjit.jit.target.simd import matmul, matvec, outer, radix, row_reduction, scan, stepping

# In place of `values.Code`.
Stepping: Any = stepping.Stepping

registers = pytest.mark.parametrize("register_bytes", [16, 32, 64])


def test_the_example():
    assert doctest.testmod(stepping, extraglobs={"np": np}).failed == 0


@registers
@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=["", "Bt", "At", "At Bt"])
@pytest.mark.parametrize(("m", "n", "k", "rows"), [(1, 9, 21, 1), (3, 17, 33, 4), (13, 19, 40, 8)])
def test_a_matrix_product(m, n, k, rows, flags, register_bytes):
    a, b = uniform((m, k), 1), uniform((k, n), 2)
    operands = [
        np.ascontiguousarray(x.T if flag else x).ravel()
        for x, flag in zip((a, b), flags, strict=True)
    ]
    result, depth = np.full(m * n, np.nan), 16
    sizes = np.array([m, n, k, m, n, 1, 1, 0, 0, 0])
    scratch = np.zeros((n + 128) * depth + 8 * (depth + 16) + (m + 8) * (n + 128))
    matmul.run_task(
        Stepping(register_bytes), "f64", rows, n, depth, *operands, result, sizes, scratch, *flags
    )
    np.testing.assert_allclose(result.reshape(m, n), a @ b, rtol=1e-12, atol=1e-14)


def test_reading_beyond_an_array_is_an_error():
    code = Stepping()
    x = code.pointer("f32", np.zeros(10, np.float32)) + 8
    np.testing.assert_array_equal(x.load(4, code.below(2, 4)), np.zeros(4))
    with pytest.raises(IndexError, match=r"4 elements at Pointer\(float32\[10\], 8\)"):
        x.load(4)
    with pytest.raises(IndexError):
        x.store(code.zeros("f32", 4))


@registers
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 40), (13, 5), (30, 24)])
def test_a_matrix_times_a_vector_in_every_lane(rows, columns, transposed, register_bytes):
    a, x, bias = uniform((rows, columns), 1), uniform((columns, 16), 2), uniform(rows, 3)
    code = Stepping(register_bytes)
    strides = (1, rows) if transposed else (columns, 1)
    shape = matvec.MatvecShape("f64", rows, columns, *strides, True)
    stored = np.ascontiguousarray(a.T if transposed else a).ravel()
    pointers = [code.pointer("f64", values) for values in (stored, x.ravel(), bias)]
    found = [row for _, part in matvec.product(code, shape, 16, *pointers) for row in part]
    np.testing.assert_allclose(np.array(found), a @ x + bias[:, None], rtol=1e-12, atol=1e-14)


@registers
@pytest.mark.parametrize("share", [0.5, 1])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 9), (16, 30)])
def test_sums_of_outer_products_and_vectors(rows, columns, share, register_bytes):
    y, x, active = uniform((rows, 16), 1), uniform((columns, 16), 2), uniform(16, 3) < share
    code, lanes = Stepping(register_bytes), register_bytes // 8
    masks = [active[k : k + lanes] for k in range(0, 16, lanes)]
    stride = columns + 3
    sums, total = np.ones(rows * stride), np.ones(rows)
    into, left, right = (code.pointer("f64", v) for v in (sums, y.ravel(), x.ravel()))
    some_inactive: Any = not active.all()
    outer.add_outer(code, into, left, right, masks, some_inactive, rows, columns, stride)
    want = np.ones((rows, stride))
    want[:, :columns] += (y * active) @ x.T
    np.testing.assert_allclose(sums.reshape(rows, stride), want, rtol=1e-12)
    outer.add_vector(code, code.pointer("f64", total), left, masks, rows)
    np.testing.assert_allclose(total, 1 + (y * active).sum(axis=1), rtol=1e-12)


@registers
@pytest.mark.parametrize("op", ["add", "max"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_reductions_of_rows(chunks, op, register_bytes):
    matrices, rows, columns, strip = 2, 25, 70, 64
    x = uniform((matrices, rows, columns), 1)
    chunk, strips = -(-rows // chunks), -(-columns // strip)
    sizes = np.array([matrices, rows, columns, chunk, chunks, strip, strips])
    result, partial = np.full(matrices * columns, np.nan), np.full(matrices * chunks * columns, 9.0)
    given = sizes, result, np.append(partial, np.zeros(8))
    padded = np.append(x.ravel(), np.zeros(columns))
    for task in range(matrices * chunks * strips):
        code = Stepping(register_bytes, task)
        row_reduction.run_task(code, op, "f64", *given, padded, np.zeros(2 * strip))
    if chunks > 1:
        row_reduction.finish(Stepping(register_bytes), op, "f64", *given)
    want = x.sum(axis=1) if op == "add" else x.max(axis=1)
    np.testing.assert_allclose(result.reshape(matrices, columns), want, rtol=1e-13)


def lanes_of(x: np.ndarray, lanes: int, fill: float) -> list[Any]:
    """An array in packets, the last of which is filled up."""
    padded = np.full(-(-x.size // lanes) * lanes, fill, x.dtype)
    padded[: x.size] = x
    return [part.view(stepping.Vector) for part in padded.reshape(-1, lanes)]


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize(("op", "neutral"), [("add", 0), ("max", -np.inf), ("mul", 1)])
def test_prefixes_of_packets(op, neutral, inclusive, lanes):
    x, code, found = uniform(37, 1), Stepping(), []
    fill = code.full("f64", lanes, neutral)
    carried = fill
    for packet in lanes_of(x, lanes, neutral):
        result, carried = scan.scan_packet(code, op, packet, carried, fill, inclusive)
        found.append(result)
    expected = stepping.OPERATIONS[op].accumulate(x)
    if not inclusive:
        expected = np.concatenate([[neutral], expected[:-1]])
    np.testing.assert_allclose(np.concatenate(found)[: x.size], expected, rtol=1e-12)


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 20])
@pytest.mark.parametrize("inclusive", [False, True])
def test_prefixes_of_runs(inclusive, length, lanes):
    x, code, found = uniform(6 * length, 1), Stepping(), []
    place = code.lane_numbers(lanes) % np.uint32(length)
    step = np.full(lanes, lanes % length, np.uint32).view(stepping.Vector)
    back = step - np.uint32(length)
    begin, carried = None if inclusive else code.zeros("f64", lanes), code.zeros("f64", lanes)
    for packet in lanes_of(x, lanes, 0):
        result, carried = scan.scan_runs(code, "add", packet, place, carried, begin)
        found.append(result)
        place = scan.next_places(code, place, step, back)
    rows = x.reshape(6, length)
    expected = np.cumsum(rows, axis=1) - (0 if inclusive else rows)
    result = np.concatenate(found)[: x.size].reshape(6, length)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("by_table", [False, True])
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_masks_are_compressed(lanes, by_table):
    chosen, code = uniform(75, 1) > 0.1, Stepping()
    to = code.pointer("u32", np.full(75, 99, np.uint32))
    table = code.pointer("u8", np.array(scan.positions(), np.uint8).ravel()) if by_table else None
    position, end = 0, int(chosen.sum())
    for number, mask in enumerate(lanes_of(chosen, lanes, False)):
        x = code.lane_numbers(lanes) + np.uint32(number * lanes)
        position = scan.compress_packet(code, to, position, end, x, np.asarray(mask), table)
    assert position == chosen.sum()
    np.testing.assert_array_equal(to.array[:position], np.flatnonzero(chosen))
    assert (to.array[position:] == 99).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_a_pass_of_a_radix_sort(dtype):
    lanes, per_block, shift = 8, 24, 3 if dtype == np.uint8 else 5
    keys = (np.abs(uniform(61, 1)) * np.iinfo(dtype).max).astype(dtype)
    code, blocks = Stepping(), -(-keys.size // per_block)
    tables = np.zeros(blocks * radix.ENTRIES, np.uint32)

    def packets() -> Any:
        number = np.arange(keys.size, dtype=np.uint32)
        rows = zip(lanes_of(keys, lanes, 0), lanes_of(number, lanes, 0), strict=True)
        for k, (key, payload) in enumerate(rows):
            active = k * lanes + np.arange(lanes) < keys.size
            table = code.pointer("u32", tables) + k * lanes // per_block * radix.ENTRIES
            yield table, radix.digits(code, key, shift, active), key, payload

    for table, of, *_ in packets():
        radix.count_digits(table, of)
    radix.starts(code, tables, blocks)
    results = [np.zeros(keys.size + lanes, t) for t in (dtype, np.uint32)]
    places = [code.pointer("u32", result) for result in results]
    for table, of, *columns in packets():
        radix.move(table, of, [*zip(columns, places, strict=True)])
    digits = keys.astype(np.uint64) >> np.uint64(shift) & np.uint64((1 << radix.DIGIT) - 1)
    order = np.argsort(digits, kind="stable")
    np.testing.assert_array_equal(results[1][: keys.size], order)
    np.testing.assert_array_equal(results[0][: keys.size], keys[order])

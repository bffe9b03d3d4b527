"""The NumPy target: what every operation of the kernel language means, on edge values, for arrays
and for scalars.
"""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drjit.jit.ir import dtype
from drjit.jit.target.numpy import LaneRange, namespace, run

INTEGERS = [t for t in dtype.ALL if t.is_int]
FLOATS = [t for t in dtype.ALL if t.is_float]


pytestmark = pytest.mark.usefixtures("quiet")


def call(name, *operands):
    """The result on arrays; that on scalars has to be the same, bit by bit."""
    result = namespace[name](*operands)
    for k in range(len(result)):
        one = namespace[name](*[x[k] if isinstance(x, np.ndarray) else x for x in operands])
        assert np.asarray(one).dtype == result.dtype
        assert np.asarray(one).tobytes() == result[k].tobytes(), (name, k)
    return result


def edge_values(t):
    info = np.iinfo(t.numpy)
    values = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1]
    return np.array(values + ([-1, -2, -7, -100] if t.is_signed else []), t.numpy)


def pairs(t):
    x, y = np.meshgrid(edge_values(t), edge_values(t))
    return x.ravel(), y.ravel()


def wrapped(value, t):
    low, count = np.iinfo(t.numpy).min, 1 << t.bits
    return (value - low) % count + low


# ------------------------------------------------------------------------------------ integers


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_division(t):
    x, y = pairs(t)
    quotients, remainders = call("quotient", x, y), call("remainder", x, y)
    for a, b, q, r in zip(
        x.tolist(), y.tolist(), quotients.tolist(), remainders.tolist(), strict=True
    ):
        expected = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        assert q == wrapped(expected, t)
        assert r == (0 if b == 0 else a - b * expected)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_shifts(t):
    counts = np.array([0, 1, t.bits - 1, t.bits, t.bits + 1, 127], t.numpy)
    if t.is_signed:
        counts = np.append(counts, t.numpy.type(-1))
    x, y = (v.ravel() for v in np.meshgrid(edge_values(t), counts))
    left, right = call("shl", x, y), call("shr", x, y)
    assert np.array_equal(left, x << y) and np.array_equal(right, x >> y)
    for a, n, lo, hi in zip(x.tolist(), y.tolist(), left.tolist(), right.tolist(), strict=True):
        n = n if 0 <= n < t.bits else t.bits
        assert lo == wrapped(a << n, t)
        assert hi == a >> n


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_bits(t):
    x = edge_values(t)
    results = [call(name, x).tolist() for name in ("popcnt", "lzcnt", "tzcnt", "brev")]
    for a, count, leading, trailing, reverse in zip(x.tolist(), *results, strict=True):
        digits = format(a % (1 << t.bits), f"0{t.bits}b")
        assert count == digits.count("1")
        assert leading == len(digits) - len(digits.lstrip("0"))
        assert trailing == len(digits) - len(digits.rstrip("0"))
        assert reverse == wrapped(int(digits[::-1], 2), t)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_high_half_of_products(t):
    x, y = pairs(t)
    high = call("mul_hi", x, y).tolist()
    assert high == [a * b >> t.bits for a, b in zip(x.tolist(), y.tolist(), strict=True)]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_high_half_of_64_bit_products(a, b):
    assert namespace["mul_hi"](np.uint64(a), np.uint64(b)) == a * b >> 64


# --------------------------------------------------------------------------------- conversions


@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_float_to_integer_saturates(source, t):
    info = np.iinfo(t.numpy)
    limits = [float(info.max), float(info.min), info.max + 1.0, info.min - 1.0]
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, np.nan, np.inf, -np.inf, 1e30, -1e30, *limits]
    x = np.array(values).astype(source.numpy)
    for a, result in zip(x.tolist(), call(t.code, x).tolist(), strict=True):
        if a != a:
            assert result == 0
        else:
            assert result == (
                (info.max if a > 0 else info.min)
                if abs(a) == np.inf
                else min(max(int(a), info.min), info.max)
            )


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_other_conversions(t):
    x = edge_values(t)
    assert call("mask", x).tolist() == [a != 0 for a in x.tolist()]
    assert call("f64", x).tolist() == [float(a) for a in x.tolist()]
    assert np.array_equal(call("f16", x), x.astype(np.float32).astype(np.float16))
    assert call(t.code, np.array([True, False])).tolist() == [1, 0]
    for target in INTEGERS:
        assert call(target.code, x).tolist() == [wrapped(a, target) for a in x.tolist()]
        assert namespace[target.code](-1) == wrapped(-1, target)


def test_bitcast():
    x = np.array([1.0, -0.0, np.inf], np.float32)
    bits = namespace["bitcast"](namespace["u32"], x)
    assert bits.tolist() == [0x3F800000, 0x80000000, 0x7F800000]
    assert np.array_equal(namespace["bitcast"](namespace["f32"], bits), x)
    assert namespace["bitcast"](namespace["i64"], np.float64(1.0)) == 0x3FF0000000000000


# -------------------------------------------------------------------------------------- floats


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_minimum_takes_the_second_operand_if_one_is_undefined(t):
    x = np.array([1, np.nan, 2, np.nan], t.numpy)
    y = np.array([np.nan, 1, 1, np.nan], t.numpy)
    assert np.array_equal(call("minimum", x, y), np.array([np.nan, 1, 1, np.nan]), equal_nan=True)
    assert np.array_equal(call("maximum", x, y), np.array([np.nan, 1, 2, np.nan]), equal_nan=True)


def test_rounding():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4], np.float32)
    assert call("round", x).tolist() == [0, 2, 2, 0, -2, 2]
    assert call("trunc", x).tolist() == [0, 1, 2, 0, -1, 2]
    assert call("floor", x).tolist() == [0, 1, 2, -1, -2, 2]
    assert call("ceil", x).tolist() == [1, 2, 3, 0, -1, 3]


def test_numbers_take_the_type_of_the_other_operand():
    x = np.array([0.1, 0.7], np.float32)
    for result in (
        call("fma", x, 0.3, 1e-3),
        call("select", x > 0.5, 0.1, x),
        call("minimum", x, 0.5),
        x * 0.3 + 1,
    ):
        assert result.dtype == np.float32


def rounded(value, to):
    """A fraction rounded to nearest, ties to even, by comparison with the neighbours."""
    try:
        guess = to(float(value))
    except OverflowError:
        return to(np.inf if value > 0 else -np.inf)
    if to is np.float64 or not np.isfinite(guess):
        return guess
    near = [np.nextafter(guess, to(-np.inf)), guess, np.nextafter(guess, to(np.inf))]
    bits = np.uint32

    def distance(v):
        return abs(Fraction(float(v)) - value), int(v.view(bits)) & 1

    return min((v for v in near if np.isfinite(v)), key=distance)


def check_fma(x, y, z):
    result = namespace["fma"](x, y, z)
    with np.errstate(all="ignore"):  # as kernels do
        (of_arrays,) = namespace["fma"](*[np.array([v]) for v in (x, y, z)])
    assert type(of_arrays) is type(result)
    assert of_arrays.tobytes() == result.tobytes() or (np.isnan(of_arrays) and np.isnan(result))
    if not np.isfinite([x, y, z]).all():
        finite = np.isfinite([x, y]).all()
        assert np.array_equal(result, z if finite else x * y + z, equal_nan=True)
        return
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    assert result == rounded(exact, type(x)), (x, y, z)
    if exact == 0 and (x == 0 or y == 0 or z != 0):
        assert np.signbit(result) == np.signbit(x * y + z)


@given(*[st.floats(width=32)] * 3)
def test_fma_f32(x, y, z):
    check_fma(np.float32(x), np.float32(y), np.float32(z))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("x", "y", "z"),
    [
        # Nearly halfway between two numbers: what decides is beyond the digits of a float64.
        (1 + 2**-12, 1 + 2**-12, 2.0**-80),
        (1 + 2**-12, 1 + 2**-12, -(2.0**-80)),
        (3 + 2**-12, 1 + 2**-12, -(2.0**-90)),
        # The same between subnormal numbers, and where those begin.
        (2.0**-75 * (1 + 2**-23), 2.0**-75 * (1 - 2**-23), 2.0**-130 + 2.0**-149),
        (2.0**-75 * (1 + 2**-23), 2.0**-75 * (1 + 2**-22), 2.0**-127),
        # The largest number, and nearly halfway to the next power of two, which is infinite.
        (2.0**64 - 2.0**40, 2.0**64, 2.0**103),
        (2.0**64 - 2.0**40, 2.0**64, 2.0**103 - 2.0**80),
    ],
)
def test_fma_f32_of_sums_halfway_between_numbers(x, y, z, sign):
    x, y, z = (np.float32(v) for v in (x, sign * y, sign * z))
    check_fma(x, y, z)
    ones = np.ones(2, np.float32)  # whose neighbours are plain
    result = namespace["fma"](*(np.append(v, ones) for v in (x, y, z)))
    assert result[0] == namespace["fma"](x, y, z) and result[1:].tolist() == [2, 2]


@given(*[st.floats()] * 3)
def test_fma_f64(x, y, z):
    check_fma(np.float64(x), np.float64(y), np.float64(z))


@given(
    *[st.integers(2**52, 2**53 - 1)] * 2,
    st.integers(-1074, 900),
    st.integers(-200, 60),
    st.integers(-3, 3),
)
def test_fma_f64_near_cancellation(a, b, exponent, shift, step):
    # z is close to -x y, and the exponents reach subnormal numbers and overflow
    x, y = np.ldexp(float(a), exponent - 52), np.ldexp(float(b), shift)
    z = -(x * y)
    for _ in range(abs(step)):
        z = np.nextafter(z, np.inf if step > 0 else -np.inf)
    check_fma(np.float64(x), np.float64(y), np.float64(z))


def test_fma_on_arrays_mixes_plain_and_extreme_lanes():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, (3, 500), dtype=np.uint64)
    x, y, z = bits.view(np.float64)
    z[::3] = -(x[::3] * y[::3])
    x[1::4], y[1::4], z[1::4] = rng.normal(size=(3, 125))
    result = call("fma", x, y, z)
    for k in range(500):
        one = namespace["fma"](x[k], y[k], z[k])
        assert np.array_equal(one, result[k], equal_nan=True)
        check_fma(x[k], y[k], z[k])


def test_fma_f16_rounds_in_f32_first():
    x, y, z = np.random.default_rng(1).normal(size=(3, 1000)).astype(np.float16)
    wide = x.astype(np.float32) * y.astype(np.float32) + z.astype(np.float32)
    assert np.array_equal(call("fma", x, y, z), wide.astype(np.float16))


# -------------------------------------------------------------------------------------- memory


def record():
    return np.zeros(5, np.int64)


def test_kernel():
    text = """
def kernel(i, p):
    x = load(f32, p[1], i)
    c = literal(f32, p[2])
    v0 = fma(x, c, x)
    store(f32, p[3], i, v0)
    reduce(f32, 'add', None, p[4], i, v0)
"""
    x, y, total = np.arange(5, dtype=np.float32), np.zeros(5, np.float32), np.zeros(1, np.float32)
    run(text, [record(), x, np.float32(2), y, total], 5)
    assert y.tolist() == [0, 3, 6, 9, 12] and total[0] == 30


def test_out_of_bounds_is_masked_and_the_first_report_stays():
    error, m = record(), np.array([True, True, False, True])
    x = np.array([2, 3, 9, 2**32 - 1], np.uint32)
    buffer = np.array([10, 20, 30], np.int32)
    inside = namespace["in_bounds"](error, 7, x, 3, m)
    assert inside.tolist() == [True, False, False, False]
    assert error.tolist() == [1, 7, 3, 3, 1]
    namespace["in_bounds"](error, 8, x, 1, m)
    assert error[1] == 7
    assert namespace["gather"](namespace["i32"], buffer, x, inside).tolist() == [30, 0, 0, 0]
    # Without the check, a wrong index does not reach memory either.
    assert namespace["gather"](namespace["i32"], buffer, x, m).tolist() == [30, 0, 0, 0]
    namespace["scatter"](namespace["i32"], buffer, np.int32(5), x, m)
    assert buffer.tolist() == [10, 20, 5]


def test_packets():
    t, buffer = namespace["f32"], np.zeros(6, np.float32)
    x, m = np.array([2, 0, 1], np.uint32), np.array([True, True, False])
    values = [np.array([1, 2, 3], np.float32), np.float32(9)]
    namespace["scatter_packet"](t, buffer, x, m, *values)
    assert buffer.tolist() == [2, 9, 0, 0, 1, 9]
    first, second = namespace["gather_packet"](t, buffer, x, m, 2)
    assert first.tolist() == [1, 2, 0] and second.tolist() == [9, 9, 0]


def test_the_highest_lane_wins():
    buffer = np.zeros(2, np.uint32)
    x = np.array([0, 1, 0, 0], np.uint32)
    m = np.array([True, True, True, False])
    namespace["scatter"](namespace["u32"], buffer, np.arange(4, dtype=np.uint32), x, m)
    assert buffer.tolist() == [2, 1]


def test_atomics_take_effect_in_the_order_of_lanes():
    x = np.array([0, 1, 0, 0, 1, 5], np.uint32)
    m = np.array([True, True, True, False, True, True])
    u32, v = namespace["u32"], np.arange(10, 16, dtype=np.uint32)
    buffer = np.array([100, 200], np.uint32)
    assert namespace["scatter_inc"](u32, buffer, x, m).tolist() == [100, 200, 101, 0, 201, 0]
    assert buffer.tolist() == [102, 202]
    old = namespace["scatter_exch"](u32, buffer, v, x, m)
    assert old.tolist() == [102, 202, 10, 0, 11, 0] and buffer.tolist() == [12, 14]
    old = namespace["scatter_cas"](u32, buffer, np.uint32(12), v, x, m)
    assert old.tolist() == [12, 14, 10, 0, 14, 0] and buffer.tolist() == [10, 14]


def test_compare_and_swap_compares_bits():
    buffer, x, m = np.array([0.0, np.nan], np.float32), np.arange(2, dtype=np.uint32), np.True_
    compare = np.array([-0.0, np.nan], np.float32)
    namespace["scatter_cas"](namespace["f32"], buffer, compare, np.float32(1), x, m)
    assert buffer.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("t", [t for t in dtype.ALL if t.is_arithmetic], ids=str)
@pytest.mark.parametrize("op", ["add", "mul", "min", "max"])
def test_scatter_reduce(t, op):
    rng = np.random.default_rng(2)
    v, x = rng.integers(1, 4, 50).astype(t.numpy), rng.integers(0, 7, 50).astype(np.uint32)
    m, start = rng.random(50) < 0.8, rng.integers(1, 4, 7).astype(t.numpy)
    direct, copies = start.copy(), start.copy()
    kind = namespace[t.code]
    namespace["scatter_reduce"](kind, op, "direct", direct, v, x, m)
    namespace["scatter_reduce_expand"](kind, op, copies, None, 7, v, x, m)
    function = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    expected = start.copy()
    for k in np.flatnonzero(m):
        expected[x[k]] = function(expected[x[k]], v[k])
    assert np.array_equal(direct, expected) and np.array_equal(copies, expected)


def test_scatter_reduce_of_uniform_values_counts_lanes():
    buffer = np.zeros(1, np.int32)
    m = namespace["active"](LaneRange(0, 5))
    zero = np.uint32(0)
    namespace["scatter_reduce"](namespace["i32"], "add", "direct", buffer, np.int32(2), zero, m)
    assert buffer[0] == 10


def reduced(code, op, x, size):
    buffer = np.zeros(1, namespace[code].dtype)
    namespace["reduce"](namespace[code], op, None, buffer, LaneRange(0, size), x)
    return buffer[0]


def test_reductions():
    nan = np.nan
    assert reduced("u8", "add", np.array([200, 100], np.uint8), 2) == 44
    assert reduced("i32", "mul", np.int32(3), 4) == 81
    assert reduced("u32", "and", np.array([6, 3], np.uint32), 2) == 2
    assert not reduced("mask", "and", np.array([True, False]), 2)
    assert reduced("mask", "or", np.array([True, False]), 2)
    assert reduced("f32", "min", np.array([nan, 2, 1, nan], np.float32), 4) == 1
    assert reduced("f32", "max", np.array([nan, nan], np.float32), 2) == -np.inf
    # 4096 ones: f16 alone would stop at 2048
    assert reduced("f16", "add", np.float16(1), 4096) == 4096
    assert reduced("f32", "add", np.zeros(0, np.float32), 0) == 0
    assert reduced("i32", "min", np.zeros(0, np.int32), 0) == 2**31 - 1


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("op", ["add", "max"])
def test_prefix_reductions(inclusive, op):
    x, i = np.array([3, 1, 4, 1, 5, 9, 2], np.int32), LaneRange(0, 7)
    t, totals = namespace["i32"], np.zeros(1, np.int32)
    namespace["scan_totals"](t, op, totals, i, x)
    neutral = 0 if op == "add" else -(2**31)
    assert totals[0] == neutral
    function = {"add": np.add, "max": np.maximum}[op].accumulate

    def expected(run):
        return [*([] if inclusive else [neutral]), *function(run).tolist()][: len(run)]

    assert namespace["scan"](t, op, totals, i, x, inclusive).tolist() == expected(x)
    blocks = namespace["scan_blocks"](t, op, i, x, 3, inclusive).tolist()
    assert blocks == expected(x[:3]) + expected(x[3:6]) + expected(x[6:])


def test_block_reduction():
    buffer, x = np.arange(12, dtype=np.float16), np.array([0, 4, 8, 10], np.uint32)
    m = np.array([True, False, True, True])
    result = namespace["block_reduce"](namespace["f16"], "add", buffer, x, np.uint32(4), m)
    assert result.tolist() == [6, 0, 38, 0] and result.dtype == np.float16


def test_compress():
    positions, buffer = np.array([1], np.uint32), np.zeros(4, np.uint32)
    namespace["compress"](positions, buffer, LaneRange(0, 5), np.array([0, 1, 0, 1, 1], bool))
    assert buffer.tolist() == [0, 1, 3, 4]


def test_masked_loop():
    text = """
def kernel(i, p):
    x = load(u32, p[1], i)
    n = u32(0)
    live = x > 1
    while any_lane(live):
        half = shr(x, 1)
        triple = x * 3
        odd = triple + 1
        is_odd = x & 1
        is_odd = is_odd == 1
        y = select(is_odd, odd, half)
        x = select(live, y, x)
        m = n + 1
        n = select(live, m, n)
        live = x > 1
    store(u32, p[2], i, n)
"""
    x, steps = np.array([1, 2, 3, 6, 7, 27], np.uint32), np.zeros(6, np.uint32)
    run(text, [record(), x, steps], 6)
    assert steps.tolist() == [0, 1, 7, 8, 16, 111]


def test_what_was_loaded_stays_when_the_kernel_writes_there():
    buffer, lanes = np.arange(4, dtype=np.float32), LaneRange(0, 4)
    x = namespace["load"](namespace["f32"], buffer, lanes)
    namespace["scatter"](namespace["f32"], buffer, np.float32(9), np.uint32(2), np.bool_(True))
    assert x.tolist() == [0, 1, 2, 3] and buffer.tolist() == [0, 1, 9, 3]

"""Extreme values: NaN, infinities, signed zeros and subnormals as NumPy has them, integer
operations without traps, and constants that are the same whether folded or computed."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import scipy.special
from helpers import ELEMENTWISE, named

import drjit as dr
from drjit import llvm, scalar
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op
from drjit.jit.run import launch, schedule
from drjit.llvm import Bool, Float, Float16, Float64, Int, Int64, UInt, UInt64

pytestmark = pytest.mark.usefixtures("computing_nodes")

FLOATS = {np.float16: Float16, np.float32: Float, np.float64: Float64}
INTEGERS = [llvm.Int8, llvm.UInt8, Int, UInt, Int64, UInt64]


def specials(t):
    """Values of an element type at which operations go wrong, of a DType."""
    if t.is_mask:
        return [False, True]
    if t.is_float:
        i = np.finfo(t.numpy)
        tiny = [i.tiny, -i.tiny, i.smallest_subnormal, -i.smallest_subnormal, i.tiny / 2]
        values = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -0.5,
            2.5,
            -1.2,
            3.7,
            np.inf,
            -np.inf,
            np.nan,
            i.max,
            i.min,
        ]
        values += [*tiny, i.eps, 1 + i.eps, 1e3, -1e4, 2.0**31, 2.0**63, -(2.0**63), 100.3, -103.5]
        with np.errstate(over="ignore"):
            return np.array(values).astype(t.numpy).tolist()
    i = np.iinfo(t.numpy)
    values = (0, 1, 2, 3, 7, 8, 31, 32, 63, 64, -1, -2, -7, i.max, i.max - 1, i.min, i.min + 1)
    return sorted({int(v) for v in values if i.min <= v <= i.max})


def column(t, values):
    """An evaluated node."""
    data = np.array(values, t.numpy)
    return node.buffer(t, data.size, launch.from_numpy(t, data))


def data(n):
    """The values of a node that is evaluated, or a literal."""
    if n.is_literal:
        return np.full(n.size, n.data, n.dtype.numpy)
    return launch.to_numpy(n.dtype, n.size, n.data).copy()


def computed(n):
    schedule.evaluate([n])
    return data(n)


def same_bits(a, b):
    """Equality bit by bit; one NaN is as good as another."""
    equal = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    return equal | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else equal


def operand_types(o, t):
    """The types of the operands of an operation that is defined for a type, else None."""
    if o.result == "second":
        return [dt.mask, t, t]
    kind = "b" if t.is_mask else "f" if t.is_float else "i"
    return [t] * o.arity if kind in o.domain else None


@pytest.mark.parametrize("t", dt.ALL, ids=lambda t: t.name)
def test_folded_constants_equal_computed_values(tier, t):
    """Every operation of the table, with all, some and no operands constant."""
    folded, mixed, checked = [], [], 0
    for o in (op.TABLE[name] for name in ELEMENTWISE):
        types = operand_types(o, t)
        if types is None or o in (op.cast, op.bitcast):
            continue
        step = {1: 1, 2: 2, 3: 4}[o.arity]
        choices = [specials(x) if x.is_mask else specials(x)[::step] for x in types]
        rows = list(itertools.product(*choices))
        columns = [column(x, [r[k] for r in rows]) for k, x in enumerate(types)]
        values = node.apply(o, *columns)
        constants = [
            node.apply(o, *[node.literal(x, v) for x, v in zip(types, r, strict=True)])
            for r in rows
        ]
        assert all(c.is_literal for c in constants)
        folded.append((o, rows, values, constants))
        checked += len(rows)
        for k in range(o.arity if o.arity > 1 else 0):
            for v in choices[k][::2]:
                chosen = [j for j, r in enumerate(rows) if r[k] is v]
                some = [column(x, [rows[j][m] for j in chosen]) for m, x in enumerate(types)]
                some[k] = node.literal(types[k], v)
                mixed.append((o, k, v, node.apply(o, *some), values, chosen))
    assert checked > 20
    # All at once, as kernels of one operation each would take ten times as long to compile.
    nodes = [n for _, _, n, _ in folded] + [n for _, _, _, n, _, _ in mixed]
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):  # which allows GPUs to approximate
        schedule.evaluate([n for n in nodes if not n.is_literal])
    for o, rows, values, constants in folded:
        got = data(values)
        want = np.array([c.data for c in constants], got.dtype)
        wrong = np.flatnonzero(~same_bits(got, want))
        assert not wrong.size, (o.name, rows[wrong[0]], got[wrong[0]], want[wrong[0]])
    for o, k, v, n, values, chosen in mixed:
        assert same_bits(data(n), data(values)[chosen]).all(), (o.name, k, v)


@pytest.mark.parametrize("t", dt.ALL, ids=lambda t: t.name)
def test_folded_conversions_equal_computed_ones(tier, t):
    values = specials(t)
    for u in dt.ALL:
        if u is t:
            continue
        same_size = u.itemsize == t.itemsize and not u.is_mask and not t.is_mask
        for convert in (node.cast, node.bitcast) if same_size else (node.cast,):
            got = computed(convert(u, column(t, values)))
            folded = [convert(u, node.literal(t, v)).data for v in values]
            assert same_bits(got, np.array(folded, u.numpy)).all(), (convert, u)


def c_lgamma(x):
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


SAME_NAMES = (
    "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "log", "log1p", "log2",
    "cbrt", "sqrt",
    "abs", "floor", "ceil", "trunc", "isnan", "isinf", "isfinite", "square",
)  # fmt: skip
LIKE_NUMPY = {
    **{name: getattr(np, name) for name in SAME_NAMES},
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "sqr": np.square,
    "acosh": np.arccosh, "atanh": np.arctanh, "round": np.rint, "erf": scipy.special.erf,
    "erfinv": scipy.special.erfinv, "lgamma": np.vectorize(c_lgamma, [float]),
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
LIKE_NUMPY_2 = {
    "atan2": np.arctan2, "copysign": np.copysign, "hypot": np.hypot, "power": np.power,
    "fmin": np.fmin, "fmax": np.fmax,
    "minimum": np.minimum, "maximum": np.maximum,
}  # fmt: skip


def assert_like(got, expected, *operands, floor=0.0):
    """The same NaNs, infinities, zeros and signs; else within a few units in the last place of the
    result, or of `floor` if that is larger."""
    if got.dtype == bool:
        assert got.tolist() == expected.tolist()
        return
    expected = expected.astype(got.dtype)
    nan, info = np.isnan(expected), np.finfo(got.dtype)
    wide, exact = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wide) & np.isfinite(exact)
    distance = np.abs(np.where(finite, wide, 0) - np.where(finite, exact, 0))
    wrong = (np.isnan(got) != nan) | (np.isinf(got) != np.isinf(expected))
    wrong |= (got == 0) != (expected == 0)
    wrong |= ~nan & (np.signbit(got) != np.signbit(expected))
    near = 8 * float(info.eps) * np.maximum(np.abs(exact), floor)
    wrong |= distance > near + 8 * float(info.smallest_subnormal)
    at = np.flatnonzero(wrong)
    assert not at.size, [(*(o[k] for o in operands), got[k], expected[k]) for k in at[:4]]


@pytest.mark.parametrize("cls", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("name", LIKE_NUMPY)
@pytest.mark.compiled_every(4)
def test_functions_of_extreme_values(tier, cls, name):
    x = np.array(specials(cls._dtype)).astype(cls._dtype.numpy)
    with np.errstate(all="ignore"):
        expected = LIKE_NUMPY[name](x.astype(np.float64))
        expected = expected if expected.dtype == bool else expected.astype(x.dtype)
        # At its zeros lgamma is accurate as a sum is, and so is that of the C library.
        floor = 1.0 if name == "lgamma" else 0.0
        assert_like(getattr(dr, name)(cls(x)).numpy(), expected, x, floor=floor)


@pytest.mark.parametrize("cls", FLOATS.values(), ids=FLOATS)
@pytest.mark.parametrize("name", LIKE_NUMPY_2)
def test_functions_of_two_extreme_values(tier, cls, name):
    values = np.array(specials(cls._dtype)).astype(cls._dtype.numpy)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = LIKE_NUMPY_2[name](x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
        got = getattr(dr, name)(cls(x), cls(y)).numpy()
        if name in ("fmin", "fmax", "minimum", "maximum"):  # either zero may be the smaller one
            got, expected = got + np.float16(0), expected + np.float16(0)
        assert_like(got, expected, x, y)


@pytest.mark.parametrize("cls", FLOATS.values(), ids=FLOATS)
def test_arithmetic_of_extreme_values_is_that_of_numpy(tier, cls):
    values = np.array(specials(cls._dtype)).astype(cls._dtype.numpy)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for f in (
            lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
            lambda a, b: -a, lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a == b,
            lambda a, b: a != b, lambda a, b: a > b, lambda a, b: a >= b,
        ):  # fmt: skip
            assert same_bits(f(cls(x), cls(y)).numpy(), f(x, y)).all()


def test_python_numbers_by_the_same_rules():
    """Functions of Python numbers give infinities and NaN where `math` raises."""
    nan, inf = math.nan, math.inf
    for name, x, expected in (
        ("sqrt", -1.0, nan), ("log", 0.0, -inf), ("log", -1.0, nan), ("exp", 1e4, inf),
        ("log2", 0.0, -inf), ("sinh", 1e4, inf), ("acos", 2.0, nan), ("atanh", 1.0, inf),
        ("acosh", 0.5, nan), ("sin", inf, nan), ("rcp", 0.0, inf), ("rsqrt", 0.0, inf),
        ("lgamma", -1.0, inf), ("lgamma", 1e308, inf), ("exp2", 2000.0, inf), ("erfinv", 1.0, inf),
        ("floor", inf, inf), ("trunc", -inf, -inf), ("round", nan, nan), ("ceil", nan, nan),
    ):  # fmt: skip
        got = getattr(dr, name)(x)
        assert got == expected or (got != got and expected != expected), (name, x, got)


@pytest.mark.parametrize("cls", FLOATS.values(), ids=FLOATS)
def test_reductions_of_extreme_values(tier, cls):
    nan, inf = math.nan, math.inf
    for values, total, low, high in (
        ([nan, 1, 2], nan, 1, 2),
        ([inf, -inf], nan, -inf, inf),
        ([inf, 1], inf, 1, inf),
        ([nan, nan], nan, inf, -inf),
    ):
        a = cls(values)
        dr.make_opaque(a)
        assert np.array_equal(dr.sum(a).numpy(), [total], equal_nan=True)
        assert dr.min(a).numpy().tolist() == [low] and dr.max(a).numpy().tolist() == [high]
    big = float(np.finfo(cls._dtype.numpy).max)
    assert dr.sum(cls(big, big)).numpy().tolist() == [inf]
    assert dr.prod(cls(big, big)).numpy().tolist() == [inf]


# Huge arguments


@pytest.mark.parametrize("cls", FLOATS.values(), ids=FLOATS)
def test_trigonometry_of_huge_arguments(tier, cls):
    info = np.finfo(cls._dtype.numpy)
    exponents = range(3, 16) if cls is Float16 else range(10, info.maxexp, info.maxexp // 24)
    x = np.array([1.2345 * 2.0**e for e in exponents] + [float(info.max)]).astype(info.dtype)
    x = x[np.isfinite(x)]
    with mpmath.workprec(1200):
        exact = np.array([(float(mpmath.sin(v)), float(mpmath.cos(v))) for v in x.tolist()])
    sine, cosine = dr.sincos(cls(x))
    tolerance = 4 * float(info.eps)
    for got, want in ((sine, exact[:, 0]), (cosine, exact[:, 1]), (dr.sin(cls(-x)), -exact[:, 0])):
        assert np.abs(got.numpy().astype(float) - want).max() <= tolerance
    tangent = exact[:, 0] / exact[:, 1]
    error = dr.tan(cls(x)).numpy().astype(float) / tangent - 1
    assert np.abs(error).max() <= 2 * tolerance


# Integers


@pytest.mark.parametrize("cls", INTEGERS, ids=lambda c: c.__name__)
def test_division_of_integers_never_traps(tier, cls):
    info = np.iinfo(cls._dtype.numpy)
    values = specials(cls._dtype)
    x, y = (
        a.ravel() for a in np.meshgrid(np.array(values, info.dtype), np.array(values, info.dtype))
    )

    def truncated(a, b):
        """What the kernel language states: 0 for a divisor of 0, MIN // -1 wraps to MIN."""
        a, b = int(a), int(b)
        if b == 0:
            return 0, 0
        q = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        r = a - q * b
        return (q - (1 << info.bits) if q > info.max else q), r

    expected = np.array([truncated(a, b) for a, b in zip(x, y, strict=True)], info.dtype)
    assert np.array_equal((cls(x) // cls(y)).numpy(), expected[:, 0])
    assert np.array_equal((cls(x) % cls(y)).numpy(), expected[:, 1])
    for divisor in (0, -1) if info.min < 0 else (0,):  # as a constant, and in place
        want = [truncated(a, divisor) for a in values]
        a, b = cls(values), cls(values)
        assert (a // divisor).numpy().tolist() == [q for q, _ in want]
        assert (a % cls(divisor)).numpy().tolist() == [r for _, r in want]
        a //= cls(divisor)
        b %= divisor
        assert (a.numpy().tolist(), b.numpy().tolist()) == tuple(map(list, zip(*want, strict=True)))


@pytest.mark.parametrize("cls", INTEGERS, ids=lambda c: c.__name__)
def test_shifts_by_the_width_or_more(tier, cls):
    info = np.iinfo(cls._dtype.numpy)
    x = cls(specials(cls._dtype))
    sign = np.where(x.numpy() < 0, -1, 0).tolist()
    counts = [info.bits, info.bits + 1, 2 * info.bits - 1, info.max]
    counts += [-1, info.min] if info.min < 0 else []
    for count in (c for c in counts if c <= info.max):
        opaque = dr.opaque(cls, count)
        for shift in (opaque, cls(count), count):
            assert (x << shift).numpy().tolist() == [0] * len(sign), count
            assert (x >> shift).numpy().tolist() == sign, count
    assert (x << 0).numpy().tolist() == (x >> 0).numpy().tolist() == x.numpy().tolist()


def test_negative_and_smallest_integers(tier):
    low = Int(-(1 << 31), -1, (1 << 31) - 1)
    assert dr.abs(low).numpy().tolist() == [-(1 << 31), 1, (1 << 31) - 1]
    assert (-low).numpy().tolist() == [-(1 << 31), 1, -(1 << 31) + 1]
    assert (low * low).numpy().tolist() == [0, 1, 1]
    assert dr.mul_hi(low, low).numpy().tolist() == [1 << 30, 0, (1 << 30) - 1]
    zero = UInt(0)
    assert [f(zero).numpy()[0] for f in (dr.lzcnt, dr.tzcnt, dr.popcnt)] == [32, 32, 0]
    assert (zero - 1).numpy().tolist() == [(1 << 32) - 1]


def test_conversions_out_of_range_saturate(tier):
    values = dr.opaque(Float, 0) + Float(1e30, -1e30, math.nan, math.inf, -math.inf, -1.9)
    assert Int(values).numpy().tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31), -1]
    assert UInt(values).numpy().tolist() == [2**32 - 1, 0, 0, 2**32 - 1, 0, 0]
    assert Int64(values).numpy().tolist() == [2**63 - 1, -(2**63), 0, 2**63 - 1, -(2**63), -1]
    assert llvm.Int8(values).numpy().tolist() == [127, -128, 0, 127, -128, -1]
    assert Bool(values).numpy().tolist() == [True] * 6
    assert Float16(values).numpy().tolist()[:2] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: Int(1 << 31), TypeError, "2147483648 is out of range (-2147483648 to 2147483647)"),
        (lambda: UInt(-1), TypeError, "-1 is out of range (0 to 4294967295)"),
        (lambda: UInt([1, 1 << 32]), TypeError, "4294967296 is out of range"),
        (lambda: llvm.UInt8(256), TypeError, "256 is out of range (0 to 255)"),
        (lambda: Int64(1 << 63), TypeError, "out of range"),
        (lambda: Int(1e20), TypeError, "100000000000000000000 is out of range"),
        (lambda: Int(math.nan), TypeError, "nan has no integer value"),
        (lambda: Int(math.inf), TypeError, "inf"),
        (lambda: Float(10**400), TypeError, "beyond any float"),
        (
            lambda: Int(1) + (1 << 40),
            RuntimeError,
            "1099511627776 does not fit into drjit.llvm.Int",
        ),
        (
            lambda: UInt(1) * -1,
            RuntimeError,
            "-1 does not fit into drjit.llvm.UInt (0 to 4294967295)",
        ),
        (lambda: dr.full(llvm.Int8, 200, 3), (TypeError, RuntimeError), "200"),
        (lambda: scalar.Array2u(-1, 0), TypeError, "-1"),
    ],
)
def test_numbers_that_do_not_fit(make, error, text):
    with pytest.raises(error) as caught:
        make()
    assert named(text) in str(caught.value)


def test_floats_that_do_not_fit_become_infinite(tier):
    assert Float16(1e6).numpy().tolist() == [math.inf]
    assert Float(1e300, -1e300).numpy().tolist() == [math.inf, -math.inf]
    assert (dr.opaque(Float, 1) * 1e300).numpy().tolist() == [math.inf]

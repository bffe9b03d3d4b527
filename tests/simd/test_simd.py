"""The SIMD target against NumPy: every operation on every element type, edge values, control flow,
memory and reductions.
"""

import ctypes
import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers import differing, padded

from drjit.jit import processor
from drjit.jit.ir import dtype
from drjit.jit.target import image, library, simd
from drjit.jit.target import numpy as numpy_target
from drjit.jit.target.simd.compensated_sum import SHORT

INTEGERS = [t for t in dtype.ALL if t.is_int]
FLOATS = [t for t in dtype.ALL if t.is_float]
NUMBERS = INTEGERS + FLOATS
SIZES = (1, 15, 17, 1000)
WIDTHS = sorted({8, simd.default_lanes()})
both_widths = pytest.mark.parametrize("lanes", WIDTHS)
# Kernels with loops have packets of two vectors.
all_widths = pytest.mark.parametrize("lanes", [*WIDTHS, 2 * simd.default_lanes()])
RECORD = np.zeros(5, np.int64)


@cache
def made(compile, text, lanes, contract):
    """A kernel: many tests run one for several sizes."""
    built = compile(text, "test", lanes, contract)
    return image.Loaded(built.code, "test", built.has_finish)


def call(text, words, n, lanes, *, block=None, threads=1, contract=False):
    """Runs a kernel block by block. Arrays become padded buffers that are copied back, anything
    else a word.
    """
    loaded = made(simd.compile, text, lanes, contract)
    buffers = [padded(w) if isinstance(w, np.ndarray) else None for w in words]
    block_of = np.zeros(len(words) or 1, np.uint64)
    for k, word in enumerate(words):
        if buffers[k] is not None:
            block_of[k] = buffers[k].ctypes.data
        elif isinstance(word, np.generic):
            block_of[k] = int.from_bytes(word.tobytes(), "little")
        else:
            block_of[k] = word
    size = block or max(n, 1)
    size = -(-size // lanes) * lanes
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)(loaded.kernel)
    blocks = -(-n // size)
    for b in range(blocks):
        kernel(block_of.ctypes.data, b * size, min(n, (b + 1) * size), b, b % threads)
    if loaded.finish:
        finish = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2)(loaded.finish)
        finish(block_of.ctypes.data, blocks, threads)
    for word, buffer in zip(words, buffers, strict=True):
        if buffer is not None:
            word[:] = buffer[: word.size]


def values(t, rng, count=80):
    """Edge values of a type and random ones."""
    if t.is_mask:
        return rng.random(count) < 0.5
    if t.is_int:
        low, high = np.iinfo(t.numpy).min, np.iinfo(t.numpy).max
        edge = [0, 1, 2, 3, 5, 7, low, low + 1, high, high - 1, high // 2, t.bits - 1, t.bits]
        edge += [t.bits + 1] + ([-1, -2, -7] if t.is_signed else [])
        edge = [e for e in edge if low <= e <= high]
        spread = rng.integers(low, high, count - len(edge), dtype=t.numpy, endpoint=True)
        return np.concatenate([np.array(edge, t.numpy), spread])
    info = np.finfo(t.numpy)
    edge = [
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        np.inf,
        -np.inf,
        np.nan,
        info.max,
        -info.max,
    ]
    edge += [info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps]
    with np.errstate(all="ignore"):
        edge += [127.5, 255.5, 32767.5, 65535.4, 2147483648.0, -2147483648.0, 4294967040.0, 1e10]
        edge += [9.3e18, 1.9e19, -9.3e18, -129.9, -0.9, 0.99]
        spread = rng.standard_normal(count - len(edge)) * 100
        return np.concatenate([np.array(edge, np.float64), spread]).astype(t.numpy)


def pairs(t, seed=0):
    """Every pairing of the values of a type."""
    x = values(t, np.random.default_rng(seed))
    return np.repeat(x, x.size), np.tile(x, x.size)


def same(got, want, what=""):
    """Equal to the last bit; any NaN equals any NaN."""
    want = np.asarray(want, got.dtype) if np.asarray(want).dtype != got.dtype else np.asarray(want)
    wrong = differing(got, want)
    assert not wrong.size, f"{what}: at {wrong[:5]} got {got[wrong[:5]]}, not {want[wrong[:5]]}"


def run_rows(inputs, rows, lanes, contract=False):
    """One kernel that computes all rows `(expression, result type)` from the inputs `(name, type,
    array)`.
    """
    lines, words, n = ["def kernel(i, p):"], [RECORD.copy()], inputs[0][2].size
    for name, t, array in inputs:
        lines.append(f"    {name} = load({t.code}, p[{len(words)}], i)")
        words.append(array.copy())
    results = []
    for k, (expression, t) in enumerate(rows):
        lines += [f"    v{k} = {expression}", f"    store({t.code}, p[{len(words)}], i, v{k})"]
        results.append(np.zeros(n, t.numpy))
        words.append(results[-1])
    call("\n".join(lines), words, n, lanes, contract=contract)
    return results


def check_rows(inputs, table, lanes):
    """`table` maps an expression to its result type and expected values."""
    rows = [(e, t) for e, (t, _) in table.items()]
    for (expression, (_, want)), got in zip(
        table.items(), run_rows(inputs, rows, lanes), strict=True
    ):
        same(got, want, f"{expression} of {inputs[0][1]}")


def in_f32(t, function, *arguments):
    """What the language says about f16: computed in f32, rounded to f16."""
    if t is not dtype.f16:
        return function(*arguments)
    return function(*[a.astype(np.float32) for a in arguments]).astype(np.float16)


COMPARISONS = {
    "x == y": np.equal,
    "x != y": np.not_equal,
    "x < y": np.less,
    "x <= y": np.less_equal,
    "x > y": np.greater,
    "x >= y": np.greater_equal,
}


@both_widths
@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integer_operations(t, lanes):
    x, y = pairs(t)
    wide, bits = [int(v) for v in x], t.bits
    low = np.iinfo(t.numpy).min
    unsigned = np.dtype(f"u{t.itemsize}")

    def wrap(numbers):
        return np.array([n & ((1 << bits) - 1) for n in numbers], unsigned).view(t.numpy)

    def both(function):
        return wrap([function(int(a), int(b)) for a, b in zip(x, y, strict=True)])

    def quotient(a, b):
        return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)

    def right(a, b):
        count = b & ((1 << bits) - 1)
        return a >> min(count, bits - 1) if t.is_signed else (a >> count if count < bits else 0)

    def left(a, b):
        count = b & ((1 << bits) - 1)
        return a << count if count < bits else 0

    def patterns(function):
        return wrap([function(n & ((1 << bits) - 1)) for n in wide])

    def leading(n):
        return bits - n.bit_length()

    def trailing(n):
        return bits if n == 0 else (n & -n).bit_length() - 1

    table = {
        "-x": (t, wrap([-n for n in wide])),
        "abs(x)": (t, wrap([abs(n) for n in wide])),
        "~x": (t, ~x),
        "x + y": (t, both(lambda a, b: a + b)),
        "x - y": (t, both(lambda a, b: a - b)),
        "x * y": (t, both(lambda a, b: a * b)),
        "x & y": (t, x & y),
        "x | y": (t, x | y),
        "x ^ y": (t, x ^ y),
        "quotient(x, y)": (t, both(quotient)),
        "remainder(x, y)": (t, both(lambda a, b: 0 if b == 0 else a - b * quotient(a, b))),
        "quotient(x, 7)": (t, wrap([quotient(n, 7) for n in wide])),
        "remainder(x, 10)": (t, wrap([n - 10 * quotient(n, 10) for n in wide])),
        "quotient(x, 0)": (t, np.zeros_like(x)),
        "remainder(x, 0)": (t, np.zeros_like(x)),
        "shl(x, y)": (t, both(left)),
        "shr(x, y)": (t, both(right)),
        "shl(x, 3)": (t, wrap([n << 3 for n in wide])),
        "shr(x, 3)": (t, wrap([n >> 3 for n in wide])),
        "shl(x, 64)": (t, np.zeros_like(x)),
        "shr(x, 64)": (t, wrap([right(n, 64) for n in wide])),
        "minimum(x, y)": (t, np.minimum(x, y)),
        "maximum(x, y)": (t, np.maximum(x, y)),
        "popcnt(x)": (t, patterns(lambda n: n.bit_count())),
        "lzcnt(x)": (t, patterns(leading)),
        "tzcnt(x)": (t, patterns(trailing)),
        "brev(x)": (t, patterns(lambda n: int(f"{n:0{bits}b}"[::-1], 2))),
        "mul_hi(x, y)": (t, both(lambda a, b: a * b >> bits)),
        "select(x < y, x, y)": (t, np.minimum(x, y)),
        "x + 5": (t, wrap([n + 5 for n in wide])),
        f"{t.code}(5) - x": (t, wrap([5 - n for n in wide])),
    }
    if t.is_signed:
        table["quotient(x, -1)"] = t, wrap([-n for n in wide])
        table["remainder(x, -1)"] = t, np.zeros_like(x)
        assert wrap([quotient(low, -1)])[0] == low
    table |= {e: (dtype.mask, f(x, y)) for e, f in COMPARISONS.items()}
    check_rows([("x", t, x), ("y", t, y)], table, lanes)


def rounded(exact, t):
    """The float of a type nearest to an exact number, ties to even."""
    with np.errstate(all="ignore"):
        near = t.scalar(float(exact))
        around = [np.nextafter(near, t.scalar(-np.inf)), near, np.nextafter(near, t.scalar(np.inf))]
    word = np.dtype(f"u{t.itemsize}")
    finite = [c for c in around if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(word)) & 1))


@both_widths
@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_float_operations(t, lanes):
    x, y = pairs(t)
    with np.errstate(all="ignore"):
        table = {
            "-x": (t, -x),
            "abs(x)": (t, np.abs(x)),
            "x + y": (t, in_f32(t, np.add, x, y)),
            "x - y": (t, in_f32(t, np.subtract, x, y)),
            "x * y": (t, in_f32(t, np.multiply, x, y)),
            "x / y": (t, in_f32(t, np.divide, x, y)),
            "minimum(x, y)": (t, np.where(x < y, x, y)),
            "maximum(x, y)": (t, np.where(x > y, x, y)),
            "sqrt(x)": (t, in_f32(t, np.sqrt, x)),
            "floor(x)": (t, np.floor(x)),
            "ceil(x)": (t, np.ceil(x)),
            "trunc(x)": (t, np.trunc(x)),
            "round(x)": (t, np.rint(x)),
            "select(x < y, x, y)": (t, np.where(x < y, x, y)),
            "x * 0.1": (t, in_f32(t, np.multiply, x, np.full_like(x, 0.1))),
            "-0.0 - x": (t, -x),
            f"{t.code}(2.5) + x": (t, in_f32(t, np.add, np.full_like(x, 2.5), x)),
        }
        table |= {e: (dtype.mask, f(x, y)) for e, f in COMPARISONS.items()}
    check_rows([("x", t, x), ("y", t, y)], table, lanes)


@both_widths
@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_fma_rounds_once(t, lanes):
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 300)).astype(t.numpy)
    z = (-in_f32(t, np.multiply, x, y) * rng.choice([1, 0.5, 1.25], 300)).astype(t.numpy)
    if t is dtype.f16:
        exact = (x.astype(np.float64) * y + z).astype(np.float32).astype(np.float16)
    else:
        exact = [
            rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), t)
            for a, b, c in zip(x, y, z, strict=True)
        ]
    inputs = [("x", t, x), ("y", t, y), ("z", t, z)]
    table = {"fma(x, y, z)": (t, np.array(exact, t.numpy))}
    check_rows(inputs, table, lanes)
    if t is not dtype.f16:
        plain, fused = (
            run_rows(inputs, [("x * y + z", t)], lanes, contract)[0] for contract in (False, True)
        )
        same(plain, x * y + z, "no contraction")
        same(fused, np.array(exact, t.numpy), "contraction")


@both_widths
def test_mask_operations(lanes):
    t = dtype.mask
    x, y = pairs(t)
    z = np.roll(y, 3)
    table = {
        "x & y": (t, x & y),
        "x | y": (t, x | y),
        "x ^ y": (t, x ^ y),
        "~x": (t, ~x),
        "x == y": (t, x == y),
        "x != y": (t, x != y),
        "select(x, y, z)": (t, np.where(x, y, z)),
        "x & True": (t, x),
        "x | False": (t, x),
    }
    check_rows([("x", t, x), ("y", t, y), ("z", t, z)], table, lanes)


def converted(x, source, to):
    """NumPy's conversion, made to saturate."""
    if to.is_mask:
        return x != 0
    with np.errstate(all="ignore"):
        if source.is_float and to.is_int:
            info = np.iinfo(to.numpy)
            out = []
            for v in x.tolist():
                if v != v:
                    out.append(0)
                else:
                    out.append(int(min(max(v, info.min), info.max)) if abs(v) < 1e300 else None)
                    if out[-1] is None:
                        out[-1] = info.max if v > 0 else info.min
            return np.array([min(max(v, info.min), info.max) for v in out], to.numpy)
        return x.astype(to.numpy)


@both_widths
@pytest.mark.parametrize("source", dtype.ALL, ids=str)
def test_conversions(source, lanes):
    x = np.concatenate([values(source, np.random.default_rng(1), 200)] * 2)
    if source is dtype.f64:
        # Halfway between two float16 but for a bit that float32 cannot hold.
        x[-3:] = [1 + 2**-11 + 2**-40, 1 + 3 * 2**-11 - 2**-40, 65519.99999999]
    table = {f"{to.code}(x)": (to, converted(x, source, to)) for to in dtype.ALL}
    for to in dtype.ALL:
        if to.bits == source.bits and not to.is_mask:
            table[f"bitcast({to.code}, x)"] = to, x.view(to.numpy)
    check_rows([("x", source, x)], table, lanes)


@all_widths
@pytest.mark.parametrize("n", SIZES)
def test_lanes_and_memory_of_every_type(n, lanes):
    rng = np.random.default_rng(n)
    lines, words = ["def kernel(i, p):", "    j = lane(i)", "    m = active(i)"], [RECORD.copy()]
    wants = []
    for t in dtype.ALL:
        x = values(t, rng, 200)[rng.integers(0, 200, n)]
        one = values(t, rng, 200)[5:6].copy()
        k = len(words)
        words += [x, one, one[0], np.zeros(n, t.numpy), np.zeros(n, t.numpy), np.zeros(n, t.numpy)]
        lines += [
            f"    a{k} = load({t.code}, p[{k}], i)",
            f"    b{k} = broadcast({t.code}, p[{k + 1}])",
            f"    c{k} = literal({t.code}, p[{k + 2}])",
            f"    store({t.code}, p[{k + 3}], i, a{k})",
            f"    store({t.code}, p[{k + 4}], i, b{k})",
            f"    store({t.code}, p[{k + 5}], i, c{k})",
        ]
        wants += [(k + 3, x.copy()), (k + 4, np.full(n, one[0])), (k + 5, np.full(n, one[0]))]
    k = len(words)
    words += [np.zeros(n, np.uint32), np.zeros(n, bool)]
    lines += [f"    store(u32, p[{k}], i, j)", f"    store(mask, p[{k + 1}], i, m)"]
    wants += [(k, np.arange(n, dtype=np.uint32)), (k + 1, np.ones(n, bool))]
    call("\n".join(lines), words, n, lanes, block=64)
    for k, want in wants:
        same(words[k], want, f"p[{k}]")


@all_widths
@pytest.mark.parametrize("index", [dtype.u32, dtype.u64], ids=str)
def test_gathers_and_scatters_of_every_type(index, lanes):
    rng = np.random.default_rng(9)
    n = 300
    x = rng.integers(0, 50, n).astype(index.numpy)
    m = rng.random(n) < 0.7
    x[~m] = np.iinfo(index.numpy).max
    safe = np.where(m, x, 0).astype(np.int64)
    unique = rng.permutation(n).astype(index.numpy)
    lines = [
        "def kernel(i, p):",
        f"    x = load({index.code}, p[1], i)",
        "    m = load(mask, p[2], i) & active(i)",
        f"    u = load({index.code}, p[3], i)",
    ]
    words, wants = [RECORD.copy(), x, m, unique], []
    for t in dtype.ALL:
        k = len(words)
        source = values(t, rng, 60)
        v = values(t, rng, 200)[rng.integers(0, 200, n)]
        last, exact = np.zeros(60, t.numpy), np.zeros(n, t.numpy)
        for lane in np.flatnonzero(m):
            last[safe[lane]] = v[lane]
        exact[unique[m]] = v[m]
        words += [source, v, np.zeros(n, t.numpy), np.zeros(60, t.numpy), np.zeros(n, t.numpy)]
        lines += [
            f"    g{k} = gather({t.code}, p[{k}], x, m)",
            f"    store({t.code}, p[{k + 2}], i, g{k})",
            f"    v{k} = load({t.code}, p[{k + 1}], i)",
            f"    scatter({t.code}, p[{k + 3}], v{k}, x, m)",
            f"    scatter({t.code}, p[{k + 4}], v{k}, u, m)",
        ]
        gathered = np.where(m, source[safe], t.scalar(0)).astype(t.numpy)
        wants += [(k + 2, gathered), (k + 3, last), (k + 4, exact)]
    call("\n".join(lines), words, n, lanes)
    for k, want in wants:
        same(words[k], want, f"p[{k}]")


def several_accesses(index, types):
    """The text of a kernel that copies the elements at an index of one array per type to another
    index, in the lanes of a mask."""
    n = len(types)
    lines = [
        "def kernel(i, p):",
        f"    x = load({index}, p[0], i)",
        f"    y = load({index}, p[1], i)",
    ]
    lines += ["    m = load(mask, p[2], i)", "    m = m & active(i)"]
    lines += [f"    g{k} = gather({t}, p[{k + 3}], x, m)" for k, t in enumerate(types)]
    lines += [f"    scatter({t}, p[{k + n + 3}], g{k}, y, m)" for k, t in enumerate(types)]
    lines += [f"    store({t}, p[{k + 2 * n + 3}], i, g{k})" for k, t in enumerate(types)]
    return "\n".join(lines)


@all_widths
@pytest.mark.parametrize("index", [dtype.u32, dtype.u64], ids=str)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("place", ["adjacent", "reversed", "some", "random"])
def test_accesses_at_one_index(place, n, index, lanes):
    """Whether or not the elements lie side by side, and whatever masked lanes have as an index."""
    types = [dtype.f32, dtype.u64, dtype.i32, dtype.f64, dtype.u32]
    rng, at = np.random.default_rng(n), np.arange(n)
    mask = {"adjacent": rng.random(n) < 0.7, "some": at % 16 == 5}.get(place, np.ones(n, bool))
    mask[: min(n, 4 * lanes)] &= n < 100  # packets without a lane
    x = {"reversed": n + 2 - at, "random": rng.permutation(n)}.get(place, at + 3)
    x = np.where(mask, x, rng.integers(0, 1 << 31, n)).astype(index.numpy)
    y = np.where(mask, x + (place == "some"), x).astype(index.numpy)
    sources = [rng.integers(0, 100, n + 4).astype(t.numpy) for t in types]
    targets = [np.zeros(n + 4, t.numpy) for t in types]
    found = [np.zeros(n, t.numpy) for t in types]
    text = several_accesses(index.code, [t.code for t in types])
    call(text, [x, y, mask, *sources, *targets, *found], n, lanes)
    safe = np.where(mask, x, 0)
    for source, target, got in zip(sources, targets, found, strict=True):
        want = np.where(mask, source[safe], 0).astype(got.dtype)
        same(got, want, "gathered")
        scattered = np.zeros_like(target)
        scattered[y[mask]] = want[mask]
        same(target, scattered, "scattered")


def test_accesses_at_one_index_are_one_to_memory_where_elements_lie_side_by_side():
    ir = simd.compile(several_accesses("u32", ["f32"] * 3), "test", 8).ir
    assert ir.count("call <8 x float> @llvm.masked.load") == 3
    assert ir.count("call void @llvm.masked.store") == 3


@all_widths
def test_conversions_of_64_bit_integers_round_once(lanes):
    """Numbers next to the middle between two floats, and floats up to the ends of the ranges."""
    rng = np.random.default_rng(2)
    shift = rng.integers(1, 40, 1000).astype(np.uint64)
    odd = rng.integers(-1, 2, 1000).astype(np.uint64)
    middle = np.uint64(1) << (shift - np.uint64(1))
    words = (rng.integers(1 << 23, 1 << 24, 1000).astype(np.uint64) << shift) + middle + odd
    large = (rng.random(1000) - 0.5) * 2.0 ** rng.integers(0, 65, 1000)
    halves = (rng.integers(1024, 2048, 1000) + 0.5) / 2.0 ** rng.integers(-5, 14, 1000)
    halves *= 1 + rng.integers(-1, 2, 1000) * 2.0**-52
    floats = {f"{t.code}(x)": (t, words.astype(t.numpy)) for t in (dtype.f32, dtype.f64)}
    check_rows([("x", dtype.u64, words)], floats, lanes)
    for t, x in ((dtype.i64, large), (dtype.u64, 2 * np.abs(large))):
        for source in (dtype.f32, dtype.f64):
            x = x.astype(source.numpy)
            check_rows([("x", source, x)], {f"{t.code}(x)": (t, x.astype(t.numpy))}, lanes)
    nearest = {"f16(x)": (dtype.f16, halves.astype(np.float16))}
    check_rows([("x", dtype.f64, halves)], nearest, lanes)


@all_widths
@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 16])
def test_packets(count, lanes):
    rng = np.random.default_rng(count)
    n = 77
    x = rng.permutation(n).astype(np.uint32)
    m = rng.random(n) < 0.8
    x[~m] = 0xFFFFFFFF
    lines = [
        "def kernel(i, p):",
        "    x = load(u32, p[1], i)",
        "    m = load(mask, p[2], i) & active(i)",
    ]
    words, wants = [RECORD.copy(), x, m], []
    for t in (dtype.f32, dtype.u32, dtype.f64, dtype.f16, dtype.u8, dtype.mask):
        k = len(words)
        source = values(t, rng, n * count)
        names = [f"v{k}_{j}" for j in range(count)]
        lines += [
            f"    {', '.join(names)} = gather_packet({t.code}, p[{k}], x, m, {count})",
            f"    scatter_packet({t.code}, p[{k + 1}], x, m, {', '.join(names)})",
        ]
        words += [source, np.zeros(n * count, t.numpy)]
        want = np.zeros((n, count), t.numpy)
        want[x[m]] = source.reshape(n, count)[x[m]]
        wants.append((k + 1, want.ravel()))
        for j, name in enumerate(names):
            lines.append(f"    store({t.code}, p[{len(words)}], i, {name})")
            column = np.zeros(n, t.numpy)
            column[m] = source.reshape(n, count)[x[m], j]
            wants.append((len(words), column))
            words.append(np.zeros(n, t.numpy))
    call("\n".join(lines), words, n, lanes)
    for k, want in wants:
        same(words[k], want, f"p[{k}]")


def reductions(t):
    """The reductions that exist for a type."""
    return ("and", "or") if t.is_mask else ("add", "mul", "min", "max") + ("and", "or") * t.is_int


FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def small(t, rng, n):
    """Values whose sums and products are exact in any order."""
    if t.is_mask:
        return rng.random(n) < 0.5
    if t.is_int:
        return values(t, rng, 100)[rng.integers(0, 100, n)]
    return rng.choice([1.0, 2.0, 0.5, -1.0, 0.25, 4.0], n).astype(t.numpy)


def neutral(t, op):
    """The initial value of a target."""
    if t.is_mask:
        return op == "and"
    return {"add": 0, "mul": 1, "or": 0}.get(op, t.scalar(3))


@all_widths
@pytest.mark.parametrize("count", [2, 4, 12])
def test_packets_of_all_active_lanes(count, lanes):
    rng = np.random.default_rng(count)
    n = 45
    x = rng.permutation(n).astype(np.uint32)
    source = rng.random(n * count).astype(np.float32)
    names = [f"v{j}" for j in range(count)]
    lines = [
        "def kernel(i, p):",
        "    x = load(u32, p[1], i) - u32(5)",  # in lanes beyond the end: far out of bounds
        f"    {', '.join(names)} = gather_packet(f32, p[2], x, active(i), {count})",
    ]
    for j, name in enumerate(names):
        lines.append(f"    store(f32, p[{3 + j}], i, {name})")
    lines.append(f"    reduce(f32, 'max', p[{3 + count}], p[{4 + count}], i, v0)")
    columns = [np.zeros(n, np.float32) for _ in names]
    total = np.zeros(1, np.float32)
    words = [RECORD.copy(), x + 5, source, *columns, np.zeros(8, np.float32), total]
    call("\n".join(lines), words, n, lanes)
    for j, column in enumerate(columns):
        same(column, source.reshape(n, count)[x, j], f"component {j}")
    assert total[0] == source.reshape(n, count)[:, 0].max()


@all_widths
@pytest.mark.parametrize("neighbours", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("taps", [1, 2, 4, 5])
@pytest.mark.parametrize(
    ("t", "count", "index"),
    [("f32", 4, "u32"), ("f32", 4, "u64"), ("f32", 3, "u32"), ("f64", 4, "u32"), ("f16", 2, "u32")],
)
def test_weighted_sums_of_packets(t, count, index, taps, neighbours, lanes):
    """As on NumPy to the last bit, whether records are neighbours in memory or not."""
    rng = np.random.default_rng(taps)
    n, size = 77, 50
    kind = dtype.BY_CODE[t].numpy
    source = (rng.random(size * count) + 0.5).astype(kind)
    m = rng.random(n) < 0.8
    words = [RECORD.copy(), source, m]
    lines = ["def kernel(i, p):", "    m = load(mask, p[2], i) & active(i)"]
    operands = []
    for k in range(taps):
        x = rng.integers(0, size - 1, n)
        if k % 2:
            x = np.where(rng.random(n) < neighbours, words[-2].astype(np.int64) + 1, x)
        x[~m] = -1
        words += [x.astype(index.replace("u", "uint")), (rng.random(n) - 0.3).astype(kind)]
        lines += [
            f"    x{k} = load({index}, p[{3 + 2 * k}], i)",
            f"    w{k} = load({t}, p[{4 + 2 * k}], i)",
        ]
        operands += [f"x{k}", f"w{k}"]
    names = ", ".join([f"v{j}" for j in range(count)])
    lines.append(f"    {names} = gather_weighted({t}, p[1], m, {count}, {', '.join(operands)})")
    for j in range(count):
        lines.append(f"    store({t}, p[{len(words)}], i, v{j})")
        words.append(np.zeros(n, kind))
    text = "\n".join(lines)
    interpreted = [w.copy() for w in words]
    scope = dict(numpy_target.namespace)
    exec(text, scope)
    numpy_target.run(scope["kernel"], interpreted, n)
    call(text, words, n, lanes)
    for j in range(count):
        same(words[j - count], interpreted[j - count], f"component {j}")
    # Against the plain sum.
    total = np.zeros((n, count))
    for k in range(taps):
        x = np.where(m, words[3 + 2 * k], 0).astype(np.int64)
        total += source.reshape(-1, count)[x] * words[4 + 2 * k][:, None].astype(np.float64)
    total[~m] = 0
    found = np.stack(words[-count:], 1)
    np.testing.assert_allclose(found, total, rtol=0, atol=1e-2 if t == "f16" else 1e-5)


@all_widths
@pytest.mark.parametrize("index", ["u32", "u64"])
@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_sums_of_packets(count, index, lanes):
    rng = np.random.default_rng(count)
    n, size, threads = 90, 11, 3
    x = rng.integers(0, size, n).astype(index.replace("u", "uint"))
    m = rng.random(n) < 0.8
    x[~m] = 0xFFFFFFFF
    lines = [
        "def kernel(i, p):",
        f"    x = load({index}, p[1], i)",
        "    m = load(mask, p[2], i) & active(i)",
    ]
    words, wants = [RECORD.copy(), x, m, size * count], []
    for t in FLOATS:
        components = [small(t, rng, n) for _ in range(count)]
        names = [f"{t.code}_{j}" for j in range(count)]
        for name, component in zip(names, components, strict=True):
            lines.append(f"    {name} = load({t.code}, p[{len(words)}], i)")
            words.append(component)
        target = small(t, rng, size * count)
        want = target.copy()
        for j, component in enumerate(components):
            np.add.at(want, x[m] * count + j, component[m])
        k = len(words)
        lines.append(
            f"    scatter_reduce_packet({t.code}, 'add', p[{k}], p[{k + 1}], p[3], x, m, "
            f"{', '.join(names)})"
        )
        # Of half-precision targets every thread has a copy, of others all but the first.
        half = t is dtype.f16
        kind = np.float32 if half else t.numpy
        words += [target, np.zeros((threads - (not half)) * size * count, kind)]
        wants.append((k, want, f"{t}"))
    call("\n".join(lines), words, n, lanes, block=32, threads=threads)
    for k, want, what in wants:
        same(words[k], want, what)


@both_widths
@pytest.mark.parametrize("mode", ["direct", "no_conflicts", "expand"])
def test_scatter_reductions_of_every_type(mode, lanes):
    rng = np.random.default_rng(4)
    n, size, threads = 90, 33, 3
    x = rng.integers(0, size, n).astype(np.uint32)
    m = rng.random(n) < 0.8
    x[~m] = 0xFFFFFFFF
    lines = [
        "def kernel(i, p):",
        "    x = load(u32, p[1], i)",
        "    m = load(mask, p[2], i) & active(i)",
    ]
    words, wants = [RECORD.copy(), x, m, size], []
    for t in dtype.ALL:
        k = len(words)
        v = small(t, rng, n)
        words.append(v)
        lines.append(f"    v{k} = load({t.code}, p[{k}], i)")
        for op in reductions(t):
            target = np.full(size, neutral(t, op), t.numpy)
            want = target.copy()
            with np.errstate(all="ignore"):
                FUNCTIONS[op].at(want, x[m], v[m])
            k_target = len(words)
            wants.append((k_target, want, f"{op} of {t}"))
            words.append(target)
            if mode != "expand":
                lines.append(
                    f"    scatter_reduce({t.code}, '{op}', '{mode}', p[{k_target}], v{k}, x, m)"
                )
                continue
            kind = np.dtype(np.float32) if t is dtype.f16 else t.numpy
            identity = {
                "add": 0,
                "mul": 1,
                "or": 0,
                "and": ~kind.type(0) if kind.kind != "f" else 0,
            }
            if kind.kind == "f":
                identity |= {"min": np.inf, "max": -np.inf}
            elif kind.kind != "b":
                identity |= {"min": np.iinfo(kind).max, "max": np.iinfo(kind).min}
            copies = threads if t is dtype.f16 else threads - 1
            copies = np.full(copies * size, identity[op], kind)
            places = f"p[{k_target}], p[{len(words)}], p[3]"
            lines.append(f"    scatter_reduce_expand({t.code}, '{op}', {places}, v{k}, x, m)")
            words.append(copies)
    call("\n".join(lines), words, n, lanes, block=32, threads=threads)
    for k, want, what in wants:
        same(words[k], want, what)


@all_widths
@pytest.mark.parametrize("n", [1, 15, 16, 17, 33, SHORT * 16 + 5])
def test_atomic_updates_one_packet_later(n, lanes):
    """Beside a long sum, whose accumulators are emptied after a number of packets."""
    rng = np.random.default_rng(n)
    x = rng.integers(0, 7, n).astype(np.uint32)
    m = rng.random(n) < 0.8
    v = rng.integers(0, 9, n).astype(np.float32)
    text = """def kernel(i, p):
    a = active(i)
    x = load(u32, p[1], i)
    m = load(mask, p[2], i) & a
    v = load(f32, p[3], i)
    scatter_reduce(f32, 'add', 'direct', p[4], v, x, m)
    scatter_reduce(f32, 'max', 'direct', p[5], v, x, m)
    reduce(f32, 'add', p[6], p[7], i, v)
    scatter_reduce(f32, 'add', 'direct', p[8], v, x, a)
"""
    sums, most, total, all_sums = (np.zeros(k, np.float32) for k in (7, 7, 1, 7))
    partial = np.zeros(n // 64 + 1, np.float32)
    call(text, [RECORD.copy(), x, m, v, sums, most, partial, total, all_sums], n, lanes)
    same(sums, np.bincount(x[m], v[m], 7).astype(np.float32), "sums")
    same(all_sums, np.bincount(x, v, 7).astype(np.float32), "all sums")
    same(most, np.array([v[m & (x == k)].max(initial=0) for k in range(7)]), "maxima")
    same(total, v.sum(keepdims=True), "total")


@all_widths
@pytest.mark.parametrize("n", [1, 17, 100])
def test_many_atomic_updates_share_their_code(n, lanes):
    rng = np.random.default_rng(n)
    x, v = rng.integers(0, 7, n).astype(np.uint32), rng.integers(0, 9, n).astype(np.float32)
    lines = ["def kernel(i, p):", "    a = active(i)", "    x = load(u32, p[1], i)"]
    lines.append("    v = load(f32, p[2], i)")
    sums, sizes = [np.zeros(7, np.float32) for _ in range(20)], []
    for k in range(20):
        lines.append(f"    v{k} = v * {k + 1}.0")
        lines.append(f"    scatter_reduce(f32, 'add', 'direct', p[{k + 3}], v{k}, x, a)")
        sizes.append(simd.assembly("\n".join(lines), lanes).count("\n"))
    call("\n".join(lines), [RECORD.copy(), x, v, *sums], n, lanes)
    want = np.bincount(x, v, 7).astype(np.float32)
    for k, found in enumerate(sums):
        same(found, want * (k + 1), f"sums {k}")
    assert sizes[-1] - sizes[-2] < sizes[0]


@all_widths
@pytest.mark.parametrize("n", SIZES)
def test_reductions_of_every_type_over_several_blocks(n, lanes):
    rng = np.random.default_rng(n)
    lines, words, wants = ["def kernel(i, p):"], [RECORD.copy()], []
    for t in dtype.ALL:
        x = small(t, rng, n)
        k = len(words)
        words.append(x)
        lines.append(f"    x{k} = load({t.code}, p[{k}], i)")
        for op in reductions(t):
            if op == "mul" and t.is_float:
                continue
            kind = np.dtype(np.float32) if t is dtype.f16 else t.numpy
            with np.errstate(all="ignore"):
                want = FUNCTIONS[op].reduce(x.astype(kind), dtype=kind).astype(t.numpy)
            lines.append(
                f"    reduce({t.code}, '{op}', p[{len(words)}], p[{len(words) + 1}], i, x{k})"
            )
            words += [np.zeros(n // 8 + 1, kind), np.zeros(1, t.numpy)]
            wants.append((len(words) - 1, want, f"{op} of {t}"))
    call("\n".join(lines), words, n, lanes, block=256)
    for k, want, what in wants:
        same(words[k], np.array([want]), what)


@both_widths
def test_reduction_of_special_floats(lanes):
    x = np.array([np.nan, 3, -0.0, np.nan, 7], np.float32)
    text = """def kernel(i, p):
    x = load(f32, p[1], i)
    reduce(f32, 'min', p[2], p[3], i, x)
    reduce(f32, 'max', p[2], p[4], i, x)
    y = x - x
    reduce(f32, 'add', p[5], p[6], i, y)
"""
    words = [RECORD.copy(), x] + [np.zeros(4, np.float32) for _ in range(5)]
    words[2] = np.zeros(4, np.float32)
    text = text.replace("'max', p[2]", "'max', p[7]")
    words.append(np.zeros(4, np.float32))
    call(text, words, 5, lanes)
    assert words[3][0] == 0 and words[4][0] == 7 and np.isnan(words[6][0])


@all_widths
@pytest.mark.parametrize("t", [t for t in dtype.ALL if not t.is_mask], ids=str)
def test_atomic_exchange(t, lanes):
    rng = np.random.default_rng(2)
    n, size = 60, 16
    x, m = rng.integers(0, size, n).astype(np.uint32), rng.random(n) < 0.7
    v = values(t, rng, 100)[:n].copy()
    start = values(t, rng, 100)[:size].copy()
    lines = [
        "def kernel(i, p):",
        "    x = load(u32, p[1], i)",
        "    m = load(mask, p[2], i) & active(i)",
        f"    v = load({t.code}, p[3], i)",
        f"    old = scatter_exch({t.code}, p[4], v, x, m)",
        f"    store({t.code}, p[5], i, old)",
        f"    seen = scatter_cas({t.code}, p[6], {t.code}(0), v, x, m)",
        f"    store({t.code}, p[7], i, seen)",
    ]
    exchanged, swapped = start.copy(), np.zeros(size, t.numpy)
    words = [RECORD.copy(), x, m, v, start.copy(), np.zeros(n, t.numpy), swapped.copy()]
    words.append(np.zeros(n, t.numpy))
    if t.is_int:
        lines += [f"    c = scatter_inc({t.code}, p[8], x, m)", f"    store({t.code}, p[9], i, c)"]
        words += [start.copy(), np.zeros(n, t.numpy)]
    word = np.dtype(f"u{t.itemsize}")
    old, seen, counted = (np.zeros(n, t.numpy) for _ in range(3))
    counters = start.copy()
    with np.errstate(all="ignore"):
        for lane in np.flatnonzero(m):
            at = x[lane]
            old[lane], exchanged[at] = exchanged[at], v[lane]
            seen[lane] = swapped[at]
            if swapped[at : at + 1].view(word)[0] == 0:
                swapped[at] = v[lane]
            if t.is_int:
                counted[lane] = counters[at]
                counters[at] = t.scalar(counters[at]) + t.scalar(1)
    call("\n".join(lines), words, n, lanes)
    wants = [exchanged, old, swapped, seen] + ([counters, counted] if t.is_int else [])
    for got, want in zip(words[4:], wants, strict=True):
        same(got, want)


@all_widths
@pytest.mark.parametrize("index", [dtype.u32, dtype.u64], ids=str)
def test_index_beyond_the_end_is_reported_once(index, lanes):
    n = 100
    x = np.arange(n, dtype=index.numpy)
    x[[40, 70]] = [120, 130]
    x[20] = 200
    m = np.ones(n, bool)
    m[20] = False
    text = f"""def kernel(i, p):
    x = load({index.code}, p[1], i)
    m = load(mask, p[2], i) & active(i)
    ok = in_bounds(p[0], 77, x, p[3], m)
    g = gather(f32, p[4], x, ok)
    store(f32, p[5], i, g)
    store(mask, p[6], i, ok)
"""
    record = RECORD.copy()
    source = np.arange(n, dtype=np.float32)
    words = [record, x, m, n, source, np.zeros(n, np.float32), np.zeros(n, bool)]
    call(text, words, n, lanes, block=32)
    assert record.tolist() == [1, 77, 120, 100, 40]
    inside = m & (x < n)
    same(words[6], inside)
    same(words[5], np.where(inside, source, 0))
    words[0] = RECORD.copy()
    words[1] = np.arange(n, dtype=index.numpy)
    call(text, words, n, lanes)
    assert not words[0].any()


def scanned(t, op, x, length, inclusive):
    """Prefix reductions of runs, accumulated one after the other as the language says."""
    kind = np.dtype(np.float32) if t is dtype.f16 else t.numpy
    start = {"add": 0, "mul": 1, "or": 0, "and": -1}.get(op)
    if t.is_mask:
        start = op == "and"
    elif start is None:
        info = np.finfo(kind) if t.is_float else np.iinfo(kind)
        start = info.max if op == "min" else info.min
        start = (np.inf if op == "min" else -np.inf) if t.is_float else start
    start = np.array([start]).astype(kind)
    out = np.zeros(x.size, t.numpy)
    with np.errstate(all="ignore"):
        for begin in range(0, x.size, length):
            run = x[begin : begin + length].astype(kind)
            total = FUNCTIONS[op].accumulate(np.concatenate([start, run]), dtype=kind)
            out[begin : begin + length] = total[1:] if inclusive else total[:-1]
    return out


@all_widths
@pytest.mark.parametrize("n", SIZES)
def test_prefix_reductions_of_every_type(n, lanes):
    rng = np.random.default_rng(n)
    totals, scans = ["def kernel(i, p):"], ["def kernel(i, p):"]
    words, wants = [RECORD.copy()], []
    for t in dtype.ALL:
        k, x = len(words), small(t, rng, n)
        words.append(x)
        for lines in (totals, scans):
            lines.append(f"    x{k} = load({t.code}, p[{k}], i)")
        for op in reductions(t):
            if op == "mul" and t.is_float:
                continue
            a = len(words)
            kind = np.dtype(np.float32) if t is dtype.f16 else t.numpy
            words.append(np.zeros(n // 8 + 1, kind))
            totals.append(f"    scan_totals({t.code}, '{op}', p[{a}], i, x{k})")
            for inclusive in (True, False):
                scans += [
                    f"    y{len(words)} = scan({t.code}, '{op}', p[{a}], i, x{k}, {inclusive})",
                    f"    store({t.code}, p[{len(words)}], i, y{len(words)})",
                ]
                wants.append((len(words), scanned(t, op, x, n, inclusive), f"{op} of {t}"))
                words.append(np.zeros(n, t.numpy))
    call("\n".join(totals), words, n, lanes, block=256)
    call("\n".join(scans), words, n, lanes, block=256)
    for k, want, what in wants:
        same(words[k], want, what)


@both_widths
@pytest.mark.parametrize("length", [2, 3, 5, 16, 25, 64])
def test_prefix_reductions_of_runs(length, lanes):
    n = 4 * 64 * length + 2 * length
    rng = np.random.default_rng(length)
    lines, words, wants = ["def kernel(i, p):"], [RECORD.copy(), length], []
    for t, op in ((dtype.f32, "add"), (dtype.f64, "min"), (dtype.u8, "max"), (dtype.f16, "add"),
                  (dtype.mask, "or"), (dtype.i64, "mul")):  # fmt: skip
        k, x = len(words), small(t, rng, n)
        words.append(x)
        lines.append(f"    x{k} = load({t.code}, p[{k}], i)")
        for inclusive in (True, False):
            j = len(words)
            lines += [
                f"    y{j} = scan_blocks({t.code}, '{op}', i, x{k}, p[1], {inclusive})",
                f"    store({t.code}, p[{j}], i, y{j})",
            ]
            wants.append((j, scanned(t, op, x, length, inclusive), f"{op} of {t}"))
            words.append(np.zeros(n, t.numpy))
    call("\n".join(lines), words, n, lanes, block=64 * length)
    for k, want, what in wants:
        same(words[k], want, what)


@both_widths
@pytest.mark.parametrize("length", [1, 2, 3, 8, 15, 16, 17, 40, 64])
def test_reductions_of_runs_of_every_type(length, lanes):
    n = 37
    rng = np.random.default_rng(length)
    m = rng.random(n) < 0.9
    lines = [
        "def kernel(i, p):",
        "    m = load(mask, p[2], i) & active(i)",
        "    c = literal(u32, p[1])",
        "    j = lane(i)",
        "    x = j * c",
    ]
    words, wants = [RECORD.copy(), length, m], []
    for t in dtype.ALL:
        source = small(t, rng, n * length)
        if length > 8 and t.is_float:
            source = np.abs(source)
        k = len(words)
        words.append(source)
        kind = np.dtype(np.float32) if t is dtype.f16 else t.numpy
        for op in reductions(t):
            if op == "mul" and t.is_float:
                continue
            j = len(words)
            lines += [
                f"    y{j} = block_reduce({t.code}, '{op}', p[{k}], x, c, m)",
                f"    store({t.code}, p[{j}], i, y{j})",
            ]
            runs = source.reshape(n, length).astype(kind)
            with np.errstate(all="ignore"):
                want = FUNCTIONS[op].reduce(runs, axis=1, dtype=kind).astype(t.numpy)
            wants.append((j, np.where(m, want, t.scalar(0)), f"{op} of {t}"))
            words.append(np.zeros(n, t.numpy))
    call("\n".join(lines), words, n, lanes)
    for k, want, what in wants:
        same(words[k], want, what)


@all_widths
@pytest.mark.parametrize("n", SIZES)
def test_compress(n, lanes):
    m = np.random.default_rng(n).random(n) < 0.4
    counts = """def kernel(i, p):
    m = load(mask, p[1], i)
    k = u32(m)
    scan_totals(u32, 'add', p[2], i, k)
"""
    write = """def kernel(i, p):
    m = load(mask, p[1], i)
    compress(p[2], p[3], i, m)
"""
    words = [RECORD.copy(), m, np.zeros(n // 8 + 1, np.uint32), np.full(n + 1, 77, np.uint32)]
    call(counts, words, n, lanes, block=64)
    call(write, words, n, lanes, block=64)
    want = np.flatnonzero(m).astype(np.uint32)
    same(words[3][: want.size], want)
    assert (words[3][want.size :] == 77).all()


MANDELBROT = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    y0 = load(f32, p[2], i)
    x = f32(0)
    y = f32(0)
    k = u32(0)
    live = active(i)
    while any_lane(live):
        x1 = x * x - y * y + x0
        y1 = x * y * 2.0 + y0
        x = select(live, x1, x)
        y = select(live, y1, y)
        k = select(live, k + 1, k)
        far = x * x + y * y >= 4.0
        live = live & ~far & (k < 50)
    store(u32, p[3], i, k)
"""


@all_widths
@pytest.mark.parametrize("n", SIZES)
def test_while(n, lanes):
    rng = np.random.default_rng(n)
    x0, y0 = rng.uniform(-2, 1, n).astype(np.float32), rng.uniform(-1, 1, n).astype(np.float32)
    x, y, k = np.zeros(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.uint32)
    live = np.ones(n, bool)
    while live.any():
        x1, y1 = x * x - y * y + x0, x * y * np.float32(2) + y0
        x, y, k = np.where(live, x1, x), np.where(live, y1, y), np.where(live, k + 1, k)
        live = live & ~(x * x + y * y >= 4) & (k < 50)
    out = np.zeros(n, np.uint32)
    call(MANDELBROT, [RECORD.copy(), x0, y0, out], n, lanes)
    same(out, k.astype(np.uint32))


@all_widths
def test_nested_control_flow(lanes):
    text = """def kernel(i, p):
    x = load(u32, p[1], i)
    m = active(i)
    total = u32(0)
    swaps = x
    k = x & 3
    while any_lane(m & (k > 0)):
        go = m & (k > 0)
        if any_lane(go & (x > 100)):
            extra = select(go & (x > 100), x, 0)
            total = total + extra
            j = k
            if all_lanes(m):
                total = total + select(go, u32(1), u32(0))
            while any_lane(j > 1):
                swaps = select(go & (j > 1), swaps ^ j, swaps)
                j = select(j > 1, j - 1, 0)
        k = select(go, k - 1, k)
    store(u32, p[2], i, total)
    store(u32, p[3], i, swaps)
"""
    n = 3 * lanes
    x = np.random.default_rng(0).integers(0, 200, n).astype(np.uint32)
    total, swaps = np.zeros(n, np.uint32), x.copy()
    for begin in range(0, n, lanes):
        at = slice(begin, begin + lanes)
        a, t, s, k = x[at], total[at], swaps[at], x[at] & 3
        while (k > 0).any():
            go = k > 0
            if (go & (a > 100)).any():
                t += np.where(go & (a > 100), a, 0).astype(np.uint32)
                t += go
                j = k.copy()
                while (j > 1).any():
                    s[:] = np.where(go & (j > 1), s ^ j, s)
                    j = np.where(j > 1, j - 1, 0).astype(np.uint32)
            k = np.where(go, k - 1, k).astype(np.uint32)
    words = [RECORD.copy(), x, np.zeros(n, np.uint32), np.zeros(n, np.uint32)]
    call(text, words, n, lanes)
    same(words[2], total)
    same(words[3], swaps)


class Library:
    """Two small functions, to test calls without the math library."""

    text = '''
SCALE = 3.0
STEPS_f32 = (1.0, 10.0, 100.0, 1000.0)
def pair_f32(x, y):
    """Sum and difference."""
    return x + y, x - y
def sin_f32(x):
    a, b = pair(x * SCALE, 2)
    k = u32(3)
    big = x > 4.0
    r = a * b + table(STEPS_f32, k)
    if any_lane(big):
        r = select(big, f32(-1), r)
    return r
'''

    def __init__(self):
        import ast

        self.names = {}
        for s in ast.parse(self.text).body:
            name = s.name if isinstance(s, ast.FunctionDef) else s.targets[0].id
            self.names[name] = s if isinstance(s, ast.FunctionDef) else ast.literal_eval(s.value)

    def function(self, name, code):
        return self.names[f"{name}_{code}"]

    def constant(self, name):
        return self.names[name]

    table = constant


@all_widths
def test_library_functions(lanes, monkeypatch):
    x = np.linspace(-3, 8, 50).astype(np.float32)
    half = x.astype(np.float16)

    def want(v):
        v = v.astype(np.float32)
        r = (v * 3 + np.float32(2)) * (v * 3 - np.float32(2)) + np.float32(1000)
        return np.where(v > 4, np.float32(-1), r)

    text = """def kernel(i, p):
    x = load(f32, p[1], i)
    h = load(f16, p[2], i)
    a = sin(x)
    b = sin(h)
    store(f32, p[3], i, a)
    store(f16, p[4], i, b)
"""
    own = Library()
    for part in ("function", "constant", "table"):
        monkeypatch.setattr(library, part, getattr(own, part))
    words = [RECORD.copy(), x, half, np.zeros(50, np.float32), np.zeros(50, np.float16)]
    call(text, words, 50, lanes)
    same(words[3], want(x))
    same(words[4], want(half).astype(np.float16))


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_math_library_agrees_with_the_numpy_target_to_the_last_bit(t):
    x, y = pairs(t)
    lines = [
        "def kernel(i, p):",
        f"    x = load({t.code}, p[1], i)",
        f"    y = load({t.code}, p[2], i)",
    ]
    words, names = [RECORD.copy(), x, y], sorted(library.names - {"sincos"})
    for name in names:
        operands = "x, y" if name in ("atan2", "pow") else "x"
        lines += [f"    v = {name}({operands})", f"    store({t.code}, p[{len(words)}], i, v)"]
        words.append(np.zeros_like(x))
    expected = [w.copy() for w in words]
    call("\n".join(lines), words, x.size, WIDTHS[-1])
    numpy_target.run("\n".join(lines), expected, x.size)
    for name, got, want in zip(names, words[3:], expected[3:], strict=True):
        same(got, want, name)


# What is wrong with a text is found where it is read (see test_text_kernels.py) and cannot be with
# one that is traced. Mistakes in the package itself show their line.
ERRORS = {
    "y = x + q": "line 3: y = x + q: cannot be translated (KeyError: 'q')",
    "y = frobnicate(x)": "cannot be translated (KeyError: 'frobnicate_f32')",
    "y = [x]": "cannot be translated",
    "import os": "cannot be translated",
    "store(u32, p[1], i)": "cannot be translated",
    "y = x +": "line 3",
    "y = u8(0.5)": "0.5 is no u8",
}


@pytest.mark.parametrize("line", ERRORS)
def test_errors_name_the_line(line):
    text = f"def kernel(i, p):\n    x = load(f32, p[1], i); u = lane(i)\n    {line}\n"
    with pytest.raises(simd.KernelError) as error:
        simd.compile(text, "broken")
    assert ERRORS[line] in str(error.value)
    assert "line 3" in str(error.value)


def test_object_code_needs_no_outside_symbol():
    """What LLVM might call (memset, roundeven, __truncdfhf2) would tie the code to a library."""
    from llvmlite import binding

    lines = ["def kernel(i, p):"]
    for k, t in enumerate(FLOATS):
        lines += [f"    x{k} = load({t.code}, p[{k}], i)", f"    y{k} = round(x{k}) / x{k}"]
        for j, to in enumerate(dtype.ALL):
            lines += [f"    z{k}_{j} = {to.code}(y{k})", f"    store({to.code}, p[9], i, z{k}_{j})"]
    lines.append("    w = literal(u64, p[8])")
    lines.append("    q = quotient(u64(x0), w)")
    lines.append("    store(u64, p[9], i, q)")
    for lanes in WIDTHS:
        assert "call" not in [
            word for word in simd.assembly("\n".join(lines), lanes).split() if word[:4] == "call"
        ]
    assert binding.llvm_version_info


def test_position_independent_code_runs_at_two_addresses():
    text = "def kernel(i, p):\n    x = load(f32, p[1], i)\n    store(f32, p[1], i, x * 1.5)\n"
    built = simd.compile(text, "twice")
    first, second = (image.Loaded(built.code, "twice", built.has_finish) for _ in range(2))
    assert first.kernel != second.kernel and not first.finish
    x = np.ones(64, np.float32)
    block = np.array([0, x.ctypes.data], np.uint64)
    for loaded in (first, second):
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)(loaded.kernel)
        kernel(block.ctypes.data, 0, 64, 0, 0)
    same(x, np.full(64, 2.25, np.float32))


@pytest.mark.skipif(processor.register_bytes() == 16, reason="the stack of ARM is aligned to 16")
def test_spilled_registers_do_not_cross_cache_lines():
    calls = ["exp(x)", "log(x)", "tanh(x)", "atan2(x, a0)", "pow(x, a1)"]
    lines = ["def kernel(i, p):", "    x = load(f32, p[0], i)"]
    lines += [f"    a{k} = {call}" for k, call in enumerate(calls)]
    lines += ["    store(f32, p[1], i, a0 + a1 + a2 + a3 + a4)"]
    code = simd.assembly("\n".join(lines), 4 * simd.default_lanes())
    assert re.search(r"vmov(ap[sd]|dqa\d*)\s.*\(%rsp\)", code)
    assert not re.search(r"vmov(up[sd]|dqu\d*)\s.*\(%rsp\)", code)

"""The math library: accuracy over the whole range, special values, and the same bits on NumPy and
compiled.
"""

import ctypes

import mpmath
import numpy as np
import pytest
import scipy.special
from helpers import padded

from drjit.jit.target import image, library, simd
from drjit.jit.target.numpy import namespace

# A reference of NumPy or SciPy, and ulps that the result may be off.
UNARY = {
    "sin": (np.sin, 2),
    "cos": (np.cos, 2),
    "tan": (np.tan, 2),
    "asin": (np.arcsin, 2),
    "acos": (np.arccos, 2),
    "atan": (np.arctan, 2),
    "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2),
    "tanh": (np.tanh, 2),
    "asinh": (np.arcsinh, 2),
    "acosh": (np.arccosh, 2),
    "atanh": (np.arctanh, 2),
    "exp": (np.exp, 1),
    "exp2": (np.exp2, 1),
    "expm1": (np.expm1, 2),
    "log": (np.log, 1),
    "log2": (np.log2, 1),
    "log1p": (np.log1p, 2),
    "cbrt": (np.cbrt, 1),
    "erf": (scipy.special.erf, 2),
    "erfinv": (scipy.special.erfinv, 2),
    "lgamma": (scipy.special.gammaln, 2),
}
BINARY = {"atan2": (np.arctan2, 2), "pow": (np.power, 2)}
REFERENCES = UNARY | BINARY
SPECIAL_FUNCTIONS = ("erf", "erfinv", "lgamma")
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
BITS = {np.float32: np.uint32, np.float64: np.uint64}
SPECIAL_VALUES = (
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-3, 40.0),
    *(5e-324, 1e-45, -1e-45, 1e-40, 2.0**-126, 2.0**-1022, 3.4028234e38, -1e38, 1.7e308, -1e300),
)


pytestmark = pytest.mark.usefixtures("quiet")


def samples(kind, n, seed=0):
    """Any bits at all, and numbers of the sizes that programs have."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2 ** (8 * np.dtype(kind).itemsize), n, dtype=BITS[kind])
    parts = [
        bits.view(kind),
        rng.uniform(-1, 1, n),
        1 + rng.uniform(-0.02, 0.02, n),
        rng.uniform(-20, 20, n),
        rng.uniform(-760, 760, n),
        np.round(rng.uniform(-300, 300, n)) * (np.pi / 4),
        1 - 10.0 ** rng.uniform(-16, 0, n),
        np.array(SPECIAL_VALUES),
    ]
    return np.concatenate([part.astype(kind) for part in parts])


def operands(name, kind, n):
    x = samples(kind, n)
    if name not in BINARY:
        return (x,)
    return x, np.random.default_rng(9).permutation(samples(kind, n, 1))


def ulps(result, reference):
    """The distance in units in the last place of the result's type; inf where one is special.

    An overflow of the rounded reference is no error, nor is a NaN of both; signs of zeros count.
    """
    kind = result.dtype.type
    info, wide = np.finfo(kind), reference.dtype.type
    rounded = reference.astype(kind)
    size = np.where((reference == 0) | ~np.isfinite(reference), wide(1), np.abs(reference))
    exponent = np.maximum(np.frexp(size)[1] - 1, info.minexp)
    unit = np.ldexp(wide(1), exponent - info.nmant)
    distance = np.abs(result.astype(wide) - reference) / unit
    same = (result == rounded) & (np.signbit(result) == np.signbit(rounded))
    same |= (result != result) & (rounded != rounded)
    exact = (rounded == 0) | ~np.isfinite(rounded) | ~np.isfinite(result)
    nearest_is_finite = np.isfinite(reference) & (np.abs(reference) < info.max)
    distance[exact & ~same & ~((result == 0) | nearest_is_finite)] = np.inf
    distance[same & ~np.isfinite(distance)] = 0
    distance[np.isnan(distance)] = np.inf
    return distance


def check(name, xs, result, reference, bound):
    distance = ulps(result, reference)
    worst = int(np.argmax(distance))
    assert distance[worst] <= bound, (
        f"{name}{tuple(x[worst] for x in xs)} = {result[worst]!r}, not {reference[worst]!r}: "
        f"off by {distance[worst]:.2f} ulp"
    )


# ------------------------------------------------------------------------------------ accuracy


@pytest.mark.parametrize("name", REFERENCES)
def test_accuracy_f32(name):
    function, bound = REFERENCES[name]
    xs = operands(name, np.float32, 1 << 14)
    if name == "lgamma":
        # Below 0 it has zeros close to its poles.
        xs = (np.abs(xs[0]),)
    check(name, xs, namespace[name](*xs), function(*(x.astype(np.float64) for x in xs)), bound)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs more than double precision")
@pytest.mark.parametrize("name", [n for n in REFERENCES if n not in SPECIAL_FUNCTIONS])
def test_accuracy_f64(name):
    function, bound = REFERENCES[name]
    xs = operands(name, np.float64, 1 << 13)
    wide = function(*(x.astype(np.longdouble) for x in xs))
    check(name, xs, namespace[name](*xs), wide, bound)


def exactly(function, x):
    with mpmath.workprec(200):
        return [function(mpmath.mpf(float(v))) for v in x]


def errors(result, exact):
    """Absolute errors, and the same in ulps."""
    with mpmath.workprec(200):
        absolute = np.array(
            [float(abs(mpmath.mpf(float(a)) - b)) for a, b in zip(result, exact, strict=True)]
        )
    return absolute, absolute / np.spacing(np.abs([float(v) for v in exact]))


@pytest.mark.parametrize(
    ("name", "function", "bound"),
    [("erf", mpmath.erf, 2), ("erfinv", mpmath.erfinv, 2), ("lgamma", mpmath.loggamma, 4)],
)
def test_accuracy_of_special_functions_f64(name, function, bound):
    rng = np.random.default_rng(3)
    x = {
        "erf": np.concatenate([rng.uniform(-1.1, 1.1, 500), rng.uniform(0.9, 6, 500)]),
        "erfinv": np.concatenate(
            [rng.uniform(-1, 1, 150), 1 - 10 ** rng.uniform(-16, -1, 150), [1e-300, -1e-9]]
        ),
        "lgamma": np.concatenate(
            [rng.uniform(0, 3, 400), rng.uniform(3, 20, 200), 10 ** rng.uniform(-300, 300, 200)]
        ),
    }[name]
    assert errors(namespace[name](x), exactly(function, x))[1].max() <= bound


def test_lgamma_below_zero():
    # Near its zeros the error is bounded in absolute terms.
    x = -np.random.default_rng(4).uniform(0, 30, 500)
    exact = exactly(lambda v: mpmath.log(abs(mpmath.gamma(v))), x)
    absolute, _ = errors(namespace["lgamma"](x), exact)
    assert (absolute <= 1e-15 * (1 + np.abs(x * np.log(-x)))).all()


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_never_exceeds_one(name):
    odd = np.arange(1, 40000, dtype=np.float64) * (np.pi / 2)
    near = odd.astype(np.float32)[:, None].view(np.int32) + np.arange(-8, 9, dtype=np.int32)
    assert np.abs(namespace[name](near.view(np.float32).ravel())).max() == 1


def test_exact_results():
    # Where the answer is a number of the type, it is the result.
    n = np.arange(-126, 128)
    for kind in (np.float32, np.float64):
        powers = np.ldexp(kind(1), n)
        assert np.array_equal(namespace["exp2"](n.astype(kind)), powers)
        assert np.array_equal(namespace["log2"](powers), n)
        assert np.array_equal(namespace["pow"](kind(2), n.astype(kind)), powers)
        k = np.arange(-100, 100).astype(kind)
        assert np.array_equal(namespace["cbrt"](k * k * k), k)
        assert np.array_equal(namespace["pow"](k, kind(2)), k * k)
        assert namespace["cos"](kind(0)) == 1 and namespace["exp"](kind(0)) == 1


# ------------------------------------------------------------------------------ special values


def lgamma(x):
    """The function of C99, infinite at 0, -1, -2 and so on."""
    with mpmath.workprec(80):
        if (x <= 0 and x == np.floor(x)) or abs(x) == np.inf:
            return np.inf
        return float(mpmath.log(abs(mpmath.gamma(x))) if abs(x) < 100 else mpmath.loggamma(x))


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name, code):
    kind, (function, bound) = TYPES[code], REFERENCES[name]
    x = np.array(SPECIAL_VALUES).astype(kind)
    xs = tuple(v.ravel() for v in np.meshgrid(x, x)) if name in BINARY else (x,)
    wide = np.float64 if kind != np.float64 or name in SPECIAL_FUNCTIONS else np.longdouble
    expected = function(*(v.astype(wide) for v in xs))
    if name == "lgamma":
        # SciPy differs from C99 at -inf and for subnormal numbers.
        expected = np.array([lgamma(v) for v in xs[0].tolist()])
    if name == "erfinv":
        expected = np.copysign(expected, xs[0])
    result = namespace[name](*xs)
    assert result.dtype == kind
    check(name, xs, result, expected, 2 * bound if (name, code) == ("lgamma", "f64") else bound)


# ------------------------------------------------------------------- the same in all executions


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_scalars_and_arrays_agree(name, code):
    kind = TYPES[code]
    values = np.array([*SPECIAL_VALUES, 0.3, -7.25, 0.99, 1e5, 1e30]).astype(kind)
    xs = (values, values[::-1]) if name in BINARY else (values,)
    result = namespace[name](*xs)
    for k in range(len(values)):
        one = namespace[name](*[x[k] for x in xs])
        assert one.dtype == kind
        assert np.array_equal(one, result[k], equal_nan=True)
        assert one != one or np.signbit(one) == np.signbit(result[k])


def compiled(text):
    built = simd.compile(text, "test")
    loaded = image.Loaded(built.code, "test", built.has_finish)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)(loaded.kernel)

    def launch(n, *buffers):
        words = np.array([0, *[b.ctypes.data for b in buffers]], np.uint64)
        kernel(words.ctypes.data, 0, n, 0, 0)

    launch.keep = loaded
    return launch


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_compiled_gives_the_same_bits(name, code):
    kind = TYPES[code]
    xs = operands(name, np.float32 if code == "f16" else kind, 1000)
    xs = tuple(x.astype(kind) for x in xs)
    names = ["x", "y"][: len(xs)]
    loads = "".join([f"    {v} = load({code}, p[{k + 2}], i)\n" for k, v in enumerate(names)])
    launch = compiled(
        f"def kernel(i, p):\n{loads}    r = {name}({', '.join(names)})\n"
        f"    store({code}, p[1], i, r)\n"
    )
    result = padded(np.zeros(len(xs[0]), kind))
    launch(len(xs[0]), result, *[padded(x) for x in xs])
    result, expected = result[: len(xs[0])], namespace[name](*xs)
    assert np.array_equal(result, expected, equal_nan=True)
    defined = expected == expected
    assert np.array_equal(np.signbit(result[defined]), np.signbit(expected[defined]))


@pytest.mark.parametrize("code", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sin", "lgamma"])
def test_rare_arguments_are_computed_in_their_lanes(name, code):
    """What handles them is compiled for a few lanes, and called for each part of a packet."""
    kind, count = TYPES[code], 128
    launch = compiled(
        f"def kernel(i, p):\n    x = load({code}, p[2], i)\n    r = {name}(x)\n"
        f"    store({code}, p[1], i, r)\n"
    )
    usual = np.linspace(0.5, 3, count).astype(kind)
    rare = np.full(count, 1e10 if name == "sin" else -3.7, kind)
    wanted = namespace[name](usual), namespace[name](rare)
    for lane in range(count):
        x, result = padded(usual), padded(np.zeros(count, kind))
        x[lane] = rare[lane]
        launch(count, result, x)
        expected = np.where(np.arange(count) == lane, wanted[1], wanted[0])
        assert np.array_equal(result[:count], expected), lane


@pytest.mark.parametrize("code", TYPES)
def test_sincos_gives_the_bits_of_sin_and_cos(code):
    kind = TYPES[code]
    (x,) = operands("sin", np.float32 if code == "f16" else kind, 3000)
    x = x.astype(kind)
    expected = namespace["sin"](x), namespace["cos"](x)
    launch = compiled(
        f"def kernel(i, p):\n    x = load({code}, p[1], i)\n    s, c = sincos(x)\n"
        f"    store({code}, p[2], i, s)\n    store({code}, p[3], i, c)\n"
    )
    results = padded(np.zeros(len(x), kind)), padded(np.zeros(len(x), kind))
    launch(len(x), padded(x), *results)
    for pair in (namespace["sincos"](x), [r[: len(x)] for r in results]):
        for result, e in zip(pair, expected, strict=True):
            assert np.array_equal(result, e, equal_nan=True)
            defined = e == e
            assert np.array_equal(np.signbit(result[defined]), np.signbit(e[defined]))


# -------------------------------------------------------------------------------------- source


def test_library_source():
    assert set(REFERENCES) | {"sincos"} == library.names
    for name in library.names:
        for code in ("f32", "f64"):
            assert library.function(name, code).name == f"{name}_{code}"
    assert library.table("TURN_u32")[1] == 0x28BE60DB
    assert library.constant("INF") == np.inf
    with pytest.raises(KeyError):
        library.function("sine", "f32")


# --------------------------------------------------------------------------------------- sweep


@pytest.mark.sweep
@pytest.mark.parametrize("name", UNARY)
def test_sweep_f32(name):
    """A good part of all positive numbers (the negative ones mirror them), against the function
    for `f64`.
    """
    launch = compiled(
        f"""
def kernel(i, p):
    b = load(u32, p[2], i)
    x = bitcast(f32, b)
    y = {name}(x)
    wide = f64(x)
    r = {name}(wide)
    bits = bitcast(u64, r)
    exponent = bits & 0x7FF0000000000000
    power = bitcast(f64, exponent)
    unit = power * {2.0**-23}
    unit = maximum(unit, {2.0**-149})
    d = f64(y)
    d = d - r
    d = abs(d)
    d = d / unit
    undefined = d != d
    d = select(undefined, 0.0, d)
    overflow = r > 3.4028235e38
    d = select(overflow, 0.0, d)
    store(f64, p[1], i, d)
"""
    )
    n, step = 1 << 20, 13
    bits, result = padded(np.zeros(n, np.uint32)), padded(np.zeros(n))
    for first in range(0, 0x7F800000, n * step):
        bits[:n] = np.arange(first, first + n * step, step, dtype=np.uint32)
        launch(n, result, bits)
        worst = int(np.argmax(result[:n]))
        assert result[worst] <= UNARY[name][1] + 0.2, bits[worst].view(np.float32)

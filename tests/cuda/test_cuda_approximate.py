"""Functions by approximations of the machine: the emulated GPU lets its instructions be as far off
as the PTX ISA allows."""

import mpmath
import numpy as np
import pytest
from cuda_call import call
from cuda_namespace import registered
from ptxas_resources import disassembled

import drjit as dr
from drjit import nn
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.emulator import numeric
from drjit.jit.target import cuda
from drjit.jit.target.numpy import namespace

pytest.importorskip("llvmlite")
pytestmark = [pytest.mark.processor, pytest.mark.usefixtures("quiet")]

KINDS = {"f16": np.float16, "f32": np.float32}
# A function in double precision, and the instructions whose errors it may have.
FUNCTIONS = {
    "cos": (np.cos, "sin"),
    "exp": (np.exp, "ex2"),
    "exp2": (np.exp2, "ex2"),
    "log": (np.log, "lg2"),
    "log2": (np.log2, "lg2"),
    "pow": (np.power, "ex2 lg2 rcp"),
    "sin": (np.sin, "sin"),
    "tanh": (np.tanh, "ex2 rcp tanh"),
}
PRECISELY = {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "pow": mpmath.power,
}
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 2.0**-126, 1.0, -1.0, 1.15, 3.4e38)


def samples(code, seed=0):
    """All halves, or numbers of single precision of all sizes."""
    if code == "f16":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32), np.array(SPECIAL)]
    parts += [rng.uniform(-size, size, 1 << 16) for size in (1.2, 10, 150)]
    return np.concatenate([part.astype(np.float32) for part in parts])


def operands(name, code):
    x = samples(code)
    if name != "pow":
        return (x,)
    rng = np.random.default_rng(1)
    y, n = rng.permutation(samples(code, 1)), x.size // 4
    # Powers of numbers near 1, and such that results are ordinary
    x = np.r_[x, rng.uniform(0.8, 1.2, n), 10.0 ** rng.uniform(-4, 4, n), x[:n]]
    y = np.r_[y, rng.uniform(-60, 60, n), rng.uniform(-2, 2, n), np.round(rng.uniform(-9, 9, n))]
    return x.astype(KINDS[code]), y.astype(KINDS[code])


def kernel(call, code, arity=1, results=1):
    lines = [f"x{k} = load({code}, p[{k + 1}], i)" for k in range(arity)]
    lines.append(f"{', '.join(f'v{k}' for k in range(results))} = {call}")
    lines += [f"store({code}, p[{arity + 1 + k}], i, v{k})" for k in range(results)]
    return "\n    ".join(["def kernel(i, p):", *lines]) + "\n"


def computed(name, xs, results=1, **options):
    """The results of a function on the emulated GPU."""
    code = next(code for code, kind in KINDS.items() if xs[0].dtype == kind)
    found = [np.zeros_like(xs[0]) for _ in range(results)]
    text = kernel(f"{name}({', '.join(f'x{k}' for k in range(len(xs)))})", code, len(xs), results)
    call(text, [np.zeros(6, np.int64), *xs, *found], xs[0].size, **options)
    return found if results > 1 else found[0]


def off(result, exact):
    """The distance in units of the last place of exact results; infinite where a special one is not
    the result."""
    info = np.finfo(result.dtype)
    nearest = exact.astype(result.dtype)
    same = (result == nearest) & (np.signbit(result) == np.signbit(nearest))
    same |= (result != result) & (nearest != nearest)
    exponent = np.maximum(np.frexp(exact)[1] - 1, info.minexp)
    distance = np.abs(result.astype(np.float64) - exact) / np.ldexp(1.0, exponent - info.nmant)
    special = (nearest == 0) | ~np.isfinite(nearest) | ~np.isfinite(result)
    return np.where(same & special, 0, np.where(special & ~(distance < 2), np.inf, distance))


def precisely(name, xs):
    with mpmath.workprec(100):
        f = PRECISELY.get(name) or getattr(mpmath, name)
        return np.array([float(f(*[mpmath.mpf(float(v)) for v in x])) for x in zip(*xs)])  # noqa: B905


# The largest errors according to the PTX ISA, given the operand and the exact result.
ALLOWED = {
    "cos": lambda x, y: 2.0**-20.5,
    "ex2": lambda x, y: 2.5 * np.spacing(np.float32(y)),  # 2, from the rounded result
    "lg2": lambda x, y: np.where((x > 0.5) & (x < 2), 2.0**-22, np.abs(y) * 2.0**-22),
    "rcp": lambda x, y: 1.5 * np.spacing(np.float32(y)),
    "rsqrt": lambda x, y: y * 2.0**-22.9,
    "sin": lambda x, y: 2.0**-20.5,
    "tanh": lambda x, y: np.abs(y) * 2.0**-11,
}


@pytest.mark.parametrize("name", ALLOWED)
def test_errors_of_instructions(name, monkeypatch):
    x = np.random.default_rng(0).uniform(1e-3, 6, 1000).astype(np.float32)
    y = numeric._FUNCTIONS[name](x.astype(np.float64))
    for edge in (-1, 1):
        monkeypatch.setattr(numeric, "EDGES", {name: edge})
        share = edge * (numeric.approximate(name, x) - y) / ALLOWED[name](x, y)
        assert 0.9 < share.max() <= 1 and share.min() > 0
    monkeypatch.setattr(numeric, "EDGES", {"sin": 1, "ex2": 1, "tanh": 1})
    assert np.isnan(numeric.approximate("sin", np.array([400], np.float32))).all()
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    for exact in ("sin", "ex2", "tanh"):
        found = numeric.approximate(exact, special)
        np.testing.assert_array_equal(found, numeric._FUNCTIONS[exact](special))


@pytest.mark.parametrize("signs", [None, (-1, -1, -1), (1, 1, 1), (1, -1, 0), (-1, 1, 1)])
@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_2_ulp(name, code, signs, monkeypatch):
    function, instructions = FUNCTIONS[name]
    monkeypatch.setattr(
        numeric, "EDGES", dict(zip(instructions.split(), signs or (), strict=False))
    )
    xs = operands(name, code)
    result = computed(name, xs, contract=True)
    exact = function(*[x.astype(np.float64) for x in xs])
    distance = off(result, exact)
    worst = np.argsort(distance)[-20:]
    assert distance[worst[-1]] <= 2, [x[worst[-1]] for x in (*xs, result, exact)]
    worst = worst[distance[worst] > 0]  # neither special nor exact
    at = [x[worst] for x in xs]
    assert (off(result[worst], precisely(name, at)) <= 2).all()


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_on_the_processor_without_the_flag(name, code):
    xs = operands(name, code)
    result, expected = computed(name, xs), namespace[name](*xs)
    ordinary = result == result
    np.testing.assert_array_equal(ordinary, expected == expected)
    bits = f"u{result.itemsize}"
    np.testing.assert_array_equal(result[ordinary].view(bits), expected[ordinary].view(bits))


def test_what_no_instruction_may_spoil(monkeypatch):
    one, x = np.ones(1, np.float16), samples("f16")
    for edge in (-1, 1):
        edges = dict.fromkeys(("ex2", "lg2", "sin", "tanh"), edge)
        monkeypatch.setattr(numeric, "EDGES", edges)
        for name in ("log", "log2"):
            assert computed(name, (one,), contract=True) == 0
        for name in ("sin", "cos", "tanh"):
            assert not (np.abs(computed(name, (x,), contract=True)) > 1).any()
        both = computed("sincos", (x,), 2, contract=True)
        for found, name in zip(both, ("sin", "cos"), strict=True):
            np.testing.assert_array_equal(found, computed(name, (x,), contract=True))


def test_instructions():
    def code(name, kind, capability=(9, 0)):
        return cuda.compile(kernel(f"{name}(x0)", kind), "k", 3, True, capability).code

    assert "tanh.approx.f32" in code("tanh", "f16", (7, 5))
    old = code("tanh", "f16", (7, 0))
    assert "tanh.approx" not in old and "ex2.approx.ftz.f32" in old and "rcp.approx.ftz.f32" in old
    assert ".approx" not in code("exp", "f32") and ".approx" not in code("tanh", "f64")


def test_pairs_of_features():
    """A vector in registers has two halves in each."""
    x = samples("f16")
    found = np.zeros((2, x.size), np.float16)
    text = """def kernel(i, p):
    x0 = load(f16, p[1], i)
    v0 = -x0
    v1 = vector(f16, x0, v0)
    v2 = tanh(v1)
    v3 = feature(v2, 0)
    v4 = feature(v2, 1)
    store(f16, p[2], i, v3)
    store(f16, p[3], i, v4)
"""
    call(text, [np.zeros(6, np.int64), x, *found], x.size, contract=True)
    expected = computed("tanh", (x,), contract=True)
    np.testing.assert_array_equal(found, [expected, -expected])


def test_features_of_long_vectors():
    """They are in memory."""
    with registered(Cuda(EmulatedDriver())):
        x = dr.linspace(dr.cuda.Float16, -4, 4, 50)
        rows = [x * (k / 20) for k in range(150)]
        found, expected = [*dr.sin(nn.CoopVec(rows))], [dr.sin(row) for row in rows]
        dr.eval(found, expected)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_derivatives():
    with registered(Cuda(EmulatedDriver())):
        for kind, tolerance in ((dr.cuda.ad.Float16, 4e-3), (dr.cuda.ad.Float, 1e-6)):
            x = dr.linspace(kind, 0.5, 2, 40)
            dr.enable_grad(x)
            dr.backward(dr.sum(dr.tanh(x) + dr.exp(-x) + dr.log(x) + dr.sin(x) + dr.exp2(x)))
            v = x.numpy().astype(np.float64)
            expected = 1 - np.tanh(v) ** 2 - np.exp(-v) + 1 / v + np.cos(v) + np.log(2) * 2**v
            np.testing.assert_allclose(dr.grad(x).numpy(), expected, tolerance)


@pytest.mark.parametrize(("code", "most"), [("f32", 115), ("f16", 36)])
def test_number_of_instructions(code, most):
    """Of `exp(-x) * log(x) + tanh(x)`, the paths for rare arguments among them."""
    lines = ["v1 = exp(-x0)", "v2 = log(x0)", "v3 = tanh(x0)", "v4 = v1 * v2"]
    text = kernel("v4 + v3", code).replace("v0 =", "\n    ".join([*lines, "v0 ="]))
    made = disassembled(cuda.compile(text, "k", 3, True, (9, 0)).code, "sm_90")
    if made is None:
        pytest.skip("there are no ptxas and nvdisasm")
    approximate = [name for name in made if name.startswith("MUFU")]
    assert len(approximate) == {"f32": 2, "f16": 3}[code]
    assert len(made) <= most

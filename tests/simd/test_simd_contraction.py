"""Which products are fused with sums: a fixed rule, the same at each level of code generation."""

from fractions import Fraction

import numpy as np
import pytest
from test_simd import RECORD, both_widths, call, in_f32, made, rounded, same

from drjit.jit.ir import dtype
from drjit.jit.target.simd import kernel, llvm

FUSED = [dtype.f32, dtype.f64]

# The lines of a kernel of x, y, z and the literals c, d, e, and what `r` then is. A `p(x, y)` in
# the latter is a rounded product, `fma` a fused one, and `+` a rounded sum.
CASES = {
    "product first": ("v = x * y\nr = v + z", "fma(x, y, z)"),
    "product second": ("v = x * y\nr = z + v", "fma(x, y, z)"),
    "difference": ("v = x * y\nr = v - z", "fma(x, y, -z)"),
    "subtracted": ("v = x * y\nr = z - v", "fma(-x, y, z)"),
    "in one line": ("r = z - x * y", "fma(-x, y, z)"),
    "of a number": ("r = x * 3 - 0.1", "fma(x, t(3), -t(0.1))"),
    "of literals": ("v = c * d\nr = x * (v - e)", "p(x, fma(c, d, -e))"),
    "literals subtracted": ("v = c * d\nr = x * (e - v)", "p(x, fma(-c, d, e))"),
    "two products": ("v = x * y\nw = z * c\nr = v + w", "fma(x, y, p(z, c))"),
    "difference of two": ("v = x * y\nw = z * c\nr = v - w", "fma(x, y, -p(z, c))"),
    "negated": ("v = x * y\nw = -v\nr = w + z", "fma(-x, y, z)"),
    "negated twice": ("r = -(-(x * y)) - z", "fma(x, y, -z)"),
    "negated, subtracted": ("v = x * y\nw = -v\nr = z - w", "fma(x, y, z)"),
    "negated both": ("v = x * y\nw = -v\nr = w - z", "fma(-x, y, -z)"),
    "squared": ("v = x * x\nr = v + x", "fma(x, x, x)"),
    "of a sum": ("v = x + y\nw = v * z\nr = w + v", "fma(x + y, z, x + y)"),
    "a chain": ("v = x * y + z\nr = v * y - x", "fma(fma(x, y, z), y, -x)"),
    "used twice": ("v = x * y\nr = (v + z) / (v - x)", "(p(x, y) + z) / (p(x, y) - x)"),
    "added to itself": ("v = x * y\nr = v + v", "p(x, y) + p(x, y)"),
    "first used twice": ("v = x * y\nw = z * c\nr = (v + w) / v", "fma(z, c, p(x, y)) / p(x, y)"),
    "negation used twice": ("v = x * y\nw = -v\nr = (w + z) / w", "(-p(x, y) + z) / -p(x, y)"),
    "also an output": ("v = x * y\nstore(T, p[8], i, v)\nr = v + z", "p(x, y) + z"),
    "of a quotient": ("v = x / y\nr = v + z", "x / y + z"),
    "a fused one": ("r = fma(x, y, z) + x", "fma(x, y, z) + x"),
    "in a loop": (
        "k = u32(0)\nr = z\nm = k < 3\nwhile any_lane(m):\n"
        "    v = r * x\n    r = v - y\n    k = k + 1\n    m = k < 3",
        "fma(fma(fma(z, x, -y), x, -y), x, -y)",
    ),
    "before a loop": (
        "k = u32(0)\nv = x * y\nr = z\nm = k < 2\nwhile any_lane(m):\n"
        "    r = r + v\n    k = k + 1\n    m = k < 2",
        "z + p(x, y) + p(x, y)",
    ),
    "state of a loop": (
        "k = u32(0)\nv = x * y\nm = k < 2\nwhile any_lane(m):\n"
        "    r = v + z\n    v = v * y\n    k = k + 1\n    m = k < 2\nr = v + z",
        "p(p(p(x, y), y), y) + z",
    ),
    "in a branch": (
        "r = z\nm = active(i)\nif any_lane(m):\n    v = sqrt(x) * y\n    r = r - v",
        "fma(-sqrt(x), y, z)",
    ),
    "before a branch": (
        "r = z\nv = x * y\nm = active(i)\nif any_lane(m):\n    r = sqrt(r - v)\n    r = r * r",
        "p(sqrt(z - p(x, y)), sqrt(z - p(x, y)))",
    ),
}  # fmt: skip
VECTORS = {
    "vectors": (
        "v = vector(T, x, y, z)\nw = v * v\nu = w - x\nr = feature(u, 1)",
        "fma(y, y, -x)",
    ),
    "a vector read twice": (
        "v = vector(T, x, y, z)\nw = v * v\nu = w - x\nr = feature(u, 1) / feature(w, 1)",
        "(p(y, y) - x) / p(y, y)",
    ),
}


def text_of(t, lines):
    loads = [f"{name} = load({t.code}, p[{k}], i)" for k, name in enumerate("xyz", 1)]
    loads += [f"{name} = literal({t.code}, p[{k}])" for k, name in enumerate("cde", 4)]
    body = [*loads, *lines.replace("T,", f"{t.code},").split("\n")]
    return "\n    ".join(["def kernel(i, p):", *body, f"store({t.code}, p[7], i, r)\n"])


def results(t, lines, lanes, contract=True):
    """The values of x, y, z, c, d, e, and what the kernel computes from them."""
    rng = np.random.default_rng(5)
    x, y, c, d = rng.uniform(0.5, 2, (4, 100)).astype(t.numpy)
    given = [x, y, in_f32(t, np.multiply, x, y) * 4, c[0], d[0], c[1]]
    out = np.zeros(100, t.numpy)
    words = [RECORD.copy(), *given, out, np.zeros(100, t.numpy)]
    call(text_of(t, lines), words, 100, lanes, contract=contract)
    return dict(zip("xyzcde", given, strict=True)), out


def wanted(t, expression, given, *, fused):
    """What an expression is for numbers of a type."""

    def product(x, y):
        return in_f32(t, np.multiply, *np.broadcast_arrays(x, y))

    def fma(x, y, z):
        if not fused:
            return in_f32(t, np.add, product(x, y), z)
        rows = zip(*np.broadcast_arrays(*np.atleast_1d(x, y, z)), strict=True)
        exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in rows]
        return np.array([rounded(e, t) for e in exact], t.numpy)

    names = {"p": product, "fma": fma, "t": t.scalar, "sqrt": np.sqrt}
    return eval(expression, names | given)


@both_widths
@pytest.mark.parametrize("case", CASES | VECTORS)
@pytest.mark.parametrize("t", FUSED, ids=str)
def test_a_product_with_one_use_is_fused(t, case, lanes):
    lines, expression = (CASES | VECTORS)[case]
    given, got = results(t, lines, lanes)
    want = wanted(t, expression, given, fused=True)
    same(got, np.broadcast_to(want, got.shape), case)


@pytest.mark.parametrize("case", CASES | VECTORS)
@pytest.mark.parametrize("t", FUSED, ids=str)
def test_without_the_flag_none_is(t, case):
    lines, expression = (CASES | VECTORS)[case]
    given, got = results(t, lines, 8, contract=False)
    fma = lines.count("fma(")
    want = wanted(t, expression, given, fused=bool(fma))
    same(got, np.broadcast_to(want, got.shape), case)


@pytest.mark.parametrize("case", ["product first", "subtracted", "negated", "two products"])
def test_products_of_halves_are_rounded(case):
    lines, expression = CASES[case]
    given, got = results(dtype.f16, lines, 16)
    same(got, wanted(dtype.f16, expression, given, fused=False), case)


@pytest.fixture(params=[0, 1, 2])
def level(request, monkeypatch):
    """Each level of code generation."""
    monkeypatch.setattr(llvm, "level_of", lambda ir, plain: request.param)
    made.cache_clear()
    yield request.param
    made.cache_clear()


def test_each_level_of_code_generation_gives_the_same_bits(level):
    for case, (lines, expression) in (CASES | VECTORS).items():
        given, got = results(dtype.f32, lines, 16)
        want = wanted(dtype.f32, expression, given, fused=True)
        same(got, np.broadcast_to(want, got.shape), f"{case} at level {level}")


def test_fused_products_leave_no_line():
    lines = "\n".join(["v0 = x"] + [f"v{k} = v{k - 1} * y + z" for k in range(1, 50)] + ["r = v49"])
    ir = kernel.module_text(text_of(dtype.f32, lines), "k", 16, True).ir
    assert ir.count("@llvm.fma") == 49 and "fmul" not in ir and "fadd" not in ir

"""`dr.wrap` with the target Numba: its functions inside of kernels."""

import math
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import ad

numba = pytest.importorskip("numba")

TABLE = np.array([1.0, -0.5, 0.25, 2.0])
SIZES = (0, 1, 15, 17, 1000)


@numba.njit
def horner(x, n):
    """The polynomial with the first n coefficients of a table."""
    result = 0.0
    for k in range(n):
        result = result * x + TABLE[k]
    return result


@numba.njit
def horner_slope(x, n):
    value, slope = 0.0, 0.0
    for k in range(n):
        slope = slope * x + value
        value = value * x + TABLE[k]
    return slope, 0.0


@numba.njit
def kepler(mean, e):
    """The eccentric anomaly, by Newton's method."""
    if e >= 1:
        raise ValueError("not an ellipse")
    x = mean
    step = 1.0
    while abs(step) > 1e-14:
        step = (x - e * math.sin(x) - mean) / (1 - e * math.cos(x))
        x -= step
    return x


@numba.njit
def kepler_slopes(mean, e):
    x = kepler(mean, e)
    bottom = 1 - e * math.cos(x)
    return 1 / bottom, math.sin(x) / bottom


polynomial = dr.wrap("drjit", "numba", derivative=horner_slope)(horner)
anomaly = dr.wrap(source="drjit", target="numba", derivative=kepler_slopes)(kepler)


def numbers(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    return rng.uniform(-2, 2, size), rng.integers(0, 5, size)


@pytest.mark.parametrize("size", SIZES)
def test_values(tier, size):
    x, n = numbers(size)
    want = [horner(a, b) for a, b in zip(x, np.minimum(n, 4), strict=True)]
    found = polynomial(ad.Float64(x), ad.Int(np.minimum(n, 4)))
    assert type(found) is ad.Float64
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-15)


def test_mixes_with_traced_operations(tier):
    x = dr.linspace(ad.Float64, 0, 1, 17)
    y = dr.sin(polynomial(x + 1, 3)) * 2
    a = x.numpy() + 1
    np.testing.assert_allclose(y.numpy(), 2 * np.sin((a - 0.5) * a + 0.25), rtol=1e-13)


@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_derivatives(tier, mode):
    mean, e = np.linspace(0.1, 3, 17), np.linspace(0, 0.9, 17)
    x, y = ad.Float64(mean), ad.Float64(e)
    dr.enable_grad(x, y)
    z = anomaly(x * 1, y)
    if mode == "backward":
        dr.backward(z)
        found = x.grad, y.grad
    else:
        dr.forward(x, dr.ADFlag.ClearEdges)
        found = (z.grad,)
    np.testing.assert_allclose(z.numpy(), [kepler(*p) for p in zip(mean, e, strict=True)])
    h = 1e-6
    for k, grad in enumerate(found):
        up, down = [
            [kepler(a + s * (k == 0), b + s * (k == 1)) for a, b in zip(mean, e, strict=True)]
            for s in (h, -h)
        ]
        np.testing.assert_allclose(grad.numpy(), np.subtract(up, down) / (2 * h), rtol=1e-6)


def test_integer_arguments_have_no_gradient_but_a_place(tier):
    x = ad.Float64(1, 2, 3)
    dr.enable_grad(x)
    dr.backward(polynomial(x, ad.UInt8(1, 2, 3)))
    np.testing.assert_allclose(x.grad.numpy(), [0, 1, 5.5])


def test_unknown_derivatives():
    x = ad.Float64(0.5)
    dr.enable_grad(x)
    y = dr.wrap("drjit", "numba")(horner)(x, 3)
    with pytest.raises(RuntimeError, match=r"derivatives of horner\(\) are unknown.*derivative="):
        dr.backward(y)
    assert dr.wrap("drjit", "numba")(horner)(dr.detach(x), 3)[0] == 0.25


def test_second_derivatives_are_refused():
    x = ad.Float64(0.5)
    dr.enable_grad(x)
    y = polynomial(x, 3)
    with pytest.raises(RuntimeError, match="derivatives of derivatives"):
        dr.backward(y, dr.ADFlag.KeepGraph)


def test_partial_derivatives_are_counted():
    @numba.njit
    def one(x, n):
        return 1.0

    x = ad.Float64(0.5)
    dr.enable_grad(x)
    message = r"one\(\) returns 1 numbers; expected the partial derivatives of horner\(\) by 2"
    with pytest.raises(TypeError, match=message):
        dr.wrap("drjit", "numba", derivative=one)(horner)(x, 3)


def test_derivatives_of_several_results(tier):
    def polar(r, phi):
        return r * math.cos(phi), r * math.sin(phi)

    def partials(r, phi):
        c, s = math.cos(phi), math.sin(phi)
        return (c, -r * s), (s, r * c)

    f = dr.wrap("drjit", "numba", derivative=partials)(polar)
    r, phi = ad.Float64(1, 2), ad.Float64(0.3, 0.4)
    dr.enable_grad(r, phi)
    x, y = f(r, phi)
    dr.backward(2 * x + y)
    c, s = np.cos([0.3, 0.4]), np.sin([0.3, 0.4])
    np.testing.assert_allclose(r.grad.numpy(), 2 * c + s)
    np.testing.assert_allclose(phi.grad.numpy(), np.array([1, 2]) * (c - 2 * s))


INTEGERS = [ad.Int8, ad.UInt8, ad.Int, ad.UInt, ad.Int64, ad.UInt64]
if hasattr(ad, "Int16"):
    INTEGERS += [ad.Int16, ad.UInt16]


def test_types(tier):
    @dr.wrap("drjit", "numba")
    @numba.njit
    def halve(x):
        return x / 2, x, x > 1

    for t in INTEGERS:
        half, same, big = halve(t(1, 2, 3))
        assert (type(half), type(same), type(big)) == (ad.Float64, t, ad.Bool)
        assert list(half) == [0.5, 1, 1.5] and list(same) == [1, 2, 3]
        assert list(big) == [False, True, True]
    for t in (ad.Float16, ad.Float, ad.Float64):
        half, same, big = halve(t(1, 2, 3))
        assert (type(half), type(same), type(big)) == (t, t, ad.Bool)
        assert list(half) == [0.5, 1, 1.5] and list(same) == [1, 2, 3]


def test_masks(tier):
    @dr.wrap("drjit", "numba")
    @numba.njit
    def choose(m, x, y):
        return (x if m else y), not m

    m = ad.Bool(True, False, True)
    value, other = choose(m, ad.Float(1, 2, 3), -1.0)
    assert list(value) == [1, -1, 3] and list(other) == [False, True, False]
    assert type(value) is ad.Float


@dataclass
class Ray:
    o: ad.Array3f64
    t: ad.Float64


Pair = namedtuple("Pair", "low high")


def test_trees(tier):
    @dr.wrap("drjit", "numba")
    @numba.njit
    def both(ray, options, z, values):
        p = (ray.o[0] + ray.t, ray.o[1] - ray.t)
        return Pair(min(p), max(p)), (options.scale * z, len(values)), values[1].low

    ray = Ray(ad.Array3f64([1, 2], 5, 0), ad.Float64(0.5, 4))
    pair, (z, n), low = both(ray, {"scale": 2.0}, ad.Complex2f64(1, [3, 4]), [1, Pair(7, 8)])
    assert type(pair) is Pair and list(pair.low) == [1.5, 1] and list(pair.high) == [4.5, 6]
    assert type(z) is ad.Complex2f64 and list(z.imag) == [6, 8] and list(z.real) == [2, 2]
    assert n[0] == 2 and low[0] == 7


def test_tensors(tier):
    t = dr.reshape(ad.TensorXf64, dr.arange(ad.Float64, 6), (2, 3))
    found = polynomial(t, 2)
    assert type(found) is ad.TensorXf64 and found.shape == (2, 3)
    np.testing.assert_allclose(found.numpy(), np.arange(6).reshape(2, 3) - 0.5)


def test_numbers_alone():
    assert polynomial(2.0, 2) == 1.5 and type(polynomial(2.0, 2)) is float


def test_keywords_and_defaults(tier):
    @dr.wrap("drjit", "numba")
    def f(x, y=2.0, z=1.0):
        return x * y + z

    assert list(f(x=ad.Float64(1, 2))) == [3, 5]
    assert list(f(ad.Float64(1, 2), z=ad.Float64(3))) == [5, 7]


@numba.njit
def endless(x):
    while x < 1:  # no end for negative numbers
        x *= 2
    return x


scaled = dr.wrap("drjit", "numba")(endless)


def test_only_active_lanes_call(tier):
    """The others would never return, as would the lanes beyond the last one, whose number is 0."""

    @dr.syntax
    def program(x):
        y = ad.Float64(-1)
        if x > 0:
            y = scaled(x)
        return y

    x = np.linspace(-1, 1, 17)
    want = [endless(a) if a > 0 else -1 for a in x]
    np.testing.assert_allclose(program(ad.Float64(x)).numpy(), want)
    np.testing.assert_allclose(scaled(ad.Float64(0.3, 0.2, 5)).numpy(), [1.2, 1.6, 5])


def test_functions_for_several_lanes_at_once(tier):
    @numba.njit(error_model="numpy")
    def smooth(x, n, m):
        y = math.sqrt(abs(x)) / (1 + x * x)
        return (y if m else -y), n + 1, x > 0, math.sin(y)

    f = dr.wrap("drjit", "numba")(smooth)

    @dr.syntax
    def program(x, n, m):
        y, k, p, s = ad.Float64(9), ad.Int64(9), ad.Bool(False), ad.Float64(9)
        if n < 5:
            y, k, p, s = f(x, n, m)
        return y, k, p, s

    x, n = np.linspace(-2, 2, 37), np.arange(37) % 7
    m = np.arange(37) % 3 == 0
    found = program(ad.Float64(x), ad.Int(n), ad.Bool(m))
    rows = zip(x, n, m, strict=True)
    want = zip(*[smooth(*row) if row[1] < 5 else (9, 9, False, 9) for row in rows], strict=True)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-15)
    from drjit.jit.target import foreign

    by_name = {g.title: g.total for g in foreign.functions.values()}
    assert by_name["smooth"]
    f = dr.wrap("drjit", "numba")(endless)
    dr.kernel_source(f(ad.Float64(1, 2)), anomaly(ad.Float64(1, 2), 0.5))
    totals = {g.title: g.total for g in foreign.functions.values()}
    assert not totals["endless"] and not totals["kepler"]


def test_loop_with_gradient(tier):
    @dr.syntax
    def total(x, n):
        s, k = ad.Float64(0), ad.Int(0)
        while k < n:
            s += polynomial(x * s + x, k)
            k += 1
        return s

    def numpy_total(x, n):
        s = 0.0
        for k in range(n):
            s += horner(x * s + x, k)
        return s

    x, n = np.linspace(-0.7, 0.7, 17), np.arange(17) % 5
    a = ad.Float64(x)
    dr.enable_grad(a)
    s = total(a, ad.Int(n))
    dr.backward(s)
    np.testing.assert_allclose(s.numpy(), list(map(numpy_total, x, n)), rtol=1e-12)
    up, down = [np.array(list(map(numpy_total, x + h, n))) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(a.grad.numpy(), (up - down) / 2e-6, rtol=1e-6, atol=1e-8)


def test_calls(tier):
    a, b = (lambda x: polynomial(x, 3)), (lambda x: scaled(abs(x) + 0.1))
    which = ad.UInt(0, 1, 0, 1, 1)
    x = ad.Float64(1, -0.1, 2, 0.5, 3)
    found = dr.switch(which, [a, b], x)
    want = [f(v) for f, v in zip((a, b, a, b, b), (1.0, -0.1, 2.0, 0.5, 3.0), strict=True)]
    np.testing.assert_allclose(found.numpy(), want)


def test_frozen(tier):
    step = dr.freeze(lambda x: anomaly(x, 0.5) + 1)
    for size in (3, 3, 4, 4):
        x = np.linspace(0, 1, size)
        want = [kepler(a, 0.5) + 1 for a in x]
        np.testing.assert_allclose(step(ad.Float64(x)).numpy(), want)
    assert step.n_recordings < 4


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    return next(k + 1 for k, line in enumerate(lines) if text in line)


def test_exceptions(tier):
    e = np.full(17, 0.5)
    e[11] = 1.5
    z = anomaly(ad.Float64(0.5), ad.Float64(e)) + 1
    line = line_of('raise ValueError("not an ellipse")')
    message = rf"not an ellipse \(lane 11 of kepler\(\), .*test_numba_functions.py:{line}; called"
    with pytest.raises(ValueError, match=message):
        z.numpy()
    assert anomaly(ad.Float64(0.5), 0.0)[0] == 0.5  # the next launch is fine


def test_exceptions_in_frozen_functions(tier):
    step = dr.freeze(lambda x, e: anomaly(x, e) + 1)
    for k in range(3):
        assert step(ad.Float64(0.5, k), ad.Float64(0, 0.5)).numpy().size == 2
    with pytest.raises(ValueError, match="not an ellipse"):
        step(ad.Float64(0.5, 1), ad.Float64(0, 2)).numpy()


def test_several_exceptions_are_told_apart(tier):
    @dr.wrap("drjit", "numba")
    @numba.njit
    def check(k):
        if k == 1:
            raise KeyError("one")
        if k == 2:
            raise IndexError("two", 2)
        return 1 // (k - 3)

    errors = [(1, KeyError, "one"), (2, IndexError, "two, 2"), (3, ZeroDivisionError, "")]
    for k, kind, text in errors:
        with pytest.raises(kind, match=f"{text} ?.*lane 2 of check"):
            check(ad.Int(0, 5, k)).numpy()
    assert list(check(ad.Int(4, 5))) == [1, 0]


def test_messages():
    @numba.njit
    def text(x):
        return "no number"

    @numba.njit
    def wrong(x):
        return x.real.upper()

    with pytest.raises(TypeError, match=r"text\(\) returns the Numba type unicode_type"):
        dr.wrap("drjit", "numba")(text)(ad.Float(1))
    with pytest.raises(TypeError, match=r"cannot compile wrong\(\) for \(float32\)"):
        dr.wrap("drjit", "numba")(wrong)(ad.Float(1))
    with pytest.raises(TypeError, match=r"argument 1 of horner\(\) is a str"):
        polynomial(ad.Float(1), "x")
    with pytest.raises(RuntimeError, match=r"horner\(\): operands have incompatible sizes"):
        polynomial(ad.Float(1, 2), ad.Int(1, 2, 3))
    with pytest.raises(ValueError, match="'derivative' belongs to"):
        dr.wrap("drjit", "torch", derivative=horner)


def test_kernel_text_and_key():
    def made(factor, name="scale"):
        names = {}
        exec(f"def {name}(x): return x * {factor}", names)
        return dr.wrap("drjit", "numba")(numba.njit(names[name]))

    texts = [dr.kernel_source(made(k)(ad.Float64(1, 2))) for k in (2.0, 2.0, 3.0)]
    assert texts[0] == texts[1] != texts[2]
    assert " = scale_" in texts[0]
    other = dr.kernel_source(made(2.0)(ad.Float(1, 2)))
    assert other.partition(" = scale_")[2][:10] != texts[0].partition(" = scale_")[2][:10]


def test_number_that_changes_needs_no_new_kernel():
    kernels = set()
    for k in (1, 2, 3):
        kernels.add(dr.kernel_source(polynomial(ad.Float64(1, 2), k)))
        kernels.add(dr.kernel_source(anomaly(ad.Float64(1, 2), 0.1 * k)))
    assert len(kernels) == 2


@pytest.mark.processor
def test_kernels_that_numba_compiles(monkeypatch):
    """Functions made before and after the first of these kernels; both are called in loops."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    with dr.scoped_set_flag(dr.JitFlag.NumbaCompiler):
        for k in range(2):
            names = {"k": k}
            exec("def late(x, n): return x * (n + k), x > k", names)
            late = dr.wrap("drjit", "numba")(numba.njit(names["late"]))

            @dr.syntax
            def program(x, n, late=late):
                s, j = ad.Float64(0), ad.Int(0)
                while j < n:
                    y, more = late(x, j)
                    s += dr.select(more, y, anomaly(x * 0.1, 0.5))
                    j += 1
                return s

            x, n = np.linspace(-1, 3, 17), np.arange(17) % 4
            want = [
                sum(a * (j + k) if a > k else kepler(a * 0.1, 0.5) for j in range(b))
                for a, b in zip(x, n, strict=True)
            ]
            np.testing.assert_allclose(program(ad.Float64(x), ad.Int(n)).numpy(), want)


SCRIPT = """
import sys
import drjit as dr
assert "numba" not in sys.modules
from numba import njit
@njit
def f(x):
    if x < 0:
        raise ValueError("negative")
    return x * 3.25 + 1
y = dr.wrap("drjit", "numba")(f)(dr.llvm.Float64(1, 2))
with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    dr.eval(y)
    entry, = dr.kernel_history()
print(list(y), entry["cache_disk"], entry["source"])
"""


@pytest.mark.processor
def test_disk_cache(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    runs = [
        subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert runs[0].startswith("[4.25, 7.5] 0") and runs[1].startswith("[4.25, 7.5] 1")
    assert runs[0].split("\n")[1:] == runs[1].split("\n")[1:]


@pytest.mark.processor
def test_functions_that_allocate(tier):
    @dr.wrap("drjit", "numba")
    @numba.njit
    def median(a, b, c):
        values = np.empty(3)
        for k, x in enumerate((a, b, c)):
            values[k] = x
            while k > 0 and values[k] < values[k - 1]:
                values[k], values[k - 1] = values[k - 1], values[k]
                k -= 1
        return values[1]

    x = np.random.default_rng(0).random((3, 100))
    found = median(*[ad.Float64(row) for row in x])
    np.testing.assert_array_equal(found.numpy(), np.median(x, axis=0))


@pytest.mark.processor
def test_both_ways():
    """A function of Numba, within a Dr.Jit function, within a function of Numba."""
    outer = dr.wrap("numba", "drjit")(lambda x: anomaly(x, 0.5) * 2)

    @numba.njit
    def f(x):
        return outer.value_and_grad(x)

    value, (slope,) = f(1.0)
    assert value == pytest.approx(2 * kepler(1.0, 0.5), rel=1e-14)
    assert slope == pytest.approx(2 * kepler_slopes(1.0, 0.5)[0], rel=1e-14)

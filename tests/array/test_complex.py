"""Complex numbers against NumPy, quaternions against the matrices that represent them."""

import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.llvm import Complex2f, Complex2f64, Float, Float64, Quaternion4f, Quaternion4f64

# Name: NumPy's function, if it is called differently.
FUNCTIONS = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "exp2": lambda z: np.exp(z * math.log(2)),
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": lambda z: np.log(z) / math.log(2),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "rcp": lambda z: 1 / z,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "square": lambda z: z * z,
}
GRID = np.array(
    [complex(x, y) for x in (-2.5, -0.7, -1e-3, 0.3, 1.0, 4.0) for y in (-3, -0.4, 1e-3, 0.9, 2)]
)


def numbers(a):
    """A Complex2f as a NumPy array."""
    re, im = (np.asarray(c.numpy(), np.float64) for c in (a.real, a.imag))
    return re + 1j * im


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("cls", "tolerance"), [(Complex2f, 2e-6), (Complex2f64, 1e-14)])
@pytest.mark.compiled_every(3)
def test_a_function_agrees_with_numpy(name, cls, tolerance, tier):
    z = GRID.astype(np.complex64 if cls is Complex2f else np.complex128)
    got = getattr(dr, name)(cls(z))
    assert type(got) is cls
    want = FUNCTIONS[name](z.astype(np.complex128))
    np.testing.assert_array_less(abs(numbers(got) - want), tolerance * (abs(want) + 1e-3) * 4)


@pytest.mark.parametrize(
    "name", [n for n in FUNCTIONS if n not in ("rcp", "rsqrt", "square", "exp2", "log2")]
)
@settings(max_examples=40)
@given(x=st.floats(-30, 30), y=st.floats(-30, 30))
def test_a_function_of_a_scalar_number_agrees_with_cmath(name, x, y):
    z = np.complex128(complex(x, y))
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](z)
        # Near a singularity or a zero, what counts is the change that a rounding of the argument
        # makes.
        near = abs(FUNCTIONS[name](z * (1 + 1e-14)) - want)
    got = getattr(dr, name)(dr.scalar.Complex2f64(x, y))
    if np.isfinite(want):
        error = abs(complex(got[0], got[1]) - want)
        assert error <= 1e-13 * abs(want) + near + 1e-14


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "acosh", "atanh", "atan", "asinh"])
def test_branch_cuts_are_those_of_numpy(name):
    axis = [complex(x, y) for x in (-2.0, 2.0) for y in (0.0, -0.0)]
    axis += [complex(x, y) for y in (-2.0, 2.0) for x in (0.0, -0.0)]
    for z in axis:
        got = getattr(dr, name)(dr.scalar.Complex2f64(z.real, z.imag))
        want = FUNCTIONS[name](np.complex128(z))
        assert complex(got[0], got[1]) == pytest.approx(complex(want), rel=1e-12, abs=1e-12), z


def test_large_arguments_do_not_overflow(tier):
    got = numbers(dr.tanh(Complex2f([100, -100], [1, 1])))
    np.testing.assert_allclose(got.real, [1, -1])
    got = numbers(dr.tan(Complex2f([1, 1], [100, -100])))
    np.testing.assert_allclose(got.imag, [1, -1])
    assert dr.abs(Complex2f(3e30, 4e30))[0] == pytest.approx(5e30)
    got = numbers(dr.sqrt(Complex2f(2e38, 2e38)))
    np.testing.assert_allclose(got, np.sqrt(2e38 + 2e38j), rtol=1e-6)


def test_operators(tier):
    a, b = np.complex128(1 + 2j), np.complex128(3 - 4j)
    p, q = Complex2f64(1, 2), Complex2f64(3, -4)
    for got, want in [
        (p * q, a * b), (p / q, a / b), (1 / q, 1 / b), (p + q, a + b), (p - 1, a - 1),
        (p**2, a**2), (p**-1, 1 / a), (p**0.5, a**0.5), (p**q, a**b), (2**p, 2**a),
    ]:  # fmt: skip
        assert type(got) is Complex2f64
        np.testing.assert_allclose(numbers(got), want, rtol=1e-13)
    np.testing.assert_allclose(numbers(Complex2f64(0, 0) ** 0.5), 0)


def test_each_lane_has_its_own_factor(tier):
    """On either side."""
    x, z = np.array([2.0, -3.0, 0.5]), np.array([1 + 2j, 3 - 4j, -1j])
    s, a = Float64(x), Complex2f64(Float64(z.real), Float64(z.imag))
    for got, want in [(a * s, z * x), (s * a, x * z), (a / s, z / x), (s / a, x / z)]:
        assert type(got) is Complex2f64
        np.testing.assert_allclose(numbers(got), want, rtol=1e-13)
    for q in (P * Float64(3), Float64(3) * P):
        np.testing.assert_allclose(matrix(q), 3 * matrix(P), rtol=1e-15)


def test_parts():
    z = Complex2f(3, 4)
    assert (type(dr.real(z)), type(dr.abs(z)), type(dr.arg(z))) == (Float, Float, Float)
    assert (dr.real(z)[0], dr.imag(z)[0], dr.abs(z)[0]) == (3, 4, 5)
    assert dr.arg(z)[0] == pytest.approx(math.atan2(4, 3))
    assert numbers(dr.conj(z))[0] == 3 - 4j
    assert (dr.real(1 + 2j), dr.imag(1 + 2j), dr.conj(1 + 2j)) == (1, 2, 1 - 2j)
    assert dr.arg(1j) == cmath.phase(1j)
    assert (dr.real(3), dr.imag(3), dr.imag(1.5), dr.arg(-1.5), dr.arg(1)) == (3, 0, 0, math.pi, 0)
    assert (dr.real(Float(3))[0], dr.imag(Float(3))[0], dr.arg(Float(-1))[0]) == (
        3,
        0,
        np.float32(math.pi),
    )
    with pytest.raises(TypeError, match=r"dr\.imag\(\)"):
        dr.imag("x")


# ---- Quaternions, represented by complex 2 x 2 matrices


def matrix(q):
    x, y, z, w = (float(c[0]) for c in (q.x, q.y, q.z, q.w))
    return np.array([[w + x * 1j, y + z * 1j], [-y + z * 1j, w - x * 1j]])


P, Q = Quaternion4f64(0.1, 0.2, 0.3, 0.4), Quaternion4f64(-0.5, 0.7, 0.2, -0.3)


def test_quaternion_products(tier):
    np.testing.assert_allclose(matrix(P * Q), matrix(P) @ matrix(Q), atol=1e-15)
    np.testing.assert_allclose(matrix(P / Q), matrix(P) @ np.linalg.inv(matrix(Q)), atol=1e-14)
    np.testing.assert_allclose(matrix(1 / Q), np.linalg.inv(matrix(Q)), atol=1e-14)
    np.testing.assert_allclose(matrix(dr.rcp(Q)), np.linalg.inv(matrix(Q)), atol=1e-14)
    np.testing.assert_allclose(matrix(dr.square(P)), matrix(P) @ matrix(P), atol=1e-15)
    np.testing.assert_allclose(matrix(P * dr.conj(P)), np.eye(2) * 0.3, atol=1e-15)
    assert dr.abs(P)[0] == pytest.approx(math.sqrt(0.3))
    assert type(dr.abs(P)) is Float64


@pytest.mark.parametrize("q", [P, Q, Quaternion4f64(0, 0, 0, -2), Quaternion4f64(0, 0, 0, 3)])
def test_quaternion_functions(q, tier):
    eigenvalues, vectors = np.linalg.eig(matrix(q) + 0j)

    def apply(f):
        return vectors @ np.diag(f(eigenvalues)) @ np.linalg.inv(vectors)

    np.testing.assert_allclose(matrix(dr.exp(q)), apply(np.exp), atol=1e-13)
    np.testing.assert_allclose(matrix(dr.exp2(q)), apply(np.exp2), atol=1e-13)
    np.testing.assert_allclose(matrix(dr.exp(dr.log(q))), matrix(q), atol=1e-13)
    root = dr.sqrt(q)
    np.testing.assert_allclose(matrix(root * root), matrix(q), atol=1e-13)
    np.testing.assert_allclose(matrix(dr.rsqrt(q) * root), np.eye(2), atol=1e-13)
    np.testing.assert_allclose(matrix(dr.log2(q) * math.log(2)), matrix(dr.log(q)), atol=1e-13)
    np.testing.assert_allclose(matrix(q**3), np.linalg.matrix_power(matrix(q), 3), atol=1e-13)


def test_quaternion_parts():
    q = Quaternion4f(1, 2, 3, 4)
    assert dr.real(q)[0] == 4
    assert type(dr.imag(q)).__name__ == "Array3f"
    assert [c[0] for c in dr.imag(q)] == [1, 2, 3]
    c = dr.conj(q)
    assert [v[0] for v in (c.x, c.y, c.z, c.w)] == [-1, -2, -3, 4]


def test_other_functions_map_the_parts():
    got = dr.floor(Complex2f(1.5, -1.5))
    assert numbers(got)[0] == 1 - 2j
    got = dr.erf(Quaternion4f(0.1, 0.2, 0.3, 0.4))
    np.testing.assert_allclose(
        [c[0] for c in (got.x, got.w)], [math.erf(0.1), math.erf(0.4)], rtol=1e-6
    )


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar])
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_division_by_zero_is_infinite(namespace, zero):
    parts = np.float64([1, -2, 0, 4])
    for cls in (namespace.Complex2f, namespace.Quaternion4f64, namespace.Matrix2f):
        count = 2 if cls is namespace.Complex2f else 4
        found = dr.ravel(cls(*parts[:count]) / zero)
        with np.errstate(all="ignore"):
            expected = parts[:count] / zero
        np.testing.assert_array_equal(np.sort(found), np.sort(expected))

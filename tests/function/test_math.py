"""Transcendental functions: values against NumPy and SciPy on every type and kind of array, special
values, numbers, complex numbers aside.
"""

import importlib
import math

import numpy as np
import pytest
import scipy.special

import drjit as dr

inf, nan = math.inf, math.nan

# Name: the definition in float64, and where to try it.
FUNCTIONS = {
    "sqrt": (np.sqrt, (0, 9)),
    "cbrt": (np.cbrt, (-9, 9)),
    "exp": (np.exp, (-5, 5)),
    "exp2": (np.exp2, (-8, 8)),
    "expm1": (np.expm1, (-5, 5)),
    "log": (np.log, (0.01, 90)),
    "log1p": (np.log1p, (-0.99, 90)),
    "log2": (np.log2, (0.01, 90)),
    "sin": (np.sin, (-9, 9)),
    "cos": (np.cos, (-9, 9)),
    "tan": (np.tan, (-1.4, 1.4)),
    "asin": (np.arcsin, (-1, 1)),
    "acos": (np.arccos, (-1, 1)),
    "atan": (np.arctan, (-9, 9)),
    "sinh": (np.sinh, (-4, 4)),
    "cosh": (np.cosh, (-4, 4)),
    "tanh": (np.tanh, (-4, 4)),
    "asinh": (np.arcsinh, (-9, 9)),
    "acosh": (np.arccosh, (1, 9)),
    "atanh": (np.arctanh, (-0.99, 0.99)),
    "erf": (scipy.special.erf, (-3, 3)),
    "erfinv": (scipy.special.erfinv, (-0.99, 0.99)),
    "lgamma": (scipy.special.gammaln, (0.1, 20)),
}
TYPES = {"Float16": (np.float16, 2e-3), "Float": (np.float32, 1e-6), "Float64": (np.float64, 1e-13)}
SUFFIX = {"Float16": "f16", "Float": "f", "Float64": "f64"}


def inputs(name, dtype, count=25):
    low, high = FUNCTIONS[name][1]
    x = np.linspace(low, high, count).astype(dtype)
    return np.clip(x, np.nextafter(dtype(low), dtype(high)), np.nextafter(dtype(high), dtype(low)))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.compiled_every(4)
def test_a_function_agrees_with_its_definition(name, element, tier):
    dtype, tolerance = TYPES[element]
    x = inputs(name, dtype)
    want = FUNCTIONS[name][0](x.astype(np.float64))
    got = getattr(dr, name)(getattr(dr.llvm, element)(x))
    assert type(got) is getattr(dr.llvm, element)
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("element", TYPES)
def test_a_function_maps_over_components_and_tensors(name, element):
    dtype, _ = TYPES[element]
    function = getattr(dr, name)
    x = inputs(name, dtype, 24)
    flat = function(getattr(dr.llvm, element)(x)).numpy()
    nested = function(getattr(dr.llvm, f"Array3{SUFFIX[element]}")(x.reshape(3, 8)))
    assert type(nested) is getattr(dr.llvm, f"Array3{SUFFIX[element]}")
    np.testing.assert_array_equal(nested.numpy(), flat.reshape(3, 8))
    tensor = function(getattr(dr.llvm, f"TensorX{SUFFIX[element]}")(x.reshape(2, 3, 4)))
    assert tensor.shape == (2, 3, 4)
    np.testing.assert_array_equal(tensor.numpy(), flat.reshape(2, 3, 4))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_scalar_arrays_rounds_to_the_element_type(name):
    x = inputs(name, np.float32, 3)
    got = getattr(dr, name)(dr.scalar.Array3f(*x.tolist()))
    want = FUNCTIONS[name][0](x.astype(np.float64))
    assert type(got) is dr.scalar.Array3f
    np.testing.assert_allclose([got[0], got[1], got[2]], want, rtol=1e-6, atol=1e-6)
    assert got[0] == np.float32(got[0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_number_gives_a_float_in_double_precision(name):
    low, high = FUNCTIONS[name][1]
    x = low + (high - low) * 0.6
    got = getattr(dr, name)(x)
    assert type(got) is float
    assert got == pytest.approx(float(FUNCTIONS[name][0](x)), rel=1e-14)


SPECIAL = [
    ("sqrt", [-1, 0, inf], [nan, 0, inf]),
    ("cbrt", [-inf, 0, inf], [-inf, 0, inf]),
    ("exp", [-inf, 0, 1000, inf], [0, 1, inf, inf]),
    ("exp2", [-inf, 3, 5000, inf], [0, 8, inf, inf]),
    ("expm1", [-inf, 0, 1000, inf], [-1, 0, inf, inf]),
    ("log", [-1, 0, 1, inf], [nan, -inf, 0, inf]),
    ("log1p", [-2, -1, 0, inf], [nan, -inf, 0, inf]),
    ("log2", [-1, 0, 8, inf], [nan, -inf, 3, inf]),
    ("sin", [0, inf, -inf], [0, nan, nan]),
    ("cos", [0, inf, -inf], [1, nan, nan]),
    ("tan", [0, inf], [0, nan]),
    ("asin", [2, -2, 0], [nan, nan, 0]),
    ("acos", [2, -2, 1], [nan, nan, 0]),
    ("atan", [inf, -inf], [math.pi / 2, -math.pi / 2]),
    ("sinh", [-1000, inf], [-inf, inf]),
    ("cosh", [-1000, inf], [inf, inf]),
    ("tanh", [-1000, inf], [-1, 1]),
    ("asinh", [-inf, inf], [-inf, inf]),
    ("acosh", [0.5, 1, inf], [nan, 0, inf]),
    ("atanh", [1, -1, 2], [inf, -inf, nan]),
    ("erf", [-inf, inf], [-1, 1]),
    ("erfinv", [-1, 1, 2], [-inf, inf, nan]),
    ("lgamma", [0, -1, 1, inf], [inf, inf, 0, inf]),
]


@pytest.mark.parametrize(("name", "given", "want"), SPECIAL, ids=[row[0] for row in SPECIAL])
@pytest.mark.parametrize("element", ["Float", "Float64"])
def test_special_values(name, given, want, element, tier):
    cls = getattr(dr.llvm, element)
    got = getattr(dr, name)(cls([*map(float, given), nan])).numpy()
    np.testing.assert_allclose(got, [*want, nan], rtol=1e-6)


@pytest.mark.parametrize(("name", "given", "want"), SPECIAL, ids=[row[0] for row in SPECIAL])
def test_special_values_of_numbers(name, given, want):
    function = getattr(dr, name)
    np.testing.assert_allclose([function(x) for x in [*given, nan]], [*want, nan], rtol=1e-15)


def test_numbers_of_any_kind_count_as_floats():
    assert dr.sqrt(True) == 1.0
    assert dr.sqrt(4) == 2.0 and type(dr.sqrt(4)) is float
    assert dr.exp(np.float32(0)) == 1.0
    assert dr.sqrt(10**400) == inf


def test_atan2_knows_all_quadrants_and_signed_zeros(tier):
    y = np.float32([1, 1, -1, -1, 0.0, -0.0, 0.0, -0.0, 2, -2])
    x = np.float32([1, -1, 1, -1, -1, -1, 1, 1, 0, 0])
    got = dr.atan2(dr.llvm.Float(y), dr.llvm.Float(x)).numpy()
    np.testing.assert_allclose(got, np.arctan2(y, x), rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(np.arctan2(y, x)))
    assert dr.atan2(-0.0, -1.0) == -math.pi
    assert dr.atan2(1, 1) == math.pi / 4
    assert type(dr.atan2(1, dr.llvm.Float(1))) is dr.llvm.Float


def test_pairs():
    x = np.float32([-2, 0.5, 3])
    s, c = dr.sincos(dr.llvm.Float(x))
    np.testing.assert_allclose(s.numpy(), np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(c.numpy(), np.cos(x), rtol=1e-6)
    s, c = dr.sincosh(dr.llvm.Float(x))
    np.testing.assert_allclose(s.numpy(), np.sinh(x), rtol=1e-6)
    np.testing.assert_allclose(c.numpy(), np.cosh(x), rtol=1e-6)
    assert dr.sincos(1.0) == (math.sin(1), math.cos(1))


def test_sine_and_cosine_of_one_value_are_one_call():
    x = dr.opaque(dr.llvm.Float, 0.5, 3) + 1
    s, c, other = dr.sin(x), dr.cos(x), dr.cos(x + 1)
    text = dr.kernel_source(c, s, other)
    assert text.count("sincos(") == 1 and text.count(" cos(") == 1 and " sin(" not in text
    assert np.allclose([c.numpy(), s.numpy()], [[math.cos(1.5)] * 3, [math.sin(1.5)] * 3])
    assert np.allclose(other.numpy(), math.cos(2.5))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers_and_other_things_are_refused(name):
    function = getattr(dr, name)
    with pytest.raises(RuntimeError, match=rf"dr\.{name}\(\).*drjit\.llvm\.Int"):
        function(dr.llvm.Int(1))
    for value in ("x", [1.0], None, 1j, {"a": 1}):
        with pytest.raises(
            TypeError, match=rf"dr\.{name}\(\): expected a Dr\.Jit array or a number"
        ):
            function(value)


def test_the_types_of_other_namespaces_are_kept():
    for namespace in ("llvm.ad", "scalar"):
        cls = importlib.import_module(f"drjit.{namespace}").Array3f
        assert type(dr.sin(cls(1, 2, 3))) is cls

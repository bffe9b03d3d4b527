"""Conversions of colours against their definitions in NumPy."""

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    Array3i,
    Array4f64,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    TensorXf16,
    TensorXi,
    ad,
)

VALUES = np.array([0, 1e-3, 0.0031308, 0.004, 0.03, 0.04045, 0.05, 0.2, 0.5, 0.9, 1])
TYPES = [
    (Float16, 2e-3),
    (Float, 2e-6),
    (Float64, 1e-14),
    (ad.Float, 2e-6),
    (scalar.ArrayXf64, 1e-14),
]


def decode(x):
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def encode(x):
    return np.where(x <= 0.0031308, x * 12.92, 1.055 * x ** (1 / 2.4) - 0.055)


@pytest.mark.parametrize(("cls", "tolerance"), TYPES)
def test_transfer_curve(cls, tolerance, tier):
    x = cls(VALUES)
    exact = np.asarray(x.numpy(), np.float64)
    for function, curve in ((dr.srgb_to_linear, decode), (dr.linear_to_srgb, encode)):
        got = function(x)
        assert type(got) is cls
        np.testing.assert_allclose(got.numpy(), curve(exact), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("cls", "tolerance"), TYPES)
def test_transfer_curve_beyond_the_range(cls, tolerance, tier):
    wide = np.concatenate([-3 * VALUES[::-1], 3 * VALUES])
    x = cls(wide)
    exact = np.asarray(x.numpy(), np.float64)
    for function, curve in ((dr.srgb_to_linear, decode), (dr.linear_to_srgb, encode)):
        got = function(x, clip=False).numpy()
        want = np.sign(exact) * curve(abs(exact))
        np.testing.assert_allclose(got, want, rtol=2 * tolerance, atol=tolerance)
        want = curve(np.clip(exact, 0, 1))
        np.testing.assert_allclose(function(x).numpy(), want, rtol=tolerance, atol=tolerance)


def test_transfer_curve_of_other_kinds(tier):
    assert dr.srgb_to_linear(0.5) == pytest.approx(decode(0.5), rel=1e-15)
    assert dr.linear_to_srgb(-0.5, False) == pytest.approx(-encode(0.5), rel=1e-15)
    assert dr.srgb_to_linear(1) == 1
    np.testing.assert_allclose(dr.srgb_to_linear(Int(0, 1)).numpy(), [0, 1])
    t = dr.linear_to_srgb(TensorXf([[0.1, 0.5], [0, 2]]))
    np.testing.assert_allclose(t.numpy(), encode(np.array([[0.1, 0.5], [0, 1]])), rtol=1e-6)
    v = dr.linear_to_srgb(Array3f(0.1, 0.5, 1))
    np.testing.assert_allclose(v.numpy()[:, 0], encode(np.array([0.1, 0.5, 1])), rtol=1e-6)
    assert np.isnan(dr.srgb_to_linear(Float(np.nan)).numpy())
    assert len(dr.srgb_to_linear(Float())) == 0


# ---- Oklab

_XYZ = np.array(
    [
        [0.4123908, 0.3575843, 0.1804808],
        [0.2126390, 0.7151687, 0.0721923],
        [0.0193308, 0.1191948, 0.9505322],
    ]
)  # IEC 61966-2-1
_LMS = np.array(
    [
        [0.8189330101, 0.3618667424, -0.1288597137],
        [0.0329845436, 0.9293118715, 0.0361456387],
        [0.0482003018, 0.2643662691, 0.6338517070],
    ]
)
_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def oklab(rgb):
    """By way of XYZ, as Oklab was defined first; colours along the last axis."""
    return np.cbrt(rgb @ _XYZ.T @ _LMS.T) @ _LAB.T


RGB = np.random.default_rng(0).uniform(0, 1, (7, 3))


@pytest.mark.parametrize("space", ["scalar", "llvm", "llvm.ad"])
@pytest.mark.parametrize(("suffix", "tolerance"), [("f16", 6e-3), ("f", 5e-4), ("f64", 5e-4)])
def test_oklab_agrees_with_its_definition(space, suffix, tolerance, tier):
    module = {"scalar": scalar, "llvm": dr.llvm, "llvm.ad": ad}[space]
    t = getattr(module, "TensorX" + suffix)(RGB)
    lab = dr.linear_srgb_to_oklab(t)
    assert type(lab) is type(t)
    np.testing.assert_allclose(lab.numpy(), oklab(RGB), atol=tolerance)
    back = dr.oklab_to_linear_srgb(lab).numpy()
    np.testing.assert_allclose(back, RGB, atol=tolerance * 4 if suffix == "f16" else 3e-6)


def test_grey_has_no_colour(tier):
    lab = dr.linear_srgb_to_oklab(Array3f(Float(0, 0.2, 1))).numpy()
    np.testing.assert_allclose(lab[0], np.cbrt([0, 0.2, 1]), atol=1e-6)
    np.testing.assert_allclose(lab[1:], 0, atol=1e-6)


def test_alpha_stays(tier):
    rgba = np.concatenate([RGB, np.full((7, 1), 0.25)], 1)
    got = dr.linear_srgb_to_oklab(TensorXf(rgba.reshape(7, 1, 4))).numpy()
    np.testing.assert_allclose(got[:, 0, :3], oklab(RGB), atol=5e-4)
    np.testing.assert_array_equal(got[..., 3], 0.25)
    got = dr.oklab_to_linear_srgb(Array4f64(1, 0, 0, 7)).numpy()[:, 0]
    np.testing.assert_allclose(got, [1, 1, 1, 7], atol=1e-6)
    got = dr.linear_srgb_to_oklab(scalar.Array4f(1, 1, 1, 7))
    np.testing.assert_allclose(list(got), [1, 0, 0, 7], atol=1e-6)


def test_negative_values_keep_their_sign():
    lab = dr.linear_srgb_to_oklab(Array3f(-1, -1, -1)).numpy()[:, 0]
    np.testing.assert_allclose(lab, [-1, 0, 0], atol=1e-6)


def test_no_pixels():
    for shape in ((0, 3), (2, 0, 4)):
        assert dr.linear_srgb_to_oklab(dr.zeros(TensorXf, shape)).shape == shape
    assert dr.oklab_to_linear_srgb(dr.zeros(Array3f, 0)).shape == (3, 0)


@pytest.mark.parametrize("function", [dr.linear_srgb_to_oklab, dr.oklab_to_linear_srgb])
@pytest.mark.parametrize(
    "value",
    [
        0.5,
        [0.1, 0.2, 0.3],
        Float(1, 2, 3),
        Array2f(1),
        Array3i(1),
        TensorXf(1),
        TensorXf([1, 2]),
        TensorXi([1, 2, 3]),
        TensorXf16([[1, 2], [3, 4]]),
    ],
)
def test_wrong_channels_are_refused(function, value):
    with pytest.raises(TypeError, match=function.__name__):
        function(value)


@pytest.mark.parametrize("function", [dr.srgb_to_linear, dr.linear_to_srgb])
def test_text_has_no_colour(function):
    with pytest.raises(TypeError, match="expected a number or an array"):
        function("x")

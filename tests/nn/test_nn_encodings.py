"""Encodings: values, the order of features, precision, and gradients, for tensors and cooperative
vectors.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.nn as nn
from drjit.llvm.ad import Array2f, Float, TensorXf, TensorXf16, TensorXf64, TensorXi


def triangle(p: np.ndarray) -> np.ndarray:
    """The triangle wave that goes along with the cosine."""
    return 1 - 4 * np.abs(p - np.round(p))


def model(kind: type, x: np.ndarray, octaves: int, shift: float) -> np.ndarray:
    """The features in double precision: by coordinate, octave, sine and cosine."""
    rows = []
    for coordinate in x:
        for o in range(octaves):
            phase = 2.0**o * coordinate + o * shift
            if kind is nn.TriEncode:
                rows += [triangle(phase - 0.25), triangle(phase)]
            else:
                rows += [np.sin(2 * np.pi * phase), np.cos(2 * np.pi * phase)]
    return np.stack(rows)


def encode(layer: Any, x: np.ndarray, dtype: Any, mode: str) -> np.ndarray:
    """The features as a NumPy array."""
    given = dtype(x)
    if mode == "tensor":
        y = layer(given)
        assert type(y) is dtype
        return y.numpy()
    vector = layer(nn.CoopVec(*[row.array for row in given]))
    assert vector.type is type(given.array)
    features = list(vector)
    dr.eval(features)
    return np.stack([feature.numpy() for feature in features])


@pytest.fixture(params=("tensor", "vector"))
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
@pytest.mark.parametrize(
    ("channels", "octaves", "shift"), [(1, 1, 0), (2, 3, 0.2), (3, 2, -0.7), (1, 5, 1.3)]
)
@pytest.mark.compiled_every(3)
def test_encodings(kind: Any, channels: int, octaves: int, shift: float, mode: str, tier: str):
    layer = kind(octaves, shift).alloc(TensorXf, channels)
    for n in (1, 17):
        x = np.random.default_rng(n).uniform(-2, 2, (channels, n))
        expected = model(kind, x, octaves, shift)
        assert expected.shape == (2 * channels * octaves, n)
        np.testing.assert_allclose(encode(layer, x, TensorXf64, mode), expected, atol=1e-12)
        x = x.astype(np.float32)
        expected = model(kind, x.astype(float), octaves, shift)
        np.testing.assert_allclose(encode(layer, x, TensorXf, mode), expected, atol=4e-5)


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
def test_layers_that_were_not_allocated_take_any_number_of_coordinates(kind: Any, mode: str):
    for channels in (1, 3):
        x = np.random.default_rng(0).random((channels, 5))
        np.testing.assert_allclose(
            encode(kind(2), x, TensorXf64, mode), model(kind, x, 2, 0), atol=1e-12
        )


def test_triangle_waves_are_those_of_the_reference(mode: str, tier: str):
    # As the reference computes them: the phase is rounded, then the quarter is subtracted.
    x = np.random.default_rng(0).random((1, 50)).astype(np.float32)
    octaves, shift = 16, 0.2
    found = encode(nn.TriEncode(octaves, shift), x, TensorXf, mode)
    for o in range(octaves):
        phase = x[0] * np.float32(2**o) + np.float32(o * shift)
        np.testing.assert_array_equal(found[2 * o], triangle(phase - np.float32(0.25)))
        np.testing.assert_array_equal(found[2 * o + 1], triangle(phase))


def test_high_octaves_of_sines_are_exact(mode: str, tier: str):
    x = np.random.default_rng(0).uniform(-1, 1, (2, 50)).astype(np.float32)
    for shift in (0, 0.3):
        found = encode(nn.SinEncode(16, shift), x, TensorXf, mode)
        expected = model(nn.SinEncode, x.astype(float), 16, shift)
        np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
def test_half_precision_has_phases_of_single_precision(kind: Any, mode: str, tier: str):
    x = np.random.default_rng(0).random((2, 17)).astype(np.float16)
    found = encode(kind(17, 0.2), x, TensorXf16, mode)
    expected = model(kind, x.astype(float), 17, 0.2)
    np.testing.assert_allclose(found, expected, atol=1e-2 if kind is nn.TriEncode else 1e-3)


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
@pytest.mark.compiled_every(3)
def test_gradients(kind: Any, mode: str, tier: str):
    points = np.random.default_rng(3).uniform(-1, 1, (2, 17))
    octaves, shift, h = 3, 0.2, 1e-7
    slopes = (model(kind, points + h, octaves, shift) - model(kind, points - h, octaves, shift)) / (
        2 * h
    )
    weights = np.arange(1.0, 2 * 2 * octaves + 1)[:, None]
    layer = kind(octaves, shift)
    x = TensorXf64(points)
    dr.enable_grad(x)
    y = layer(x) if mode == "tensor" else TensorXf64(layer(nn.CoopVec(x[0].array, x[1].array)))
    dr.backward(y * TensorXf64(weights))
    expected = (slopes * weights).reshape(2, 2 * octaves, -1).sum(1)
    np.testing.assert_allclose(dr.grad(x).numpy(), expected, rtol=1e-5)
    x = TensorXf64(points)
    dr.enable_grad(x)
    y = layer(x) if mode == "tensor" else TensorXf64(layer(nn.CoopVec(x[0].array, x[1].array)))
    dr.forward(x)
    np.testing.assert_allclose(dr.grad(y).numpy(), slopes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
def test_sizes_of_layers_after_encodings(kind: Any):
    net = nn.Sequential(kind(4), nn.Linear(-1, -1)).alloc(TensorXf, 3)
    assert net.layers[0].channels == 3
    assert net["layers.1.weights"].shape == (24, 24)
    text = f"{kind.__name__}(octaves=4, shift=0, in_channels=3, out_features=24)"
    assert repr(net.layers[0]) == text
    assert list(net.layers[0]) == []


@pytest.mark.parametrize("kind", [nn.TriEncode, nn.SinEncode])
def test_an_encoding_is_a_few_operations_on_vectors(kind: Any):
    found = []
    for octaves in (2, 16):
        x = nn.CoopVec(dr.arange(Float, 7), dr.arange(Float, 7))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            dr.eval(list(kind(octaves, 0.2)(x)))
            (kernel,) = dr.kernel_history()
        lines = kernel["source"].splitlines()
        found.append([line for line in lines if not re.search("feature|store|literal", line)])
    assert len(found[0]) == len(found[1]) < 24


T = nn.TriEncode
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: T(-1), ValueError, r"TriEncode\(\): octaves must be an int >= 0, got -1"),
    (lambda: T(2.5), ValueError, "octaves must be an int >= 0, got 2.5"),
    (lambda: nn.SinEncode(2, "a"), TypeError, r"SinEncode\(\): shift must be a number, got str"),
    (lambda: nn.SinEncode(2, Float(1)), TypeError, "shift must be a number, got drjit"),
    (lambda: T(0)(TensorXf([[1]])), ValueError, "no octaves has no features"),
    (
        lambda: T(2).alloc(TensorXf, 3)(TensorXf([[1], [2]])),
        ValueError,
        r"TriEncode\(.*in_channels=3.*\): expected 3 coordinates, got 2",
    ),
    (lambda: T(2).alloc(TensorXf, 3)(nn.CoopVec(Float(1))), ValueError, "expected 3 .* got 1"),
    (lambda: T(2)(TensorXf([1, 2])), ValueError, r"of shape \(coordinates, N\), got \(2,\)"),
    (lambda: T(2)(TensorXi([[1, 2]])), TypeError, "got drjit.llvm.ad.TensorXi"),
    (lambda: T(2)(Array2f(1, 2)), TypeError, "cooperative vector, got drjit.llvm.ad.Array2f"),
    (lambda: T(2)(3), TypeError, "cooperative vector, got int"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call: Callable[[], Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        call()

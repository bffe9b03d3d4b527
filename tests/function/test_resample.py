"""Resampling and convolution against their definitions, NumPy and scipy.ndimage."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import drjit as dr
from drjit import scalar
from drjit.detail import Resampler
from drjit.function.signal import resampler
from drjit.llvm import (
    Array3f,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    TensorXf16,
    TensorXf64,
    TensorXi,
    ad,
)

BOUNDARIES = {
    "zero": "constant",
    "nearest": "nearest",
    "wrap": "wrap",
    "reflect": "reflect",
    "mirror": "mirror",
}
FILTERS = {
    "box": (0.5, lambda x: 1.0 if -0.5 < x <= 0.5 else 0.0),
    "linear": (1, lambda x: max(0.0, 1 - abs(x))),
    "hamming": (
        1,
        lambda x: np.sinc(x) * (0.54 + 0.46 * math.cos(math.pi * x)) if abs(x) < 1 else 0,
    ),
    "cubic": (2, lambda x: _keys(abs(x))),
    "lanczos": (3, lambda x: np.sinc(x) * np.sinc(x / 3) if abs(x) < 3 else 0),
    "gaussian": (2, lambda x: max(0.0, math.exp(-2 * x * x) - math.exp(-8))),
}
SIGNAL = np.array([1, 4, 2, 8, 5, 7, -3], np.float64)


def _keys(x):
    if x < 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0


def extended(values, i, boundary):
    """Entry i of a signal that the boundary mode extends, and whether it counts."""
    n = len(values)
    padded = {"nearest": "edge", "wrap": "wrap", "reflect": "symmetric", "mirror": "reflect"}
    if 0 <= i < n:
        return values[i], True
    if boundary == "zero":
        return 0.0, False
    if n == 1:
        return values[0], True
    return np.pad(values, (60, 60), padded[boundary])[i + 60], True


def resampled(values, m, name, boundary):
    """The definition: normalised weights of the samples in reach of each result."""
    n = len(values)
    radius, f = FILTERS[name]
    scale = max(n / m, 1)
    out = []
    for t in range(m):
        centre = (t + 0.5) * n / m
        total = weights = 0.0
        for i in range(
            math.floor(centre - radius * scale) - 1, math.ceil(centre + radius * scale) + 2
        ):
            value, counts = extended(values, i, boundary)
            weight = f((i + 0.5 - centre) / scale) * counts
            total, weights = total + weight * value, weights + weight
        out.append(total / weights)
    return np.array(out)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("m", [3, 5, 14, 10, 1])
def test_presets_agree_with_their_definition(name, m, tier):
    got = dr.resample(Float64(SIGNAL), (m,), name)
    np.testing.assert_allclose(got.numpy(), resampled(SIGNAL, m, name, "zero"), rtol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("n", "m"), [(7, 3), (7, 11), (2, 9), (1, 4), (3, 2)])
@pytest.mark.compiled_every(4)
def test_boundaries_of_resampling(boundary, n, m, tier):
    values = SIGNAL[:n]
    want = resampled(values, m, "lanczos", boundary)
    got = dr.resample(Float64(values), (m,), "lanczos", boundary=boundary)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12)
    got = dr.resample(scalar.ArrayXf64(values), (m,), "lanczos", boundary=boundary)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12)


TENSOR = np.random.default_rng(0).uniform(-1, 1, (4, 3, 5))


@pytest.mark.parametrize("space", ["scalar", "llvm", "llvm.ad"])
@pytest.mark.parametrize(("suffix", "tolerance"), [("f16", 5e-3), ("f", 1e-5), ("f64", 1e-12)])
@pytest.mark.parametrize("shape", [(4, 3, 5), (8, 3, 5), (4, 2, 5), (4, 3, 9), (3, 7, 2)])
@pytest.mark.compiled_every(4)
def test_axes_of_tensors(space, suffix, tolerance, shape, tier):
    module = {"scalar": scalar, "llvm": dr.llvm, "llvm.ad": ad}[space]
    cls = getattr(module, "TensorX" + suffix)
    want = TENSOR
    for axis, m in enumerate(shape):
        if m != want.shape[axis]:
            want = np.apply_along_axis(resampled, axis, want, m, "cubic", "zero")
    for mode in (None, "evaluated", "symbolic"):
        got = dr.resample(cls(TENSOR), shape, mode=mode)
        assert type(got) is cls
        np.testing.assert_allclose(got.numpy(), want, atol=tolerance)


def test_symbolic_results_are_not_evaluated():
    x = Float(1, 2, 3)
    assert dr.resample(x, (6,), mode="symbolic").state == dr.VarState.Unevaluated
    assert dr.resample(x, (6,)).state == dr.VarState.Evaluated
    assert dr.convolve(x, [1, 2], mode="symbolic").state == dr.VarState.Unevaluated
    assert dr.convolve(x, [1, 2]).state == dr.VarState.Evaluated


def test_a_function_as_filter(tier):
    tent = lambda x: max(0, 1 - abs(x))  # noqa: E731
    for m in (4, 12):
        got = dr.resample(Float64(SIGNAL), (m,), tent, 1)
        np.testing.assert_allclose(got.numpy(), resampled(SIGNAL, m, "linear", "zero"), rtol=1e-12)


def test_the_same_shape_keeps_the_values():
    x = Float(1, 2, 3)
    np.testing.assert_array_equal(dr.resample(x, (3,), "gaussian").numpy(), [1, 2, 3])


# ---- Convolution


@pytest.mark.parametrize("kernel", [[1, 2, 3], [1, 2, 3, 4], [5], [1, 0, -1], [0.5] * 7])
def test_convolution_agrees_with_numpy(kernel, tier):
    got = dr.convolve(Float64(SIGNAL), kernel)
    np.testing.assert_allclose(
        got.numpy(), np.convolve(SIGNAL, kernel, "same"), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("taps", [1, 3, 5, 13])
def test_boundaries_agree_with_scipy(boundary, taps, tier):
    kernel = np.random.default_rng(taps).uniform(-1, 1, taps)
    want = ndimage.convolve1d(SIGNAL, kernel, mode=BOUNDARIES[boundary])
    for cls in (Float64, scalar.ArrayXf64, ad.Float64):
        got = dr.convolve(cls(SIGNAL), kernel.tolist(), boundary=boundary)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), ()])
@pytest.mark.parametrize("boundary", ["zero", "mirror"])
def test_axes_of_convolutions(axis, boundary, tier):
    want = TENSOR
    axes = range(3) if axis is None else (axis,) if isinstance(axis, int) else axis
    for a in axes:
        want = ndimage.convolve1d(want, [1, 2, 4], a, mode=BOUNDARIES[boundary])
    for cls, tolerance in ((TensorXf64, 1e-12), (TensorXf, 1e-5), (TensorXf16, 0.1)):
        got = dr.convolve(cls(TENSOR), [1, 2, 4], axis=axis, boundary=boundary)
        assert type(got) is cls
        np.testing.assert_allclose(got.numpy(), want, atol=tolerance)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_normalised_weights_keep_constants(boundary, tier):
    for cls in (Float, scalar.ArrayXf):
        x = cls([3.0] * 9)
        got = dr.convolve(x, [1, 2, 3, 7], boundary=boundary, normalize=True)
        np.testing.assert_allclose(got.numpy(), 3, rtol=1e-6)
        got = dr.convolve(x, "gaussian", 3, boundary=boundary, normalize=True)
        np.testing.assert_allclose(got.numpy(), 3, rtol=1e-6)


@pytest.mark.parametrize("radius", [0.5, 1, 2, 4.5])
@pytest.mark.parametrize("name", FILTERS)
def test_presets_as_kernels(name, radius):
    delta = np.zeros(41)
    delta[20] = 1
    reach, f = FILTERS[name]
    want = [f(-(i - 20) / radius) if abs(i - 20) <= reach * radius else 0 for i in range(41)]
    got = dr.convolve(Float64(delta), name, radius)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-14)


def test_a_function_as_kernel_is_not_reversed():
    got = dr.convolve(Float(0, 0, 1, 0, 0), lambda x: x + 10, 1)
    np.testing.assert_allclose(got.numpy(), [0, 9, 10, 11, 0])
    got = dr.convolve(Float(1, 2), lambda x: 3.0, 0)
    np.testing.assert_allclose(got.numpy(), [3, 6])


def test_many_taps(tier):
    x = np.random.default_rng(1).normal(size=300)
    kernel = np.random.default_rng(2).normal(size=151)
    want = np.convolve(x, kernel, "same")
    for mode in ("evaluated", "symbolic"):
        got = dr.convolve(Float64(x), kernel.tolist(), mode=mode)
        np.testing.assert_allclose(got.numpy(), want, atol=1e-11)


def test_half_precision_accumulates_in_single(tier):
    got = dr.convolve(Float16([0.1] * 64), [1.0] * 33)
    exact = float(np.float16(0.1))
    assert float(got.numpy()[32]) == pytest.approx(33 * exact, rel=1e-3)


@given(
    values=st.lists(st.floats(-10, 10), min_size=1, max_size=9),
    kernel=st.lists(st.floats(-10, 10), min_size=1, max_size=7),
    boundary=st.sampled_from(list(BOUNDARIES)),
)
def test_any_convolution_is_that_of_scipy(values, kernel, boundary):
    origin, signal = (len(kernel) - 1) // 2, np.array(values)
    want = [
        sum(w * extended(signal, t + origin - k, boundary)[0] for k, w in enumerate(kernel))
        for t in range(len(values))
    ]
    got = dr.convolve(scalar.ArrayXf64(values), kernel, boundary=boundary)
    np.testing.assert_allclose(got.numpy(), want, atol=1e-9)


# ---- Resampler


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.compiled_every(3)
def test_the_backward_pass_is_the_transpose(boundary, flip, tier):
    for r in (
        Resampler(6, [1, 2, 5], 0, boundary, normalize=True, flip=flip),
        Resampler(6, 4, "cubic", boundary=boundary),
        Resampler(3, 8, "lanczos", boundary=boundary, normalize=False),
    ):
        x = np.random.default_rng(3).normal(size=(2, r.source_res, 3))
        y = np.random.default_rng(4).normal(size=(2, r.target_res, 3))
        for cls in (Float64, scalar.ArrayXf64):
            forward = r.resample_fwd(cls(x.ravel()), 3).numpy()
            backward = r.resample_bwd(cls(y.ravel()), 3).numpy()
            assert forward @ y.ravel() == pytest.approx(backward @ x.ravel(), rel=1e-10)


def test_origin_and_flip():
    delta = scalar.ArrayXf(0, 0, 1, 0, 0)
    for origin, flip, want in [
        (0, True, [0, 0, 1, 2, 3]),
        (2, True, [1, 2, 3, 0, 0]),
        (0, False, [3, 2, 1, 0, 0]),
        (2, False, [0, 0, 3, 2, 1]),
    ]:
        r = Resampler(5, [1, 2, 3], origin, normalize=False, flip=flip)
        assert list(r.resample_fwd(delta, 1)) == want


def test_resampler_shows_its_sizes():
    r = Resampler(4, 8, "cubic")
    assert (r.source_res, r.target_res) == (4, 8)
    assert repr(r) == "Resampler[source_res=4, target_res=8, taps=4]"


# ---- Upsampling


@pytest.mark.parametrize("cls", [TensorXf, TensorXi, scalar.TensorXf, ad.TensorXf16])
def test_upsampling_repeats(cls, tier):
    values = np.arange(12).reshape(3, 2, 2)
    want = values.repeat(2, 0).repeat(3, 2)
    np.testing.assert_array_equal(dr.upsample(cls(values), (6, 2, 6)).numpy(), want)
    np.testing.assert_array_equal(dr.upsample(cls(values), scale_factor=[2, 1, 3]).numpy(), want)
    got = dr.upsample(cls(values), [6])
    np.testing.assert_array_equal(got.numpy(), values.repeat(2, 0))
    np.testing.assert_array_equal(dr.upsample(cls(values), ()).numpy(), values)


@pytest.mark.parametrize("module", [dr.llvm, scalar])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_upsampling_textures_filters(module, channels, tier):
    values = np.random.default_rng(5).uniform(size=(3, 4, channels))
    texture = module.Texture2f(module.TensorXf(values), wrap_mode=dr.WrapMode.Clamp)
    got = dr.upsample(texture, (5, 8))
    assert (type(got), got.shape, got.wrap_mode()) == (
        type(texture),
        (5, 8, channels),
        dr.WrapMode.Clamp,
    )
    where = [(np.arange(m) + 0.5) * n / m - 0.5 for m, n in ((5, 3), (8, 4))]
    where = np.meshgrid(*where, indexing="ij")
    for c in range(channels):
        want = ndimage.map_coordinates(values[..., c], where, order=1, mode="nearest")
        np.testing.assert_allclose(got.tensor().numpy()[..., c], want, atol=1e-5)
    assert dr.upsample(texture, scale_factor=[2, 1]).shape == (6, 4, channels)


def test_upsampling_nothing():
    assert dr.upsample(dr.zeros(TensorXf, (0, 2)), (0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"shape": 4},
        {"shape": (3, 3)},
        {"shape": (1, 3)},
        {"shape": (2, 3, 4)},
        {"shape": (2.5, 3)},
        {"scale_factor": 2},
        {"scale_factor": (0, 1)},
        {"scale_factor": (1.5, 1)},
        {"shape": (4, 3), "scale_factor": (2, 1)},
    ],
)
def test_upsampling_checks_its_arguments(arguments):
    with pytest.raises(TypeError, match=r"dr\.upsample\(\)"):
        dr.upsample(TensorXf([[1, 2, 3], [4, 5, 6]]), **arguments)


@pytest.mark.parametrize("value", [Float(1, 2), [1, 2], 3])
def test_only_tensors_are_upsampled(value):
    with pytest.raises(TypeError, match="expected a tensor"):
        dr.upsample(value, (4,))


# ---- Bad input

X = Float(1, 2, 3)
EMPTY = dr.zeros(TensorXf, (0, 3))


@pytest.mark.parametrize(
    ("error", "call", "message"),
    [
        (TypeError, lambda: dr.resample([1, 2], (4,)), "expected a floating-point tensor"),
        (TypeError, lambda: dr.resample(Int(1, 2), (4,)), "expected a floating-point tensor"),
        (TypeError, lambda: dr.resample(Array3f(1), (3, 2)), "expected a floating-point tensor"),
        (TypeError, lambda: dr.resample(X, 4), "'shape' must be a sequence"),
        (TypeError, lambda: dr.resample(X, (2.5,)), "'shape' must be"),
        (TypeError, lambda: dr.resample(X, (-1,)), "'shape' must not be negative"),
        (RuntimeError, lambda: dr.resample(X, (2, 2)), "same number of axes"),
        (RuntimeError, lambda: dr.resample(X, ()), "same number of axes"),
        (RuntimeError, lambda: dr.resample(X, (0,)), "must not be zero"),
        (RuntimeError, lambda: dr.resample(Float(), (3,)), "must not be zero"),
        (RuntimeError, lambda: dr.resample(EMPTY, (2, 3)), "must not be zero"),
        (RuntimeError, lambda: dr.resample(X, (5,), "foo"), "unknown filter 'foo'"),
        (RuntimeError, lambda: dr.resample(X, (3,), "foo"), "unknown filter 'foo'"),
        (RuntimeError, lambda: dr.resample(X, (5,), "box", 2), "'filter_radius' must be None"),
        (RuntimeError, lambda: dr.resample(X, (5,), abs, -1), "must be positive"),
        (RuntimeError, lambda: dr.resample(X, (5,), abs, math.nan), "must be positive"),
        (RuntimeError, lambda: dr.resample(X, (5,), abs, 0), "too narrow"),
        (RuntimeError, lambda: dr.resample(X, (5,), lambda x: 0.0, 1), "sum up to zero"),
        (TypeError, lambda: dr.resample(X, (5,), abs), "must be specified"),
        (TypeError, lambda: dr.resample(X, (5,), [1, 2]), "must be a preset's name or a function"),
        (TypeError, lambda: dr.resample(X, (5,), None), "must be a preset's name or a function"),
        (RuntimeError, lambda: dr.resample(X, (5,), boundary="foo"), "invalid boundary mode 'foo'"),
        (RuntimeError, lambda: dr.resample(X, (5,), mode="foo"), "'mode' must be"),
        (TypeError, lambda: dr.convolve([1, 2], [1]), "expected a floating-point tensor"),
        (TypeError, lambda: dr.convolve(Int(1), [1]), "expected a floating-point tensor"),
        (TypeError, lambda: dr.convolve(X, 5), "sequence of numbers"),
        (TypeError, lambda: dr.convolve(X, None), "sequence of numbers"),
        (TypeError, lambda: dr.convolve(X, ["a"]), "sequence of numbers"),
        (RuntimeError, lambda: dr.convolve(X, []), "kernel is empty"),
        (RuntimeError, lambda: dr.convolve(X, [1, 2], 2), "'filter_radius' must be None"),
        (RuntimeError, lambda: dr.convolve(X, abs), "must be specified"),
        (RuntimeError, lambda: dr.convolve(X, "box", 0), "must be positive"),
        (RuntimeError, lambda: dr.convolve(X, "foo"), "unknown filter 'foo'"),
        (RuntimeError, lambda: dr.convolve(X, [1, -1, 0], normalize=True), "sum up to zero"),
        (RuntimeError, lambda: dr.convolve(X, [1], boundary="foo"), "invalid boundary mode"),
        (RuntimeError, lambda: dr.convolve(X, [1], mode="foo"), "'mode' must be"),
        (RuntimeError, lambda: dr.convolve(X, [1], axis=1), "out-of-bounds axis"),
        (RuntimeError, lambda: dr.convolve(X, [1], axis=-2), "out-of-bounds axis"),
        (RuntimeError, lambda: dr.convolve(X, [1], axis="x"), "'axis' must be"),
        (RuntimeError, lambda: dr.convolve(Float(), [1]), "must not be zero"),
        (RuntimeError, lambda: dr.convolve(EMPTY, [1]), "must not be zero"),
        (TypeError, lambda: Resampler("x", 3, "box"), "must be integers"),
        (TypeError, lambda: Resampler(-3, 3, "box"), "must not be negative"),
        (RuntimeError, lambda: Resampler(3, 0, "box"), "must not be zero"),
        (RuntimeError, lambda: Resampler(3, 4, "box", convolve=True), "keeps the resolution"),
        (RuntimeError, lambda: Resampler(3, [1, 2], 2), "'origin' must be"),
        (RuntimeError, lambda: Resampler(3, 3, "box").resample_fwd(Float(1, 2), 1), "blocks"),
        (RuntimeError, lambda: Resampler(3, 3, "box").resample_fwd(X, 0), "blocks"),
        (RuntimeError, lambda: Resampler(3, 3, "box").resample_bwd(X, 2), "blocks"),
        (TypeError, lambda: Resampler(3, 3, "box").resample_fwd(Int(1, 2, 3), 1), "floating-point"),
    ],
)
def test_wrong_arguments_are_refused(error, call, message):
    with pytest.raises(error, match=message):
        call()


def test_empty_axes_beside_those_that_change():
    assert dr.resample(EMPTY, (0, 6)).shape == (0, 6)
    assert dr.resample(EMPTY, (0, 3)).shape == (0, 3)
    assert dr.convolve(EMPTY, [1, 2], axis=1).shape == (0, 3)
    np.testing.assert_array_equal(dr.convolve(TensorXf(3), [1, 2]).numpy(), 3)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("shape", [(700,), (90, 3), (90, 4), (2, 90, 8), (1, 90, 20)])
@pytest.mark.every(2)
@pytest.mark.compiled_every(4)
def test_loops_over_taps(shape, boundary, tier):
    """Loops of a kernel, by single entries, by records, and with several lanes for a result."""
    rng = np.random.default_rng(len(shape))
    values = rng.normal(size=shape)
    axis = int(np.argmax(shape))
    target = [3 if k == axis else n for k, n in enumerate(shape)]
    options = {"filter": "lanczos", "boundary": boundary}
    want = dr.resample(scalar.TensorXf64(values), target, **options).numpy()
    for mode in (None, "symbolic"):
        got = dr.resample(TensorXf64(values), target, mode=mode, **options).numpy()
        np.testing.assert_allclose(got, want, atol=1e-12)
        half = dr.resample(TensorXf16(values), target, mode=mode, **options).numpy()
        np.testing.assert_allclose(half, want, atol=4e-3)
    kernel = rng.normal(size=41)
    want = dr.convolve(scalar.TensorXf64(values), kernel, axis=axis, boundary=boundary).numpy()
    got = dr.convolve(TensorXf64(values), kernel, axis=axis, boundary=boundary).numpy()
    np.testing.assert_allclose(got, want, atol=1e-11)


def test_derivatives_with_many_taps(tier):
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(90, 4)), rng.normal(size=(5, 4))  # 72 taps
    x = ad.TensorXf64(values)
    dr.enable_grad(x)
    y = dr.resample(x, (5, 4), "gaussian")
    dr.backward(y * ad.TensorXf64(weights))
    dr.eval(y, x.grad)
    np.testing.assert_allclose(
        y.numpy(), dr.resample(scalar.TensorXf64(values), (5, 4), "gaussian")
    )
    back = Resampler(90, 5, "gaussian").resample_bwd(scalar.ArrayXf64(weights.ravel()), 4)
    np.testing.assert_allclose(x.grad.numpy().ravel(), back.numpy(), atol=1e-12)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("filter", FILTERS)
def test_few_weights_are_those_that_numpy_computes(filter, boundary, monkeypatch):
    for n, m in (32, 8), (7, 5), (5, 7), (1, 9), (1000, 3):
        few, index = Resampler(n, m, filter, None, False, boundary)._rows()
        with monkeypatch.context() as patch:
            patch.setattr(resampler, "_FEW", 0)
            many, same = Resampler(n, m, filter, None, False, boundary)._rows()
        assert (index == same).all()
        # NumPy has an exponential of its own.
        np.testing.assert_allclose(few, many, 1e-15, 1e-18)


def test_tables_are_made_once():
    made = Resampler(100, 7, "linear")
    made.resample_fwd(Float(np.ones(100)), 1)
    tables = dict(made._tables)
    made.resample_fwd(Float(np.zeros(200)), 2)
    assert all(made._tables[key] is table for key, table in tables.items())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: dr.resample(x, (3,), "box", 2), "dr.resample"),
        (lambda x: dr.resample(x, (3,), "nothing"), "dr.resample"),
        (lambda x: dr.convolve(x, "nothing"), "dr.convolve"),
        (lambda x: dr.convolve(x, "box", -1), "dr.convolve"),
    ],
)
def test_errors_name_the_function_that_was_called(call, name):
    with pytest.raises(RuntimeError, match=rf"^{name}\(\): "):
        call(Float(1, 2))


def test_errors_of_a_filter_pass_as_they_are():
    class Problem(RuntimeError):
        def __init__(self, a, b):
            super().__init__(a, b)

    def broken(x):
        raise Problem(1, 2)

    with pytest.raises(Problem):
        dr.resample(Float(1, 2), (3,), broken, 1)

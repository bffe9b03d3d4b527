"""Textures: look-ups against NumPy and SciPy, contents, modes, element types, and bad input."""

import itertools
import math

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array1f,
    Array1f16,
    Array1f64,
    Array1u,
    Array2f,
    Array2f64,
    Array2i,
    Array2u,
    Array3f,
    Bool,
    Float,
    Float16,
    Float64,
    TensorXf,
    TensorXf64,
    TensorXu8,
    Texture1f,
    Texture1f8u,
    Texture1f16,
    Texture1f64,
    Texture2f,
    Texture2f64,
    UInt,
    UInt8,
    ad,
)

MODES = {
    dr.WrapMode.Clamp: lambda i, n: np.clip(i, 0, n - 1),
    dr.WrapMode.Repeat: lambda i, n: i % n,
    dr.WrapMode.Mirror: lambda i, n: np.minimum(i % (2 * n), 2 * n - 1 - i % (2 * n)),
}
SHAPES = [(7,), (3, 5), (4, 3, 5)]
random = np.random.default_rng(7)


def spline(t, order=0):
    """Weights of the uniform cubic B-spline, and their derivatives, as polynomials."""
    pieces = np.array([[-1, 3, -3, 1], [3, -6, 0, 4], [-3, 3, 3, 1], [1, 0, 0, 0]]) / 6
    return [np.polyval(np.polyder(p, order) if order else p, t) for p in pieces]


def plain_lookup(data, pos, mode, kind, orders=None):
    """The value of all channels at positions (x, y, z), by the definition."""
    dims = data.ndim - 1
    sizes = data.shape[dims - 1 :: -1]
    taps = []
    for axis in range(dims):
        scaled = pos[axis] * sizes[axis] - (0 if kind == "nearest" else 0.5)
        base = np.floor(scaled).astype(int)
        t = scaled - base
        if kind == "nearest":
            taps.append([(base, np.ones_like(t))])
        elif kind == "linear":
            taps.append([(base, 1 - t), (base + 1, t)])
        else:
            order = orders[axis] if orders else 0
            weights = [w * sizes[axis] ** order for w in spline(t, order)]
            taps.append([(base - 1 + j, w) for j, w in enumerate(weights)])
    total = 0
    for chosen in itertools.product(*taps):
        index = tuple(MODES[mode](i, sizes[a]) for a, (i, _) in enumerate(chosen))
        weight = np.prod([w for _, w in chosen], axis=0)
        total = total + weight[:, None] * data[index[::-1]]
    return total.T


def example(shape, channels, suffix="f", mode=dr.WrapMode.Clamp, **more):
    """A texture of random texels with its contents, and positions within and around it."""
    dims = len(shape)
    kind = getattr(llvm, f"Texture{dims}{suffix}")
    data = random.uniform(-1, 1, (*shape, channels))
    tensor = TensorXf64(data) if suffix == "f64" else TensorXf(data)
    texture = kind(tensor, wrap_mode=mode, **more)
    pos = random.uniform(-1.6, 2.6, (dims, 200))
    at = getattr(llvm, f"Array{dims}f64")(*[Float64(p) for p in pos])
    return texture, tensor.numpy().astype(np.float64), pos, at


def close(found, expected, tolerance=1e-9):
    dr.eval(found)  # in one kernel
    found = np.array([np.array(c) for c in found])
    assert found.shape == np.shape(expected)
    assert np.allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels", [1, 3, 4, 6])
@pytest.mark.compiled_every(5)
def test_linear(tier, shape, channels, mode):
    texture, data, pos, at = example(shape, channels, "f64", mode)
    found = texture.eval(at)
    kind = f"Array{channels}f64" if channels <= 4 else "ArrayXf64"
    assert type(found) is getattr(llvm, kind)
    close(found, plain_lookup(data, pos, mode, "linear"))


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("shape", SHAPES)
def test_nearest(tier, shape, mode):
    texture, data, pos, at = example(shape, 2, "f64", mode, filter_mode=dr.FilterMode.Nearest)
    close(texture.eval(at), plain_lookup(data, pos, mode, "nearest"))


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("shape", SHAPES)
def test_cubic(tier, shape, mode):
    texture, data, pos, at = example(shape, 2, "f64", mode)
    expected = plain_lookup(data, pos, mode, "cubic")
    found = texture.eval_cubic(at), texture.eval_cubic_helper(at)
    dr.eval(found)
    for values in found:
        close(values, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_cubic_derivatives(tier, shape):
    mode, dims = dr.WrapMode.Mirror, len(shape)
    texture, data, pos, at = example(shape, 2, "f64", mode)

    def expected(*axes):
        orders = [axes.count(a) for a in range(dims)]
        return plain_lookup(data, pos, mode, "cubic", orders)

    value, gradient = texture.eval_cubic_grad(at)
    same, again, hessian = texture.eval_cubic_hessian(at)
    dr.eval(value, gradient, same, again, hessian)  # one kernel, which computes weights once
    close(value, expected())
    close(same, expected())
    for c in range(2):
        close(gradient[c], [expected(a)[c] for a in range(dims)])
        close(again[c], [expected(a)[c] for a in range(dims)])
        for a, b in itertools.product(range(dims), repeat=2):
            entry = hessian[c][a, b] if dims > 1 else hessian[c][0]
            assert np.allclose(entry.numpy(), expected(a, b)[c], atol=1e-8)


def test_cubic_is_the_spline_of_scipy(tier):
    interpolate = pytest.importorskip("scipy.interpolate")
    data = random.uniform(-1, 1, 12)
    texture = Texture1f64(TensorXf64(data[:, None]))
    x = np.linspace(0.2, 0.8, 50)
    # A spline with unit knots, whose coefficient i is centred at i + 0.5.
    reference = interpolate.BSpline(np.arange(-1.5, 14.5), data, 3)
    value, gradient, hessian = texture.eval_cubic_hessian(Float64(x))
    close(value, [reference(x * 12)])
    close(gradient[0], [reference.derivative(1)(x * 12) * 12])
    close(hessian[0], [reference.derivative(2)(x * 12) * 144], 1e-8)


@pytest.mark.parametrize("filter_mode", list(dr.FilterMode))
def test_fetch_gives_the_corners(tier, filter_mode):
    data = np.arange(24.0).reshape(3, 4, 2)
    texture = Texture2f(TensorXf(data), filter_mode=filter_mode)
    corners = texture.eval_fetch(Array2f(Float(0, 0.3), Float(0.2, 0.5)))
    assert [type(c) for c in corners] == [Array2f] * 4
    expected = [[(0, 0), (0, 0), (1, 0), (1, 0)], [(1, 0), (1, 1), (2, 0), (2, 1)]]
    for lane in range(2):
        for corner, place in zip(corners, expected[lane], strict=True):
            if lane == 1:
                assert corner.numpy()[:, 1].tolist() == data[place].tolist()
            else:
                assert corner.numpy()[:, 0].tolist() == data[place].tolist()
    assert len(llvm.Texture3f((2, 2, 2), 1).eval_fetch(Array3f(0.5, 0.5, 0.5))) == 8


def test_masks(tier):
    texture = Texture1f(TensorXf([[1, 2], [3, 4]]))
    at, mask = Float(0.25, 0.75), Bool(True, False)
    close(texture.eval(at, mask), [[1, 0], [2, 0]])
    close(texture.eval(at, False), [[0, 0], [0, 0]])
    close(texture.eval_cubic(at, mask).x, texture.eval_cubic(at).x * Float(1, 0))
    assert texture.eval_cubic_grad(at, mask)[1][0].numpy()[0, 1] == 0
    assert texture.eval_fetch(at, mask)[0].numpy()[0, 1] == 0


@pytest.mark.parametrize(
    ("kind", "at", "result", "tolerance"),
    [
        (Texture1f16, Array1f(Float(0.4, 0.6)), Array1f, 1e-3),
        (Texture1f16, Array1f16(Float16(0.4, 0.6)), Array1f16, 2e-3),
        (Texture1f16, Array1f64(Float64(0.4, 0.6)), Array1f64, 1e-3),
        (Texture1f, Array1f64(Float64(0.4, 0.6)), Array1f64, 1e-6),
        (Texture1f, Array1f16(Float16(0.4, 0.6)), Array1f16, 2e-3),
        (Texture1f64, Array1f(Float(0.4, 0.6)), Array1f, 1e-6),
    ],
)
def test_precision_is_that_of_the_position(tier, kind, at, result, tolerance):
    texture = kind(TensorXf([[1], [2.3]]))
    found = texture.eval(at)
    assert type(found) is result
    assert np.allclose(found.numpy().astype(float), [[1.39, 1.91]], rtol=tolerance)


def test_eight_bits(tier):
    texture = Texture1f8u(TensorXu8([[1], [250]]))
    at = Float(0.4, 0.6)
    close(texture.eval(at), [[0.296863, 0.687451]], 1e-5)
    close(texture.eval_fetch(at)[1], [[250 / 255, 250 / 255]], 1e-6)
    assert texture.value().numpy().tolist() == [1, 250]
    nearest = Texture1f8u(TensorXu8([[1], [250]]), filter_mode=dr.FilterMode.Nearest)
    close(nearest.eval(at), [[1 / 255, 250 / 255]], 1e-6)


def test_srgb(tier):
    texels = np.array([[1, 10, 20, 30, 40, 50], [250, 200, 150, 100, 50, 10]], np.uint8)
    texture = Texture1f8u(TensorXu8(texels), srgb=True)
    x = texels / 255
    linear = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    linear[:, 3] = x[:, 3]
    assert texture.srgb()
    close(texture.eval(Float(0.4)), (linear[0] * 0.7 + linear[1] * 0.3)[:, None], 1e-5)


def test_positions_of_other_kinds(tier):
    line, image = Texture1f(TensorXf([[1], [3]])), Texture2f(TensorXf([[[1], [3]], [[5], [7]]]))
    for at in (0.5, [0.5], Float(0.5), Array1f(0.5)):
        assert line.eval(at).numpy().tolist() == [[2]]
    for at in (0.5, [0.5, 0.5], (0.5, Float(0.5)), Array2f(0.5), Float(0.5)):
        assert image.eval(at).numpy().tolist() == [[4]]
    assert type(image.eval([Float64(0.5), 0.5])) is Array1f64
    assert type(ad.Texture2f(ad.TensorXf([[[1], [3]]])).eval(Array2f(0.5, 0.5))) is ad.Array1f
    assert len(image.eval(Array2f(Float(), Float())).x) == 0


def test_odd_positions_read_no_other_memory(tier):
    data = TensorXf([[1], [2], [3]])
    for mode in MODES:
        texture = Texture1f(data, wrap_mode=mode)
        found = texture.eval(Float(dr.nan, dr.inf, -dr.inf, 1e30, -1e30)).x.numpy()
        assert np.isnan(found[0])
        inside = np.isnan(found) | (np.abs(found) <= 1e31)
        assert inside.all()


def test_python_numbers():
    data = random.uniform(-1, 1, (3, 4, 2))
    texture = scalar.Texture2f64(scalar.TensorXf64(data))
    traced = Texture2f64(TensorXf64(data))
    for pos in ([0.3, 0.4], [-0.2, 1.3]):
        at = Array2f64(*pos)
        assert type(texture.eval(pos)) is scalar.Array2f
        assert np.allclose(list(texture.eval(pos)), traced.eval(at).numpy().ravel(), atol=1e-6)
        one, two = texture.eval_cubic_hessian(pos), traced.eval_cubic_hessian(at)
        assert np.allclose(np.array(one[2][1]), two[2][1].numpy()[:, :, 0], atol=1e-3)
    assert list(texture.wrap([5, -1])) == [3, 0]


def test_wrap(tier):
    def wrapped(mode):
        texture = Texture2f((3, 4), 1, wrap_mode=mode)
        return texture.wrap(Array2i([-5, -1, 0, 4, 9], [-4, -1, 2, 3, 7])).numpy().tolist()

    assert wrapped(dr.WrapMode.Clamp) == [[0, 0, 0, 3, 3], [0, 0, 2, 2, 2]]
    assert wrapped(dr.WrapMode.Repeat) == [[3, 3, 0, 0, 1], [2, 2, 2, 0, 1]]
    assert wrapped(dr.WrapMode.Mirror) == [[3, 0, 0, 3, 1], [2, 0, 2, 2, 1]]


def test_contents():
    texture = Texture2f((3, 4), 2)
    assert texture.shape == (3, 4, 2)
    assert texture.channel_count() == 2
    assert texture.filter_mode() is dr.FilterMode.Linear
    assert texture.wrap_mode() is dr.WrapMode.Clamp
    assert (texture.use_accel(), texture.migrated(), texture.writable(), texture.srgb()) == (
        True, False, False, False,
    )  # fmt: skip
    assert texture.value().numpy().tolist() == [0] * 24
    texture.set_value(dr.arange(Float, 24))
    assert texture.tensor().shape == (3, 4, 2)
    assert texture.tensor().numpy()[1, 2, 1] == 13
    texture.set_tensor(TensorXf([[[1], [2]]]))
    assert texture.shape == (1, 2, 1)
    assert texture.eval(Array2f(0.5, 0.5)).x[0] == 1.5
    positional = Texture1f(TensorXf([[1]]), False, True, dr.FilterMode.Nearest, 2)
    assert positional.wrap_mode() is dr.WrapMode.Mirror
    assert not positional.use_accel()
    assert Texture1f(np.array([[1], [2]])).value().numpy().tolist() == [1, 2]
    assert Texture1f([[1], [2]]).shape == (2, 1)


def test_changes_show_after_an_update():
    texture = Texture1f(TensorXf([[1], [3]]))
    tensor = texture.tensor()
    tensor[0, 0] = 100
    assert texture.value().numpy().tolist() == [100, 3]
    assert texture.eval(Float(0)).x[0] == 1
    texture.update_inplace()
    assert texture.eval(Float(0)).x[0] == 100
    assert texture.tensor() is tensor


def test_source_tensor_stays_independent():
    source = TensorXf([[1], [3]])
    texture = Texture1f(source)
    texture.tensor()[0, 0] = 100
    texture.update_inplace()
    assert source.numpy().tolist() == [[1], [3]]


def test_write():
    texture = Texture2f((2, 2), 2, writable=True)
    texture.write(Array2u(1, 0), [Float(9), Float(8)])
    assert texture.value().numpy().tolist() == [0, 0, 9, 8, 0, 0, 0, 0]
    texture.write(Array2u([0, 1], [1, 1]), [Float(1, 2), Float(3, 4)], Bool(True, False))
    assert texture.value().numpy().tolist() == [0, 0, 9, 8, 1, 3, 0, 0]
    assert texture.eval(Array2f(1, 0)).numpy().ravel().tolist() == [9, 8]


def encoded(value, srgb):
    """The nearest of 256 steps, after the curve of IEC 61966-2-1."""
    value = np.nan_to_num(np.clip(np.float64(value), 0, 1))
    if srgb:
        value = np.where(value <= 0.0031308, 12.92 * value, 1.055 * value ** (1 / 2.4) - 0.055)
    return np.floor(value * 255 + 0.5).astype(int)


@pytest.mark.parametrize("srgb", [False, True])
@pytest.mark.parametrize("name", ["Float", "Float64", "Float16"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("module", [dr.llvm, ad], ids=["llvm", "ad"])
def test_what_is_written_to_8_bits(module, dims, name, srgb, tier):
    values = [0.5, 1, 200, math.nan, -1, 0.25, 0.125, 0.003, 0.0, math.inf, -math.inf]
    want = [0.5, 1, 200, math.nan, -1, 0.25, 0.125, 0.003, 0.0, 2, -2]
    shape = (len(values), 2, 1)[:dims]
    texture = getattr(module, f"Texture{dims}f8u")(shape[::-1], 5, writable=True, srgb=srgb)
    position = [module.UInt(range(len(values))), *[module.UInt(n - 1) for n in shape[1:]]]
    channels = [getattr(module, name)(values)] * 5
    texture.write(getattr(module, f"Array{dims}u")(*position), channels)
    got = texture.tensor().numpy().reshape(-1, len(values), 5)[-1].astype(int)
    for channel in range(5):
        expected = encoded(want, srgb and channel != 3)
        # The curve in half precision is as good as that.
        tolerance = 1 if name == "Float16" and srgb else 0
        assert np.abs(got[:, channel] - expected).max() <= tolerance


def test_other_values_written_to_8_bits():
    texture = Texture1f8u((3,), 1, writable=True)
    texture.write(Array1u(0), [0.5])
    texture.write(Array1u(1), [UInt8(200)])  # 200 is beyond 1
    texture.write(Array1u(UInt(2, 2)), [Float(0.25, 1)], Bool(True, False))
    assert texture.value().numpy().tolist() == [128, 255, 64]
    plain = dr.scalar.Texture1f8u((2,), 1, writable=True)
    plain.write(dr.scalar.Array1u(1), [0.5])
    assert list(plain.value()) == [0, 128]
    texture = Texture1f((2,), 1, writable=True)
    texture.write(Array1u(1), [Float(200)])
    assert texture.value().numpy().tolist() == [0, 200]


def test_event_is_recorded_after_the_contents():
    class Event:
        def record(self):
            self.seen = texture.value().numpy().tolist()

    event, texture = Event(), Texture1f((2,), 1)
    texture.set_value_with_event(Float(1, 2), event)
    assert event.seen == [1, 2]


def test_lookup_is_fused():
    texture = Texture2f(TensorXf(random.uniform(0, 1, (8, 8, 4))))
    at = Array2f(dr.linspace(Float, 0, 1, 100), 0.5)
    dr.make_opaque(at)
    dr.eval(texture.value())
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(dr.sum(texture.eval(at * 0.5)) + 1)
        assert len(dr.kernel_history()) == 1


def test_sizes_and_contents_do_not_recompile():
    def look(n):
        texture = Texture2f(dr.opaque(TensorXf, 0.5, (n, n + 1, 4)))
        dr.eval(texture.eval(Array2f(dr.opaque(Float, 0.25, 10), dr.opaque(Float, 0.5, 10))))

    look(4)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for n in (5, 6, 9):
            look(n)
        lookups = [h for h in dr.kernel_history() if h["output_count"] == 4]
        assert len(lookups) == 3
        assert len({h["hash"] for h in lookups}) == 1


def line():
    return Texture1f(TensorXf([[1], [2]]))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: Texture2f((3, 4), 0), RuntimeError),
        (lambda: Texture2f((3,), 1), TypeError),
        (lambda: Texture2f((3, 4, 5), 1), TypeError),
        (lambda: Texture2f(3, 1), TypeError),
        (lambda: Texture2f((3, -1), 1), TypeError),
        (lambda: Texture1f([3], "a"), TypeError),
        (lambda: Texture1f([3], 1.5), TypeError),
        (lambda: Texture1f([3], 1, filter_mode=7), TypeError),
        (lambda: Texture1f([3], 1, wrap_mode="repeat"), TypeError),
        (lambda: Texture1f(), TypeError),
        (lambda: Texture1f("a"), (TypeError, RuntimeError)),
        (lambda: Texture1f(3.0), RuntimeError),
        (lambda: Texture1f(TensorXf([1, 2, 3])), RuntimeError),
        (lambda: Texture2f(TensorXf([[1, 2, 3]])), RuntimeError),
        (lambda: Texture1f(dr.zeros(TensorXf, (2, 0))), RuntimeError),
        (lambda: Texture1f(TensorXf([[1]]), srgb=True), RuntimeError),
        (lambda: line().set_tensor(TensorXf([1, 2])), RuntimeError),
        (lambda: line().set_value(Float(1, 2, 3)), RuntimeError),
        (lambda: line().set_value(Float(1)), RuntimeError),
        (lambda: line().eval(Array2f(1, 2)), TypeError),
        (lambda: line().eval([1, 2]), TypeError),
        (lambda: Texture2f((2, 2), 1).eval(Array3f(1, 2, 3)), TypeError),
        (lambda: Texture2f((2, 2), 1).eval_cubic(Array1f(1)), TypeError),
        (lambda: Texture2f((2, 2), 1).eval_cubic_hessian([1]), TypeError),
        (lambda: line().wrap(Array2i(1, 2)), TypeError),
        (lambda: line().eval(Float(1), "mask"), TypeError),
        (lambda: line().eval(Float(1, 2, 3), Bool(True, False)), RuntimeError),
        (lambda: Texture2f((2, 2), 1).eval(Array2f([1, 2], [1, 2, 3])), RuntimeError),
        (lambda: Texture1f((0,), 1).eval(0.5), RuntimeError),
        (lambda: line().write(UInt(0), [Float(1)]), RuntimeError),
        (lambda: Texture1f((3,), 1, writable=True).write(UInt(0), [1, 2]), RuntimeError),
        (lambda: Texture1f.from_native_handle(3), RuntimeError),
        (lambda: scalar.Texture1f(scalar.TensorXf([[1.0]])).eval(0.5, 3), TypeError),
    ],
)
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


def test_errors_speak_of_the_texture():
    with pytest.raises(TypeError, match=r"Texture2f.eval\(\).*3 components.*2 dimensions"):
        Texture2f((2, 2), 1).eval(Array3f(1, 2, 3))
    with pytest.raises(RuntimeError, match=r"3 dimensions.*\(1, 3\)"):
        Texture2f(TensorXf([[1, 2, 3]]))
    with pytest.raises(RuntimeError, match=r"3 entries.*\(2, 1\) has 2"):
        line().set_value(Float(1, 2, 3))
    with pytest.raises(RuntimeError, match=r"^Texture1f.set_tensor\(\): .* 2 dimensions.*\(2,\)"):
        line().set_tensor(TensorXf([1, 2]))
    with pytest.raises(TypeError, match=r"^Texture1f.eval\(\): 'active' is of type"):
        line().eval(Float(0.5), "on")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("method", ["eval", "eval_cubic"])
@pytest.mark.parametrize("channels", [1, 4])
def test_positions_need_no_check_wherever_they_are(mode, method, channels):
    texels = random.random((4, 5, channels), np.float32)
    texture = Texture2f(TensorXf(texels), wrap_mode=mode)
    huge = np.float32(3e38)
    x = Float([dr.nan, dr.inf, -dr.inf, huge, -huge, 2147483647.0, -2147483648.0, -0.1, 1.1])
    dr.make_opaque(x)
    value = getattr(texture, method)(Array2f(x, 0.5))
    source = dr.kernel_source(value)
    assert "gather" in source and "in_bounds" not in source
    assert np.isnan(value[0].numpy()[:1]).all()
    assert np.isfinite(value[0].numpy()[-2:]).all()


def test_a_tensor_of_another_shape_is_out_of_bounds_of_the_old_texels():
    tensor = TensorXf(random.random((4, 4, 4), np.float32))
    texture = Texture2f(tensor, wrap_mode=dr.WrapMode.Clamp)
    texture.tensor()._shape = (8, 8, 4)  # as an in-place change does, without `update_inplace`
    x = dr.linspace(Float, 0, 1, 16)
    dr.make_opaque(x)
    source = dr.kernel_source(texture.eval(Array2f(x, x)))
    assert "in_bounds" in source


def test_gradients_of_texels_use_the_look_ups_mask():
    texels = ad.Float(random.random(4 * 4 * 4, np.float32))
    dr.enable_grad(texels)
    texture = ad.Texture2f(ad.TensorXf(texels, shape=(4, 4, 4)))
    x = ad.Float(0.1, 0.3, 0.9, 0.5)
    active = ad.Bool(True, False, True, False)
    dr.backward(sum(texture.eval(ad.Array2f(x, x), active)))
    gradient = texels.grad.numpy().reshape(4, 4, 4)
    # Each active look-up has weights that add up to 1, for every channel.
    np.testing.assert_allclose(gradient.sum((0, 1)), 2, rtol=1e-6)
    np.testing.assert_array_equal(gradient, gradient[:, :, :1].repeat(4, 2))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("wrap", list(dr.WrapMode))
@pytest.mark.parametrize("method", ["eval", "eval_cubic"])
def test_gradients_of_positions(dims, wrap, method, tier):
    rng = np.random.default_rng(dims)
    texels = rng.normal(size=(*(5, 4, 3)[:dims], 2))
    position = rng.uniform(-0.3, 1.3, (dims, 9))
    image = getattr(ad, f"Texture{dims}f64")(ad.TensorXf64(texels), wrap_mode=wrap)
    at = getattr(ad, f"Array{dims}f64")(position)
    dr.enable_grad(at)
    value = getattr(image, method)(at)
    dr.backward(value[0] - 2 * value[1])
    found = [at[k].grad for k in range(dims)]
    same = image.eval_cubic_grad(dr.detach(at))[1] if method == "eval_cubic" else None
    dr.eval(found, same)

    def total(position):
        kind = "cubic" if method == "eval_cubic" else "linear"
        return np.array([1, -2]) @ plain_lookup(texels, position, wrap, kind)

    for k in range(dims):
        step = 1e-6 * np.eye(dims)[:, k : k + 1]
        slope = (total(position + step) - total(position - step)) / 2e-6
        np.testing.assert_allclose(found[k].numpy(), slope, atol=2e-7)
        if same is not None:
            expected = same[0][k].numpy() - 2 * same[1][k].numpy()
            np.testing.assert_allclose(found[k].numpy(), expected, atol=1e-9)


def test_look_ups_repeat_what_was_traced(tier):
    """The nodes of a look-up are recorded once; other positions, texels and shapes get their
    own."""
    rng = np.random.default_rng(0)
    texels, other = rng.normal(size=(6, 5, 3)), rng.normal(size=(6, 5, 3))
    image = llvm.Texture2f64(llvm.TensorXf64(texels))
    expected = scalar.Texture2f64(scalar.TensorXf64(texels))

    def check(position, against):
        got = np.array(image.eval(llvm.Array2f64(position)))
        for k in range(got.shape[1]):
            point = [float(row[k if len(row) > 1 else 0]) for row in position]
            np.testing.assert_allclose(got[:, k], against.eval(scalar.Array2f64(*point)))

    check(rng.uniform(-1, 2, (2, 7)), expected)
    check(rng.uniform(-1, 2, (2, 9)), expected)
    check([rng.uniform(-1, 2, 9), [0.3]], expected)  # one size for all lanes
    check(np.array([[0.2], [0.4]]), expected)
    image.set_tensor(llvm.TensorXf64(other))
    check(rng.uniform(-1, 2, (2, 9)), scalar.Texture2f64(scalar.TensorXf64(other)))
    image.set_tensor(llvm.TensorXf64(other[:4]))
    check(rng.uniform(-1, 2, (2, 9)), scalar.Texture2f64(scalar.TensorXf64(other[:4])))
    x = llvm.Float64(rng.uniform(size=4))
    mask = image.eval(llvm.Array2f64(x, x), llvm.Bool(True, False, True, False))[0].numpy()
    assert (mask[1::2] == 0).all() and (mask[::2] != 0).all()
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        debugged = image.eval(llvm.Array2f64(x, x))[0].numpy()
    np.testing.assert_array_equal(debugged, image.eval(llvm.Array2f64(x, x))[0].numpy())


def test_textures_that_differ_in_a_mode_share_no_trace(tier):
    rng = np.random.default_rng(1)
    texels, (x, y) = rng.integers(0, 256, (3, 4, 2)), rng.uniform(-1, 2, (2, 9))
    for kind, suffix in ("8u", "f8u"), ("f", "f"), ("f16", "f16"):
        for wrap, mode in itertools.product(dr.WrapMode, dr.FilterMode):
            for srgb in (False, True) if kind == "8u" else (False,):
                modes = {"filter_mode": mode, "wrap_mode": wrap, "srgb": srgb}
                made = [
                    getattr(m, f"Texture2{suffix}")(
                        getattr(m, f"TensorX{'u8' if kind == '8u' else kind}")(texels), **modes
                    )
                    for m in (llvm, scalar)
                ]
                got = np.array(made[0].eval(llvm.Array2f(x, y)))
                for k in range(9):
                    want = made[1].eval(scalar.Array2f(x[k], y[k]))
                    np.testing.assert_allclose(got[:, k], want, 2e-3, 1e-3)


def test_look_ups_in_a_loop(tier):
    image = llvm.Texture1f(llvm.TensorXf(np.arange(8.0)[:, None] ** 2))
    x = llvm.Float(0.1, 0.6)
    step = [image.eval(llvm.Array1f(x + 0.1 * k))[0].numpy() for k in range(3)]
    state = (llvm.UInt(0), llvm.Float(0))
    _, total = dr.while_loop(
        state,
        lambda i, total: i < 3,
        lambda i, total: (i + 1, total + image.eval(llvm.Array1f(x + 0.1 * llvm.Float(i)))[0]),
    )
    np.testing.assert_allclose(total.numpy(), sum(step), rtol=1e-6)


@pytest.mark.parametrize("name", ["eval", "eval_cubic", "eval_fetch", "eval_cubic_grad"])
def test_no_mask_is_the_mask_of_all_lanes(name):
    for texture, position in (
        (line(), Array1f(Float(0.2, 0.7))),
        (dr.scalar.Texture1f(dr.scalar.TensorXf([[1], [3]])), dr.scalar.Array1f(0.4)),
    ):
        method = getattr(texture, name)
        assert str(method(position, None)) == str(method(position)) == str(method(position, True))


def test_modes_show_by_name():
    assert repr(line().filter_mode()) == str(dr.FilterMode.Linear) == "FilterMode.Linear"
    assert repr(line().wrap_mode()) == "WrapMode.Clamp"

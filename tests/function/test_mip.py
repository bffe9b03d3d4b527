"""MIP-mapped textures: levels and look-ups against NumPy, footprints against the axes of ellipses,
derivatives against finite differences, both bases, and what cannot be asked for.
"""

import itertools
import math

import numpy as np
import pytest
from directional import check

import drjit as dr
from drjit import llvm, scalar
from drjit.jit.cpu import kernel, variants
from drjit.llvm import (
    Array1f,
    Array2f,
    Array2f64,
    Float,
    TensorXf,
    TensorXf64,
    TensorXu8,
    Texture1f,
    Texture2f,
    Texture2f8u,
    Texture2f16,
    Texture2f64,
    Texture3f64,
    ad,
)

SHAPES = [(9,), (5, 7), (8, 4), (4, 3, 5)]
WRAPS = [dr.WrapMode.Clamp, dr.WrapMode.Repeat, dr.WrapMode.Mirror]
random = np.random.default_rng(11)


def halve(data):
    """Means of the texels that a coarser one covers, by a finer grid that both divide evenly."""
    for axis in range(data.ndim - 1):
        n = data.shape[axis]
        m = max(n // 2, 1)
        fine = np.repeat(data, m, axis)
        shape = (*fine.shape[:axis], m, n, *fine.shape[axis + 1 :])
        data = fine.reshape(shape).mean(axis + 1)
    return data


def levels_of(data):
    found = [data]
    while max(found[-1].shape[:-1]) > 1:
        found.append(halve(found[-1]))
    return found


def texture(shape, channels=2, suffix="f64", **more):
    data = random.uniform(-1, 1, (*shape, channels))
    namespace = more.pop("namespace", llvm)
    kind = getattr(namespace, f"Texture{len(shape)}{suffix}")
    options = {"mip_filter": dr.MipFilter.Linear, **more}
    made = kind(
        getattr(namespace, "TensorXf64" if suffix == "f64" else "TensorXf")(data), **options
    )
    return made, levels_of(data)


def positions(dims, count=40):
    return random.uniform(-0.6, 1.6, (dims, count))


def vector(namespace, values):
    dims = len(values)
    return getattr(namespace, f"Array{dims}f64")(*[namespace.Float64(v) for v in values])


def plain(data, pos, wrap):
    """Look-ups by a texture without levels, which has tests of its own."""
    kind = getattr(llvm, f"Texture{data.ndim - 1}f64")
    return kind(TensorXf64(data), wrap_mode=wrap).eval(vector(llvm, pos)).numpy()


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_are_means(shape, tier):
    made, expected = texture(shape)
    assert made.mip_levels() == len(expected) == int(np.log2(max(shape))) + 1
    for k, level in enumerate(expected):
        np.testing.assert_allclose(made.tensor(k).numpy(), level, atol=1e-13)
    mean = expected[0].mean(tuple(range(len(shape))))
    np.testing.assert_allclose(made.tensor(len(expected) - 1).numpy().ravel(), mean, atol=1e-13)


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.compiled_every(5)
def test_look_ups_in_levels(shape, wrap, tier):
    made, levels = texture(shape, wrap_mode=wrap)
    pos = positions(len(shape))
    lod = random.uniform(-1, len(levels) + 1, pos.shape[1])
    found = made.eval_lod(vector(llvm, pos), llvm.Float64(lod)).numpy()
    each = np.array([plain(level, pos, wrap) for level in levels])
    inside = np.clip(lod, 0, len(levels) - 1)
    first = np.minimum(inside.astype(int), len(levels) - 2)
    lane = np.arange(lod.size)
    near, far = each[first, :, lane].T, each[first + 1, :, lane].T
    np.testing.assert_allclose(found, near + (far - near) * (inside - first), atol=1e-12)


@pytest.mark.parametrize("filter_mode", list(dr.FilterMode))
def test_the_nearest_level(filter_mode, tier):
    made, levels = texture((5, 7), mip_filter=dr.MipFilter.Nearest, filter_mode=filter_mode)
    pos = positions(2)
    for lod, k in [(-3, 0), (0.4, 0), (0.6, 1), (1.49, 1), (9, 2), (dr.inf, 2)]:
        level = Texture2f64(TensorXf64(levels[k]), filter_mode=filter_mode)
        expected = level.eval(vector(llvm, pos)).numpy()
        found = made.eval_lod(vector(llvm, pos), lod).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_scalar_textures_do_the_same(monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    for wrap in WRAPS:
        data = random.uniform(0, 1, (5, 7, 3))
        options = {"mip_filter": dr.MipFilter.Linear, "max_aniso": 4, "wrap_mode": wrap}
        one = scalar.Texture2f64(scalar.TensorXf64(data), **options)
        many = Texture2f64(TensorXf64(data), **options)
        for pos, ddx, ddy, lod in random.uniform(-0.5, 1.5, (10, 4, 2)):
            found = one.eval_lod(scalar.Array2f64(*pos), lod[0])
            expected = many.eval_lod(Array2f64(*pos), lod[0]).numpy()[:, 0]
            np.testing.assert_allclose(list(found), expected, atol=1e-12)
            ends = [scalar.Array2f64(*v) for v in (pos, ddx, ddy)]
            expected = many.eval_filtered(*[Array2f64(*v) for v in (pos, ddx, ddy)])
            np.testing.assert_allclose(
                list(one.eval_filtered(*ends)), expected.numpy()[:, 0], atol=1e-12
            )


# Footprints


def by_singular_values(levels, pos, jacobian, aniso):
    """Where a footprint whose axes are found by NumPy is looked up, and the level."""
    sizes = np.array(levels[0].shape[-2::-1])
    u, s, _ = np.linalg.svd(jacobian * sizes[:, None])
    major, minor = s[0], s[1] if len(s) > 1 else 0
    width = max(minor, major / aniso, 1)
    taps = int(np.clip(np.ceil(major / width - 1e-3), 1, aniso))
    axis = u[:, 0] * major / sizes
    return [pos + axis * ((k + 0.5) / taps - 0.5) for k in range(taps)], np.log2(width)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("aniso", [1, 3, 16])
@pytest.mark.compiled_every(5)
def test_footprints_are_ellipses(shape, aniso, tier):
    made, levels = texture(shape, max_aniso=aniso, wrap_mode=dr.WrapMode.Repeat)
    dims, count = len(shape), 24
    pos = positions(dims, count)
    scale = 10 ** random.uniform(-2.5, 0.3, (2, 1, count))
    ddx, ddy = random.normal(size=(2, dims, count)) * scale
    found = made.eval_filtered(*[vector(llvm, v) for v in (pos, ddx, ddy)]).numpy()
    taps = [
        by_singular_values(levels, pos[:, k], np.stack([ddx[:, k], ddy[:, k]], axis=1), aniso)
        for k in range(count)
    ]
    at = np.concatenate([places for places, _ in taps]).T
    lod = llvm.Float64([level for places, level in taps for _ in places])
    each = made.eval_lod(vector(llvm, at), lod).numpy()
    ends = np.cumsum([len(places) for places, _ in taps])
    expected = [part.mean(1) for part in np.split(each, ends[:-1], axis=1)]
    np.testing.assert_allclose(found.T, expected, atol=2e-9)


def test_a_rotation_of_the_screen_changes_nothing(tier):
    made, _ = texture((16, 16), max_aniso=8)
    pos, ddx, ddy = vector(llvm, positions(2)), Array2f64(0.3, 0.1), Array2f64(-0.02, 0.07)
    expected = made.eval_filtered(pos, ddx, ddy).numpy()
    for angle in (0.3, 1.2, math.pi / 2, 2.9):
        c, s = math.cos(angle), math.sin(angle)
        found = made.eval_filtered(pos, c * ddx - s * ddy, s * ddx + c * ddy).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("ddx, ddy", [((0, 0), (0, 0)), ((0.5, 0), (0, 0)), ((1, 1), (1, 1))])
def test_degenerate_footprints(ddx, ddy, tier):
    made, levels = texture((8, 8), max_aniso=4)
    pos = positions(2)
    found = made.eval_filtered(vector(llvm, pos), Array2f64(*ddx), Array2f64(*ddy)).numpy()
    assert np.isfinite(found).all()
    if not any(ddx):
        np.testing.assert_allclose(found, plain(levels[0], pos, dr.WrapMode.Clamp), atol=1e-12)


def test_minified_checks_become_grey():
    checks = np.indices((64, 64)).sum(0) % 2.0
    made = Texture2f(TensorXf(checks[..., None]), mip_filter=dr.MipFilter.Linear, max_aniso=16)
    pos = Array2f(dr.linspace(Float, 0.2, 0.8, 50), 0.4)
    assert np.ptp(made.eval(pos).numpy()) > 0.5
    filtered = made.eval_filtered(pos, Array2f(0.2, 0), Array2f(0, 0.05)).numpy()
    np.testing.assert_allclose(filtered, 0.5, atol=1e-3)


# Derivatives


@pytest.mark.parametrize("basis", list(dr.MipBasis))
@pytest.mark.parametrize("method", ["eval_lod", "eval_filtered"])
@pytest.mark.compiled_every(3)
def test_derivatives_of_texels_and_positions(method, basis, tier):
    data = random.uniform(-1, 1, (5, 6, 2))
    pos = positions(2, 9)

    def value(data, pos):
        tensor = ad.TensorXf64(data, shape=(5, 6, 2))
        made = ad.Texture2f64(
            tensor, mip_filter=dr.MipFilter.Linear, mip_basis=basis, max_aniso=4,
            wrap_mode=dr.WrapMode.Repeat,
        )  # fmt: skip
        if method == "eval_lod":
            found = made.eval_lod(pos, ad.Float64(0.3, 1.6, 0.7, 5, -1, 1.2, 1.9, 0.1, 0.9))
        else:
            ddx, ddy = ad.Array2f64(0.3, 0.1), ad.Array2f64([0.01, 0.2] * 4 + [0.4], -0.2)
            found = made.eval_filtered(pos, ddx, ddy)
        return dr.sum(found * found, axis=None)

    x = ad.Float64(data.ravel())
    p = ad.Array2f64(*[ad.Float64(v) for v in pos])
    check(value, x, p, together=tier == "compiled")


def test_the_level_has_no_derivative():
    made, _ = texture((8, 8), namespace=ad)
    lod, pos = ad.Float64(0.7), ad.Array2f64(0.3, 0.4)
    dr.enable_grad(lod, pos)
    found = made.eval_lod(pos, lod)
    dr.backward(found)
    assert dr.all(lod.grad == 0) and dr.any(pos.grad != 0)


# Bases


@pytest.mark.parametrize("suffix", ["f16", "f", "f64"])
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.compiled_every(13)
def test_a_pyramid_is_what_it_was_made_of(shape, wrap, suffix, tier):
    made, levels = texture(shape, suffix=suffix, mip_basis=dr.MipBasis.Laplacian, wrap_mode=wrap)
    pos = vector(llvm, positions(len(shape)))
    tolerance = {"f16": 4e-3, "f": 2e-6, "f64": 1e-13}[suffix]
    standard, _ = texture(shape, suffix=suffix, wrap_mode=wrap)
    standard.set_tensor(type(made.tensor())(levels[0]))
    found = [
        [t.eval(pos), *[t.eval_lod(pos, lod) for lod in (0, 0.5, 1, 2)]] for t in (made, standard)
    ]
    dr.eval(found)  # in one kernel
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=tolerance)


def test_a_level_can_be_replaced(tier):
    made, _ = texture((4, 4), channels=1, mip_basis=dr.MipBasis.Laplacian)
    pos, last = vector(llvm, positions(2)), made.mip_levels() - 1
    before = made.eval(pos).numpy()
    made.set_tensor(last, made.tensor(last) + 2)
    np.testing.assert_allclose(made.eval(pos).numpy(), before + 2, atol=1e-12)
    made.set_tensor(last, made.tensor(last) - 2, rebuild=False)
    np.testing.assert_allclose(made.eval(pos).numpy(), before + 2, atol=1e-12)
    made.update_inplace()
    np.testing.assert_allclose(made.eval(pos).numpy(), before, atol=1e-12)
    with pytest.raises(RuntimeError, match=r"level 1 has shape \(2, 2, 1\), not \(4, 4, 1\)"):
        made.set_tensor(1, made.tensor(0))
    with pytest.raises(IndexError, match="level 3 is out of bounds, the texture has 3"):
        made.tensor(3)


@pytest.mark.parametrize("suffix", ["f16", "f", "f64"])
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("shape", [(1,), *SHAPES])
@pytest.mark.every(5)
def test_the_texels_are_what_was_set(shape, wrap, suffix):
    """As a tensor and as an array, however the texture came by them; levels have coefficients."""
    made, levels = texture(shape, suffix=suffix, mip_basis=dr.MipBasis.Laplacian, wrap_mode=wrap)
    tolerance = {"f16": 4e-3, "f": 2e-6, "f64": 1e-13}[suffix]

    def check(expected):
        assert made.tensor().shape == made.shape == expected.shape
        np.testing.assert_allclose(made.tensor().numpy(), expected, atol=tolerance)
        np.testing.assert_allclose(made.value().numpy(), expected.ravel(), atol=tolerance)

    check(levels[0])
    other = random.uniform(-1, 1, levels[0].shape)
    made.set_tensor(type(made.tensor())(other))
    check(other)
    made.set_value(type(made.value())(levels[0].ravel()))
    check(levels[0])
    last = made.mip_levels() - 1
    made.set_tensor(last, made.tensor(last) + 1)
    check(levels[0] + 1)
    if last:
        np.testing.assert_allclose(made.tensor(0).numpy().mean(), 0, atol=0.3)
        assert not np.allclose(made.tensor(0).numpy(), levels[0] + 1, atol=0.1)


def test_the_texels_are_differentiable_in_coefficients_and_image():
    image = ad.TensorXf64(random.uniform(0, 1, (5, 4, 1)))
    dr.enable_grad(image)
    made = ad.Texture2f64(
        image, mip_filter=dr.MipFilter.Linear, mip_basis=dr.MipBasis.Laplacian,
    )  # fmt: skip
    weights = random.uniform(0, 1, (5, 4, 1))
    for k in (1, 2):
        dr.backward(dr.sum(made.tensor() * ad.TensorXf64(weights), axis=None))
        np.testing.assert_allclose(image.grad.numpy(), k * weights, atol=1e-13)
    parts = [dr.detach(made.tensor(k)) for k in range(made.mip_levels())]
    dr.enable_grad(parts)
    for k, part in enumerate(parts):
        made.set_tensor(k, part, rebuild=False)
    made.update_inplace()
    for k in (1, 2):
        dr.backward(dr.sum(made.value()))
        for part in parts:
            np.testing.assert_allclose(dr.sum(part.grad, axis=None).array[0], 20 * k, rtol=1e-13)


@pytest.mark.processor
def test_gradients_of_levels_do_not_depend_on_which_kernels_run_on_numpy(monkeypatch):
    """Which of them do is a matter of time. Indices and weights of levels of 7 and 5 texels, which
    different kernels may compute, agree."""
    values = random.uniform(0, 1, (7, 5, 2))
    tiers = itertools.cycle(["numpy"])
    launch = kernel.CpuKernel.launch

    def launched(*arguments):
        monkeypatch.setattr(variants, "pinned", next(tiers))
        return launch(*arguments)

    monkeypatch.setattr(kernel.CpuKernel, "begin", lambda *_: None)
    monkeypatch.setattr(kernel.CpuKernel, "launch", launched)
    for every in (2, 3, 4, 5):
        tiers = itertools.cycle(["numpy", *["compiled"] * (every - 1)])
        tensor = ad.TensorXf64(values)
        dr.enable_grad(tensor)
        made = ad.Texture2f64(
            tensor, mip_filter=dr.MipFilter.Linear, mip_basis=dr.MipBasis.Laplacian
        )
        y = made.eval_lod(ad.Array2f64(0.31, 0.62), 1.3)
        dr.backward(y[0] + 3 * y[1], dr.ADFlag.Default | dr.ADFlag.KeepGraph)
        np.testing.assert_allclose(dr.sum(tensor.grad, axis=None).array[0], 4, rtol=1e-12)


def test_levels_are_optimized():
    target = random.uniform(0, 1, (8, 8, 1))
    pos = ad.Array2f(*[ad.Float(v) for v in random.uniform(0, 1, (2, 400))])
    wanted = ad.Texture2f(ad.TensorXf(target)).eval(pos)
    made = ad.Texture2f(
        dr.zeros(ad.TensorXf, (8, 8, 1)), mip_filter=dr.MipFilter.Linear,
        mip_basis=dr.MipBasis.Laplacian,
    )  # fmt: skip
    names = [str(k) for k in range(made.mip_levels())]
    optimizer = dr.opt.Adam(lr=0.05, params={k: made.tensor(int(k)) for k in names})
    losses = []
    for _ in range(60):
        for k in names:
            made.set_tensor(int(k), optimizer[k], rebuild=False)
        made.update_inplace()
        loss = dr.mean(dr.square(made.eval(pos) - wanted), axis=None)
        losses.append(loss[0])
        dr.backward(loss)
        optimizer.step()
    assert losses[-1] < 0.01 * losses[0]


# Element types, contents, kernels


def test_bytes_are_averaged_as_light():
    data = random.integers(0, 256, (4, 4, 4)).astype(np.uint8)
    for srgb in (False, True):
        made = Texture2f8u(TensorXu8(data), srgb=srgb, mip_filter=dr.MipFilter.Linear)
        light = data / 255.0
        if srgb:
            c = light[..., :3]
            light[..., :3] = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
        found = made.eval_lod(Array2f(0.5, 0.5), 2).numpy().ravel()
        np.testing.assert_allclose(found, light.mean((0, 1)), atol=4e-3)
        assert made.tensor(2).shape == (1, 1, 4)


def test_half_precision():
    data = random.uniform(0, 1, (6, 6, 3))
    made = Texture2f16(llvm.TensorXf16(data), mip_filter=dr.MipFilter.Linear, max_aniso=2)
    found = made.eval_lod(Array2f(0.5, 0.5), 5).numpy().ravel()
    np.testing.assert_allclose(found, data.mean((0, 1)), atol=2e-3)


def test_changes_reach_all_levels(tier):
    made, levels = texture((8, 4))
    pos = vector(llvm, positions(2))
    made.set_value(llvm.Float64(np.full(64, 3.0)))
    np.testing.assert_allclose(made.eval_lod(pos, 1.3).numpy(), 3, rtol=1e-14)
    made.set_tensor(TensorXf64(levels[0][:2]))
    assert made.mip_levels() == 3 and made.shape == (2, 4, 2)
    made.tensor()[:] = 5
    made.update_inplace()
    np.testing.assert_allclose(made.eval_lod(pos, 2).numpy(), 5, rtol=1e-14)


def test_a_look_up_is_one_kernel():
    made = Texture2f(
        TensorXf(random.uniform(0, 1, (32, 32, 3))), mip_filter=dr.MipFilter.Linear, max_aniso=8
    )
    pos = Array2f(dr.linspace(Float, 0, 1, 1000), 0.3)
    dr.eval(pos)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(made.eval_lod(pos, pos.x * 4))
        dr.eval(made.eval_filtered(pos, Array2f(pos.x, 0), Array2f(0, 0.01)))
        assert len(dr.kernel_history()) == 2


def test_look_ups_in_frozen_functions():
    made, _ = texture((8, 8), max_aniso=4)

    @dr.freeze
    def look(made, pos, ddx):
        return made.eval_filtered(pos, ddx, Array2f64(0.01, 0.2))

    for seed in range(3):
        pos = vector(llvm, np.random.default_rng(seed).random((2, 20 + seed)))
        ddx = Array2f64(0.1 * seed, 0.3)
        expected = made.eval_filtered(pos, ddx, Array2f64(0.01, 0.2)).numpy()
        np.testing.assert_allclose(look(made, pos, ddx).numpy(), expected, atol=1e-14)


@pytest.mark.parametrize("active", [False, True])
def test_masked_look_ups(active, tier):
    made, _ = texture((8, 8), max_aniso=4)
    pos = vector(llvm, positions(2))
    some = dr.arange(llvm.UInt, 40) % 2 == 0 if active else llvm.Bool(False)
    for found, every in (
        (made.eval_lod(pos, 1, some), made.eval_lod(pos, 1)),
        (made.eval_filtered(pos, Array2f64(1, 0), Array2f64(0, 0.1), some),
         made.eval_filtered(pos, Array2f64(1, 0), Array2f64(0, 0.1))),
    ):  # fmt: skip
        mask = np.broadcast_to(some.numpy(), 40)
        np.testing.assert_array_equal(found.numpy(), np.where(mask, every.numpy(), 0))


def test_without_levels_there_is_one():
    made = Texture1f(TensorXf([[1], [3], [5]]))
    assert (made.mip_levels(), made.mip_filter(), made.mip_basis(), made.max_aniso()) == (
        1, dr.MipFilter.Disabled, dr.MipBasis.Standard, 1,
    )  # fmt: skip
    pos = Array1f(0.4)
    assert list(made.eval_lod(pos, 3)) == list(made.eval(pos))
    assert list(made.eval_filtered(pos, Array1f(1), Array1f(2))) == list(made.eval(pos))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t: Texture2f(t, max_aniso=17), RuntimeError, "from 1 to 16, not 17"),
        (lambda t: Texture2f(t, max_aniso=2.5), RuntimeError, "from 1 to 16, not 2.5"),
        (lambda t: Texture2f(t, mip_filter="Linear"), TypeError, "none of dr.MipFilter.Disabled"),
        (lambda t: Texture2f(t, mip_basis=dr.MipBasis.Laplacian), RuntimeError, "MIP-mapped"),
        (
            lambda t: Texture2f((4, 4), 1, writable=True, mip_filter=dr.MipFilter.Linear),
            RuntimeError, "cannot be writable",
        ),
        (
            lambda t: Texture2f8u(
                TensorXu8(t), mip_filter=dr.MipFilter.Linear, mip_basis=dr.MipBasis.Laplacian
            ),
            RuntimeError, "floating point",
        ),
        (
            lambda t: Texture2f(t, mip_filter=dr.MipFilter.Linear).set_tensor(1, t),
            RuntimeError, "follow from it",
        ),
        (
            lambda t: Texture2f(t, mip_filter=dr.MipFilter.Linear).eval_lod(Array1f(0), 1),
            TypeError, "has 1 components",
        ),
    ],
)  # fmt: skip
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call(TensorXf(np.ones((4, 4, 1))))


def test_three_dimensions_and_every_filter():
    data = random.uniform(0, 1, (3, 4, 5, 2))
    for mip, mode in itertools.product(dr.MipFilter, dr.FilterMode):
        made = Texture3f64(TensorXf64(data), mip_filter=mip, filter_mode=mode, max_aniso=2)
        pos = vector(llvm, positions(3))
        ends = vector(llvm, 0.3 * positions(3)), vector(llvm, 0.3 * positions(3))
        found = made.eval_filtered(pos, *ends).numpy()
        assert found.shape == (2, 40) and (found >= 0).all() and (found <= 1).all()

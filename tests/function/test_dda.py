"""Grid traversal against the cells that the ray is cut into, integrals against quadrature."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.ndimage import map_coordinates

import drjit as dr
from drjit import llvm, scalar
from drjit.dda import dda, integrate, integrate_ref
from drjit.llvm import (
    Array2f,
    Array2u,
    Array3f,
    Array3u,
    Bool,
    Float,
    TensorXf,
    TensorXf64,
    UInt,
    ad,
)


def visited(origin, direction, t_max, res, low, high, **arguments):
    """What a ray visits: cells, and the points where it enters and leaves them."""
    n = len(origin)
    vector, cells = getattr(scalar, f"Array{n}f64"), getattr(scalar, f"Array{n}u")

    def visit(state, index, p_in, p_out, active):
        found = [(tuple(index), tuple(p_in), tuple(p_out))] if active else []
        return [*state, *found], True

    box = cells(*res), vector(*low), vector(*high)
    return dda(vector(*origin), vector(*direction), t_max, *box, visit, [], **arguments)


def expected(origin, direction, t_max, res, low, high):
    """The cells, sorted along the ray, by a cut of the ray at all cell boundaries."""
    o, d, low, high = (np.array(v, float) for v in (origin, direction, low, high))
    counts = np.array(res[::-1])
    edge = (high - low) / counts
    cuts = [0.0, t_max]
    for axis, n in enumerate(counts):
        if d[axis] != 0:
            cuts += [(low[axis] + k * edge[axis] - o[axis]) / d[axis] for k in range(n + 1)]
    cuts = sorted(t for t in cuts if 0 <= t <= t_max)
    found = []
    for a, b in pairwise(cuts):
        p = (o + d * (a + b) / 2 - low) / edge
        cell = np.floor(p).astype(int)
        if b - a > 1e-12 and np.all((cell >= 0) & (cell < counts)):
            points = [(o + d * t - low) / edge - cell for t in (a, b)]
            found.append((tuple(cell[::-1].tolist()), *points))
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_cells_of_random_rays(n, seed):
    rng = np.random.default_rng(100 * n + seed)
    res = rng.integers(1, 6, n).tolist()
    low, high = rng.uniform(-2, -1, n), rng.uniform(1, 2, n)
    origin = rng.uniform(-3, 3, n)
    direction = rng.uniform(-1, 1, n) - origin
    t_max = 0.9 if seed % 2 else 100.0
    want = expected(origin, direction, t_max, res, low, high)
    got = visited(origin, direction, t_max, res, low, high)
    assert [c for c, *_ in got] == [c for c, *_ in want]
    for (_, a, b), (_, c, d) in zip(got, want, strict=True):
        np.testing.assert_allclose([a, b], [c, d], atol=1e-9)


@pytest.mark.parametrize(
    ("origin", "direction", "cells"),
    [
        ([-1, 0.1], [1, 0], [(0, 0), (0, 1)]),  # along an axis
        ([0.25, 2], [0, -1], [(1, 0), (0, 0)]),
        ([2, 2], [-1, -1], [(1, 1), (0, 0)]),  # through corners
        ([0, 1], [1, 0], [(1, 0), (1, 1)]),  # on the boundary
        ([0.5, 0.25], [-1, 0], [(0, 0)]),  # from a face: the cell behind is not entered
        ([0.5, 0.25], [1, 0], [(0, 1)]),
        ([0.5, 0.5], [-1, -1], [(0, 0)]),  # from a corner
        ([0.5, 0.25], [-1, 1], [(0, 0), (1, 0)]),
        ([2, 2], [1, 1], []),  # away from the grid
        ([-1, 3], [1, 0], []),  # past the grid
        ([1, 0.5], [1, 0], []),
        ([0.3, 0.3], [0, 0], []),  # no ray
        ([math.nan, 0], [1, 1], []),
        ([0.1, 0.1], [math.nan, 1], []),
    ],
)
def test_special_rays(origin, direction, cells):
    got = visited(origin, direction, math.inf, [2, 2], [0, 0], [1, 1])
    assert [c for c, *_ in got] == cells


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("module", [llvm, ad])
def test_a_step_of_length_0_is_not_active(mode, module, tier):
    def visit(count, index, p_in, p_out, active):
        return count + dr.select(active, 1, 0), True

    vector, cells = module.Array2f, module.Array2u
    origin = vector([0.5, 0.5, 0.5, 0.3], [0.25, 0.25, 0.5, 0.25])
    direction = vector([-1, 1, -1, -1], [0.3, 0.3, -1, 0])
    got = dda(
        origin, direction, module.Float(math.inf), cells(4), vector(0), vector(1), visit,
        dr.zeros(module.UInt, 4), mode=mode,
    )  # fmt: skip
    assert list(got) == [2, 2, 2, 2]


def test_the_end_of_the_ray():
    box = [4, 4], [0, 0], [1, 1]
    assert visited([0.1, 0.1], [1, 1], 0, *box) == []
    assert visited([0.1, 0.1], [1, 1], -1, *box) == []
    assert visited([-1, -1], [1, 1], 0.5, *box) == []
    ((cell, p_in, p_out),) = visited([0.05, 0.1], [1, 0.5], 0.1, *box)
    assert cell == (0, 0)
    np.testing.assert_allclose([p_in, p_out], [[0.2, 0.4], [0.6, 0.6]])


def test_grids_without_cells():
    assert visited([0.1, 0.1], [1, 1], math.inf, [0, 4], [0, 0], [1, 1]) == []


def test_inactive_rays_and_bounds_on_the_number_of_steps():
    box = [4, 4], [0, 0], [1, 1]
    assert visited([0.1, 0.1], [1, 0], math.inf, *box, active=False) == []
    assert len(visited([0.1, 0.1], [1, 0], math.inf, *box, max_iterations=2)) == 2


def test_the_callback_ends_the_traversal():
    def visit(count, index, p_in, p_out, active):
        return count + 1, count < 2

    vector = scalar.Array2f
    box = scalar.Array2u(8), vector(0), vector(1)
    assert dda(vector(0, 0.1), vector(1, 0), math.inf, *box, visit, 0) == 3


def measure(state, index, p_in, p_out, active):
    """Counts cells, adds up lengths, and sums up the numbers of the cells."""
    state["count"] += 1
    state["length"] += dr.norm(p_out - p_in)
    return state | {"sum": state["sum"] + index[0] * 100 + index[1]}, True


@pytest.mark.parametrize("mode", [None, "symbolic", "evaluated"])
@pytest.mark.parametrize("module", [llvm, ad])
def test_many_rays_at_once(mode, module, tier):
    rng = np.random.default_rng(7)
    origin, direction = rng.uniform(-1, 2, (2, 40)), rng.uniform(-1, 1, (2, 40))
    active = rng.uniform(size=40) < 0.8
    vector = module.Array2f64
    start = {"count": module.UInt(0), "length": module.Float64(0), "sum": module.UInt(0)}
    box = module.Array2u(5, 3), vector(0), vector(1)
    rays = vector(origin), vector(direction), module.Float64(math.inf)
    got = dda(*rays, *box, measure, start, module.Bool(active), mode=mode)
    for i in range(40):
        cells = []
        if active[i]:
            cells = expected(origin[:, i], direction[:, i], 100.0, [5, 3], [0, 0], [1, 1])
        assert got["count"][i] == len(cells)
        assert got["sum"][i] == sum(100 * y + x for (y, x), *_ in cells)
        length = sum(np.linalg.norm(b - a) for _, a, b in cells)
        assert got["length"][i] == pytest.approx(length, abs=1e-9)
    # The initial state is as it was.
    assert start["count"][0] == 0


def test_rays_may_stop_one_by_one(tier):
    def visit(count, index, p_in, p_out, active):
        return count + 1, count + 1 < UInt(1, 2, 9)

    got = dda(Array2f(0, 0.1), Array2f(1, 0), math.inf, Array2u(1, 4), 0, 1, visit, UInt(0))
    np.testing.assert_array_equal(got.numpy(), [1, 2, 4])


def test_no_ray_is_active(tier):
    def visit(count, index, p_in, p_out, active):
        return count + 1, True

    got = dda(Array2f([9, 8], 9), Array2f(1, 1), Float(1), Array2u(4), 0, 1, visit, UInt(5))
    np.testing.assert_array_equal(got.numpy(), [5, 5])


@pytest.mark.parametrize(("mode", "calls", "lanes"), [("symbolic", 1, 3), ("evaluated", 0, 1)])
def test_a_mask_of_one_lane_is_that_of_all_rays(mode, calls, lanes, tier):
    found = []

    def visit(count, index, p_in, p_out, active):
        found.append(dr.width(active))
        return count + dr.select(active, 1, 0), Bool(True)

    rays = Array2f([0.1, 0.2, 0.3], 0.1), Array2f(0, 1), Float(math.inf), Array2u(4), 0, 1
    assert list(dda(*rays, visit, UInt(5), Bool(False), mode)) == [5] * lanes
    assert found == [3] * calls
    assert list(dda(*rays, visit, UInt(5), Bool(True), mode)) == [9] * 3


def test_side_effects_with_the_mask(tier):
    hits = dr.zeros(UInt, 16)

    def visit(state, index, p_in, p_out, active):
        dr.scatter_add(hits, UInt(1), index.x * 4 + index.y, active)
        return state, True

    dda(Array2f(0, Float(0.1, 0.6)), Array2f(1, 0), math.inf, Array2u(4), 0, 1, visit, ())
    np.testing.assert_array_equal(hits.numpy().reshape(4, 4), [[1] * 4, [0] * 4, [1] * 4, [0] * 4])


# ---- Integrals


def quadrature(origin, direction, t_max, low, high, volume):
    """The integral of the interpolated volume over the length of the ray within the box."""
    o, d, low, high = (np.array(v, float) for v in (origin, direction, low, high))
    t = [0.0, t_max]
    steps = np.array(volume.shape[::-1]) - 1
    with np.errstate(divide="ignore"):
        a, b = np.sort([(low - o) / d, (high - o) / d], 0)
    start, end = max(0, a.max()), min(t_max, b.min())
    if start >= end:
        return 0.0
    t = [
        (low[i] + (high[i] - low[i]) * k / n - o[i]) / d[i]
        for i, n in enumerate(steps)
        for k in range(n)
    ]

    def value(u):
        p = (o + u * d - low) / (high - low) * steps
        return map_coordinates(volume, p[::-1, None], order=1, mode="nearest")[0]

    cuts = [u for u in t if start < u < end]
    return quad(value, start, end, points=cuts, epsabs=1e-12)[0] * np.linalg.norm(d)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (4, 2, 3)])
@pytest.mark.parametrize("module", [llvm, ad, scalar])
def test_integrals_agree_with_quadrature(shape, module, tier):
    n = len(shape)
    rng = np.random.default_rng(n)
    volume = rng.normal(size=shape)
    low, high = -rng.uniform(1, 2, n), rng.uniform(1, 2, n)
    count = 6
    origin = rng.uniform(-3, 3, (n, count))
    direction = rng.uniform(-1, 1, (n, count)) - origin
    end = rng.uniform(0.5, 3, count)
    vector, tensor = getattr(module, f"Array{n}f64"), module.TensorXf64(volume)
    box = vector(*low), vector(*high), tensor
    if module is scalar:
        got = [
            integrate(vector(*o), vector(*d), t, *box)
            for o, d, t in zip(origin.T.tolist(), direction.T.tolist(), end.tolist(), strict=True)
        ]
    else:
        got = integrate(vector(origin), vector(direction), module.Float64(end), *box).numpy()
    want = [
        quadrature(origin[:, i], direction[:, i], end[i], low, high, volume) for i in range(count)
    ]
    np.testing.assert_allclose(got, want, atol=1e-9)


def rays_through_a_volume(shape):
    """Texels between -1 and 1.5, and the origins and directions of five rays."""
    n = len(shape)
    rng = np.random.default_rng(10 + n)
    volume = rng.normal(size=shape)
    origin = rng.uniform(-2, 2, (n, 5))
    direction = rng.uniform(-1, 1, (n, 5)) - origin
    direction[0, 4] = 0  # along the other axes
    return volume, origin, direction


@pytest.mark.parametrize("shape", [(5,), (3, 4), (4, 2, 3)])
def test_the_midpoint_rule_comes_near_the_integral(shape, tier):
    volume, *ray = rays_through_a_volume(shape)
    vector = getattr(llvm, f"Array{len(shape)}f64")
    args = *map(vector, ray), llvm.Float64(1.5), vector(-1), vector(1.5), llvm.TensorXf64(volume)
    np.testing.assert_allclose(integrate_ref(*args, 300), integrate(*args), atol=2e-3)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (4, 2, 3)])
def test_the_midpoint_rule_of_single_rays(shape):
    volume, origin, direction = rays_through_a_volume(shape)
    vector = getattr(scalar, f"Array{len(shape)}f64")
    box = vector(-1), vector(1.5), scalar.TensorXf64(volume)
    for o, d in zip(origin.T.tolist(), direction.T.tolist(), strict=True):
        ray = vector(*o), vector(*d), 1.5
        got, want = integrate_ref(*ray, *box, 300), integrate(*ray, *box)
        np.testing.assert_allclose(got, want, atol=2e-3)


def gradients(count):
    """A volume, rays, and the gradients of their integrals, with respect to the volume and to the
    origins, by finite differences."""
    rng = np.random.default_rng(3)
    volume = rng.normal(size=(4, 5, 3))
    origin = rng.uniform(-2, 2, (3, count))
    direction = rng.uniform(-1, 1, (3, count)) - origin

    def total(volume, origin):
        ray = llvm.Array3f64(origin), llvm.Array3f64(direction), llvm.Float64(10)
        box = llvm.Array3f64(-1), llvm.Array3f64(1)
        return integrate(*ray, *box, llvm.TensorXf64(volume)).numpy().sum()

    found = []
    for k, of in enumerate((volume, origin)):
        slope = np.zeros_like(of)
        for place in np.ndindex(of.shape):
            both = []
            for h in (1e-6, -1e-6):
                changed = [volume, origin]
                changed[k] = of.copy()
                changed[k][place] += h
                both.append(total(*changed))
            slope[place] = (both[0] - both[1]) / 2e-6
        found.append(slope)
    return volume, origin, direction, found


def test_gradients_of_integrals():
    volume, origin, direction, (by_volume, by_origin) = gradients(7)
    v, o = ad.TensorXf64(volume), ad.Array3f64(origin)
    dr.enable_grad(v, o)
    box = ad.Array3f64(-1), ad.Array3f64(1)
    dr.backward(integrate(o, ad.Array3f64(direction), ad.Float64(10), *box, v))
    np.testing.assert_allclose(v.grad.numpy(), by_volume, atol=1e-7)
    np.testing.assert_allclose(np.array(o.grad), by_origin, atol=1e-6)


def test_axes_with_a_single_entry_and_single_precision(tier):
    box = Array2f(0), Array2f(1)
    got = integrate(Array2f(-1, 0.5), Array2f(1, 0), Float(math.inf), *box, TensorXf([[1, 2]]))
    assert got.numpy() == pytest.approx(1.5)
    got = integrate(Array2f(0, 0), Array2f(2, 0), Float(0.25), *box, TensorXf([[0, 1], [5, 6]]))
    assert got.numpy() == pytest.approx(0.125)


def test_inactive_rays_give_zero():
    ray = Array2f(0), Array2f(1, 0), math.inf, Array2f(0), Array2f(1), TensorXf([[1, 1], [1, 1]])
    got = integrate(*ray, active=Bool(True, False))
    np.testing.assert_allclose(got.numpy(), [1, 0])


# ---- Bad input


def nothing(state, index, p_in, p_out, active):
    return state, True


START, WAY = Array2f(0), Array2f(1)
V = TensorXf([[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("error", "call", "message"),
    [
        (
            TypeError,
            lambda: dda(Float(0), Float(1), 1, 4, 0, 1, nothing, 0),
            "floating-point vectors",
        ),
        (
            TypeError,
            lambda: dda(Array3f(0), WAY, 1, Array3u(4), 0, 1, nothing, 0),
            "different sizes",
        ),
        (TypeError, lambda: dda(Array2u(0), Array2u(1), 1, 4, 0, 1, nothing, 0), "floating-point"),
        (TypeError, lambda: dda("x", WAY, 1, 4, 0, 1, nothing, 0), "unsupported argument"),
        (
            TypeError,
            lambda: dda(START, WAY, 1, Array3u(4), 0, 1, nothing, 0),
            "'grid_res' must be 2",
        ),
        (TypeError, lambda: dda(START, WAY, 1, [4], 0, 1, nothing, 0), "'grid_res' must be 2"),
        (TypeError, lambda: dda(START, WAY, 1, 4.5, 0, 1, nothing, 0), "'grid_res' must be 2"),
        (TypeError, lambda: dda(START, WAY, WAY, 4, 0, 1, nothing, 0), "'ray_max' must be"),
        (
            TypeError,
            lambda: dda(START, WAY, 1, 4, 0, 1, lambda *a: None, 0),
            "must return the state",
        ),
        (RuntimeError, lambda: dda(START, WAY, 1, 4, 0, 1, nothing, 0, mode="x"), "unknown mode"),
        (TypeError, lambda: integrate(START, WAY, 1, 0, 1, TensorXf([1, 2])), "with 2 axes"),
        (
            TypeError,
            lambda: integrate(START, WAY, 1, 0, 1, TensorXf64(V)),
            "'vol' must be a tensor",
        ),
        (TypeError, lambda: integrate(START, WAY, 1, 0, 1, Float(1)), "'vol' must be a tensor"),
        (
            RuntimeError,
            lambda: integrate(START, WAY, 1, 0, 1, dr.zeros(TensorXf, (0, 2))),
            "is empty",
        ),
        (RuntimeError, lambda: integrate(START, WAY, 1, 0, 1, V, mode="x"), "unknown mode"),
        (ValueError, lambda: integrate_ref(START, WAY, 1, 0, 1, V, 0), "must be positive"),
        (TypeError, lambda: integrate_ref(START, WAY, 1, 0, 1, TensorXf(1), 2), "with 2 axes"),
    ],
)
def test_wrong_arguments_are_refused(error, call, message):
    with pytest.raises(error, match=message):
        call()

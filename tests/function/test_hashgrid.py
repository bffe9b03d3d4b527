"""Hash encodings: values and derivatives against a NumPy version of their definition, tables,
parameters, and bad input."""

import math

import numpy as np
import pytest
from helpers import named

import drjit as dr
from drjit import nn
from drjit.hashgrid import (
    HashEncoding,
    HashGridEncoding,
    PermutoEncoding,
    cosine_ramp,
    div_round_up,
    next_multiple,
)
from drjit.llvm import ad
from drjit.llvm.ad import (
    Array2f,
    Array2u,
    Array3f,
    ArrayXf,
    ArrayXf16,
    ArrayXf64,
    Bool,
    Float,
    Float16,
    Float64,
    TensorXf,
    TensorXf16,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*number of features per level:RuntimeWarning")

CLASSES = [HashGridEncoding, PermutoEncoding]
VECTORS = {Float16: ArrayXf16, Float: ArrayXf, Float64: ArrayXf64}
SMALL = {"n_levels": 4, "base_resolution": 4, "per_level_scale": 1.5, "hashmap_size": 300}
SETTINGS = [
    {},
    {"align_corners": True},
    {"align_corners": True, "torchngp_compat": True},
    {"smooth_weight_gradients": True},
    {"smooth_weight_gradients": True, "smooth_weight_lambda": 0.3, "align_corners": True},
    {"n_features_per_level": 1},
    {"n_features_per_level": 3},
    {"n_features_per_level": 4},
    {"n_features_per_level": 20, "n_levels": 1},
    {"base_resolution": 7, "per_level_scale": 1.31},
    {"n_levels": 1},
    {"per_level_scale": 1},
    {"per_level_scale": 0.7},
    {"n_levels": 6, "hashmap_size": 600},
]


# The definition, in float64. A vertex is a table entry, a weight, and the derivatives of the weight
# by the components of the position.


def entries(enc, coordinates, number):
    """Table entries of integer coordinates, an array of shape (dimension, N)."""
    settings = enc.base_resolution * enc.per_level_scale**number
    resolution = round(settings) if abs(settings - round(settings)) < 1e-9 else math.ceil(settings)
    first, last = enc.level_offset(number), enc.level_offset(number + 1)
    total = [0] * coordinates.shape[1]
    hashed = resolution**enc.dimension > enc.hashmap_size
    primes = [1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737]
    for lane in range(coordinates.shape[1]):
        value = 0
        for i, k in enumerate(coordinates[:, lane].tolist()):
            k %= 1 << 32
            if not hashed:
                value += k * resolution**i
            elif isinstance(enc, HashGridEncoding):
                value ^= k * primes[i] % (1 << 32)
            else:
                value = (value + k) * 2531011
        total[lane] = value % (1 << 32) % (last - first) + first
    return np.array(total, dtype=np.int64)


def corners(fraction):
    """Corners of a cell, the weights of the multilinear interpolant, and their derivatives."""
    dims, lanes = fraction.shape
    for number in range(2**dims):
        corner = np.array([number >> i & 1 for i in range(dims)])[:, None]
        factors = np.where(corner, fraction, 1 - fraction)
        others = [np.prod(np.delete(factors, i, 0), axis=0) for i in range(dims)]
        yield np.repeat(corner, lanes, 1), factors.prod(0), (2 * corner - 1) * np.array(others)


def simplex(fraction):
    """The same for the simplex of a position."""
    dims, lanes = fraction.shape
    order = np.argsort(-fraction, axis=0, kind="stable")
    ordered = np.take_along_axis(fraction, order, 0)
    bounds = np.concatenate([np.ones((1, lanes)), ordered, np.zeros((1, lanes))])
    for number in range(dims + 1):
        rank = np.argsort(order, axis=0)
        slopes = (rank == number - 1).astype(float) - (rank == number)
        yield (rank < number).astype(int), bounds[number] - bounds[number + 1], slopes


def definition(enc, position, params, seeds):
    """Features, and the gradients of `sum(seeds * features)` by position and parameters."""
    count = enc.n_features_per_level
    rows = params.astype(float).reshape(-1, count)
    features, slopes, sums = [], np.zeros_like(position), np.zeros_like(rows)
    compatible = enc.torchngp_compat and isinstance(enc, HashGridEncoding)
    half = 0 if enc.align_corners and not compatible else 0.5
    for number in range(enc.n_levels):
        scale = enc.base_resolution * enc.per_level_scale**number - 1
        scaled = position * scale + half
        cell = np.floor(scaled).astype(int)
        around = corners if isinstance(enc, HashGridEncoding) else simplex
        total, seed = 0, seeds[number * count : (number + 1) * count]
        for step, weight, slope in around(scaled - cell):
            index = entries(enc, cell + step, number)
            total = total + weight * rows[index].T
            np.add.at(sums, index, (weight * seed).T)
            if enc.smooth_weight_gradients:
                share = enc.smooth_weight_lambda * np.pi / 2
                slope = slope * (1 + share * np.sin(np.pi * weight))
            slopes += scale * slope * (seed * rows[index].T).sum(0)
        features.append(total)
    return np.concatenate(features), slopes, sums.ravel()


def example(cls, dtype, dimension, lanes, seed=0, low=0.0, high=1.0, **settings):
    """An encoding, positions in general position, and seeds for its features."""
    enc = cls(dtype, dimension, init_scale=1, rng=dr.rng(seed), **(SMALL | settings))
    random = np.random.default_rng(seed)
    position = random.uniform(low, high, (dimension, lanes)).astype(np.float32)
    return enc, position, random.uniform(-1, 1, (enc.n_output_features, lanes))


def differentiated(enc, position, seeds, vector=ArrayXf):
    """Features and gradients as `definition` gives them."""
    x, params = vector(position), enc.dtype(enc.params)
    dr.enable_grad(x, params)
    enc.params = params
    features = enc(x)
    dr.backward(dr.sum(dr.sum(features * type(features)(seeds))))
    results = dr.detach(features), dr.grad(x), dr.grad(params)
    dr.eval(results)
    enc.params = dr.detach(params)
    return [np.array(v, dtype=float) for v in results]


def check(enc, position, seeds, tolerance, vector=ArrayXf):
    params = np.array(enc.params)
    expected = definition(enc, position.astype(float), params, seeds)
    for found, right in zip(differentiated(enc, position, seeds, vector), expected, strict=True):
        np.testing.assert_allclose(found, right, atol=tolerance * (1 + np.abs(right).max()))


# Values and derivatives


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6])
@pytest.mark.compiled_every(3)
def test_all_dimensions(tier, cls, dimension):
    enc, position, seeds = example(cls, Float, dimension, 17, n_levels=4 if dimension < 4 else 2)
    check(enc, position, seeds, 1e-5)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.compiled_every(5)
def test_all_settings(tier, cls, settings):
    enc, position, seeds = example(cls, Float, 2, 33, **settings)
    check(enc, position, seeds, 1e-5)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("lanes", [1, 15, 16, 17, 1000])
def test_all_sizes(tier, cls, lanes):
    enc, position, seeds = example(cls, Float, 3, lanes)
    check(enc, position, seeds, 1e-5)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("dtype", "position_type", "tolerance"),
    [
        (Float16, ArrayXf, 3e-3),
        (Float16, ArrayXf16, 3e-3),
        (Float, ArrayXf16, 1e-2),
        (Float64, ArrayXf64, 1e-13),
        (Float64, ArrayXf, 1e-13),
        (Float, ArrayXf64, 1e-6),
    ],
)
@pytest.mark.compiled_every(5)
def test_all_precisions(tier, cls, dtype, position_type, tolerance):
    enc, position, seeds = example(cls, dtype, 3, 65)
    position = np.array(position_type(position))
    seeds = np.array(VECTORS[dtype](seeds), dtype=float)
    check(enc, position, seeds, tolerance, position_type)
    assert type(enc(position_type(position))) is VECTORS[dtype]


@pytest.mark.parametrize("cls", CLASSES)
def test_derivatives_against_differences(cls):
    enc, position, seeds = example(cls, Float64, 3, 9)
    step = 1e-6

    def loss(x, params):
        enc.params = Float64(params)
        return np.sum(seeds * np.array(enc(ArrayXf64(x))))

    params, position = np.array(enc.params), position.astype(float)
    _, by_position, by_params = differentiated(enc, position, seeds, ArrayXf64)
    random = np.random.default_rng(1)
    along = random.uniform(-1, 1, position.shape)
    difference = loss(position + step * along, params) - loss(position - step * along, params)
    assert difference / (2 * step) == pytest.approx(np.sum(along * by_position), abs=1e-6)
    along = random.uniform(-1, 1, params.shape)
    difference = loss(position, params + step * along) - loss(position, params - step * along)
    assert difference / (2 * step) == pytest.approx(np.sum(along * by_params), abs=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.compiled_every(3)
def test_forward_mode_is_the_transpose_of_reverse_mode(tier, cls, smooth):
    enc, position, seeds = example(cls, Float64, 2, 17, smooth_weight_gradients=smooth)
    _, by_position, by_params = differentiated(enc, position, seeds, ArrayXf64)
    random = np.random.default_rng(2)
    tangents = random.uniform(-1, 1, position.shape), random.uniform(-1, 1, enc.n_params)
    x, params = ArrayXf64(position), Float64(enc.params)
    dr.enable_grad(x, params)
    enc.params = params
    dr.set_grad(x, ArrayXf64(tangents[0]))
    dr.set_grad(params, Float64(tangents[1]))
    found = np.sum(seeds * np.array(dr.forward_to(enc(x))))
    expected = np.sum(tangents[0] * by_position) + np.sum(tangents[1] * by_params)
    assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("cls", CLASSES)
def test_positions_outside_of_the_unit_cube(tier, cls):
    enc, position, seeds = example(cls, Float, 2, 65, low=-3.0, high=4.0)
    check(enc, position, seeds, 1e-5)


@pytest.mark.parametrize("cls", CLASSES)
def test_vertices_have_the_features_of_their_entries(tier, cls):
    enc = cls(Float, 2, n_levels=1, base_resolution=4, align_corners=True)
    enc.params = dr.arange(Float, 32)
    x, y = np.meshgrid(np.arange(4), np.arange(4))
    found = np.array(enc(ArrayXf(np.array([x.ravel(), y.ravel()]) / 3)))
    np.testing.assert_allclose(found, np.arange(32).reshape(16, 2).T, atol=1e-5)


@pytest.mark.parametrize("cls", CLASSES)
def test_features_are_continuous_where_fractions_are_equal(cls):
    enc, _, _ = example(cls, Float64, 3, 1)
    at = np.array(enc([Float64(0.3)] * 3))
    for shift in np.eye(3) * 1e-9:
        near = np.array(enc([Float64(0.3 + s) for s in shift]))
        np.testing.assert_allclose(near, at, atol=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
def test_masked_lanes_give_zero_and_take_no_gradient(tier, cls):
    enc, position, seeds = example(cls, Float, 2, 17)
    active = np.arange(17) % 3 != 0
    x, params = ArrayXf(position), Float(enc.params)
    dr.enable_grad(x, params)
    enc.params = params
    features = enc(x, Bool(active))
    dr.backward(dr.sum(dr.sum(features * ArrayXf(seeds))))
    right = definition(enc, position.astype(float), np.array(params), seeds * active)
    np.testing.assert_allclose(np.array(dr.detach(features)), right[0] * active, atol=1e-5)
    np.testing.assert_allclose(np.array(params.grad), right[2], atol=1e-4)
    np.testing.assert_allclose(np.array(dr.grad(x)), right[1], atol=1e-3)
    assert not np.array(dr.detach(enc(x, active=False))).any()


@pytest.mark.parametrize("cls", CLASSES)
def test_forms_of_a_position(cls):
    enc = cls(Float, 2, n_levels=2, init_scale=1)
    expected = np.array(enc(Array2f(0.25, 0.5)))
    for position in (
        [0.25, 0.5],
        (Float(0.25), 0.5),
        TensorXf([[0.25], [0.5]]),
        np.array([0.25, 0.5]),
        dr.llvm.Array2f(0.25, 0.5),
        dr.scalar.Array2f(0.25, 0.5),
        nn.CoopVec(Float(0.25), 0.5),
    ):
        np.testing.assert_array_equal(np.array(enc(position)), expected)
    line = cls(Float, 1, n_levels=2)
    np.testing.assert_array_equal(
        np.array(line(Float(0.1, 0.2))), np.array(line([Float(0.1, 0.2)]))
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_empty_positions(tier, cls):
    enc = cls(Float16, 2, n_levels=2)
    assert dr.shape(enc(Array2f(Float(), Float()))) == (4, 0)


@pytest.mark.parametrize("cls", CLASSES)
def test_derivatives_by_position_need_no_differentiable_parameters(cls):
    enc = cls(dr.llvm.Float, 2, n_levels=2, init_scale=1)
    plain = enc(dr.llvm.Array2f(0.3, 0.6))
    assert type(plain) is dr.llvm.ArrayXf
    x = Array2f(0.3, 0.6)
    dr.enable_grad(x)
    features = enc(x)
    np.testing.assert_array_equal(np.array(dr.detach(features)), np.array(plain))
    dr.backward(dr.sum(features))
    assert np.abs(np.array(x.grad)).min() > 0


def test_nan_is_not_an_index(tier):
    for cls in CLASSES:
        enc = cls(Float, 2, n_levels=2)
        assert np.isnan(np.array(enc(Array2f([dr.nan, dr.inf], 0.5)))).all()


# Tables


@pytest.mark.parametrize(
    ("dimension", "settings", "offsets"),
    [
        (2, {"n_levels": 8, "per_level_scale": 1.5},
         [0, 256, 832, 2128, 5044, 11606, 26490, 59980, 135056]),
        (3, {"n_levels": 3}, [0, 4096, 36864, 299008]),
        (3, {"n_levels": 3, "hashmap_size": 1000}, [0, 1000, 2000, 3000]),
        (2, {"n_levels": 4, "base_resolution": 5}, [0, 26, 126, 526, 2126]),
        (2, {"n_levels": 4, "base_resolution": 1}, [0, 2, 6, 22, 86]),
        (2, {"n_levels": 4, "per_level_scale": 0.5}, [0, 256, 320, 336, 340]),
        (2, {"n_features_per_level": 6, **SMALL, "hashmap_size": 600}, [0, 18, 54, 138, 336]),
        (2, {"n_features_per_level": 1, **SMALL}, [0, 16, 52, 133, 329]),
        (1, {"n_levels": 4, "per_level_scale": 2 ** (1 / 3)}, [0, 16, 38, 64, 96]),
        (1, {"n_levels": 6, "per_level_scale": 3}, [0, 16, 64, 210, 644, 1942, 5832]),
        (1, {"n_levels": 5, "per_level_scale": 6, "base_resolution": 8},
         [0, 8, 56, 344, 2072, 12440]),
        (1, {"n_levels": 4, "per_level_scale": 2.5, "base_resolution": 8}, [0, 8, 28, 80, 206]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cls", CLASSES)
def test_sizes_of_tables(cls, dimension, settings, offsets):
    enc = cls(Float16, dimension, **settings)
    assert [enc.level_offset(i) for i in range(enc.n_levels + 1)] == offsets
    assert enc.n_params == len(enc.params) == offsets[-1] * enc.n_features_per_level
    assert enc.n_output_features == enc.n_levels * enc.n_features_per_level


def test_hash_values():
    grid, permuto = (cls(Float, 3, n_levels=1) for cls in CLASSES)
    assert list(grid.hash([3, 4, 5])) == [2295747374]
    assert list(permuto.hash([3, 4, 5])) == [528262916]
    assert list(permuto.hash([0, 0, -1])) == [(1 << 32) - 2531011]
    assert list(HashGridEncoding(Float, 2, n_levels=1).hash(Array2u(3, 4))) == [2027808455]
    wide = PermutoEncoding(Float, 9, n_levels=1)
    assert list(wide.hash(range(3, 12))) == [2308488405]


def test_indexing():
    keys = Array2u([0, 1, 0, 5, 100], [0, 0, 1, 7, 100])
    enc = HashGridEncoding(Float, 2, n_levels=8, per_level_scale=1.5)
    assert list(enc.indexing_function(keys, 4)) == [5044, 5045, 5125, 5616, 6682]
    enc = HashGridEncoding(Float, 2, n_levels=8, per_level_scale=1.5, hashmap_size=1000)
    assert list(enc.indexing_function(keys, 2)) == [832, 833, 1593, 970, 904]
    permuto = PermutoEncoding(Float, 2, n_levels=8, per_level_scale=1.5, hashmap_size=1000)
    assert list(permuto.indexing_function(keys, 2)) == [832, 1617, 843, 1242, 1336]


# Parameters


@pytest.mark.parametrize("dtype", [Float16, Float, Float64])
def test_initial_parameters(dtype):
    enc = HashGridEncoding(dtype, 2, n_levels=2, init_scale=0.3, rng=dr.rng(5))
    numbers = np.array(dr.rng(5).random(dtype, enc.n_params))
    scale = np.array(0.6, numbers.dtype), np.array(0.3, numbers.dtype)
    np.testing.assert_array_equal(np.array(enc.params), numbers * scale[0] - scale[1])
    assert type(enc.params) is dtype


def test_initial_parameters_are_those_of_the_default_generator():
    enc = HashGridEncoding(TensorXf, 2, n_levels=2)
    np.testing.assert_allclose(
        np.array(enc.params)[:3], [-3.79302e-05, 1.51051e-05, 5.62918e-05], rtol=1e-5
    )
    assert enc.dtype is Float
    assert not dr.grad_enabled(enc.params)


def test_parameters_follow_an_optimizers_copy():
    enc = HashGridEncoding(Float16, 2, n_levels=2)
    layer = nn.HashEncodingLayer(enc)
    copy = Float(enc.params)
    dr.enable_grad(copy)
    before = enc.params
    enc.params[:] = Float16(copy)
    assert enc.params is before
    dr.backward(dr.sum(Float(dr.sum(enc([0.1, 0.2])))))
    assert dr.sum(copy.grad)[0] == pytest.approx(4, rel=1e-2)
    enc.params[:] = 3
    np.testing.assert_array_equal(np.array(layer.data), np.full(enc.n_params, 3))


def test_assignment_converts():
    enc = PermutoEncoding(Float16, 2, n_levels=2)
    for values in (dr.full(Float, 2, enc.n_params), dr.full(TensorXf, 2, enc.n_params)):
        enc.params = values
        assert type(enc.params) is Float16
        assert np.all(np.array(enc([0.3, 0.1])) == 2)
    enc.set_params(dr.zeros(Float16, enc.n_params))
    assert not np.array(enc(Array2f([0.3, 0.1], 0.5))).any()


# Representation and errors


GRID_TEXT = named("""HashGrid(
    dtype=<class 'drjit.llvm.ad.Float16'>,
    dimension=2,
    hashmap_size=524288,
    n_levels=8,
    n_features_per_level=2,
    base_resolution=16,
    per_level_scale=1.5,
    align_corners=False,
    torchngp_compat=False,
    smooth_weight_gradients=False,
    smooth_weight_lambda=1.0
)""")


def test_printing():
    settings = {"n_levels": 8, "per_level_scale": 1.5}
    assert str(HashGridEncoding(Float16, 2, **settings)) == GRID_TEXT
    expected = GRID_TEXT.replace("HashGrid", "PermutoEncoding")
    expected = expected.replace("    torchngp_compat=False,\n", "")
    enc = PermutoEncoding(Float16, 2, **settings)
    assert str(enc) == str(nn.HashEncodingLayer(enc)) == expected


def test_helpers():
    assert [div_round_up(n, 8) for n in (0, 1, 8, 9)] == [0, 1, 1, 2]
    assert [next_multiple(n, 8) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
    x = np.linspace(0, 1, 7)
    np.testing.assert_allclose(
        np.array(cosine_ramp(Float64(x))), (1 - np.cos(np.pi * x)) / 2, atol=1e-15
    )
    assert cosine_ramp(0.25) == pytest.approx(0.5 - math.sqrt(0.125))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((int, 2), TypeError, "'dtype' must be a floating point array type"),
        ((ad.UInt, 2), TypeError, r"such as drjit\.\w+\.ad\.Float16"),
        ((dr.scalar.ArrayXf, 2), TypeError, "JIT backend"),
        ((Float, 2.0), TypeError, "'dimension' must be an integer, not 2.0"),
        ((Float, 0), ValueError, "dimension=0 must be positive"),
        ((Float, 2, {"n_levels": 0}), ValueError, "n_levels=0"),
        ((Float, 2, {"hashmap_size": 1001}), ValueError, "such as 1002"),
        ((Float, 2, {"per_level_scale": 0}), ValueError, "positive and finite"),
        ((Float, 2, {"per_level_scale": "2"}), TypeError, "must be a number, not '2'"),
        ((Float, 2, {"per_level_scale": 1e9}), ValueError, "level 1 too fine"),
        ((Float, 2, {"n_levels": 40}), ValueError, "resolutions must be below 2[*][*]31"),
        ((Float, 3, {"hashmap_size": 1 << 30, "base_resolution": 4096}), ValueError, "too many"),
        ((Float, 2, {"rng": 3}), TypeError, "as dr.rng\\(\\) makes one"),
    ],
)
@pytest.mark.parametrize("cls", CLASSES)
def test_bad_settings(cls, arguments, error, text):
    dtype, dimension, *settings = arguments
    with pytest.raises(error, match=f"{cls.__name__}.*{text}"):
        cls(dtype, dimension, **(settings[0] if settings else {}))


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda e: e(Array3f(1)), RuntimeError, "got 3 components, .* has dimension 2"),
        (lambda e: e(Float(1, 2)), RuntimeError, "got 1 component, .* has dimension 2"),
        (lambda e: e([]), RuntimeError, "got 0 components"),
        (lambda e: e(5), TypeError, "a sequence of arrays or numbers, got int"),
        (lambda e: e(TensorXf(np.ones((2, 3, 4)))), TypeError, "component 0 .* 2 dimensions"),
        (lambda e: e([1, "a"]), TypeError, "cannot convert a value of type str"),
        (lambda e: e(Array2f([1, 2], 3), Bool([True] * 3)), RuntimeError, "sizes"),
        (lambda e: e(Array2f(1), "no"), TypeError, "'active'"),
        (lambda e: e.set_params(3), TypeError, "array of type drjit.llvm.ad.Float, got int"),
        (lambda e: e.set_params(Float(1, 2)), RuntimeError, "2560 parameters, got 2"),
        (lambda e: e.set_params(ad.UInt(1)), TypeError, "got drjit.llvm.ad.UInt"),
        (lambda e: e.level_offset(3), IndexError, "no level 3, .* 0 to 1"),
        (lambda e: e.level_offset(-1), IndexError, "no level -1"),
        (lambda e: e.indexing_function([1, 2], 2), IndexError, "no level 2"),
        (lambda e: e.indexing_function([1, 2, 3], 0), RuntimeError, "got 3 components"),
        (lambda e: e.hash([1.5, 2]), TypeError, "coordinates must be integers, got float"),
    ],
)
@pytest.mark.parametrize("cls", CLASSES)
def test_bad_use(cls, use, error, text):
    enc = cls(Float, 2, n_levels=2)
    before = np.array(enc.params)
    with pytest.raises(error, match=text):
        use(enc)
    np.testing.assert_array_equal(np.array(enc.params), before)


def test_grids_of_many_dimensions_cannot_be_hashed():
    with pytest.raises(ValueError, match="dimension=8 no level can be hashed"):
        HashGridEncoding(Float, 8, n_levels=2)
    dense = HashGridEncoding(Float, 8, n_levels=1, base_resolution=2, init_scale=1)
    assert np.isfinite(np.array(dense([0.5] * 8))).all()
    with pytest.raises(IndexError, match="up to 7 coordinates, got 8"):
        dense.hash(range(8))


def test_the_base_class_has_no_hash():
    enc = HashEncoding(Float, 2, n_levels=1)
    assert enc.n_params == 512
    with pytest.raises(NotImplementedError, match="HashEncoding"):
        enc.hash([1, 2])


# As part of a network


def network(enc):
    return nn.Sequential(
        nn.HashEncodingLayer(enc), nn.Cast(Float16), nn.Linear(-1, 16, bias=False), nn.ReLU(),
        nn.Linear(-1, 3), prefix="mlp",
    )  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("lanes", [1, 17])
@pytest.mark.compiled_every(3)
def test_a_network_gives_the_same_in_both_modes(tier, cls, lanes):
    enc = cls(Float16, 2, n_levels=2, init_scale=1)
    net = network(enc).alloc(TensorXf16, 2, rng=dr.rng(1))
    assert list(net) == ["mlp.layers.2.weights", "mlp.layers.4.weights", "mlp.layers.4.bias"]
    packed = nn.pack(net, layout="training")
    assert list(packed) == ["mlp.weights"]
    assert packed.layers[0].encoding is enc
    position = np.random.default_rng(0).random((2, lanes)).astype(np.float32)
    found = []
    for evaluate in (
        lambda x: TensorXf(net(TensorXf(x))),
        lambda x: TensorXf(Array3f(packed(nn.CoopVec(x)))),
    ):
        copy, x = Float(enc.params), Array2f(position)
        dr.enable_grad(copy, x)
        enc.params[:] = Float16(copy)
        out = evaluate(x)
        assert out.shape == (3, lanes)
        dr.backward(dr.sum(dr.square(out), axis=None))
        results = dr.detach(out), copy.grad, dr.grad(x)
        dr.eval(results)
        found.append([np.array(v) for v in results])
        enc.params = dr.detach(enc.params)
    for tensor_mode, vector_mode in zip(*found, strict=True):
        assert np.abs(tensor_mode).max() > 0
        np.testing.assert_allclose(vector_mode, tensor_mode, rtol=0.02, atol=0.02)


def test_the_layer_gives_vectors_for_other_positions():
    layer = nn.HashEncodingLayer(HashGridEncoding(Float16, 2, n_levels=3))
    for position in (Array2f(0.1, 0.2), [Float(0.1), 0.2], nn.CoopVec(Float(0.1), 0.2)):
        out = layer(position)
        assert isinstance(out, nn.CoopVec)
        assert (len(out), out.type) == (6, Float16)


def test_the_layer_is_no_parameter():
    layer = nn.HashEncodingLayer(HashGridEncoding(Float16, 2, n_levels=3))
    assert dict(layer) == {}
    assert layer.alloc(TensorXf16, 2).encoding is layer.encoding
    with pytest.raises(ValueError, match="dimension 2, but the input has 3 features"):
        layer.alloc(TensorXf16, 3)
    with pytest.raises(TypeError, match=r"HashGridEncoding\(\), got drjit.nn.Linear"):
        nn.HashEncodingLayer(nn.Linear(2, 2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cls", [HashGridEncoding, PermutoEncoding])
def test_an_odd_number_of_features_per_level_is_warned_about(cls):
    for count in (1, 5):
        with pytest.warns(RuntimeWarning, match=rf"a multiple of 2, but it was {count}\."):
            cls(Float16, 2, n_features_per_level=count, hashmap_size=5 * 2**14)
    cls(Float16, 2, n_features_per_level=2)
    cls(Float16, 2, n_features_per_level=4)

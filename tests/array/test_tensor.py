"""Tensors against NumPy: construction, broadcasting, indexing, reductions, and changes of shape."""

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit.cpu import variants
from drjit.jit.target.simd import llvm
from drjit.jit.target.simd.ir import Machine
from drjit.llvm import (
    Array3f,
    Bool,
    Float,
    Int,
    Matrix2f,
    TensorXb,
    TensorXf,
    TensorXf16,
    TensorXi,
    TensorXu,
    UInt,
)

SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 1, 4), (0, 3), (2, 0, 3), (4, 3, 2, 5), (17, 33)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def data(shape, dtype=np.float32):
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * 7 % 23 - 5).astype(dtype)


def same(found, expected):
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


# Construction and conversion


def test_flipped_axes():
    a = Array3f([1, 2], [3, 4], [5, 6])
    same(TensorXf(a), [[1, 2], [3, 4], [5, 6]])
    same(TensorXf(a, flip_axes=True), [[1, 3, 5], [2, 4, 6]])
    assert TensorXf(Matrix2f(1, 2, 3, 4), flip_axes=True).shape == (1, 2, 2)
    back = Array3f(TensorXf(a, flip_axes=True), flip_axes=True)
    np.testing.assert_array_equal(back.numpy(), a.numpy())
    with pytest.raises(TypeError, match="flip_axes"):
        TensorXf(Float(1, 2), (2,), flip_axes=True)


@shapes
def test_round_trip_through_numpy(shape, tier):
    same(TensorXf(data(shape)), data(shape))
    same(TensorXf(data(shape).tolist()) if shape == (2, 3) else TensorXf(data(shape)), data(shape))


def test_nested_arrays_and_back():
    t = TensorXf(data((3, 4)))
    np.testing.assert_array_equal(Array3f(t).numpy(), data((3, 4)))
    same(TensorXf(Array3f(t)), data((3, 4)))


@given(shapes=npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4, min_side=0))
@settings(max_examples=40)
def test_broadcasting(shapes):
    a, b = (data(s) for s in shapes.input_shapes)
    same(TensorXf(a) + TensorXf(b), a + b)
    same(TensorXf(a) < TensorXf(b), a < b)


def test_shapes_that_do_not_broadcast():
    with pytest.raises(RuntimeError, match=r"\(2, 3\) and \(2,\)"):
        TensorXf(data((2, 3))) + TensorXf([1, 2])


# Indexing


def as_key(key, namespace):
    if isinstance(key, np.ndarray):
        return namespace.TensorXb(key) if key.dtype == bool else namespace.TensorXi(key)
    return tuple([as_key(k, namespace) for k in key]) if isinstance(key, tuple) else key


def integers_first(a, key):
    """A view of an array that the integers of a key give, and the rest of the key. Other than in
    NumPy, integers do not count as arrays beside index arrays.
    """
    first, rest = [], []
    for k in key if isinstance(key, tuple) else (key,):
        if k is not None and k is not ... and not isinstance(k, slice) and np.ndim(k) == 0:
            first.append(int(k))
            continue
        rest.append(k)
        if k is not None:
            is_mask = isinstance(k, np.ndarray) and k.dtype == bool
            first += [...] if k is ... else [slice(None)] * (k.ndim if is_mask else 1)
    whole = [] if any(k is ... for k in first) else [...]
    return a[(*first, *whole)], rest


@st.composite
def indexed(draw):
    shape = draw(npst.array_shapes(min_dims=1, max_dims=4, max_side=4))
    common = draw(npst.array_shapes(min_dims=1, max_dims=2, max_side=3))
    key, axis, ellipsis = [], 0, False
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "none", "array", "mask", "ellipsis", "stop"]))
        if kind == "stop" and not ellipsis:
            break
        if kind == "none" and sum(k is None for k in key) < 2:
            key.append(None)
        if kind == "ellipsis" and not ellipsis:
            key.append(...)
            ellipsis = True
            axis += draw(st.integers(0, len(shape) - axis))
        if kind in ("stop", "none", "ellipsis"):
            continue
        if kind == "int":
            key.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            ends = st.one_of(st.none(), st.integers(-5, 5))
            key.append(slice(draw(ends), draw(ends), step))
        elif kind == "array":
            entries = st.integers(-n, n - 1)
            key.append(draw(npst.arrays(np.int32, common, elements=entries)))
        elif any(isinstance(k, np.ndarray) for k in key):
            continue
        else:
            key.append(draw(npst.arrays(bool, (n,))))
        axis += 1
    return shape, tuple(key)


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
@given(case=indexed())
@settings(max_examples=60)
def test_keys_are_those_of_numpy(tier, namespace, case):
    shape, key = case
    a = data(shape)
    view, rest = integers_first(a, key)
    try:
        expected = view[tuple(rest)]
    except IndexError:  # a mask whose count does not go with index arrays
        return
    t = namespace.TensorXf(a)
    same(t[as_key(key, namespace)], expected)
    same(t[key], expected)
    view[tuple(rest)] = 99
    t[as_key(key, namespace)] = 99
    same(t, a)


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
def test_ellipses_without_axes_and_lists(tier, namespace):
    a = data((2, 3, 2))
    t = namespace.TensorXf(a)
    mask = [True, False]
    for key in (
        ([0, 1], 0, ..., [1, 0]), ([1], ..., 0, [0]), (..., mask), (0, ..., mask), [1, 0, -1], [],
        mask, (slice(1), [[0], [2]], [0, 1]), (..., [0], 0),
        (np.array(1), ..., np.array([True, False])),
    ):  # fmt: skip
        b, u = a.copy(), namespace.TensorXf(t)
        view, rest = integers_first(b, key)
        same(t[key], view[tuple(rest)])
        view[tuple(rest)] = u[key] = -1
        same(u, b)


def test_masks(tier):
    a = data((3, 4))
    t = TensorXf(a)
    same(t[t > 2], a[a > 2])
    same(t[Bool(True, False, True)], a[[True, False, True]])
    t[t > 2] = TensorXf(np.arange((a > 2).sum()))
    a[a > 2] = np.arange((a > 2).sum())
    same(t, a)
    t[Bool(False, True, False)] = t[0:1] * 10
    a[1] = a[0] * 10
    same(t, a)
    t[t < 0] = t * 2
    same(t, np.where(a < 0, a * 2, a))


@pytest.mark.parametrize("as_tensor", [True, False])
@pytest.mark.parametrize(
    ("shape", "mask", "values"),
    [
        ((4, 2), [0, 1, 0, 1], (2, 1)),
        ((4, 2), [0, 1, 0, 1], (1, 2, 1)),
        ((4, 2), [0, 1, 0, 1], (1, 1, 1)),
        ((4, 2), [0, 1, 0, 1], (2,)),
        ((4, 2, 5), [[0, 1], [0, 0], [1, 0], [0, 1]], (3, 5)),
        ((4, 2, 5), [[0, 1], [0, 0], [0, 0], [0, 1]], (2, 5)),
        ((4, 2, 5), [[0, 1], [0, 0], [0, 0], [0, 1]], (2, 1)),
        ((4, 3, 3, 3), np.eye(4, 3), (3, 1, 3)),
        ((3, 2, 5), [0, 1, 0], (1, 1, 2, 1)),
        ((3, 3), [0, 1, 0], (3,)),
    ],
    ids=str,
)
def test_masks_of_leading_axes_take_values_as_in_numpy(shape, mask, values, as_tensor, tier):
    a, mask = data(shape), np.array(mask, bool)
    value = 50 + np.arange(np.prod(values)).reshape(values)
    t = TensorXf(a)
    t[TensorXb(mask)] = TensorXf(value) if as_tensor else value.tolist()
    a[mask] = value
    same(t, a)


def test_masks_of_leading_axes_refuse_other_numbers_of_values():
    t = TensorXf(data((4, 2)))
    for value in (TensorXf(np.zeros((3, 2))), [[1], [2], [3]]):
        with pytest.raises(TypeError, match=r"\(3, .\) does not fit entries of shape \(2, 2\)"):
            t[Bool(False, True, False, True)] = value
    same(t, data((4, 2)))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (UInt(0, 5), "index 5 is out of bounds for an array of size 2"),
        ((0, Int(-4)), "index -1 is out of bounds for an array of size 3"),
        ((UInt(0, 1), UInt(0, 1, 2)), r"incompatible shapes \(2,\) and \(3,\)"),
        (TensorXb([True]), r"mask of shape \(1,\) does not fit axes of shape \(2,\)"),
        ((slice(None), -4), "index -4 is out of bounds for axis 1 with size 3"),
    ],
    ids=str,
)
def test_indices_out_of_range(key, text, tier):
    with pytest.raises(IndexError, match=text):
        TensorXf(data((2, 3)))[key].numpy()


def test_a_key_that_keeps_everything_shares_no_later_change():
    t = TensorXf(data((2, 3)))
    u = t[...]
    u[0] = 9
    same(t, data((2, 3)))


def test_slice_index():
    shape, index = dr.slice_index(UInt, (3, 4), (slice(None), 1))
    assert shape == (3,) and index.numpy().tolist() == [1, 5, 9]
    shape, index = dr.slice_index(UInt, (3, 4), (UInt(2, 0), None))
    assert shape == (2, 1, 4) and index.numpy().tolist() == [8, 9, 10, 11, 0, 1, 2, 3]
    shape, index = dr.slice_index(dr.scalar.ArrayXu, (10, 1), (slice(0, 10, 2), 0))
    assert shape == (5,) and list(index) == [0, 2, 4, 6, 8]
    with pytest.raises(TypeError, match="32-bit"):
        dr.slice_index(Int, (3,), (0,))


# Reductions


@shapes
@pytest.mark.parametrize("keepdims", [False, True], ids=["", "keepdims"])
def test_reductions_over_every_set_of_axes(shape, keepdims, tier):
    a = data(shape)
    t = TensorXf(a)
    for bits in range(1 << len(shape)):
        axes = tuple(k for k in range(len(shape)) if bits >> k & 1)
        same(dr.sum(t, axes, keepdims=keepdims), a.sum(axes, keepdims=keepdims) if axes else a)
        if axes and a.size:
            same(dr.max(t, axes, keepdims=keepdims), a.max(axes, keepdims=keepdims))
            same(dr.any(t > 15, axes, keepdims=keepdims), (a > 15).any(axes, keepdims=keepdims))


@pytest.mark.parametrize("shape", [(5000, 70), (3, 4100, 5), (2, 9, 5000)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint64, np.float16])
def test_reductions_over_rows(shape, dtype, tier):
    a = data(shape, dtype) % 4
    cls = {"f": dr.llvm.TensorXf, "d": dr.llvm.TensorXf64, "e": TensorXf16}.get(
        np.dtype(dtype).char, TensorXi if dtype == np.int32 else dr.llvm.TensorXu64
    )
    axis = len(shape) - 2
    wide = np.float32 if dtype == np.float16 else dtype
    same(dr.sum(cls(a), axis), a.sum(axis, dtype=wide).astype(dtype))
    same(dr.min(cls(a), axis), a.min(axis))


@pytest.mark.parametrize("nbytes", [16, 32, 64], ids=["16 bytes", "32 bytes", "64 bytes"])
def test_rows_in_registers_of_either_size(nbytes, monkeypatch, tmp_path):
    dr.flush_kernel_cache()
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(llvm, "host", lambda: Machine(nbytes, nbytes == 64))
    monkeypatch.setattr(variants, "pinned", "compiled")
    for shape in ((1, 3), (33, 1), (100, 37), (2000, 300)):
        a = data(shape)
        same(dr.sum(TensorXf(a), 0), a.sum(0))
        same(dr.prod(TensorXf(np.sign(a)), 0), np.sign(a).prod(0))
        same(dr.all(TensorXf(a) > -6, 0), (a > -6).all(0))
    dr.flush_kernel_cache()


def test_reductions_pass_over_nan(tier):
    a = data((40, 3))
    a[5, 1] = np.nan
    same(dr.max(TensorXf(a), 0), np.nanmax(a, 0))


@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2)], ids=str)
def test_running_sums(axis, tier):
    a = data((3, 4, 2))
    expected = a
    for k in axis if isinstance(axis, tuple) else (axis,):
        expected = np.cumsum(expected, k)
    same(dr.cumsum(TensorXf(a), axis), expected)


# Axes


def orders(ndim):
    return st.permutations(range(ndim))


@given(shape=npst.array_shapes(min_dims=1, max_dims=4, max_side=5, min_side=0), choice=st.data())
@settings(max_examples=40)
def test_order_of_axes(tier, shape, choice):
    a, ndim = data(shape), len(shape)
    t = TensorXf(a)
    order = choice.draw(orders(ndim))
    same(dr.transpose(t, tuple(order)), a.transpose(order))
    same(dr.transpose(t), a.T)
    count = choice.draw(st.integers(1, ndim))
    source, target = choice.draw(orders(ndim))[:count], choice.draw(orders(ndim))[:count]
    same(dr.moveaxis(t, tuple(source), tuple(target)), np.moveaxis(a, source, target))
    i, j = choice.draw(st.integers(-ndim, ndim - 1)), choice.draw(st.integers(0, ndim - 1))
    same(dr.swapaxes(t, i, j), np.swapaxes(a, i, j))
    place = choice.draw(st.integers(-ndim - 1, ndim))
    same(dr.expand_dims(t, place), np.expand_dims(a, place))
    same(dr.squeeze(t), np.squeeze(a))
    if ndim >= 2:
        same(t.mT, np.swapaxes(a, -1, -2))


def test_transposes():
    same(TensorXf(data((2, 3))).T, data((2, 3)).T)
    assert repr(dr.transpose(Matrix2f(1, 2, 3, 4))) == "[[[1, 3],\n  [2, 4]]]"
    same(dr.expand_dims(TensorXf([1, 2]), (0, 2)), [[[1], [2]]])
    same(dr.squeeze(TensorXf([[[1, 2]]]), (0, 1)), [1, 2])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t: t[0].T, TypeError, "2-D tensors"),
        (lambda t: t[0].mT, TypeError, "at least 2 dimensions"),
        (lambda t: dr.transpose(t, (0, 0)), RuntimeError, "must be a permutation"),
        (lambda t: dr.transpose(t, (0,)), RuntimeError, "must have length 2"),
        (lambda t: dr.transpose(Float(1)), TypeError, "expected a tensor"),
        (lambda t: dr.moveaxis(t, 0, (1, 0)), ValueError, "1 axes and 'destination' 2"),
        (lambda t: dr.moveaxis(t, 2, 0), RuntimeError, "axis 2 is out of bounds"),
        (lambda t: dr.swapaxes(t, 0, -3), RuntimeError, "axis -3 is out of bounds"),
        (lambda t: dr.expand_dims(t, 5), RuntimeError, "axis 5 is out of bounds"),
        (lambda t: dr.squeeze(t, 1), RuntimeError, "axis 1 has size 3, not 1"),
        (lambda t: dr.stack([t, t[0]]), TypeError, r"\(3,\) and tensor 0 has \(2, 3\)"),
        (lambda t: dr.stack([]), RuntimeError, "at least one"),
        (lambda t: dr.stack([t, t], 5), RuntimeError, "axis 5 is out of bounds"),
        (lambda t: dr.hstack([1]), TypeError, "not int"),
        (lambda t: dr.vstack([t, TensorXf([1, 2])]), TypeError, r"shape \(1, 2\)"),
        (lambda t: dr.split(t, 3), RuntimeError, "size 2 cannot be equally split into 3"),
        (lambda t: dr.split(t, 0), ValueError, "positive"),
        (lambda t: dr.split(Float(1, 2), 2), TypeError, "expected a tensor"),
        (lambda t: dr.array_split(t, 2, 4), RuntimeError, "axis 4 is out of bounds"),
        (lambda t: dr.take(t, 7), IndexError, "index 7 is out of bounds"),
        (lambda t: dr.take(t, [0.5]), TypeError, "not integers"),
        (lambda t: dr.take(t, 0, 2), RuntimeError, "axis 2 is out of bounds"),
        (lambda t: dr.take(Array3f(1), 0), TypeError, "expected a tensor"),
        (lambda t: dr.take_interp(TensorXi([1]), 0.5), TypeError, "floating-point"),
        (lambda t: dr.take_interp(TensorXf([]), 0.5), RuntimeError, "no entries"),
        (lambda t: dr.sum(t, 2), RuntimeError, "out-of-bounds axis 2"),
        (lambda t: TensorXf([[1, 2], [3]]), TypeError, "ragged"),
        (lambda t: dr.reshape(t, (4, 2)), RuntimeError, r"\(input: 6, target: 8\)"),
        (lambda t: dr.reshape(t, (-2, 3)), RuntimeError, "must be nonzero or -1"),
        (lambda t: dr.take(t, 5), IndexError, r"^dr.take\(\): index 5"),
        (lambda t: dr.take(t, 0.5), TypeError, r'^dr.take\(\): .*"float"'),
        (lambda t: dr.take_interp(t, "a"), TypeError, r"^dr.take_interp\(\): 'pos'.*str"),
        (lambda t: dr.take_interp(t, None), TypeError, r"^dr.take_interp\(\): 'pos'.*None"),
        (lambda t: dr.take_interp(t, [[1], [2, 3]]), TypeError, r"^dr.take_interp\(\): .*ragged"),
        (lambda t: dr.split(t, 1.5), TypeError, r"^dr.split\(\): expected .* 1.5"),
        (lambda t: dr.split(t, ["a"]), TypeError, r"^dr.split\(\): expected .* \['a'\]"),
        (lambda t: dr.array_split(t, "a"), TypeError, r"^dr.array_split\(\): expected .* 'a'"),
        (lambda t: dr.hstack([t, t[0]]), TypeError, r"^dr.hstack\(\): array 1 of shape \(3,\)"),
        (lambda t: dr.vstack([t, t[:, :1]]), TypeError, r"^dr.vstack\(\): array 1"),
        (
            lambda t: dr.convolve(t, [1], axis=4),
            RuntimeError,
            r"^dr.convolve\(\): out-of-bounds axis 4",
        ),
        (lambda t: t.__setitem__(0, "abc"), TypeError, r"^drjit.llvm.TensorXf.__setitem__.*str"),
        (lambda t: t.__setitem__(0, Array3f(1)), TypeError, r"TensorXf.__setitem__\(\): .*Array3f"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(TensorXf(data((2, 3))))


# Joining and splitting


@pytest.mark.parametrize("name", ["vstack", "hstack", "column_stack", "dstack"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3)], ids=str)
def test_stacks(name, shape, tier):
    a, b = data(shape), data(shape) + 100
    same(getattr(dr, name)([TensorXf(a), TensorXf(b)]), getattr(np, name)([a, b]))


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stack(axis, namespace, tier):
    a, b = data((2, 3)), data((2, 3)) + 1
    same(dr.stack([namespace.TensorXf(a), namespace.TensorXf(b)], axis), np.stack([a, b], axis))


def test_stack_of_plain_and_mixed_arrays():
    same(dr.stack([Float(1, 2), Float(3, 4)]), [[1, 2], [3, 4]])
    mixed = dr.vstack([Float(1.5, 2), Int(3, 4)])
    assert type(mixed) is TensorXf
    same(mixed, [[1.5, 2], [3, 4]])
    same(dr.stack([TensorXf(np.zeros((0, 2)))] * 3), np.zeros((3, 0, 2)))
    a, b = Array3f([1, 2], 3, 4), Array3f([5, 6], 7, 8)
    for name in ("stack", "vstack", "hstack", "column_stack", "dstack"):
        same(getattr(dr, name)([a, b]), getattr(np, name)([a.numpy(), b.numpy()]))
    same(dr.vstack([a, TensorXf([[9, 9]])]), [[1, 2], [3, 3], [4, 4], [9, 9]])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("where", [1, 2, [1, 3], [0, 2, 9], [-1], []], ids=str)
def test_split(axis, where, tier):
    a = data((4, 6))
    for found, expected in zip(
        dr.split(TensorXf(a), where, axis), np.split(a, where, axis), strict=True
    ):
        same(found, expected)


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_array_split(count):
    a = data((5, 3))
    pieces = dr.array_split(TensorXf(a), count)
    for found, expected in zip(pieces, np.array_split(a, count), strict=True):
        same(found, expected)


# Entries along an axis


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take(axis, tier):
    a = data((3, 4, 5))
    t = TensorXf(a)
    same(dr.take(t, 1, axis), np.take(a, 1, axis))
    for index in ([2, 0, -1], np.array([[0, 1], [2, 1]])):
        same(dr.take(t, index, axis), np.take(a, index, axis))
    same(dr.take(t, UInt(2, 0), axis), np.take(a, [2, 0], axis))
    same(dr.take(t, TensorXu([[1], [2]]), axis), np.take(a, [[1], [2]], axis))
    np.testing.assert_array_equal(dr.take(Float(1, 2, 3), UInt(2, 0)).numpy(), [3, 1])
    # An array of one entry is a number, but a sequence, or a tensor, has an axis.
    for number in (UInt(1), Int(-1), dr.opaque(UInt, 1)):
        same(dr.take(t, number, axis), np.take(a, number[0], axis))
    for one in ([1], np.array([1]), TensorXu([1])):
        same(dr.take(t, one, axis), np.take(a, [1], axis))
    np.testing.assert_array_equal(dr.take(Float(1, 2, 3), UInt(2)).numpy(), [3])
    for on in (True, False):
        assert dr.take(TensorXf([[1, 2]]), Bool(on)).shape == (on, 2)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_interp(axis, tier):
    a = data((4, 5, 3))
    position = np.float32([0.25, 1.5, 0, 1.75])
    low = np.floor(position).astype(int)
    weight = (position - low).reshape((-1,) + (1,) * (2 - axis % 3))
    first, second = np.take(a, low, axis), np.take(a, low + 1, axis)
    same(dr.take_interp(TensorXf(a), Float(position), axis), first + (second - first) * weight)
    middle = (np.take(a, 0, axis) + np.take(a, 1, axis)) / 2
    for number in (0.5, Float(0.5), dr.opaque(Float, 0.5)):
        same(dr.take_interp(TensorXf(a), number, axis), middle)


def test_take_interp_beyond_the_ends():
    t = TensorXf([1, 2, 4])
    same(dr.take_interp(t, Float(-1, 2, 3.5)), [0, 4, 7])
    same(dr.take_interp(TensorXf([5]), Float(-1, 0, 2)), [5, 5, 5])


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_take_interp_at_positions_of_any_shape(shape, axis, namespace, tier):
    a = data((4, 5))
    position = np.linspace(0.25, 2.75, int(np.prod(shape))).reshape(shape)
    low = np.floor(position).astype(int)
    weight = (position - low).reshape(shape + (1,) * (1 - axis))
    first, second = np.take(a, low, axis), np.take(a, low + 1, axis)
    for at in (namespace.TensorXf(position), namespace.TensorXf64(position), position):
        found = dr.take_interp(namespace.TensorXf(a), at, axis)
        same(found, first + (second - first) * weight)
        assert type(found) is namespace.TensorXf


def test_take_interp_keeps_the_precision_of_positions(tier):
    t = TensorXf16(np.arange(3000) % 2)
    same(dr.take_interp(t, Float(2500.25, 2501.75)), [0.25, 0.25])
    same(dr.take_interp(t, 2500.25), 0.25)
    long = dr.arange(Float, (1 << 24) + 5)
    same(dr.take_interp(long, Float((1 << 24) + 4)), [(1 << 24) + 4])


def test_printing():
    assert repr(TensorXf(data((2, 2)))) == "[[-5, 2],\n [9, 16]]"
    assert repr(TensorXf(3)) == "3" and repr(TensorXf([])) == "[]"


@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
def test_parts_with_axes_of_one_entry_are_broadcast(namespace, tier):
    tensor = namespace.TensorXf
    whole = np.array([[1, 2], [3, 4]], np.float32)
    for part in ([[5]], [[5, 6]], [[5], [6]]):
        want = np.stack([np.broadcast_to(np.array(part, np.float32), (2, 2)), whole])
        same(tensor([tensor(part), tensor(whole)]), want)
    same(tensor([tensor([3]), tensor([1, 2])]), np.array([[3, 3], [1, 2]]))
    with pytest.raises(TypeError, match="parts have different shapes"):
        tensor([tensor([[1, 2]]), tensor([[1], [2]])])

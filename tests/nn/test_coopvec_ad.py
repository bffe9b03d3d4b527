"""Derivatives of cooperative vectors: both modes and second derivatives against finite differences,
kernels of the reverse pass, gradients of vectors and views.
"""

import numpy as np
import pytest
from helpers import uniform

import drjit as dr
from drjit import nn
from drjit.llvm.ad import (
    Array3f16,
    Bool,
    Float,
    Float16,
    Float64,
    TensorXf,
    TensorXf16,
    TensorXf64,
    UInt,
)

KEEP = dr.ADFlag.Default | dr.ADFlag.KeepGraph


def backward(function, values, cls=Float64, flags=dr.ADFlag.Default):
    """The arrays and the gradients of the sum of a function's results."""
    inputs = [cls(v) for v in values]
    dr.enable_grad(inputs)
    dr.backward(dr.sum(function(*inputs)), flags=flags)
    gradients = [x.grad for x in inputs]
    dr.eval(gradients)
    return inputs, gradients


def loss(function, values):
    with pytest.MonkeyPatch.context() as patch:  # compiled for nothing but differences otherwise
        patch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
        return dr.sum(function(*[Float64(v) for v in values])).numpy().item()


def moved(values, directions, step):
    return [v + step * d for v, d in zip(values, directions, strict=True)]


def directions_of(values):
    return [uniform(v.shape, 90 + k) for k, v in enumerate(values)]


def check(function, *values, rel=1e-6):
    """First derivatives of both modes, and products of the Hessian with a direction by reverse over
    reverse and forward over reverse, against central differences."""
    step, directions = 1e-5, directions_of(values)
    ahead, behind = (moved(values, directions, s * step) for s in (1, -1))
    slope = (loss(function, ahead) - loss(function, behind)) / (2 * step)
    _, gradients = backward(function, values)
    found = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
    assert found == pytest.approx(slope, rel=rel, abs=1e-7)

    inputs = [Float64(v) for v in values]
    dr.enable_grad(inputs)
    result = dr.sum(function(*inputs))
    for x, d in zip(inputs, directions, strict=True):
        x.grad = Float64(d)
    dr.enqueue(dr.ADMode.Forward, inputs)
    dr.traverse(dr.ADMode.Forward)
    assert result.grad.numpy().item() == pytest.approx(slope, rel=rel, abs=1e-7)

    pairs = zip(backward(function, ahead)[1], backward(function, behind)[1], strict=True)
    curved = [(a.numpy() - b.numpy()) / (2 * step) for a, b in pairs]
    scale = max(1, *[np.abs(c).max() for c in curved])
    for forward in (False, True):
        inputs, gradients = backward(function, values, flags=KEEP)
        dr.clear_grad(inputs)
        if forward:
            for x, d in zip(inputs, directions, strict=True):
                x.grad = Float64(d)
            dr.enqueue(dr.ADMode.Forward, inputs)
            dr.traverse(dr.ADMode.Forward)
            products = [g.grad for g in gradients]
        else:
            terms = [dr.sum(g * Float64(d)) for g, d in zip(gradients, directions, strict=True)]
            dr.backward(dr.sum(dr.concat(terms)))
            products = [x.grad for x in inputs]
        dr.eval(products)
        for product, expected in zip(products, curved, strict=True):
            np.testing.assert_allclose(product.numpy(), expected, rtol=1e-5, atol=1e-7 * scale)


def matrix(buffer, offset, rows, columns):
    """A matrix in a buffer that others share."""
    v = nn.view(buffer)
    v.shape, v.offset, v.stride = (rows, columns), offset, columns
    v.size = rows * columns
    return v


@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [*((*shape, n) for shape in [(1, 1), (3, 1), (1, 3)] for n in (1, 17)), (5, 17, 17)],
)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.compiled_every(5)
def test_products(rows, columns, size, transpose, tier):
    inner, count = (rows, columns) if transpose else (columns, rows)

    def function(buffer, *x):
        A, b = matrix(buffer, 2, rows, columns), matrix(buffer, 2 + rows * columns, count, 1)
        y = nn.matvec(A, nn.CoopVec(x), b, transpose=transpose)
        z = nn.matvec(A, nn.CoopVec(x), transpose=transpose)
        return dr.sum(y * y * 0.5 + z * z * z)

    check(function, uniform(2 + rows * columns + count), *uniform((inner, size), 1))


def network(buffer, x, y):
    """Layers that share a buffer, one of them used three times; features are used in all ways."""
    W, b = matrix(buffer, 0, 3, 4), matrix(buffer, 12, 3, 1)
    V, c = matrix(buffer, 15, 4, 3), matrix(buffer, 33, 2, 1)
    v = nn.CoopVec(x, y, x * y, 0.5)
    h = nn.matvec(W, v, b)
    h = dr.tanh(h) * dr.maximum(h, 0.1) + y
    h = dr.exp2(V @ h * 0.3)
    h = V.T @ h
    r, s = nn.matvec(matrix(buffer, 27, 2, 3), h, c)
    return r * s + dr.sum(h) + dr.dot(V @ h, 2)


@pytest.mark.parametrize(("one", "other"), [(5, 5), (1, 5), (1, 1)])
@pytest.mark.compiled_every(3)
def test_layers_that_share_a_buffer(one, other, tier):
    """Inputs may be the same for all lanes."""
    check(network, uniform(35), uniform(one, 1), uniform(other, 2))


def test_inputs_that_are_the_same_for_all_lanes(tier):
    def function(x, y, lanes):
        v = nn.CoopVec(x, y)
        w = v * lanes + v
        a, b = w * w
        return a * b

    check(function, uniform(1, 1), uniform(1, 2), uniform(7, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda v, w, s: v + w * s,
        lambda v, w, s: v - s / (2 + w),
        lambda v, w, s: dr.fma(v, s, w) * dr.fma(2, v, w),
        lambda v, w, s: dr.minimum(v, w) * dr.maximum(s, v * 0.5),
        lambda v, w, s: dr.select(s > 0, v * v, w),
        lambda v, w, s: dr.select(v > w, v * w, s * v),
        lambda v, w, s: dr.abs(v) * dr.exp(w) - dr.log2(3 + v) * dr.sin(s * w),
        lambda v, w, s: dr.sqrt(2 + v) * dr.log(2 + w) * dr.exp2(v) / (2 + dr.cos(w)),
        lambda v, w, s: dr.step(v, w) * v * dr.tanh(w),
        lambda v, w, s: -v * dr.rcp(3 + w) * dr.lerp(v, w, 0.25),
        lambda v, w, s: nn.CoopVec(dr.sum(v), dr.dot(v, w), dr.prod(v), dr.min(w), s),
        lambda v, w, s: nn.CoopVec(*v, 1, s, *w) * s,
    ],
)
@pytest.mark.compiled_every(3)
def test_element_wise_operations_and_reductions(function, tier):
    def whole(*x):
        v, w, s = nn.CoopVec(x[:3]), nn.CoopVec(x[3:6]), x[6]
        result = list(function(v, w, s))
        return sum([(k + 1) * r * r for k, r in enumerate(result)], Float64(0))

    check(whole, *uniform((7, 5), 4))


@pytest.mark.parametrize("cls", [Float16, Float])
def test_lower_precision_agrees_with_double(cls, tier):
    values = [uniform(35), uniform(17, 1), uniform(17, 2)]
    values = [v.astype(np.float16).astype(np.float64) for v in values]
    _, exact = backward(network, values)
    _, found = backward(network, values, cls)
    tolerance = 2e-2 if cls is Float16 else 1e-5
    for g, e in zip(found, exact, strict=True):
        assert type(g) is cls
        scale = np.abs(e.numpy()).max()
        np.testing.assert_allclose(g.numpy(), e.numpy(), atol=tolerance * scale)


@pytest.mark.parametrize("size", [15, 17, 1000])
@pytest.mark.parametrize("count", [1, 3, 17, 64])
def test_gradients_of_matrices_are_sums_over_lanes(count, size, tier):
    x, y = uniform((count, size), 1, np.float32), uniform((3, size), 2, np.float32)
    A, b = nn.pack(TensorXf(uniform((3, count), 3)), TensorXf(uniform(3, 4)), layout="training")
    dr.enable_grad(A.buffer)
    r = nn.matvec(A, nn.CoopVec([Float(row) for row in x]), b)
    dr.backward(dr.dot(r, nn.CoopVec([Float(row) for row in y])))
    assert (A.grad.shape, A.grad.layout, b.grad.offset) == (A.shape, A.layout, 3 * count)
    expected = y.astype(np.float64) @ x.T
    found = TensorXf(nn.unpack(A.grad)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    found = TensorXf(nn.unpack(b.grad)).numpy()
    np.testing.assert_allclose(found[:, 0], y.sum(1, dtype=np.float64), rtol=1e-4, atol=1e-4)


def test_sums_over_lanes_of_halves_accumulate_in_single_precision(tier):
    n = 4000
    A, b = nn.pack(TensorXf16([[1, 1]]), TensorXf16([0]), layout="training")
    dr.enable_grad(A.buffer)
    (y,) = nn.matvec(A, nn.CoopVec(dr.ones(Float16, n), 0.5), b)
    dr.backward(Float(y))
    assert A.buffer.grad.numpy().tolist() == [n, n / 2, n]


def test_packing_passes_gradients_on(tier):
    A, b, V = TensorXf64(uniform((3, 2))), TensorXf64(uniform(3, 1)), TensorXf64(uniform((4, 3), 2))
    dr.enable_grad(A, b, V)
    P, q, (R,) = nn.pack(A, b, [nn.view(V)[1:3]], layout="training")
    x = uniform((2, 7), 3)
    y = R @ nn.matvec(P, nn.CoopVec([Float64(row) for row in x]), q)
    dr.backward(dr.sum(y))
    ones = V.numpy()[1:3].sum(0)
    np.testing.assert_allclose(A.grad.numpy(), np.outer(ones, x.sum(1)))
    np.testing.assert_allclose(b.grad.numpy(), ones * 7)
    h = (A.numpy() @ x + b.numpy()[:, None]).sum(1)
    np.testing.assert_allclose(V.grad.numpy(), [0 * h, h, h, 0 * h], atol=1e-12)
    # And so does the way back.
    W = TensorXf64(nn.unpack(nn.pack(A)))
    dr.clear_grad(A)
    dr.backward(W * W)
    np.testing.assert_allclose(A.grad.numpy(), 2 * A.numpy())


def test_casts_convert_gradients(tier):
    x, y = Float([1, 2]), Float(0.1)
    dr.enable_grad(x, y)
    v = nn.cast(nn.CoopVec(x, y), Float16)
    assert dr.grad_enabled(v)
    w = nn.cast(v * v, Float)
    dr.backward(dr.sum(w))
    assert x.grad.numpy().tolist() == [2, 4]
    np.testing.assert_allclose(y.grad.numpy(), 0.4, rtol=1e-3)
    assert not dr.grad_enabled(nn.cast(nn.CoopVec(Float(1)), Float16))


# ---- Kernels


def test_a_training_step_is_one_kernel(tier):
    n, width = 1000, 8
    shapes = [(width, 2), (width, width), (3, width)]
    *weights, bias = nn.pack(
        *[TensorXf16(uniform(s, k)) for k, s in enumerate(shapes)],
        TensorXf16(uniform(width)),
        layout="training",
    )
    buffer = weights[0].buffer
    x, y = Float(uniform(n, 1)), Float(uniform(n, 2))
    dr.enable_grad(buffer)
    dr.eval(buffer, x, y)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        v = nn.cast(nn.CoopVec(x, y), Float16)
        v = dr.maximum(nn.matvec(weights[0], v, bias), 0)
        v = dr.tanh(weights[1] @ v)
        image = Array3f16(dr.exp(weights[2] @ v))
        value = dr.squared_norm(image - Array3f16(0.5, Float16(x), Float16(y)))
        dr.backward(Float(value) * 128)
        dr.eval(value, buffer.grad)
        history = dr.kernel_history()
    # Zeros for the gradient, the weights in single precision, and the network.
    assert [h["size"] for h in history] == [len(buffer), len(buffer), n]
    text = history[-1]["source"]
    assert text.count("outer(") == 3
    assert text.count("accumulate(") == 1
    assert text.count("matvec(") == 3 + 2
    # All layers add to the same private copies.
    lines = [line for line in text.splitlines() if "outer(" in line or "accumulate(" in line]
    targets = {line.partition("f16, ")[2][:19] for line in lines}
    assert len(targets) == 1
    # The derivative of tanh is made of its value.
    assert text.count("tanh(") == 1


def test_gradients_of_two_buffers_come_from_one_kernel(tier):
    A = nn.pack(TensorXf(uniform((3, 2))), layout="training")
    B = nn.pack(TensorXf(uniform((2, 3))), layout="training")
    x = Float(uniform(100, 1))
    dr.enable_grad(A.buffer, B.buffer)
    dr.eval(A.buffer, B.buffer, x)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        y = B @ dr.tanh(A @ nn.CoopVec(x, 1))
        dr.backward(dr.dot(y, y))
        dr.eval(A.buffer.grad, B.buffer.grad)
        sizes = [h["size"] for h in dr.kernel_history()]
    assert sizes == [6, 6, 100]


def test_gradients_add_up_over_traversals(tier):
    A = nn.pack(TensorXf([[1, 2]]), layout="training")
    dr.enable_grad(A.buffer)
    for _ in range(3):
        (y,) = A @ nn.CoopVec(Float(1, 2), 3)
        dr.backward(y)
    assert A.buffer.grad.numpy().tolist() == [9, 18]
    held = A.buffer.grad
    (y,) = A @ nn.CoopVec(Float(1, 2), 3)
    dr.backward(y)
    assert held.numpy().tolist() == [9, 18]
    assert A.buffer.grad.numpy().tolist() == [12, 24]


# ---- Loops


COUNTS = UInt(0, 1, 2, 3, 3)


@pytest.mark.parametrize(
    ("mode", "limit"), [("evaluated", None), ("symbolic", 4), ("symbolic", None)]
)
def test_products_in_loops(mode, limit, tier):
    def function(weights, bias, x, y):
        A, b = nn.pack(TensorXf64(weights, (2, 2)), bias, layout="training")

        def body(i, x, y):
            x, y = dr.tanh(nn.matvec(A, nn.CoopVec(x, y), b))
            return i + 1, x, y

        _, x, y = dr.while_loop(
            (UInt(0), x, y), lambda i, x, y: i < COUNTS, body, mode=mode, max_iterations=limit
        )
        return x * x + y

    values = [uniform(4), uniform(2, 1), uniform(5, 2), uniform(5, 3)]
    step, directions = 1e-6, directions_of(values)
    slope = loss(function, moved(values, directions, step))
    slope = (slope - loss(function, moved(values, directions, -step))) / (2 * step)
    if limit is not None or mode == "evaluated":
        _, gradients = backward(function, values)
        found = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
    else:  # forward mode needs no limit
        inputs = [Float64(v) for v in values]
        dr.enable_grad(inputs)
        result = dr.sum(function(*inputs))
        for x, d in zip(inputs, directions, strict=True):
            x.grad = Float64(d)
        dr.enqueue(dr.ADMode.Forward, inputs)
        dr.traverse(dr.ADMode.Forward)
        found = result.grad.numpy().item()
    assert found == pytest.approx(slope, rel=1e-6)


def test_products_in_loops_that_sum_up(tier):
    def function(weights, bias, x, y):
        A, b = nn.pack(TensorXf64(weights, (2, 2)), bias, layout="training")

        def body(i, total):
            v = nn.CoopVec(x * Float64(i + 1), y)
            return i + 1, total + dr.sum(dr.tanh(nn.matvec(A, v, b)))

        start = (UInt(0), dr.zeros(Float64, 5))
        return dr.while_loop(start, lambda i, _: i < COUNTS, body, max_iterations=-1)[1]

    values = [uniform(4), uniform(2, 1), uniform(5, 2), uniform(5, 3)]
    step, directions = 1e-6, directions_of(values)
    slope = loss(function, moved(values, directions, step))
    slope = (slope - loss(function, moved(values, directions, -step))) / (2 * step)
    _, gradients = backward(function, values)
    found = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
    assert found == pytest.approx(slope, rel=1e-6)


def repeated(mode, limit):
    """Vectors as states of a loop."""

    def function(weights, bias, x, y):
        A, b = nn.pack(TensorXf64(weights, (2, 2)), bias, layout="training")
        _, (v,) = dr.while_loop(
            (UInt(0), [nn.CoopVec(x, y)]),
            lambda i, _: i < COUNTS,
            lambda i, v: (i + 1, [dr.tanh(nn.matvec(A, v[0], b))]),
            mode=mode,
            max_iterations=limit,
        )
        assert type(v) is nn.CoopVec
        return dr.dot(v, v) + dr.sum(v)

    return function


def branched(mode):
    """Vectors as arguments and results of branches."""

    def function(weights, bias, x, y):
        A, b = nn.pack(TensorXf64(weights, (2, 2)), bias, layout="training")
        v = dr.if_stmt(
            (nn.CoopVec(x, y),),
            COUNTS > 1,
            lambda v: nn.matvec(A, v, b) * 2,
            lambda v: v + dr.sin(v),
            mode=mode,
        )
        return dr.dot(v, v) + dr.sum(v)

    return function


def called(mode):
    """Vectors as arguments and results of calls."""

    def function(weights, bias, x, y):
        A, b = nn.pack(TensorXf64(weights, (2, 2)), bias, layout="training")
        targets = [lambda v: nn.matvec(A, v, b) * 2, lambda v: v + dr.sin(v)]
        v = dr.switch(COUNTS & 1, targets, nn.CoopVec(x, y), mode=mode)
        return dr.dot(v, v) + dr.sum(v)

    return function


@pytest.mark.parametrize(
    "function",
    [
        repeated("evaluated", None), repeated("symbolic", 4), branched("evaluated"),
        branched("symbolic"), called("evaluated"), called("symbolic"),
    ],
)  # fmt: skip
def test_vectors_in_control_flow(function, tier):
    values = [uniform(4), uniform(2, 1), uniform(5, 2), uniform(5, 3)]
    step, directions = 1e-6, directions_of(values)
    ahead, behind = (moved(values, directions, s * step) for s in (1, -1))
    slope = (loss(function, ahead) - loss(function, behind)) / (2 * step)
    _, gradients = backward(function, values)
    found = sum((g.numpy() * d).sum() for g, d in zip(gradients, directions, strict=True))
    assert found == pytest.approx(slope, rel=1e-6)


def test_values_of_vectors_in_control_flow(tier):
    values = [uniform(4), uniform(2, 1), uniform(5, 2), uniform(5, 3)]
    weights, bias, vectors = values[0].reshape(2, 2), values[1][:, None], np.stack(values[2:])
    affine = 2 * (weights @ vectors + bias)
    other = vectors + np.sin(vectors)
    counts = COUNTS.numpy()
    loop = vectors.copy()
    for k in range(3):
        loop = np.where(counts > k, np.tanh(weights @ loop + bias), loop)
    for functions, expected in (
        ([repeated("evaluated", None), repeated("symbolic", 4)], loop),
        ([branched("evaluated"), branched("symbolic")], np.where(counts > 1, affine, other)),
        ([called("evaluated"), called("symbolic")], np.where(counts & 1, other, affine)),
    ):
        for function in functions:
            found = function(*[Float64(v) for v in values])
            np.testing.assert_allclose(found.numpy(), (expected**2 + expected).sum(0), rtol=1e-9)


# ---- Lanes and features without gradient


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_lanes_that_are_masked_out_may_hold_anything(bad, tier):
    values = uniform(17, 1)
    values[3] = bad
    A, b = nn.pack(TensorXf(uniform((3, 2), 2)), TensorXf(uniform(3)), layout="training")
    dr.enable_grad(A.buffer)
    gradients = []
    for active in (values == values, np.isfinite(values)):
        dr.clear_grad(A.buffer)
        x = Float(values)
        y = nn.matvec(A, nn.CoopVec(x, 1), b)
        result = dr.select(Bool(np.isfinite(values) & active), dr.dot(y, y), 0)
        dr.backward(result)
        gradients.append(A.buffer.grad.numpy().copy())
    assert np.isfinite(gradients[0]).all()
    good = Float(values[np.isfinite(values)])
    dr.clear_grad(A.buffer)
    y = nn.matvec(A, nn.CoopVec(good, 1), b)
    dr.backward(dr.dot(y, y))
    np.testing.assert_allclose(gradients[0], A.buffer.grad.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_lanes_that_are_masked_out_have_no_second_derivatives(bad, tier):
    values = uniform(17, 1)
    values[3] = bad
    weights = Float(uniform(6, 4))
    found = []
    for x in (Float(values), Float(values[np.isfinite(values)])):
        A = nn.pack(TensorXf(uniform((3, 2), 2)), layout="training")
        dr.enable_grad(A.buffer, x)
        a, b, c = nn.matvec(A, nn.CoopVec(x, 1))
        dr.backward(dr.select(dr.isfinite(x), (a * b + c) * a, 0), KEEP)
        gradient = dr.gather(Float, A.buffer.grad, dr.arange(UInt, 6))
        dr.clear_grad((A.buffer, x))
        dr.backward(gradient * weights)
        found.append([x.grad.numpy(), A.buffer.grad.numpy()])
    assert found[0][0][3] == 0
    found[0][0] = np.delete(found[0][0], 3)
    for some, all_ in zip(*found, strict=True):
        np.testing.assert_allclose(some, all_, rtol=1e-3, atol=1e-3)


def test_features_that_are_not_used_may_hold_anything(tier):
    x, y = Float(1, 2), Float(-1, -1)
    dr.enable_grad(x, y)
    first, _ = dr.sqrt(nn.CoopVec(x, y)) * dr.log(nn.CoopVec(x, y))
    dr.backward(first)
    assert np.isfinite(x.grad.numpy()).all()
    assert y.grad.numpy().tolist() == [0, 0]


# ---- Vectors and views as arguments


def test_components_are_tracked_not_vectors():
    v = nn.CoopVec(Float16(1), 2)
    for function in (dr.enable_grad, lambda v: dr.set_grad_enabled(v, True)):
        with pytest.raises(RuntimeError, match="construct it from grad-enabled components"):
            function(v)
    x = Float16(1)
    dr.enable_grad(x)
    v = nn.CoopVec(x, 2)
    assert dr.grad_enabled(v)
    dr.enable_grad(v)  # as it is already
    assert not dr.grad_enabled(nn.CoopVec(dr.llvm.Float(1)))
    with dr.suspend_grad():
        assert not dr.grad_enabled(nn.CoopVec(x))
        assert not dr.grad_enabled(v)
        dr.enable_grad(nn.CoopVec(Float16(1)))
    w = nn.CoopVec(v)
    dr.disable_grad(w)
    assert not dr.grad_enabled(w)
    assert dr.grad_enabled(v)
    with pytest.raises(TypeError, match="expected an array"):
        dr.backward(v)


def test_detach():
    x = Float16(1)
    dr.enable_grad(x)
    v = nn.CoopVec(x, 2)
    d = dr.detach(v)
    assert (d.type, dr.grad_enabled(d), dr.grad_enabled(v)) == (Float16, False, True)
    assert dr.detach({"v": v}, preserve_type=False)["v"].type is dr.llvm.Float16
    assert [a.numpy().item() for a in d] == [1, 2]


def test_gradients_of_vectors(tier):
    x, y = Float(1, 2), Float(3)
    dr.enable_grad(x, y)
    v = nn.CoopVec(x, y)
    assert [a.numpy().tolist() for a in dr.grad(v)] == [[0, 0], [0, 0]]
    dr.set_grad(v, nn.CoopVec(Float(1, 2), 10))
    dr.accum_grad(v, 1)
    assert [a.numpy().tolist() for a in dr.grad(v)] == [[2, 3], [11, 11]]
    assert not dr.grad_enabled(dr.grad(v))
    dr.enqueue(dr.ADMode.Backward, v)
    dr.traverse(dr.ADMode.Backward)
    assert (x.grad.numpy().tolist(), y.grad.numpy().tolist()) == ([2, 3], [22])
    w = nn.CoopVec(y, 2 * y)  # of one lane
    dr.set_grad(w, nn.CoopVec(Float(1, 2), 5))
    assert [a.numpy().tolist() for a in dr.grad(w)] == [[3], [10]]
    dr.clear_grad(w)
    assert [a.numpy().tolist() for a in dr.grad(w)] == [[0], [0]]
    z = dr.replace_grad(nn.CoopVec(Float(7), 8), nn.CoopVec(y, 2 * y))
    dr.clear_grad(y)
    a, b = z
    dr.backward(a + b)
    assert (a.numpy().item(), b.numpy().item(), y.grad.numpy().item()) == (7, 8, 3)


def test_forward_gradients_of_vectors(tier):
    x = Float(1, 2)
    dr.enable_grad(x)
    v = nn.CoopVec(x, 3)
    w = v * v
    dr.forward(x)
    assert [a.numpy().tolist() for a in dr.grad(w)] == [[2, 4], [0, 0]]


def test_the_layout_for_inference_has_no_reverse_mode(tier):
    A, b = nn.pack(TensorXf([[1, 2]]), TensorXf([3]))
    buffer = A.buffer
    dr.enable_grad(buffer)
    (y,) = nn.matvec(A, nn.CoopVec(Float(1, 2), 3), b)
    with pytest.raises(RuntimeError, match=r"'inference'.*layout='training'"):
        dr.backward(y)
    assert buffer.grad.numpy().tolist() == [0, 0, 0]
    # With respect to the vector there is one, and forward mode for all.
    x = Float(1, 2)
    dr.enable_grad(x)
    (y,) = dr.detach(A) @ nn.CoopVec(x, 3)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [1, 1]
    (y,) = nn.matvec(A, nn.CoopVec(Float(1, 2), 3), b)
    dr.forward(buffer)
    assert y.grad.numpy().tolist() == [5, 6]


def test_gradients_of_views():
    A = nn.pack(TensorXf([[1, 2], [3, 4]]), layout="training")
    dr.enable_grad(A.buffer)
    assert dr.grad_enabled(A)
    assert not dr.grad_enabled(dr.detach(A))
    (y, _) = A @ nn.CoopVec(Float(1), 2)
    dr.backward(y)
    assert repr(TensorXf(nn.unpack(A.grad))) == "[[1, 2],\n [0, 0]]"
    assert not dr.grad_enabled(A.grad)


def test_the_trap_names_the_operation():
    flags = (dr.JitFlag.Debug, dr.JitFlag.TrapNaN)
    before = [dr.flag(f) for f in flags]
    try:
        for f in flags:
            dr.set_flag(f, True)
        x = Float(0, 1)
        dr.enable_grad(x)
        v = dr.sqrt(nn.CoopVec(x, 1)) * 0
        y, _ = v / dr.abs(v)
        with pytest.raises(FloatingPointError):
            dr.backward(y)
            dr.eval(x.grad)
    finally:
        for f, b in zip(flags, before, strict=True):
            dr.set_flag(f, b)


@pytest.mark.parametrize("function", [dr.maximum, dr.minimum])
@pytest.mark.parametrize("other", [0, Float(0, 0, 0)], ids=["number", "array"])
@pytest.mark.parametrize("vector_first", [True, False])
def test_of_equal_ones_the_vector_has_the_gradient(function, other, vector_first, tier):
    x = Float(-1, 0, 1)
    dr.enable_grad(x)
    v = nn.CoopVec(x)
    (y,) = function(v, other) if vector_first else function(other, v)
    assert list(y) == ([0, 0, 1] if function is dr.maximum else [-1, 0, 0])
    dr.backward(y)
    assert list(x.grad) == ([0, 1, 1] if function is dr.maximum else [1, 1, 0])

"""Bodies that a kernel has several times stand in its text once, as functions."""

import numpy as np
import pytest
from helpers import formula, plain_formula

import drjit as dr
from drjit.jit.run import schedule
from drjit.jit.text import bodies
from drjit.llvm import Float as Plain
from drjit.llvm.ad import Float, Float64, Int, UInt32


@pytest.fixture(autouse=True)
def shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SHORTEST", 3)
    schedule.forget_kernels()


@pytest.mark.parametrize("n", [0, 1, 15, 17, 1000])
def test_a_function_called_again_and_again_is_one_piece_of_text(tier: str, n: int) -> None:
    call = dr.func(formula)
    x = Float(np.linspace(-1, 2, n, dtype=np.float32))
    y = x
    for _ in range(6):
        y = call(y)
    if n:
        source = dr.kernel_source(y)
        assert source.count("def body") == 1
        assert source.count("= body0(i, p, ") == 6
        assert source.count("sqrt") == 1
    want = x.numpy()
    for _ in range(6):
        want = plain_formula(want)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_gradients_of_functions_called_again_and_again(tier: str) -> None:
    call = dr.func(formula)
    x = dr.linspace(Float64, 0.5, 2, 17)
    dr.enable_grad(x)
    y = call(call(call(x)))
    dr.backward(dr.sum(y))
    h = 1e-6

    def plain(x: np.ndarray) -> np.ndarray:
        return plain_formula(plain_formula(plain_formula(x)))

    at = x.numpy()
    slope = (plain(at + h) - plain(at - h)) / (2 * h)
    np.testing.assert_allclose(dr.grad(x).numpy(), slope, rtol=1e-6)


def test_bodies_with_loops_and_branches(tier: str) -> None:
    """Also where a result is an argument as it is."""

    @dr.func
    def call(x, k):
        i, s = dr.while_loop(
            (UInt32(0), x), lambda i, s: i < k, lambda i, s: (i + 1, dr.fma(s, 0.5, i))
        )
        y = dr.if_stmt((s,), s > 1, lambda s: s * 2, lambda s: s - 1)
        return y, x, k + i

    x = Float(np.arange(37, dtype=np.float32))
    k = UInt32(np.arange(37) % 5)
    y, same, k2 = call(x, k)
    z, _, k3 = call(y, k)
    source = dr.kernel_source(z, k3, k2)
    assert source.count("def body0") == 1 and source.count("= body0(i, p, ") == 2
    dr.eval(z, k3, k2, same)

    def plain(x):
        s, n = x.copy(), np.arange(37) % 5
        for i in range(5):
            s = np.where(i < n, s * np.float32(0.5) + np.float32(i), s)
        return np.where(s > 1, s * 2, s - 1)

    start = np.arange(37, dtype=np.float32)
    np.testing.assert_allclose(z.numpy(), plain(plain(start)), rtol=1e-6)
    np.testing.assert_array_equal(same.numpy(), start)
    np.testing.assert_array_equal(k2.numpy(), np.arange(37) % 5 * 2)
    np.testing.assert_array_equal(k3.numpy(), np.arange(37) % 5 * 2)


def test_effects_in_functions_called_again_and_again(tier: str) -> None:
    target, source = dr.zeros(Plain, 4), Plain(1, 2, 3, 4)

    @dr.func
    def call(x, k):
        dr.scatter_add(target, x * 2, k & 3)
        return x * dr.gather(Plain, source, k & 3) + 1

    x, k = Plain(np.arange(37, dtype=np.float32)), UInt32(np.arange(37))
    y = call(call(x, dr.detach(k)), dr.detach(k))
    want, sums, number = np.arange(37, dtype=np.float64), np.zeros(4), np.arange(37) & 3
    for _ in range(2):
        np.add.at(sums, number, want * 2)
        want = want * (number + 1) + 1
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(target.numpy(), sums, rtol=1e-6)


def test_gathers_of_functions_called_again_and_again(tier: str) -> None:
    """Bounds checks are those of the call: the sizes of arrays may differ."""
    first, second = Plain(1, 2, 3), Plain(10, 20, 30, 40)

    @dr.func
    def inner(k):
        return dr.gather(Plain, first, k) * 2 + dr.gather(Plain, second, k + 1)

    @dr.func
    def call(x, k):
        return inner(k) + x * dr.gather(Plain, second, k)

    x, k = Plain(np.arange(17, dtype=np.float32)), UInt32(np.arange(17) % 3)
    y = call(call(inner(k) + x, k), k)
    text = dr.kernel_source(y)
    assert text.count("gather(f32") <= 4 and "s: int, n: int" in text

    n = np.arange(17) % 3
    a, b = first.numpy(), second.numpy()
    want = a[n] * 2 + b[n + 1] + np.arange(17)
    for _ in range(2):
        want = a[n] * 2 + b[n + 1] + want * b[n]
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)
    z = call(call(x, k), UInt32(np.arange(17) // 4))
    with pytest.raises(IndexError, match=r"index [34] is out of bounds for an array of size [34]"):
        z.numpy()
    dr.sync_thread()


def test_loops_that_gather_in_functions_called_again_and_again(tier: str) -> None:
    """The lanes that read are those that are still in the loop."""
    source = Plain(1, 2, 3, 4)

    @dr.func
    def call(x, k):
        step = lambda i, s: (i + 1, dr.fma(s, 0.5, dr.gather(Plain, source, i)))  # noqa: E731
        return dr.while_loop((UInt32(0), x), lambda i, s: i < k, step)[1]

    number = np.arange(17) % 5
    x, k = Plain(np.arange(17, dtype=np.float32)), UInt32(number)
    y = call(call(x, k), 4 - k)
    assert dr.kernel_source(y).count("= body0(i, p, ") == 2
    want = np.arange(17, dtype=np.float32)
    for rounds in (number, 4 - number):
        for i in range(4):
            want = np.where(i < rounds, want * np.float32(0.5) + np.float32(i + 1), want)
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


def test_functions_inside_of_loops_and_of_other_functions(tier: str) -> None:
    inner = dr.func(formula)

    @dr.func
    def outer(x):
        return inner(inner(x)) + inner(x)

    x = dr.linspace(Float, 0, 1, 17)
    body = lambda i, x: (i + 1, outer(outer(x)) * 0.125)  # noqa: E731
    _, y = dr.while_loop((UInt32(0), x), lambda i, x: i < 3, body)
    want = x.numpy()
    for _ in range(3):
        for _ in range(2):
            want = plain_formula(plain_formula(want)) + plain_formula(want)
        want = want * 0.125
    assert dr.kernel_source(y).count("sqrt") <= 2
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_the_same_text_for_other_types_is_another_function(tier: str) -> None:
    @dr.func
    def call(x):
        return (x * x + x) * x - x * 3

    x, k = dr.arange(Float, 5), dr.arange(Int, 5)
    y, n = call(call(x)), call(call(k))
    source = dr.kernel_source(y, n)
    assert "a0: f32" in source and "a0: i32" in source

    def plain(x):
        return (x * x + x) * x - x * 3

    np.testing.assert_array_equal(n.numpy(), plain(plain(np.arange(5))))
    np.testing.assert_allclose(y.numpy(), plain(plain(np.arange(5.0))), rtol=1e-6)


def test_lanes_that_call_other_functions(tier: str) -> None:
    x = dr.linspace(Float, 0, 1, 33)
    index = dr.arange(UInt32, 33) % 3
    y = x
    for _ in range(3):
        y = dr.switch(index, [formula, lambda x: dr.sin(x) * dr.cos(x) + x, formula], y)
    want, number = x.numpy(), index.numpy()
    for _ in range(3):
        want = np.where(number == 1, np.sin(want) * np.cos(want) + want, plain_formula(want))
    assert dr.kernel_source(y).count("sqrt") == 1
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-4)

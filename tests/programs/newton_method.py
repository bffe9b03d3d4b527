"""Newton's method with Hessian-vector products and truncated conjugate gradients, for a logistic
regression and for a chain of springs. Products are the forward derivative of gradients that are
written by hand, and are compared with differences of reverse-mode gradients."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import drjit as dr
from drjit.auto.ad import Array2f, Float, Float64, TensorXf, UInt


class Data(NamedTuple):
    x: Array2f
    label: Float


class LogSum(dr.CustomOp):
    """log(1 + exp(x)) that does not overflow, with its derivative in both directions."""

    def eval(self, x: Float) -> Float:
        self.slope = dr.rcp(1 + dr.exp(-x))
        return (
            dr.maximum(x, 0) + dr.log1p(dr.exp(-dr.abs(x)))
            if hasattr(dr, "log1p")
            else (dr.maximum(x, 0) + dr.log(1 + dr.exp(-dr.abs(x))))
        )

    def forward(self) -> None:
        self.set_grad_out(self.slope * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", self.slope * self.grad_out())


def samples(n: int) -> Data:
    rng = dr.rng(seed=31)
    x = rng.normal(Array2f, (2, n))
    noise = rng.normal(Float, n)
    label = dr.select(1.5 * x.x - 0.7 * x.y + 0.3 + 0.5 * noise > 0, Float(1), -1)
    return Data(x, label)


def features(x: Array2f) -> list[Float]:
    return [Float(1), x.x, x.y, x.x * x.y, dr.square(x.x) - 1]


def margin(w: Float, data: Data) -> Float:
    """The sum of features; w holds one weight for each."""
    terms = features(data.x)
    return data.label * sum(
        (dr.gather(Float, w, UInt(k)) * f for k, f in enumerate(terms)), start=Float(0)
    )


def loss(w: Float, data: Data) -> Float:
    return dr.mean(dr.custom(LogSum, -margin(w, data))) + 0.005 * dr.squared_norm(w)


def gradient(w: Float, data: Data) -> Float:
    """The gradient of the loss, written by hand, so that it can be differentiated once more."""
    s = dr.rcp(1 + dr.exp(margin(w, data)))
    n = dr.width(data.label)
    g = dr.zeros(Float, dr.width(w))
    for k, f in enumerate(features(data.x)):
        dr.scatter_add(g, dr.sum(-s * data.label * f) / n, UInt(k))
    return g + 0.01 * w


def hessian_product(w: Float, v: Float, data: Data) -> Float:
    w = Float(dr.detach(w))
    dr.enable_grad(w)
    dr.set_grad(w, v)
    return dr.forward_to(gradient(w, data))


def conjugate_gradients(
    product: Callable[[Float], Float], b: Float, steps: int, tolerance: float = 1e-5
) -> Float:
    x, r = dr.zeros(Float, dr.width(b)), Float(b)
    p, rr = Float(b), dr.dot(b, b)
    for _ in range(steps):
        q = product(p)
        alpha = rr / dr.dot(p, q)
        x = dr.fma(alpha, p, x)
        r = dr.fma(-alpha, q, r)
        new = dr.dot(r, r)
        if dr.all(new < tolerance * tolerance):
            break
        p, rr = r + new / rr * p, new
    return x


@dr.syntax
def line_search(
    f: Callable[[Float], Float], x: Float, d: Float, slope: Float
) -> tuple[Float, UInt]:
    """Halves the step until the value is less by a part of what the slope promises (Armijo)."""
    t, i = Float(1), UInt(0)
    start = f(x)
    while dr.hint((f(x + t * d) > start + 1e-4 * t * slope) & (i < 8), mode="evaluated"):
        t = t * 0.5
        i += 1
    return t, i


def springs(p: Array2f, rest: Float) -> Float64:
    """The energy of a hanging chain, in double precision."""
    n = dr.width(p)
    i = dr.arange(UInt, n - 1)
    d = dr.gather(Array2f, p, i + 1) - dr.gather(Array2f, p, i)
    stretch = Float64(dr.norm(d)) - Float64(rest)
    return 200 * dr.sum(dr.square(stretch)) + dr.sum(Float64(p.y)) / n


def main() -> TensorXf:
    data = samples(500)
    print("labels", dr.count(data.label > 0))
    w = dr.zeros(Float, 5)
    for i in range(5):
        x = Float(w)
        dr.enable_grad(x)
        value = loss(x, data)
        dr.backward(value)
        g = gradient(w, data)
        if i < 2:
            print("gradient", x.grad, dr.allclose(x.grad, g, rtol=1e-4, atol=1e-6))
        d = -conjugate_gradients(partial(hessian_product, w, data=data), g, 5)
        t, halvings = line_search(lambda w: dr.detach(loss(w, data)), w, d, dr.dot(g, d))
        w = w + t * d
        dr.eval(w)
        print("newton", i, value, "step", t, halvings)
    print("weights", w)
    correct = dr.mean(dr.select(margin(w, data) > 0, Float(1), 0))
    print("correct", correct)

    # products against differences of reverse-mode gradients
    v, h = Float(1, -1, 0.5, 0, 2), 1e-2
    ends: list[Float] = []
    for sign in (1, -1):
        x = w + sign * h * v
        dr.enable_grad(x)
        dr.backward(loss(x, data))
        ends.append(x.grad)
    product = hessian_product(w, v, data)
    print("product", product)
    print("difference", dr.allclose(product, (ends[0] - ends[1]) / (2 * h), rtol=1e-2, atol=1e-4))
    columns = [hessian_product(w, Float([float(i == k) for i in range(5)]), data) for k in range(5)]
    hessian = TensorXf(dr.concat(columns), (5, 5))
    print("symmetric", dr.allclose(hessian, dr.transpose(hessian), atol=1e-6), hessian[0])

    # a chain: gradient descent with the ends held
    t = dr.linspace(Float, 0, 1, 9)
    p = Array2f(t, -0.3 * t * (1 - t))
    inner = (t > 0) & (t < 1)
    energy = Float64(0)
    for _ in range(40):
        q = Array2f(p)
        dr.enable_grad(q)
        energy = springs(q, Float(0.15))
        dr.backward(energy)
        p = dr.select(inner, p - 0.0012 * q.grad, p)
        dr.eval(p)
    print("chain", energy, p.y)
    return hessian


if __name__ == "__main__":
    main()

"""Prices of options: paths of a market in double precision with antithetic numbers, closed forms,
Greeks in both directions, and the regression of Longstaff and Schwartz (2001)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit.auto.ad import PCG32, Float64, Int, TensorXf64, UInt, UInt64

PATHS, STEPS = 2048, 12


@dataclass
class Market:
    spot: Float64
    rate: Float64
    volatility: Float64

    def grow(self, s: Float64, z: Float64, dt: float) -> Float64:
        drift = (self.rate - 0.5 * dr.square(self.volatility)) * dt
        return s * dr.exp(drift + self.volatility * dr.sqrt(dt) * z)


def cumulative(x: Float64) -> Float64:
    return 0.5 * (1 + dr.erf(x * dr.inv_sqrt_two))


def black_scholes(m: Market, strike: float, t: float) -> Float64:
    s = m.volatility * dr.sqrt(t)
    d1 = (dr.log(m.spot / strike) + (m.rate + 0.5 * dr.square(m.volatility)) * t) / s
    return m.spot * cumulative(d1) - strike * dr.exp(-m.rate * t) * cumulative(d1 - s)


def normal(rng: PCG32) -> Float64:
    """Box and Muller's method, in double precision."""
    u, v = rng.next_float64(), rng.next_float64()
    return dr.sqrt(-2 * dr.log(1 - u)) * dr.cos(dr.two_pi * v)


def draws(seed: int) -> list[Float64]:
    rng = PCG32(PATHS // 2, UInt64(seed))
    half = [normal(rng) for _ in range(STEPS)]
    return [dr.concat([z, -z]) for z in half]


@dr.syntax
def asian(m: Market, strike: float, rng: PCG32, barrier: float) -> tuple[Float64, UInt]:
    """The mean price along a path, which a barrier ends; the loop is recorded."""
    s, total, i = Float64(m.spot), Float64(0), UInt(0)
    alive = Int(1)
    while dr.hint((i < STEPS) & (alive == 1), max_iterations=STEPS):
        z = normal(rng)
        s = m.grow(s, z, 1 / STEPS)
        total += s
        if s > barrier:
            alive = Int(0)
        i += 1
    payoff = dr.maximum(total / STEPS - strike, 0)
    return dr.select(alive == 1, payoff, 0), i


def american(m: Market, strike: float) -> Float64:
    """A put that may be exercised at every step; the regression is NumPy's."""
    s = Float64(m.spot)
    path: list[Float64] = []
    for z in draws(11):
        s = m.grow(s, z, 1 / STEPS)
        path.append(s)
    dr.eval(path)
    discount = dr.exp(-m.rate / STEPS)
    value = dr.maximum(strike - path[-1], 0)
    for s in reversed(path[:-1]):
        value = value * discount
        payoff = dr.maximum(strike - s, 0)
        money = dr.compress(payoff > 0)
        x, y = dr.gather(Float64, s, money) / strike, dr.gather(Float64, value, money)
        basis = TensorXf64(dr.concat([dr.full(Float64, 1, dr.width(x)), x, x * x]), (3, len(x)))
        a, b = np.array(basis @ basis.T), np.array(basis @ TensorXf64(y, (len(x), 1)))
        c = [float(v) for v in np.linalg.solve(a, b)[:, 0]]
        going_on = c[0] + c[1] * s / strike + c[2] * dr.square(s / strike)
        value = dr.select((payoff > 0) & (payoff > going_on), payoff, value)
        dr.eval(value)
    return dr.mean(value) * discount


def main() -> Float64:
    m = Market(Float64(100), Float64(0.05), Float64(0.2))
    closed = black_scholes(m, 105, 1)
    print("closed form", closed, cumulative(Float64(-1, 0, 1.96)))

    s = Float64(m.spot)
    for z in draws(3):
        s = m.grow(s, z, 1 / STEPS)
    price = dr.exp(-m.rate) * dr.mean(dr.maximum(s - 105, 0))
    print("simulated", price, dr.abs(price - closed) < 0.6)
    print("martingale", dr.mean(s) * dr.exp(-m.rate), np.array(s)[:2])

    # Greeks: all in one reverse pass, and one by one forward
    prices: dict[str, Callable[[Market], Float64]] = {
        "closed": lambda m: black_scholes(m, 105, 1),
        "paths": lambda m: (
            dr.exp(-m.rate) * dr.mean(dr.maximum(m.grow(m.spot, draws(3)[0], 1.0) - 105, 0))
        ),
    }
    for name, function in prices.items():
        m = Market(Float64(100), Float64(0.05), Float64(0.2))
        dr.enable_grad(m)
        value = function(m)
        dr.backward(value)
        print(name, value, "delta", m.spot.grad, "rho", m.rate.grad, "vega", m.volatility.grad)
        m = Market(Float64(100), Float64(0.05), Float64(0.2))
        dr.enable_grad(m)
        dr.set_grad(m, Market(Float64(1), Float64(0), Float64(0.5)))
        print(name, "forward", dr.forward_to(function(m)))

    m = Market(Float64(100), Float64(0.05), Float64(0.3))
    dr.enable_grad(m.volatility)
    payoff, steps = asian(m, 100, PCG32(PATHS, 21), 140)
    mean = dr.mean(payoff)
    print("asian", mean, "steps", dr.sum(steps), dr.min(steps))
    dr.forward(m.volatility)
    print("by volatility", mean.grad)
    print("american", american(Market(Float64(36), Float64(0.06), Float64(0.2)), 40))
    grid = dr.linspace(Float64, 80, 120, 5)
    table = black_scholes(Market(grid, Float64(0.05), Float64(0.2)), 105, 1)
    print("table", table, dr.prefix_sum(table), dr.cumsum(table, reverse=True))
    return table


if __name__ == "__main__":
    main()

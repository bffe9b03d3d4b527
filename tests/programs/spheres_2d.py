"""Walk on spheres in the plane: the Laplace equation without a mesh (Muller 1956; Sawhney
and Crane, "Monte Carlo Geometry Processing", 2020).

The domain is a square with a round hole; values on its boundary are a harmonic function, which is
therefore the solution. Loops run in both modes, and give the same.
"""

import drjit as dr
from drjit.auto.ad import PCG32, Array2f, Bool, Float, UInt

EPSILON, STEPS = 1e-3, 64
HOLE, RADIUS = (0.2, -0.1), 0.35


def distance(p: Array2f) -> Float:
    """The distance to the boundary of the square [-1, 1]^2 without the hole."""
    square = 1 - dr.maximum(dr.abs(p.x), dr.abs(p.y))
    return dr.minimum(square, dr.norm(p - Array2f(HOLE)) - RADIUS)


def boundary(p: Array2f) -> Float:
    return p.x * p.x - p.y * p.y + 0.5 * p.x * p.y + p.x


@dr.syntax
def walk(p: Array2f, rng: PCG32, mode: str) -> tuple[Float, UInt, Array2f]:
    """Returns the value where a walk ends, the number of steps, and where it was last."""
    x, steps, active = Array2f(p), UInt(0), Bool(True)
    while dr.hint(active, mode=mode, label="walk", exclude=[p]):
        r = distance(x)
        if r > EPSILON:
            s, c = dr.sincos(dr.two_pi * rng.next_float32())
            x.x += r * c
            x.y += r * s
            steps += 1
        else:
            active &= False
        active &= steps < STEPS
    return boundary(x), steps, x


@dr.syntax
def screened(p: Array2f, sigma: Float, rng: PCG32) -> Float:
    """The screened equation (u'' = sigma u), by killing walks; returns an estimate of a hit."""
    weight, r = Float(1), distance(p)
    i = UInt(0)
    while dr.hint((r > EPSILON) & (i < 32), max_iterations=32):
        # 1 / I0(sqrt(sigma) r): the first terms of the series
        z = 0.25 * sigma * r * r
        i0, term, k = Float(1), Float(1), UInt(1)
        while k < 6:
            term *= z / Float(k * k)
            i0 += term
            k += 1
        weight /= i0
        s, c = dr.sincos(dr.two_pi * rng.next_float32())
        p = p + r * Array2f(c, s)
        r = distance(p)
        i += 1
    return weight


def main() -> Float:
    n, walks = 9, 128
    c = dr.linspace(Float, -0.9, 0.9, n)
    x, y = dr.meshgrid(c, c)
    p = Array2f(x, y)
    valid = distance(p) > 0
    index = dr.compress(valid)
    p = dr.gather(Array2f, p, index)
    print("points", dr.width(p), "of", n * n)
    starts = dr.repeat(p, walks)

    for mode in ("symbolic", "evaluated"):
        rng = PCG32(size=dr.width(starts), initstate=7)
        value, steps, end = walk(starts, rng, mode)
        u = dr.block_reduce(dr.ReduceOp.Add, value, walks) / walks
        exact = boundary(p)
        print(mode, "mean", dr.mean(u), "error", dr.sqrt(dr.mean(dr.square(u - exact))))
        print(mode, "steps", dr.sum(steps), dr.min(steps), dr.max(steps))
        print(mode, "solution", dr.gather(Float, u, dr.arange(UInt, 0, dr.width(u), 7)))
        print(mode, "left over", dr.count(distance(end) > EPSILON))

    # gradients of the estimate by the screening, in reverse and forward mode, and by differences
    few = Array2f([0.0, -0.6, 0.7], [0.6, 0.2, 0.7])
    starts = dr.repeat(few, 64)

    def estimate(sigma: Float) -> Float:
        rng = PCG32(size=dr.width(starts), initstate=11)
        return dr.mean(screened(starts, sigma, rng))

    sigma = Float(2.0)
    dr.enable_grad(sigma)
    u = estimate(sigma)
    print("screened", u)
    dr.forward_from(sigma)
    print("forward", u.grad)
    h = 1e-2
    quotient = (estimate(Float(2 + h)) - estimate(Float(2 - h))) / (2 * h)
    print("agree", dr.allclose(u.grad, quotient, rtol=1e-2))
    return u


if __name__ == "__main__":
    main()

"""Walk on spheres in space: the Poisson equation in a ball with a source, by sampling Green's
function of the largest sphere at every step, and the gradient of the solution by its parameters.
"""

from collections.abc import Callable

import drjit as dr
from drjit.auto.ad import PCG32, Array3f, Bool, Float, UInt

EPSILON, STEPS = 1e-3, 48


class Problem:
    """- laplacian(u) = source in the unit ball, u = boundary."""

    DRJIT_STRUCT = {"strength": Float, "center": Array3f}

    def __init__(self, strength: Float | None = None, center: Array3f | None = None) -> None:
        self.strength = strength if strength is not None else Float(0)
        self.center = center if center is not None else Array3f(0)

    def source(self, p: Array3f) -> Float:
        return self.strength * dr.exp(-2 * dr.squared_norm(p - self.center))

    def boundary(self, p: Array3f) -> Float:
        return p.x + p.y * p.z


def direction(rng: PCG32) -> Array3f:
    z = dr.fma(-2, rng.next_float32(), 1)
    phi = dr.two_pi * rng.next_float32()
    r = dr.safe_sqrt(1 - z * z)
    return Array3f(r * dr.cos(phi), r * dr.sin(phi), z)


def radius_of_source(rng: PCG32) -> Float:
    """A radius in the unit ball with density 6 r (1 - r), by rejection from a loop."""

    def body(rng: PCG32, r: Float, active: Bool) -> tuple[PCG32, Float, Bool]:
        a = rng.next_float32(active)
        b = rng.next_float32(active)
        take = active & (b < 4 * a * (1 - a))
        return rng, dr.select(take, a, r), active & ~take

    _, r, _ = dr.while_loop(
        state=(rng, Float(0.5), Bool(True)),
        cond=lambda rng, r, active: active,
        body=body,
        labels=("rng", "r", "active"),
    )
    return r


@dr.syntax
def walk(problem: Problem, p: Array3f, rng: PCG32) -> tuple[Float, UInt]:
    total, i = Float(0), UInt(0)
    r = 1 - dr.norm(p)
    while (r > EPSILON) & (i < STEPS):
        s = radius_of_source(rng)
        y = p + r * s * direction(rng)
        total += problem.source(y) * r * r / 6
        p = p + r * direction(rng)
        r = 1 - dr.norm(p)
        i += 1
    return total + problem.boundary(dr.normalize(p)), i


@dr.syntax
def sensitivity(problem: Problem, p: Array3f, rng: PCG32) -> Float:
    """The same, as a sum that is differentiated in reverse mode: what is walked does not depend on
    the parameters."""
    total, i = Float(0), UInt(0)
    r = 1 - dr.norm(p)
    while dr.hint((r > EPSILON) & (i < STEPS), max_iterations=-1):
        s = radius_of_source(rng)
        y = p + r * s * direction(rng)
        total += problem.source(y) * r * r / 6
        p = p + r * direction(rng)
        r = 1 - dr.norm(p)
        i += 1
    return total + problem.boundary(dr.normalize(p))


# What walks from points: an estimate, and perhaps the number of steps.
Estimator = Callable[[Problem, Array3f, PCG32], Float | tuple[Float, UInt]]


def main() -> Float:
    n = 256
    points = Array3f([0, 0.5, -0.3], [0, 0, 0.6], [0, -0.5, 0.2])
    starts = dr.repeat(points, n)
    rng = PCG32(size=dr.width(starts))
    value, steps = walk(Problem(Float(0), Array3f(0)), starts, rng)
    u = dr.block_sum(value, n) / n
    print("laplace", u, "exact", Problem().boundary(points))
    print("steps", dr.mean(Float(steps)), dr.max(steps))

    # a constant source has the solution (1 - r^2) / 6
    class Constant(Problem):
        def source(self, p: Array3f) -> Float:
            return Float(1.0)

        def boundary(self, p: Array3f) -> Float:
            return Float(0.0)

    value, _ = walk(Constant(), starts, PCG32(size=dr.width(starts), initstate=3))
    print("poisson", dr.block_sum(value, n) / n, "exact", (1 - dr.squared_norm(points)) / 6)

    def estimate(
        strength: Float,
        center: Array3f,
        function: Estimator = walk,
    ) -> Float:
        problem = Problem(strength, center)
        value = function(problem, starts, PCG32(size=dr.width(starts), initstate=5))
        return dr.mean(value[0] if isinstance(value, tuple) else value)

    strength, center = Float(3.0), Array3f(0.1, -0.2, 0.3)
    dr.enable_grad(strength, center)
    u = estimate(strength, center, sensitivity)
    dr.backward(u)
    print("source", u)
    print("reverse", strength.grad, center.grad)

    strength, center = Float(3.0), Array3f(0.1, -0.2, 0.3)
    dr.enable_grad(strength, center)
    dr.set_grad(center, Array3f(1, 0, 0))
    u = estimate(strength, center)
    print("forward", dr.forward_to(u))
    h = 0.01
    ends = [estimate(Float(3), Array3f(0.1 + s * h, -0.2, 0.3)) for s in (1, -1)]
    print("difference", (ends[0] - ends[1]) / (2 * h))
    return u


if __name__ == "__main__":
    main()

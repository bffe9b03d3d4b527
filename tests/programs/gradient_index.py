"""Light in a lens whose refractive index varies (Teh et al., "Adjoint Nonlinear Ray Tracing",
2022): the ray equation is integrated in a loop, and the index fitted so that a beam meets a point.

Luneburg's lens, n = sqrt(2 - r^2), focuses a parallel beam at its far side.
"""

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Float, TensorXf, Texture1f, UInt
from drjit.opt import Adam

STEPS = 48


class Luneburg:
    """n = sqrt(a - b r^2) inside the unit ball, 1 outside."""

    DRJIT_STRUCT = {"a": Float, "b": Float}

    def __init__(self, a: Float | None = None, b: Float | None = None) -> None:
        self.a = Float(2) if a is None else a
        self.b = Float(1) if b is None else b

    def gradient(self, x: Array3f) -> Array3f:
        """n times the gradient of n."""
        return dr.select(dr.squared_norm(x) < 1.2, -self.b * x, Array3f(0))


@dr.syntax
def propagate(lens: Luneburg, x: Array3f, v: Array3f, steps: int) -> tuple[Array3f, Array3f]:
    """Runge and Kutta's method for x'' = n grad(n)."""
    h, i = 0.5 * dr.pi / steps, UInt(0)
    while dr.hint(i < steps, max_iterations=steps, label="ray equation"):
        k1x, k1v = v, lens.gradient(x)
        k2x, k2v = v + 0.5 * h * k1v, lens.gradient(x + 0.5 * h * k1x)
        k3x, k3v = v + 0.5 * h * k2v, lens.gradient(x + 0.5 * h * k2x)
        k4x, k4v = v + h * k3v, lens.gradient(x + h * k3x)
        x += h / 6 * (k1x + 2 * (k2x + k3x) + k4x)
        v += h / 6 * (k1v + 2 * (k2v + k3v) + k4v)
        i += 1
    return x, v


def beam(n: int) -> tuple[Array3f, Array3f]:
    """Parallel rays that enter the ball."""
    r, phi = dr.meshgrid((dr.arange(Float, n) + 0.5) / n * 0.9, dr.arange(Float, 6) * (dr.pi / 3))
    o = Array3f(r * dr.cos(phi), r * dr.sin(phi), 0)
    o.z = -dr.sqrt(1 - dr.square(o.x) - dr.square(o.y))
    return o, Array3f(0, 0, 1)


@dr.syntax
def through_profile(profile: Texture1f, x: Array3f, v: Array3f, steps: int) -> Array3f:
    """The same for n^2 given by a table over r^2, by a symplectic method; no derivatives."""
    h, i = 0.5 * dr.pi / steps, UInt(0)
    while i < steps:
        x += 0.5 * h * v
        r2: Float = dr.squared_norm(x)
        low, high = profile.eval(r2 - 0.01)[0], profile.eval(r2 + 0.01)[0]
        force = (high - low) / 0.02 * x
        v += h * force
        x += 0.5 * h * v
        i += 1
    return x


def main() -> Array2f:
    o, d = beam(8)
    lens = Luneburg()
    for steps in (12, STEPS):
        x, v = propagate(lens, Array3f(o), Array3f(d), steps)
        spot = dr.mean(dr.squared_norm(x - Array3f(0, 0, 1)))
        print("spot", steps, dr.sqrt(spot))
    print("ends", x.x[:4] if isinstance(x.x, TensorXf) else dr.gather(Float, x.x, UInt(1, 6, 20)))
    print("directions", dr.gather(Array3f, v, UInt(0, 7, 47)))

    # derivatives of the spot by the two coefficients, forward and reverse
    def loss(a: Float, b: Float) -> Float:
        x, _ = propagate(Luneburg(a, b), Array3f(o), Array3f(d), 24)
        return dr.mean(dr.squared_norm(x - Array3f(0, 0, 1)))

    a, b = Float(1.9), Float(0.8)
    dr.enable_grad(b)
    value = loss(a, b)
    dr.forward_from(b)
    print("forward", value, value.grad)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        b = Float(0.8)
        dr.enable_grad(b)
        value = loss(a, b)
        dr.backward_from(value)
    print("reverse", value, b.grad)
    h = 1e-2
    print("difference", (loss(a, Float(0.8 + h)) - loss(a, Float(0.8 - h))) / (2 * h))

    # find the lens
    opt = Adam(lr=0.05, params={"b": Float(0.6)})
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        for i in range(12):
            value = loss(a, opt["b"])
            dr.backward(value)
            opt.step()
            if i % 4 == 3:
                print("fit", i, value, opt["b"])

    table = 2 - dr.linspace(Float, 0, 1, 33)
    profile = Texture1f(
        TensorXf(table, (33, 1)), filter_mode=dr.FilterMode.Linear, wrap_mode=dr.WrapMode.Clamp
    )
    x = through_profile(profile, Array3f(o), Array3f(d), STEPS)
    print("profile", dr.mean(dr.abs(x - Array3f(0, 0, 1)), axis=1))
    hits = Array2f(x.x, x.y)
    print("extent", dr.max(dr.norm(hits)), dr.min(x.z))
    return hits


if __name__ == "__main__":
    main()

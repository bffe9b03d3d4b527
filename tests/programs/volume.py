"""A cloud in a grid: delta and ratio tracking against quadrature with a traversal of the grid's
cells, phase functions chosen lane by lane, and derivatives of transmittance by the density."""

import drjit as dr
from drjit.auto.ad import PCG32, Array2f, Array3f, Array3u, Bool, Float, TensorXf, Texture3f, UInt
from drjit.dda import dda, integrate

RES = 6


class Phase:
    """Scattering by an angle: a base class, as renderers have."""

    def sample(self, d: Array3f, u: Array2f) -> Array3f:
        raise NotImplementedError

    def eval(self, cos: Float) -> Float:
        raise NotImplementedError


class Isotropic(Phase):
    def sample(self, d: Array3f, u: Array2f) -> Array3f:
        z = 1 - 2 * u.x
        s, c = dr.sincos(dr.two_pi * u.y)
        r = dr.safe_sqrt(1 - z * z)
        return Array3f(r * c, r * s, z)

    def eval(self, cos: Float) -> Float:
        return Float(0.25 / dr.pi)


class HenyeyGreenstein(Phase):
    def __init__(self, g: float) -> None:
        self.g = g

    def sample(self, d: Array3f, u: Array2f) -> Array3f:
        g = self.g
        q = (1 - g * g) / (1 - g + 2 * g * u.x)
        cos = (1 + g * g - q * q) / (2 * g)
        sin = dr.safe_sqrt(1 - cos * cos)
        s, c = dr.sincos(dr.two_pi * u.y)
        x, y = dr.normalize(dr.cross(d, Array3f(0.3, 0.9, -0.1))), Array3f(0)
        y = dr.cross(d, x)
        return dr.normalize(x * (sin * c) + y * (sin * s) + d * cos)

    def eval(self, cos: Float) -> Float:
        g = self.g
        return (0.25 / dr.pi) * (1 - g * g) / (1 + g * g - 2 * g * cos) ** 1.5


PHASES = [Isotropic(), HenyeyGreenstein(0.6), HenyeyGreenstein(-0.3)]


def density() -> TensorXf:
    c = (dr.arange(Float, RES) + 0.5) / RES
    z, y, x = dr.meshgrid(c, c, c, indexing="ij")
    blob = dr.exp(-8 * dr.squared_norm(Array3f(x, y, z) - Array3f(0.5, 0.4, 0.6)))
    return TensorXf(3 * blob * (1 + 0.3 * dr.sin(20 * x)), (RES, RES, RES, 1))


def leaves(p: Array3f, d: Array3f) -> Float:
    """The distance at which a ray within the unit cube leaves it."""
    t = dr.select(d > 0, (1 - p) / d, -p / d)
    return dr.min(dr.select(dr.abs(d) < 1e-9, dr.inf, t))


@dr.syntax
def ratio_tracking(
    grid: Texture3f, o: Array3f, d: Array3f, far: Float, majorant: float, rng: PCG32
) -> tuple[Float, UInt]:
    """An unbiased estimate of transmittance."""
    t, weight, n = Float(0), Float(1), UInt(0)
    t -= dr.log(1 - rng.next_float32()) / majorant
    while t < far:
        weight *= 1 - grid.eval(o + t * d)[0] / majorant
        t -= dr.log(1 - rng.next_float32()) / majorant
        n += 1
    return weight, n


@dr.syntax
def scatter_paths(
    grid: Texture3f, o: Array3f, d: Array3f, kind: UInt, majorant: float, rng: PCG32
) -> tuple[Float, UInt, Array3f]:
    """Multiple scattering: where a path leaves, and after how many events."""
    events, escaped, steps = UInt(0), Bool(False), UInt(0)
    weight = Float(1)
    while ~escaped & (steps < 200) & (weight > 0.05):
        t = -dr.log(1 - rng.next_float32()) / majorant
        if t > leaves(o, d):
            escaped = Bool(True)
            o = o + leaves(o, d) * d
        else:
            o = o + t * d
            if rng.next_float32() * majorant < grid.eval(o)[0]:
                u = Array2f(rng.next_float32(), rng.next_float32())
                d = dr.switch(kind, [p.sample for p in PHASES], d, u)
                events += 1
                weight *= 0.9
        steps += 1
    return dr.select(escaped, weight, 0), events, d


def main() -> TensorXf:
    values = density()
    linear = Texture3f(values, wrap_mode=dr.WrapMode.Clamp)
    majorant = float(dr.max(values.array)[0]) * 1.01
    print("majorant", majorant)
    n = 6
    x, y = dr.meshgrid(*[(dr.arange(Float, n) + 0.5) / n] * 2)
    o = Array3f(x, y, dr.full(Float, 0.02, n * n))
    d = dr.normalize(Array3f(0.2 * (0.5 - x), 0.3 * (0.5 - y), 1))
    far = leaves(o, d)
    print("far", dr.min(far), dr.max(far))

    # optical depth: many points, and cell by cell as the library integrates
    h = far / 64
    depth = Float(0)
    for k in range(64):
        depth += h * linear.eval(o + (k + 0.5) * h * d)[0]
    print("quadrature", dr.mean(dr.exp(-depth)))
    low, high = Array3f(0), Array3f(1)
    exact = integrate(o, d, far, low, high, values[:, :, :, 0])
    print("integral", dr.mean(exact), dr.gather(Float, exact, UInt(0, 14, 35)))

    def visit(
        state: tuple[UInt, Float],
        index: Array3u,
        point_in: Array3f,
        point_out: Array3f,
        active: Bool,
    ) -> tuple[tuple[UInt, Float], Bool]:
        cells, length = state
        cells += 1
        length += dr.norm(point_out - point_in)
        return (cells, length), Bool(True)

    cells, length = dda(
        o, d, far, Array3u(RES), low, high, visit, (UInt(0), dr.zeros(Float, n * n)), Bool(True)
    )
    print("cells", dr.sum(cells), dr.max(cells), dr.mean(length) > 0)

    samples = 64
    rng = PCG32(n * n * samples)
    ray = dr.repeat(dr.arange(UInt, n * n), samples)
    many_o, many_d = dr.gather(Array3f, o, ray), dr.gather(Array3f, d, ray)
    weight, steps = ratio_tracking(linear, many_o, many_d, dr.repeat(far, samples), majorant, rng)
    estimate = dr.block_sum(weight, samples) / samples
    print("ratio", dr.mean(estimate), "steps", dr.sum(steps))
    print("error", dr.max(dr.abs(estimate - dr.exp(-depth))) < 0.2)

    kind = dr.arange(UInt, n * n * samples) % len(PHASES)
    light, events, out = scatter_paths(linear, many_o, many_d, kind, majorant, rng)
    for k in range(len(PHASES)):
        mine = kind == k
        count = dr.count(mine)
        means = [dr.sum(dr.select(mine, v, 0)) / count for v in (light, Float(events), out.z)]
        print("phase", k, means)
    cos = dr.linspace(Float, -1, 1, 101)
    for phase in PHASES:
        p = phase.eval(cos) + 0 * cos
        print("normalized", dr.mean(p) * 4 * dr.pi)

    # transmittance by the density of every cell
    t = TensorXf(values)
    dr.enable_grad(t)
    loss = dr.mean(dr.exp(-integrate(o, d, far, low, high, t[:, :, :, 0])))
    dr.backward(loss)
    print("gradient", dr.sum(t.grad), t.grad[2, 3, :, 0])
    t = TensorXf(values)
    dr.enable_grad(t)
    dr.set_grad(t, 0.1 * values)
    loss = dr.mean(dr.exp(-integrate(o, d, far, low, high, t[:, :, :, 0])))
    print("forward", dr.forward_to(loss))
    return TensorXf(estimate, (n, n))


if __name__ == "__main__":
    main()

"""A fluid of particles (smoothed particle hydrodynamics, Mueller et al. 2003), whose neighbours are
found with a hash grid that is built anew in every step: counting, prefix sum, scatter."""

from dataclasses import dataclass

import drjit as dr
from drjit.auto import Array2f, Array2i, Bool, Float, Int, TensorXf, UInt

H, MASS, REST, STIFFNESS, VISCOSITY = 0.1, 1.0, 130.0, 4.0, 8.0
TABLE = 64
POLY6 = 4 / (dr.pi * H**8)
SPIKY = -30 / (dr.pi * H**5)
LAPLACE = 40 / (dr.pi * H**5)


@dataclass
class Particles:
    x: Array2f
    v: Array2f


@dataclass
class Grid:
    """The cells' first entries in the list of particles, which is ordered by cell."""

    start: UInt
    order: UInt
    count: UInt
    cell: Array2i


def cell(x: Array2f) -> Array2i:
    return Array2i(dr.floor(x / H))


def hashed(c: Array2i) -> UInt:
    return (UInt(c.x) * 73856093 ^ UInt(c.y) * 19349663) % TABLE


def build(x: Array2f) -> Grid:
    n = dr.width(x)
    key = hashed(cell(x))
    count = dr.zeros(UInt, TABLE)
    dr.scatter_reduce(dr.ReduceOp.Add, count, UInt(1), key)
    start = dr.prefix_sum(count)
    # argsort keeps the order of equal keys, so that sums are the same in every run
    order = dr.argsort(key)
    filled = dr.copy(start)
    slot = dr.scatter_inc(filled, key)
    assert dr.all(dr.sort(slot) == dr.arange(UInt, n))
    return Grid(start, order, count, cell(x))


@dr.syntax
def density(p: Particles, grid: Grid) -> Float:
    rho, c = Float(0), cell(p.x)
    k = UInt(0)
    while k < 9:
        near = c + Array2i(Int(k % 3) - 1, Int(k // 3) - 1)
        key = hashed(near)
        i = dr.gather(UInt, grid.start, key)
        end = i + dr.gather(UInt, grid.count, key)
        while i < end:
            j = dr.gather(UInt, grid.order, i)
            r2 = dr.squared_norm(p.x - dr.gather(Array2f, p.x, j))
            # other cells may have the same place in the table
            if (r2 < H * H) & dr.all(dr.gather(Array2i, grid.cell, j) == near):
                rho += MASS * POLY6 * (H * H - r2) ** 3
            i += 1
        k += 1
    return rho


@dr.syntax
def acceleration(p: Particles, rho: Float, grid: Grid) -> Array2f:
    pressure = STIFFNESS * dr.maximum(rho - REST, 0)
    force, c = Array2f(0), cell(p.x)
    me = dr.arange(UInt, dr.width(p.x))
    k = UInt(0)
    while k < 9:
        near = c + Array2i(Int(k % 3) - 1, Int(k // 3) - 1)
        key = hashed(near)
        i = dr.gather(UInt, grid.start, key)
        end = i + dr.gather(UInt, grid.count, key)
        while i < end:
            j = dr.gather(UInt, grid.order, i)
            d = p.x - dr.gather(Array2f, p.x, j)
            r = dr.norm(d)
            same = dr.all(dr.gather(Array2i, grid.cell, j) == near)
            if same & (j != me) & (r < H) & (r > 1e-6):
                other = dr.gather(Float, rho, j)
                push = 0.5 * (pressure + dr.gather(Float, pressure, j)) / other
                force -= MASS * push * SPIKY * dr.square(H - r) * d / r
                slip = dr.gather(Array2f, p.v, j) - p.v
                force += VISCOSITY * 1e-3 * MASS * slip / other * LAPLACE * (H - r)
            i += 1
        k += 1
    return force / rho + Array2f(0, -9.8)


def walls(p: Particles) -> Particles:
    for axis in range(2):
        x, v = p.x[axis], p.v[axis]
        out = (x < 0.02) | (x > 0.98)
        p.v[axis] = dr.select(out, -0.5 * v, v)
        p.x[axis] = dr.clip(x, 0.02, 0.98)
    return p


def step(p: Particles, dt: float) -> tuple[Particles, Float]:
    grid = build(p.x)
    rho = density(p, grid)
    a = acceleration(p, rho, grid)
    p.v = p.v + dt * a
    p.x = p.x + dt * p.v
    p = walls(p)
    dr.eval(p, rho)
    return p, rho


def main() -> TensorXf:
    i, j = dr.meshgrid(dr.arange(UInt, 12), dr.arange(UInt, 12), indexing="ij")
    x = Array2f(0.1 + 0.045 * Float(i) + 0.004 * Float(j % 2), 0.1 + 0.045 * Float(j))
    p = Particles(x, dr.zeros(Array2f, dr.width(x)))
    grid = build(p.x)
    print("cells", dr.count(grid.count > 0), dr.max(grid.count), dr.sum(grid.count))

    # neighbours, counted once through the grid and once for all pairs
    n = dr.width(p.x)
    a, b = dr.meshgrid(dr.arange(UInt, n), dr.arange(UInt, n), indexing="ij")
    close = dr.squared_norm(dr.gather(Array2f, p.x, a) - dr.gather(Array2f, p.x, b)) < H * H
    pairs = dr.compress(close)
    every = dr.zeros(Float, n)
    r2 = dr.squared_norm(
        dr.gather(Array2f, p.x, dr.gather(UInt, a, pairs))
        - dr.gather(Array2f, p.x, dr.gather(UInt, b, pairs))
    )
    dr.scatter_add(every, MASS * POLY6 * (H * H - r2) ** 3, dr.gather(UInt, a, pairs))
    rho = density(p, grid)
    print("pairs", dr.width(pairs), dr.allclose(every, rho, rtol=1e-3), dr.mean(rho))

    for k in range(8):
        p, rho = step(p, 0.004)
        if k % 3 == 1:
            energy = 0.5 * dr.sum(dr.squared_norm(p.v)) + 9.8 * dr.sum(p.x.y)
            print("step", k, "energy", energy, "density", dr.mean(rho), dr.max(rho))
    print("centre", dr.mean(p.x, axis=1))
    print("some", dr.gather(Array2f, p.x, UInt(0, 50, 143)))
    splash: Bool = p.x.y > 0.55
    print("above", dr.count(splash))
    heights = dr.zeros(Float, 8)
    dr.scatter_reduce(dr.ReduceOp.Max, heights, p.x.y, UInt(p.x.x * 8))
    print("surface", heights)
    return TensorXf(dr.ravel(p.x), (n, 2))


if __name__ == "__main__":
    main()

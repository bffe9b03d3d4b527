"""A fluid of particles that falls over: smoothed particle hydrodynamics (Mueller et al. 2003).

    python examples/fluid.py [--side N] [--steps N] [--output FILE]

Neighbours are found with a hash grid that is built anew in every step: keys of cells are counted
by scatters, a prefix sum gives where cells begin, a sort the order of the particles; two nested
loops then visit what lies around each particle. The picture shows four moments.
"""

import argparse
from dataclasses import dataclass

import imageio.v3 as iio
import numpy as np

import drjit as dr
from drjit.auto import Array2f, Array2i, Float, Int, UInt

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


def draw(p: Particles, size: int) -> np.ndarray:
    """White dots, the faster the redder."""
    picture = np.full((size, size, 3), 0.06)
    x, v = np.array(p.x), np.minimum(np.linalg.norm(np.array(p.v), axis=0) / 4, 1)
    column = np.clip((x[0] * size).astype(int), 1, size - 2)
    row = np.clip(((1 - x[1]) * size).astype(int), 1, size - 2)
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            picture[row + dy, column + dx] = np.stack([0.3 + 0.7 * v, 0.6 + 0 * v, 1 - 0.6 * v], 1)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=20, help="particles along a side")
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--output", default="fluid.png")
    arguments = parser.parse_args()

    n = arguments.side
    i, j = dr.meshgrid(dr.arange(UInt, n // 2), dr.arange(UInt, n), indexing="ij")
    x = 0.03 + 0.043 * Array2f(Float(i), Float(j))
    x.x += 0.004 * Float(j % 2)
    p = Particles(x * min(1, 20 / n), dr.zeros(Array2f, dr.width(x)))
    frames: list[np.ndarray] = []
    rho = Float(0)
    for k in range(arguments.steps):
        if k % max(1, arguments.steps // 4) == 0 and len(frames) < 4:
            frames.append(draw(p, 256))
        p, rho = step(p, 0.004)
    iio.imwrite(arguments.output, (np.concatenate(frames, axis=1) * 255).astype(np.uint8))
    density = float(dr.mean(rho)[0])
    print(f"{arguments.output}: {dr.width(x)} particles, mean density {density:.0f}.")


if __name__ == "__main__":
    main()

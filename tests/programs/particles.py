"""A fluid of particles (smoothed particle hydrodynamics, Mueller et al. 2003), whose neighbours are
found with a hash grid that is built anew in every step: counting, prefix sum, scatter."""

import sys
from pathlib import Path

import drjit as dr

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from fluid import MASS, POLY6, H, Particles, build, density, step

from drjit.auto import Array2f, Bool, Float, TensorXf, UInt


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

"""What benchmarks of the processor and of GPUs have in common: loops over points and rays. `mod`
has the types, such as `drjit.llvm`. Only what Dr.Jit has as well is used.
"""

from typing import Any

import drjit as dr


def plane(mod: Any, n: int) -> Any:
    """The complex numbers of an image of the Mandelbrot set."""
    x, y = dr.meshgrid(dr.linspace(mod.Float, -2, 1, n), dr.linspace(mod.Float, -1.5, 1.5, n))
    return mod.Complex2f(x, y)


def mandelbrot(mod: Any, c: Any, size: int, rounds: int) -> Any:
    """The number of iterations after which numbers escape."""

    def body(z: Any, i: Any) -> tuple[Any, Any]:
        return z * z + c, i + 1

    def inside(z: Any, i: Any) -> Any:
        return (dr.squared_norm(z) < 4) & (i < rounds)

    return dr.while_loop((mod.Complex2f(0), dr.zeros(mod.UInt32, size)), inside, body)[1]


def rays(mod: Any, n: int) -> Any:
    """The directions of the rays of an image."""
    x, y = dr.meshgrid(dr.linspace(mod.Float, -1, 1, n), dr.linspace(mod.Float, -1, 1, n))
    return dr.normalize(mod.Array3f(x, y, 2))


def distance(p: Any) -> Any:
    """The signed distance of a torus with a rippled surface."""
    ring = dr.sqrt(p.x * p.x + p.z * p.z) - 0.6
    tube = dr.sqrt(ring * ring + p.y * p.y) - 0.25
    return tube + 0.02 * dr.sin(20 * p.x) * dr.sin(20 * p.y) * dr.sin(20 * p.z)


def sphere_tracing(mod: Any, d: Any, size: int) -> Any:
    """How far rays go to the torus."""
    o = mod.Array3f(0, 0.4, -2)

    def step(t: Any, i: Any, live: Any) -> tuple[Any, Any, Any]:
        s = distance(o + d * t)
        t = t + s
        return t, i + 1, (s > 1e-4) & (t < 6)

    def going(t: Any, i: Any, live: Any) -> Any:
        return live & (i < 64)

    state = dr.zeros(mod.Float, size), mod.UInt32(0), mod.Bool(True)
    return dr.while_loop(state, going, step)[0]

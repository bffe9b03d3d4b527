"""A path tracer: light that bounces between three spheres and a chequered floor.

    python examples/path_tracing.py [--size N] [--samples N] [--output FILE]

Every sample is a lane that follows one path. The loop over bounces, the loop over the objects of
the scene (unrolled by Python), the random numbers and the sum over the samples of a pixel are one
kernel.
"""

import argparse
from dataclasses import dataclass
from math import pi

import matplotlib.pyplot as plt
import numpy as np

import drjit as dr
from drjit.auto import PCG32, Array3f, Bool, Float, Int32, UInt32

SPHERES = (  # centre, radius, colour, how much of the light is reflected as by a mirror
    ((-1.1, 0.6, 0.3), 0.6, (0.9, 0.3, 0.2), 0.0),
    ((0.2, 0.8, 1.0), 0.8, (0.9, 0.9, 0.9), 0.95),
    ((1.1, 0.45, -0.3), 0.45, (0.25, 0.5, 0.9), 0.2),
)


@dataclass
class Hit:
    """Where a ray meets the scene: `t` is infinite if it does not."""

    t: Float
    normal: Array3f
    colour: Array3f
    mirror: Float


def intersect(o: Array3f, d: Array3f) -> Hit:
    """The nearest object along a ray."""
    t = -o.y / d.y
    t = dr.select((t > 1e-3) & (t < 50), t, dr.inf)
    p = dr.fma(d, dr.select(t < dr.inf, t, 0), o)
    odd = (Int32(dr.floor(p.x)) + Int32(dr.floor(p.z))) & 1
    grey = dr.select(odd == 1, Float(0.35), Float(0.8))
    hit = Hit(t, Array3f(0, 1, 0), Array3f(grey), Float(0))
    for centre, radius, colour, mirror in SPHERES:
        v = o - Array3f(centre)
        b = dr.dot(v, d)
        disc = b * b - dr.squared_norm(v) + radius * radius
        root = dr.sqrt(dr.maximum(disc, 0))
        t = dr.select(-b - root > 1e-3, -b - root, -b + root)
        nearer = (disc > 0) & (t > 1e-3) & (t < hit.t)
        hit.t = dr.select(nearer, t, hit.t)
        normal = (dr.fma(d, t, v)) / radius
        hit.normal = dr.select(nearer, normal, hit.normal)
        hit.colour = dr.select(nearer, Array3f(colour), hit.colour)
        hit.mirror = dr.select(nearer, mirror, hit.mirror)
    return hit


def sky(d: Array3f) -> Array3f:
    """The light that comes from a direction: a gradient, and a sun."""
    blue = dr.lerp(Array3f(1.0, 0.95, 0.9), Array3f(0.35, 0.55, 0.95), dr.clip(d.y * 1.5, 0, 1))
    sun = dr.dot(d, dr.normalize(Array3f(-0.6, 0.8, -0.5))) > 0.97
    return dr.select(sun, Array3f(14, 12, 9), blue)


def scatter(n: Array3f, d: Array3f, mirror: Float, rng: PCG32) -> Array3f:
    """A new direction: that of a mirror, or one with a density proportional to the cosine."""
    height = 1 - 2 * rng.next_float32()
    around = 2 * pi * rng.next_float32()
    s, c = dr.sincos(around)
    flat = dr.sqrt(dr.maximum(1 - height * height, 0))
    diffuse = dr.normalize(n + 0.999 * Array3f(flat * c, flat * s, height))
    reflected = d - 2 * dr.dot(n, d) * n
    return dr.select(rng.next_float32() < mirror, reflected, diffuse)


@dr.syntax
def radiance(o: Array3f, d: Array3f, rng: PCG32, bounces: int) -> Array3f:
    """The light that arrives along rays, by one random path each."""
    found = Array3f(0)
    throughput = Array3f(1)
    depth = UInt32(0)
    active = Bool(True)
    while active:
        hit = intersect(o, d)
        missed = hit.t == dr.inf
        found += dr.select(missed, throughput * sky(d), 0)
        o = dr.fma(d, dr.select(missed, 0, hit.t), o)
        d = scatter(hit.normal, d, hit.mirror, rng)
        throughput *= dr.lerp(hit.colour, Array3f(0.95), hit.mirror)
        # Paths that carry little end early, the others stand in for them.
        q = dr.minimum(dr.max(throughput), 0.95)
        survives = (depth < 2) | (rng.next_float32() < q)
        throughput *= dr.select(depth < 2, 1, dr.rcp(q))
        depth += 1
        active = ~missed & survives & (depth < bounces)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--output", default="path_tracing.png")
    arguments = parser.parse_args()
    n, samples = arguments.size, arguments.samples

    pixel = dr.arange(UInt32, n * n * samples) // samples
    rng = PCG32(size=n * n * samples)
    x = (Float(pixel % n) + rng.next_float32()) / n * 2 - 1
    y = 1 - (Float(pixel // n) + rng.next_float32()) / n * 2
    o = Array3f(0, 1.3, -4)
    d = dr.normalize(Array3f(x * 0.6, y * 0.6 - 0.12, 1))
    light = radiance(o, d, rng, 12)
    mean = Array3f([dr.block_sum(c, samples) / samples for c in light])

    picture = dr.linear_to_srgb(mean / (1 + mean)).numpy()
    picture = picture.T.reshape(n, n, 3)
    plt.imsave(arguments.output, np.clip(picture * 1.25, 0, 1))
    print(f"{arguments.output}: {n} x {n}, {samples} paths a pixel.")


if __name__ == "__main__":
    main()

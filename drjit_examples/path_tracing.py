"""A path tracer: glass, gold, lacquer and stone under a lamp, seen through a lens.

Every sample is a lane that follows one path. The loop over bounces, the spheres of the scene
(unrolled by Python), the look-ups in textures, the random numbers and the sum over the samples of
a pixel are one kernel. A diffuse surface asks for the light of the lamp itself (next-event
estimation); other light is found by the path, which goes on for up to 24 bounces.
"""

from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit.auto import (
    PCG32,
    Array2f,
    Array3f,
    Bool,
    Float,
    TensorXf,
    Texture2f,
    UInt32,
    UInt64,
)  # fmt: skip
from drjit_examples.common import Options, Progress, start, write

DIFFUSE, METAL, GLASS, LACQUER, LAMP = range(5)
BOUNCES, PASS = 24, 16  # paths that a pixel gets at a time
RADIANCE = 70.0


@dataclass
class Sphere:
    centre: tuple[float, float, float]
    radius: float
    colour: tuple[float, float, float]
    kind: int = DIFFUSE
    texture: Texture2f | None = None


@dataclass
class Hit:
    """Where a ray meets the scene: `t` is infinite if it does not."""

    t: Float
    normal: Array3f
    colour: Array3f
    kind: UInt32


def veins(n: int, seed: int) -> np.ndarray:
    """A periodic pattern of n x n values from 0 to 1: sines that distort each other."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:n, 0:n] / n * 2 * np.pi
    value = 0 * x
    for octave in range(5):
        a, b = rng.integers(1, 4, 2) * 2**octave
        value += np.sin(a * x + 1.5 * np.sin(b * y + value) + rng.uniform(0, 6)) / 1.6**octave
    return np.abs(np.sin(value)) ** 0.5


def stone(n: int, light: float, dark: tuple[float, float, float], seed: int) -> Texture2f:
    """Marble of two colours."""
    share = veins(n, seed)[:, :, None]
    pixels = light * share + np.array(dark) * (1 - share)
    return Texture2f(TensorXf(pixels.astype(np.float32)), wrap_mode=dr.WrapMode.Repeat)


def tiles(n: int) -> Texture2f:
    """A floor of two kinds of marble, with joints."""
    y, x = np.mgrid[0:n, 0:n] / n * 2
    odd = ((x.astype(int) + y.astype(int)) % 2)[:, :, None]
    white = 0.55 + 0.25 * veins(n, 3)[:, :, None]
    green = np.array([0.03, 0.12, 0.10]) + 0.15 * (1 - veins(n, 8)[:, :, None])
    joint = (np.minimum(x % 1, y % 1) < 0.015)[:, :, None]
    pixels = np.where(joint, 0.1, np.where(odd == 1, white, green))
    return Texture2f(TensorXf(pixels.astype(np.float32)), wrap_mode=dr.WrapMode.Repeat)


class Scene:
    """Spheres on a floor; the last one is the lamp."""

    def __init__(self) -> None:
        self.floor = tiles(1024)
        blue = stone(512, 0.85, (0.05, 0.12, 0.4), 1)
        self.spheres = [
            Sphere((-1.15, 0.75, 0.9), 0.75, (1.0, 0.72, 0.3), METAL),
            Sphere((0.1, 0.6, -0.2), 0.6, (0.98, 1.0, 0.99), GLASS),
            Sphere((1.35, 0.7, 0.7), 0.7, (1, 1, 1), LACQUER, blue),
            Sphere((0.35, 0.95, 2.6), 0.95, (0.75, 0.06, 0.05), LACQUER),
        ]
        rng = np.random.default_rng(4)
        while len(self.spheres) < 16:
            radius = rng.uniform(0.12, 0.26)
            x, z = rng.uniform(-2.6, 2.6), rng.uniform(-1.8, 2.2)
            apart = [
                np.hypot(x - s.centre[0], z - s.centre[2]) > 2 * np.sqrt(radius * s.radius) + 0.05
                for s in self.spheres
            ]
            if all(apart):
                colour = 0.5 + 0.45 * np.cos(
                    2 * np.pi * (rng.uniform() + np.array([0, 0.33, 0.67]))
                )
                kind = int(rng.choice([DIFFUSE, LACQUER, LACQUER, METAL, GLASS]))
                r, g, b = (0.97, 0.97, 0.97) if kind == GLASS else colour.tolist()
                self.spheres.append(Sphere((x, radius, z), radius, (r, g, b), kind))
        self.lamp = Sphere((-2.2, 4.2, -1.6), 0.55, (1.0, 0.93, 0.82), LAMP)
        self.spheres.append(self.lamp)

    def intersect(self, o: Array3f, d: Array3f) -> Hit:
        """The nearest object along a ray."""
        t = -o.y / d.y
        t = dr.select((t > 1e-3) & (t < 60), t, dr.inf)
        p = dr.fma(d, dr.select(t < dr.inf, t, 0), o)
        colour = Array3f(self.floor.eval(Array2f(p.x, p.z) * 0.7 + 0.3, t < dr.inf))
        hit = Hit(t, Array3f(0, 1, 0), colour, UInt32(DIFFUSE))
        for sphere in self.spheres:
            v = o - Array3f(sphere.centre)
            b = dr.dot(v, d)
            # As the distance of the ray from the centre, which is precise for small spheres.
            disc = sphere.radius**2 - dr.squared_norm(v - b * d)
            root = dr.sqrt(dr.maximum(disc, 0))
            t = dr.select(-b - root > 1e-3, -b - root, -b + root)
            nearer = (disc > 0) & (t > 1e-3) & (t < hit.t)
            n = dr.fma(d, t, v) / sphere.radius
            colour = Array3f(sphere.colour)
            if sphere.texture is not None:
                at = Array2f(dr.atan2(n.z, n.x) / dr.two_pi, dr.acos(dr.clip(n.y, -1, 1)) / dr.pi)
                colour = Array3f(sphere.texture.eval(at, nearer))
            hit.t = dr.select(nearer, t, hit.t)
            hit.normal = dr.select(nearer, n, hit.normal)
            hit.colour = dr.select(nearer, colour, hit.colour)
            hit.kind = dr.select(nearer, UInt32(sphere.kind), hit.kind)
        return hit

    def sky(self, d: Array3f) -> Array3f:
        """The light of an evening."""
        up = dr.sqrt(dr.clip(d.y * 1.5, 0, 1))
        return dr.lerp(Array3f(0.9, 0.5, 0.28), Array3f(0.03, 0.06, 0.16), up)

    def towards_lamp(self, p: Array3f, rng: PCG32) -> tuple[Array3f, Float]:
        """A direction to the lamp, uniform in the cone of these, and the solid angle of it."""
        to = Array3f(self.lamp.centre) - p
        sin2 = self.lamp.radius**2 / dr.squared_norm(to)
        height = 1 - rng.next_float32() * (1 - dr.sqrt(1 - sin2))
        around = rng.next_float32()
        d = turned(dr.normalize(to), height, around)
        return d, dr.two_pi * (1 - dr.sqrt(1 - sin2))


def frame(n: Array3f) -> tuple[Array3f, Array3f]:
    """Two vectors that make an orthonormal frame with n (Duff et al. 2017)."""
    sign = dr.copysign(Float(1), n.z)
    a = -dr.rcp(sign + n.z)
    b = n.x * n.y * a
    first = Array3f(1 + sign * dr.square(n.x) * a, sign * b, -sign * n.x)
    return first, Array3f(b, sign + dr.square(n.y) * a, -n.y)


def turned(axis: Array3f, cosine: Float, around: Float) -> Array3f:
    """The direction at an angle to an axis, and one around it in turns."""
    s, c = dr.sincos(dr.two_pi * around)
    sine = dr.safe_sqrt(1 - cosine * cosine)
    a, b = frame(axis)
    return a * (sine * c) + b * (sine * s) + axis * cosine


def schlick(cosine: Float, straight: float) -> Float:
    """How much is reflected, after Schlick."""
    return straight + (1 - straight) * dr.maximum(1 - cosine, 0) ** 5


def bounce(hit: Hit, d: Array3f, rng: PCG32) -> tuple[Array3f, Array3f, Bool]:
    """A new direction, what becomes of the light, and whether the surface is a diffuse one there
    (of lacquer, the layer below)."""
    outside = dr.dot(hit.normal, d) < 0
    n = dr.select(outside, hit.normal, -hit.normal)
    cosine = -dr.dot(n, d)
    choice, a, b = (rng.next_float32() for _ in range(3))
    mirror = d + 2 * cosine * n

    eta = dr.select(outside, Float(1 / 1.5), 1.5)
    k = 1 - eta * eta * (1 - cosine * cosine)
    through = eta * d + (eta * cosine - dr.safe_sqrt(k)) * n
    inner = dr.select(outside, cosine, dr.safe_sqrt(k))
    glass = dr.select((k < 0) | (choice < schlick(inner, 0.04)), mirror, through)

    coated = (hit.kind == LACQUER) & (choice < schlick(cosine, 0.04))
    diffuse = (hit.kind == DIFFUSE) | ((hit.kind == LACQUER) & ~coated)
    new = dr.select(hit.kind == GLASS, glass, mirror)
    rough = turned(dr.normalize(new), 1 - 0.004 * a, b)
    new = dr.select((hit.kind == METAL) & (dr.dot(rough, n) > 0), rough, new)
    new = dr.select(diffuse, turned(n, dr.sqrt(1 - a), b), new)
    return dr.normalize(new), dr.select(coated, Array3f(1), hit.colour), diffuse


@dr.syntax
def radiance(scene: Scene, o: Array3f, d: Array3f, rng: PCG32) -> Array3f:
    """The light that arrives along rays, by one random path each."""
    found, throughput = Array3f(0), Array3f(1)
    depth, active, seen = UInt32(0), Bool(True), Bool(True)
    lamp = Array3f(scene.lamp.colour) * RADIANCE
    while active:
        hit = scene.intersect(o, d)
        missed = hit.t == dr.inf
        found += dr.select(missed, throughput * scene.sky(d), 0)
        # Whoever has asked for the light of the lamp does not meet it by chance as well.
        found += dr.select((hit.kind == LAMP) & seen & ~missed, throughput * lamp, 0)
        active = ~missed & (hit.kind != LAMP)
        if active:
            o = dr.fma(d, hit.t, o)
            n = dr.select(dr.dot(hit.normal, d) < 0, hit.normal, -hit.normal)
            d, colour, diffuse = bounce(hit, d, rng)
            throughput *= colour
            if diffuse:
                to, angle = scene.towards_lamp(o, rng)
                cosine = dr.dot(n, to)
                lit = (cosine > 0) & (scene.intersect(o + 1e-3 * n, to).kind == LAMP)
                found += dr.select(lit, throughput * lamp * (cosine * angle / dr.pi), 0)
            seen = ~diffuse
            # Paths that carry little end early, the others stand in for them.
            q = dr.select(depth < 3, 1, dr.minimum(dr.max(throughput), 0.95))
            active = (rng.next_float32() < q) & (depth < BOUNCES)
            throughput /= q
            depth += 1
    return found


def render(scene: Scene, width: int, height: int, samples: int, seed: int) -> Array3f:
    """The mean of some paths for each pixel."""
    count = width * height * samples
    # The numbers 0 and 1 would simplify the kernel, and so make other ones for the first passes.
    rng = PCG32(count, initstate=dr.opaque(UInt64, seed))
    pixel = dr.arange(UInt32, count) // samples
    x = (Float(pixel % width) + rng.next_float32() - width / 2) / height * 2
    y = 1 - (Float(pixel // width) + rng.next_float32()) / height * 2
    # The plane in focus is that of the spheres in front.
    focus = Array3f(x * 1.42, y * 1.42 - 1.02, 4.5)
    r, (s, c) = dr.sqrt(rng.next_float32()) * 0.03, dr.sincos(dr.two_pi * rng.next_float32())
    o = Array3f(r * c, r * s, 0)
    light = radiance(scene, o + Array3f(0, 1.75, -4.7), dr.normalize(focus - o), rng)
    light = dr.minimum(light, 8)  # of rare paths that carry much, at the cost of some light
    return Array3f([dr.block_sum(c, samples) / samples for c in light])


def main() -> None:
    options = Options(__doc__, output="path_tracing.png")
    options.number("--size", 512, "rows of the picture, which is half as wide again")
    options.number("--samples", 512, f"paths for each pixel, in passes of {PASS}")
    arguments = options.parse()
    height, width = arguments.size, arguments.size * 3 // 2

    scene, total = Scene(), dr.zeros(Array3f, width * height)
    rest, samples = arguments.samples, 0
    for k in Progress(-(-rest // PASS), "pass"):
        count = min(PASS, rest - k * PASS)
        total += render(scene, width, height, count, k) * count
        samples += count
        dr.eval(total)
    light = dr.reshape(TensorXf(total / samples, flip_axes=True), (height, width, 3))
    # Highlights fade to white (Reinhard).
    write(arguments.output, dr.linear_to_srgb(light * (1 + light / 9) / (1 + light)))
    print(f"{arguments.output}: {width} x {height}, {samples} paths a pixel.")


if __name__ == "__main__":
    start(main)

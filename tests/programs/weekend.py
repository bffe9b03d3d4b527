"""A path tracer in a weekend: spheres of matte, metal and glass under a blue sky.

After Peter Shirley, "Ray Tracing in One Weekend" (2016), written for arrays: one loop over bounces
in which every ray has its own material.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import drjit as dr
from drjit.auto import PCG32, Array2f, Array3f, Bool, Float, TensorXf, UInt

WIDTH, HEIGHT, SAMPLES, DEPTH = 48, 27, 8, 8
MATTE, METAL, GLASS = 0, 1, 2


@dataclass
class Ray:
    o: Array3f
    d: Array3f

    def __call__(self, t: Float) -> Array3f:
        return dr.fma(self.d, t, self.o)


@dataclass
class Hit:
    t: Float
    p: Array3f
    n: Array3f
    front: Bool
    material: UInt
    color: Array3f
    extra: Float


# Centre, radius, material, colour, and a fuzz or refractive index.
Sphere = tuple[Sequence[float], float, int, Sequence[float], float]


class Scene:
    """Spheres as tables: centres and radii, materials, colours, and a fuzz or refractive index."""

    def __init__(self, spheres: list[Sphere]) -> None:
        centers, radii, materials, colors, extra = zip(*spheres)
        self.center = Array3f(*(Float([c[i] for c in centers]) for i in range(3)))
        self.radius = Float(list(radii))
        self.material = UInt(list(materials))
        self.color = Array3f(*(Float([c[i] for c in colors]) for i in range(3)))
        self.extra = Float(list(extra))

    @dr.syntax
    def intersect(self, ray: Ray, near: float = 1e-3) -> tuple[Bool, Hit]:
        nearest, which = Float(dr.inf), UInt(0)
        i = UInt(0)
        while i < dr.width(self.radius):
            oc = ray.o - dr.gather(Array3f, self.center, i)
            r = dr.gather(Float, self.radius, i)
            b = dr.dot(oc, ray.d)
            disc = b * b - dr.squared_norm(oc) + r * r
            if disc > 0:
                root = dr.sqrt(disc)
                t = dr.select(-b - root > near, -b - root, -b + root)
                if (t > near) & (t < nearest):
                    nearest = t
                    which = UInt(i)
            i += 1
        found = dr.isfinite(nearest)
        p = ray(nearest)
        outward = (p - dr.gather(Array3f, self.center, which, found)) / dr.gather(
            Float, self.radius, which, found
        )
        front = dr.dot(ray.d, outward) < 0
        return found, Hit(
            nearest,
            p,
            dr.select(front, outward, -outward),
            front,
            dr.gather(UInt, self.material, which, found),
            dr.gather(Array3f, self.color, which, found),
            dr.gather(Float, self.extra, which, found),
        )


def on_sphere(rng: PCG32) -> Array3f:
    z = 1 - 2 * rng.next_float32()
    r = dr.sqrt(dr.maximum(0, 1 - z * z))
    s, c = dr.sincos(dr.two_pi * rng.next_float32())
    return Array3f(r * c, r * s, z)


def reflect(d: Array3f, n: Array3f) -> Array3f:
    return d - 2 * dr.dot(d, n) * n


def matte(hit: Hit, d: Array3f, u: Float, v: Array3f) -> tuple[Array3f, Array3f, Bool]:
    return dr.normalize(hit.n + 0.999 * v), hit.color, Bool(True)


def metal(hit: Hit, d: Array3f, u: Float, v: Array3f) -> tuple[Array3f, Array3f, Bool]:
    out = dr.normalize(reflect(d, hit.n) + hit.extra * v)
    return out, hit.color, dr.dot(out, hit.n) > 0


def glass(hit: Hit, d: Array3f, u: Float, v: Array3f) -> tuple[Array3f, Array3f, Bool]:
    eta = dr.select(hit.front, dr.rcp(hit.extra), hit.extra)
    cos = dr.minimum(-dr.dot(d, hit.n), 1)
    sin2 = eta * eta * (1 - cos * cos)
    r0 = dr.square((1 - eta) / (1 + eta))
    reflectance = r0 + (1 - r0) * (1 - cos) ** 5
    refracted = eta * d + (eta * cos - dr.safe_sqrt(1 - sin2)) * hit.n
    mirrored = (sin2 > 1) | (reflectance > u)
    return dr.select(mirrored, reflect(d, hit.n), refracted), Array3f(1), Bool(True)


@dr.syntax
def radiance(scene: Scene, ray: Ray, rng: PCG32) -> tuple[Array3f, UInt]:
    throughput, result = Array3f(1), Array3f(0)
    depth, active = UInt(0), Bool(True)
    while active:
        found, hit = scene.intersect(ray)
        if ~found:
            t = 0.5 * (ray.d.y + 1)
            result += throughput * dr.lerp(Array3f(1), Array3f(0.5, 0.7, 1.0), t)
            active = Bool(False)
        else:
            u, v = rng.next_float32(), on_sphere(rng)
            d, weight, goes_on = dr.switch(hit.material, [matte, metal, glass], hit, ray.d, u, v)
            throughput *= weight
            ray.o = Array3f(hit.p)
            ray.d = dr.normalize(d)
            depth += 1
            active = goes_on & (depth < DEPTH)
    return result, depth


def main() -> TensorXf:
    scene = Scene(
        [
            ((0, -100.5, -1), 100, MATTE, (0.8, 0.8, 0.0), 0),
            ((0, 0, -1.2), 0.5, MATTE, (0.1, 0.2, 0.5), 0),
            ((-1, 0, -1), 0.5, GLASS, (1, 1, 1), 1.5),
            ((-1, 0, -1), 0.4, GLASS, (1, 1, 1), 1 / 1.5),
            ((1, 0, -1), 0.5, METAL, (0.8, 0.6, 0.2), 0.3),
        ]
    )
    n = WIDTH * HEIGHT * SAMPLES
    index = dr.arange(UInt, n) // SAMPLES
    rng = PCG32(size=n)
    x, y = index % WIDTH, index // WIDTH
    jitter = Array2f(rng.next_float32(), rng.next_float32())
    uv = (Array2f(x, y) + jitter) / Array2f(WIDTH, HEIGHT) * 2 - 1
    ray = Ray(Array3f(0), dr.normalize(Array3f(uv.x * WIDTH / HEIGHT, -uv.y, -1.0)))
    color, depth = radiance(scene, ray, rng)

    pixels = dr.block_sum(color, SAMPLES) / SAMPLES
    image = TensorXf(dr.ravel(dr.sqrt(pixels)), (HEIGHT, WIDTH, 3))
    print("mean", dr.mean(image, axis=(0, 1)))
    print("bounces", dr.sum(depth), dr.max(depth))
    tiles = dr.mean(dr.reshape(image, (3, 9, 4, 12, 3)), axis=(1, 3))
    print("tiles", tiles)
    print("first row", image[0, ::8, 2])
    print("middle", image[HEIGHT // 2, ::6, 0])
    return image


if __name__ == "__main__":
    main()

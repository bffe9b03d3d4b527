"""A differentiable path tracer: diffuse and metallic spheres in a corner, and three area lights
(sphere, rectangle, disk) that paths meet by chance and by next-event estimation, combined by
multiple importance sampling (Veach and Guibas 1995). Three epochs move a sphere and change colours
so that the picture becomes another one; forward mode gives the derivative of the picture.
"""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import drjit as dr
from drjit.auto.ad import PCG32, Array2f, Array3f, Bool, Float, UInt
from drjit.opt import Adam

BOUNCES = 10
EPSILON = 1e-3
Value = TypeVar("Value", Array3f, Float, UInt)


def least(x: Float, bound: float = 0) -> Float:
    return dr.select(x > bound, x, bound)


class Ray:
    DRJIT_STRUCT: ClassVar = {"o": Array3f, "d": Array3f}

    def __init__(self, o: Array3f | None = None, d: Array3f | None = None) -> None:
        self.o = Array3f() if o is None else o
        self.d = Array3f() if d is None else d

    def at(self, t: Float) -> Array3f:
        return dr.fma(self.d, t, self.o)


@dataclass
class Interaction:
    t: Float
    p: Array3f
    n: Array3f
    shape: UInt

    def is_valid(self) -> Bool:
        return dr.isfinite(self.t)


@dataclass
class LightSample:
    p: Array3f
    n: Array3f
    density: Float  # per area


@dataclass
class BSDFSample:
    d: Array3f
    weight: Array3f
    density: Float  # per solid angle, 0 of a mirror


@dataclass
class Sphere:
    center: Array3f
    radius: Float

    def intersect(self, ray: Ray) -> Float:
        oc = ray.o - self.center
        b = dr.dot(oc, ray.d)
        disc = b * b - dr.squared_norm(oc) + self.radius * self.radius
        root = dr.sqrt(least(disc))
        t = dr.select(-b - root > EPSILON, -b - root, -b + root)
        return dr.select((disc > 0) & (t > EPSILON), t, dr.inf)

    def normal(self, p: Array3f) -> Array3f:
        return dr.normalize(p - self.center)

    def area(self) -> Float:
        return 4 * dr.pi * self.radius * self.radius

    def sample(self, u: Array2f) -> LightSample:
        z = 1 - 2 * u.y
        r = dr.sqrt(least(1 - z * z))
        s, c = dr.sincos(2 * dr.pi * u.x)
        n = Array3f(r * c, r * s, z)
        return LightSample(dr.fma(n, self.radius, self.center), n, 1 / self.area())


@dataclass
class Rectangle:
    center: Array3f
    x: Array3f  # half of its sides
    y: Array3f

    def normal(self, p: Array3f) -> Array3f:
        return dr.normalize(dr.cross(self.x, self.y))

    def inside(self, u: Float, v: Float) -> Bool:
        return (dr.abs(u) <= 1) & (dr.abs(v) <= 1)

    def intersect(self, ray: Ray) -> Float:
        n = self.normal(self.center)
        t = dr.dot(self.center - ray.o, n) / dr.dot(ray.d, n)
        q = ray.at(t) - self.center
        u = dr.dot(q, self.x) / dr.squared_norm(self.x)
        v = dr.dot(q, self.y) / dr.squared_norm(self.y)
        return dr.select(self.inside(u, v) & (t > EPSILON), t, dr.inf)

    def area(self) -> Float:
        return 4 * dr.norm(dr.cross(self.x, self.y))

    def sample(self, u: Array2f) -> LightSample:
        p = self.center + self.x * (2 * u.x - 1) + self.y * (2 * u.y - 1)
        return LightSample(p, self.normal(p), 1 / self.area())


@dataclass
class Disk(Rectangle):
    def inside(self, u: Float, v: Float) -> Bool:
        return u * u + v * v <= 1

    def area(self) -> Float:
        return dr.pi * dr.norm(dr.cross(self.x, self.y))

    def sample(self, u: Array2f) -> LightSample:
        r = dr.sqrt(u.x)
        s, c = dr.sincos(2 * dr.pi * u.y)
        p = self.center + self.x * (r * c) + self.y * (r * s)
        return LightSample(p, self.normal(p), 1 / self.area())


def frame(n: Array3f) -> tuple[Array3f, Array3f]:
    """Two vectors at right angles to a unit vector and to each other (Duff et al. 2017)."""
    sign = dr.copysign(Float(1), n.z)
    a = -1 / (sign + n.z)
    b = n.x * n.y * a
    s = Array3f(1 + sign * n.x * n.x * a, sign * b, -sign * n.x)
    return s, Array3f(b, sign + n.y * n.y * a, -n.y)


def around(n: Array3f, cosine: Float, phi: Float) -> Array3f:
    s, t = frame(n)
    r = dr.sqrt(least(1 - cosine * cosine))
    sin, cos = dr.sincos(phi)
    return s * (r * cos) + t * (r * sin) + n * cosine


def diffuse_eval(wi: Array3f, n: Array3f, wo: Array3f, color: Array3f) -> tuple[Array3f, Float]:
    cosine = least(dr.dot(n, wo))
    return color * (cosine / dr.pi), cosine / dr.pi


def diffuse_sample(wi: Array3f, n: Array3f, u: Array2f, color: Array3f) -> BSDFSample:
    cosine = dr.sqrt(1 - u.x)
    return BSDFSample(around(n, cosine, 2 * dr.pi * u.y), Array3f(color), cosine / dr.pi)


def glossy_eval(
    wi: Array3f, n: Array3f, wo: Array3f, color: Array3f, exponent: int = 20
) -> tuple[Array3f, Float]:
    """The lobe of Phong around the mirrored direction, with the density as its value."""
    cosine = least(dr.dot(dr.fma(n, -2 * dr.dot(n, wi), wi), wo))
    lobe = (exponent + 1) / (2 * dr.pi) * dr.power(cosine, exponent)
    lobe = dr.select(dr.dot(n, wo) > 0, lobe, 0)
    return color * lobe, lobe


def glossy_sample(
    wi: Array3f, n: Array3f, u: Array2f, color: Array3f, exponent: int = 20
) -> BSDFSample:
    mirrored = dr.fma(n, -2 * dr.dot(n, wi), wi)
    wo = around(mirrored, dr.power(1 - u.x, 1 / (exponent + 1)), 2 * dr.pi * u.y)
    _, density = glossy_eval(wi, n, wo, color)
    return BSDFSample(wo, dr.select(density > 0, Array3f(color), 0), density)


def mirror_eval(wi: Array3f, n: Array3f, wo: Array3f, color: Array3f) -> tuple[Array3f, Float]:
    return Array3f(0), Float(0)


def mirror_sample(wi: Array3f, n: Array3f, u: Array2f, color: Array3f) -> BSDFSample:
    return BSDFSample(dr.fma(n, -2 * dr.dot(n, wi), wi), Array3f(color), Float(0))


EVAL, SAMPLE = (
    (diffuse_eval, glossy_eval, mirror_eval),
    (diffuse_sample, glossy_sample, mirror_sample),
)


class Scene:
    """Shapes with a BSDF (0 diffuse, 1 glossy, 2 mirror), a colour and emission; lights last."""

    def __init__(self, center: Array3f, left: Array3f, wall: Array3f) -> None:
        V = Array3f
        rows: list[tuple[Sphere | Rectangle | Disk, int, Array3f, Array3f]] = [
            (Rectangle(V(0, -1, 0), V(3, 0, 0), V(0, 0, -3)), 0, wall, V(0)),
            (Rectangle(V(0, 1, -2.5), V(3, 0, 0), V(0, 2, 0)), 0, wall, V(0)),
            (Sphere(center, Float(0.6)), 0, left, V(0)),
            (Sphere(V(0.9, -0.5, -0.6), Float(0.5)), 1, V(0.9, 0.7, 0.4), V(0)),
            (Sphere(V(0.1, -0.75, 0.7), Float(0.25)), 2, V(0.9, 0.9, 0.9), V(0)),
            (Sphere(V(-1.4, 0.9, 0.2), Float(0.2)), 0, V(0), V(9, 7, 5)),
            (Rectangle(V(0, 2, 0), V(0.5, 0, 0), V(0, 0, 0.5)), 0, V(0), V(6, 6, 7)),
            (Disk(V(1.8, 0.6, 0.5), V(0, 0.4, 0), V(0, 0, 0.4)), 0, V(0), V(4, 5, 4)),
        ]
        self.shapes = [row[0] for row in rows]
        self.bsdfs = [row[1] for row in rows]
        self.colors = [row[2] for row in rows]
        self.emitted = [row[3] for row in rows[-3:]]
        self.first = len(rows) - 3

    def chosen(self, index: UInt, values: list[Value]) -> Value:
        """The value of the shape of each lane."""
        result: Any = values[0]
        for k, value in enumerate(values[1:], 1):
            result = dr.select(index == k, value, result)
        return result

    def intersect(self, ray: Ray) -> Interaction:
        t, shape, n = Float(dr.inf), UInt(0), Array3f(0, 0, 1)
        for k, s in enumerate(self.shapes):
            found = s.intersect(ray)
            nearer = found < t
            t, shape = dr.select(nearer, found, t), dr.select(nearer, k, shape)
        p = ray.at(dr.select(dr.isfinite(t), t, 0))
        n = self.chosen(shape, [s.normal(p) for s in self.shapes])
        return Interaction(t, p, n, shape)

    def blocked(self, ray: Ray, distance: Float) -> Bool:
        hit = Bool(False)
        for s in self.shapes:
            hit |= s.intersect(ray) < distance
        return hit

    def light_density(self, si: Interaction, ray: Ray) -> Float:
        """The density per solid angle with which next-event estimation finds a point of a light."""
        areas = [s.area() for s in self.shapes[self.first :]]
        area = self.chosen(si.shape - self.first, areas)
        cosine = least(-dr.dot(si.n, ray.d), 1e-4)
        return si.t * si.t / (3 * area * cosine)

    def sample_light(
        self, p: Array3f, u: Array2f, choice: Float
    ) -> tuple[Ray, Float, Array3f, Float]:
        """A point of one of the lights, with direction, distance and density per solid angle."""
        index = UInt(choice * 3)
        found = dr.switch(index, [s.sample for s in self.shapes[self.first :]], u)
        d = found.p - p
        distance = dr.norm(d)
        d /= distance
        cosine = -dr.dot(found.n, d)
        density = found.density * distance * distance / (3 * least(cosine, 1e-4))
        emitted = dr.select(cosine > 0, self.chosen(index, self.emitted), 0)
        return Ray(p, d), distance, emitted, density


def mis(a: Float, b: Float) -> Float:
    """The power heuristic."""
    return dr.select(a > 0, a * a / (a * a + b * b), 0)


@dr.syntax
def trace(scene: Scene, ray: Ray, sampler: PCG32, nee: bool) -> Array3f:
    radiance, throughput = Array3f(0), Array3f(1)
    last = Float(0)  # the density of the direction, 0 for mirrors and the camera
    depth, end = UInt(0), UInt(BOUNCES)
    while dr.hint(depth < end, max_iterations=BOUNCES, label="bounces"):
        si = scene.intersect(ray)
        active = si.is_valid()
        front = dr.dot(si.n, ray.d) < 0
        is_light = si.shape >= scene.first
        weight = Float(1)
        if nee:
            weight = dr.select(last == 0, 1, mis(last, scene.light_density(si, ray)))
        emitted = scene.chosen(si.shape - scene.first, scene.emitted)
        radiance += dr.select(active & is_light & front, throughput * emitted * weight, 0)
        active &= ~is_light
        n = dr.select(front, si.n, -si.n)
        color = scene.chosen(si.shape, scene.colors)
        bsdf = scene.chosen(si.shape, [UInt(k) for k in scene.bsdfs])
        p = dr.fma(n, EPSILON, si.p)
        if nee:
            u = Array2f(sampler.next_float32(), sampler.next_float32())
            shadow, distance, light, density = scene.sample_light(p, u, sampler.next_float32())
            value, other = dr.switch(bsdf, EVAL, ray.d, n, shadow.d, color)
            visible = active & ~scene.blocked(shadow, distance * (1 - 1e-3))
            value = throughput * value * light * (mis(density, other) / density)
            radiance += dr.select(visible, value, 0)
        u = Array2f(sampler.next_float32(), sampler.next_float32())
        sample = dr.switch(bsdf, SAMPLE, ray.d, n, u, color)
        throughput *= sample.weight
        last = sample.density
        ray = Ray(p, sample.d)
        depth += 1
        survival = Float(1)
        if depth > 4:
            survival = 0.95 * dr.detach(dr.mean(throughput)) + 0.05
            throughput /= survival
        active &= sampler.next_float32() < survival
        end = dr.select(active & (dr.max(throughput) > 0), UInt(BOUNCES), 0)
    return radiance


def render(scene: Scene, resolution: int, samples: int, seed: int, nee: bool = True) -> Array3f:
    n = resolution * resolution
    index = dr.arange(UInt, n * samples)
    sampler = PCG32(size=n * samples, initstate=UInt(seed))
    pixel = index // samples
    x = Float(pixel % resolution) + sampler.next_float32()
    y = Float(pixel // resolution) + sampler.next_float32()
    direction = Array3f(2 * x / resolution - 1, 1 - 2 * y / resolution, -2)
    ray = Ray(Array3f(0, 0.2, 4), dr.normalize(direction))
    radiance = trace(scene, ray, sampler, nee)
    image = [dr.zeros(Float, n) for _ in range(3)]
    for channel, value in zip(image, radiance, strict=True):
        dr.scatter_add(channel, value / samples, pixel)
    return Array3f(*image)


def show(name: str, value: Array3f | Float) -> None:
    print(name, *[f"{v:.4g}" for v in dr.ravel(value).numpy().tolist()])


def statistics(name: str, image: Array3f) -> None:
    show(name, dr.mean(image, axis=1))


def main(resolution: int = 24, samples: int = 8, epochs: int = 3, direct: int = 1) -> None:
    nee = bool(direct)
    center, left, wall = Array3f(-0.8, -0.4, -0.4), Array3f(0.2, 0.5, 0.8), Array3f(0.7)
    target = render(Scene(center, left, wall), resolution, samples, 1, nee)
    dr.eval(target)
    statistics("target", target)
    optimizer = Adam(lr=0.05)
    optimizer["center"] = center + Array3f(0.2, 0.1, 0)
    optimizer["left"] = Array3f(0.6, 0.5, 0.3)
    optimizer["wall"] = Array3f(0.5)
    for epoch in range(epochs):
        parts = optimizer["center"], optimizer["left"], optimizer["wall"]
        image = render(Scene(*parts), resolution, samples, epoch + 2, nee)
        loss = dr.mean(dr.squared_norm(image - target))
        dr.backward(loss)
        show(f"epoch {epoch} loss", loss)
        for name in optimizer:
            show(f"  {name}", optimizer[name])
            show(f"  gradient of {name}", optimizer[name].grad)
        optimizer.step()
        # The derivative of the picture as the sphere moves to the right.
        shift = Float(0)
        dr.enable_grad(shift)
        moved = dr.detach(parts[0]) + Array3f(shift, 0, 0)
        colors = [dr.detach(p) for p in parts[1:]]
        image = render(Scene(moved, *colors), resolution, samples, epoch + 2, nee)
        dr.forward(shift)
        statistics("  picture", image)
        statistics("  its derivative", dr.grad(image))


if __name__ == "__main__":
    main(*[int(v) for v in sys.argv[1:]])

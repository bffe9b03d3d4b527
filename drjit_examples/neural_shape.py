"""A rope with a knot: a network learns its signed distance from a mesh, and is rendered.

The mesh is made by a formula. A loop over its triangles finds how far points are from it and, by
the winding number (Jacobson et al., "Robust Inside-Outside Segmentation Using Generalized Winding
Numbers", 2013), on which side. The network that has learnt this is called in every step of every
ray (sphere tracing), and of every ray towards the light, which makes soft shadows (I. Quilez).
"""

from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array3f, Array3u, Bool, Float, TensorXf, UInt32
from drjit.opt import Adam
from drjit_examples.common import Options, Progress, start, write

AROUND, ALONG = 24, 200  # vertices of the tube
FLOOR, BOX = -0.6, 1.2
RATE, RATE_OF_GRID = 3e-3, 2e-2


@dataclass
class Mesh:
    vertices: Array3f
    faces: Array3u


def knot() -> Mesh:
    """A tube of three strands that are twisted, along a trefoil knot."""
    v, u = (a.ravel() for a in np.mgrid[0:ALONG, 0:AROUND])
    t, a = v / ALONG * 2 * np.pi, u / AROUND * 2 * np.pi

    def line(t: np.ndarray) -> np.ndarray:
        r = 2 + 1.05 * np.cos(3 * t)
        return np.stack([r * np.cos(2 * t), 1.1 * np.sin(3 * t), r * np.sin(2 * t)], 1) / 3.1

    along = line(t + 1e-3) - line(t - 1e-3)
    side = np.cross(along, line(t) * [1, 0, 1])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = np.cross(side, along)
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    radius = 0.17 * (1 + 0.2 * np.cos(3 * a - 24 * t))
    p = line(t) + (radius * np.cos(a))[:, None] * side + (radius * np.sin(a))[:, None] * up
    right, above = (u + 1) % AROUND - u, (v + 1) % ALONG * AROUND - v * AROUND
    i = np.arange(len(u))
    faces = [[i, i + above, i + right], [i + right, i + above, i + right + above]]
    return Mesh(Array3f(p.T), Array3u(np.concatenate(faces, axis=1)))


def to_triangle(p: Array3f, a: Array3f, b: Array3f, c: Array3f) -> Float:
    """The square of the distance of points from a triangle."""
    n = dr.cross(b - a, c - a)
    inside, edges = Bool(True), Float(dr.inf)
    for start_, end in ((a, b), (b, c), (c, a)):
        e, q = end - start_, p - start_
        inside &= dr.dot(dr.cross(e, q), n) >= 0
        nearest = q - e * dr.clip(dr.dot(q, e) / dr.squared_norm(e), 0, 1)
        edges = dr.minimum(edges, dr.squared_norm(nearest))
    plane = dr.square(dr.dot(p - a, n)) / dr.squared_norm(n)
    return dr.select(inside, plane, edges)


def solid_angle(a: Array3f, b: Array3f, c: Array3f) -> Float:
    """Half of what a triangle covers of the sphere around the origin (van Oosterom, Strackee)."""
    x, y, z = dr.norm(a), dr.norm(b), dr.norm(c)
    below = x * y * z + dr.dot(a, b) * z + dr.dot(b, c) * x + dr.dot(c, a) * y
    return dr.atan2(dr.dot(a, dr.cross(b, c)), below)


@dr.syntax
def distance(mesh: Mesh, p: Array3f) -> Float:
    """How far points are from a closed mesh; negative inside."""
    squared, winding, k = Float(dr.inf), Float(0), UInt32(0)
    while k < dr.width(mesh.faces):
        face = dr.gather(Array3u, mesh.faces, k)
        a, b, c = (dr.gather(Array3f, mesh.vertices, i) for i in face)
        squared = dr.minimum(squared, to_triangle(p, a, b, c))
        winding += solid_angle(a - p, b - p, c - p)
        k += 1
    return dr.select(dr.abs(winding) > dr.pi, -1, 1) * dr.sqrt(squared)


def evaluate(net: nn.Module, p: Array3f) -> Float:
    """The distance that the network gives. Its grids are those of the unit cube."""
    (found,) = net(nn.CoopVec(p / (2.1 * BOX) + 0.5))
    return found


def train(iterations: int, count: int, rng: dr.random.Generator) -> tuple[nn.Module, float]:
    """A network from positions to distances, and its mean error."""
    mesh = knot()
    # Three of four points are near the surface.
    some = rng.integers(UInt32, count, low=0, high=dr.width(mesh.vertices))
    near = dr.gather(Array3f, mesh.vertices, some) + 0.06 * rng.normal(Array3f, (3, count))
    far = BOX * (2 * rng.random(Array3f, (3, count)) - 1)
    points = dr.select(dr.arange(UInt32, count) % 4 > 0, near, far)
    points = dr.clip(points, -BOX, BOX)
    distances = distance(mesh, points)
    dr.eval(points, distances)

    grid = nn.HashGridEncoding(
        Float,
        3,
        n_levels=6,
        n_features_per_level=2,
        base_resolution=8,
        per_level_scale=1.6,
        rng=rng,
    )
    layers: list[nn.Module] = [nn.HashEncodingLayer(grid)]
    for _ in range(2):
        layers += [nn.Linear(-1, 32), nn.SiLU()]
    net = nn.Sequential(*layers, nn.Linear(-1, 1), prefix="net").alloc(TensorXf, 3, rng=rng)
    net = nn.pack(net, layout="training")
    opt = Adam(lr=RATE)
    opt.update(net)
    opt["grid"] = grid.params
    loss = Float(0)
    progress = Progress(iterations)
    for step in progress:
        decay = 0.02 ** (step / iterations)
        opt.set_learning_rate(RATE * decay)
        opt.set_learning_rate(grid=RATE_OF_GRID * decay)
        net.update(opt)
        grid.params[:] = opt["grid"]
        chosen = rng.integers(UInt32, 8192, low=0, high=count)
        p, wanted = dr.gather(Array3f, points, chosen), dr.gather(Float, distances, chosen)
        loss = dr.mean(dr.abs(evaluate(net, p) - wanted))
        dr.backward(loss)
        opt.step()
        if step % 50 == 0:
            progress.show(error=f"{loss[0]:.5f}")
    net.update(opt)
    grid.params[:] = opt["grid"]
    return net, loss[0]


def scene(net: nn.Module, p: Array3f) -> Float:
    """A bound of the distance: of the network where the shape can be, and of the floor."""
    inside = dr.clip(p, -BOX, BOX)
    outside = dr.norm(p - inside)
    return dr.minimum(dr.select(outside > 0.1, outside, evaluate(net, inside)), p.y - FLOOR)


@dr.syntax
def trace(net: nn.Module, o: Array3f, d: Array3f) -> tuple[Float, Bool]:
    """How far rays go before they meet something, and whether they do."""
    t, gap, steps = Float(0.5), Float(1), UInt32(0)
    while (gap > 1e-3) & (t < 9) & (steps < 120):
        gap = scene(net, o + t * d)
        t += 0.8 * gap
        steps += 1
    return t, t < 9


@dr.syntax
def shadow(net: nn.Module, o: Array3f, d: Array3f) -> Float:
    """How much of a lamp is seen: the less, the closer something is to the ray."""
    t, seen, steps = Float(0.03), Float(1), UInt32(0)
    while (seen > 0) & (t < 2.5) & (steps < 48):
        gap = scene(net, o + t * d)
        seen = dr.minimum(seen, 0.5 + 0.5 * gap / (0.07 * t))
        t += dr.clip(0.8 * gap, 0.015, 0.2)
        steps += 1
    seen = dr.clip(seen, 0, 1)
    return seen * seen * (3 - 2 * seen)


def shade(net: nn.Module, o: Array3f, d: Array3f) -> Array3f:
    """The colours that rays find."""
    t, hit = trace(net, o, d)
    p = o + t * d
    floor = p.y < FLOOR + 3e-3
    slope = Array3f(0)
    for corner in ((1, -1, -1), (-1, 1, -1), (-1, -1, 1), (1, 1, 1)):
        slope += Array3f(corner) * evaluate(net, p + 0.016 * Array3f(corner))
    n = dr.select(floor, Array3f(0, 1, 0), dr.normalize(slope))

    to_lamp = dr.normalize(Array3f(-0.9, 0.9, -0.3))
    half = dr.normalize(to_lamp - d)
    lit = dr.maximum(dr.dot(n, to_lamp), 0)
    lit *= shadow(net, p + 0.01 * n, to_lamp)
    open_ = Float(0)
    for k in range(1, 5):  # how much space there is above: light from all around
        open_ += dr.clip(scene(net, p + 0.07 * k * n) / (0.07 * k), 0.1, 1) / 4
    turn = dr.atan2(p.z, p.x)
    rope = 0.6 + 0.35 * dr.cos(turn + Array3f(0.2, 2.0, 3.6))
    colour = dr.select(floor, Array3f(0.5, 0.48, 0.46), rope**3)
    shine = dr.select(floor, 0, 0.6 * dr.maximum(dr.dot(n, half), 0) ** 60)
    sky = Array3f(0.32, 0.4, 0.55) * (0.6 + 0.4 * n.y) * open_
    light = colour * (lit * Array3f(1.25, 1.1, 0.9) + sky) + shine * lit
    fog = 1 - dr.exp(-0.012 * t**3)
    return dr.lerp(light, Array3f(0.3, 0.36, 0.45), dr.select(hit, fog, 1))


def main() -> None:
    options = Options(__doc__, output="neural_shape.png")
    options.number("--iterations", 500, "steps of the training")
    options.number("--points", 65536, "points at which the distance from the mesh is found")
    options.number("--size", 512, "pixels along a side")
    arguments = options.parse()
    n = arguments.size

    net, error = train(arguments.iterations, arguments.points, dr.rng(seed=0))
    with dr.suspend_grad():
        total = dr.zeros(Array3f, n * n)
        for k in Progress(4, "pass"):  # four rays for each pixel
            shift = Float(0.25 + 0.5 * (k % 2)), Float(0.25 + 0.5 * (k // 2))
            i, j = dr.meshgrid(dr.arange(Float, n), dr.arange(Float, n))
            x, y = (i + shift[0]) / n * 2 - 1, 1 - (j + shift[1]) / n * 2
            o = Array3f(0, 1.75, -2.5)
            d = dr.normalize(Array3f(0.93 * x - 0.03, 0.77 * y - 1.27, 1.75 + 0.53 * y))
            total += shade(net, o, d) / 4
            dr.eval(total)
        image = dr.reshape(TensorXf(dr.linear_to_srgb(total), flip_axes=True), (n, n, 3))
    write(arguments.output, image)
    print(f"{arguments.output}: {n} x {n}; mean error of the distance {error:.5f}.")


if __name__ == "__main__":
    start(main)

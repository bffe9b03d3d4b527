"""3-D Gaussian splatting: ellipsoids of colour are fitted to pictures of a scene.

After Kerbl et al., "3D Gaussian Splatting for Real-Time Radiance Field Rendering", 2023. The scene
is given by a formula and seen from all sides; a few thousand Gaussians, random at first, learn to
look like it from each of them. Gaussians are projected, sorted by depth, and listed for each tile
of a picture (a comparison of all with all, then `dr.compress`); a loop in every pixel blends those
of its tile from front to back, and derivatives go backwards through the loop.
"""

from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit.auto.ad import (
    Array2f,
    Array3f,
    Array4f,
    Float,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    UInt32,
)  # fmt: skip
from drjit.opt import Adam
from drjit_examples.common import Options, Panel, Progress, start, write_panels

FIELD = 0.31  # half of the width of a picture at distance 1
TILE, MOST = 16, 256  # pixels along a side of a tile, Gaussians that a pixel blends at most
VIEWS = 40
RATES = {"centre": 0.004, "scale": 0.015, "rotation": 0.02, "colour": 0.04, "opacity": 0.04}


@dataclass
class Camera:
    """Looks at the origin."""

    origin: Array3f
    right: Array3f
    up: Array3f
    forward: Array3f

    @staticmethod
    def at(turn: float, height: float) -> "Camera":
        s, c = np.sin(turn).item(), np.cos(turn).item()
        origin = 3.4 * dr.normalize(Array3f(c, height, s))
        forward = -dr.normalize(origin)
        right = dr.normalize(dr.cross(forward, Array3f(0, 1, 0)))
        return Camera(origin, right, dr.cross(right, forward), forward)

    def local(self, v: Array3f) -> Array3f:
        return Array3f(dr.dot(v, self.right), dr.dot(v, self.up), dr.dot(v, self.forward))


@dataclass
class Splats:
    """Gaussians in a picture: centre, inverse covariance (xx, xy, yy), colour and opacity; and how
    far they are away and how far they reach, for sorting."""

    centre: Array2f
    conic: Array3f
    colour: Array3f
    opacity: Float
    depth: Float
    radius: Float


def floor_and_shapes(p: Array3f) -> tuple[Float, Array3f]:
    """The distance of a scene, and its colours: a ring around a ball, on a disk."""
    ring = dr.norm(Array2f(dr.norm(Array2f(p.x, p.z)) - 0.62, p.y + 0.1)) - 0.14
    ball = dr.norm(p - Array3f(0, 0.12, 0)) - 0.34
    disk_at = Array2f(dr.norm(Array2f(p.x, p.z)) - 0.95, dr.abs(p.y + 0.3) - 0.05)
    disk = dr.norm(dr.maximum(disk_at, 0)) + dr.minimum(dr.max(disk_at), 0)
    turn = dr.atan2(p.z, p.x)
    stripes = dr.select(dr.sin(12 * turn) > 0, Array3f(0.95, 0.45, 0.1), Array3f(0.95, 0.85, 0.6))
    bands = dr.select(dr.sin(26 * p.y) > 0, Array3f(0.1, 0.35, 0.75), Array3f(0.85, 0.9, 0.95))
    odd = dr.sin(11 * p.x) * dr.sin(11 * p.z) > 0
    board = dr.select(odd, Array3f(0.16, 0.3, 0.24), Array3f(0.75, 0.78, 0.7))
    colour = dr.select(ring < dr.minimum(ball, disk), stripes, dr.select(ball < disk, bands, board))
    return dr.minimum(ring, dr.minimum(ball, disk)), colour


@dr.syntax
def photograph(camera: Camera, n: int) -> Array3f:
    """The scene itself: n x n pixels, by sphere tracing."""
    i, j = dr.meshgrid(dr.arange(Float, n) + 0.5, dr.arange(Float, n) + 0.5)
    x, y = (2 * i / n - 1) * FIELD, (1 - 2 * j / n) * FIELD
    d = dr.normalize(camera.forward + x * camera.right + y * camera.up)
    t, gap = Float(2), Float(1)
    while (gap > 1e-3) & (t < 6):
        gap, _ = floor_and_shapes(camera.origin + t * d)
        t += gap
    p = camera.origin + t * d
    h = 1e-3
    slope = [
        floor_and_shapes(p + s)[0] - floor_and_shapes(p - s)[0]
        for s in (Array3f(h, 0, 0), Array3f(0, h, 0), Array3f(0, 0, h))
    ]
    lit = 0.45 + 0.55 * dr.maximum(
        dr.dot(dr.normalize(Array3f(slope)), Array3f(0.48, 0.8, 0.36)), 0
    )
    return dr.select(t < 6, floor_and_shapes(p)[1] * lit, Array3f(1))


def project(gaussians: Adam, camera: Camera, n: int, shrink: float = 1) -> Splats:
    """Gaussians as they are seen on n x n pixels."""
    focal = n / 2 / FIELD
    t = camera.local(gaussians["centre"] - camera.origin)
    turned = dr.quat_to_matrix(Matrix3f, Quaternion4f(dr.normalize(gaussians["rotation"])))
    scale = dr.exp(gaussians["scale"]) * shrink
    # The axes of the ellipsoid, as arrows on the picture, whose squares add up to its covariance.
    xx, xy, yy = Float(0.3), Float(0), Float(0)
    for k in range(3):
        axis = camera.local(Array3f(*(turned[row, k] for row in range(3)))) * scale[k]
        arrow = focal / t.z * Array2f(axis.x - t.x / t.z * axis.z, t.y / t.z * axis.z - axis.y)
        xx, xy, yy = xx + arrow.x * arrow.x, xy + arrow.x * arrow.y, yy + arrow.y * arrow.y
    determinant = xx * yy - xy * xy
    largest = 0.5 * (xx + yy) + dr.sqrt(dr.maximum(0.25 * dr.square(xx - yy) + xy * xy, 0))
    return Splats(
        n / 2 + focal / t.z * Array2f(t.x, -t.y),
        Array3f(yy, -xy, xx) / determinant,
        1 / (1 + dr.exp(-gaussians["colour"])),
        1 / (1 + dr.exp(-gaussians["opacity"])),
        t.z,
        3 * dr.sqrt(largest),
    )


def by_tile(splats: Splats, n: int) -> tuple[UInt32, UInt32, UInt32]:
    """The Gaussians that reach each tile, ordered by depth; where those of a tile begin, and how
    many they are."""
    order = dr.argsort(splats.depth)
    across = -(-n // TILE)
    which, tile = dr.meshgrid(order, dr.arange(UInt32, across * across))
    corner = TILE * Array2f(Float(tile % across), Float(tile // across))
    centre, radius = (
        dr.gather(Array2f, splats.centre, which),
        dr.gather(Float, splats.radius, which),
    )
    gap = dr.maximum(dr.abs(centre - corner - TILE / 2) - TILE / 2, 0)
    reaches = dr.compress(dr.squared_norm(gap) < dr.square(radius))
    count = dr.zeros(UInt32, across * across)
    dr.scatter_add(count, UInt32(1), dr.gather(UInt32, tile, reaches))
    return dr.gather(UInt32, which, reaches), dr.prefix_sum(count), count


@dr.syntax
def blend(splats: Splats, listed: UInt32, first: UInt32, count: UInt32, n: int) -> Array3f:
    """The colours of n x n pixels."""
    i, j = dr.meshgrid(dr.arange(UInt32, n), dr.arange(UInt32, n))
    tile = j // TILE * (-(-n // TILE)) + i // TILE
    k = dr.gather(UInt32, first, tile)
    end = k + dr.minimum(dr.gather(UInt32, count, tile), MOST)
    place = Array2f(Float(i), Float(j)) + 0.5
    colour, left = Array3f(0), Float(1)
    while dr.hint((k < end) & (left > 1e-3), max_iterations=MOST):
        g = dr.gather(UInt32, listed, k)
        d = place - dr.gather(Array2f, splats.centre, g)
        a = dr.gather(Array3f, splats.conic, g)
        power = -0.5 * (a.x * d.x * d.x + a.z * d.y * d.y) - a.y * d.x * d.y
        share = dr.minimum(dr.gather(Float, splats.opacity, g) * dr.exp(power), 0.99)
        if share > 1 / 255:
            colour += left * share * dr.gather(Array3f, splats.colour, g)
            left *= 1 - share
        k += 1
    return colour + left  # in front of white


def render(gaussians: Adam, camera: Camera, n: int, shrink: float = 1) -> Array3f:
    splats = project(gaussians, camera, n, shrink)
    dr.eval(splats)
    with dr.suspend_grad():
        listed, first, count = by_tile(splats, n)
    return blend(splats, listed, first, count, n)


def pixels(colour: Array3f, n: int) -> np.ndarray:
    return dr.detach(dr.reshape(TensorXf(colour, flip_axes=True), (n, n, 3))).numpy()


def main() -> None:
    options = Options(__doc__, output="gaussian_splatting.png")
    options.number("--gaussians", 4096, "how many Gaussians", low=10)
    options.number("--iterations", 600, "steps, each for one of the pictures")
    options.number("--size", 128, "pixels along a side of these pictures")
    arguments = options.parse()
    count, steps, size = arguments.gaussians, arguments.iterations, arguments.size

    rng = dr.rng(seed=0)
    turns = [(2.4 * k, 0.25 + 0.9 * (k * 0.618 % 1)) for k in range(VIEWS)]
    cameras = [Camera.at(*turn) for turn in turns]
    wanted = [photograph(camera, size) for camera in cameras]
    dr.eval(wanted)
    gaussians = Adam(
        lr=0.01,
        params={
            "centre": (rng.random(Array3f, (3, count)) * 2 - 1) * Array3f(0.95, 0.4, 0.95),
            "scale": dr.full(Array3f, np.log(0.5 / count**0.5).item(), count),
            "rotation": rng.normal(Array4f, (4, count)),
            "colour": dr.zeros(Array3f, count),
            "opacity": dr.full(Float, -1, count),
        },
    )
    side, n = Camera.at(0.9, 0.6), 3 * size
    begin = pixels(render(gaussians, side, n), n)
    progress = Progress(steps)
    for step in progress:
        gaussians.set_learning_rate(
            **{name: rate * 0.1 ** (step / steps) for name, rate in RATES.items()}
        )
        view = step % VIEWS
        image = render(gaussians, cameras[view], size)
        loss = dr.mean(dr.abs(image - wanted[view]), axis=None)
        dr.backward(loss)
        gaussians.step()
        if step % 20 == 0:
            progress.show(error=f"{loss[0]:.4f}")
    truth, found = photograph(side, n), render(gaussians, side, n)
    error = dr.mean(dr.abs(dr.detach(found) - truth), axis=None)[0]
    panels = [
        Panel("the scene, from a side not seen in training", pixels(truth, n)),
        Panel(f"{count} Gaussians at first", begin),
        Panel(f"after {progress.done} steps: mean error {error:.3f}", pixels(found, n)),
        Panel("the same Gaussians, a third as large", pixels(render(gaussians, side, n, 0.33), n)),
    ]
    write_panels(arguments.output, panels, columns=2, size=max(n, 160))
    print(f"{arguments.output}: {count} Gaussians; mean error {error:.4f} from another side.")


if __name__ == "__main__":
    start(main)

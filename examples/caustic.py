"""A lens with a freeform surface that gathers light into a ring: the surface is fitted.

    python examples/caustic.py [--iterations N] [--output FILE]

Photons meet a height field (a texture with cubic interpolation; Newton's method finds where), are
refracted, and are counted on a screen with bilinear weights, so that the picture has a derivative
by the heights. The picture shows the ring that is wanted, the light of the flat lens, and that of
the lens that was found, and the heights of that lens.
"""

import argparse

import imageio.v3 as iio
import numpy as np

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam

RES, PHOTONS, SCREEN = 24, 320, 64
ETA, FOCUS = 1.5, 1.6


class Surface:
    """A height field z = h(x, y) over the unit square, of glass below it."""

    def __init__(self, heights: TensorXf) -> None:
        self.texture = Texture2f(
            heights, filter_mode=dr.FilterMode.Linear, wrap_mode=dr.WrapMode.Mirror
        )

    def height_and_slope(self, p: Array2f) -> tuple[Float, Array2f]:
        value, grad = self.texture.eval_cubic_grad(p)
        return value[0], grad[0]

    @dr.syntax
    def intersect(self, o: Array3f, d: Array3f) -> tuple[Float, UInt]:
        """Newton's method for the distance to the surface."""
        t, i, done = -o.z / d.z, UInt(0), Bool(False)
        while ~done & (i < 6):
            p = o + t * d
            h, slope = self.height_and_slope(p.xy)
            f = p.z - h
            step = f / (d.z - dr.dot(slope, d.xy))
            t -= step
            i += 1
            done = dr.abs(step) < 1e-6
        return t, i


def refract(d: Array3f, n: Array3f, eta: float) -> tuple[Array3f, Bool]:
    """Snell's law; n points against d. Also tells where there is no total reflection."""
    cos = -dr.dot(d, n)
    k = 1 - eta * eta * (1 - cos * cos)
    return eta * d + (eta * cos - dr.safe_sqrt(k)) * n, k > 0


def photons(surface: Surface, symbolic: bool = False) -> tuple[Array2f, Bool, UInt]:
    """Where photons meet the screen."""
    c = (dr.arange(Float, PHOTONS) + 0.5) / PHOTONS
    p = Array2f(dr.meshgrid(c, c))
    d = dr.normalize(Array3f(0.05 * (p.y - 0.5), 0, 1))
    o = Array3f(p.x, p.y, -0.5)
    with dr.suspend_grad():
        t, steps = surface.intersect(o, d)
    q = o + t * d
    h, slope = surface.height_and_slope(q.xy)
    normal = dr.normalize(Array3f(slope.x, slope.y, -1))
    out, passes = refract(d, normal, ETA)
    s = (FOCUS - h) / out.z
    return q.xy + s * out.xy, passes, steps


def screen(hits: Array2f, passes: Bool) -> TensorXf:
    """Splats photons with bilinear weights, so that the picture has a derivative."""
    p = hits * SCREEN - 0.5
    low = dr.floor(p)
    w = p - low
    result = dr.zeros(Float, SCREEN * SCREEN)
    for j in range(2):
        for i in range(2):
            x, y = low.x + i, low.y + j
            weight = (w.x if i else 1 - w.x) * (w.y if j else 1 - w.y)
            ok = passes & (x >= 0) & (x < SCREEN) & (y >= 0) & (y < SCREEN)
            index = UInt(dr.select(ok, y * SCREEN + x, 0))
            dr.scatter_add(result, weight, index, ok)
    return TensorXf(result, (SCREEN, SCREEN)) * (SCREEN / PHOTONS) ** 2


def target() -> TensorXf:
    c = (dr.arange(Float, SCREEN) + 0.5) / SCREEN
    x, y = dr.meshgrid(c, c)
    r = dr.norm(Array2f(x, y) - 0.5)
    ring = dr.exp(-dr.square((r - 0.25) / 0.08))
    return TensorXf(ring / dr.mean(ring), (SCREEN, SCREEN))


def shown(image: TensorXf, low: float, high: float) -> np.ndarray:
    """Shades of grey, some 256 x 256, with a margin."""
    grey = np.sqrt(np.clip((np.array(image) - low) / (high - low), 0, 1))
    size = 256 // grey.shape[0]
    grey = np.kron(grey, np.ones((size, size)))
    left, right = (264 - len(grey)) // 2, (265 - len(grey)) // 2
    return np.pad(grey, (left, right))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--output", default="caustic.png")
    arguments = parser.parse_args()

    goal = target()
    opt = Adam(lr=0.002, params={"height": dr.zeros(TensorXf, (RES, RES, 1))})
    hits, passes, _ = photons(Surface(opt["height"]))
    start = found = dr.detach(screen(hits, passes))
    for _ in range(arguments.iterations):
        hits, passes, _ = photons(Surface(opt["height"]))
        image = screen(hits, passes)
        dr.backward(dr.mean(dr.square(image - goal), axis=None))
        opt.step()
        found = dr.detach(image)
    error = float(dr.sqrt(dr.mean(dr.square(found - goal))).array[0])
    row = [shown(p, 0, 4) for p in (goal, start, found)]
    heights = opt["height"][:, :, 0]
    row.append(shown(heights, float(np.array(heights).min()), float(np.array(heights).max())))
    grey = (np.concatenate(row, axis=1) * 255).astype(np.uint8)
    iio.imwrite(arguments.output, np.repeat(grey[:, :, None], 3, axis=2))
    print(f"{arguments.output}: error {error:.3f} after {arguments.iterations} steps.")


if __name__ == "__main__":
    main()

"""A smooth piece of glass whose caustic is a portrait: its surface is found by gradients.

Photons meet a height field (a texture with cubic interpolation; Newton's method finds where), are
refracted, and are counted on a screen with bilinear weights, so that the picture has a derivative
by the heights. Lens and screen get finer from time to time, and pictures are compared at all
coarser resolutions as well: that tells light which way it has to go.
"""

import imageio.v3 as iio
import numpy as np

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam
from drjit_examples.common import PORTRAIT, Options, Panel, Progress, start, write_panels

ETA, FOCUS = 1.5, 1.6  # index of refraction; from the glass to the screen, in widths of the lens
SCREENS = [32, 64, 128, 256, 512]
SMOOTH = 0.5  # how much the curvature of the surface counts


class Surface:
    """A height field z = h(x, y) over the unit square, of glass below it."""

    def __init__(self, heights: TensorXf) -> None:
        self.texture = Texture2f(heights, wrap_mode=dr.WrapMode.Mirror)

    def height_and_slope(self, p: Array2f) -> tuple[Float, Array2f]:
        value, grad = self.texture.eval_cubic_grad(p)
        return value[0], grad[0]

    @dr.syntax
    def intersect(self, o: Array3f, d: Array3f) -> Float:
        """Newton's method for the distance to the surface."""
        t, i, done = -o.z / d.z, UInt(0), Bool(False)
        while ~done & (i < 6):
            p = o + t * d
            h, slope = self.height_and_slope(p.xy)
            step = (p.z - h) / (d.z - dr.dot(slope, d.xy))
            t -= step
            i += 1
            done = dr.abs(step) < 1e-6
        return t

    def resampled(self, n: int) -> TensorXf:
        """The heights at n x n places."""
        c = (dr.arange(Float, n) + 0.5) / n
        value = self.texture.eval_cubic(Array2f(dr.meshgrid(c, c)))
        return TensorXf(value[0], (n, n, 1))


def refract(d: Array3f, n: Array3f, eta: float) -> tuple[Array3f, Bool]:
    """Snell's law; n points against d. Also tells where there is no total reflection."""
    cos = -dr.dot(d, n)
    k = 1 - eta * eta * (1 - cos * cos)
    return eta * d + (eta * cos - dr.safe_sqrt(k)) * n, k > 0


def photons(surface: Surface, n: int, rng: dr.random.Generator) -> tuple[Array2f, Bool]:
    """Where n x n photons meet the screen."""
    c = dr.arange(Float, n)
    p = (Array2f(dr.meshgrid(c, c)) + rng.random(Array2f, (2, n * n))) / n
    d = dr.normalize(Array3f(0.05 * (p.y - 0.5), 0, 1))
    o = Array3f(p.x, p.y, -0.5)
    with dr.suspend_grad():
        t = surface.intersect(o, d)
    q = o + t * d
    h, slope = surface.height_and_slope(q.xy)
    normal = dr.normalize(Array3f(slope.x, slope.y, -1))
    out, passes = refract(d, normal, ETA)
    s = (FOCUS - h) / out.z
    return q.xy + s * out.xy, passes


def screen(hits: Array2f, passes: Bool, n: int) -> TensorXf:
    """n x n pixels on which photons are counted, on average one for each."""
    p = hits * n - 0.5
    low = dr.floor(p)
    w = p - low
    result = dr.zeros(Float, n * n)
    for j in range(2):
        for i in range(2):
            x, y = low.x + i, low.y + j
            weight = (w.x if i else 1 - w.x) * (w.y if j else 1 - w.y)
            ok = passes & (x >= 0) & (x < n) & (y >= 0) & (y < n)
            dr.scatter_add(result, weight, UInt(dr.select(ok, y * n + x, 0)), ok)
    return TensorXf(result, (n, n)) * (n * n / dr.width(hits))


def difference(image: TensorXf, goal: TensorXf) -> Float:
    """The mean square difference, and those at all coarser resolutions."""
    d, weight, total = image - goal, 1, Float(0)
    while d.shape[0] >= 8:
        total += weight * dr.mean(dr.square(d).array)
        d = (d[::2, ::2] + d[1::2, ::2] + d[::2, 1::2] + d[1::2, 1::2]) / 4
        weight *= 4
    return total


def curvature(heights: TensorXf) -> Float:
    """The mean square of the Laplacian, in units of the light that it gathers."""
    h, n = heights[:, :, 0], heights.shape[0]
    lap = h[1:-1, 2:] + h[1:-1, :-2] + h[2:, 1:-1] + h[:-2, 1:-1] - 4 * h[1:-1, 1:-1]
    return dr.mean(dr.square(lap * ((ETA - 1) * FOCUS * n * n)).array)


def portrait(n: int) -> TensorXf:
    """The light that is wanted on n x n pixels: on average 1, and nowhere dark."""
    grey = iio.imread(PORTRAIT)[:512, :512].mean(axis=2)
    grey = grey.reshape(n, 512 // n, n, 512 // n).mean(axis=(1, 3))
    return TensorXf((0.25 + 0.75 * grey / grey.mean()).astype(np.float32))


def fit(size: int, steps: int) -> TensorXf:
    """The heights of a lens for a screen of size x size pixels."""
    rng = dr.rng(seed=0)
    heights, opt, lens, rate, goal = dr.zeros(TensorXf, (2, 2, 1)), Adam(0.01), 0, 0.0, TensorXf()
    # Most steps are made where they cost little: what a coarse lens has not found yet, lines of
    # light along its grid above all, finer ones do not make good.
    counts = [(n, steps * size // n) for n in SCREENS if n <= size]
    plan = [(pixels, step, count) for pixels, count in counts for step in range(count)]
    progress = Progress(len(plan))
    for k in progress:
        pixels, step, count = plan[k]
        if step == 0:
            lens, goal = pixels // 4, portrait(pixels)
            heights, rate = Surface(heights).resampled(lens), 0.2 / lens**2
            opt = Adam(rate, params={"heights": heights})
        opt.set_learning_rate(rate * (1 - 0.95 * step / count))
        heights = opt["heights"]
        image = screen(*photons(Surface(heights), 2 * pixels, rng), pixels)
        loss = difference(image, goal) + SMOOTH * curvature(heights)
        dr.backward(loss)
        opt.step()
        if step % 10 == 0:
            progress.show(lens=f"{lens} x {lens}", difference=f"{loss[0]:.3f}")
        heights = dr.detach(opt["heights"])
    return heights


def main() -> None:
    options = Options(__doc__, output="caustic.png")
    options.number(
        "--iterations", 60, "steps with the finest lens, twice as many with the one before"
    )
    options.add_argument(
        "--size", type=int, default=512, choices=SCREENS, help="pixels along a side"
    )
    arguments = options.parse()
    n = arguments.size

    surface = Surface(fit(n, arguments.iterations))
    with dr.suspend_grad():
        found = screen(*photons(surface, 4 * n, dr.rng(seed=1)), n)
    wanted, light = portrait(n).numpy(), found.numpy()
    heights = surface.resampled(n)[:, :, 0].numpy() * 100
    heights -= heights.min()
    panels = [
        Panel("light that is wanted", (wanted / 2.5) ** 0.5),
        Panel("light through the lens", np.clip(light / 2.5, 0, 1) ** 0.5),
        Panel("the lens", heights, "viridis", 0, heights.max(), "height, in % of the width"),
    ]
    write_panels(arguments.output, panels, columns=3, size=n)
    error = float(np.sqrt(np.mean((light - wanted) ** 2)))
    print(f"{arguments.output}: error {error:.3f}, that of a flat lens {wanted.std():.3f}.")


if __name__ == "__main__":
    start(main)

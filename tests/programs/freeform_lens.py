"""A lens with a freeform surface that makes a caustic: photons are refracted by a height field,
counted on a screen, and the surface is fitted so that light gathers where it should.
"""

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam

RES, PHOTONS, SCREEN = 9, 48, 16
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


def main() -> TensorXf:
    i, j = dr.meshgrid(dr.arange(Float, RES), dr.arange(Float, RES), indexing="ij")
    bumps = 0.03 * dr.cos(dr.two_pi * i / (RES - 1)) * dr.sin(dr.pi * j / (RES - 1))
    hits, passes, steps = photons(Surface(TensorXf(bumps, (RES, RES, 1))))
    print("newton", dr.sum(steps), dr.max(steps))
    print("hits", dr.mean(hits, axis=1), dr.count(passes))
    image = screen(hits, passes)
    print("caustic", dr.sum(image), dr.max(image))
    print(image[::5, ::5])

    goal = target()
    opt = Adam(lr=0.004, params={"height": TensorXf(0.2 * bumps, (RES, RES, 1))})
    for step in range(16):
        hits, passes, _ = photons(Surface(opt["height"]))
        image = screen(hits, passes)
        loss = dr.mean(dr.square(image - goal), axis=None)
        dr.backward(loss)
        if step == 0:
            print("gradient", opt["height"].grad[2, :, 0])
        opt.step()
        if step % 5 == 0:
            print("loss", step, loss)
    print("heights", opt["height"][4, :, 0])
    return image


if __name__ == "__main__":
    main()

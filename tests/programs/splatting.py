"""Gaussian splatting in the plane: coloured Gaussians are sorted by depth, blended front to back in
a loop with early exit, and fitted to a picture (after Kerbl et al. 2023)."""

from typing import TypeVar

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, UInt
from drjit.opt import Adam

SIZE, COUNT = 20, 24
Value = TypeVar("Value", Array3f, Float)


class Splats:
    """Centres, logarithms of widths, angles, colours before the sigmoid, opacities, depths."""

    DRJIT_STRUCT = {
        "center": Array2f,
        "scale": Array2f,
        "angle": Float,
        "color": Array3f,
        "opacity": Float,
        "depth": Float,
    }

    center: Array2f
    scale: Array2f
    angle: Float
    color: Array3f
    opacity: Float
    depth: Float

    def __init__(self, **fields: Array2f | Array3f | Float) -> None:
        for name, kind in self.DRJIT_STRUCT.items():
            setattr(self, name, fields.get(name, kind()))


def start() -> Splats:
    rng = dr.rng(seed=12)
    return Splats(
        center=rng.random(Array2f, (2, COUNT)),
        scale=dr.full(Array2f, -2.2, COUNT),
        angle=rng.uniform(Float, COUNT, 0, dr.pi),
        color=rng.normal(Array3f, (3, COUNT)) * 0.3,
        opacity=dr.zeros(Float, COUNT),
        depth=rng.random(Float, COUNT),
    )


def sigmoid(x: Value) -> Value:
    return dr.rcp(1 + dr.exp(-x))


def pixels() -> Array2f:
    c = (dr.arange(Float, SIZE) + 0.5) / SIZE
    return Array2f(dr.meshgrid(c, c))


class Prepared:
    """What pixels read; no PyTree, and therefore no state of the loop."""

    def __init__(self, center: Array2f, conic: Array3f, color: Array3f, opacity: Float) -> None:
        self.center, self.conic, self.color, self.opacity = center, conic, color, opacity


def prepare(s: Splats) -> Prepared:
    """Parameters in the order of depth, and the inverse covariance of every splat."""
    order = dr.argsort(dr.detach(s.depth))
    sorted_ = dr.gather(Splats, s, order)
    sin, cos = dr.sincos(sorted_.angle)
    w = dr.exp(-2 * sorted_.scale)
    conic = Array3f(
        cos * cos * w.x + sin * sin * w.y,
        sin * cos * (w.x - w.y),
        sin * sin * w.x + cos * cos * w.y,
    )
    return Prepared(sorted_.center, conic, sigmoid(sorted_.color), sigmoid(sorted_.opacity))


@dr.syntax
def blend(p: Array2f, splats: Prepared, early: bool) -> tuple[Array3f, Float, UInt]:
    """Front to back, until nothing shines through."""
    result, light, i, used = Array3f(0), Float(1), UInt(0), UInt(0)
    active = Bool(True)
    while active:
        d = p - dr.gather(Array2f, splats.center, i)
        q = dr.gather(Array3f, splats.conic, i)
        power = -0.5 * (q.x * d.x * d.x + q.z * d.y * d.y) - q.y * d.x * d.y
        alpha = dr.minimum(dr.gather(Float, splats.opacity, i) * dr.exp(power), 0.99)
        if alpha > 1 / 255:
            result += light * alpha * dr.gather(Array3f, splats.color, i)
            light *= 1 - alpha
            used += 1
        i += 1
        active = i < COUNT
        if early:
            active &= light > 1e-3
    return result, light, used


def render(s: Splats, early: bool = False) -> tuple[Array3f, Float, UInt]:
    return blend(pixels(), prepare(s), early)


def target() -> Array3f:
    p = pixels()
    disk = dr.norm(p - Array2f(0.4, 0.45)) < 0.25
    bar = dr.abs(p.y - 0.8) < 0.08
    sky = Array3f(0.2, 0.3 + 0.4 * p.y, 0.8)
    return dr.select(disk, Array3f(0.9, 0.3, 0.1), dr.select(bar, Array3f(0.1, 0.6, 0.2), sky))


def main() -> TensorXf:
    s = start()
    image, light, used = render(s, early=True)
    print("image", dr.mean(image, axis=1), dr.mean(light))
    print("splats", dr.sum(used), dr.max(used))
    goal = target()
    print("goal", dr.mean(goal, axis=1))

    # an opaque splat in front hides what is behind
    front = dr.copy(s)
    front.opacity = dr.full(Float, 6, COUNT)
    _, light, used = render(front, early=True)
    print("opaque", dr.mean(light), dr.sum(used))

    opt = Adam(lr=0.03)
    for name in ("center", "scale", "angle", "color", "opacity"):
        opt[name] = getattr(s, name)
    opt.set_learning_rate(center=0.01, color=0.08)
    for i in range(12):
        current = Splats(depth=s.depth, **{name: opt[name] for name in opt})
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
            image, light, _ = render(current)
            loss = dr.mean(dr.squared_norm(image - goal))
            dr.backward(loss)
        if i == 0:
            print("gradient", dr.gather(Array2f, opt["center"].grad, UInt(3, 7)))
            print("gradient", dr.norm(opt["color"].grad), dr.norm(opt["angle"].grad))
        opt.step()
        if i % 4 == 3:
            print("loss", i, loss)
    print("opacity", sigmoid(opt["opacity"]))

    # one derivative in forward mode, through the symbolic loop
    center = Array2f(s.center)
    dr.enable_grad(center)
    dr.set_grad(center, Array2f(1, 0.5))
    moving = dr.copy(s)
    moving.center = center
    image, _, _ = render(moving)
    change = dr.forward_to(image)
    print("forward", dr.mean(change, axis=1), dr.max(dr.abs(change.x)))
    return TensorXf(dr.ravel(dr.detach(image)), (SIZE, SIZE, 3))


if __name__ == "__main__":
    main()

"""A shape given by distances in a grid, sphere traced and fitted to a picture.

The grid is a texture, with linear or cubic interpolation. Rays find the surface in a loop without
derivatives; the distance that they went is attached afterwards, by one step of Newton's method.
"""

import drjit as dr
from drjit.auto.ad import Array3f, Bool, Float, TensorXf, Texture3f, UInt
from drjit.opt import SGD, Adam

RES, SIZE, STEPS = 12, 20, 24


def grid_points() -> Array3f:
    c = (dr.arange(Float, RES) + 0.5) / RES * 2 - 1
    z, y, x = dr.meshgrid(c, c, c, indexing="ij")
    return Array3f(x, y, z)


def tensor(values: Float) -> TensorXf:
    return TensorXf(values, (RES, RES, RES, 1))


def ball(radius: float) -> TensorXf:
    return tensor(dr.norm(grid_points()) - radius)


def rounded_box(half: Array3f, radius: float) -> TensorXf:
    q = dr.abs(grid_points()) - half + radius
    outside = dr.norm(dr.maximum(q, 0))
    return tensor(outside + dr.minimum(dr.max(q), 0) - radius)


class Shape:
    def __init__(self, values: TensorXf, cubic: bool = False) -> None:
        self.texture = Texture3f(values, wrap_mode=dr.WrapMode.Clamp)
        self.cubic = cubic

    def distance(self, p: Array3f) -> Float:
        q = 0.5 * (p + 1)
        return self.texture.eval_cubic(q)[0] if self.cubic else self.texture.eval(q)[0]

    def normal(self, p: Array3f) -> Array3f:
        if self.cubic:
            _, grad = self.texture.eval_cubic_grad(0.5 * (p + 1))
            return dr.normalize(grad[0])
        h = 0.08
        n = Array3f(0)
        for e in (Array3f(1, -1, -1), Array3f(-1, -1, 1), Array3f(-1, 1, -1), Array3f(1, 1, 1)):
            n += e * self.distance(p + h * e)
        return dr.normalize(n)

    @dr.syntax
    def trace(self, o: Array3f, d: Array3f) -> tuple[Float, Bool]:
        t, i = Float(1.2), UInt(0)
        with dr.suspend_grad():
            while (i < STEPS) & (t < 4.5):
                t += 0.9 * self.distance(o + t * d)
                i += 1
            hit = dr.abs(self.distance(o + t * d)) < 0.02
        return t, hit


def rays() -> tuple[Array3f, Array3f]:
    c = (dr.arange(Float, SIZE) + 0.5) / SIZE * 2 - 1
    x, y = dr.meshgrid(c, c)
    return Array3f(0, 0, -2.5), dr.normalize(Array3f(0.55 * x, -0.55 * y, 1.0))


def render(shape: Shape, light: Array3f) -> Float:
    o, d = rays()
    t, hit = shape.trace(o, d)
    p = o + t * d
    n = shape.normal(p)
    # d(t) = -d(distance) / <n, d>
    cosine = dr.minimum(dr.detach(dr.dot(n, d)), -0.1)
    t = dr.replace_grad(t, -shape.distance(dr.detach(p)) / cosine)
    n = shape.normal(o + t * d)
    shade = 0.2 + 0.8 * dr.maximum(0, dr.dot(n, -light))
    return dr.select(hit, shade, 0)


def main() -> TensorXf:
    light = dr.normalize(Array3f(0.5, -0.6, 0.7))
    target = render(Shape(rounded_box(Array3f(0.5, 0.35, 0.4), 0.1)), light)
    dr.eval(target)
    print("target", dr.mean(target), dr.count(target > 0))
    picture = TensorXf(target, (SIZE, SIZE))
    print(picture[::5, ::5])
    cubic = render(Shape(ball(0.6), cubic=True), light)
    dr.eval(cubic)
    print("cubic", dr.mean(cubic), dr.count(cubic > 0))

    # one number: the radius of a ball
    radius = Float(0.5)
    dr.enable_grad(radius)
    image = render(Shape(tensor(dr.norm(grid_points()) - radius)), light)
    reference = dr.detach(render(Shape(ball(0.6)), light))
    loss = dr.mean(dr.square(image - reference))
    dr.forward(radius, flags=dr.ADFlag.Default | dr.ADFlag.ClearEdges)
    dr.eval(loss, loss.grad)
    print("radius", loss, loss.grad)

    # the whole grid, with a smoothness term
    opt = Adam(lr=0.01, params={"grid": ball(0.55)})
    history: list[float] = []
    for _ in range(10):
        values = opt["grid"]
        image = render(Shape(values), light)
        rough = TensorXf(0)
        for a, b in (
            (values[1:], values[:-1]),
            (values[:, 1:], values[:, :-1]),
            (values[:, :, 1:], values[:, :, :-1]),
        ):
            rough += dr.mean(dr.square(a - b), axis=None)
        loss = dr.mean(dr.square(image - target)) + 0.01 * rough.array
        dr.backward(loss)
        history.append(loss[0])
        opt.step()
    print("losses", Float(history))
    print("grid", opt["grid"][6, 6, :, 0])
    print("norm", dr.norm(opt["grid"]))

    light_opt = SGD(lr=0.5, params={"light": Array3f(0, -0.2, 1)})
    box = Shape(rounded_box(Array3f(0.5, 0.35, 0.4), 0.1))
    for _ in range(8):
        loss = dr.mean(dr.square(render(box, dr.normalize(light_opt["light"])) - target))
        dr.backward(loss)
        light_opt.step()
    print("light", loss, dr.normalize(light_opt["light"]))
    return picture


if __name__ == "__main__":
    main()

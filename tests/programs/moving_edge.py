"""A differentiable rasterizer of a polygon that moves its edges: coverage is sampled inside, and
its derivative along the edges (Li et al., "Differentiable Monte Carlo Ray Tracing through Edge
Sampling", 2018). A polygon is fitted to a picture."""

import drjit as dr
from drjit.auto.ad import Array2f, Array2i, Bool, Float, TensorXf, UInt
from drjit.opt import Adam

SIZE, GRID = 16, 4  # pixels, samples of a pixel along each axis
EDGE_SAMPLES = 64
TARGET = [(0.2, 0.25), (0.75, 0.15), (0.85, 0.7), (0.45, 0.9)]
START = [(0.35, 0.35), (0.65, 0.3), (0.7, 0.6), (0.4, 0.65)]


def points(corners: list[tuple[float, float]]) -> Array2f:
    return Array2f(Float([c[0] for c in corners]), Float([c[1] for c in corners]))


def inside(corners: Array2f, p: Array2f) -> Bool:
    """Tells which points lie within the polygon: the parity of crossings of a horizontal ray."""
    odd = dr.full(Bool, False, dr.width(p))
    count = dr.width(corners)
    i = UInt(0)

    def crossing(i: UInt, odd: Bool) -> tuple[UInt, Bool]:
        a = dr.gather(Array2f, corners, i)
        b = dr.gather(Array2f, corners, (i + 1) % count)
        x = a.x + (p.y - a.y) * (b.x - a.x) / (b.y - a.y)
        return i + 1, odd ^ (((a.y > p.y) != (b.y > p.y)) & (p.x < x))

    _, odd = dr.while_loop((i, odd), lambda i, odd: i < count, crossing, labels=("i", "odd"))
    return odd


class Coverage(dr.CustomOp):
    """How much of every pixel lies within a polygon."""

    def eval(self, corners: Array2f) -> TensorXf:
        self.corners = dr.detach(corners)
        n = SIZE * GRID
        x, y = dr.meshgrid(*[(dr.arange(Float, n) + 0.5) / n] * 2)
        hit = dr.select(inside(self.corners, Array2f(x, y)), Float(1), 0)
        t = TensorXf(hit, (SIZE, GRID, SIZE, GRID))
        return dr.mean(t, axis=(1, 3))

    def edges(self) -> tuple[UInt, Bool, UInt, UInt, Float, Array2f]:
        """Points of the edges: pixel, the two corners, the place between them, and normal."""
        count = dr.width(self.corners)
        e, s = dr.meshgrid(dr.arange(UInt, count), dr.arange(UInt, EDGE_SAMPLES), indexing="ij")
        i, j = e, (e + 1) % count
        a, b = dr.gather(Array2f, self.corners, i), dr.gather(Array2f, self.corners, j)
        t = (Float(s) + 0.5) / EDGE_SAMPLES
        p = dr.lerp(a, b, t)
        along = b - a
        normal = Array2f(along.y, -along.x) / EDGE_SAMPLES  # outward, as long as the piece
        pixel = Array2i(dr.floor(p * SIZE))
        valid = dr.all((pixel >= 0) & (pixel < SIZE))
        return UInt(pixel.y * SIZE + pixel.x), valid, i, j, t, normal * SIZE * SIZE

    def forward(self) -> None:
        pixel, valid, i, j, t, normal = self.edges()
        grad = self.grad_in("corners")
        v = dr.lerp(dr.gather(Array2f, grad, i), dr.gather(Array2f, grad, j), t)
        result = dr.zeros(Float, SIZE * SIZE)
        dr.scatter_add(result, dr.dot(v, normal), pixel, valid)
        self.set_grad_out(TensorXf(result, (SIZE, SIZE)))

    def backward(self) -> None:
        pixel, valid, i, j, t, normal = self.edges()
        g = dr.gather(Float, self.grad_out().array, pixel, valid) * normal
        result = dr.zeros(Array2f, dr.width(self.corners))
        dr.scatter_reduce(dr.ReduceOp.Add, result, g * (1 - t), i)
        dr.scatter_reduce(dr.ReduceOp.Add, result, g * t, j)
        self.set_grad_in("corners", result)

    def name(self) -> str:
        return "coverage"


def coverage(corners: Array2f) -> TensorXf:
    return dr.custom(Coverage, corners)


def main() -> tuple[TensorXf, TensorXf]:
    target = coverage(points(TARGET))
    print("area", dr.mean(target))
    print(target[::3, ::3])

    # the derivative of the area is known: half the diagonal across from a corner
    corners = points(START)
    dr.enable_grad(corners)
    area = dr.mean(coverage(corners), axis=None)
    dr.backward(area)
    c = dr.detach(corners)
    k = dr.arange(UInt, 4)
    ahead, behind = dr.gather(Array2f, c, (k + 1) % 4), dr.gather(Array2f, c, (k + 3) % 4)
    print("reverse", corners.grad)
    print("closed form", 0.5 * (ahead.y - behind.y), 0.5 * (behind.x - ahead.x))
    dr.set_grad(corners, Array2f(1, 0))
    shifted = coverage(corners)
    image_change = dr.forward_to(shifted)
    print("forward", image_change[8])

    opt = Adam(lr=0.01)
    opt["corners"] = points(START)
    image = target
    for i in range(60):
        image = coverage(opt["corners"])
        loss = dr.mean(dr.square(image - target), axis=None)
        dr.backward(loss)
        opt.step()
        if i % 15 == 0:
            print("loss", i, loss)
    print("corners", opt["corners"])
    return target, image


if __name__ == "__main__":
    main()

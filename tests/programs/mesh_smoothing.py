"""Smoothing of a triangle mesh with scatter-reductions: area-weighted normals, Laplacian and Taubin
smoothing (Taubin 1995), and an energy whose gradient moves vertices."""

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Array3u, Float, TensorXf, UInt
from drjit.opt import SGD


class Mesh:
    DRJIT_STRUCT = {"vertices": Array3f, "faces": Array3u}

    def __init__(self, vertices: Array3f | None = None, faces: Array3u | None = None) -> None:
        self.vertices = vertices if vertices is not None else Array3f()
        self.faces = faces if faces is not None else Array3u()

    def corners(self) -> list[Array3f]:
        return [dr.gather(Array3f, self.vertices, self.faces[i]) for i in range(3)]

    def area_normals(self) -> Array3f:
        a, b, c = self.corners()
        return 0.5 * dr.cross(b - a, c - a)

    def area(self) -> Float:
        return dr.sum(dr.norm(self.area_normals()))

    def volume(self) -> Float:
        a, b, c = self.corners()
        return dr.sum(dr.dot(a, dr.cross(b, c))) / 6

    def normals(self) -> Array3f:
        n = self.area_normals()
        total = dr.zeros(Array3f, dr.width(self.vertices))
        for i in range(3):
            dr.scatter_reduce(dr.ReduceOp.Add, total, n, self.faces[i])
        return dr.normalize(total)

    def valence(self) -> Float:
        count = dr.zeros(Float, dr.width(self.vertices))
        for i in range(3):
            dr.scatter_add(count, Float(1), self.faces[i])
        return count

    def laplacian(self) -> Array3f:
        """The mean of the neighbours less the vertex; every edge of a closed mesh has two faces."""
        corner = self.corners()
        total = dr.zeros(Array3f, dr.width(self.vertices))
        for i in range(3):
            dr.scatter_add(total, corner[(i + 1) % 3] + corner[(i + 2) % 3], self.faces[i])
        return total / (2 * self.valence()) - self.vertices

    def bounds(self) -> tuple[Float, Float]:
        low, high = dr.full(Float, dr.inf, 3), dr.full(Float, -dr.inf, 3)
        for i in range(3):
            dr.scatter_reduce(dr.ReduceOp.Min, low, self.vertices[i], UInt(i))
            dr.scatter_reduce(dr.ReduceOp.Max, high, self.vertices[i], UInt(i))
        return low, high


def torus(n: int, m: int, big: float, small: float) -> Mesh:
    i, j = dr.meshgrid(dr.arange(UInt, n), dr.arange(UInt, m), indexing="ij")
    u, v = Float(i) * (dr.two_pi / n), Float(j) * (dr.two_pi / m)
    (su, cu), (sv, cv) = dr.sincos(u), dr.sincos(v)
    r = big + small * cv
    a, b = i * m + j, ((i + 1) % n) * m + j
    c, d = ((i + 1) % n) * m + (j + 1) % m, i * m + (j + 1) % m
    faces = Array3u(dr.concat([a, a]), dr.concat([b, c]), dr.concat([c, d]))
    return Mesh(Array3f(r * cu, r * su, small * sv), faces)


def smooth(mesh: Mesh, rounds: int, weights: tuple[float, ...]) -> Mesh:
    for _ in range(rounds):
        for w in weights:
            mesh = Mesh(mesh.vertices + w * mesh.laplacian(), mesh.faces)
        dr.eval(mesh)
    return mesh


def main() -> TensorXf:
    clean = torus(16, 10, 1.0, 0.4)
    print(
        "faces", dr.width(clean.faces), "valence", dr.min(clean.valence()), dr.max(clean.valence())
    )
    print("area", clean.area(), "volume", clean.volume())
    low, high = clean.bounds()
    print("bounds", low, high)
    n = clean.normals()
    print("normals", dr.gather(Array3f, n, UInt(0, 33, 101)), dr.mean(dr.norm(n)))

    noise = dr.rng(seed=4).normal(Array3f, (3, dr.width(clean.vertices)))
    noisy = Mesh(clean.vertices + 0.03 * noise, clean.faces)

    def error(mesh: Mesh) -> Float:
        return dr.sqrt(dr.mean(dr.squared_norm(mesh.vertices - clean.vertices)))

    print("noisy", error(noisy), noisy.volume())
    for name, weights in (("laplace", (0.5,)), ("taubin", (0.5, -0.53))):
        result = smooth(noisy, 6, weights)
        rough = dr.sum(dr.squared_norm(result.laplacian()))
        print(name, error(result), result.volume(), rough)

    # the gradient of the area is the mean curvature normal
    v = Array3f(clean.vertices)
    dr.enable_grad(v)
    dr.backward(Mesh(v, clean.faces).area())
    print("curvature", dr.gather(Array3f, v.grad, UInt(0, 5, 77)))
    v = Array3f(clean.vertices)
    dr.enable_grad(v)
    dr.set_grad(v, n)
    print("offset", dr.forward_to(Mesh(v, clean.faces).volume()))

    # least squares: stay near the noisy vertices and be smooth
    opt = SGD(lr=4.0, momentum=0.5, params={"v": noisy.vertices})
    count = dr.width(noisy.vertices)
    for i in range(15):
        mesh = Mesh(opt["v"], clean.faces)
        fidelity = dr.sum(dr.squared_norm(mesh.vertices - noisy.vertices))
        fairness = dr.sum(dr.squared_norm(mesh.laplacian()))
        loss = (fidelity + 4 * fairness) / count
        dr.backward(loss)
        opt.step()
        if i % 7 == 0:
            print("loss", i, loss)
    result = Mesh(dr.detach(opt["v"]), clean.faces)
    print("fitted", error(result), result.volume())
    top = Array2f(result.vertices.x, result.vertices.y)
    print("spread", dr.max(dr.norm(top)), dr.min(dr.norm(top)))
    return TensorXf(dr.ravel(result.vertices), (count, 3))


if __name__ == "__main__":
    main()

"""Sums over lattices (Ewald's method, theta functions) and the X-ray transform of a crystal of
Gaussian atoms: lines of sight through a volume, in closed form and by quadrature."""

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Array3i, Float, Float64, Int, Matrix3f, TensorXf, UInt


def lattice(n: int) -> Array3i:
    """All integer points of the cube [-n, n]^3."""
    side = 2 * n + 1
    i = dr.arange(Int, side**3)
    return Array3i(i % side, (i // side) % side, i // (side * side)) - n


def madelung(alpha: float, n: int) -> Float64:
    """The potential at an ion of rock salt, in units of the distance of neighbours (Ewald 1921)."""
    p = lattice(n)
    r2 = Float64(dr.squared_norm(p))
    charge = dr.select((dr.sum(p) & 1) == 0, Float64(1), -1)
    r = dr.sqrt(r2)
    erfc = 1 - dr.erf(alpha * r)
    near = dr.sum(dr.select(r2 > 0, charge * erfc / r, 0))
    # Ions alternate, so that waves are those of the odd multiples of pi.
    k = dr.pi * (2 * Array3i(p) + 1)
    k2 = Float64(k.x) * k.x + Float64(k.y) * k.y + Float64(k.z) * k.z
    far = dr.sum(dr.exp(-k2 / (4 * alpha * alpha)) / k2) * 4 * dr.pi
    return near + far - 2 * alpha / dr.sqrt(dr.pi)


@dr.syntax
def theta(q: Float64, tolerance: float = 1e-12) -> Float64:
    """Jacobi's theta function, 1 + 2 (q + q^4 + q^9 + ...)."""
    total, term, n = Float64(1), Float64(q), UInt(1)
    while term > tolerance:
        total += 2 * term
        n += 1
        term = q ** Float64(n * n)
    return total


def rotation(axis: Array3f, angle: Float | float) -> Matrix3f:
    """Rodrigues' formula."""
    s, c = dr.sincos(angle)
    k = dr.normalize(axis)
    cross = Matrix3f(0, -k.z, k.y, k.z, 0, -k.x, -k.y, k.x, 0)
    return Matrix3f(1) + s * cross + (1 - c) * (cross @ cross)


def project(centers: Array3f, widths: Float, view: Matrix3f, size: int) -> TensorXf:
    """The integral along z of Gaussians seen from a direction, one lane a pixel."""
    c = dr.linspace(Float, -2, 2, size)
    x, y = dr.meshgrid(c, c)
    image, i = dr.zeros(Float, size * size), UInt(0)
    n = dr.width(centers)

    def add(i: UInt, image: Float) -> tuple[UInt, Float]:
        p = view @ dr.gather(Array3f, centers, i)
        s2 = dr.square(dr.gather(Float, widths, i))
        d2 = dr.squared_norm(Array2f(x, y) - p.xy)
        return i + 1, image + dr.exp(-0.5 * d2 / s2) / (2 * dr.pi * s2)

    _, image = dr.while_loop((i, image), lambda i, image: i < n, add, max_iterations=n)
    return TensorXf(image, (size, size))


@dr.syntax
def quadrature(centers: Array3f, widths: Float, view: Matrix3f, p: Array2f, steps: int) -> Float:
    """The same by the midpoint rule along the lines of sight."""
    total, k = Float(0), UInt(0)
    back = view.T
    h = 8.0 / steps
    while k < steps:
        q = back @ Array3f(p.x, p.y, -4 + (Float(k) + 0.5) * h)
        j = UInt(0)
        while j < dr.width(centers):
            s2 = dr.square(dr.gather(Float, widths, j))
            d2 = dr.squared_norm(q - dr.gather(Array3f, centers, j))
            total += h * dr.exp(-0.5 * d2 / s2) / ((2 * dr.pi * s2) ** 1.5)
            j += 1
        k += 1
    return total


def main() -> TensorXf:
    for alpha in (0.8, 1.0, 1.3):
        print("madelung", alpha, madelung(alpha, 5))
    q = dr.exp(-dr.pi * Float64(0.5, 1, 2, 4))
    t = theta(q)
    print("theta", t)
    inverse = theta(dr.exp(-dr.pi / Float64(0.5, 1, 2, 4)))
    print(
        "functional equation", dr.max(dr.abs(inverse - t * dr.sqrt(Float64(0.5, 1, 2, 4)))) < 1e-10
    )
    shells = dr.zeros(UInt, 14)
    r2 = UInt(dr.squared_norm(lattice(3)))
    dr.scatter_add(shells, 1, r2, r2 < 10)
    print("shells", shells)

    points = lattice(1)
    keep = dr.compress((dr.sum(points) & 1) == 0)
    centers = Array3f(dr.gather(Array3i, points, keep))
    widths = 0.2 + 0.1 * dr.norm(centers)
    view = rotation(Array3f(1, 2, 0.5), 0.7)
    print("view", view @ dr.rcp(view), dr.det(view))
    image = project(centers, widths, view, 16)
    print("mass", dr.sum(image) * (4 / 15) ** 2, "of", dr.width(centers))
    print(image[2::4, 2::4])
    p = Array2f([0, 0.5, -1], [0, 0.5, 0.3])
    print("quadrature", quadrature(centers, widths, view, p, 64))

    # how the picture changes as the crystal turns
    angle = Float(0.7)
    dr.enable_grad(angle)
    image = project(centers, widths, rotation(Array3f(1, 2, 0.5), angle), 16)
    dr.forward_from(angle)
    print("turn", image.grad[5, ::3])
    goal = project(centers, widths, rotation(Array3f(1, 2, 0.5), 0.8), 16)
    angle = Float(0.7)
    dr.enable_grad(angle)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        image = project(centers, widths, rotation(Array3f(1, 2, 0.5), angle), 16)
        loss = dr.mean(dr.square(image - goal))
        dr.backward(loss)
    print("loss", loss, angle.grad)
    return goal


if __name__ == "__main__":
    main()

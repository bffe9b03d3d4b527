"""Bessel functions by series and asymptotic expansions (Abramowitz and Stegun, chapter 9), and
Green's functions of the Helmholtz equation made of them: waves of sources before a mirror."""

import drjit as dr
from drjit.auto.ad import Array2f, Bool, Complex2f, Float, Float64, TensorXf, UInt

EULER = 0.5772156649015329


@dr.syntax
def series(order: int, x: Float64) -> tuple[Float64, Float64]:
    """J_n and the sum of harmonic numbers that Y_0 needs, for small arguments."""
    z = -0.25 * x * x
    term = dr.power(0.5 * x, order)
    for k in range(2, order + 1):
        term /= k
    j, extra, harmonic, k = Float64(0), Float64(0), Float64(0), UInt(0)
    while (dr.abs(term) > 1e-14) | (k < 2):
        j += term
        extra += term * harmonic
        k += 1
        kk = Float64(k)
        harmonic += 1 / kk
        term *= z / (kk * (kk + order))
    return j, extra


def asymptotic(order: int, x: Float64) -> tuple[Float64, Float64]:
    """J_n and Y_n of large arguments by the expansion of their modulus and phase."""
    mu = 4 * order * order
    p, q, term = Float64(1), Float64(0), Float64(1)
    for k in range(1, 8):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8 * x)
        if k % 2:
            q += term if k % 4 == 1 else -term
        else:
            p += -term if k % 4 == 2 else term
    s, c = dr.sincos(x - (0.5 * order + 0.25) * dr.pi)
    scale = dr.sqrt(2 / (dr.pi * x))
    return scale * (p * c - q * s), scale * (p * s + q * c)


def bessel(order: int, x: Float64) -> Float64:
    """J_n of any argument, by a branch in every lane."""
    return dr.if_stmt(
        (x,),
        x < 12,
        lambda x: series(order, x)[0],
        lambda x: asymptotic(order, x)[0],
        arg_labels=("x",),
        label="bessel",
    )


def hankel(x: Float64) -> tuple[Float64, Float64]:
    """The Hankel function H_0 = J_0 + i Y_0, real and imaginary part."""

    def small(x: Float64) -> tuple[Float64, Float64]:
        j, extra = series(0, x)
        return j, 2 / dr.pi * ((dr.log(0.5 * x) + EULER) * j - extra)

    return dr.if_stmt((x,), x < 12, small, lambda x: asymptotic(0, x))


def integral(order: int, x: Float64, n: int = 64) -> Float64:
    """Bessel's integral, by the trapezoidal rule, which converges exponentially."""
    t = (dr.arange(Float64, n) + 0.5) * (dr.pi / n)
    tt, xx = dr.tile(t, dr.width(x)), dr.repeat(x, n)
    return dr.block_sum(dr.cos(order * tt - xx * dr.sin(tt)), n) / n


def green(p: Array2f, q: Array2f, k: float) -> Complex2f:
    """i/4 H_0(k |p - q|)."""
    j, y = hankel(Float64(k * dr.norm(p - q)))
    return Complex2f(-0.25 * Float(y), 0.25 * Float(j))


def main() -> TensorXf:
    x = Float64(0.1, 1, 2.404825557695773, 5, 11.9, 12.1, 20, 35)
    for order in (0, 1, 3):
        b = bessel(order, x)
        print("J", order, b)
        print("error", order, dr.max(dr.abs(b - integral(order, x))) < 1e-7)
    print("Y", hankel(x)[1])

    # the derivative of J_0 is -J_1, also through loops and branches
    x = Float64(0.5, 3, 9, 14, 25)
    dr.enable_grad(x)
    y = bessel(0, x)
    dr.forward_from(x)
    print("derivative", y.grad, dr.allclose(y.grad, -bessel(1, dr.detach(x)), atol=1e-6))

    # two sources before a mirror: their mirror images have the opposite sign
    n, k = 24, 12.0
    c = (dr.arange(Float, n) + 0.5) / n
    gx, gy = dr.meshgrid(c * 2 - 1, c)
    p = Array2f(gx, gy)
    field = Complex2f(0)
    sources = [(Array2f(-0.31, 0.4), Complex2f(1, 0)), (Array2f(0.33, 0.6), Complex2f(0, 1))]
    for q, amplitude in sources:
        mirrored = Array2f(q.x, -q.y)
        field += amplitude * (green(p, q, k) - green(p, mirrored, k))
    power = dr.squared_norm(field)
    print("power", dr.mean(power), dr.max(power))
    print("phase", dr.gather(Float, dr.arg(field), UInt(5, 100, 300)))
    image = TensorXf(dr.sqrt(power), (n, n))
    print(image[::6, ::6])
    above, below = (green(Array2f(0.1, 0), Array2f(0.2, y), k) for y in (0.3, -0.3))
    print("at the mirror", dr.abs(above), dr.abs(above - below))
    z = dr.exp(Complex2f(0, k * gx)) * dr.sqrt(Complex2f(gy, -gx))
    print("plane wave", dr.mean(z.real), dr.mean(z.imag), dr.all(dr.isfinite(z)) == Bool(True))
    return image


if __name__ == "__main__":
    main()

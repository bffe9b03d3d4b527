"""The fast Fourier transform of Cooley and Tukey with complex arrays: spectra, convolution with a
picture, derivatives, and a frozen transform for many signals."""

import drjit as dr
from drjit.auto.ad import Array2f, Complex2f, Float, Int, TensorXf, UInt


def reversed_bits(n: int) -> UInt:
    bits = n.bit_length() - 1
    return dr.brev(dr.arange(UInt, n)) >> (32 - bits)


def fft(x: Complex2f, inverse: bool = False) -> Complex2f:
    """Transforms rows of a power of two, here one row."""
    n = dr.width(x)
    sign = 1 if inverse else -1
    x = dr.gather(Complex2f, x, reversed_bits(n))
    lane = dr.arange(UInt, n)
    half = 1
    while half < n:
        upper = (lane & half) != 0
        s, c = dr.sincos(Float(lane & (half - 1)) * (sign * dr.pi / half))
        a = dr.gather(Complex2f, x, lane & ~UInt(half))
        b = dr.gather(Complex2f, x, lane | half) * Complex2f(c, s)
        x = dr.select(upper, a - b, a + b)
        if half == 4:
            dr.eval(x)
        half *= 2
    return x / n if inverse else x


def dft(x: Complex2f, k: int) -> Complex2f:
    """One coefficient by the definition."""
    n = dr.width(x)
    w = dr.exp(Complex2f(0, -dr.two_pi * k / n * dr.arange(Float, n)))
    return dr.sum(x * w, axis=1)


def fft2(x: Complex2f, n: int, inverse: bool = False) -> Complex2f:
    """Rows and then columns of a square picture."""
    lane = dr.arange(UInt, n * n)
    transposed = (lane % n) * n + lane // n
    for _ in range(2):
        sign = 1 if inverse else -1
        row, column = lane // n, lane % n
        bits = n.bit_length() - 1
        x = dr.gather(Complex2f, x, row * n + (dr.brev(column) >> (32 - bits)))
        half = 1
        while half < n:
            phase = Float(column & (half - 1)) * (sign * dr.pi / half)
            w = Complex2f(dr.cos(phase), dr.sin(phase))
            a = dr.gather(Complex2f, x, lane & ~UInt(half))
            b = w * dr.gather(Complex2f, x, lane | half)
            x = dr.select((lane & half) != 0, a - b, a + b)
            dr.eval(x)
            half *= 2
        x = dr.gather(Complex2f, x, transposed)
    return x / (n * n) if inverse else x


def main() -> TensorXf:
    n = 64
    t = dr.arange(Float, n) / n
    signal = Complex2f(dr.cos(2 * dr.pi * 5 * t) + 0.5 * dr.sin(2 * dr.pi * 12 * t) + 0.25)
    spectrum = fft(signal)
    power = dr.squared_norm(spectrum)
    print("peaks", dr.compress(power > 1), dr.gather(Float, power, UInt(0, 5, 12)))
    print("definition", dft(signal, 5), dft(signal, 12))
    back = fft(spectrum, inverse=True)
    print("inverse", dr.max(dr.abs(back - signal)) < 1e-5)
    print("parseval", dr.sum(power) / n, dr.sum(dr.squared_norm(signal)))

    noise = dr.rng(seed=8).normal(Float, n)
    z = fft(Complex2f(noise, dr.reverse(noise)))
    print("noise", dr.gather(Complex2f, z, UInt(0, 1, 31)), dr.mean(dr.arg(z)))

    # convolution of two signals, against sums of products
    a, b = noise, dr.exp(-0.5 * dr.square(dr.arange(Float, n) - 8))
    product = fft(fft(Complex2f(a)) * fft(Complex2f(b)), inverse=True).real
    k, m = dr.meshgrid(dr.arange(Int, n), dr.arange(Int, n), indexing="ij")
    direct = dr.block_sum(
        dr.gather(Float, a, UInt(m)) * dr.gather(Float, b, UInt((k - m + n) & (n - 1))), n
    )
    few = dr.gather(Float, product, UInt(0, 20, 63))
    print("convolution", dr.allclose(product, direct, atol=1e-4), few)

    # derivatives: a band's energy by the signal
    x = Float(noise)
    dr.enable_grad(x)
    band = dr.gather(Complex2f, fft(Complex2f(x)), UInt(3, 4, 5, 6))
    energy = dr.sum(dr.squared_norm(band))
    dr.backward(energy)
    print("energy", energy, dr.gather(Float, x.grad, UInt(0, 17, 40)))
    print("euler", dr.allclose(dr.dot(x.grad, dr.detach(x)), 2 * dr.detach(energy), rtol=1e-4))
    phase = Float(0.3)
    dr.enable_grad(phase)
    tone = fft(Complex2f(dr.cos(2 * dr.pi * 5 * t + phase)))
    dr.forward(phase)
    print("turning", dr.gather(Complex2f, dr.grad(tone), UInt(5, 59)))

    # a picture, blurred in the frequency domain
    size = 16
    c = dr.arange(Float, size)
    u, v = dr.meshgrid(c, c)
    disk = dr.select(dr.norm(Array2f(u, v) - 7.5) < 4, Float(1), 0)
    f = dr.minimum(u, size - u), dr.minimum(v, size - v)
    low_pass = dr.exp(-0.1 * (dr.square(f[0]) + dr.square(f[1])))
    blurred = fft2(fft2(Complex2f(disk), size) * low_pass, size, inverse=True)
    image = TensorXf(blurred.real, (size, size))
    print("picture", dr.sum(image), dr.max(dr.abs(blurred.imag)) < 1e-5)
    print(image[::5, ::5])

    # recorded once, replayed for other signals
    @dr.freeze
    def magnitude(x: Float) -> Float:
        return dr.abs(fft(Complex2f(x)))

    for seed in range(3):
        m = magnitude(dr.rng(seed=seed).random(Float, 32) - 0.5)
        print("frozen", seed, dr.max(m), dr.mean(m))
    print("recordings", magnitude.n_recordings)
    return image


if __name__ == "__main__":
    main()

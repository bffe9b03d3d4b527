"""Computed tomography: the Radon transform of a phantom, and filtered backprojection of it (Kak and
Slaney, "Principles of Computerized Tomographic Imaging", chapter 3), then refined by gradients."""

import drjit as dr
from drjit.auto.ad import Array2f, Float, TensorXf, Texture1f, Texture2f, UInt
from drjit.opt import Adam

SIZE, ANGLES, BINS, STEPS = 24, 20, 32, 48
# center, half axes, angle, density: after Shepp and Logan
ELLIPSES = [
    ((0, 0), (0.69, 0.92), 0, 1),
    ((0, -0.0184), (0.6624, 0.874), 0, -0.8),
    ((0.22, 0), (0.11, 0.31), -0.31, -0.2),
    ((-0.22, 0), (0.16, 0.41), 0.31, -0.2),
    ((0, 0.35), (0.21, 0.25), 0, 0.3),
]


def pixels() -> Array2f:
    c = (dr.arange(Float, SIZE) + 0.5) / SIZE * 2 - 1
    return Array2f(dr.meshgrid(c, -c))


def phantom() -> TensorXf:
    p, value = pixels(), Float(0)
    for center, axes, angle, density in ELLIPSES:
        s, c = dr.sincos(float(angle))
        q = p - Array2f(center)
        r = Array2f(c * q.x + s * q.y, c * q.y - s * q.x) / Array2f(axes)
        value += dr.select(dr.squared_norm(r) < 1, Float(density), 0)
    return TensorXf(value, (SIZE, SIZE, 1))


def project(image: TensorXf) -> Float:
    """Line integrals, one lane for an angle and an offset."""
    texture = Texture2f(image, wrap_mode=dr.WrapMode.Clamp)
    a, b = dr.meshgrid(dr.arange(Float, ANGLES), dr.arange(Float, BINS), indexing="ij")
    s, c = dr.sincos(a * (dr.pi / ANGLES))
    offset = (b + 0.5) / BINS * 2 - 1
    origin, along = offset * Array2f(c, s), Array2f(-s, c)

    def step(i: UInt, total: Float) -> tuple[UInt, Float]:
        t = (Float(i) + 0.5) / STEPS * 2 - 1
        p = origin + t * along
        inside = dr.all(dr.abs(p) < 1)
        return i + 1, total + texture.eval(Array2f(0.5 + 0.5 * p.x, 0.5 - 0.5 * p.y), inside)[0]

    _, total = dr.while_loop(
        (UInt(0), dr.zeros(Float, ANGLES * BINS)),
        lambda i, total: i < STEPS,
        step,
        max_iterations=-1,
    )
    return total * (2 / STEPS)


def ramp(sinogram: Float) -> Float:
    """The ramp filter as a convolution (Ramachandran and Lakshminarayanan)."""
    taps = dr.arange(Float, 2 * BINS - 1) - (BINS - 1)
    odd = (UInt(dr.abs(taps)) & 1) == 1
    kernel = dr.select(odd, -1 / (dr.square(dr.pi * taps) + 1e-9), 0)
    kernel = dr.select(taps == 0, 0.25, kernel) * (BINS / 2)
    index = dr.arange(UInt, ANGLES * BINS)
    row, column = index // BINS * BINS, index % BINS
    result = dr.zeros(Float, ANGLES * BINS)
    for k in range(BINS):
        result += dr.gather(Float, sinogram, row + k) * dr.gather(
            Float, kernel, column + (BINS - 1 - k)
        )
    return result


@dr.syntax
def backproject(sinogram: Float) -> TensorXf:
    """Sums over all angles what a pixel saw."""
    # one texture with a row for each angle; the last row must not blend with the first
    rows = Texture2f(TensorXf(sinogram, (ANGLES, BINS, 1)), wrap_mode=dr.WrapMode.Clamp)
    p = pixels()
    total, i = dr.zeros(Float, SIZE * SIZE), UInt(0)
    while i < ANGLES:
        s, c = dr.sincos(Float(i) * (dr.pi / ANGLES))
        offset = 0.5 * (p.x * c + p.y * s) + 0.5
        if (offset > 0) & (offset < 1):
            total += rows.eval(Array2f(offset, (Float(i) + 0.5) / ANGLES))[0]
        i += 1
    return TensorXf(total * (dr.pi / ANGLES), (SIZE, SIZE))


def main() -> TensorXf:
    image = phantom()
    sinogram = project(image)
    print("phantom", dr.mean(image), "projections", dr.mean(sinogram), dr.max(sinogram))
    view = TensorXf(sinogram, (ANGLES, BINS))
    print(view[::7, ::5])
    plain = backproject(sinogram)
    filtered = backproject(ramp(sinogram))
    truth = image[:, :, 0]
    print("plain", dr.mean(plain), dr.max(plain))
    print("filtered", dr.mean(filtered), dr.sqrt(dr.mean(dr.square(filtered - truth))))
    print(filtered[::5, ::5])

    # a profile through the middle, looked up at other places
    profile = Texture1f(
        TensorXf(filtered[SIZE // 2].array, (SIZE, 1)), wrap_mode=dr.WrapMode.Repeat
    )
    print("profile", profile.eval(dr.linspace(Float, -0.5, 1.5, 7))[0])

    opt = Adam(lr=0.05, params={"image": TensorXf(filtered.array, (SIZE, SIZE, 1))})
    for i in range(8):
        loss = dr.mean(dr.square(project(opt["image"]) - sinogram))
        dr.backward(loss)
        if i == 0:
            print("gradient", dr.norm(opt["image"].grad), opt["image"].grad[10, ::6, 0])
        opt.step()
        opt["image"] = dr.clip(opt["image"], 0, 1)
        if i % 3 == 0:
            print("loss", i, loss)
    print("refined", dr.sqrt(dr.mean(dr.square(opt["image"][:, :, 0] - truth))))
    return filtered


if __name__ == "__main__":
    main()

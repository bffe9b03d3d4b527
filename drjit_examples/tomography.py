"""Computed tomography: a slice of a head from its shadows.

Line integrals through a phantom (a loop of texture look-ups) give a sinogram; filtered
backprojection (Kak and Slaney, "Principles of Computerized Tomographic Imaging", chapter 3) turns
it into a picture again, and gradient steps through the projector refine that. The picture shows
phantom, sinogram, backprojection and the refined picture.
"""

import drjit as dr
from drjit.auto.ad import Array2f, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam
from drjit_examples.common import Options, Panel, Progress, start, write_panels

SIZE, ANGLES, BINS, STEPS = 256, 120, 320, 384
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


def main() -> None:
    global SIZE, ANGLES, BINS, STEPS
    options = Options(__doc__, output="tomography.png")
    options.number("--size", SIZE, "pixels along a side", low=8)
    options.number("--angles", ANGLES, "directions of rays", low=2)
    options.number("--iterations", 20, "steps of the refinement", low=0)
    arguments = options.parse()
    SIZE, ANGLES = arguments.size, arguments.angles
    BINS, STEPS = SIZE * 5 // 4, SIZE * 3 // 2

    image = phantom()
    sinogram = project(image)
    filtered = backproject(ramp(sinogram))
    opt = Adam(lr=0.02, params={"image": TensorXf(filtered.array, (SIZE, SIZE, 1))})
    for _ in Progress(arguments.iterations):
        loss = dr.mean(dr.square(project(opt["image"]) - sinogram))
        dr.backward(loss)
        opt.step()
        opt["image"] = dr.clip(opt["image"], 0, 1)
    truth = image[:, :, 0]
    refined = dr.detach(opt["image"])[:, :, 0]
    errors = [float(dr.sqrt(dr.mean(dr.square(p - truth))).array[0]) for p in (filtered, refined)]

    rays = sinogram.numpy().reshape(ANGLES, BINS)
    panels = [
        Panel("the head", truth.numpy(), high=0.5),
        Panel("its shadows: a row for each angle", rays, high=float(rays.max())),
        Panel(f"filtered backprojection: error {errors[0]:.3f}", filtered.numpy(), high=0.5),
        Panel(f"refined by gradients: error {errors[1]:.3f}", refined.numpy(), high=0.5),
    ]
    write_panels(arguments.output, panels, columns=2, size=max(SIZE * 3 // 2, 160))
    print(f"{arguments.output}: error {errors[0]:.3f}, refined {errors[1]:.3f}.")


if __name__ == "__main__":
    start(main)

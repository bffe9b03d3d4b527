"""A torus given by its signed distance, and the derivative of its picture.

The intersection is found by a loop that no derivative passes through; one more step of Newton's
method, outside of the loop, makes it depend on the shape. The second picture shows how each pixel
changes when the tube gets thicker (forward mode); the figure printed is the same derivative of the
mean of all pixels, found in reverse mode.
"""

import numpy as np

import drjit as dr
from drjit.auto.ad import Array3f, Bool, Float
from drjit_examples.common import Options, Panel, start, write_panels


def distance(p: Array3f, thickness: Float) -> Float:
    """The signed distance of a torus around the y axis."""
    ring = dr.sqrt(p.x * p.x + p.z * p.z) - 0.7
    return dr.sqrt(ring * ring + p.y * p.y) - thickness


@dr.syntax
def trace(origin: Array3f, direction: Array3f, thickness: Float) -> tuple[Float, Bool]:
    """How far a ray goes before it meets the surface, and whether it does."""
    thickness = dr.detach(thickness)
    t = Float(0)
    d = distance(origin, thickness)
    while (d > 1e-4) & (t < 6):
        t += d
        d = distance(origin + t * direction, thickness)
    return t, d <= 1e-4


def render(size: int, thickness: Float) -> Float:
    """The brightness of size x size pixels."""
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
    direction = dr.normalize(Array3f(x, y - 0.85, 1.6))
    origin = Array3f(0, 1.3, -2.2)
    t, hit = trace(origin, direction, thickness)

    # The normal is the gradient of the distance, here of the one at the central line of the tube.
    p = dr.detach(origin + t * direction)
    radius = dr.sqrt(p.x * p.x + p.z * p.z)
    normal = dr.normalize(Array3f(p.x - 0.7 * p.x / radius, p.y, p.z - 0.7 * p.z / radius))
    t = t - distance(origin + t * direction, thickness) / dr.dot(normal, direction)

    p = origin + t * direction
    radius = dr.sqrt(p.x * p.x + p.z * p.z)
    normal = dr.normalize(Array3f(p.x - 0.7 * p.x / radius, p.y, p.z - 0.7 * p.z / radius))
    light = dr.normalize(Array3f(-0.5, 1, -0.7))
    shade = 0.15 + 0.85 * dr.maximum(dr.dot(normal, light), 0)
    return dr.select(hit, shade, 0.05)


def main() -> None:
    options = Options(__doc__, output="sphere_tracing.png")
    options.number("--size", 512, "pixels along a side")
    arguments = options.parse()
    n = arguments.size

    thickness = Float(0.25)
    dr.enable_grad(thickness)
    picture = render(n, thickness)
    dr.set_grad(thickness, 1)
    change = dr.forward_to(picture)

    thickness = Float(0.25)
    dr.enable_grad(thickness)
    dr.backward(dr.mean(render(n, thickness)))
    mean = dr.grad(thickness)[0]

    shape, scale = (n, n), "change of brightness per radius"
    panels = [
        Panel("brightness", dr.detach(picture).numpy().reshape(shape)),
        Panel("if the tube gets thicker", change.numpy().reshape(shape), "RdBu_r", -3, 3, scale),
    ]
    write_panels(arguments.output, panels, columns=2, size=max(n, 240))
    forward = float(np.mean(change.numpy()))
    print(f"{arguments.output}. Derivative of the mean: forward {forward:.6f}, reverse {mean:.6f}")


if __name__ == "__main__":
    start(main)

"""Learns the density of a cloud from how much light it swallows; with three mistakes to be found."""

import drjit as dr
from drjit.auto.ad import Float, UInt32
from drjit.opt import Adam

RAYS, STEPS, TRAINING = 100_000, 16, 40


@dr.syntax
def thickness(x: Float, density: Float, edge: Float, detail: int) -> Float:
    """How thick the cloud is along rays: minus the logarithm of the light that is left."""
    depth, y, k = Float(0), Float(0), UInt32(0)
    while k < STEPS:
        water = Float(0)
        for octave in range(detail):
            water += dr.sin((x + y) * 2**octave) / 2**octave
        if water > edge:
            depth -= dr.log(1 - density * water / STEPS)
        y += 3 / STEPS
        k += 1
    return depth


def main() -> None:
    x = dr.linspace(Float, 2, 6, RAYS)
    measured = thickness(x, Float(10), Float(0.2), 4)
    dr.eval(measured)

    cloud = Adam(lr=0.1)
    cloud["density"], cloud["edge"] = Float(14), Float(0.5)
    for step in range(TRAINING):
        depth = thickness(x, cloud["density"], cloud["edge"], 1 + step // 10)
        loss = dr.mean(dr.square(depth - measured))
        dr.backward(loss)
        cloud.step()
        if step % 10 == 9:
            density, edge = cloud["density"], cloud["edge"]
            print(f"step {step + 1}: loss {loss[0]:.3f}, density {density[0]:.3f}, edge {edge[0]:.3f}")


if __name__ == "__main__":
    main()

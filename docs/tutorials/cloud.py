"""Learns the density of a cloud from how much light it swallows: with three mistakes to find."""

import drjit as dr
from drjit.auto.ad import Float, UInt32
from drjit.opt import Adam

RAYS, STEPS = 100_000, 16


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


def main(training: int = 40) -> None:
    x = dr.rng(seed=0).random(Float, RAYS) * 4 + 2
    measured = thickness(x, Float(10), Float(0.2), 4)
    dr.eval(x, measured)

    cloud = Adam(lr=0.1)
    cloud["density"], cloud["edge"] = Float(14), Float(0.5)
    for step in range(training):
        density, edge = cloud["density"], cloud["edge"]
        dr.set_label(density=density, edge=edge)
        depth = thickness(x, density, edge, min(1 + step // 10, 4))
        loss = dr.mean(dr.square(depth - measured))
        dr.backward(loss)
        dr.schedule(loss)
        cloud.step()
        if (step + 1) % (training // 4) == 0:
            found = f"density {density[0]:.3f}, edge {edge[0]:.3f}"
            print(f"step {step + 1}: loss {loss[0]:.3f}, {found}")


if __name__ == "__main__":
    main()

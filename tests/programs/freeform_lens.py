"""A lens with a freeform surface that makes a caustic: photons are refracted by a height field,
counted on a screen, and the surface is fitted so that light gathers where it should.
"""

import sys
from pathlib import Path

import drjit as dr

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import caustic as example
from caustic import Surface, photons, screen, target

from drjit.auto.ad import Float, TensorXf
from drjit.opt import Adam

example.RES, example.PHOTONS, example.SCREEN = RES, _, SCREEN = 9, 48, 16


def main() -> TensorXf:
    i, j = dr.meshgrid(dr.arange(Float, RES), dr.arange(Float, RES), indexing="ij")
    bumps = 0.03 * dr.cos(dr.two_pi * i / (RES - 1)) * dr.sin(dr.pi * j / (RES - 1))
    hits, passes, steps = photons(Surface(TensorXf(bumps, (RES, RES, 1))))
    print("newton", dr.sum(steps), dr.max(steps))
    print("hits", dr.mean(hits, axis=1), dr.count(passes))
    image = screen(hits, passes)
    print("caustic", dr.sum(image), dr.max(image))
    print(image[::5, ::5])

    goal = target()
    opt = Adam(lr=0.004, params={"height": TensorXf(0.2 * bumps, (RES, RES, 1))})
    for step in range(16):
        hits, passes, _ = photons(Surface(opt["height"]))
        image = screen(hits, passes)
        loss = dr.mean(dr.square(image - goal), axis=None)
        dr.backward(loss)
        if step == 0:
            print("gradient", opt["height"].grad[2, :, 0])
        opt.step()
        if step % 5 == 0:
            print("loss", step, loss)
    print("heights", opt["height"][4, :, 0])
    return image


if __name__ == "__main__":
    main()

"""A Cornell box lit by direct sampling of its lamp, and how its picture changes with the paint.

Walls, boxes and lamp are parallelograms kept in tables (gathered in the loop). Derivatives with
respect to the red wall's colour, in forward mode, are checked by a difference quotient.
"""

import sys
from pathlib import Path

import drjit as dr

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import cornell_box as example
from cornell_box import RED, ROWS, Quads, render

from drjit.auto.ad import Array3f, TensorXf, UInt

example.SIZE, example.SAMPLES, example.BOUNCES = SIZE, SAMPLES, _ = 24, 16, 4


def main() -> TensorXf:
    quads = Quads(ROWS)
    image = render(quads)
    picture = TensorXf(dr.ravel(image), (SIZE, SIZE, 3))
    print("mean", dr.mean(picture, axis=(0, 1)))
    print("rows", dr.mean(picture, axis=1)[::4])
    print("pixels", picture[12, ::4])

    # How the picture changes with the paint of the third wall, by colour.
    wall = Array3f(*RED)
    dr.enable_grad(wall)
    quads = Quads(ROWS)
    table = quads.color
    dr.scatter(table, wall, UInt(3))
    moving = render(quads)
    dr.forward_from(wall)
    change = moving.grad
    print("derivative", dr.mean(change, axis=1))
    step = 0.01
    ends: list[Array3f] = []
    for sign in (1, -1):
        quads = Quads(ROWS)
        dr.scatter(quads.color, Array3f(*RED) + sign * step, UInt(3))
        ends.append(render(quads))
    quotient = (ends[0] - ends[1]) / (2 * step)
    print("quotient", dr.mean(quotient, axis=1))
    return picture


if __name__ == "__main__":
    main()

"""A Cornell box lit by direct sampling of its lamp, and how its picture changes with the paint.

Walls, boxes and lamp are parallelograms kept in tables (gathered in the loop). Derivatives with
respect to the red wall's colour, in forward mode, are checked by a difference quotient.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import drjit as dr
from drjit.auto.ad import PCG32, Array2f, Array3f, Bool, Float, TensorXf, UInt

SIZE, SAMPLES, BOUNCES = 24, 16, 4
EPSILON = 1e-4


class Sampler:
    """A stream of numbers for every path."""

    DRJIT_STRUCT: ClassVar = {"rng": PCG32}

    def __init__(self, rng: PCG32 | None = None) -> None:
        self.rng = rng if rng is not None else PCG32()

    def next(self) -> Float:
        return self.rng.next_float32()

    def next_2d(self) -> Array2f:
        x = self.rng.next_float32()
        return Array2f(x, self.rng.next_float32())


# A corner, two edges, a colour and a radiance.
Row = Sequence[Sequence[float]]


class Quads:
    """Parallelograms: a corner and two edges each, a colour and a radiance."""

    def __init__(self, rows: list[Row]) -> None:
        self.count = len(rows)
        self.lamp = self.count - 1
        self.o, self.u, self.v, self.color = (
            Array3f(*(Float([row[k][i] for row in rows]) for i in range(3))) for k in range(4)
        )
        self.light = Float([row[4][0] for row in rows])


def box(
    center: Sequence[float], half: float, height: float, angle: float, color: Sequence[float]
) -> list[Row]:
    """The four sides and the top of a box that stands on the floor."""
    c, s = math.cos(angle) * half, math.sin(angle) * half
    a, b = (c, 0, s), (-s, 0, c)
    rows: list[Row] = []
    for p, q in ((a, b), (b, a), ((-c, 0, -s), b), ((s, 0, -c), a)):
        corner = tuple(center[i] + p[i] - q[i] for i in range(3))
        rows.append((corner, tuple(2 * e for e in q), (0, height, 0), color, (0,)))
    corner = (center[0] - a[0] - b[0], height, center[2] - a[2] - b[2])
    rows.append((corner, tuple(2 * e for e in a), tuple(2 * e for e in b), color, (0,)))
    return rows


WHITE, RED, GREEN = (0.73, 0.73, 0.73), (0.65, 0.05, 0.05), (0.12, 0.45, 0.15)
ROWS: list[Row] = [
    ((-1, 0, -1), (2, 0, 0), (0, 0, 2), WHITE, (0,)),
    ((-1, 2, -1), (2, 0, 0), (0, 0, 2), WHITE, (0,)),
    ((-1, 0, -1), (2, 0, 0), (0, 2, 0), WHITE, (0,)),
    ((-1, 0, -1), (0, 0, 2), (0, 2, 0), RED, (0,)),
    ((1, 0, -1), (0, 0, 2), (0, 2, 0), GREEN, (0,)),
    *box((-0.35, 0, -0.35), 0.28, 1.2, 0.3, WHITE),
    *box((0.35, 0, 0.3), 0.27, 0.55, -0.3, WHITE),
    ((-0.25, 1.98, -0.25), (0.5, 0, 0), (0, 0, 0.5), (0, 0, 0), (15,)),
]


@dr.syntax
def intersect(quads: Quads, o: Array3f, d: Array3f, far: Float | float) -> tuple[Float, UInt]:
    """The nearest quad on a ray, and the distance to it."""
    t, which, i = Float(far), UInt(0xFFFFFFFF), UInt(0)
    while dr.hint(i < quads.count, max_iterations=len(ROWS)):
        u, v = dr.gather(Array3f, quads.u, i), dr.gather(Array3f, quads.v, i)
        n = dr.cross(u, v)
        w = n / dr.squared_norm(n)
        s = dr.dot(n, dr.gather(Array3f, quads.o, i) - o) / dr.dot(n, d)
        q = o + s * d - dr.gather(Array3f, quads.o, i)
        a, b = dr.dot(w, dr.cross(q, v)), dr.dot(w, dr.cross(u, q))
        inside = (a >= 0) & (a <= 1) & (b >= 0) & (b <= 1)
        if inside & (s > EPSILON) & (s < t):
            t, which = s, UInt(i)
        i += 1
    return t, which


def frame(n: Array3f) -> tuple[Array3f, Array3f]:
    """Two vectors that make an orthonormal frame with n (Duff et al. 2017)."""
    sign = dr.copysign(1.0, n.z)
    a = -dr.rcp(sign + n.z)
    b = n.x * n.y * a
    return Array3f(1 + sign * dr.square(n.x) * a, sign * b, -sign * n.x), Array3f(
        b, sign + dr.square(n.y) * a, -n.y
    )


@dr.syntax
def trace(quads: Quads, o: Array3f, d: Array3f, sampler: Sampler) -> Array3f:
    """Radiance that arrives along a ray."""
    beta, result = Array3f(1), Array3f(0)
    depth, active = UInt(0), Bool(True)
    corner, eu, ev = (dr.gather(Array3f, x, UInt(quads.lamp)) for x in (quads.o, quads.u, quads.v))
    emitted = dr.gather(Float, quads.light, UInt(quads.lamp))
    lamp_n = dr.cross(eu, ev)
    area = dr.norm(lamp_n)
    while active:
        t, which = intersect(quads, o, d, dr.inf)
        active &= which != 0xFFFFFFFF
        n = dr.normalize(
            dr.cross(
                dr.gather(Array3f, quads.u, which, active),
                dr.gather(Array3f, quads.v, which, active),
            )
        )
        n = dr.mulsign(n, -dr.dot(n, d))
        color = dr.gather(Array3f, quads.color, which, active)
        light = dr.gather(Float, quads.light, which, active)
        if active & (depth == 0):
            result += light
        p = o + t * d

        # a point of the lamp
        e = sampler.next_2d()
        to = corner + e.x * eu + e.y * ev - p
        distance = dr.norm(to)
        w = to / distance
        cosines = dr.maximum(0, dr.dot(n, w)) * dr.maximum(0, -dr.dot(lamp_n, w)) / area
        _, blocker = intersect(quads, p, w, distance * (1 - 1e-3))
        visible = active & (blocker == 0xFFFFFFFF) & (cosines > 0)
        direct = color * emitted * cosines * area / (dr.pi * dr.square(distance))
        result[visible] = result + beta * direct

        # the next direction, by the cosine
        e = sampler.next_2d()
        r = dr.sqrt(e.x)
        s, c = dr.sincos(dr.two_pi * e.y)
        a, b = frame(n)
        o = Array3f(p)
        d = dr.normalize(a * (r * c) + b * (r * s) + n * dr.safe_sqrt(1 - e.x))
        beta *= color
        depth += 1
        active &= (depth < BOUNCES) & (light == 0)
    return result


def render(quads: Quads, seed: int = 0) -> Array3f:
    n = SIZE * SIZE * SAMPLES
    sampler = Sampler(PCG32(n, initstate=seed + 1))
    x, y = (dr.repeat(v, SAMPLES) for v in dr.meshgrid(*[dr.arange(UInt, SIZE)] * 2))
    p = (Array2f(x, y) + sampler.next_2d()) / SIZE - 0.5
    o = Array3f(0, 1, 3.4)
    d = dr.normalize(Array3f(p.x, -p.y, -1.15))
    return dr.block_reduce(dr.ReduceOp.Add, trace(quads, o, d, sampler), SAMPLES) / SAMPLES


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

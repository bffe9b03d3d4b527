"""A jelly is thrown so that it bounces into a ring: gradients through a simulation.

How it is thrown, i.e. its first velocity and spin, is found by gradient descent through all steps
of the simulation. Both that of some steps and its derivative are frozen functions, which are traced
once: the second one repeats what the first one did from a state that was kept, and takes the
gradient of the state after it to that of the state before it. The pictures are exposed several
times: the first throw, and the one that was found.
"""

from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Float, TensorXf, UInt
from drjit.opt import Adam
from drjit_examples.common import Options, Panel, Progress, start, write_panels

SPACING, RADIUS = 0.022, 0.17
STIFFNESS, DAMPING, GRAVITY = 3e4, 4.0, 9.8
SUBSTEPS, DT, SECONDS = 8, 1 / 1200, 1.1
START, RING = Array2f(0.35, 1.05), Array2f(2.5, 0.75)


@dataclass
class Body:
    """Masses in a disk, and the numbers and distances of the neighbours of each."""

    rest: Array2f
    neighbours: list[UInt]
    lengths: list[Float]


@dataclass
class State:
    x: Array2f
    v: Array2f


def disk() -> Body:
    """Masses on a lattice of triangles, with springs to all that are near."""
    n = round(1.3 * RADIUS / SPACING)
    j, i = np.mgrid[-n : n + 1, -n : n + 1]
    p = np.stack([(i + 0.5 * (j % 2)) * SPACING, j * SPACING * 0.75**0.5], axis=-1).reshape(-1, 2)
    p = p[np.linalg.norm(p, axis=1) < RADIUS]
    distance = np.linalg.norm(p[:, None] - p[None], axis=2)
    # The nearest is the mass itself; those further than some two others are not joined.
    order = np.argsort(distance, axis=1)[:, 1:19]
    lengths = np.take_along_axis(distance, order, axis=1)
    lengths[lengths > 2.1 * SPACING] = np.inf
    return Body(Array2f(p.T), [UInt(row) for row in order.T], [Float(row) for row in lengths.T])


def forces(body: Body, s: State) -> Array2f:
    """The acceleration of every mass: springs, weight, and the floor."""
    a = Array2f(0, -GRAVITY)
    for j, length in zip(body.neighbours, body.lengths, strict=True):
        d = dr.gather(Array2f, s.x, j) - s.x
        slip = dr.gather(Array2f, s.v, j) - s.v
        direction = d / dr.norm(d)
        pull = STIFFNESS * (dr.norm(d) - length) + DAMPING * dr.dot(slip, direction)
        a += dr.select(length < dr.inf, pull, 0) * direction
    depth = dr.maximum(-s.x.y, 0)
    touches = depth > 0
    floor = Array2f(dr.select(touches, -6 * s.v.x, 0), 8e3 * depth)
    return a + floor


def advance(body: Body, s: State) -> State:
    """Some steps of the simulation."""
    for _ in range(SUBSTEPS):
        v = s.v + DT * forces(body, s)
        s = State(s.x + DT * v, v)
        dr.eval(s)
    return s


@dr.freeze
def forward(body: Body, s: State) -> State:
    return advance(body, s)


@dr.freeze
def backward(body: Body, s: State, gradient: State) -> State:
    """The gradient of a state by that of the one after it."""
    before = State(Array2f(s.x), Array2f(s.v))
    dr.enable_grad(before)
    after = advance(body, before)
    dr.backward(dr.dot(after.x, gradient.x) + dr.dot(after.v, gradient.v))
    return State(dr.detach(before.x.grad), dr.detach(before.v.grad))


def thrown(body: Body, velocity: Array2f, spin: Float) -> State:
    """How the body leaves the hand."""
    return State(body.rest + START, velocity + spin * Array2f(-body.rest.y, body.rest.x))


def simulate(body: Body, state: State) -> list[State]:
    """The states between steps."""
    states = [State(dr.detach(state.x), dr.detach(state.v))]
    for _ in range(round(SECONDS / DT / SUBSTEPS)):
        states.append(forward(body, states[-1]))
    return states


def miss(state: State) -> Float:
    """The mean square distance of masses from the centre of the ring."""
    return dr.mean(dr.squared_norm(state.x - RING))


def descend(body: Body, throw: Adam) -> list[State]:
    """One step of gradient descent. Returns the states of the simulation."""
    initial = thrown(body, throw["velocity"], throw["spin"])
    states = simulate(body, initial)
    last = State(Array2f(states[-1].x), Array2f(states[-1].v))
    dr.enable_grad(last)
    dr.backward(miss(last))
    gradient = State(last.x.grad, last.v.grad)
    for state in states[-2::-1]:
        gradient = backward(body, state, gradient)
    dr.backward(dr.dot(initial.v, gradient.v))
    throw.step()
    return states


@dr.syntax
def gap(p: Array2f, x: Array2f) -> Float:
    """How far points are from the nearest mass."""
    squared, k = Float(dr.inf), UInt(0)
    while k < dr.width(x):
        squared = dr.minimum(squared, dr.squared_norm(p - dr.gather(Array2f, x, k)))
        k += 1
    return dr.sqrt(squared)


def expose(states: list[State], height: int) -> np.ndarray:
    """A picture with the body at several times, from blue to red, and the ring."""
    width = 2 * height
    i, j = dr.meshgrid(dr.arange(Float, width) + 0.5, dr.arange(Float, height) + 0.5)
    scale = 1.56 / height
    p = Array2f(i, height - j) * scale - Array2f(0.1, 0.1)
    sharp = 1 / scale
    sky = dr.lerp(Array3f(0.97, 0.96, 0.93), Array3f(0.82, 0.87, 0.93), dr.clip(p.y / 1.5, 0, 1))
    light = dr.select(p.y < 0, Array3f(0.3, 0.31, 0.34), sky)
    times = 13
    for k in range(times):
        t = k / (times - 1)
        x = states[round(t * (len(states) - 1))].x
        colour = Array3f(0.15 + 0.75 * t, 0.45 - 0.2 * t, 0.8 - 0.65 * t)
        inside = 0.7 * SPACING - gap(p, x)
        rim = dr.clip(1 - inside * 0.35 * sharp, 0, 1)
        cover = dr.clip(inside * sharp + 0.5, 0, 1) * (0.5 + 0.5 * t)
        light = dr.lerp(light, colour * (1 - 0.45 * rim), cover)
        dr.eval(light)
    ring = 0.02 - dr.abs(dr.norm(p - RING) - RADIUS - 0.05)
    light = dr.lerp(light, Array3f(0.1, 0.1, 0.12), dr.clip(ring * sharp + 0.5, 0, 1))
    return dr.reshape(TensorXf(light, flip_axes=True), (height, width, 3)).numpy()


def main() -> None:
    options = Options(__doc__, output="soft_body.png")
    options.number("--iterations", 40, "throws")
    options.number("--size", 400, "rows of each picture, which are twice as wide")
    arguments = options.parse()

    body = disk()
    throw = Adam(lr=0.12, params={"velocity": Array2f(1.6, -1.0), "spin": Float(0)})
    first: list[State] = []
    states: list[State] = []
    progress = Progress(arguments.iterations, "throw")
    for k in progress:
        states = descend(body, throw)
        first = first or states
        progress.show(miss=f"{dr.norm(dr.mean(states[-1].x, axis=1) - RING)[0]:.3f}")
        throw.set_learning_rate(0.12 * 0.2 ** (k / arguments.iterations))
    panels = [
        Panel("the first throw", expose(first, arguments.size)),
        Panel(
            f"throw {progress.done}, found through the simulation", expose(states, arguments.size)
        ),
    ]
    write_panels(arguments.output, panels, columns=1, size=max(2 * arguments.size, 240))
    (x, y), spin = throw["velocity"].numpy()[:, 0], throw["spin"][0]
    distance = dr.norm(dr.mean(states[-1].x, axis=1) - RING)[0]
    print(
        f"{arguments.output}: velocity {x:.2f}, {y:.2f}, spin {spin:.2f}; "
        f"{distance:.3f} from the centre of the ring."
    )


if __name__ == "__main__":
    start(main)

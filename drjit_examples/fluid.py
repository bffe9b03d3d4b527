"""100,000 particles of water: a dam breaks, a drop falls; as an animation.

Particles carry velocities, a grid keeps them free of divergence: the FLIP method (Zhu and Bridson,
"Animating Sand as a Fluid", 2005). A step scatters velocities to the faces of cells, solves for
the pressure by conjugate gradients, and gathers what has changed. It is a frozen function, which is
traced once: every further step only launches its kernels.
"""

from dataclasses import dataclass

import numpy as np

import drjit as dr
from drjit.auto import Array2f, Array3f, Bool, Float, TensorXf, UInt
from drjit_examples.common import Options, Progress, start, write

PER_CELL = 4  # particles in a cell of water at rest
FLIP = 0.97  # how much of a velocity is kept, and changed; the rest is replaced by the grid's
GRAVITY = 9.8  # heights of the basin, per second squared
ITERATIONS = 30
SUBSTEPS = 6  # between two pictures
FACES = (Array2f(0, 0.5), Array2f(0.5, 0))  # where in a cell velocities along x and y are


@dataclass
class Fluid:
    """Positions and velocities of particles, in cells and cells a second, and the pressure."""

    x: Array2f
    v: Array2f
    pressure: Float


@dataclass(frozen=True)
class Grid:
    """width x height cells, of which those at the border are walls."""

    width: int
    height: int

    def __len__(self) -> int:
        return self.width * self.height

    def cells(self) -> tuple[UInt, UInt]:
        index = dr.arange(UInt, len(self))
        return index % self.width, index // self.width

    def index(self, p: Array2f) -> UInt:
        return UInt(p.y) * self.width + UInt(p.x)

    def corners(self, p: Array2f) -> list[tuple[UInt, Float]]:
        """The entries around a point, and their bilinear weights."""
        low = dr.floor(p)
        f = p - low
        first = self.index(low)
        return [
            (first + dy * self.width + dx, (f.x if dx else 1 - f.x) * (f.y if dy else 1 - f.y))
            for dy in (0, 1)
            for dx in (0, 1)
        ]

    def sample(self, values: Float, p: Array2f) -> Float:
        return sum((w * dr.gather(Float, values, i) for i, w in self.corners(p)), Float(0))

    def neighbours(self, values: Float, index: UInt) -> list[Float]:
        """Left, right, below, above."""
        return [
            dr.gather(Float, values, index + UInt(offset & 0xFFFFFFFF))
            for offset in (-1, 1, -self.width, self.width)
        ]


def to_faces(grid: Grid, fluid: Fluid) -> list[Float]:
    """Velocities at the faces of cells: the mean of those of particles nearby."""
    found: list[Float] = []
    for axis, offset in enumerate(FACES):
        total, weight = dr.zeros(Float, len(grid)), dr.zeros(Float, len(grid))
        for index, w in grid.corners(fluid.x - offset):
            dr.scatter_add(total, w * fluid.v[axis], index)
            dr.scatter_add(weight, w, index)
        found.append(total / dr.maximum(weight, 1e-6))
    return found


def solve(grid: Grid, water: Bool, goal: Float, pressure: Float) -> Float:
    """Conjugate gradients for the pressure whose Laplacian is given; it is zero in the air, and
    has no slope at walls. Begins with the pressure of the step before."""
    x, y = grid.cells()
    inside = [x > 1, x < grid.width - 2, y > 1, y < grid.height - 2]
    index = dr.select(water, dr.arange(UInt, len(grid)), grid.width + 1)

    def laplacian(p: Float) -> Float:
        total = Float(0)
        for near, open_ in zip(grid.neighbours(p, index), inside, strict=True):
            total += dr.select(open_, p - near, 0)
        return dr.select(water, total, 0)

    def improve(p: Float, residual: Float, direction: Float, before: Float) -> tuple[Float, ...]:
        image = laplacian(direction)
        step = before / dr.maximum(dr.sum(direction * image), 1e-9)
        residual = residual - step * image
        squared = dr.sum(dr.square(residual))
        ahead = residual + squared / dr.maximum(before, 1e-9) * direction
        return p + step * direction, residual, ahead, squared

    pressure = dr.select(water, pressure, 0)
    dr.eval(pressure)
    residual = dr.select(water, goal, 0) - laplacian(pressure)
    state = pressure, residual, Float(residual), dr.sum(dr.square(residual))
    for _ in range(ITERATIONS):
        dr.eval(state)
        state = improve(*state)
    return state[0]


@dr.freeze
def step(grid: Grid, fluid: Fluid, dt: Float) -> Fluid:
    """Moves everything on."""
    x, y = grid.cells()
    old = to_faces(grid, fluid)
    density = dr.zeros(Float, len(grid))
    for index, w in grid.corners(fluid.x - 0.5):
        dr.scatter_add(density, w, index)
    count = dr.zeros(UInt, len(grid))
    dr.scatter_add(count, UInt(1), grid.index(fluid.x))
    water = count > 0
    dr.eval(old, density, water)

    # Nothing passes through the walls.
    free = [(x > 1) & (x < grid.width - 1), (y > 1) & (y < grid.height - 1)]
    new = [
        dr.select(free[0], old[0], 0),
        dr.select(free[1], old[1] - GRAVITY * grid.height * dt, 0),
    ]
    dr.eval(new)
    index = dr.minimum(dr.arange(UInt, len(grid)), len(grid) - grid.width - 1)
    divergence = (
        dr.gather(Float, new[0], index + 1) - new[0] + dr.gather(Float, new[1], index + grid.width)
    ) - new[1]
    # Where particles have come too close to each other, the pressure drives them apart.
    crowded = dr.maximum(density / PER_CELL - 1, 0)
    pressure = solve(grid, water, 0.5 * crowded / dt * 0.2 - divergence, fluid.pressure)
    dr.eval(pressure)
    index = dr.maximum(dr.arange(UInt, len(grid)), grid.width)
    for axis, back in enumerate((1, grid.width)):
        slope = pressure - dr.gather(Float, pressure, index - back)
        new[axis] = dr.select(free[axis], new[axis] - slope, 0)
    change = [b - a for a, b in zip(old, new, strict=True)]
    dr.eval(new, change)

    v = Array2f(0)
    for axis, offset in enumerate(FACES):
        p = fluid.x - offset
        kept = fluid.v[axis] + grid.sample(change[axis], p)
        v[axis] = dr.lerp(grid.sample(new[axis], p), kept, FLIP)
    moved = fluid.x + dt * v
    moved = dr.clip(moved, 1.001, Array2f(grid.width - 1.001, grid.height - 1.001))
    return Fluid(moved, v, pressure)


def fill(count: int) -> tuple[Grid, Fluid]:
    """A column of water at the left, and a drop in the air."""
    height = max(8, round((count / PER_CELL / 0.667) ** 0.5) + 2)
    grid = Grid(2 * height, height)
    i, j = dr.meshgrid(*[dr.arange(Float, 2 * n - 4) for n in (grid.width, grid.height)])
    jitter = dr.rng(seed=0).random(Array2f, (2, dr.width(i)))
    x = 1 + (Array2f(i, j) + jitter) / PER_CELL**0.5
    p = (x - 1) / (height - 2)
    drop = dr.norm(p - Array2f(1.45, 0.7)) < 0.17
    chosen = dr.compress((p.x < 0.72) & (p.y < 0.8) | drop)
    x = dr.gather(Array2f, x, chosen)
    return grid, Fluid(x, dr.zeros(Array2f, dr.width(x)), dr.zeros(Float, len(grid)))


def draw(grid: Grid, fluid: Fluid, zoom: int) -> np.ndarray:
    """Particles on black: blue where they are slow, white where they are fast."""
    shown = Grid(grid.width * zoom, grid.height * zoom)
    speed = dr.norm(fluid.v) / (1.7 * grid.height)
    colour = dr.lerp(Array3f(0.005, 0.05, 0.25), Array3f(0.02, 0.35, 0.6), dr.minimum(speed, 1))
    colour = dr.lerp(colour, Array3f(0.9, 1, 1), dr.clip(speed - 0.8, 0, 1))
    light, weight = dr.zeros(Array3f, len(shown)), dr.zeros(Float, len(shown))
    for index, w in shown.corners(fluid.x * zoom - 1):
        for shift in (0, 1, shown.width, shown.width + 1):
            dr.scatter_add(light, w * colour, index + shift)
            dr.scatter_add(weight, w, index + shift)
    density = weight * (zoom * zoom / PER_CELL / 4)
    light *= (1 - dr.exp(-3 * density)) / dr.maximum(weight, 1e-6)
    pixels = dr.reshape(TensorXf(light, flip_axes=True), (shown.height, shown.width, 3))
    return dr.linear_to_srgb(pixels).numpy()[-zoom - 1 : zoom - 1 : -1, zoom:-zoom]


def main() -> None:
    options = Options(__doc__, output="fluid.gif")
    options.number("--particles", 100_000, "how many particles", low=100)
    options.number("--frames", 100, "pictures of the animation, 40 for a second")
    options.number("--zoom", 2, "pixels along a side of a cell")
    arguments = options.parse()

    grid, fluid = fill(arguments.particles)
    frames: list[np.ndarray] = []
    for _ in Progress(arguments.frames, "frame"):
        frames.append(draw(grid, fluid, arguments.zoom))
        for _ in range(SUBSTEPS):
            fluid = step(grid, fluid, Float(0.025 / SUBSTEPS))
    write(arguments.output, np.stack(frames), duration=33, loop=0)
    print(f"{arguments.output}: {dr.width(fluid.x)} particles, {len(frames)} pictures.")


if __name__ == "__main__":
    start(main)

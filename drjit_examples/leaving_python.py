"""Functions that leave Python: object files, for programs in C and C++.

The folder gets a network that has learnt the portrait, a torus with the derivative of its picture,
and a frame of a flight into the Mandelbrot set, each as an object file and a header, and beside
them the programs in drjit_examples/native that use these. They are compiled and run if this machine
has a compiler: one draws the portrait, one finds out how thick a torus is, and one makes a film.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import drjit as dr
from drjit import auto, nn
from drjit.auto.ad import Array2f, Array3f, Float, Texture2f, UInt8
from drjit.opt import Adam
from drjit_examples import neural_field
from drjit_examples.common import PORTRAIT, Options, Progress, start
from drjit_examples.mandelbrot import escape_time
from drjit_examples.sphere_tracing import render

SOURCES = Path(__file__).parent / "native"
SIZE = 128  # of pictures of the torus
ROUNDS = 100  # of the iteration, at most


def learn(iterations: int) -> nn.Module:
    """A network that has learnt the portrait, as neural_field.py trains it."""
    image = Texture2f(neural_field.load(str(PORTRAIT)))
    rng = dr.rng(seed=0)
    net, _ = neural_field.make_network("sin", False, rng)
    opt = Adam(lr=neural_field.RATE)
    opt.update(net)
    for _ in Progress(iterations):
        net.update(opt)
        p = neural_field.positions(rng.random(Array2f, (2, neural_field.GRID**2)))
        found = Array3f(net(nn.CoopVec(p)))
        dr.backward(dr.squared_norm(image.eval(p) - found))
        opt.step()
    net.update(opt)
    return net


def export_field(net: nn.Module, folder: Path) -> Callable[..., dict[str, UInt8]]:
    @dr.freeze
    def colour(x: Float, y: Float) -> dict[str, UInt8]:
        found = Array3f(net(nn.CoopVec(Array2f(x, y))))
        red, green, blue = (UInt8(255 * dr.clip(dr.detach(c), 0, 1)) for c in found)
        return {"red": red, "green": green, "blue": blue}

    for n in (1000, 3000):  # two sizes, so that it may be any
        colour(dr.zeros(Float, n) + dr.opaque(Float, 0.5), dr.linspace(Float, 0, 1, n))
    dr.export(colour, folder / "colour.o")
    return colour


def export_torus(folder: Path) -> tuple[Callable[..., Float], Callable[..., Float]]:
    @dr.freeze
    def view(thickness: Float) -> Float:
        return render(SIZE, thickness)

    @dr.freeze
    def mismatch(thickness: Float, wanted: Float) -> Float:
        dr.enable_grad(thickness)
        loss = dr.mean(dr.square(render(SIZE, thickness) - wanted))
        dr.backward(loss)  # the program finds the derivative in thickness_grad
        return dr.detach(loss)

    mismatch(dr.opaque(Float, 0.2), view(dr.opaque(Float, 0.25)))
    dr.export(view, folder / "view.o")
    dr.export(mismatch, folder / "mismatch.o")
    return view, mismatch


def export_frame(folder: Path) -> Callable[..., auto.UInt8]:
    @dr.freeze
    def frame(
        x: auto.Float, y: auto.Float, re: auto.Float, im: auto.Float, scale: auto.Float
    ) -> auto.UInt8:
        rounds = escape_time(auto.Complex2f(re + scale * x, im + scale * y), ROUNDS)
        return auto.UInt8(127.5 - 127.5 * dr.cos(dr.sqrt(rounds)))

    for n in (1000, 3000):
        x, y = dr.linspace(auto.Float, -1, 1, n), dr.linspace(auto.Float, 0, 1, n)
        frame(x, y, *[dr.opaque(auto.Float, k) for k in (0, 0, 1)])  # each an array of its own
    dr.export(frame, folder / "frame.o")
    return frame


PROGRAMS: dict[str, tuple[list[str], list[str]]] = {
    "field.c": (["colour.o"], []),
    "fit.cpp": (["view.o", "mismatch.o"], []),
    "zoom.c": (["frame.o"], ["60"]),
}
"""The object files that each program needs, and what it is run with."""


def run(source: str, folder: Path, *given: str) -> bool:
    """Compiles a program and runs it in the folder; returns whether there is a compiler."""
    compiler = shutil.which("cc" if source.endswith(".c") else "c++")
    if compiler is None:
        return False
    name = source.partition(".")[0]
    # Products and sums are not fused, so that programs compute the same everywhere.
    command = [compiler, "-O2", "-ffp-contract=off", source, *PROGRAMS[source][0], "-o", name]
    subprocess.run([*command, "-lm", "-lpthread"], cwd=folder, check=True)
    subprocess.run([folder.resolve() / name, *given], cwd=folder, check=True)
    return True


def main() -> None:
    options = Options(__doc__)
    options.add_argument("--folder", type=Path, default=Path("native"), help="what to write to")
    options.number("--iterations", 200, "steps of the training")
    arguments = options.parse()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    export_field(learn(arguments.iterations), folder)
    export_torus(folder)
    export_frame(folder)
    for source in (*PROGRAMS, "CMakeLists.txt"):
        shutil.copy(SOURCES / source, folder)
    for source, (_, given) in PROGRAMS.items():
        if not run(source, folder, *given):
            print(f"{folder / source}: there is no compiler to try it.")


if __name__ == "__main__":
    start(main)

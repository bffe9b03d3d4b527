"""Programs to try, to read and to copy. `python -m drjit demo` lists them and runs one."""

import ast
import runpy
import sys
from pathlib import Path

SECONDS: dict[str, int] = {
    "fresnel": 1,
    "mandelbrot": 2,
    "newton_fractal": 2,
    "sphere_tracing": 2,
    "path_tracing": 29,
    "cornell_box": 35,
    "caustic": 24,
    "texture_filtering": 7,
    "tomography": 6,
    "fluid": 28,
    "reaction_diffusion": 7,
    "soft_body": 67,
    "orbit_fit": 4,
    "small_network": 2,
    "picture_hash_grid": 12,
    "neural_field": 13,
    "torch_field": 15,
    "neural_shape": 24,
    "gaussian_splatting": 37,
    "distributed_field": 5,
    "leaving_python": 20,
}
"""The examples, and how long each takes on two cores with what is preset, compilation included."""

NEEDED = ("imageio", "matplotlib", "tqdm")
"""Packages that examples import, and that the package itself does not require."""


def path(name: str) -> Path:
    """Returns the file of an example."""
    return Path(__file__).parent / f"{name}.py"


def summary(name: str) -> str:
    """Returns the first sentence of an example's docstring."""
    text = ast.get_docstring(ast.parse(path(name).read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def run(name: str, options: list[str]) -> None:
    """Runs an example as the program that it is, with the options of a command line."""
    sys.argv = [f"python -m drjit demo {name}", *options]
    runpy.run_module(f"drjit_examples.{name}", run_name="__main__")

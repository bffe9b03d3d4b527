"""Every example runs without a display, and prints what it should."""

import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import nursery
import pytest

EXAMPLES = Path(__file__).parents[2] / "drjit" / "examples"


def run(name: str, *arguments: str, status: int = 0) -> str:
    done = nursery.run(
        EXAMPLES / name,
        *arguments,
        environment={"MPLBACKEND": "Agg"},
        imports=("imageio.v3", "matplotlib.backends.backend_agg", "matplotlib.pyplot", "tqdm.auto"),
        strict=True,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


# What makes each example short, what it prints, and whether it writes a picture.
SHORT = {
    "mandelbrot.py": (["--size", "64"], r"64 x 64, 1\d\.\d% inside", True),
    "newton_fractal.py": (["--size", "48"], r"48 x 48, [78]\.\d steps on average", True),
    "sphere_tracing.py": (["--size", "32"], r"forward 0\.\d+, reverse 0\.\d+", True),
    "caustic.py": (["--iterations", "3"], r"error [01]\.\d+ after 3 steps", True),
    "cornell_box.py": (
        ["--size", "24", "--samples", "4"],
        r"4 paths a pixel; derivative 0\.",
        True,
    ),
    "fluid.py": (["--side", "8", "--steps", "8"], r"32 particles, mean density [1-9]", True),
    "reaction_diffusion.py": (["--size", "32", "--steps", "9"], r"1 recording, mean 0\.[12]", True),
    "tomography.py": (["--size", "32", "--angles", "12"], r"error 0\.1\d+, refined 0\.0", True),
    "path_tracing.py": (["--size", "32", "--samples", "4"], r"32 x 32, 4 paths", True),
    "neural_shape.py": (
        ["--size", "32", "--iterations", "80"],
        r"32 x 32; \d+% of the rays",
        True,
    ),
    "picture_network.py": (["--iterations", "3"], r"Linear\(in_features=64, out_features=3", True),
    "picture_hash_grid.py": (["--iterations", "3"], r"HashGrid", True),
    "texture_filtering.py": (
        ["--iterations", "4", "--size", "48"],
        r"Standard : error 0\.\d+ -> 0\.\d+\nLaplacian: error 0\.\d+ -> 0\.\d+",
        True,
    ),
    "orbit_fit.py": (
        ["--iterations", "300", "--observations", "100"],
        r"eccentricity 0\.40, axis 1\.10, start 0\.15; error 0\.000",
        False,
    ),
    "small_network.py": (["--iterations", "60"], r"step 59: mean square error 0\.0", False),
}
OTHERS = {"fresnel.py", "neural_field.py", "distributed_field.py"}  # see test_distributed.py


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHORT) | OTHERS


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name, tmp_path):
    arguments, printed, picture = SHORT[name]
    output = tmp_path / "picture.png"
    text = run(name, *arguments, *(["--output", str(output)] if picture else []))
    assert re.search(printed, text), text
    if picture:
        pixels = iio.imread(output)
        assert pixels.ndim == 3 and pixels.std() > 5


def test_both_directions_give_the_derivative_of_the_picture(tmp_path):
    text = run("sphere_tracing.py", "--size", "48", "--output", str(tmp_path / "picture.png"))
    forward, reverse = map(float, re.search(r"forward (\S+), reverse (\S+)", text).groups())
    assert forward == pytest.approx(reverse, rel=1e-4)
    assert forward > 0.1


@pytest.mark.parametrize(
    ("encoding", "precision"),
    [
        ("tri", "half"),  # test_training.py trains with others
        *(
            pytest.param(*other, marks=pytest.mark.sweep)
            for other in [
                ("tri", "single"),
                ("sin", "half"),
                ("sin", "single"),
                ("hash", "half"),
                ("hash", "single"),
                ("permuto", "half"),
                ("permuto", "single"),
            ]
        ),
    ],
)
def test_the_neural_field_learns_a_picture(encoding, precision, tmp_path):
    source, output = tmp_path / "source.png", tmp_path / "field.png"
    x, y = np.meshgrid(np.linspace(0, 1, 32), np.linspace(0, 1, 32))
    picture = np.stack([0.2 + 0.6 * x, 0.2 + 0.6 * y, 0.5 + 0 * x], axis=2)
    iio.imwrite(source, (picture * 255).astype(np.uint8))
    steps = "30" if encoding in ("tri", "sin") else "60"  # features begin near zero
    options = ["--iterations", steps, "--precision", precision, "--encoding", encoding]
    text = run("neural_field.py", str(source), *options, "--output", str(output))
    assert float(re.search(r"PSNR (\S+) dB", text)[1]) > 12
    assert iio.imread(output).shape == (32, 64, 3)


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("grey.png", (6, 7), np.uint8),
        ("grey_opacity.png", (6, 7, 2), np.uint8),
        ("opacity.png", (6, 7, 4), np.uint8),
        ("deep.png", (6, 7), np.uint16),
        ("frames.gif", (3, 6, 7, 3), np.uint8),
        ("point.png", (1, 1, 3), np.uint8),
    ],
)
def test_the_neural_field_takes_images_of_all_kinds(name, shape, dtype, tmp_path):
    most = np.iinfo(dtype).max
    iio.imwrite(tmp_path / name, np.full(shape, most, dtype))
    found = np.array(runpy.run_path(str(EXAMPLES / "neural_field.py"))["load"](tmp_path / name))
    assert found.shape == ((1, 1, 3) if name == "point.png" else (6, 7, 3))
    np.testing.assert_array_equal(found, 1)


def test_the_neural_field_says_what_is_wrong_before_it_starts(tmp_path):
    text = tmp_path / "text.png"
    text.write_text("no image")
    assert "cannot be read as an image" in run("neural_field.py", str(text), status=1)
    assert "cannot be read as an image" in run("neural_field.py", "missing.png", status=1)
    nowhere = str(tmp_path / "missing" / "field.png")
    assert "cannot be written" in run("neural_field.py", "--output", nowhere, status=1)
    assert "cannot be written" in run("neural_field.py", "--output", str(tmp_path), status=1)


def test_ctrl_c_writes_what_was_learnt(tmp_path):
    output = tmp_path / "field.png"
    command = [sys.executable, EXAMPLES / "neural_field.py", "--iterations", "1000000"]
    running = subprocess.Popen(
        [*command, "--output", str(output)], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    # The progress bar, which ends its lines with a carriage return, says that training is on.
    seen = b""
    while b"PSNR" not in seen:
        seen += running.stderr.read(1)
    running.send_signal(signal.SIGINT)
    printed, _ = running.communicate(timeout=120)
    assert running.returncode == 0
    assert b"PSNR" in printed
    assert iio.imread(output).shape == (600, 1024, 3)


def test_fresnel_prints_its_kernel_and_the_integral():
    *kernel, value = run("fresnel.py").splitlines()
    assert "def kernel(i, p):" in kernel
    assert any(re.fullmatch(r"    \w+ = sin\(\w+\)(  #.*)?", line) for line in kernel)
    x = np.linspace(0, 1, 1_000_000)
    assert float(value.strip("[]")) == pytest.approx(np.sin(x * x).mean(), rel=1e-5)

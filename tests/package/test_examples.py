"""Every example runs without a display, and prints what it should."""

import importlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import nursery
import pytest

import drjit_examples
from drjit.__main__ import main
from drjit_examples import common, neural_field

EXAMPLES = Path(drjit_examples.__file__).parent


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


# What makes each example short, what it prints, and the picture that it writes.
SHORT = {
    "mandelbrot": (["--size", "64"], r"64 x 64, 1\d\.\d% inside", "png"),
    "newton_fractal": (["--size", "48"], r"48 x 48, [78]\.\d steps on average", "png"),
    "sphere_tracing": (["--size", "32"], r"forward 0\.\d+, reverse 0\.\d+", "png"),
    "caustic": (["--size", "32", "--iterations", "3"], r"error 0\.\d+, that of a flat", "png"),
    "cornell_box": (
        ["--size", "24", "--samples", "20"],
        r"20 paths a pixel; derivatives from -0\.\d+ to 0\.\d",
        "png",
    ),
    "fluid": (["--particles", "500", "--frames", "3"], r"\d\d\d particles, 3 pictures", "gif"),
    "reaction_diffusion": (["--size", "32", "--steps", "9"], r"1 recording, mean 0\.[12]", "png"),
    "tomography": (
        ["--size", "32", "--angles", "12"],
        r"error 0\.1\d+, refined 0\.0",
        "png",
    ),
    "path_tracing": (["--size", "24", "--samples", "20"], r"36 x 24, 20 paths", "png"),
    "neural_shape": (
        ["--size", "24", "--iterations", "9", "--points", "999"],
        r"24 x 24; mean error",
        "png",
    ),
    "gaussian_splatting": (
        ["--gaussians", "60", "--size", "24", "--iterations", "3"],
        r"60 Gaussians; mean error 0\.[12]",
        "png",
    ),
    "picture_hash_grid": (["--iterations", "3"], r"HashGrid", "png"),
    "texture_filtering": (
        ["--iterations", "4", "--size", "48"],
        r"Standard : error 0\.\d+ -> 0\.\d+\nLaplacian: error 0\.\d+ -> 0\.\d+",
        "png",
    ),
    "soft_body": (["--iterations", "1", "--size", "24"], r"0\.7\d+ from the centre", "png"),
    "orbit_fit": (
        ["--iterations", "300", "--observations", "100"],
        r"eccentricity 0\.40, axis 1\.10, start 0\.15; error 0\.000",
        None,
    ),
    "small_network": (["--iterations", "60"], r"60 steps: mean square error 0\.0", None),
}
# The last ones need PyTorch or a compiler: see test_distributed.py, test_torch_modules.py and
# test_export_object.py.
OTHERS = {"fresnel", "neural_field", "distributed_field", "torch_field", "leaving_python"}
LISTED = drjit_examples.SECONDS
NUMBERS = re.compile(r"^  (--[a-z]+) N ", re.MULTILINE)


def test_every_example_is_listed_and_tested():
    files = {path.stem for path in EXAMPLES.glob("*.py")} - {"__init__", "common"}
    assert files == set(SHORT) | OTHERS == set(drjit_examples.SECONDS)


def test_the_readme_lists_them_with_their_lengths():
    readme = (EXAMPLES.parent / "README.md").read_text()
    lengths = {name: len((EXAMPLES / f"{name}.py").read_text().splitlines()) for name in LISTED}
    assert all(f"[{name}](drjit_examples/{name}.py)" in readme for name in LISTED)
    assert f"which have {min(lengths.values())} to {max(lengths.values())} lines" in readme
    assert f"training loop of {lengths['small_network']} lines" in " ".join(readme.split())


@pytest.mark.parametrize("name", SHORT)
def test_an_example_runs(name, tmp_path):
    arguments, printed, picture = SHORT[name]
    output = tmp_path / f"picture.{picture}"
    text = run(f"{name}.py", *arguments, *(["--output", str(output)] if picture else []))
    assert re.search(printed, text), text
    if picture:
        pixels = iio.imread(output)
        assert pixels.ndim == (4 if picture == "gif" else 3) and pixels.std() > 5


@pytest.fixture
def refused(monkeypatch, capsys):
    """Runs an example that ends before it does something, and returns what it prints."""

    def run(name, *options):
        monkeypatch.setattr(sys, "argv", [f"python -m drjit demo {name}", *options])
        with pytest.raises(SystemExit):
            importlib.import_module(f"drjit_examples.{name}").main()
        return "".join(capsys.readouterr())

    return run


@pytest.mark.parametrize("name", drjit_examples.SECONDS)
def test_help_says_what_is_preset_and_numbers_are_checked(name, refused):
    text = refused(name, "--help")
    summary = drjit_examples.summary(name)
    assert text.startswith(f"usage: python -m drjit demo {name} [-h]")
    assert len(summary) < 90 and summary.endswith(".") and f"\n{summary}\n" in text
    numbers = NUMBERS.findall(text)
    assert len(numbers) == text.count(" N  ") and text.count("(default: ") >= len(numbers)
    for option in numbers:
        for value, message in (("-1", "must be at least"), ("1.5", "'1.5' is no whole number")):
            assert f"error: argument {option}: {message}" in refused(name, option, value)


def test_numbers_have_the_limit_that_makes_sense(refused):
    assert "must be at least 1, not 0" in refused("mandelbrot", "--size", "0")
    assert "must be at least 100, not 99" in refused("fluid", "--particles", "99")


def test_functions_leave_python(tmp_path):
    text = run("leaving_python.py", "--iterations", "2", "--folder", str(tmp_path))
    assert (tmp_path / "colour.h").exists() and (tmp_path / "CMakeLists.txt").exists()
    if "there is no compiler" not in text:
        assert re.search(r"thickness 0\.(300|299)\d* after 100 steps, error \d", text), text
        assert re.search(r"60 frames of 480 x 270 pixels, \d+ a second", text), text
        assert iio.imread(tmp_path / "field.ppm").shape == (256, 256, 3)
        assert iio.imread(tmp_path / "zoom059.pgm").std() > 5


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
    found = np.array(neural_field.load(str(tmp_path / name)))
    assert found.shape == ((1, 1, 3) if name == "point.png" else (6, 7, 3))
    np.testing.assert_array_equal(found, 1)


def test_the_neural_field_says_what_is_wrong_before_it_starts(tmp_path):
    text = tmp_path / "text.png"
    text.write_text("no image")
    assert "cannot be read as an image" in run("neural_field.py", str(text), status=1)
    assert "cannot be read as an image" in run("neural_field.py", "missing.png", status=1)
    nowhere = str(tmp_path / "missing" / "field.png")
    assert "cannot be written" in run("neural_field.py", "--output", nowhere, status=2)
    assert "cannot be written" in run("neural_field.py", "--output", str(tmp_path), status=2)
    message = "of .png, .jpg, .jpeg, .tif, .tiff, .webp"
    assert message in run("neural_field.py", "--output", str(tmp_path / "a.xyz"), status=2)
    assert "of .gif, .webp" in run("fluid.py", "--output", str(tmp_path / "a.png"), status=2)


def test_a_file_is_neither_made_nor_changed_before_there_is_a_result(tmp_path):
    kept, new = tmp_path / "kept.png", tmp_path / "new.png"
    kept.write_text("kept")
    for output in (kept, new):
        run("neural_field.py", "missing.png", "--output", str(output), status=1)
    assert kept.read_text() == "kept" and not new.exists()


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("neural_field", ["--iterations", "1000000"], (600, 1024, 3)),
        ("path_tracing", ["--size", "16", "--samples", "100000000"], (16, 24, 3)),
        ("fluid", ["--particles", "200", "--frames", "1000000"], (None, 18, 40, 3)),
    ],
)
def test_ctrl_c_writes_what_there_is(name, options, shape, tmp_path):
    output = tmp_path / ("picture.gif" if name == "fluid" else "picture.png")
    command = [sys.executable, "-m", "drjit", "demo", name, *options, "--output", str(output)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    # The progress bar, which ends its lines with a carriage return, says that steps are done.
    seen = b""
    while not re.search(rb"\| [1-9]\d*/", seen):
        more = running.stderr.read(1)
        assert more, seen
        seen += more
    running.send_signal(signal.SIGINT)
    printed, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert b"Interrupted: what was computed so far is the result." in errors
    assert str(output).encode() in printed
    found = iio.imread(output).shape
    assert found[-3:] == shape[-3:] and len(found) == len(shape)


def test_ctrl_c_before_there_is_a_result_is_no_traceback(capsys):
    def main():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit, match="Interrupted before there was a result"):
        common.start(main)


def test_the_bar_and_the_last_line_of_the_neural_field_measure_the_same(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr(common.Progress, "show", lambda _, **figures: shown.append(figures))
    monkeypatch.setattr(neural_field, "GRID", 16)
    monkeypatch.setattr(neural_field, "REPORT", 2)
    x, y = np.meshgrid(np.linspace(0, 1, 16), np.linspace(0, 1, 16))
    image = neural_field.TensorXf(np.stack([x, y, 0.5 + 0 * x], axis=2).astype(np.float32))
    neural_field.train(image, 7, False, "tri")
    monkeypatch.setattr(common.Progress, "show", lambda _, **figures: None)
    for steps, figures in zip((2, 4, 6), shown, strict=True):
        _, quality = neural_field.train(image, steps, False, "tri")
        assert figures == {"PSNR": f"{quality:.2f} dB"}


def test_demo_lists_the_examples(capsys):
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, seconds in drjit_examples.SECONDS.items():
        assert f"  {name:<20}{seconds:3} s  {drjit_examples.summary(name)}" in lines


def test_demo_runs_an_example(tmp_path):
    program = "import sys; from drjit.__main__ import main; sys.exit(main())"
    given = ["demo", "mandelbrot", "--size", "16", "--output", str(tmp_path / "picture.png")]
    done = nursery.run(program, *given, environment={"MPLBACKEND": "Agg"})
    assert done.returncode == 0, done.stderr
    assert iio.imread(tmp_path / "picture.png").shape[:2] == (16, 16)
    done = nursery.run(program, "demo", "mandelbrot", "--help")
    assert done.stdout.startswith("usage: python -m drjit demo mandelbrot [-h]")
    done = nursery.run(program, "demo", "mandelbort")
    assert "there is no example 'mandelbort': did you mean 'mandelbrot'?" in done.stderr
    assert done.returncode == 2


def test_demo_says_what_has_to_be_installed(monkeypatch):
    def run(name, options):
        raise ModuleNotFoundError("No module named 'imageio'", name="imageio")

    monkeypatch.setattr(drjit_examples, "run", run)
    with pytest.raises(SystemExit, match=r"fluid needs imageio: .* pip install imageio matplotlib"):
        main(["demo", "fluid"])


def test_fresnel_prints_its_kernel_and_the_integral():
    *kernel, value = run("fresnel.py").splitlines()
    assert "def kernel(i, p):" in kernel
    assert any(re.fullmatch(r"    \w+ = sin\(\w+\)(  #.*)?", line) for line in kernel)
    x = np.linspace(0, 1, 1_000_000)
    assert float(value.strip("[]")) == pytest.approx(np.sin(x * x).mean(), rel=1e-5)

"""The compiler of the tutorial in docs/teaching: its steps run, and give what NumPy gives."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "teaching"
FILES = sorted(FOLDER.glob("step*.py"))


@pytest.fixture(scope="module")
def steps():
    """All names of all steps; those of loops are under `loop`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        import step1_trace  # pyright: ignore[reportMissingImports]
        import step2_text  # pyright: ignore[reportMissingImports]
        import step3_run  # pyright: ignore[reportMissingImports]
        import step4_differentiate  # pyright: ignore[reportMissingImports]
        import step5_vectorise  # pyright: ignore[reportMissingImports]
        import step6_loop  # pyright: ignore[reportMissingImports]

        found: dict = {}
        for module in (step1_trace, step2_text, step4_differentiate):
            found |= vars(module)
        found["numpy_machine"] = step3_run.numpy_machine
        found["numba_machine"] = step5_vectorise.numba_machine
        yield SimpleNamespace(**found, loop=step6_loop)


def test_it_is_short():
    lengths = [len(f.read_text().splitlines()) for f in FILES]
    assert len(FILES) == 6
    assert max(lengths) <= 100 and sum(lengths) <= 500


@pytest.mark.parametrize(
    ("file", "last"),
    list(
        zip(
            FILES,
            (
                r"sin\(.*data.*\)",
                r"store\(.*\)",
                r"0\.0? +0\. +\]",
                r"^\[0\. +1\.38\d+ 0\.077\d+\]$",
                r"0\.0? +0\. +\]",
                r"^\[3\. 3\. 5\.\]$",
            ),
            strict=True,
        )
    ),
    ids=lambda value: getattr(value, "stem", None),
)
def test_a_step_prints_something_when_it_is_run(file: Path, last: str):
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert re.search(last, done.stdout.rstrip().splitlines()[-1]), done.stdout


@pytest.mark.parametrize("machine", ["numpy_machine", "numba_machine"])
@pytest.mark.parametrize("size", [1, 15, 5000])
def test_values(steps, machine: str, size: int):
    values = np.linspace(0.1, 3, size)
    x, i = steps.Array(values), steps.arange(size)
    y = steps.select(x > 1, steps.sin(x) / (x + 1), steps.exp(x) - 2 * i)
    expected = np.where(
        values > 1, np.sin(values) / (values + 1), np.exp(values) - 2 * np.arange(size)
    )
    np.testing.assert_allclose(getattr(steps, machine).numpy(y), expected, rtol=1e-14)


def test_equal_expressions_are_computed_once_and_numbers_are_parameters(steps):
    x = steps.Array([1, 2])
    text, parameters = steps.kernel_source(steps.sin(x) * 2 + steps.sin(x))
    assert text.count("sin(") == 1
    assert text == steps.kernel_source(steps.sin(x) * 3 + steps.sin(x))[0]
    assert 2.0 in parameters[1:2]


def test_sizes_that_do_not_go_together_are_an_error(steps):
    with pytest.raises(ValueError, match=r"\*: arrays of sizes 3, 2 do not go together"):
        steps.Array([1, 2, 3]) * steps.Array([1, 2])


@pytest.mark.parametrize(
    "f",
    [
        lambda s, x: s.exp(s.sin(x) * x) / (x + 1),
        lambda s, x: s.sqrt(x) - s.log(x) * s.cos(x),
        lambda s, x: s.select(x < 1, x * x, 3 / x),
    ],
)
def test_derivatives(steps, f):
    points, h = np.linspace(0.3, 2.2, 7), 1e-6

    def value(p):
        return steps.numpy_machine.numpy(f(steps, steps.Array(p)))

    x = steps.Array(points)
    (g,) = steps.gradient(f(steps, x), x)
    difference = (value(points + h) - value(points - h)) / (2 * h)
    np.testing.assert_allclose(steps.numpy_machine.numpy(g), difference, rtol=1e-7)


def test_second_derivatives(steps):
    x = steps.Array(points := np.linspace(0, 3, 9))
    (g,) = steps.gradient(steps.sin(x), x)
    (gg,) = steps.gradient(g, x)
    np.testing.assert_allclose(steps.numba_machine.numpy(gg), -np.sin(points), atol=1e-15)


@pytest.mark.parametrize("machine", ["numpy_machine", "numba_machine"])
def test_loops(steps, machine: str):
    numbers = np.arange(1.0, 31)
    n, k = steps.loop.while_loop(
        [steps.Array(numbers), steps.Array(0.0)],
        lambda n, k: n < 1000,
        lambda n, k: (n * 3 + 1, k + 1),
    )
    expected = []
    for number in numbers:
        count = 0
        while number < 1000:
            number, count = number * 3 + 1, count + 1
        expected.append(count)
    m = getattr(steps.loop, machine)
    assert m.numpy(k).tolist() == expected
    assert m.numpy(n).min() >= 1000
    again = steps.loop.while_loop([n], lambda n: n > 5000, lambda n: (n / 2,))[0]
    assert m.numpy(again).max() <= 5000

"""Every example runs without a display, and prints what it should."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / name],
        env=os.environ | {"MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"fresnel.py"}


def test_fresnel_prints_its_kernel_and_the_integral():
    *kernel, value = run("fresnel.py").splitlines()
    assert "def kernel(i, p):" in kernel
    assert any(re.fullmatch(r"    \w+ = sin\(\w+\)(  #.*)?", line) for line in kernel)
    x = np.linspace(0, 1, 1_000_000)
    assert float(value.strip("[]")) == pytest.approx(np.sin(x * x).mean(), rel=1e-5)

"""Kernels of whole programs compute the same again, from their texts, by `dr.kernel`: bit by bit,
where the order of a sum is not involved. See kernel_replay.py.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import reference

PROGRAMS = reference.scripts("programs")
HERE = Path(__file__).parents[1]


@pytest.mark.every(len(PROGRAMS))
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_functions_of_their_text(name: str):
    command = [
        sys.executable,
        HERE / "support" / "kernel_replay.py",
        HERE / "programs" / f"{name}.py",
    ]
    environment = os.environ | {"DRJIT_TIER": "compiled"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"(\d+) ([^,]+),", done.stdout.splitlines()[-1]))
    counts = {kind: int(n) for n, kind in found.items()}
    assert "different" not in counts, done.stdout
    assert set(counts) == {"equal"} and counts["equal"] > 0, done.stdout

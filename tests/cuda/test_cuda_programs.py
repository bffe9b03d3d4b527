"""Programs as users write them run on the emulated GPU if DRJIT_CUDA asks for it, and compute what
they compute on the processor."""

import json
from pathlib import Path

import numpy as np
import nursery
import pytest
import reference
from test_programs import TOLERANCES

EMULATED = {"DRJIT_CUDA": "emulated"}
LIMIT = 600  # seconds: a minute for most, if nothing else runs
EXAMPLES = Path(__file__).parents[2] / "drjit_examples"
QUICK = ("bundle_adjustment", "sdf_shape", "spheres_2d")


def chosen(cases, quick):
    """The cases, of which the quick ones always run, and the others in sweeps."""
    return [c if c in quick else pytest.param(c, marks=pytest.mark.sweep) for c in cases]


@pytest.mark.parametrize("name", chosen(TOLERANCES, QUICK))
def test_a_program_agrees_with_the_reference(name):
    path = reference.HERE / "programs" / f"{name}.py"
    rtol, atol, _ = TOLERANCES[name]
    assert "drjit.llvm" not in path.read_text()
    expected = reference.stored(path).read_text()
    found = reference.printed(path, environment=EMULATED, seconds=LIMIT)
    different = reference.differences(expected, found, rtol, atol)
    assert not different, f"{len(different)} differences\n" + "\n".join(different[:20])


FIELD = f"""
import json, sys
sys.path.insert(0, {str(EXAMPLES)!r})
import neural_field
import numpy as np
import drjit as dr

encoding, precision, iterations = sys.argv[1:]
neural_field.GRID = 8
x, y = np.meshgrid(np.linspace(0, 1, 16), np.linspace(0, 1, 16))
image = neural_field.TensorXf(np.stack([x, y, 0.5 + 0 * x], axis=2).astype(np.float32))
learnt, quality = neural_field.train(image, int(iterations), precision == "half", encoding)
print(json.dumps([dr.backend_v(dr.auto.Float).name, quality, learnt.ravel().tolist()]))
"""


def trained(field, iterations, environment):
    """Trains the network of the example; returns the backend, how well it knows the picture, and
    what it knows."""
    done = nursery.run(
        FIELD,
        *field.split("-"),
        str(iterations),
        environment=environment,
        imports=("imageio.v3", "tqdm.auto"),
        seconds=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FIELDS = [f"{e}-{p}" for e in ("tri", "sin", "hash", "permuto") for p in ("half", "single")]


@pytest.mark.parametrize("field", chosen(FIELDS, ["tri-half"]))
def test_the_neural_field_learns_the_same(field):
    steps = 6 if field.endswith("half") else 3  # the first ones find out the scale of the loss
    found = trained(field, steps, EMULATED)
    expected = trained(field, steps, {"DRJIT_CUDA": "off"})
    assert (found[0], expected[0]) == ("CUDA", "LLVM")
    assert expected[1] > trained(field, 0, {"DRJIT_CUDA": "off"})[1] + 0.003
    rounding = 2e-3 if field.endswith("half") else 2e-5
    assert found[1] == pytest.approx(expected[1], rel=rounding)
    np.testing.assert_allclose(found[2], expected[2], rtol=rounding, atol=rounding)

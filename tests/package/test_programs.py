"""Programs of the kinds that people write with Dr.Jit print what they print under the reference.

Each is a process of its own, which runs in a second or two. `reference.py` stores outputs.
"""

import pytest
import reference

SINGLE = "single precision, 6 digits are printed"
# Relative and absolute tolerances, and why they are what they are.
TOLERANCES = {
    "backprojection": (1e-4, 2e-6, "differences of projections that nearly agree"),
    "bundle_adjustment": (1e-4, 1e-5, "normal equations lose digits"),
    "conjugate_gradients": (5e-4, 1e-5, "systems are solved to five digits"),
    "cornell_box": (1e-4, 1e-5, SINGLE),
    "fourier": (1e-4, 1e-5, SINGLE),
    "freeform_lens": (2e-4, 1e-5, "sixteen steps of an optimizer"),
    "gradient_index": (1e-4, 2e-6, SINGLE),
    "green_functions": (1e-4, 1e-6, SINGLE),
    "histograms": (1e-4, 1e-6, SINGLE),
    "lattice_sums": (1e-4, 1e-6, SINGLE),
    "markov_chains": (1e-4, 1e-5, SINGLE),
    "machine": (1e-4, 1e-6, SINGLE),
    "mesh_smoothing": (1e-4, 1e-5, SINGLE),
    "moving_edge": (1e-4, 1e-5, SINGLE),
    "newton_method": (5e-4, 1e-5, "systems are solved to five digits"),
    "nearest_neighbours": (2e-4, 1e-6, SINGLE),
    "normalizing_flow": (1e-3, 1e-4, "thirty steps of an optimizer"),
    "options": (1e-6, 1e-9, "double precision"),
    "particles": (2e-4, 1e-5, "pressure is stiff"),
    "path_tracer": (2e-3, 2e-5, "another rounding sends single paths elsewhere"),
    "radiance_cache": (1e-2, 2e-3, "half precision, forty steps of an optimizer"),
    "sdf_shape": (5e-4, 1e-5, "ten steps of an optimizer, which pixels of the edge may notice"),
    "spheres_2d": (1e-4, 1e-5, SINGLE),
    "spheres_3d": (1e-4, 1e-5, SINGLE),
    "splatting": (2e-4, 1e-5, "twelve steps of an optimizer"),
    "texture_mips": (2e-4, 1e-5, "twenty steps of an optimizer"),
    "volume": (1e-4, 1e-5, SINGLE),
    "waves": (1e-3, 2e-5, "half precision in a part"),
    "weekend": (1e-4, 1e-5, SINGLE),
}


def test_every_program_has_a_tolerance():
    assert set(reference.scripts("programs")) == set(TOLERANCES)


@pytest.mark.parametrize("name", TOLERANCES)
def test_a_program_agrees_with_the_reference(name):
    path = reference.HERE / "programs" / f"{name}.py"
    rtol, atol, _ = TOLERANCES[name]
    expected = reference.stored(path).read_text()
    found = reference.differences(expected, reference.printed(path), rtol, atol)
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])

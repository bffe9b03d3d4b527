"""Arrays of `drjit.scalar` have values at any time: also while a loop, a branch or a frozen
function is being recorded, where traced arrays have none yet.
"""

import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Bool, Float, UInt

MATRIX = [[1, 2], [4, 3]]
CASES = {
    "sort": lambda t: dr.sort(t),
    "argsort": lambda t: dr.argsort(t),
    "argmax": lambda t: dr.argmax(t),
    "median": lambda t: dr.median(t),
    "sum": lambda t: dr.sum(t, axis=0),
    "max": lambda t: dr.max(t, axis=1),
    "cumsum": lambda t: dr.cumsum(t),
    "matmul": lambda t: t @ t,
    "concat": lambda t: dr.concat([t, t], axis=1),
    "repeat": lambda t: dr.repeat(t, 2, axis=0),
    "convolve": lambda t: dr.convolve(t, [1, 2, 1]),
    "upsample": lambda t: dr.upsample(t, scale_factor=[2]),
    "oklab": lambda t: dr.linear_srgb_to_oklab(scalar.TensorXf([[1, 0.5, 0]])),
    "permutation": lambda t: dr.rng(seed=1).permutation(scalar.ArrayXu, 5),
    "texture": lambda t: scalar.Texture1f(t, mip_filter=dr.MipFilter.Linear).eval_lod([0.3], 0.5),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_within_what_is_recorded(name: str) -> None:
    def found() -> str:
        return repr(CASES[name](scalar.TensorXf(MATRIX)))

    expected, seen = found(), []

    def step(i):
        seen.append(found())
        return i + 1

    dr.eval(dr.while_loop((UInt(0, 0),), lambda i: i < 3, lambda i: (step(i),), mode="symbolic"))
    dr.eval(dr.if_stmt((UInt(0, 1),), Bool(True, False), step, lambda i: i, mode="symbolic"))
    dr.freeze(step)(Float(1, 2))
    assert seen and set(seen) == {expected}

"""The scripts of `oracle` print here what they print under the reference."""

import pytest
import reference

# What training and quality print is compared by test_training.py.
SCRIPTS = [name for name in reference.scripts("oracle") if name not in ("training", "quality")]
# Representations, types and what is only moved are the same to the last digit.
EXACT = {
    *("ad_scopes", "assertions", "auto_backend", "construction", "construction_nested"),
    *("control_flow", "evaluation", "memory", "printing", "promotion", "sorting", "tensor"),
    "traits",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_reference_prints_the_same(name):
    path = reference.HERE / "oracle" / f"{name}.py"
    tolerance = (0, 0) if name in EXACT else (1e-4, 1e-5)
    expected = reference.stored(path).read_text()
    found = reference.differences(expected, reference.printed(path), *tolerance)
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])


@pytest.mark.parametrize(
    ("expected", "found", "same"),
    [
        ("llvm.Float [1, 2.5]", "llvm.Float [1, 2.50001]", True),
        ("llvm.Float [1, 2.5]", "llvm.Float [1, 2.501]", False),
        ("llvm.Float [1, 2.5]", "llvm.Float [1]", False),
        ("llvm.Float [1]", "llvm.Float64 [1]", False),
        ("Float32 1", "Float64 1", False),
        ("int 4294967295", "int 4294967294", False),
        ("[nan, inf, -inf]", "[nan, inf, -inf]", True),
        ("[nan]", "[1]", False),
        ("[inf]", "[-inf]", False),
        ("1+0.786151j", "1+0.786152j", True),
        ("[ 1.0  2.0]", "[1. 2.]", True),
        ("x", "", False),
        ("!RuntimeError", "!IndexError/LookupError/RuntimeError", True),
        ("!TypeError", "!RuntimeError", False),
    ],
)
def test_lines_are_compared(expected, found, same):
    assert (not reference.differences(expected, f"case  ->  {found}", 1e-4, 1e-6)) == same
    exact = reference.differences(expected, f"case  ->  {found}", 0, 0)
    assert (not exact) == (same and (expected == found or "!" in found))

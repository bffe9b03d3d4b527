"""Where an index beyond the end of an array is reported: where what the kernel has written, or what
was computed from it, is evaluated or read; never at another array."""

import subprocess
import sys

import pytest

import drjit as dr
from drjit.llvm import Float, UInt


def array(*values):
    made = Float(*values)
    dr.make_opaque(made)
    return made


def wrong():
    """An array that a kernel has computed with an index that is out of bounds."""
    x = dr.gather(Float, array(1, 2, 3), UInt(0, 7))
    dr.eval(x)
    return x


def test_other_arrays_are_read_as_usual(tier):
    other = array(1, 2, 3)
    x = wrong()
    assert list(other) == [1, 2, 3] and list(other + 1) == [2, 3, 4]
    assert dr.sum(other)[0] == 6 and other.numpy()[0] == 1
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        list(x)
    assert list(x) == [1, 0]  # it is raised once
    dr.sync_thread()


@pytest.mark.parametrize(
    "use",
    [
        list, repr, lambda x: x.numpy(), lambda x: x[0], lambda x: list(x * 2),
        lambda x: list(dr.sort(x)), lambda x: list(dr.compress(x > 0)), lambda x: dr.sum(x)[0],
        lambda x: list(dr.cumsum(x)), lambda x: bool(dr.any(x > 0)), lambda x: x.__setitem__(0, 1),
    ],
)  # fmt: skip
def test_what_is_computed_from_it(use, tier):
    x = wrong()
    with pytest.raises(RuntimeError, match="index 7 is out of bounds") as raised:
        use(x)
    assert isinstance(raised.value, IndexError)
    dr.sync_thread()


def test_by_way_of_several_kernels(tier):
    x, y = wrong(), wrong()
    for _ in range(20):
        x = dr.gather(Float, x + 1, UInt(0, 1))
        dr.eval(x)
    z = x + y
    dr.eval(z)
    with pytest.raises(IndexError) as raised:
        list(z)
    assert raised.value.__notes__ == ["1 more kernel launches reported an error."]
    assert list(z) == [22, 20]
    dr.sync_thread()


def test_targets_of_scatters(tier):
    t, other = dr.zeros(Float, 3), array(5)
    dr.scatter(t, Float(1, 2), UInt(0, 9))
    dr.eval(t)
    assert list(other) == [5]
    with pytest.raises(IndexError, match="index 9"):
        list(t)
    assert list(t) == [1, 0, 0]


def test_synchronization(tier):
    x = wrong()
    with pytest.raises(IndexError, match="index 7"):
        dr.sync_thread()
    assert list(x) == [1, 0]
    wrong()
    with pytest.raises(IndexError, match="index 7"):
        dr.sync_thread()


def test_what_nobody_uses_is_a_warning(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(
        "import drjit as dr\n"
        "from drjit.llvm import Float, UInt\n"
        "x = dr.gather(Float, Float(1, 2, 3), UInt(0, 7))\n"
        "dr.eval(x)\n"
        "print(Float(1) + 1)\n"
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
    assert done.stdout == "[2]\n"
    assert "index 7 is out of bounds" in done.stderr and "program.py:3" in done.stderr

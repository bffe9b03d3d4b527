"""Printing from inside kernels: what is shown, when, and of which lanes."""

import contextlib
import gc
import io
import weakref

import numpy as np
import pytest

import drjit as dr
from drjit.array.leaf import wrap
from drjit.jit.trace import record
from drjit.llvm import Array3f, Bool, Float, TensorXf, UInt32

pytestmark = pytest.mark.usefixtures("computing_nodes")


def printed(*args, **kwargs) -> io.StringIO:
    file = io.StringIO()
    dr.print(*args, file=file, mode="symbolic", **kwargs)
    return file


def counted(limit: Float, body) -> UInt32:
    """A symbolic loop that runs `body(i)` for i = 0, 1, ... below a limit of each lane."""

    def step(state):
        i = wrap(UInt32, state[0])
        body(i)
        return [(i + 1)._node]

    (n,) = record.loop([UInt32(0)._node], lambda s: (wrap(UInt32, s[0]) < limit)._node, step)
    return wrap(UInt32, n)


def test_text_appears_when_the_kernel_has_run(tier) -> None:
    x = dr.arange(Float, 5) + 0.5
    file = printed("x={} {y=}", x, y=x * 2)
    assert file.getvalue() == ""
    dr.eval(x + 1)
    assert file.getvalue() == "x=[0.5, 1.5, 2.5, 3.5, 4.5] y=[1, 3, 5, 7, 9]\n"
    dr.eval(x + 2)
    assert file.getvalue().count("\n") == 1


def test_text_of_a_loop_waits_for_its_kernel_whatever_runs_meanwhile(tier) -> None:
    file = io.StringIO()

    def body(i):
        dr.print("{}", i, file=file, mode="symbolic")
        dr.eval(dr.opaque(Float, 2, 3) * 1.5)

    n = counted(dr.opaque(Float, 2, 1), body)
    assert file.getvalue() == ""
    assert n[0] == 2
    assert file.getvalue() == "[0, 1]\n"


def test_text_goes_where_the_output_goes_when_the_statement_is_met(tier, capsys) -> None:
    x = dr.opaque(Float, 5, 2)
    file = io.StringIO()
    with contextlib.redirect_stdout(file):
        dr.print("{}", x, mode="symbolic")
    assert file.getvalue() == ""
    dr.eval(x + 1)
    assert file.getvalue() == "[5, 5]\n"
    assert capsys.readouterr().out == ""


def test_only_active_lanes_and_no_text_without_any(tier) -> None:
    x = dr.arange(Float, 20)
    some, none = printed(x, active=x > 17, end=";"), printed(x, active=x > 20)
    never = printed("{}", x, active=False)
    dr.eval()
    assert some.getvalue() == "[18, 19];"
    assert none.getvalue() == never.getvalue() == ""


def test_values_of_a_loop_come_lane_by_lane(tier) -> None:
    limit = UInt32(1, 3, 0, 2)
    file = io.StringIO()
    n = counted(limit, lambda i: dr.print("{thread_id} {} {}", i, limit, file=file))
    assert file.getvalue() == ""
    dr.eval(n)
    assert file.getvalue() == "[0, 1, 1, 1, 3, 3] [0, 0, 1, 2, 0, 1] [1, 3, 3, 3, 2, 2]\n"


def test_lanes_of_values_that_all_lanes_share(tier) -> None:
    limit = UInt32(1, 3, 0, 2)
    file = io.StringIO()
    dr.eval(counted(limit, lambda i: dr.print("{thread_id} {}", i, file=file)))
    assert file.getvalue() == "[0, 1, 1, 1, 3, 3] [0, 0, 1, 2, 0, 1]\n"


def test_what_is_shown_of_other_values(tier) -> None:
    lines = [
        (Array3f(Float(1, 2), 3, 4), "[[1, 3, 4],\n [2, 3, 4]]\n"),
        (Float(3), "[3]\n"),
        (Bool(True, False), "[True, False]\n"),
        (TensorXf([1, 2, 3, 4], (2, 2)), "[1, 2, 3, 4]\n"),
        ([1, "a", Float(1, 2)], "[\n  1,\n  'a',\n  [1, 2]\n]\n"),
        ("text", "text\n"),
    ]
    files = [printed(value) for value, _ in lines]
    dr.eval()
    assert [f.getvalue() for f in files] == [text for _, text in lines]


def test_beyond_the_limit_a_sample_is_shown_with_a_warning(tier) -> None:
    x = dr.arange(Float, 1000)
    few, all_ = printed("{thread_id} {}", x, limit=3), printed(x, limit=-1)
    with pytest.warns(RuntimeWarning, match=r"only captured 3 of 1000 available outputs") as caught:
        dr.eval()
    assert caught[0].filename == __file__
    lanes, values = few.getvalue().rstrip("]\n").split("] ")
    assert lanes == values
    shown = [int(v) for v in lanes[1:].split(", ")]
    assert len(shown) == 3 and shown == sorted(shown)
    assert all_.getvalue().count(",") == 999


@pytest.mark.parametrize("size", [0, 1, 15, 17, 1000])
def test_sizes(size, tier) -> None:
    file = printed(dr.arange(UInt32, size), limit=-1)
    dr.eval()
    want = "[" + ", ".join(map(str, range(size))) + "]\n" if size else ""
    assert file.getvalue() == want


def test_a_recording_that_fails_prints_nothing() -> None:
    file = io.StringIO()

    def body(i: UInt32) -> None:
        dr.print(i, file=file)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        counted(UInt32(3, 4), body)
    dr.eval(Float(1, 2) + 1)
    assert file.getvalue() == ""


def test_mistakes_show_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"drjit\.print\(\): missing positional argument 1"):
        printed("{} {}", Float(1))
    with pytest.raises(RuntimeError, match="'active' must be a 1-D mask"):
        printed(Float(1), active=Float(1))
    with pytest.raises(RuntimeError, match="mode='x' must be one of"):
        dr.print(Float(1), mode="x")
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        printed("{}", Float(1, 2), active=Bool(True, False, True))


def test_evaluating_in_a_recording_says_what_to_do() -> None:
    for attempt in (
        lambda i: dr.print(i, mode="evaluate"),
        lambda i: dr.eval(i),
        lambda i: i[0],
        lambda i: str(i),
        lambda i: i.numpy(),
        lambda i: bool(dr.all(i > 1)),
    ):
        with pytest.raises(RuntimeError, match=r"symbolic loop, branch or call that is being"):
            counted(UInt32(3, 4), attempt)
        assert not record.recording()


def test_nothing_is_kept_afterwards() -> None:
    x = dr.arange(Float, 4) + 1
    file = printed(x)
    node = weakref.ref(x._node)
    dr.eval()
    assert file.getvalue()
    gc.disable()
    try:
        del x
        assert node() is None
    finally:
        gc.enable()


def test_debug_mode_prints_as_well() -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        file = printed("{}", dr.arange(Float, 3))
        dr.eval()
    assert np.array_equal(np.fromstring(file.getvalue().strip("[]\n"), sep=","), [0, 1, 2])

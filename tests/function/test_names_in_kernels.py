"""The names that a program has for values, in the texts of kernels that people see: there alone."""

import bdb
import dataclasses
import keyword
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.jit.cpu import kernel as kernels
from drjit.jit.text import names
from drjit.llvm.ad import Array3f, Float, Matrix2f, TensorXf, UInt


@dr.syntax
def powers(x: Float, count: int) -> Float:
    s, i = Float(1), UInt(0)
    while i < count:
        s *= x
        i += 1
    return s


def statements(text: str) -> list[str]:
    return [line.partition("  #")[0].strip() for line in text.splitlines()]


def test_loop_variables() -> None:
    text = dr.kernel_source(powers(dr.opaque(Float, 2, 10), 3))
    found = statements(text)
    assert any(line.endswith("= s * x0") for line in found)
    assert any(line.startswith("s = select(") for line in found)
    assert any(line.startswith("i_1 = select(") for line in found)  # `i` are the lanes
    assert found[-1].endswith("i, s)")


@dataclasses.dataclass
class Ray:
    o: Array3f
    t: Float


def test_parts_of_variables() -> None:
    def body(ray: Ray, table: dict, m: Matrix2f) -> tuple:
        o = ray.o + Array3f(1, ray.t, table["a key"])
        return Ray(o, ray.t + 1), {"a key": table["a key"] * 2}, m + 1

    state = Ray(Array3f(0, 1, 2), Float(0)), {"a key": Float(3)}, Matrix2f(1, 2, 3, 4)
    got = dr.while_loop(
        state, lambda ray, table, m: ray.t < 5, body, labels=("ray", "table", "matrix")
    )
    text = dr.kernel_source(got)
    for name in ("ray_o_x", "ray_o_y", "ray_o_z", "ray_t", "table_a_key", "matrix_0_y"):
        assert any(line.startswith(f"{name} = ") for line in statements(text)), name


def test_labels_and_clashes() -> None:
    x = dr.opaque(Float, 2, 10)
    dr.set_label(x, "x1")
    y = x * 3
    dr.set_label(y, "sin")
    z = dr.sin(y)
    dr.set_label(z, "class")
    w, v = z + 1, z * 2
    for a in (w, v):
        dr.set_label(a, "twice the")
    u = w * v
    dr.set_label(u, "<->")
    text = dr.kernel_source(u + TensorXf(x).array)
    assert "sin_1 = x1 * c0" in statements(text)
    assert "class_1 = sin(sin_1)" in statements(text)
    assert {"twice_the", "twice_the_1"} <= {line.partition(" =")[0] for line in statements(text)}
    assert "[<->]" in text and "[class]" in text
    compile(text, "text", "exec")
    again = dr.kernel(str(text))  # arguments have the names of what they are loaded into
    assert dr.all(again(x1=x, c0=3.0, c1=1.0, c2=2.0) == u + x)


@pytest.mark.parametrize(
    "name", ["s", "i", "p", "x0", "c0", "v1", "a0", "any_lane", "if", "ü", "7"]
)
def test_names_are_never_taken(name: str) -> None:
    def doubled(s: Float, n: UInt) -> tuple:
        return s * 2, n + 1

    x = dr.opaque(Float, 1, 4)
    state = (x, UInt(0))
    got = dr.while_loop(state, lambda s, n: n < 3, doubled, labels=(name, name))
    text = str(dr.kernel_source(got[0]))
    assert not keyword.iskeyword(name) or f"{name} =" not in text
    assert "while any_lane(" in dr.kernel(text).source
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        assert (
            dr.while_loop(state, lambda s, n: n < 3, doubled, labels=(name, name))[0]
            .numpy()
            .tolist()
            == [8] * 4
        )


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []
    original = kernels.CpuKernel.__init__

    def init(self: Any, text: str, *rest: Any, **more: Any) -> None:
        made.append(text)
        original(self, text, *rest, **more)

    monkeypatch.setattr(kernels.CpuKernel, "__init__", init)
    return made


def test_programs_share_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(monkeypatch)
    x = dr.opaque(Float, 2, 10)
    for labels in (("a", "b"), ("c", "d"), ()):
        given = (x, UInt(0))
        got = dr.while_loop(
            given, lambda s, n: n < 3, lambda s, n: (s * 2.25, n + 1), labels=labels
        )[0]
        got = got - 0.125
        if labels:
            dr.set_label(got, labels[1])
            text = dr.kernel_source(got)
            assert f"{labels[0]} = select(" in text and f"# [{labels[1]}]" in text
        else:
            assert "s = " not in dr.kernel_source(got) and "state" not in dr.kernel_source(got)
        assert got.numpy().tolist() == [2 * 2.25**3 - 0.125] * 10
    (text,) = {text for text in made if "while" in text and " - " in text}
    assert "a = " not in text and "#" not in text
    assert made.count(text) == 1


def test_labels_do_not_prevent_calls_from_sharing_a_body() -> None:
    def long(x: Float) -> Float:
        for _ in range(20):
            x = dr.fma(x, x, 0.5)
            if named:
                dr.set_label(x, "part")
        return x

    texts = []
    for named in (False, True):  # noqa: B007
        x, index = dr.opaque(Float, 2, 10), dr.opaque(UInt, 0, 10)
        y = dr.switch(index, [long, dr.sqrt], x) + dr.switch(index, [long, dr.cos], x)
        texts.append(len(dr.kernel_source(y).splitlines()))
    assert texts[0] == texts[1]


def test_functions_have_their_own_names() -> None:
    @dr.syntax
    def long(x: Float) -> Float:
        y, k = Float(0), UInt(0)
        while k < 3:
            for _ in range(16):
                y = dr.fma(y, x, 0.5)
            k += 1
        return y

    x = dr.linspace(Float, 0, 1, 8)
    index = dr.arange(UInt, 8) % 2
    functions = [long, lambda x: x * 2]
    y = dr.switch(index, functions, x) * dr.switch(1 - index, functions, x + 1)
    text = dr.kernel_source(y)
    assert text.count("def body") == 1
    body = statements(text[text.index("def body") :])
    assert any(line.startswith("y = ") for line in body)
    assert any(line.startswith("k = ") for line in body)
    compile(text, "text", "exec")
    expected = y.numpy()
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        y = dr.switch(index, functions, x) * dr.switch(1 - index, functions, x + 1)
        assert np.allclose(y.numpy(), expected)


class Stop(bdb.Bdb):
    """Stops at the beginning of kernels, and takes note of the local names in each line."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict] = []

    def user_line(self, frame: Any) -> None:
        if frame.f_code.co_filename.startswith("<drjit kernel"):
            self.seen.append({k: repr(v) for k, v in frame.f_locals.items()})
        self.set_step()


def debugged(function: Callable) -> list[dict]:
    stop = Stop()
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        stop.runcall(lambda: dr.eval(function()))
    return stop.seen


def test_debuggers_know_the_names() -> None:
    x = dr.opaque(Float, 2, 3)
    seen = debugged(lambda: powers(x, 3))
    assert seen[1]["i"] == "lanes 0 to 2"
    values = [one["s"] for one in seen if "s" in one]
    assert [*dict.fromkeys(values)][-3:] == [
        f"array([{n}., {n}., {n}.], dtype=float32)" for n in (2, 4, 8)
    ]
    counts = [one["i_1"] for one in seen if "i_1" in one]
    assert counts[-1] == "array([3, 3, 3], dtype=uint32)"


def test_history_and_report() -> None:
    x = dr.opaque(Float, 2, 10)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(powers(x, 3))
        (entry,) = dr.kernel_history()
    assert "s = select(" in entry["source"]
    with dr.report() as r:
        dr.eval(powers(x, 3))
    (entry,) = r.data()["kernels"]
    assert set(entry["names"].values()) == {"s", "i_1"}
    text = "\n".join(entry["text"])
    assert "s = select(" not in text
    assert "s = select(" in names.renamed(text, {"kernel": entry["names"]})


def test_gradients_of_loops_have_names_too() -> None:
    x = dr.opaque(Float, 2, 10)
    dr.enable_grad(x)
    y = powers(x, 3)
    assert "s = select(" in dr.kernel_source(y)
    dr.backward(y)
    assert dr.all(x.grad == 12)

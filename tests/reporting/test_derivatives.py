"""What traversals visited, the norms of gradients, and where gradients were lost."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as plain
from drjit.jit.cpu import kernel
from drjit.llvm.ad import Float, Int
from drjit.reporting import derivatives


def tracked(*values: float, size: int = 100) -> list[Float]:
    found = [dr.opaque(Float, v, size) for v in values]
    dr.enable_grad(*found)
    return found


def line(data: dict, place: int) -> str:
    path, number, _ = data["places"][place]
    return data["files"][path][number - 1].strip() if path else ""


def test_what_a_traversal_visits() -> None:
    x, w = tracked(2, 3)
    with dr.report() as r:
        a = x * w  # product
        b = dr.sin(a)  # sine
        dr.set_label(b, "wave")
        loss = dr.sum(b)
        dr.backward(loss)  # backward
    data = r.data()
    assert json.loads(json.dumps(data)) == data
    (graph,) = data["derivatives"]
    assert graph["direction"] == "backward" and graph["time"] > 0
    assert line(data, graph["place"]) == "dr.backward(loss)  # backward"
    rows = graph["variables"]
    assert [v["op"] for v in rows] == ["input", "input", "mul", "sin", "reduce"]
    assert [v["size"] for v in rows] == [100, 100, 100, 100, 1]
    assert {v["type"] for v in rows} == {"f32"} and rows[3]["label"] == "wave"
    assert [v["leaf"] for v in rows] == [True, True, False, False, False]
    assert [v["root"] for v in rows] == [False] * 4 + [True]
    assert line(data, rows[2]["place"]) == "a = x * w  # product"
    assert line(data, rows[3]["place"]) == "b = dr.sin(a)  # sine"
    assert all(v["visited"] and v["norm"] is None for v in rows)
    assert graph["edges"] == [[3, 4, 0], [2, 3, 1], [0, 2, 2], [1, 2, 3]]
    assert data["lost"] == []


def test_forward() -> None:
    x, w = tracked(2, 3)
    with dr.report(gradients=True) as r:
        y = x * w
        z = y + w
        dr.forward(x)
        assert z.grad[0] == 3
    (graph,) = r.data()["derivatives"]
    assert graph["direction"] == "forward"
    rows = {v["op"]: v for v in graph["variables"]}
    assert rows["mul"]["visited"] and rows["add"]["visited"] and rows["input"]["root"]
    assert sorted(e[2] for e in graph["edges"]) == [0, 1]
    assert rows["add"]["norm"] == pytest.approx(30)


def test_norms_change_neither_results_nor_kernels() -> None:
    def program() -> tuple[list, list]:
        x, w = tracked(2, 3)
        y = dr.sin(x * w) * x
        z = dr.gather(Float, y, dr.arange(plain.UInt, 100) // 2)
        dr.backward(dr.sum(z * z))
        dr.eval(x.grad, w.grad)
        return [x.grad.numpy(), w.grad.numpy()], [k.text for k in kernel.kernels()]

    dr.flush_kernel_cache()
    expected, texts = program()
    dr.flush_kernel_cache()
    with dr.report(gradients=True) as r:
        found, recorded = program()
    assert recorded == texts
    np.testing.assert_array_equal(found, expected)
    rows = r.data()["derivatives"][0]["variables"]
    norms = [v["norm"] for v in rows]
    assert all(n is not None for n in norms)
    assert norms[0] == pytest.approx(np.linalg.norm(expected[0]), rel=1e-5)
    assert norms[1] == pytest.approx(np.linalg.norm(expected[1]), rel=1e-5)
    assert norms[-1] == 1 and len(r.data()["kernels"]) <= len(texts)


def test_gradients_that_are_no_numbers() -> None:
    (x,) = tracked(0)
    with dr.report(gradients=True) as r:
        dr.backward(dr.sum(dr.sqrt(x) * 2))
    row = r.data()["derivatives"][0]["variables"][0]
    assert row["norm"] is None and row["not_finite"] is True


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivatives, "MOST_VARIABLES", 4)
    with dr.report() as r:
        for _ in range(5):
            (x,) = tracked(2)
            y = x
            for _ in range(10):
                y = dr.sin(y)
            dr.backward(y)
    data = r.data()
    assert len(data["derivatives"]) == derivatives.MOST_OF_A_LINE
    graph = data["derivatives"][0]
    assert len(graph["variables"]) == 4 and graph["left_out"] == 7
    assert graph["variables"][-1]["root"]
    assert "2 traversals of derivatives are not shown" in data["program"]["notes"]


def detached(x: Float) -> Any:
    return dr.detach(x)  # here


def suspended(x: Float) -> Any:
    with dr.suspend_grad():
        return x * 2  # here


def disabled(x: Float) -> Any:
    y = x * 2
    dr.disable_grad(y)  # here
    return y


def integer(x: Float) -> Any:
    return Int(x)  # here


def compared(x: Float) -> Any:
    return dr.select(x > 1, x, 0)  # here


def rounded(x: Float) -> Any:
    return dr.floor(x)  # here


def other_type(x: Float) -> Any:
    return plain.Float(x)  # here


def through_numpy(x: Float) -> Any:
    return x.numpy()  # here


def not_enabled(x: Float) -> Any:
    return dr.opaque(Float, 1).grad  # here


def not_reached(x: Float) -> Any:
    return (x + 1).grad  # here


REPLACED = "dr.replace_grad(dr.floor(x), x) passes gradients through"
CASES: list[tuple[Callable, str, str]] = [
    (detached, "detached", "dr.detach() returns values without derivatives."),
    (suspended, "suspended", "operations and gradients within dr.suspend_grad() count for"),
    (disabled, "disabled", "dr.disable_grad() cut an array off from what it was computed from."),
    (integer, "integer", "integers have no derivatives. Stay in floating point, or pass gradients"),
    (compared, "comparison", "comparisons have no derivatives: gradients pass through the values"),
    (rounded, "rounding", "`floor` is constant between its steps, so its derivative is zero. "),
    (other_type, "type", "this type of arrays has no derivatives. Use the type of the same name"),
    (through_numpy, "NumPy", "what NumPy computes has no derivatives. Compute it with Dr.Jit, or"),
    (not_enabled, "not enabled", "the gradient of an array was read that is not tracked, so it"),
    (not_reached, "not reached", "the gradient of an array was read, and is zero: no traversal"),
]


@pytest.mark.parametrize("program, kind, text", CASES, ids=[c[1] for c in CASES])
def test_where_gradients_are_lost(program: Callable, kind: str, text: str) -> None:
    (x,) = tracked(2.5)
    with dr.report() as r:
        for _ in range(3):
            program(x)
    data = r.data()
    (row,) = data["lost"]
    assert row["kind"] == kind and row["count"] == 3 and row["text"].startswith(text)
    assert line(data, row["place"]).endswith("# here")
    assert kind != "rounding" or row["text"].endswith(REPLACED)


@pytest.mark.parametrize("program", [case[0] for case in CASES], ids=[c[1] for c in CASES])
def test_nothing_is_lost_without_derivatives(program: Callable) -> None:
    x = dr.opaque(Float, 2.5, 100)
    with dr.report() as r:
        program(x)
    kinds = {row["kind"] for row in r.data()["lost"]}
    assert kinds <= {"not enabled"}


def test_a_graph_that_is_cut() -> None:
    """Why a gradient is zero: the traversal has not reached the input, and the line says why."""
    x, w = tracked(2.5, 3)
    with dr.report() as r:
        y = dr.round(x * 3)
        dr.backward(dr.sum(y * w))
        assert dr.all(x.grad == 0)
    data = r.data()
    (graph,) = data["derivatives"]
    assert sum(v["leaf"] for v in graph["variables"]) == 1  # w alone
    assert [row["kind"] for row in data["lost"]] == ["rounding", "not reached"]

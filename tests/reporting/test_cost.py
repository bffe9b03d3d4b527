"""What kernels read, write and compute, counted by hand, and what bounds them."""

import ast
from collections import Counter

import pytest

import drjit as dr
from drjit.jit.target import library
from drjit.llvm.ad import Array3f, Float, Float64, UInt
from drjit.reporting import cost

LIMITS = {"bandwidth": 1e9, "flops": {"f32": 1e10, "f64": 5e9}}


def text(*lines: str) -> str:
    return "\n    ".join(["def kernel(i, p):", *lines]) + "\n"


ADD = text("x = load(f32, p[1], i)", "v = x + x", "store(f32, p[2], i, v)")


@pytest.mark.parametrize(
    ("lines", "read", "written", "operations"),
    [
        (["x = load(f64, p[1], i)", "v = fma(x, x, x)", "store(f64, p[2], i, v)"], 8, 8, {64: 2}),
        (["x = load(i8, p[1], i)", "v = f32(x)", "stream(f32, p[2], i, v)"], 1, 4, {32: 1}),
        (
            ["m = active(i)", "v = lane(i)", "w = gather(u64, p[1], v, m)",
             "scatter(u64, p[2], w, v, m)"],
            8, 8, {},
        ),
        (
            ["m = active(i)", "v = lane(i)", "a, b, c = gather_packet(f32, p[1], v, m, 3)",
             "w = a * b", "scatter_reduce(f32, 'add', 'direct', p[2], w, v, m)"],
            12 + 4, 4, {32: 2},
        ),
        (
            ["m = active(i)", "v = lane(i)", "x = load(f32, p[1], i)",
             "scatter_reduce_packet(f32, 'add', p[2], p[3], p[4], v, m, x, x, x)"],
            4 + 12, 12, {32: 3},
        ),
        (
            ["x = load_vector(f16, 8, p[1], i)", "y = x * x", "z = total(y)",
             "store(f16, p[2], i, z)"],
            16, 2, {32: 16},
        ),
        (
            ["x = load(f32, p[1], i)", "m = x < x", "v = select(m, x, x)",
             "store(f32, p[2], i, v)"],
            4, 4, {32: 2},
        ),
    ],
)  # fmt: skip
def test_costs_of_a_lane(
    lines: list[str], read: int, written: int, operations: dict[int, int]
) -> None:
    found = cost.Cost(text(*lines))
    assert found.read + found.gathered == read
    assert found.written + found.scattered == written
    assert +found.operations == Counter(operations)
    assert not found.notes


def test_what_is_read_once_in_a_launch() -> None:
    found = cost.Cost(text(
        "x = load_vector(f32, 4, p[1], i)", "c = broadcast(f32, p[2])", "d = literal(f32, p[3])",
        "y = matvec(f32, p[4], p[5], 8, 4, 4, False, x)", "z = total(y)", "w = z + c",
        "u = w * d", "store(f32, p[6], i, u)",
    ))  # fmt: skip
    assert (found.read, found.shared, found.written) == (16, 4 + 4 * 8 * 4, 4)
    assert found.operations[32] == 2 * 8 * 4 + 8 + 2


def test_loops_are_estimated_and_said_to_be() -> None:
    body = ["x = load(f32, p[1], i)", "m = active(i)", "while any_lane(m):", "    x = x * x",
            "    m = x < x", "store(f32, p[2], i, x)"]  # fmt: skip
    found = cost.Cost(text(*body))
    assert found.operations[32] == 2 * cost.ASSUMED_ITERATIONS
    assert "estimate" in next(iter(found.notes))
    assert "Loops within" in next(iter(cost.Cost(text("reduce_rows(f32, 'add', p[1])")).notes))


def test_functions_of_the_library_and_of_the_text() -> None:
    assert 15 < cost.library_cost("sin", "f32") < 60
    assert cost.library_cost("sin", "f64") > cost.library_cost("sin", "f32")
    for name in library.names:
        assert cost.library_cost(name, "f32") > 2, ast.dump(library.function(name, "f32"))
    called = text("x = load(f32, p[1], i)", "y = body0(i, p, x)", "store(f32, p[2], i, y)")
    called += "def body0(i, p, x: f32):\n    a = x * x\n    b = a + x\n    return b\n"
    assert cost.Cost(called).operations[32] == 2


@pytest.mark.parametrize(
    ("seconds", "sizes", "lines", "bound", "share"),
    [
        (0.01, {10**6: 1}, ADD, "memory", 0.8),
        (0.01, {10**6: 1}, ADD.replace("x + x", "lgamma(x)"), "arithmetic", None),
        (1.0, {10**6: 1}, ADD, "latency", 0.008),
        (0.01, {10: 1000}, ADD, "latency", None),
        (0.005, {10: 1000}, ADD, "launch", None),
        # It cannot have read that much from memory.
        (0.005, {10**6: 1}, text("m = active(i)", "v = lane(i)", "w = gather(f64, p[1], v, m)",
                                 "reduce(f64, 'add', p[2], p[3], i, w)"), "latency", None),
    ],
)  # fmt: skip
def test_bounds(
    seconds: float, sizes: dict[int, int], lines: str, bound: str, share: float | None
) -> None:
    entry = {"seconds": seconds, "tier": "compiled"}
    limits = LIMITS if "lgamma" not in lines else {**LIMITS, "flops": {"f32": 1e9, "f64": 1e9}}
    cost.describe(entry, lines, Counter(sizes), limits)
    assert entry["bound"] == bound
    assert share is None or entry["share"] == pytest.approx(share)
    assert entry["gain"] == pytest.approx(seconds * (1 - entry["share"]), rel=1e-3)
    assert not entry["modelled"]


def test_unknown_limits_and_texts() -> None:
    entry = {"seconds": 1.0, "tier": "compiled"}
    cost.describe(entry, ADD, Counter({10: 2}), {})
    assert (entry["read"], entry["written"], entry["operations"]) == (80, 80, 20)
    assert entry["bound"] == "" and entry["share"] == entry["gain"] == 0
    entry = {"seconds": 1.0, "tier": "compiled"}
    cost.describe(entry, "def kernel(i, p):\n    x = ", Counter({10: 2}), LIMITS)
    assert entry["operations"] == 0 and "could not be counted" in entry["words"][0]


def test_costs_of_traced_programs() -> None:
    n = 100_000
    x, y = dr.opaque(Float, 1, n), dr.opaque(Float64, 1, n)
    with dr.report() as r:
        dr.eval(x * x + x, Float(y))
        dr.eval(dr.gather(Array3f, x, dr.arange(UInt, n) % 33333))
    first, second = [e for e in r.data()["kernels"] if e["sizes"] == [[n, 1]]]
    if first["operations"] > second["operations"]:
        first, second = second, first
    both = {"read": first["read"] + second["read"], "written": first["written"] + second["written"]}
    assert both == {"read": 12 * n + 12 * n, "written": 8 * n + 12 * n}
    assert first["operations"] in (3 * n, 2 * n)  # a product and a sum, which may be fused
    assert r.data()["machine"]["bandwidth"] > 1e8

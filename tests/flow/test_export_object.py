"""Object files of frozen functions: linked, they compute what Python does, bit by bit, for arrays
that end where they end."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import slowly
from support.linked import Linked

import drjit as dr
from drjit import nn
from drjit.jit.cpu import variants
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    Bool,
    Float,
    Float16,
    Float64,
    Int8,
    TensorXf,
    TensorXf16,
    UInt,
)
from drjit.opt import Adam
from drjit_examples import leaving_python

pytestmark = [pytest.mark.usefixtures("optimized"), pytest.mark.processor]


@pytest.fixture
def optimized(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The variant of kernels that object files have, and one thread, so that the order of sums is
    known."""
    threads = dr.thread_count()
    monkeypatch.setattr(variants, "pinned", "compiled")
    dr.set_thread_count(1)
    yield
    dr.set_thread_count(threads)


def values(t: Any, n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng((seed, n))
    numbers = rng.random(n) if t._dtype.is_float else rng.integers(0, 5, n)
    return t((numbers < 0.5) if t is Bool else numbers.astype(t._dtype.numpy))


def linked(function: Any, path: Path, name: str = "step", **options: Any) -> Linked:
    dr.export(function, path / f"{name}.o", **options)
    return Linked(path / f"{name}.o")


def raw(a: Any) -> np.ndarray:
    found = a.numpy()
    return found.view("u2") if found.dtype == np.float16 else found


# ---- Functions of arrays, by what they need


def waves(x: Float, k: UInt, table: Float) -> Any:
    y = dr.sin(x) * dr.gather(Float, table, k)
    return y, 2 * y + 1


def kinds(x: Float64, m: Bool, i: Int8) -> Any:
    return dr.select(m, x, 0), ~m, i + 1, Float16(x)


def sums(x: Float) -> Any:
    return dr.sum(x), dr.max(x), dr.mean(dr.square(x))


def halves(x: Float16) -> Any:
    return dr.sum(x), x * 2, dr.sum(Float(x))


def histogram(x: Float, k: UInt) -> Any:
    bins = dr.zeros(Float, 7)
    dr.scatter_add(bins, x, k)
    return bins, dr.sum(bins)


def scans(x: Float) -> Any:
    return dr.cumsum(x), dr.prefix_sum(dr.sin(x)), dr.block_sum(x, 8), dr.block_prefix_sum(x, 8)


def sorts(x: Float, k: UInt) -> Any:
    return dr.sort(x), dr.argsort(x), dr.sort(k)


def changes(x: Float, y: Float) -> Any:
    dr.scatter(x, 2 * y, dr.arange(UInt, dr.width(y)))
    return dr.sum(y)


def literals(x: Float) -> Any:
    return dr.zeros(Float, dr.width(x)), Float(3), x, (x + 1, {"twice": 2 * x})


def slopes(x: Float) -> Any:
    dr.enable_grad(x)
    loss = dr.sum(dr.square(dr.sin(x)))
    dr.backward(loss)
    return loss, x.grad


def records(table: Float, k: UInt) -> Any:
    found = dr.gather(Array3f, table, k)
    dr.scatter(table, 2 * found, k + 5)
    return found.x + found.z


def choices(k: UInt, x: Float) -> Any:
    functions = [lambda x: x + 1, lambda x: dr.exp(x), lambda x: dr.sin(x) * x]
    return dr.switch(k % 3, functions, x)


def single(x: Float) -> Any:
    one = dr.sum(x)
    return dr.cumsum(one), dr.sort(one), dr.block_sum(x, 1), dr.sum(dr.reshape(x, (-1,)))


@dr.syntax
def iterates(x: Float) -> Any:
    i = UInt(0)
    while i < 10:
        x = x * x + 0.25
        i += 1
    return x


CASES: list[tuple[Callable, tuple[Any, ...]]] = [
    (waves, (Float, UInt, 7)), (kinds, (Float64, Bool, Int8)), (sums, (Float,)),
    (halves, (Float16,)), (histogram, (Float, UInt)), (scans, (Float,)), (sorts, (Float, UInt)),
    (changes, (Float, Float)), (literals, (Float,)), (slopes, (Float,)), (iterates, (Float,)),
    (records, (30, UInt)), (choices, (UInt, Float)), (single, (Float,)),
]  # fmt: skip


def flat(result: Any, name: str = "result") -> Iterator[tuple[str, Any]]:
    if isinstance(result, tuple | dict):
        rows = result.items() if isinstance(result, dict) else enumerate(result)
        for k, v in rows:
            yield from flat(v, f"{name}_{k}")
    else:
        yield name, result


@pytest.mark.parametrize(("function", "types"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_results_have_the_bits_of_those_in_python(
    function: Callable, types: tuple[Any, ...], tmp_path: Path
) -> None:
    def arguments(n: int) -> list[Any]:
        return [
            values(Float, t) if isinstance(t, int) else values(t, n, k)
            for k, t in enumerate(types)
        ]  # fmt: skip

    f = dr.freeze(function)
    for n in (800, 40000):
        dr.eval(f(*arguments(n)))
    library = linked(f, tmp_path)
    names = [field for field, t in library.fields("step") if t]
    for n in (8, 64, 1000, 30008):
        given = arguments(n)
        numbers = dict(zip(names, [a.numpy().copy() for a in given], strict=False))
        made = {f"{name}_capacity": 4 * n for name in names if f"{name}_capacity" in str(
            library.fields("step"))}  # fmt: skip
        found = library("step", 1, **numbers, **made)
        expected = {**dict(flat(f(*given))), **dict(zip(names, given, strict=False))}
        assert f.n_recordings == 1
        for name, a in expected.items():
            np.testing.assert_array_equal(found[name], raw(a), err_msg=f"{name}, {n} entries")


def test_threads_give_the_same_results_where_order_does_not_matter(tmp_path: Path) -> None:
    f = dr.freeze(waves)
    for n in (800, 40000):
        dr.eval(f(values(Float, n), values(UInt, n), values(Float, 7)))
    library = linked(f, tmp_path, "share")  # also what the code calls a function of its own
    n = 1 << 20
    given = {"x": values(Float, n), "k": values(UInt, n), "table": values(Float, 7)}
    numbers = {name: a.numpy() for name, a in given.items()}
    first = f(*given.values())[0]
    for threads in (0, 1, 3, 100):
        room = dict.fromkeys(("result_0_capacity", "result_1_capacity"), n + 5)
        found = library(threads=threads, **numbers, **room)
        np.testing.assert_array_equal(found["result_0"], first.numpy())


POOL = """
import _ctypes, ctypes, os, signal, sys, threading, time

class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("threads", "x", "x_size", "y", "room", "size")]

n = 1 << 19
library = ctypes.CDLL(sys.argv[1])
x = (ctypes.c_float * n)(*[k % 101 for k in range(n)])

def computed(threads):
    y = (ctypes.c_float * n)()
    arguments = Arguments(threads, ctypes.addressof(x), n, ctypes.addressof(y), n)
    assert library.wave(ctypes.byref(arguments)) == 0
    return bytes(y)

def check(expected):  # a thread that has ended is listed a little longer
    end = time.monotonic() + 60
    while len(os.listdir("/proc/self/task")) != expected and time.monotonic() < end:
        time.sleep(0.001)
    print(len(os.listdir("/proc/self/task")), end=" ")

def run():
    for _ in range(30):
        assert computed(3) == first

def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(not computed(1) == computed(3) == computed(2) == first)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0

first = computed(0)
check(1)
library.wave_end_threads()
for _ in range(2):
    assert computed(3) == first
    check(3)
    fork()
    callers = [threading.Thread(target=run) for _ in range(4)]
    for t in callers:
        t.start()
    for _ in range(9):
        fork()
    for t in callers:
        t.join()
    check(3)
    library.wave_end_threads()
    check(1)
computed(3)
library.wave_end_threads()
_ctypes.dlclose(library._handle)
check(1)
"""


def test_threads_wait_in_a_pool_until_they_are_ended(tmp_path: Path) -> None:
    @dr.freeze
    def wave(x: Float) -> Float:
        return dr.sin(x) * dr.exp(-x) + dr.tanh(x)

    for n in (3, 40):
        dr.eval(wave(values(Float, n)))
    linked(wave, tmp_path, "wave")
    run = [sys.executable, "-W", "ignore", "-c", POOL, tmp_path / "wave.so"]
    shown = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == ["1", "3", "3", "1", "3", "3", "1", "1"]


def test_products_are_fused_where_the_recording_fuses_them(tmp_path: Path) -> None:
    @dr.freeze
    def fused(x: Float, y: Float) -> Float:
        return x * y + x

    x, y = values(Float, 1000), values(Float, 1000, 1)
    for fast in (False, True):
        with dr.scoped_set_flag(dr.JitFlag.FastMath, fast):
            dr.eval(fused(x, y))
    library = linked(fused, tmp_path, "fused")
    given = {"x": x.numpy(), "y": y.numpy(), "result_capacity": 1000}
    rounded, once = (library(name, 1, **given)["result"] for name in library.structures)
    np.testing.assert_array_equal(rounded, x.numpy() * y.numpy() + x.numpy())
    assert (once != rounded).any()
    np.testing.assert_allclose(once, rounded, rtol=1e-6)


def test_captured_arrays_are_constants(tmp_path: Path) -> None:
    weights = Float(0.5, 2, 1)

    @dr.freeze
    def weighted(x: Float, k: UInt) -> Float:
        return x * dr.gather(Float, weights, k)

    for n in (2, 4):
        dr.eval(weighted(values(Float, n), values(UInt, n) % 3))
    library = linked(weighted, tmp_path)
    x, k = values(Float, 3), UInt(0, 1, 2)  # as many entries as the constant has
    found = library(x=x.numpy(), k=k.numpy(), result_capacity=3)["result"]
    np.testing.assert_array_equal(found, (x * dr.gather(Float, weights, k)).numpy())


def test_what_it_captures_is_as_it_is_now(tmp_path: Path) -> None:
    scene: dict[str, Any] = {"gain": Float(2)}

    @dr.freeze
    def gained(x: Float) -> Float:
        return x * scene["gain"]

    for gain in (Float(2), Float(3), dr.opaque(Float64, 4), Float(5)):
        scene["gain"] = gain
        for n in (2, 4):
            dr.eval(gained(values(Float, n)))
    scene["gain"] = Float(7)  # a literal that has become data
    library = linked(gained, tmp_path)
    x = values(Float, 100).numpy()
    assert [*library.structures] == ["step"]  # what it recorded for other literals is left out
    np.testing.assert_array_equal(library(x=x, result_capacity=100)["result"], 7 * x)


def test_what_it_captures_may_still_be_computed(tmp_path: Path) -> None:
    scene: dict[str, Any] = {"gain": dr.opaque(Float, 3, 4)}

    @dr.freeze
    def gained(x: Float, k: UInt) -> Float:
        return x * dr.gather(Float, scene["gain"], k)

    for n in (2, 3):
        dr.eval(gained(values(Float, n), dr.opaque(UInt, 0, n)))
    scene["gain"] = slowly(dr.opaque(Float, 1, 4))
    dr.eval(scene["gain"])
    found = linked(gained, tmp_path)(x=np.ones(9), k=np.zeros(9), result_capacity=9)
    np.testing.assert_array_equal(found["result"], np.full(9, 2))


def test_a_function_from_a_file_can_be_exported(tmp_path: Path) -> None:
    f = dr.freeze(slopes)
    for n in (800, 40000):
        dr.eval(f(values(Float, n)))
    dr.save(tmp_path / "f.dr", f)
    library = linked(dr.load(tmp_path / "f.dr"), tmp_path)
    x = values(Float, 100).numpy()
    found = library(argument0=x, argument0_grad_capacity=100, result_1_capacity=100)
    expected = f(values(Float, 100))
    np.testing.assert_array_equal(found["result_1"], expected[1].numpy())


def test_tensors(tmp_path: Path) -> None:
    @dr.freeze
    def products(a: TensorXf, b: TensorXf) -> Any:
        return dr.sum(a, axis=0), dr.sum(a, axis=1), a @ b, b @ b.T

    def tensors(n: int) -> tuple[TensorXf, TensorXf]:
        return TensorXf(values(Float, 48 * n), (n, 48)), TensorXf(values(Float, 960), (48, 20))

    given = tensors(300)
    expected = products(*given)
    library = linked(products, tmp_path, "products")
    assert "const float *a; size_t a_size; /* shape (n, 48) */" in library.header
    a, b = (t.numpy() for t in given)
    room = {f"result_{k}_capacity": 6000 for k in range(4)}
    found = library("products", 1, a=a, b=b, **room)
    for k, t in enumerate(expected):
        np.testing.assert_array_equal(found[f"result_{k}"], t.numpy().ravel())
    with pytest.raises(RuntimeError, match="there are recordings for a_size = 14400, b_size = 960"):
        library("products", 1, a=a[:5], b=b, **room)


def test_names_that_are_the_same_in_c_are_told_apart(tmp_path: Path) -> None:
    @dr.freeze
    def weighted(a: Array2f, a_x: Float, result: Float) -> Any:
        return a.x + 10 * a_x + 100 * a.y, dr.sum(result)

    @dr.freeze
    def total(result: Float) -> Float:
        return dr.sum(result)

    @dr.freeze
    def pair(*given: Float, **named: Float) -> Float:
        return given[0] + 10 * named["argument0"]

    for n in (2, 4):
        x, y, z, w = (values(Float, n, k) for k in range(4))
        dr.eval(weighted(Array2f(x, y), z, w), total(w), pair(x, argument0=y))
    library = linked(weighted, tmp_path, "weighted")
    a_x, a_y, other = (np.full(3, k) for k in (1, 3, 2))
    given = {"a_x": a_x, "a_x_2": other, "a_y": a_y, "result": np.ones(3)}
    found = library(**given, result_0_capacity=3)
    np.testing.assert_array_equal(found["result_0"], np.full(3, 321))
    library = linked(total, tmp_path, "total")
    assert "const float *result; size_t result_size;" in library.header
    np.testing.assert_array_equal(library(result=a_y)["result_2"], [9])
    library = linked(pair, tmp_path, "pair")
    found = library(argument0=a_x, argument0_2=other, result_capacity=3)
    np.testing.assert_array_equal(found["result"], np.full(3, 21))


def test_changes_of_arguments_do_not_see_each_other(tmp_path: Path) -> None:
    @dr.freeze
    def moved(x: list[Float]) -> None:
        x[0], x[1], x[2] = dr.zeros(Float, dr.width(x[1])), x[0], x[1]

    def rows(n: int) -> list[Float]:
        return [values(Float, n, k) for k in range(3)]

    for n in (2, 4):
        moved(rows(n))
    given = {f"x_{k}": a.numpy() for k, a in enumerate(rows(70))}
    found = linked(moved, tmp_path, "moved")("moved", 1, **given)
    for name, expected in (("x_0", 0 * given["x_0"]), ("x_1", given["x_0"]), ("x_2", given["x_1"])):
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


@dr.syntax
def reversed_loop(x: Float) -> Float:
    dr.enable_grad(x)
    y, i = Float(x), UInt(0)
    while i < 5:
        y = dr.sin(y) + x
        i += 1
    dr.backward(dr.sum(y))
    return x.grad


def test_a_loop_differentiated_in_reverse_mode(tmp_path: Path) -> None:
    f = dr.freeze(reversed_loop)
    x = values(Float, 50)
    expected = f(x)
    found = linked(f, tmp_path)(x=x.numpy(), result_capacity=50, x_grad_capacity=50)
    np.testing.assert_array_equal(found["result"], expected.numpy())


# ---- Networks


def network(rng: Any, grid: bool) -> Any:
    first: Any = nn.SinEncode(8, 0.2)
    if grid:
        encoding = nn.HashGridEncoding(
            Float16, 2, n_levels=4, n_features_per_level=2, per_level_scale=1.5, rng=rng
        )
        first = nn.HashEncodingLayer(encoding)
    layers = [first, nn.Cast(Float16), nn.Linear(-1, 32, bias=False), nn.ReLU(), nn.Linear(-1, 3)]
    net = nn.Sequential(*layers).alloc(TensorXf16, 2, rng=rng)
    return nn.pack(net, layout="training")


@pytest.mark.parametrize("grid", [False, True])
def test_networks(grid: bool, tmp_path: Path) -> None:
    net = network(dr.rng(seed=0), grid)

    @dr.freeze
    def field(p: Array2f) -> Array3f:
        return Array3f(net(nn.CoopVec(p)))

    for n in (256, 5000):
        dr.eval(field(Array2f(values(Float, n), values(Float, n, 1))))
    library = linked(field, tmp_path, "field")
    for n in (100, 70000):
        p = Array2f(values(Float, n), values(Float, n, 1))
        room = {f"result_{axis}_capacity": n for axis in "xyz"}
        given = {"p_x": p.x.numpy(), "p_y": p.y.numpy(), **room}
        found = library("field", 2, **given)
        expected = field(p)
        for axis in "xyz":
            got = getattr(expected, axis).numpy()
            np.testing.assert_array_equal(found[f"result_{axis}"], got)


def test_a_training_step_changes_the_optimizer_and_the_network(tmp_path: Path) -> None:
    def setup() -> tuple[Any, Any]:
        rng = dr.rng(seed=0)
        net = nn.Sequential(nn.Linear(-1, 32, bias=False), nn.ReLU(), nn.Linear(-1, 3))
        net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")
        opt = Adam(lr=5e-3)
        opt.update(net)
        return net, opt

    @dr.freeze
    def train(net: Any, opt: Any, x: Float, y: Float) -> Float:
        net.update(opt)
        found = Array3f(net(nn.CoopVec(Float16(x), Float16(y))))
        loss = dr.mean(dr.square(Array3f(x, y, x * y) - found), axis=None)
        dr.backward(loss)
        opt.step()
        return dr.detach(loss)

    def batch(k: int) -> tuple[Float, Float]:
        return values(Float, 4096, 2 * k), values(Float, 4096, 2 * k + 1)

    for k in range(3):
        dr.eval(train(*setup(), *batch(k)))
    net, opt = setup()
    for k in range(2):
        dr.eval(train(net, opt, *batch(k)))
    library = linked(train, tmp_path, "train")
    first, later = library.structures
    net, opt = setup()
    state = {"weights": opt["weights"].numpy(), "packed": net.layers[0].weights.buffer.numpy()}
    # The state as C has it: what a call writes is given to the next one.
    held: dict[str, Any] = {}
    names = [field for field, t in library.fields(first) if t]
    for name in names:
        if "buffer" in name:
            held[name] = state["packed"]
        elif name == "opt_state_weights_0":
            held[name] = state["weights"]
        elif name.startswith("opt_state"):
            held[name] = np.zeros(state["weights"].size)
    for k, which in enumerate([first, later, later]):
        x, y = batch(k)
        known = {f for f, t in library.fields(which) if t}
        given = {name: v for name, v in held.items() if name in known}
        found = library(which, x=x.numpy(), y=y.numpy(), **given)
        held |= {name: v.copy() for name, v in found.items() if name not in ("x", "y", "result")}
        loss = train(net, opt, x, y)
        np.testing.assert_array_equal(found["result"], loss.numpy())
    found = held["opt_state_weights_0"].astype(np.float16)  # as the optimizer shows them
    np.testing.assert_array_equal(found, opt["weights"].numpy())


# ---- The programs of the example


def test_the_programs_of_the_example_compute_what_python_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaving_python, "SIZE", 24)
    colour = leaving_python.export_field(leaving_python.learn(2), tmp_path)
    view, mismatch = leaving_python.export_torus(tmp_path)
    frame = leaving_python.export_frame(tmp_path)
    for source, given in (("field.c", "50"), ("fit.cpp", "7"), ("zoom.c", "2")):
        shutil.copy(leaving_python.SOURCES / source, tmp_path)
        if not leaving_python.run(source, tmp_path, given):
            pytest.skip("no compiler")

    def pixels(name: str, count: int) -> np.ndarray:
        return np.frombuffer((tmp_path / name).read_bytes()[-count:], np.uint8)

    f = np.float32
    k = np.arange(50 * 50)
    x, y = ((n.astype(f) + f(0.5)) / f(50) for n in (k % 50, k // 50))
    expected = np.stack([c.numpy() for c in colour(Float(x), Float(y)).values()], 1)
    assert expected.std() > 5
    np.testing.assert_array_equal(pixels("field.ppm", 3 * k.size), expected.ravel())

    wanted = view(dr.opaque(Float, 0.3))
    thickness, mean, square, left, square_left = f(0.2), f(0), f(0), f(1), f(1)
    for _ in range(100):
        given = dr.opaque(Float, float(thickness))
        loss, slope = mismatch(given, wanted).numpy()[0], given.grad.numpy()[0]
        mean = f(0.9) * mean + f(0.1) * slope
        square = f(0.99) * square + f(0.01) * slope * slope
        left, square_left = left * f(0.9), square_left * f(0.99)
        m, s = mean / (f(1) - left), square / (f(1) - square_left)
        thickness = thickness - f(0.005) * m / (np.sqrt(s) + f(1e-8))
    found = re.search(r"thickness (\S+) after 100 steps, error (\S+)", capfd.readouterr().out)
    assert found and [*map(f, found.groups())] == [thickness, loss]

    k = np.arange(480 * 270)
    x, y = (n.astype(f) * (f(2) / f(270)) for n in (k % 480 - 240, 135 - k // 480))
    scale = f(1)
    for name in ("zoom000.pgm", "zoom001.pgm"):
        numbers = [dr.opaque(Float, float(n)) for n in (-0.743643, 0.131826, scale)]
        expected = frame(Float(x), Float(y), *numbers).numpy()
        np.testing.assert_array_equal(pixels(name, k.size), expected)
        scale *= f(0.96)


FROM_FILES = """
import sys
import numpy as np
import drjit.auto
import drjit as dr
from drjit.auto.ad import Float

colour, view, mismatch, frame = (dr.load(f"{name}.dr") for name in sys.argv[1:])
x = Float(np.linspace(-1, 1, 5000, dtype=np.float32))
y = Float(np.linspace(0, 1, 5000, dtype=np.float32))
thickness = dr.opaque(Float, 0.2)
loss = mismatch(thickness, view(dr.opaque(Float, 0.3)))
plain = drjit.auto.Float
numbers = [dr.opaque(plain, k) for k in (-0.7, 0.1, 0.5)]
picture = frame(plain(x), plain(y), *numbers)
found = *colour(x, y).values(), loss, thickness.grad, picture
np.savez("found.npz", *[dr.detach(a).numpy() for a in found])
assert "drjit_examples" not in sys.modules
"""


def test_the_functions_of_the_example_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that has none of their code, they compute what they compute here."""
    monkeypatch.setattr(leaving_python, "SIZE", 24)
    colour = leaving_python.export_field(leaving_python.learn(2), tmp_path)
    functions = (
        colour,
        *leaving_python.export_torus(tmp_path),
        leaving_python.export_frame(tmp_path),
    )
    names = "colour", "view", "mismatch", "frame"
    for name, f in zip(names, functions, strict=True):
        dr.save(tmp_path / f"{name}.dr", f)
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "DRJIT_TIER": "compiled",
        "DRJIT_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, "-c", FROM_FILES, *names]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    _, view, mismatch, frame = functions
    x, y = (Float(np.linspace(a, 1, 5000, dtype=np.float32)) for a in (-1, 0))
    thickness = dr.opaque(Float, 0.2)
    loss = mismatch(thickness, view(dr.opaque(Float, 0.3)))
    plain = dr.auto.Float
    picture = frame(plain(x), plain(y), *[dr.opaque(plain, k) for k in (-0.7, 0.1, 0.5)])
    expected = *colour(x, y).values(), loss, thickness.grad, picture
    with np.load(tmp_path / "found.npz") as found:
        for k, a in enumerate(expected):
            np.testing.assert_array_equal(found[f"arr_{k}"], dr.detach(a).numpy(), strict=True)


# ---- What is refused


def test_sizes_are_checked(tmp_path: Path) -> None:
    f = dr.freeze(waves)
    for n in (800, 40000):
        dr.eval(f(values(Float, n), values(UInt, n), values(Float, 7)))
    library = linked(f, tmp_path)
    n = 100
    given = {
        "x": np.ones(n), "k": np.zeros(n), "table": np.ones(7), "result_0_capacity": n,
        "result_1_capacity": n,
    }  # fmt: skip
    for change, message in (
        ({"x": np.ones(1)}, "step: x_size must be 2 or more"),
        ({"k": np.ones(3)}, "step: k_size must be x_size"),
        ({"table": np.ones(3)}, "there are recordings for table_size = 7"),
        ({"result_1_capacity": 99}, "step: result_1_capacity is less than the result needs"),
        ({"k": np.full(n, 9)}, "step: dr.gather: an index is out of bounds for an array with 7"),
    ):
        with pytest.raises(RuntimeError, match=message):
            library("step", 1, **(given | change))
    library("step", 1, **given)
    assert library.message(0) == b"no error"
    assert library.message(12345) == b"an unknown error"


def compressed(x: Float) -> Any:
    return dr.compress(x > 0.5)


def test_what_cannot_leave_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.o"
    with pytest.raises(TypeError, match=r"is made of a frozen function"):
        dr.export(waves, path)
    f = dr.freeze(waves)
    with pytest.raises(RuntimeError, match="has not been recorded: call it first"):
        dr.export(f, path)
    f = dr.freeze(compressed)
    f(values(Float, 100))
    with pytest.raises(RuntimeError, match=r"cannot have dr.compress\(\), whose result has a size"):
        dr.export(f, path)
    count = dr.opaque(Float, 1, 3)

    @dr.freeze
    def counts(x: Float) -> Float:
        dr.scatter_add(count, x, UInt(0))
        return x + 1

    counts(values(Float, 100))  # which changes what it captures
    with pytest.raises(RuntimeError, match="changes of arrays that are not among its arguments"):
        dr.export(counts, path)
    f = dr.freeze(sums)
    f(values(Float, 100))
    with pytest.raises(ValueError, match="the target 'z80' is none of the processors"):
        dr.export(f, path, target="z80")
    with pytest.raises(ValueError, match="'a b' is not a name in C"):
        dr.export(f, path, name="a b")
    with pytest.raises(ValueError, match="'double' is not a name in C"):
        dr.export(f, tmp_path / "double.o")
    with pytest.raises(TypeError, match="takes neither examples nor 'gradient'"):
        dr.export(f, path=path, gradient=True)
    assert not path.exists()


# ---- Files


@pytest.mark.parametrize(
    ("target", "magic"),
    [
        ("x86-64-v3", b"\x7fELF\2\1\1"),
        ("x86_64-unknown-linux-gnu:x86-64-v4", b"\x7fELF\2\1\1"),
        ("neoverse-n1", b"\x7fELF\2\1\1"),
        ("aarch64-apple-darwin", b"\xcf\xfa\xed\xfe\x0c\0\0\1"),
        ("x86_64-pc-windows-msvc", b"d\x86"),
    ],
)
def test_targets(target: str, magic: bytes, tmp_path: Path) -> None:
    f = dr.freeze(histogram)
    dr.eval(f(values(Float, 100), values(UInt, 100)))
    made = dr.export(f, tmp_path / "f.obj", target=target).read_bytes()
    assert made.startswith(magic)
    assert (b"pthread" in made) != (b"CreateThread" in made) == ("windows" in target)
    assert "int f(f_arguments *arguments);" in (tmp_path / "f.h").read_text()


def test_an_object_file_needs_the_c_library_and_threads_only(tmp_path: Path) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm")
    f = dr.freeze(scans)
    for n in (800, 40000):
        dr.eval(f(values(Float, n)))
    dr.export(f, tmp_path / "f.o")
    shown = subprocess.run([nm, tmp_path / "f.o"], capture_output=True, text=True, check=True)
    rows = [line.split() for line in shown.stdout.splitlines()]
    needed = {row[1] for row in rows if row[0] == "U"}
    threads = {name for name in needed if name.startswith("pthread_")}
    assert "pthread_create" in threads
    assert needed - threads <= {"malloc", "free", "memcpy", "memset", "getpid"}
    exported = {row[2] for row in rows if len(row) == 3 and row[1] == "T"}
    assert exported == {"f", "f_message", "f_end_threads"}


PROGRAM = """
#include <stdio.h>
#include "wave.h"

int main(void) {
    float x[5] = {0, 1, 2, 3, 4}, y[5];
    wave_arguments a = {0};
    int code, k;
    a.x = x; a.x_size = 5; a.result = y; a.result_capacity = 5; a.threads = 2;
    code = wave(&a);
    if (code) { printf("%s\\n", wave_message(code)); return 1; }
    for (k = 0; k < 5; k++) printf("%.9g\\n", y[k]);
    a.result = 0;
    printf("%s\\n", wave_message(wave(&a)));
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["cc -std=c89 -pedantic", "c++"])
def test_programs_in_c_and_cpp(compiler: str, tmp_path: Path) -> None:
    command, *options = compiler.split()
    if shutil.which(command) is None:
        pytest.skip(f"no {command}")

    @dr.freeze
    def wave(x: Float) -> Float:
        return dr.sin(x) * 2

    for n in (3, 40):
        dr.eval(wave(values(Float, n)))
    dr.export(wave, tmp_path / "wave.o")
    main = tmp_path / ("main.c" if command == "cc" else "main.cpp")
    main.write_text(PROGRAM)
    run = [command, *options, "-Wall", "-Werror", "-o", "main", main.name, "wave.o"]
    subprocess.run([*run, "-lm", "-lpthread"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
    *numbers, message = shown.stdout.splitlines()
    expected = wave(Float(0, 1, 2, 3, 4)).numpy()
    np.testing.assert_array_equal(np.array(numbers, np.float32), expected)
    assert message == "wave: result is a null pointer"
    assert not re.search(r"[^\x00-\x7f]", (tmp_path / "wave.h").read_text())

"""Frozen functions in files: what a program without the code of the function gets from them."""

import collections
import dataclasses
import enum
import fractions
import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import slowly
from support.damaging import mutated, mutated_members

import drjit as dr
from drjit import nn
from drjit.auto.ad import (
    PCG32,
    Array2f,
    Array3f,
    Array3f16,
    Bool,
    Float,
    Float16,
    Int,
    Matrix3f,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt,
)
from drjit.flow.freeze import saved
from drjit.function.exchange import array_file
from drjit.function.exchange.array_file import FileFormatError
from drjit.jit import processor
from drjit.jit.cpu import variants
from drjit.jit.device import find
from drjit.jit.run.freeze import kernels_of_operations
from drjit.opt import Adam
from drjit_examples import neural_field


@dataclasses.dataclass
class Ray:
    origin: Array3f
    time: Float
    samples: int


class Camera:
    def __init__(self) -> None:
        self.origin = Array3f(1, 2, 3) + dr.opaque(Float, 1)
        self.frames = 0


table = dr.linspace(Float, 0, 1, 10) + 0
camera = Camera()
generator = PCG32(size=8)
texture = Texture2f(TensorXf(np.arange(48, dtype=np.float32).reshape(4, 4, 3)))


def gathered(x: Float, k: UInt) -> Any:
    return {"sine": dr.sin(x) * dr.gather(Float, table, k % 10), "list": [x, (k, dr.sum(table))]}


def moved(ray: Ray) -> Ray:
    return Ray(ray.origin + camera.origin, ray.time * 2, ray.samples)


def gradient(x: Float, w: Float) -> Any:
    dr.enable_grad(x, w)
    loss = dr.mean(dr.square(dr.sin(x * w) - 0.5))
    dr.backward(loss)
    return dr.detach(loss), x.grad, w.grad


def primitives(x: Float, k: UInt) -> Any:
    t = TensorXf(x, (len(x) // 4, 4))
    total = dr.zeros(Float, 4)
    dr.scatter_add(total, x, k % 4)
    return (
        dr.sort(x), dr.cumsum(x), dr.sum(t, axis=0), t @ dr.transpose(t), total,
        dr.block_reduce(dr.ReduceOp.Max, x, 4), dr.max(x),
    )  # fmt: skip


@dr.syntax
def looped(x: Float, n: Int) -> Float:
    i = Int(0)
    while i < n:
        x = dr.fma(x, 0.5, dr.sin(x))
        i += 1
    return x


def sampled(x: Float) -> Any:
    return generator.next_float32() + dr.sum(x), texture.eval(Array2f(x, 0.5))


def rotated(m: Matrix3f, v: Array3f) -> Any:
    return m @ v, dr.det(m), Bool(v.x > 0)


def floats(n: int) -> Float:
    return Float(np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32))


def numbers(n: int) -> UInt:
    return UInt(np.random.default_rng(n).integers(0, 100, n).astype(np.uint32))


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[int], tuple]]] = {
    "gathers from what it captures": (gathered, lambda n: (floats(n), numbers(n))),
    "objects of classes": (moved, lambda n: (Ray(Array3f(floats(n), 0, 1), floats(n), 3),)),
    "gradients": (gradient, lambda n: (floats(n), floats(n + 1)[:n])),
    "primitives": (primitives, lambda n: (floats(n), numbers(n))),
    "loops": (looped, lambda n: (floats(n), Int(numbers(n)) % 5)),
    "matrices": (rotated, lambda n: (Matrix3f(*[floats(n + k)[:n] for k in range(9)]),
                                     Array3f(floats(n), 2, 3))),
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of NumPy add in another order: what is compared bit by bit has to run in one tier."""
    if variants.pinned == "auto":
        monkeypatch.setattr(variants, "pinned", "compiled")


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal, bit by bit."""
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if dr.is_array_v(a):
        return (
            type(a) is type(b) and dr.detach(a).numpy().tobytes() == dr.detach(b).numpy().tobytes()
        )
    if dataclasses.is_dataclass(a):
        return all(same(v, getattr(b, name)) for name, v in vars(a).items())
    return a == b


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_do_the_same(name: str, tmp_path: Path, tier: str) -> None:
    f, arguments = FUNCTIONS[name]
    frozen, file = dr.freeze(f), tmp_path / "f.dr"
    for n in (8, 12):
        frozen(*arguments(n))
    dr.save(file, frozen)
    for trusted in (False, True):
        loaded = dr.load(file, trusted=trusted)
        dr.save(tmp_path / "again.dr", loaded)
        loaded = dr.load(tmp_path / "again.dr")
        for n in (8, 12) if name == "primitives" else (8, 12, 16, 8):  # products have fixed sizes
            expected, found = f(*arguments(n)), loaded(*arguments(n))
            assert same(frozen(*arguments(n)), found)
            assert name == "primitives" or repr(expected) == repr(found)


def test_kernels_do_what_they_did(tmp_path: Path) -> None:
    f, arguments = FUNCTIONS["loops"]
    frozen = dr.freeze(f)
    frozen(*arguments(8))
    dr.save(tmp_path / "f.dr", frozen)
    device: Any = find(dr.backend_v(Float))
    known = [k.work for k in device.kernels() if k.loops]
    device.forget_kernels()
    assert dr.load(tmp_path / "f.dr").reader.kernels[0].work in known


def test_kernels_of_operations_are_kept_once() -> None:
    sizes = []
    for _ in range(3):
        dr.freeze(lambda x: dr.cumsum(x))(floats(8))
        sizes.append(sum(map(len, kernels_of_operations.values())))
        dr.flush_kernel_cache()
    assert sizes[0] and len({*sizes}) == 1


def test_state_lives_on_in_the_function(tmp_path: Path) -> None:
    frozen = dr.freeze(sampled)
    frozen(floats(8))
    dr.save(tmp_path / "f.dr", frozen)
    loaded = dr.load(tmp_path / "f.dr")
    for k in range(3):
        assert same(frozen(floats(8)), loaded(floats(8)))
        dr.save(tmp_path / f"{k}.dr", loaded)  # as it is by then
        loaded = dr.load(tmp_path / f"{k}.dr")
    assert not same(loaded(floats(8)), loaded(floats(8)))


class Scene:
    """Whose method is frozen, and whose attributes are of all kinds."""

    def __init__(self) -> None:
        self.values = dr.arange(Float, 5) + 0
        self.count, self.module, self.kind = len, dr, Float
        self.scaled = functools.partial(lambda a, b: a * b, b=dr.opaque(Float, 2))

    @dr.freeze
    def render(self, t: Float, *, bias: float = 0.5) -> Any:
        chosen = dr.compress(t > 1)
        return self.scaled(t) + dr.sum(self.values) * self.count([1, 2]) + bias, chosen


def test_a_method(tmp_path: Path) -> None:
    scene = Scene()
    for n in (4, 7):
        scene.render(dr.arange(Float, n), bias=1.5)
    dr.save(tmp_path / "f.dr", Scene.render)
    f = dr.load(tmp_path / "f.dr")
    for n in (4, 7):
        t = dr.arange(Float, n)
        assert same(scene.render(t, bias=1.5), f(Scene(), t, bias=1.5))


class Color(enum.Enum):
    RED, BLUE = 2, 3


class Level(enum.IntEnum):
    LOW, HIGH = 2, 3


@pytest.mark.parametrize(
    ("recorded", "other"),
    [
        (Color.RED, Color.BLUE), (Level.LOW, Level.HIGH), (np.float32(2), np.float32(3)),
        (np.float64(2), np.float64(3)), (np.int16(2), np.int16(3)), ("a", "b"), (2, 3),
        (frozenset({2}), frozenset({3})), (range(2), range(3)),
        (dr.JitFlag.Debug, dr.JitFlag.Record),
    ],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_values_are_told_apart(recorded: Any, other: Any, tmp_path: Path) -> None:
    camera = Camera()
    camera.kept = recorded  # type: ignore[attr-defined]

    @dr.freeze
    def f(x: Float, value: Any) -> Any:
        kept = camera.kept  # type: ignore[attr-defined]
        return x * sum(map(ord, repr((value, kept)))), None if is_set else (value, kept)

    is_set = isinstance(recorded, frozenset)  # which no function returns
    expected = f(floats(8), recorded)[0]
    for _ in range(2):
        dr.save(tmp_path / "f.dr", f)
        f = dr.load(tmp_path / "f.dr")
        found, values = f(floats(8), recorded)
        assert same(found, expected)
        for value in values or ():
            assert getattr(value, "name", value) == getattr(recorded, "name", recorded)
            assert type(value).__name__ == type(recorded).__name__
        with pytest.raises(TypeError, match=r"file has no recording for these arguments: (an|it)"):
            f(floats(8), other)


class Pair(list):
    pass


class Row(tuple):
    __slots__ = ()


@pytest.mark.parametrize("cls", [Pair, Row, list, tuple])
def test_containers_of_classes(cls: Any, tmp_path: Path) -> None:
    pair, names = cls([dr.opaque(Float, 2), 3]), collections.OrderedDict(a=dr.opaque(Float, 4))
    scaled = functools.partial(lambda a, b: a * b, b=dr.opaque(Float, 2))

    @dr.freeze
    def f(x: Float) -> Any:
        product = scaled(pair[0] * x * names["a"] * pair[1])
        return product, cls([x + 1, x]), collections.OrderedDict(b=x - 1)

    expected = f(floats(8))
    dr.save(tmp_path / "f.dr", f)
    found = dr.load(tmp_path / "f.dr")(floats(8))
    assert type(found[1]).__name__ == cls.__name__ and same(found, expected)


def test_arrays_that_are_one_value(tmp_path: Path) -> None:
    a = dr.opaque(Float, 2, 3)
    dr.enable_grad(a)
    dr.set_grad(a, dr.opaque(Float, 5, 3))
    b, c = dr.detach(a), dr.grad(a)

    @dr.freeze
    def f(x: Float) -> Any:
        return b * x, c + x, a.grad

    expected = f(floats(3))
    dr.save(tmp_path / "f.dr", f)
    assert same(dr.load(tmp_path / "f.dr")(floats(3)), expected)


def network() -> tuple[Any, Any]:
    rng = dr.rng(seed=0)
    net = nn.Sequential(
        nn.Linear(-1, 16, bias=False), nn.ReLU(), nn.Linear(-1, 3), nn.Tanh()
    )  # fmt: skip
    net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")
    opt = Adam(lr=5e-3)
    opt.update(net)
    return net, opt


def batch(k: int, n: int) -> tuple[Float16, Float16]:
    rng = dr.rng(seed=k)
    return rng.random(Float16, n), rng.random(Float16, n)


def test_a_training_step(tmp_path: Path) -> None:
    net, opt = network()

    @dr.freeze
    def step(x: Float16, y: Float16) -> Any:
        net.update(opt)
        found = Array3f16(net(nn.CoopVec(x, y)))
        loss = dr.mean(dr.square(Array3f16(x, y, x * y) - found))
        dr.backward(loss)
        opt.step()
        return dr.mean(dr.detach(loss))

    for n in (64, 96, 64):
        step(*batch(n, n))
    dr.save(tmp_path / "step.dr", step)
    loaded = dr.load(tmp_path / "step.dr")
    losses = [(step(*batch(k, 128))[0], loaded(*batch(k, 128))[0]) for k in range(20)]
    assert all(a == b for a, b in losses) and losses[-1][0] < losses[0][0]


PROGRAM = """
import sys
import drjit as dr
from drjit.auto.ad import Array3f, Float
f = dr.load(sys.argv[1], trusted=True)
class Ray:
    DRJIT_STRUCT = {"origin": Array3f, "time": Float, "samples": int}
ray = Ray()
ray.origin, ray.time, ray.samples = Array3f(Float(1, 2, 3, 4), 0, 1), Float(7, 8, 9, 10), 3
print(f(ray))
print("llvmlite" in sys.modules)
"""


def test_a_program_without_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dr.eval(floats(8) + 1)  # loads the launcher's code
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "mine"))  # which lacks the launcher
    frozen = dr.freeze(moved)
    for n in (8, 12):
        frozen(Ray(Array3f(floats(n), 0, 1) + 0, floats(n), 3))
    file = tmp_path / "f.dr"
    dr.save(file, frozen)
    env = {**os.environ, "DRJIT_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(file)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = moved(Ray(Array3f(Float(1, 2, 3, 4), 0, 1), Float(7, 8, 9, 10), 3))
    found, compiled = done.stdout.rsplit("\n", 2)[:2]
    on_gpu = dr.backend_v(Float) is dr.JitBackend.CUDA
    assert found == repr(expected) and compiled == str(on_gpu)  # PTX is written by LLVM


REPEAT = """
import sys
import numpy as np
from drjit.flow.freeze import saved
from drjit.jit import processor
from drjit.jit.cpu import kernel, launcher
import drjit as dr
from drjit.llvm.ad import Float, Int
file, part, forbidden, result = sys.argv[1:]
if part == "lacking":
    processor.runs = lambda architecture, features: False
if part != "own":
    saved._machine = lambda device: ["another"]
if forbidden == "forbidden":
    def refused(*arguments, **options):
        raise AssertionError("something is compiled")
    kernel.CpuKernel.compiled = launcher.loader.compiled = refused
f = dr.load(file, trusted=True)
x = np.random.default_rng(20000).uniform(-1, 1, 20000).astype(np.float32)
np.save(result, f(Float(x), Int(np.arange(20000) % 5)).numpy())
print(*{"llvmlite"} & {*sys.modules})
"""


def repeated(file: Path, part: str, *, forbidden: bool, target: str = "native") -> Any:
    """What a program without the code gets, and what it has imported."""
    folder = file.parent / f"cache-{part}-{forbidden}-{target}"
    path, result = os.pathsep.join(sys.path), file.parent / "result.npy"
    env = {
        **os.environ, "DRJIT_CACHE_DIR": str(folder), "PYTHONPATH": path,
        "DRJIT_TARGET_CPU": target, "DRJIT_TIER": "compiled",
    }  # fmt: skip
    how = "forbidden" if forbidden else ""
    command = [sys.executable, "-c", REPEAT, str(file), part, how, str(result)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return np.load(result).tobytes(), done.stdout.split()


def on_processor() -> Any:
    """A recorded function of the processor, with kernels of its own and those of operations."""

    @dr.freeze
    def frozen(x: Float, n: Int) -> Float:
        rows = dr.sum(TensorXf(x, (len(x) // 4, 4)), axis=0)
        largest = dr.block_reduce(dr.ReduceOp.Max, x, 4)
        return looped(x, n) + dr.cumsum(dr.sort(x)) + dr.sum(rows.array) + dr.max(largest)

    for n in (16000, 20000):
        frozen(floats(n), Int(numbers(n)) % 5)
    return frozen


# What Linux says of some processors, as far as kernels may use it.
_V3 = "sse sse2 pni ssse3 fma sse4_1 sse4_2 movbe popcnt avx f16c lahf_lm abm bmi1 avx2 bmi2"
LINUX = {"haswell": _V3, "skylake-avx512": f"{_V3} avx512f avx512dq adx avx512cd avx512bw avx512vl"}
ON_PROCESSOR = dr.backend_v(Float) is dr.JitBackend.LLVM
X86 = pytest.mark.skipif(processor.architecture() != "x86-64", reason="names of x86 processors")


@pytest.mark.processor
@X86
def test_machine_code_for_other_processors(tmp_path: Path) -> None:
    file = tmp_path / "f.dr"
    dr.save(file, on_processor(), targets=["x86-64-v3", "x86-64-v4", "neoverse-n1"])
    arrays, facts = saved.described(on_processor(), "test", ["neoverse-n1"])
    ((_, _, number),) = facts["targets"][0]["code"][0]
    if sys.platform == "linux":
        assert arrays[number].tobytes()[18:20] == b"\xb7\0"  # ELF's number of AArch64
    own, imported = repeated(file, "own", forbidden=True)
    assert not imported or sys.platform != "linux"
    found, imported = repeated(file, "target", forbidden=True)
    assert not imported or sys.platform != "linux"
    dr.save(file, on_processor())
    expected, _ = repeated(file, "text", forbidden=False, target="x86-64-v3")
    assert own == found == expected


@pytest.mark.processor
@X86
def test_processors_that_this_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "f.dr"
    dr.save(file, on_processor(), targets=["neoverse-n1", "x86-64-v3"])
    expected, _ = repeated(file, "own", forbidden=True)
    assert repeated(file, "lacking", forbidden=False) == (expected, ["llvmlite"])
    dr.save(file, on_processor(), targets=["neoverse-n1"])
    assert repeated(file, "target", forbidden=False)[0] == expected


def test_the_best_fitting_code_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x86-64-v3", "alderlake", "x86-64-v4", "znver4", "neoverse-n1"]
    wanted = {name: processor.named(name) for name in names}
    parts = [
        {"needs": [sys.platform, t.architecture, *t.features], "made": saved._made_by(), "name": n}
        for n, t in wanted.items()
    ]
    facts = {"machines": {"LLVM": ["another"]}, "targets": parts}

    def best_name() -> str | None:
        found = saved._fitting(facts, find(dr.JitBackend.LLVM))
        return None if found is None else found["name"]

    monkeypatch.setattr(processor, "_is_arm", lambda: False)
    monkeypatch.delenv("DRJIT_TARGET_CPU", raising=False)
    for flags, best in (
        ("sse avx2", None),
        (LINUX["haswell"], "x86-64-v3"),
        (LINUX["skylake-avx512"], "x86-64-v4"),
    ):
        monkeypatch.setattr(processor, "_cpu_info", lambda flags=flags: {"flags": flags})
        assert best_name() == best
    parts[2]["made"] = ["another version"]
    assert best_name() == "x86-64-v3"
    monkeypatch.setattr(processor, "_is_arm", lambda: True)
    flags = "fp asimd evtstrm aes crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"
    monkeypatch.setattr(processor, "_cpu_info", lambda: {"Features": flags})
    assert best_name() == "neoverse-n1"


DRAW = """
import sys
import drjit as dr
from drjit.auto.ad import Array2f, Float, TensorXf
field = dr.load(sys.argv[1])
height, width = map(int, sys.argv[2:4])
x, y = [(dr.arange(Float, n) + 0.5) / n for n in (width, height)]
colours = TensorXf(field(Array2f(dr.meshgrid(x, y))), flip_axes=True)
dr.save(sys.argv[4], {"picture": dr.reshape(colours, (height, width, 3))})
print(*{"drjit_examples", "drjit.opt", "imageio"} & {*sys.modules})
"""


@pytest.mark.parametrize(("encoding", "half"), [("hash", True), ("permuto", False), ("sin", True)])
def test_a_trained_field_is_drawn_by_a_program_without_it(
    encoding: str, half: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neural_field, "GRID", 16)
    monkeypatch.setattr(neural_field, "LEVELS", 3)
    t = np.linspace(0, 1, 32, dtype=np.float32)
    picture = np.stack([*np.meshgrid(t, t[:20]), np.full((20, 32), 0.5, np.float32)], -1)
    file, drawn = tmp_path / "field.dr", tmp_path / "drawn.npz"
    learnt, _ = neural_field.train(TensorXf(picture), 12, half, encoding, field=file)
    assert learnt.std() > 0.01
    command = [sys.executable, "-c", DRAW, str(file), "20", "32", str(drawn)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stdout.split()
    found = np.clip(dr.load(drawn)["picture"], 0, 1)
    np.testing.assert_allclose(found, learnt, rtol=0, atol=2e-3 if half else 1e-5)


ON_GPU = """
import sys
import drjit as dr
from drjit.cuda.ad import Float, UInt
from drjit.jit.cuda import assembler
from drjit.jit.cuda.kernel import CudaKernel
assembler.tools = tuple  # as the emulator runs PTX
def computed(x, k):
    total = dr.zeros(Float, 4)
    dr.scatter_add(total, x, k % 4)
    return dr.sin(x), total + dr.sum(x)
def shown(f):
    x, k = Float([n / 7 for n in range(40)]), UInt([*range(40)])
    print(*[a.numpy().tobytes().hex() for a in f(x, k)])
file, *targets = sys.argv[1:]
if targets:
    f = dr.freeze(computed)
    shown(f)
    dr.save(file, f, targets=targets)
    try:
        dr.save(file + ".dr", f, targets=["x86-64-v3"])
    except ValueError as error:
        assert "'x86-64-v3' is a processor, and none runs the function" in str(error)
else:
    kinds = []
    def lowered(self, *options, lowered=CudaKernel.lowered):
        kinds.append(self.device.capability)
        return lowered(self, *options)
    CudaKernel.lowered = lowered
    f = dr.load(file, trusted=True)
    shown(f)
    print(len(kinds))
"""


def test_machine_code_for_other_gpus(tmp_path: Path) -> None:
    file = tmp_path / "f.dr"

    def run(capability: str, *targets: str) -> list[str]:
        env = {
            **os.environ, "DRJIT_CUDA": f"emulated:{capability}", "DRJIT_LIBCUDA_PATH": "",
            "DRJIT_CACHE_DIR": str(tmp_path / capability), "PYTHONPATH": os.pathsep.join(sys.path),
        }  # fmt: skip
        command = [sys.executable, "-c", ON_GPU, str(file), *targets]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    expected = run("9.0", "sm_80", "sm_89")
    assert not Path(f"{file}.dr").exists()
    for capability in ("8.0", "8.9"):
        assert run(capability) == [*expected, "0"]
    *found, count = run("8.6")
    assert found == expected and int(count) > 0


# ---- What is refused


def recorded(f: Callable[..., Any] = gathered, *sizes: int) -> Any:
    frozen = dr.freeze(f)
    for n in sizes or (8, 12):
        frozen(floats(n), numbers(n))
    return frozen


def test_arguments_that_were_not_recorded(tmp_path: Path) -> None:
    dr.save(tmp_path / "f.dr", recorded())
    f = dr.load(tmp_path / "f.dr")
    x, k = floats(8), numbers(8)
    for arguments, why in (
        ((x, x * 2), "an argument is of type Float, UInt in the file"),
        ((x, k, k), "its arguments differ"),
        ((x, 1.0), "an argument is of type float, UInt in the file"),
        ((x, Camera()), "an argument is of type Camera, UInt in the file"),
        ((dr.auto.Float(x), k), r"an argument is of type (\S+)\.Float, \1\.ad\.Float in the file"),
    ):
        with pytest.raises(TypeError, match=f"gathered: the file has no recording .*: {why}"):
            f(*arguments)
    with pytest.raises(
        TypeError, match="gathered: no file has recordings for an object of type Fra"
    ):
        f(x, fractions.Fraction(1, 2))
    dr.save(tmp_path / "f.dr", recorded(gathered, 8))
    with pytest.raises(TypeError, match="its arrays have other sizes"):
        dr.load(tmp_path / "f.dr")(floats(12), numbers(12))
    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, False):
        with pytest.raises(RuntimeError, match="repeats its launches and cannot be traced"):
            f(x, k)
    assert same(f(x, k), gathered(x, k))


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    file = tmp_path / "f.dr"
    with pytest.raises(RuntimeError, match="has not been recorded: call it first"):
        dr.save(file, dr.freeze(gathered))
    with pytest.raises(RuntimeError, match="with 'state_fn' cannot be saved"):
        dr.save(file, dr.freeze(gathered, state_fn=lambda x, k: [table]))
    with pytest.raises(ValueError, match="those of frozen functions, and no others are"):
        dr.save(tmp_path / "f.npz", recorded())
    with pytest.raises(ValueError, match="those of frozen functions, and no others are"):
        dr.save(file, {"x": Float(1)})
    assert not file.exists()
    dr.save(file, recorded())
    with pytest.raises(TypeError, match="without 'state'"):
        dr.load(file, {"x": Float(1)})


@pytest.mark.parametrize(
    ("targets", "error", "why"),
    [
        (["quux"], ValueError, "no processor 'quux' with what kernels need.*such as 'x86-64-v3'"),
        (["x86-64-v2"], ValueError, "no processor 'x86-64-v2' with what kernels need, avx2, fma"),
        (["x86-64-v3", "pentium"], ValueError, "no processor 'pentium'"),
        ("native", TypeError, "'targets' is a list of names, got 'native'"),
        (["sm_80"], ValueError, "'sm_80' is a GPU, and none runs the function"),
        (["sm_81"], ValueError, "no GPU is 'sm_81'. Expected one of sm_70, .*, sm_90, sm_100"),
        (["sm_90a"], ValueError, "no GPU is 'sm_90a'"),
        ([80], TypeError, "'targets' is a list of names"),
    ],
)
@pytest.mark.processor
@X86
def test_targets_that_do_not_exist(
    targets: Any, error: type[Exception], why: str, tmp_path: Path
) -> None:
    file = tmp_path / "f.dr"
    with pytest.raises(error, match=f"dr.save.*{why}"):
        dr.save(file, on_processor(), targets=targets)
    with pytest.raises(TypeError, match="'targets' are for the machine code of frozen functions"):
        dr.save(tmp_path / "f.npz", {"x": Float(1)}, targets=["native"])
    assert not [*tmp_path.iterdir()]


@pytest.mark.processor
def test_targets_without_code_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(architecture: str) -> Any:
        raise RuntimeError("no such target")

    monkeypatch.setattr(processor, "backend", missing)
    with pytest.raises(ValueError, match="llvmlite was built without code generation for aarch64"):
        dr.save(tmp_path / "f.dr", on_processor(), targets=["neoverse-n1"])
    assert not [*tmp_path.iterdir()]


def test_versions(tmp_path: Path) -> None:
    file = tmp_path / "f.dr"
    for facts, why in (({"function": 99}, "a newer version"), ({}, "has no frozen function")):
        array_file.write(file, {"0": np.zeros(3)}, facts, "test")
        with pytest.raises(FileFormatError, match=why):
            dr.load(file)


def test_what_has_yet_to_be_computed(tmp_path: Path) -> None:
    offset = dr.opaque(Float, 1, 3)

    @dr.freeze
    def f(x: Float) -> Float:
        return x + offset

    f(floats(3))
    offset = offset * 2 + 5
    dr.save(tmp_path / "f.dr", f)
    assert same(dr.load(tmp_path / "f.dr")(floats(3)), floats(3) + 7)


@pytest.mark.processor  # the emulated GPU would take minutes
def test_what_is_still_being_computed(tmp_path: Path) -> None:
    offset = dr.opaque(Float, 1, 3)

    @dr.freeze
    def f(x: Float) -> Float:
        return x + offset

    f(floats(3))
    offset = slowly(offset)
    dr.eval(offset)
    dr.save(tmp_path / "f.dr", f)
    assert same(dr.load(tmp_path / "f.dr")(floats(3)), floats(3) + 2)


def test_texts_are_checked(tmp_path: Path) -> None:
    arrays, facts = saved.described(recorded(), "test")
    facts = json.loads(json.dumps(facts))
    file = tmp_path / "f.dr"

    def written(**changed: Any) -> None:
        found = facts | changed
        body = {k: v for k, v in found.items() if k not in ("function", "digest")}
        found["digest"] = saved.digest(arrays, body)
        named = {str(k): a for k, a in enumerate(arrays)}
        array_file.write(file, named, found, "test")

    backend, text, *more = facts["kernels"][0]
    for other, why in (
        ("import os\n", "a kernel text consists of functions"),
        (text.replace("store(", "open("), "open"),
        ("def kernel(i, p):\n    x = (\n", "never closed"),
    ):
        written(kernels=[[backend, other, *more]])
        with pytest.raises(FileFormatError, match=why):
            dr.load(file)
    for changed in (
        {"kernels": []}, {"classes": {}, "state": [{"leaf": ["os:system", 0, False, None]}]},
        {"state": [{"plain": {"class": "os:system"}}]}, {"structures": [{}]},
        {"state": [{"plain": {"operation": "os:system"}}]},
        {"state": [{"plain": {"scalar": ["O", {"bytes": "0000000000"}]}}]},
        {"state": [{"dict": ["numpy:memmap", [], []]}]},
        {"state": [{"plain": {"class": "numpy.f2py.__main__:main"}}]},
        {"state": [{"sequence": ["drjit.reporting.report:report", [], []]}]},
    ):  # fmt: skip
        written(**changed)
        with pytest.raises(FileFormatError):
            dr.load(file)
    written(machines={name: ["another"] for name in facts["machines"]})
    assert same(dr.load(file, trusted=True)(floats(8), numbers(8)), gathered(floats(8), numbers(8)))


@pytest.mark.parametrize("count", [50, pytest.param(2000, marks=pytest.mark.sweep)])
def test_damaged_files(tmp_path: Path, count: int) -> None:
    file = tmp_path / "f.dr"
    dr.save(file, recorded(), targets=["native" if ON_PROCESSOR else "sm_80"])
    whole, r, failed = file.read_bytes(), random.Random(count), 0
    for k in range(count):
        file.write_bytes((mutated, mutated_members)[k % 2](whole, r))
        try:
            f = dr.load(file, trusted=True)
        except FileFormatError as error:
            assert f"dr.load({str(file)!r})" in str(error)
            failed += 1
        else:
            assert same(f(floats(8), numbers(8)), gathered(floats(8), numbers(8)))
    assert failed > count / 2

"""The state of a program on disk: everything comes back exactly, and nothing is half restored."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit import nn, scalar
from drjit.llvm.ad import (
    PCG32,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int64,
    Matrix3f,
    Philox4x32,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt8,
)
from drjit.opt import SGD, Adam, GradScaler, Muon, RMSProp

ROOT = Path(__file__).parents[2]
EXAMPLES = os.pathsep.join([str(ROOT / "drjit_examples"), str(ROOT)])


@pytest.fixture(params=["npz", "safetensors"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"state.{request.param}"


@dataclass
class Particles:
    position: Array3f
    mass: Float
    steps: int = 0
    name: str = "dust"
    kind: type | None = None


@dataclass(frozen=True)
class Settings:
    rate: float
    weights: Float


class Camera:
    DRJIT_STRUCT: ClassVar = {"pose": Matrix3f, "film": TensorXf}

    def __init__(self, pose: Any = None, film: Any = None) -> None:
        self.pose, self.film = pose, film


class Pair(NamedTuple):
    a: Float
    b: Float


def network(seed: int) -> nn.Sequential:
    layers = [nn.Linear(-1, 5), nn.ReLU(), nn.Linear(-1, 3, bias=False)]
    return nn.Sequential(*layers).alloc(TensorXf, 2, rng=dr.rng(seed=seed))


def particles(k: float) -> Particles:
    return Particles(Array3f([k, 1], 2, [3, k]), Float(k, 5), int(k), f"name {k}")


# What makes a state for a number, and how to look at it.
def levels(k: float) -> Texture2f:
    """A texture whose stored differences are not those that its texels would give."""
    made = Texture2f(
        TensorXf(np.arange(16).reshape(4, 4, 1) * k),
        mip_filter=dr.MipFilter.Linear,
        mip_basis=dr.MipBasis.Laplacian,
    )
    made.set_tensor(1, made.tensor(1) + k)
    return made


STATES: dict[str, tuple[Callable[[float], Any], Callable[[Any], Any]]] = {
    "array": (lambda k: Float(1, k), np.array),
    "half": (lambda k: Float16(k, -0.0, dr.inf), np.array),
    "double": (lambda k: Float64(k / 7, dr.nan), np.array),
    "integers": (lambda k: [Int64(-(2**62), int(k)), UInt8(int(k))], lambda v: [*map(np.array, v)]),
    "mask": (lambda k: Bool(k > 1, True), np.array),
    "nested": (lambda k: (Array2f(k, [1, 2]), Complex2f(k, 1)), lambda v: [*map(np.array, v)]),
    "tensor": (lambda k: TensorXf16(np.full((2, 3, 1), k)), np.array),
    "empty": (lambda k: {"none": Float(), "x": Float(k)}, lambda v: [*map(np.array, v.values())]),
    "scalar": (lambda k: scalar.ArrayXf(k, 2), np.array),
    "numbers": (lambda k: {"i": int(k), "f": k / 3, "b": k > 1, "n": np.float32(k)}, dict),
    "numpy": (lambda k: [np.arange(3) * k], lambda v: v[0]),
    "text": (lambda k: {"x": f"run {k}", "y": Float(k)}, lambda v: (v["x"], np.array(v["y"]))),
    "lists": (lambda k: [[Float(k)], (Float(2), [k])], lambda v: repr(v)),
    "named tuple": (lambda k: Pair(Float(k), Float(2)), repr),
    "data class": (lambda k: particles(k), repr),
    "frozen data class": (lambda k: Settings(k, Float(k)), repr),
    "struct": (
        lambda k: Camera(Matrix3f(k), TensorXf(np.full((2, 2), k))),
        lambda v: [np.array(v.pose), np.array(v.film)],
    ),
    "network": (lambda k: network(int(k)), lambda v: [np.array(p) for p in v.values()]),
    "packed": (
        lambda k: nn.pack(network(int(k)), layout="training"),
        lambda v: [np.array(p) for p in v.values()],
    ),
    "generator": (
        lambda k: (lambda g: (g.random(Float, int(k)), g)[1])(dr.rng(seed=int(k))),
        lambda v: np.array(v.clone().random(Float, 9)),
    ),
    "generator of arrays": (
        lambda k: dr.rng(seed=dr.llvm.UInt64(int(k))),
        lambda v: np.array(v.clone().random(Float, 9)),
    ),
    "pcg32": (
        lambda k: PCG32(3, initstate=int(k)),
        lambda v: np.array(PCG32(v).next_float32()),
    ),
    "philox": (
        lambda k: Philox4x32(int(k), dr.arange(dr.llvm.UInt32, 3)),
        lambda v: np.array(Philox4x32(v).next_float32x4()),
    ),
    "texture": (
        lambda k: Texture2f(TensorXf(np.full((2, 3, 1), k))),
        lambda v: [np.array(v.tensor()), np.array(v.eval(Array2f(0.5, 0.5)))],
    ),
    "levels": (
        levels,
        lambda v: [np.array(v.tensor(k)) for k in (None, 0, 1, 2)],
    ),
    "grid": (
        lambda k: nn.HashGridEncoding(Float16, 2, n_levels=2, rng=dr.rng(seed=int(k))),
        lambda v: np.array(v.params),
    ),
    "scaler": (lambda k: GradScaler(2.0**k), lambda v: repr(v.state_dict())),
    "everything": (
        lambda k: {
            "net": network(int(k)),
            "opt": Adam(k, {"x": Float(k, k)}),
            "rng": dr.rng(seed=int(k)),
            "more": [particles(k), {"image": Texture2f(TensorXf(np.full((2, 3, 1), k)))}],
        },
        lambda v: [
            *[np.array(p) for p in v["net"].values()],
            np.array(v["opt"]["x"]),
            repr(v["opt"]),
            repr(v["rng"]),
            repr(v["more"][0]),
            np.array(v["more"][1]["image"].tensor()),
        ],
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_state_comes_back_bit_for_bit(path: Path, name: str) -> None:
    make, look = STATES[name]
    state, other = make(1), make(4)
    dr.save(path, state)
    assert same(look(state), look(make(1)))  # saving changes nothing
    assert not same(look(other), look(state))
    restored = dr.load(path, other)
    assert type(restored) is type(state)
    assert same(look(restored), look(state))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.usefixtures("tier")  # which may change in between otherwise
@pytest.mark.parametrize("kind", [SGD, Adam, RMSProp, Muon])
def test_an_optimization_goes_on_as_if_nothing_had_happened(path: Path, kind: Any) -> None:
    def fresh() -> dict[str, Any]:
        x = TensorXf(np.arange(6.0).reshape(2, 3))
        return {"opt": kind(0.1, {"x": x}), "scaler": GradScaler(256.0), "rng": dr.rng(seed=3)}

    def steps(state: dict[str, Any], n: int) -> None:
        for _ in range(n):
            opt = state["opt"]
            noise = state["rng"].normal(TensorXf, (2, 3))
            loss = dr.sum(dr.square(opt["x"] - noise), axis=None)
            dr.backward(state["scaler"].scale(loss))
            state["scaler"].step(opt)

    through, stopped = fresh(), fresh()
    steps(through, 7)
    steps(stopped, 4)
    dr.save(path, stopped)
    later = dr.load(path, fresh())
    steps(later, 3)
    assert same(np.array(later["opt"]["x"]), np.array(through["opt"]["x"]))


def test_objects_are_changed_in_place(path: Path) -> None:
    inner, opt = [Float(1)], Adam(1e-3, {"x": Float(1)})
    state = {"inner": inner, "opt": opt}
    dr.save(path, {"inner": [Float(7)], "opt": Adam(1e-3, {"x": Float(8)})})
    assert dr.load(path, state) is state
    assert (state["inner"] is inner, state["opt"] is opt) == (True, True)
    assert (inner[0][0], opt["x"][0]) == (7, 8)


def test_derivatives_are_tracked_as_before(path: Path) -> None:
    x, y = Float(1, 2), Float(3)
    dr.enable_grad(x)
    dr.set_grad(x, 5)
    dr.save(path, [x, y])
    later = dr.load(path, [x, y])
    assert dr.grad_enabled(later[0]) and not dr.grad_enabled(later[1])
    assert np.array(dr.grad(later[0])).tolist() == [0, 0]


def test_numpy_reads_the_file(tmp_path: Path) -> None:
    dr.save(tmp_path / "a.npz", {"x": Float(1, 2), "deep": [Float16(3)], "note": "hello"})
    with np.load(tmp_path / "a.npz") as file:
        assert file["x"].tolist() == [1, 2]
        assert (file["deep.0"].dtype, file["deep.0"].tolist()) == (np.float16, [3])
    assert dr.load(tmp_path / "a.npz")["note"] == "hello"
    assert nn.load(tmp_path / "a.npz")["x"].tolist() == [1, 2]


def test_only_common_entries_without_strict(path: Path) -> None:
    dr.save(path, {"x": Float(1), "y": Float(2)})
    state = {"y": Float(0), "z": Float(5)}
    with pytest.raises(KeyError, match=r"missing in the file: 'z'; surplus: 'x'"):
        dr.load(path, state)
    assert state["y"][0] == 0
    dr.load(path, state, strict=False)
    assert (state["y"][0], state["z"][0]) == (2, 5)


WRONG: list[tuple[Any, type[Exception], str]] = [
    ({"x": Float(1, 2, 3), "n": 1}, ValueError, r"'x' has shape \(3,\), in the file \(2,\)"),
    ({"x": Int64(1, 2), "n": 1}, TypeError, "'x' of type .*Int64 cannot take values of .*float32"),
    ({"x": Float(1, 2), "n": "one"}, TypeError, "'n' of type str cannot take a value of type"),
    ({"x": Float(1, 2)}, KeyError, "surplus: 'n'"),
]


@pytest.mark.parametrize(("state", "error", "message"), WRONG)
def test_a_state_that_does_not_fit_stays_as_it_is(
    path: Path, state: Any, error: type[Exception], message: str
) -> None:
    dr.save(path, {"x": Float(8, 9), "n": 7})
    state["y"] = opt = Adam(1e-3, {"p": Float(1)})
    dr.save(path.with_stem("more"), {"x": Float(8, 9), "n": 7, "y": Adam(1e-3, {"p": Float(6)})})
    before = repr(state)
    with pytest.raises(error, match=message):
        dr.load(path.with_stem("more"), state)
    assert repr(state) == before
    assert opt["p"][0] == 1


UNSAVABLE: list[tuple[Any, type[Exception], str]] = [
    ({"f": print}, TypeError, r"a value of type builtin_function_or_method at 'f' cannot be saved"),
    ({"a": [object()]}, TypeError, "a value of type object at 'a.0' cannot be saved"),
    ({1: Float(1)}, TypeError, "names must be strings, got 1"),
    ({"a.b": Float(1), "a": {"b": Float(2)}}, ValueError, "two entries with the name 'a.b'"),
    ({}, TypeError, "there is nothing to save in a value of type dict"),
    (None, TypeError, "a value of type NoneType cannot be saved"),
]


@pytest.mark.parametrize(("state", "error", "message"), UNSAVABLE)
def test_what_cannot_be_saved_damages_no_file(
    path: Path, state: Any, error: type[Exception], message: str
) -> None:
    dr.save(path, [Float(1)])
    with pytest.raises(error, match=message):
        dr.save(path, state)
    assert dr.load(path)["0"].tolist() == [1]
    assert [*path.parent.iterdir()] == [path]


def test_damaged_and_foreign_files_are_errors(path: Path) -> None:
    dr.save(path, [Float(1, 2, 3)])
    whole = path.read_bytes()
    for data in (b"", b"text", whole[: len(whole) // 2], whole[:-1]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"dr.load\(.*the file is damaged or of another"):
            dr.load(path, [Float(0, 0, 0)])
    nn.save(path, {"0": Float(1, 2, 3)})
    with pytest.raises(ValueError, match=r"was not written by dr\.save"):
        dr.load(path, [Float(0, 0, 0)])
    with pytest.raises(ValueError, match=r"unknown format '.pkl', expected one of .npz"):
        dr.save(path.with_suffix(".pkl"), [Float(1)])
    with pytest.raises(FileNotFoundError):
        dr.load(path.with_stem("none"))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    file = tmp_path / "evil.npz"
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("x.npy", "w") as member:
            np.lib.format.write_array(member, np.array([print], object), allow_pickle=True)
        archive.writestr("drjit.json", json.dumps({"version": 1, "text": {}}))
    with pytest.raises(ValueError, match="the file is damaged or of another format"):
        dr.load(file)


def test_files_of_newer_versions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "new.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("drjit.json", json.dumps({"version": 99}))
    with pytest.raises(ValueError, match=r"its format is 99, this version reads up to 1"):
        dr.load(file)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_training_that_was_killed_ends_with_the_same_bits(tmp_path: Path) -> None:
    """On one thread and in one tier: otherwise, the order of sums depends on time."""

    def command(name: str, iterations: int, every: int) -> list[str]:
        checkpoint = ["--checkpoint", f"{name}.npz", "--every", str(every)]
        count = ["--iterations", str(iterations), "--output", f"{name}.png"]
        code = "import neural_field; neural_field.GRID = 16; neural_field.main()"
        return [sys.executable, "-c", code, *count, *checkpoint]

    environment = {**os.environ, "DRJIT_NUM_THREADS": "1", "PYTHONPATH": EXAMPLES}
    environment["DRJIT_TIER"] = "compiled"
    options: Any = {"cwd": tmp_path, "env": environment, "stderr": subprocess.DEVNULL}
    subprocess.run(command("through", 60, 60), check=True, stdout=subprocess.DEVNULL, **options)
    running = subprocess.Popen(command("killed", 100_000, 5), stdout=subprocess.DEVNULL, **options)
    file = tmp_path / "killed.npz"
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    stopped_at = int(dr.load(file)["step"])
    assert 0 < stopped_at < 100_000
    if stopped_at < 60:
        done = subprocess.run(
            command("killed", 60, 60), check=True, capture_output=True, text=True, cwd=tmp_path,
            env=environment,
        )  # fmt: skip
        assert f"continues after step {stopped_at}" in done.stdout
        one, other = dr.load(tmp_path / "through.npz"), dr.load(file)
        assert one.keys() == other.keys()
        assert all(same(one[key], other[key]) for key in one)

"""Saving the parameters of networks and optimizers, and what is raised when that goes wrong."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers import settle

import drjit as dr
import drjit.nn as nn
from drjit.llvm.ad import (
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Matrix2f,
    TensorXf,
    TensorXf16,
    TensorXf64,
    UInt64,
)
from drjit.opt import Adam

FORMATS = [
    "npz",
    pytest.param(
        "safetensors",
        marks=pytest.mark.skipif(
            not __import__("importlib.util").util.find_spec("safetensors"),
            reason="the package safetensors is not installed",
        ),
    ),
]


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"state.{request.param}"


def network(dtype: type = TensorXf, seed: int = 0, prefix: str = "") -> nn.Sequential:
    layers = [nn.Linear(-1, 5), nn.ReLU(), nn.Linear(-1, 3, bias=False)]
    return nn.Sequential(*layers, prefix=prefix).alloc(dtype, 2, rng=dr.rng(seed=seed))


def values(state: dict) -> dict[str, np.ndarray]:
    return {key: value.numpy() for key, value in state.items()}


@pytest.mark.parametrize("dtype", [TensorXf16, TensorXf, TensorXf64])
@pytest.mark.parametrize("layout", [None, "training"])
def test_a_network_comes_back_bit_for_bit(path: Path, dtype: type, layout: str | None):
    first, second = network(dtype, 0, "net"), network(dtype, 1, "net")
    if layout:
        first, second = nn.pack(first, layout=layout), nn.pack(second, layout=layout)
    before = values(first)
    nn.save(path, first)
    read = nn.load(path, second)
    assert list(second) == list(before)
    for key, value in values(second).items():
        assert value.dtype == before[key].dtype
        np.testing.assert_array_equal(value, before[key])
        np.testing.assert_array_equal(read[key], before[key])


def test_values_of_all_types_come_back(path: Path):
    state = {
        "half": Float16(1, 6e-8, -0.0, dr.inf, 65504),
        "double": TensorXf64(np.arange(6.0).reshape(2, 3) / 7),
        "nested": Array3f(1, [2, 3], 4),
        "large": UInt64(2**63 + 1),
        "mask": Bool(True, False),
        "complex": Complex2f(1, 2),
        "matrix": Matrix2f(1, 2, 3, 4),
        "scalar tensor": TensorXf16(np.float16(3)),
        "empty": TensorXf([]),
        "file": Float(1),  # a name with a meaning of its own in NumPy's function
        "a/b.c": Float(2),
        "steps": 12,
        "rate": 0.1,
        "flag": True,
        "numpy": np.arange(3, dtype=np.int16),
    }
    nn.save(path, state)
    # Nothing that was there is left.
    other = {key: value if key in ("mask", "flag") else 0 * value for key, value in state.items()}
    other["steps"] = 0
    nn.load(path, other)
    for key, value in state.items():
        assert type(other[key]) is type(value)
        np.testing.assert_array_equal(np.array(other[key]), np.array(value))
        if hasattr(value, "numpy"):
            assert other[key].numpy().tobytes() == value.numpy().tobytes()


def test_values_are_read_without_a_mapping_to_put_them_into(path: Path):
    nn.save(path, {"x": Float16(1, 2)})
    read = nn.load(path)
    assert list(read) == ["x"]
    assert read["x"].dtype == np.float16
    np.testing.assert_array_equal(read["x"], [1, 2])


def test_numpy_reads_what_is_written(tmp_path: Path):
    nn.save(tmp_path / "a.npz", network())
    with np.load(tmp_path / "a.npz") as file:
        assert sorted(file) == ["layers.0.bias", "layers.0.weights", "layers.2.weights"]
        assert file["layers.0.weights"].shape == (5, 2)


def test_a_file_of_numpy_is_read(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.arange(3.0), y=np.float32(2))
    state = {"x": Float(0, 0, 0), "y": 0.0}
    nn.load(tmp_path / "a.npz", state)
    np.testing.assert_array_equal(state["x"], [0, 1, 2])
    assert state["y"] == 2


def test_precisions_are_converted(path: Path):
    nn.save(path, network(TensorXf))
    half = network(TensorXf16, 1)
    nn.load(path, half)
    expected = network(TensorXf)["layers.0.weights"].numpy().astype(np.float16)
    np.testing.assert_array_equal(half["layers.0.weights"].numpy(), expected)


def test_parameters_that_are_trained_are_saved(path: Path):
    net = network()
    dr.enable_grad(net)
    nn.save(path, net)
    assert dr.grad_enabled(net["layers.0.weights"])
    nn.load(path, net)
    np.testing.assert_array_equal(net["layers.0.bias"].numpy(), np.zeros(5))


def steps(net: nn.Module, optimizer: Adam, n: int) -> None:
    x = TensorXf16(np.linspace(-1, 1, 10).reshape(2, 5))
    for _ in range(n):
        net.update(optimizer)
        y = TensorXf(net(x))
        dr.backward(dr.sum(y * y, axis=None))
        optimizer.step()
    net.update(optimizer)


def test_an_optimization_goes_on_where_it_was(path: Path):
    net = network(TensorXf16)
    optimizer = Adam(0.01, dict(net))
    steps(net, optimizer, 3)
    nn.save(path, optimizer.state_dict())
    steps(net, optimizer, 3)

    other = network(TensorXf16, 1)
    resumed = Adam(0.5, dict(other))
    resumed.load_state_dict(nn.load(path))
    steps(other, resumed, 3)
    for (key, a), (name, b) in zip(optimizer.items(), resumed.items(), strict=True):
        assert key == name
        assert type(a) is type(b) is TensorXf
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    for key, value in values(net).items():
        np.testing.assert_array_equal(value, other[key].numpy())


def test_the_parameters_of_an_optimizer_are_its_own_in_single_precision(path: Path):
    net = network(TensorXf16)
    optimizer = Adam(0.01, dict(net))
    steps(net, optimizer, 1)
    expected = {key: value.numpy() for key, value in optimizer.items()}
    nn.save(path, optimizer)
    other = Adam(0.01, dict(network(TensorXf16, 1)))
    nn.load(path, other)
    for key, value in other.items():
        assert value.numpy().dtype == np.float32
        np.testing.assert_array_equal(value.numpy(), expected[key])
    assert np.any(expected["layers.0.weights"] != net["layers.0.weights"].numpy())


def test_names_that_differ(path: Path):
    nn.save(path, {"a": Float(1), "b": Float(2)})
    state = {"b": Float(0), "c": Float(0)}
    with pytest.raises(KeyError, match=r"missing in the file: 'c'; surplus: 'a'"):
        nn.load(path, state)
    assert state["b"] == 0
    nn.load(path, state, strict=False)
    assert state["b"] == 2
    assert list(state) == ["b", "c"]


def test_shapes_that_differ_leave_everything_as_it_is(path: Path):
    nn.save(path, {"a": Float(1), "b": Float(2, 3), "c": TensorXf([[1, 2]])})
    state = {"a": Float(0), "b": Float(0), "c": TensorXf([[0], [0]])}
    with pytest.raises(ValueError) as info:
        nn.load(path, state)
    assert "'b' has shape (1,), in the file (2,)" in str(info.value)
    assert "'c' has shape (2, 1), in the file (1, 2)" in str(info.value)
    assert state["a"] == 0


def test_kinds_that_differ(path: Path):
    nn.save(path, {"a": Float(1.5)})
    with pytest.raises(TypeError, match=r"'a' of type drjit\.llvm\.ad\.UInt64 .* float32"):
        nn.load(path, {"a": UInt64(1)})


def test_what_is_no_mapping_of_arrays(tmp_path: Path):
    path = tmp_path / "a.npz"
    with pytest.raises(TypeError, match="expected a mapping such as a module, got list"):
        nn.save(path, [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'a' is no array or number, but of type str"):
        nn.save(path, {"a": "text"})
    with pytest.raises(TypeError, match="names must be strings, got 3"):
        nn.save(path, {3: Float(1)})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="expected a mapping such as a module, got tuple"):
        nn.load(path, (1,))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_unknown_formats(tmp_path: Path):
    for f in (lambda: nn.save(tmp_path / "a.pt", {}), lambda: nn.load(tmp_path / "a.pt")):
        with pytest.raises(ValueError, match=r"unknown format '\.pt', expected one of \.npz"):
            f()


def test_a_failed_save_keeps_the_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    nn.save(path, {"a": Float(1)})
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"nn\.save\(.*cannot be written: No space left"):
        nn.save(path, {"a": Float(2)})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_interrupted_save_keeps_the_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    nn.save(path, {"a": Float(1)})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    settle()  # threads that write to the cache of kernels are not to be interrupted
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        nn.save(path, {"a": Float(2)})
    assert list(path.parent.iterdir()) == [path]
    assert nn.load(path)["a"] == 1


def test_a_folder_that_is_not_there(tmp_path: Path):
    path = tmp_path / "missing" / "a.npz"
    with pytest.raises(FileNotFoundError, match=r"nn\.save\('.*a\.npz'\): the file cannot be"):
        nn.save(path, {"a": Float(1)})
    with pytest.raises(FileNotFoundError):
        nn.load(path)
    (tmp_path / "b.npz").mkdir()
    with pytest.raises(OSError, match="cannot be written"):
        nn.save(tmp_path / "b.npz", {"a": Float(1)})
    assert [p.name for p in tmp_path.iterdir()] == ["b.npz"]


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 cut"])
def test_damaged_files(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged or of another format"):
        nn.load(path)


def test_cut_off_files(path: Path):
    nn.save(path, network())
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="damaged or of another format"):
        nn.load(path)


def test_pickles_are_not_read(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="damaged or of another format"):
        nn.load(tmp_path / "a.npz")


def test_the_package_of_a_format_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match=r"need the package 'safetensors'.*\.npz needs none"):
        nn.save(tmp_path / "a.safetensors", {"a": Float(1)})
    assert list(tmp_path.iterdir()) == []

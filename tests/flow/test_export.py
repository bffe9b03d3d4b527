"""Exported files: they run in a process that cannot see this package, for several sizes."""

import dataclasses
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.array.pytree import field_names
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    TensorXf,
    TensorXf16,
    UInt,
    UInt64,
)

SIZES = (0, 1, 15, 1700)

RUNNER = """
import pickle, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "drjit":
            raise ImportError("drjit cannot be seen here")

sys.meta_path.insert(0, Blocked())
folder = sys.argv[1]
sys.path.insert(0, folder)
with open(f"{folder}/calls.pickle", "rb") as file:
    calls = pickle.load(file)
results = {}
for key, (module, function, arguments) in calls.items():
    try:
        results[key] = getattr(__import__(module), function)(*arguments)
    except (IndexError, ValueError, TypeError) as error:
        results[key] = f"{type(error).__name__}: {error}"
assert not any(name.partition(".")[0] == "drjit" for name in sys.modules)
with open(f"{folder}/results.pickle", "wb") as file:
    pickle.dump(results, file)
"""


def run(folder: Path, calls: dict) -> dict:
    """Calls functions of exported files in a process that cannot import this package."""
    (folder / "calls.pickle").write_bytes(pickle.dumps(calls))
    (folder / "runner.py").write_text(RUNNER)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-I", str(folder / "runner.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return pickle.loads((folder / "results.pickle").read_bytes())


def numbers(n: Any, seed: int = 0, low: float = -4, high: float = 4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, n)


def plain(value: Any) -> Any:
    """The NumPy form of a result."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value))
    names = None if hasattr(value, "numpy") else field_names(type(value))
    if names is not None:
        return {name: plain(getattr(value, name)) for name in names}
    return value.numpy() if hasattr(value, "numpy") else value


def compare(found: Any, expected: Any, where: str, rtol: float) -> None:
    assert type(found) is type(expected), f"{where}: {found!r}"
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for k in expected:
            compare(found[k], expected[k], f"{where}[{k}]", rtol)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            compare(a, b, f"{where}[{k}]", rtol)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype and found.shape == expected.shape, where
        if rtol == 0 and expected.dtype.kind == "f":
            bits = f"u{expected.dtype.itemsize}"
            nan = np.isnan(expected) & np.isnan(found)
            same = (found.view(bits) == expected.view(bits)) | nan
            assert same.all(), f"{where}: {found[~same][:4]} is not {expected[~same][:4]}"
        else:
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=where)
    else:
        assert found == expected, where


# ---- The cases: a function, its arguments for a size, and the relative error (0: equal bits)


def floats(x, y, z):
    """Element-wise operations on floating-point numbers."""
    t = dr.fma(x, y, z)
    values = [
        x + y, x - y, x * y, x / y, -x, abs(x), dr.minimum(x, y), dr.maximum(x, y), t,
        dr.floor(x), dr.ceil(x), dr.trunc(x), dr.round(x), dr.sqrt(abs(x)),
        dr.select((x < y) & ~(z > 1) | (y == z), x, z), dr.rcp(y),
    ]  # fmt: skip
    whole = [c(x * 1e4) for c in (Int, UInt, Int64, UInt64)]
    return values, whole, [x <= y, x != y, (x < y) ^ (y < z)]


def library(x, y):
    """Functions of the library."""
    u = x * 0.24
    return [
        dr.sin(x), dr.cos(x * 1e6), dr.tan(x), dr.asin(u), dr.acos(u), dr.atan(x), dr.atan2(x, y),
        dr.sinh(x), dr.cosh(x), dr.tanh(x), dr.asinh(x), dr.acosh(abs(x) + 1), dr.atanh(u),
        dr.exp(x), dr.exp2(x * 40), dr.log(abs(x)), dr.log2(abs(x)), dr.cbrt(x), dr.erf(x),
        dr.erfinv(u), dr.lgamma(y), dr.power(abs(x), y), *dr.sincos(y),
    ]  # fmt: skip


def integers(x, y):
    """Element-wise operations on integers."""
    k = y & 7
    t = type(x)
    return [
        x + y, x - y, x * y, x // y, x % y, x // 7, x % 7, x & y, x | y, x ^ y, ~x, -x, x << k,
        x >> k, x << 3, x >> 3, x << 40 if t in (Int64, UInt64) else x << 20, dr.minimum(x, y),
        dr.maximum(x, y), dr.popcnt(x), dr.lzcnt(x), dr.tzcnt(x), dr.brev(x), abs(x),
        dr.mul_hi(x, y), Float(x), Float64(x), Float16(x >> 5), dr.select(x < y, x, y),
        UInt64(x), Int(x),
    ]  # fmt: skip


def memory(x, index, table):
    """Gathers, scatters, reductions over lanes, scans, and other moves between lanes."""
    n = dr.width(x)
    seen = dr.gather(Float, x, index, index < 1000)
    pairs = dr.gather(Array2f, table, index)
    total = dr.zeros(Float, 7)
    dr.scatter_add(total, x, index % 7)
    count = dr.zeros(UInt, n)
    old = dr.scatter_inc(count, index // 4)
    moved = dr.zeros(Float, n)
    dr.scatter(moved, x, index // 2 * 2 + index % 2)
    low = dr.full(Float, 10, 5)
    dr.scatter_reduce(dr.ReduceOp.Min, low, x, index % 5, mode=dr.ReduceMode.NoConflicts)
    sums = dr.sum(x), dr.prod(x * 0.01 + 1), dr.min(x), dr.max(x), dr.any(x > 3), dr.count(x > 0)
    return (
        seen,
        pairs,
        total,
        count,
        old,
        moved,
        list(sums),
        dr.cumsum(x),
        dr.sort(x),
        dr.argsort(x),
    )


@dr.syntax
def control(x, limit):
    """Loops, branches and calls."""
    k, y = UInt(0), Float(x)
    while (k < limit) & (abs(y) < 100):
        if k % 2 == 0:
            y = y * 1.5 + dr.exp(-20 * y * k)  # often beyond what is computed in all lanes
        else:
            y -= 0.25
        k += 1
    z = dr.switch(k % 3, [lambda v: v + 1, lambda v: v * 2, lambda v: dr.sin(v)], y)
    return y, k, z


@dataclasses.dataclass
class Pair:
    first: Float
    second: list


def structures(p: Pair, t, v, number):
    """PyTrees of arrays, tensors and numbers."""
    return {
        "p": Pair(p.first * number, [p.second[0] + 1]),
        "t": t * 2,
        "v": Array3f(v.x + 1, v.y + 2, v.z + 3),
        "s": dr.sum(t, axis=0),
        "m": (number, None),
        "x": p.first,
    }


def halves(x, y):
    """Half precision: every operation is rounded."""
    return [
        x + y, x * y, x / y, dr.fma(x, y, y), dr.sqrt(abs(x)), dr.exp(x), Float(x),
        Float64(x), Int(x), Float16(Float64(x) * 1.0001), dr.sum(x), dr.minimum(x, y), -x,
    ]  # fmt: skip


def loss(x, w):
    """A loss with a gradient."""
    t = dr.sin(x * w[0]) + w[1]
    return dr.mean(dr.square(t)), dr.gather(Float, x, dr.arange(UInt, dr.width(x)) // 2)


def gathered_loss(x, w):
    """The same for any number of entries, none as well."""
    at = dr.zeros(UInt, dr.width(x))
    t = dr.sin(x * dr.gather(Float, w[0], at)) + dr.gather(Float, w[1], at)
    return dr.mean(dr.square(t)), dr.gather(Float, x, dr.arange(UInt, dr.width(x)) // 2)


def network(kind, layers=1):
    """A network, whose weights become part of the file."""
    cast = [nn.Cast(Float16)] if kind is TensorXf16 else []
    hidden = [v for _ in range(layers) for v in (nn.Linear(-1, 18), nn.LeakyReLU())]
    net = nn.Sequential(nn.TriEncode(4, 0.2), *cast, *hidden, nn.Linear(-1, 3), nn.Exp())
    net = nn.pack(net.alloc(kind, 2, rng=dr.rng(seed=0)), layout="training")

    def field(p):
        return Array3f(net(nn.CoopVec(p)))

    return field


NET = nn.Sequential(nn.Linear(-1, 8), nn.Tanh(), nn.Linear(-1, 3)).alloc(
    TensorXf, 2, rng=dr.rng(seed=1)
)


def trained(p, target, net):
    """The loss of a network, whose weights are an argument."""
    packed = nn.pack(net, layout="training")
    return dr.mean(dr.squared_norm(Array3f(packed(nn.CoopVec(p))) - target))


@dr.syntax
def hops(table, at, rounds):
    """Follows indices for a number of steps that differs between lanes."""
    total = Float(at)
    while rounds > 0:
        total += dr.sin(Float(at))
        at = dr.gather(UInt, table, at)
        rounds = rounds - 1
    return total, at


def start_of_hops(n):
    return [UInt(7 * k % n for k in range(n)), dr.arange(UInt, n), dr.arange(Int, n) % 5]


CASES = {
    "hops": (hops, start_of_hops, 0),
    "floats32": (floats, lambda n: [Float(numbers(n, s)) for s in range(3)], 0),
    "floats64": (floats, lambda n: [Float64(numbers(n, s)) for s in range(3)], 0),
    "library32": (library, lambda n: [Float(numbers(n, 1)), Float(numbers(n, 2))], 0),
    "library64": (library, lambda n: [Float64(numbers(n, 1)), Float64(numbers(n, 2))], 0),
    "library16": (library, lambda n: [Float16(numbers(n, 1)), Float16(numbers(n, 2))], 0),
    **{
        f"integers_{t.__name__}": (
            integers,
            lambda n, t=t: [
                t(
                    np.random.default_rng(s).integers(0 if t in (UInt, UInt64) else -99, 99, n)
                    * (1 << 20 if s else 1)
                )
                for s in (1, 0)
            ],
            0,
        )
        for t in (Int, UInt, Int64, UInt64)
    },
    "halves": (halves, lambda n: [Float16(numbers(n, s)) for s in range(2)], 0),
    "memory": (
        memory,
        lambda n: [Float(numbers(n)), dr.arange(UInt, n), Float(numbers(2 * n))],
        1e-4,
    ),
    "control": (control, lambda n: [Float(numbers(n)), UInt(np.arange(n) % 40)], 0),
    "network": (network(TensorXf16), lambda n: [Array2f(numbers((2, n)))], 1e-3),
    "trained": (
        trained,
        lambda n: [Array2f(numbers((2, n), low=0)), Array3f(numbers((3, n))), NET],
        2e-4,
    ),
    "structures": (
        structures,
        lambda n: [
            Pair(Float(numbers(n)), [UInt(np.arange(n))]),
            TensorXf(numbers(n * 3).reshape(n, 3)),
            Array3f(numbers(n), numbers(n, 1), numbers(n, 2)),
            2.5,
        ],
        1e-5,
    ),
    **{
        f.__name__: (f, lambda n: [Float(numbers(n)), [Float(1.5), Float(0.5)]], 1e-5)
        for f in (loss, gathered_loss)
    },
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory, request) -> dict:
    """What the functions of all files return, called in one process."""
    folder = tmp_path_factory.mktemp("exported")
    calls = {}
    for name, (function, arguments, _) in CASES.items():
        if name in SWEPT and request.config.getoption("-m") != "sweep":
            continue
        gradient = name in GRADIENTS
        path = folder / f"{name}.py"
        dr.export(function, *arguments(24), path=path, name="f", gradient=gradient)
        for n in SIZES:
            function = "f_value_and_grad" if gradient else "f"
            calls[name, n] = name, function, plain(arguments(n))
    for name, (function, arguments, given) in CHECKED.items():
        dr.export(function, *arguments, path=folder / f"{name}.py", name="f")
        calls |= {(name, key): (name, "f", values) for key, values in given.items()}
    return run(folder, calls)


SWEPT = {
    *("integers_UInt64", "integers_UInt", "integers_Int64", "floats64"),
    *("library16", "library32", "library64"),
}
GRADIENTS = ("loss", "gathered_loss", "trained")
MARKED = [pytest.param(n, marks=pytest.mark.sweep) if n in SWEPT else n for n in CASES]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", MARKED)
def test_values(exported, name, n):
    function, arguments, rtol = CASES[name]
    if n == 0 and name in ("control", "loss"):
        with pytest.raises(RuntimeError, match=r"incompatible sizes \((0, 1|1, 0)\). .* empty"):
            function(*arguments(n))
        return
    found = exported[name, n]
    assert not isinstance(found, str), found
    found = found[0] if name in GRADIENTS else found
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):  # each operation is rounded
        expected = plain(function(*arguments(n)))
    compare(found, expected, f"{name}({n})", rtol)


@pytest.mark.parametrize(
    ("name", "n"), [(name, n) for name in GRADIENTS for n in SIZES if (name, n) != ("loss", 0)]
)
def test_gradients(exported, name, n):
    function, arguments, rtol = CASES[name]
    found = exported[name, n]
    assert not isinstance(found, str), found
    inputs = dr.detach(arguments(n))
    dr.enable_grad(inputs)
    result = function(*inputs)
    dr.backward(
        dr.sum(dr.ravel(result)) if name == "trained" else dr.sum(result[0]) + dr.sum(result[1])
    )
    compare(found[0], plain(dr.detach(result)), "value", rtol)
    for k, (a, b) in enumerate(zip(found[1], inputs, strict=True)):
        expected = plain(dr.grad(b)) if name != "trained" or k < 2 else None
        if expected is not None:
            compare(a, expected, f"gradient {k}", 10 * rtol)
    if name == "trained":
        for k in (0, 2):
            layer = inputs[2].layers[k]
            compare(found[1][2]["layers"][k]["weights"], plain(dr.grad(layer.weights)), "w", 1e-3)
            compare(found[1][2]["layers"][k]["bias"], plain(dr.grad(layer.bias)), "b", 1e-3)


def _checked(x, index, pair):
    return dr.gather(Float, x, index), x + 1, pair[1]


def _multiplies(weights, x):
    matrix = nn.view(TensorXf(dr.zeros(Float, 6), (3, 2)))
    matrix = matrix.changed(buffer=weights, offset=4)
    return list(nn.matvec(matrix, nn.CoopVec(x, x + 1)))


def _decides(x, y):
    return sum(dr.gather(Float, x, k) for k in range(len(x))) + y


ONES, INDEX = np.ones(5, np.float32), np.array([4, 0, 1], np.uint32)
HOPS = np.array([1, 9], np.uint32)
CHECKED = {
    "checked": (
        _checked,
        (Float(1, 2, 3), UInt(0, 1), (2.0, Float(1, 2, 3))),
        {
            "good": (ONES, INDEX, (2.0, ONES)),
            "bounds": (ONES, np.array([1, 5, 9], np.uint32), (2.0, ONES)),
            "sizes": (ONES, INDEX, (2.0, ONES[:4])),
            "number": (ONES, INDEX, (3.0, ONES)),
            "type": (ONES, np.ones(3, np.complex64), (2.0, ONES)),
            "axes": (ONES[:, None], INDEX, (2.0, ONES)),
            "list": ([1, 2, 3], [2], (2.0, [1, 2, 3])),
        },
    ),
    "hops": (
        hops,
        (UInt(1, 0), UInt(0, 1, 0), Int(1, 2, 3)),
        {
            # Only lane 70 goes on to the index that is out of bounds, in its third round.
            "late": (HOPS, np.zeros(80, np.uint32), np.where(np.arange(80) == 70, 3, 2)),
            "never": (HOPS, np.zeros(80, np.uint32), np.full(80, 2)),
        },
    ),
    "product": (
        _multiplies,
        (dr.zeros(Float, 12), Float(1, 2, 3, 4, 5)),
        {n: (np.ones(n, np.float32), ONES) for n in (9, 10)},
    ),
    "fixed": (
        _decides,
        (Float(1, 2, 3), Float(1, 2)),
        {n: (np.arange(1, n + 1, dtype=np.float32), np.ones(7, np.float32)) for n in (2, 3)},
    ),
}


def test_calls_are_checked(exported):
    found = {key: exported["checked", key] for key in CHECKED["checked"][2]}
    compare(found["good"], (np.ones(3, np.float32), ONES + 1, ONES), "good", 0)
    line = _checked.__code__.co_firstlineno + 1
    assert found["bounds"] == (
        "IndexError: dr.gather: index 5 is out of bounds for an array of size 5 (lane 1; traced at "
        f"test_export.py:{line} in _checked)"
    )
    assert found["sizes"] == "ValueError: pair[1]: expected 5 entries, got 4"
    assert found["number"] == "ValueError: pair[0]: the function was traced for 2.0, got 3.0"
    assert found["type"] == "TypeError: index: expected an array of uint32, got complex64"
    assert found["axes"] == "ValueError: x: expected an array of one axis, got the shape (5, 1)"
    compare(found["list"][0], np.array([3], np.float32), "list", 0)


def test_an_index_is_checked_in_each_round_of_a_loop(exported):
    line = hops.__code__.co_firstlineno
    assert exported["hops", "late"].startswith(
        "IndexError: dr.gather: index 9 is out of bounds for an array of size 2 (lane 70; "
        f"traced at test_export.py:{line + 5} in "
    )
    total, at = exported["hops", "never"]
    assert (at == 9).all() and np.allclose(total, np.sin(1))


def test_the_text_is_readable(tmp_path):
    def f(x):
        y = dr.sin(x) * 2
        return y + 1

    text = dr.export(f, Float(1, 2), path=tmp_path / "f.py").read_text()
    line = f.__code__.co_firstlineno + 1
    assert (
        f"        # test_export.py:{line} y = dr.sin(x) * 2\n        v0, rare = sin_f32(x0, "
        in text
    )
    assert "    x: array of float32\n" in text and "def f(x):\n" in text
    assert "    a0 = entries(x, np.float32, 'x')\n    n0 = a0.size\n" in text
    names = set(re.findall(r"^(?:import|from) (\w+)", text, re.M))
    known = "base64 concurrent itertools math numba numpy os sys zlib"
    assert names <= set(known.split())
    compile(text, "f.py", "exec")


@pytest.mark.parametrize("name", ["control", "hops"])
def test_no_statement_leaves_a_value_as_it_is(name, tmp_path):
    function, arguments, _ = CASES[name]
    text = dr.export(function, *arguments(15), path=tmp_path / "f.py", name="f").read_text()
    assert "while any_lane(" in text
    assert not re.findall(r"^ *(\w+) = \1$", text, re.M)


STATE = {"x": Float(1, 2, 3)}


def _reads(x):
    return x * float(dr.sum(x)[0])


def _compresses(x):
    return dr.gather(Float, x, dr.compress(x > 0))


def _scatters(x):
    dr.scatter(x, Float(1), UInt(0))
    return x


def _remembers(x):
    STATE["x"] = x + 1
    return x


@pytest.mark.parametrize(
    "function, message",
    [
        (_reads, r"at .*test_export.py:\d+ in _reads, the function reads the contents of an array"),
        (
            _compresses,
            r"at .*:\d+ in _compresses, dr.compress\(\) makes an array whose size depends",
        ),
        (_scatters, "changes an argument, or something outside of it, in place"),
        (_remembers, "changes an argument, or something outside of it, in place"),
        (lambda x: object(), "returns or stores an object of type object"),
    ],
)
def test_what_cannot_be_exported(tmp_path, function, message):
    with pytest.raises((RuntimeError, TypeError), match=message):
        dr.export(function, Float(1, 2, 3), path=tmp_path / "f.py")
    assert not (tmp_path / "f.py").exists()
    assert not dr.flag(dr.JitFlag.Debug) and not dr.flag(dr.JitFlag.FreezingScope)


def test_a_size_in_a_decision_is_fixed(exported):
    line = _decides.__code__.co_firstlineno + 1
    assert exported["fixed", 2] == (
        "ValueError: x: expected 3 entries, got 2 (the size 3 is fixed, because it decides about "
        f"the trace at test_export.py:{line} in _decides)"
    )
    compare(exported["fixed", 3], np.full(7, 7, np.float32), "sum", 1e-6)


def test_a_fixed_size_is_reported(tmp_path, capfd):
    dr.export(_decides, Float(1, 2, 3), Float(1, 2), path=tmp_path / "f.py")
    line = _decides.__code__.co_firstlineno + 1
    assert (
        "dr.export(_decides): the size 3 is fixed, because it decides about the trace at "
        f"test_export.py:{line} in _decides." in capfd.readouterr().err
    )


def test_matrices_are_within_their_argument(exported):
    assert exported["product", 9] == (
        "ValueError: weights: the matrices in it need 10 entries, got an array of 9"
    )
    for row in exported["product", 10]:
        np.testing.assert_array_equal(row, 2 * ONES + 1)


def test_a_frozen_function_is_exported_as_it_is(tmp_path):
    def wave(x, y):
        return dr.sin(x) * y, dr.sum(x)

    arguments = Float(1, 2, 3, 4), Float(5, 6, 7, 8)
    frozen = dr.freeze(wave)
    frozen(*arguments)
    texts = [
        dr.export(f, *arguments, path=tmp_path / f"{k}.py").read_text()
        for k, f in enumerate((wave, frozen))
    ]
    assert texts[0] == texts[1] and frozen.n_recordings == 1

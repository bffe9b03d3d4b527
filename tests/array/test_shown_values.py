"""Every value that can be printed can be shown as the source of kernels, be pictured, be listed
and be pickled, at every stage of a program.

Programs are made of pieces at random. After each piece, the tools look at all values there are;
what they show must have no effect: the values are those of the same program without tools.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm.ad import (
    PCG32,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix2f,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt,
)
from drjit.opt import Adam, GradScaler

pytestmark = pytest.mark.usefixtures("tier")

N = 9


def symbolic(n: int) -> UInt:
    return dr.opaque(UInt, n)


def loop(x: Float) -> Float:
    return dr.while_loop(
        (UInt(0), Float(x)), lambda i, y: i < 3, lambda i, y: (i + 1, dr.fma(y, 0.5, x))
    )[1]


def nested_loop(x: Float) -> Float:
    def outer(i, y):
        y = dr.while_loop((UInt(0), y), lambda j, y: j < i, lambda j, y: (j + 1, y * 0.9 + 0.1))[1]
        return i + 1, y

    return dr.while_loop((UInt(0), Float(x)), lambda i, y: i < 3, outer)[1]


def evaluated_loop(x: Float) -> Float:
    def body(i, y):
        return i + 1, y * 0.5 + x

    return dr.while_loop((UInt(0), Float(x)), lambda i, y: i < 2, body, mode="evaluated")[1]


def branch(x: Float) -> Float:
    return dr.if_stmt((x,), x > 0.5, lambda x: x * 2, lambda x: x + 1)


def switch(x: Float) -> Float:
    return dr.switch(UInt(x) % 2, [lambda x: x * 0.5, lambda x: dr.sqrt(dr.abs(x))], x)


def scattered(x: Float) -> Float:
    target = dr.zeros(Float, N)
    dr.scatter(target, x, (dr.arange(UInt, N) * 2) % N)
    return target


def added_in_a_loop(x: Float) -> Float:
    target = dr.zeros(Float, 4)

    def body(i):
        dr.scatter_add(target, x, (i + dr.arange(UInt, N)) % 4)
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 3, body)
    return dr.gather(Float, target, dr.arange(UInt, N) % 4)


def added_in_a_branch(x: Float) -> Float:
    target = dr.full(Float, 0.25, N)

    def true(x):
        dr.scatter_add(target, x, dr.arange(UInt, N))
        return x

    dr.if_stmt((x,), x > 0.5, true, lambda x: x)
    return target


def added_in_both(x: Float) -> Float:
    target, other = dr.zeros(Float, N), dr.zeros(Float, N)

    def body(i):
        def true(x):
            dr.scatter_add(target, x, dr.arange(UInt, N))
            return x

        def false(x):
            dr.scatter_reduce(dr.ReduceOp.Max, other, x, dr.arange(UInt, N))
            return x

        dr.if_stmt((x,), x > 0.5, true, false)
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 2, body)
    dr.scatter(target, Float(0.5), UInt(0))
    return target + other


def counted(x: Float) -> Float:
    counter = UInt(0)
    slot = dr.scatter_inc(counter, UInt(0), x > 0.25)
    return dr.select(slot < N, x, 0) + Float(counter) * 0


def counted_in_a_loop(x: Float) -> Float:
    counter = dr.zeros(UInt, 2)

    def body(i, s):
        return i + 1, s + Float(dr.scatter_inc(counter, i % 2)) * 0

    _, s = dr.while_loop((UInt(0), Float(x)), lambda i, s: i < 2, body)
    return s + Float(dr.gather(UInt, counter, UInt(1))) * 0.0625


def local_memory(x: Float) -> Float:
    memory = dr.alloc_local(Float, 4)
    memory[0] = x
    memory[UInt(x) % 4] = x * 2

    def body(i, memory):
        memory[i] = memory[i - 1] + 1
        return i + 1, memory

    _, memory = dr.while_loop((UInt(1), memory), lambda i, m: i < 4, body)
    return memory[3] * 0.25


def network(x: Float) -> Float:
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(-1, 1))
    net = nn.pack(net.alloc(TensorXf16, 2, rng=dr.rng(seed=1)))
    return Float(next(iter(net(nn.CoopVec(Float16(x), Float16(1)))))) + x


def texture(x: Float) -> Float:
    data = dr.reshape(TensorXf, dr.arange(Float, 12) / 12, (3, 4, 1))
    return Texture2f(data).eval(Array2f(x, 0.5))[0] + x


def differentiated(x: Float) -> Float:
    y = dr.detach(x, preserve_type=True) + 0
    dr.enable_grad(y)
    dr.backward(dr.sum(loop(y) * branch(y)))
    return y.grad + x


def differentiated_gather(x: Float) -> Float:
    y = dr.detach(x) + 0
    dr.enable_grad(y)

    def body(i, s):
        return i + 1, s + dr.gather(Float, y, (i + dr.arange(UInt, N)) % N) ** 2

    _, s = dr.while_loop((UInt(0), dr.zeros(Float, N)), lambda i, s: i < 3, body)
    dr.backward(s)
    return y.grad * 0.125 + x


def forward(x: Float) -> Float:
    y = dr.detach(x) + 0
    dr.enable_grad(y)
    dr.set_grad(y, 1)
    return dr.forward_to(loop(y) * added_in_a_loop(y)) * 0.125


def sums(x: Float) -> Float:
    return x / (1 + dr.sum(dr.abs(x))) + dr.cumsum(x) * 0.0625 + dr.block_sum(x, 3)[0] * 0


def tensors(x: Float) -> Float:
    t = dr.reshape(TensorXf, x, (3, 3))
    return (t @ t.T * 0.125 + dr.sum(t, axis=0))[:, ::-1].array * 0.25


def nested(x: Float) -> Float:
    return (
        dr.norm(Array3f(x, 1, 2))
        + dr.abs(Complex2f(x, 1))
        + (Matrix2f(x, 1, 0, 1) @ Array2f(1, x)).x
    )


def integers(x: Float) -> Float:
    i = Int(x * 10)
    return Float(dr.select(Bool(i % 2 == 0), i // 2, i << 1)) * 0.03125 + Float(Float64(x) * 0.5)


def ordered(x: Float) -> Float:
    return dr.sort(x)


def compressed(x: Float) -> Float:
    index = dr.compress(x > 0.5)
    return x + Float(dr.width(index)) * 0.015625


PIECES: list[Callable[[Float], Float]] = [
    loop, nested_loop, evaluated_loop, branch, switch, scattered, added_in_a_loop,
    added_in_a_branch, added_in_both, counted, counted_in_a_loop, local_memory, network, texture,
    differentiated, differentiated_gather, forward, sums, tensors, nested, integers, ordered,
    compressed,
]  # fmt: skip


def start() -> Float:
    return Float(np.linspace(0.1, 1.3, N).astype(np.float32)) + 0


def run(pieces: list[Callable], look: Callable[[Any], None] | None = None) -> np.ndarray:
    x = start()
    for piece in pieces:
        x = piece(x)
        if look is not None:
            look(x)
    return x.numpy()


def look_at(x: Any) -> None:
    source = dr.kernel_source(x)
    assert not isinstance(x, Float) or "def kernel(" in source or "no kernel" in source
    assert dr.graphviz(as_string=True).startswith("digraph {")
    assert dr.graphviz_ad(as_string=True).startswith("digraph {")
    assert dr.whos(as_string=True) and dr.whos_ad(as_string=True)


@pytest.mark.compiled_every(2)
@pytest.mark.parametrize("piece", PIECES, ids=lambda p: p.__name__)
def test_tools_show_what_a_piece_gives_and_change_nothing(piece: Callable):
    np.testing.assert_array_equal(run([piece], look_at), run([piece]))
    x = piece(start())
    copy = pickle.loads(pickle.dumps(x))
    assert type(copy) is type(x)
    np.testing.assert_array_equal(copy.numpy(), x.numpy())


@pytest.mark.every(4)
@pytest.mark.parametrize("seed", range(8))
def test_tools_show_programs_of_several_pieces(seed: int):
    rng = np.random.default_rng(seed)
    pieces = [PIECES[k] for k in rng.integers(0, len(PIECES), 4)]
    np.testing.assert_allclose(run(pieces, look_at), run(pieces), rtol=1e-6)


def objects() -> dict[str, Any]:
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    y = x * 2
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(-1, 1)).alloc(TensorXf16, 2)
    return {
        "literal": Float(1),
        "empty": Float(),
        "mask": x > 1,
        "half": Float16(1, 2) + 1,
        "nested": Array3f(y, 1, 2),
        "matrix": Matrix2f(2) * y,
        "complex": Complex2f(y, 1),
        "tensor": TensorXf(y) * 2,
        "empty tensor": dr.zeros(TensorXf, (0, 3)),
        "scalar": dr.scalar.Array3f(1, 2, 3),
        "tree": [y, {"a": (y, 1, None, "x")}, Array2f(y, 0)],
        "gradient": dr.grad(x),
        "generator": dr.rng(3),
        "pcg": PCG32(3),
        "texture": Texture2f(TensorXf(np.ones((3, 3, 1), np.float32))),
        "network": net,
        "packed network": nn.pack(net),
        "optimizer": Adam(0.1, {"x": y, "h": Float16(1)}),
        "scaler": GradScaler(),
        "nothing": None,
    }


@pytest.mark.parametrize("name", objects())
def test_tools_take_whatever_can_be_printed(name: str):
    value = objects()[name]
    text = repr(value)
    look_at(value)
    assert repr(value) == text
    copy = pickle.loads(pickle.dumps(value))
    assert type(copy) is type(value)
    if " object at " not in text:
        assert repr(copy) == text


def test_tools_look_at_what_is_only_known_in_kernels():
    x, seen = Float(1, 2, 3), []

    def body(i, y, memory):
        memory[i] = y
        vector = nn.CoopVec(y, memory[i])
        for text in (dr.graphviz(as_string=True), dr.whos(as_string=True)):
            seen.append(text)
        for value in (y, memory, vector):
            with pytest.raises((RuntimeError, TypeError), match=r"symbolic|within kernels only"):
                pickle.dumps(value)
        with pytest.raises(RuntimeError, match="a value of a symbolic loop"):
            dr.kernel_source(y * 2)
        a, _ = vector
        return i + 1, y * a, memory

    result = dr.while_loop((UInt(0), x * 1, dr.alloc_local(Float, 3)), lambda i, y, m: i < 2, body)[
        1
    ]
    assert seen and "def kernel(" in dr.kernel_source(result)
    assert result.numpy().tolist() == [1, 16, 81]

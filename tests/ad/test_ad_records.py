"""Weighted sums of records, of hash grids and textures: their derivatives are those of the separate
operations, and the kernels are the same.
"""

import numpy as np
import pytest
from helpers import launched

import drjit as dr
from drjit import nn
from drjit.ad import packet_rules
from drjit.array import pytree
from drjit.hashgrid import HashGridEncoding, PermutoEncoding
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    Float,
    Float16,
    Int,
    TensorXf,
    TensorXf16,
    Texture2f,
    Texture2f16,
    UInt,
)

SIZE, DEFAULT = 40, dr.ADFlag.Default
NUMBERS = np.random.default_rng(0).random((3, SIZE), dtype=np.float32)


def grid(cls, dtype):
    made = cls(dtype, 2, n_levels=2, base_resolution=4, hashmap_size=20, rng=dr.rng(seed=1))
    made.params = dr.sin(dr.arange(Float, made.n_params))
    return made


def texture(dtype, channels):
    data = np.random.default_rng(1).random((5, 6, channels), dtype=np.float32)
    cls, tensor = (Texture2f, TensorXf) if dtype is Float else (Texture2f16, TensorXf16)
    return cls(tensor(data))


def grid_reader(cls, dtype):
    made = grid(cls, dtype)

    def read(source, p, active):
        made.params = source
        return [*made(p, active)]

    return +made.params, read


def texture_reader(dtype, channels):
    made = texture(dtype, channels)

    def read(source, p, active):
        made.set_value(source)
        return made.eval(p, active)

    return +made.value(), read


READERS = {
    "grid": grid_reader(HashGridEncoding, Float),
    "half grid": grid_reader(HashGridEncoding, Float16),
    "permuto": grid_reader(PermutoEncoding, Float),
    "texture": texture_reader(Float, 3),
    "half texture": texture_reader(Float16, 2),
    "one channel": texture_reader(Float, 1),
}


def reverse(source, p, read, active=True):
    for y in read(source, p, active):
        dr.backward_from(dr.square(y), DEFAULT | dr.ADFlag.AllowNoGrad)
    return source.grad


def one_of_several(source, p, read):
    y = read(source, p, True)[-1]
    dr.backward(dr.sum(dr.select(p.x > 0.5, y, 0)))
    return source.grad


def no_nan(source, p, read):
    far = dr.arange(Float, SIZE) == 3
    y = read(source, dr.select(far, dr.inf, p), True)[0]
    dr.backward(dr.select(far, 0, y * y))
    assert dr.all(dr.isfinite(source.grad))
    return source.grad


def forward(source, p, read):
    y = sum(read(source, p, True))
    source.grad = dr.arange(type(source), dr.width(source))
    dr.forward_from(source)
    return y.grad


def forward_one(source, p, read):
    y = read(source, p, True)[-1]
    dr.forward(source, DEFAULT & ~dr.ADFlag.ClearEdges)
    first = y.grad
    dr.clear_grad(y)
    dr.forward(source)
    return first, y.grad


def twice(source, p, read):
    y = sum([dr.square(y) for y in read(source, p, True)])
    dr.backward(y, DEFAULT | dr.ADFlag.KeepGraph)
    g = source.grad
    dr.clear_grad(source)
    dr.backward(dr.square(g))
    return source.grad


def tangent_of_gradient(source, p, read):
    y = sum([dr.square(y) for y in read(source, p, True)])
    dr.backward(y, DEFAULT | dr.ADFlag.KeepGraph)
    g = source.grad
    source.grad = 1
    return dr.forward_to(g)


def masked(source, p, read):
    return reverse(source, p, read, p.y < 0.7)


def suspended(source, p, read):
    with dr.suspend_grad():
        found = read(source, p, True)
    assert not dr.grad_enabled(found)
    return found


def looped(source, p, read):
    def body(i, total):
        return i + 1, total + read(source, p, True)[0]

    _, total = dr.while_loop((Int(0), Float(0)), lambda i, _: i < 2, body)
    dr.backward(total)
    return source.grad


def position(source, p, read):
    dr.enable_grad(p)
    dr.backward(read(source, p, True)[0])
    return p.grad, source.grad


def trapped(source, p, read):
    with dr.scoped_set_flag(dr.JitFlag.Debug), dr.scoped_set_flag(dr.JitFlag.TrapNaN):
        y = read(source, p, True)[0]
        y.grad = dr.nan
        with pytest.raises(FloatingPointError) as info:
            dr.backward_from(y)
    return str(info.value).partition(" recorded at")[0]


CASES = [
    reverse, one_of_several, no_nan, forward, forward_one, twice, tangent_of_gradient, masked,
    suspended, looped, position, trapped,
]  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("case", CASES)
def test_a_sum_is_like_separate_operations(case, name, monkeypatch):
    def outcome():
        values, read = READERS[name]
        source, p = type(values)(values), Array2f(NUMBERS[:2])
        dr.enable_grad(source)
        dr.eval(source, p)
        found = []
        history = launched(lambda: found.append(case(source, p, read)) or found)
        return found, [k.get("source") for k in history]

    found, sources = outcome()
    monkeypatch.setattr(packet_rules, "weighted_sum", lambda *_: None)
    expected, others = outcome()
    assert sources == others
    if case is trapped:
        assert found == expected
        return
    for one, other in zip(pytree.arrays(found), pytree.arrays(expected), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=2e-3, atol=2e-3)


def test_entries_of_records_are_differentiated_one_after_the_other():
    x = dr.arange(Float, 12)
    dr.enable_grad(x)
    p = dr.gather(Array3f, x, UInt(0, 1))
    dr.backward(p.x)
    dr.backward(p.x)  # without effect
    assert dr.all(x.grad == Float([1, 0, 0, 1] + [0] * 8))
    dr.backward(2 * p.y + p.z)
    assert dr.all(x.grad == Float([1, 2, 1, 1, 2, 1] + [0] * 6))
    y = Float(1, 2)
    dr.enable_grad(y)
    a, b = nn.CoopVec(y, 2 * y)
    dr.backward(a)
    dr.backward(b)  # the edges behind the vector are freed
    assert dr.all(y.grad == 1)

"""A program that uses arrays of NumPy's whose memory ends where the next page must not be touched,
in everything that reads or writes arrays. An access beyond the end ends its process. With `near` as
its first argument, arrays end as close to that page as they may without a copy for each launch. Run
by `test_shared_memory.py`.
"""

import ctypes
import mmap
import sys
from typing import Any

import numpy as np

import drjit as dr
import drjit.nn as nn
from drjit.jit.cpu import background, memory, variants
from drjit.llvm import ad

PAGE = mmap.PAGESIZE
LEAVES = [
    "Float16", "Float", "Float64", "Int8", "UInt8", "Int", "UInt", "Int64", "UInt64", "Bool",
]  # fmt: skip
_mappings = []
_near = False


def guarded(values: Any) -> np.ndarray:
    """Returns a copy of values whose last byte is the last one before a page without access, or
    `_near` that."""
    values = np.ascontiguousarray(values)
    size = values.nbytes + (memory._overread_bytes(values.dtype) if _near else 0)
    size = -(-size // values.itemsize) * values.itemsize
    pages = -(-size // PAGE)
    whole = mmap.mmap(-1, (pages + 1) * PAGE)
    _mappings.append(whole)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    if protect(start + pages * PAGE, PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    # Not as a view of the whole, which may be read.
    place = (ctypes.c_uint8 * values.nbytes).from_address(start + pages * PAGE - size)
    place = np.frombuffer(place, np.uint8)
    made = place.view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def random(shape: Any, dtype: Any = np.float32) -> np.ndarray:
    return guarded(np.random.default_rng(1).random(shape).astype(dtype))


def leaves(name: str, sizes: range) -> None:
    """One-dimensional arrays of a type: reads and writes in both directions, and what has kernels
    of its own."""
    cls = getattr(ad, name)
    dtype = dr.zeros(cls, 1).numpy().dtype
    for n in sizes:
        a = guarded((np.arange(n) % 2).astype(dtype))
        x = cls(a)
        assert np.shares_memory(x.numpy(), a)
        for _ in range(2):
            y, expected = (~x, ~a) if name == "Bool" else (x + 1, a + dtype.type(1))
            np.testing.assert_array_equal(y.numpy(), expected)
            a[0] = not a[0]
        index = ad.UInt(guarded(np.arange(n, dtype=np.uint32)[::-1]))
        np.testing.assert_array_equal(dr.gather(cls, x, index).numpy(), a[::-1])
        b = guarded(np.zeros(n, dtype))
        target = cls(b)
        dr.scatter(target, x, index)
        dr.eval(target)
        dr.sync_thread()
        np.testing.assert_array_equal(b, a[::-1])
        target[n - 1] = bool(b[n - 1] == 0)
        assert b[n - 1] == (a[0] == 0)
        if name == "Bool":
            assert dr.count(x)[0] == a.sum() and dr.any(x)[0] == a.any()
            np.testing.assert_array_equal(dr.compress(x).numpy(), a.nonzero()[0])
        else:
            assert dr.sum(x)[0] == a.sum()
            np.testing.assert_array_equal(dr.reverse(x).numpy(), a[::-1])
            np.testing.assert_array_equal(dr.sort(x).numpy(), np.sort(a))
            dr.eval(dr.cumsum(x), dr.block_sum(x, n))
        if name in ("Float", "UInt", "Float64"):
            counts = guarded(np.zeros(n, dtype))
            total = cls(counts)
            dr.scatter_reduce(dr.ReduceOp.Add, total, x, index, mode=dr.ReduceMode.Direct)
            dr.eval(total)
            dr.sync_thread()
            np.testing.assert_array_equal(counts, a[::-1])


def others() -> None:
    """Textures, matrices, records, networks, frozen functions, and large arrays."""
    for n in (1, 3, 4, 5):
        a = random((5, 7, n))
        p = ad.Array2f(ad.Float(random(9)), ad.Float(random(9)))
        tex, other = ad.Texture2f(ad.TensorXf(a)), ad.Texture2f(ad.TensorXf(a.copy()))
        np.testing.assert_allclose(tex.eval(p).numpy(), other.eval(p).numpy(), rtol=1e-6)
        found, expected = tex.eval_cubic(p), other.eval_cubic(p)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
    for m, k, n in ((3, 4, 5), (17, 9, 33)):
        a, b = random((m, k)), random((k, n))
        product = ad.TensorXf(a) @ ad.TensorXf(b)
        np.testing.assert_allclose(product.numpy(), a @ b, rtol=1e-5)
        for axis in (0, 1):
            sums = dr.sum(ad.TensorXf(a), axis=axis)
            np.testing.assert_allclose(sums.numpy(), a.sum(axis), rtol=1e-5)
    for n in (2, 3, 4):
        a = random(10 * n)
        found = dr.gather(getattr(ad, f"Array{n}f"), ad.Float(a), ad.UInt(9, 0, 5))
        np.testing.assert_array_equal(found.numpy(), a.reshape(10, n)[[9, 0, 5]].T)
    weights, bias = random((6, 5), np.float16), random(6, np.float16)
    x = nn.CoopVec(*[ad.Float16(random(3, np.float16)) for _ in range(5)])
    y = list(nn.matvec(nn.view(ad.TensorXf16(weights)), x, nn.view(ad.Float16(bias))))
    assert len(y) == 6 and dr.all(y[0] > 0)
    frozen = dr.freeze(lambda x, y: x * 2 + y)
    for _ in range(5):
        a, b = random(10), random(10)
        x, y = ad.Float(a), ad.Float(b)
        a[3] = 8
        np.testing.assert_allclose(frozen(x, y).numpy(), a * 2 + b, rtol=1e-6)
    x = ad.Float(random(30))
    dr.enable_grad(x)
    dr.backward(dr.gather(ad.Float, x, ad.UInt(guarded(np.array([1, 29, 29], np.uint32)))))
    assert x.grad[29] == 2
    a = random(100_000, np.float64)
    np.testing.assert_allclose(dr.sum(ad.Float64(a) * 2)[0], 2 * a.sum(), rtol=1e-12)


def loops() -> None:
    """Loops that run so often that they get their best form, which has the most lanes."""
    variants.HOT_LAUNCHES, variants.HOT_SECONDS = 2, 1e-9
    for name in ("Float", "Float64", "UInt64", "Int64", "UInt8"):
        cls = getattr(ad, name)
        for n in (2, 7, 65):
            x = cls(guarded(np.arange(n).astype(dr.zeros(cls, 1).numpy().dtype)))
            assert _near == (type(x._node.data) is memory.Buffer)
            for _ in range(5):
                z = dr.while_loop((x, cls(0)), lambda z, i: i < 3, lambda z, i: (z * 2 + 1, i + 1))[
                    0
                ]
                dr.eval(z)
                dr.sync_thread()
                background.finish()
            assert z[1] == 15


def native(launches: int) -> None:
    """So many small launches that native code performs them."""
    a, n = random(5), ad.Float(1, 2, 3, 4, 5)
    x = ad.Float(a)
    for k in range(launches):
        a[2] = k
        dr.eval(n * 3 + 1)
        y = x * 3 + 1
        dr.eval(y)
        assert y[2] == 3 * k + 1


if __name__ == "__main__":
    _near = sys.argv[1:2] == ["near"]
    for what in sys.argv[1 + _near :]:
        if what == "others":
            others()
        elif what == "loops":
            loops()
        elif what == "native":
            native(1500)
        elif what == "few":
            for name in ("Float", "UInt8", "Bool"):
                leaves(name, range(1, 41, 13))
        else:
            leaves(what, range(1, 41))

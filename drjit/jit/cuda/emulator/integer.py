"""Integer and bit operations of PTX that NumPy does not have, on arrays of words."""

from typing import Any

import numpy as np

from drjit.jit.target.numpy.elementwise import brev as brev
from drjit.jit.target.numpy.elementwise import lzcnt as lzcnt
from drjit.jit.target.numpy.elementwise import mul_hi as mul_hi

u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
where = np.where


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`div`: towards zero. Division by zero gives all ones, which the PTX ISA leaves open."""
    zero = b == 0
    t = a.dtype.type
    divisor = where(zero, t(1), b)
    if a.dtype.kind == "u":
        return where(zero, ~t(0), a // divisor)
    # NumPy's // rounds down. The most negative number divided by -1 is itself, in both.
    q = a // divisor
    q = where((q < 0) & (q * divisor != a), q + t(1), q)
    return where(zero, t(-1), q)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`rem`: with the sign of the dividend; by zero, the dividend."""
    zero = b == 0
    t = a.dtype.type
    one = zero | (b == t(-1)) if a.dtype.kind == "i" else zero  # INT_MIN % -1 would trap
    return where(zero, a, np.fmod(a, where(one, t(1), b)))


def saturated(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers clamped to the range of another type."""
    info = np.iinfo(dtype)
    source = np.iinfo(x.dtype)
    low, high = max(info.min, source.min), min(info.max, source.max)
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)


def carry_out(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """Whether `a + b + carry` needs another bit."""
    s = a + b
    t = s + carry.astype(a.dtype)
    return (s < a) | (t < s)


def borrow_out(a: np.ndarray, b: np.ndarray, borrow: np.ndarray) -> np.ndarray:
    """Whether `a - b - borrow` is negative."""
    return (a < b) | ((a == b) & borrow)


# ---- bits


def extract_field(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfe`: `length` bits of `a` from `position`; signed ones are extended by the highest."""
    bits = 8 * a.itemsize
    position, length = position & u32(255), np.minimum(length & u32(255), u32(bits))
    x = a >> np.minimum(position, u32(bits)).astype(a.dtype)
    spare = (u32(bits) - length).astype(a.dtype)
    return (x << spare) >> spare


def insert_field(
    a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """`bfi`: `b` with its bits from `position` replaced by the lowest `length` bits of `a`."""
    t = b.dtype.type
    position, length = (position & u32(255)).astype(t), (length & u32(255)).astype(t)
    mask = ((t(1) << length) - t(1)) << position
    return (b & ~mask) | ((a << position) & mask)


def funnel_left(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.l`: the upper word of the pair, shifted left."""
    pair = high.astype(u64) << u64(32) | low
    return ((pair << amount.astype(u64)) >> u64(32)).astype(u32)


def funnel_right(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.r`: the lower word of the pair, shifted right."""
    pair = high.astype(u64) << u64(32) | low
    return (pair >> amount.astype(u64)).astype(u32)


def permute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`prmt`: four bytes of the eight of `a` (the lower ones) and `b`."""
    pair = b.astype(u64) << u64(32) | a
    result = np.zeros(1, u32)
    for k in range(4):
        selector = (c >> u32(4 * k)) & u32(15)
        byte = (pair >> ((selector & u32(7)) * u32(8)).astype(u64)).astype(u32) & u32(255)
        sign = where(byte & u32(128), u32(255), u32(0))
        result = result | where(selector & u32(8), sign, byte) << u32(8 * k)
    return result


def logic3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """`lop3`: a function of three bits, given by its values."""
    result = np.zeros(1, u32)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            result = result | term
    return result


# ---- words and their parts


def pairs(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Words as rows of two halves, the lower one first."""
    return np.ascontiguousarray(x).view(dtype).reshape(-1, 2)


def unpaired(rows: np.ndarray, dtype: Any) -> np.ndarray:
    """Rows of two halves as words."""
    return np.ascontiguousarray(rows).view(dtype).reshape(-1)


def join(word: Any, *parts: np.ndarray) -> np.ndarray:
    """`mov` of `{a, b, ...}`: a word from its parts, the lowest first."""
    bits = np.dtype(word).itemsize * 8 // len(parts)
    result = parts[0].astype(word)
    for k, part in enumerate(parts[1:], 1):
        result = result | part.astype(word) << word(bits * k)
    return result


def part(x: np.ndarray, dtype: Any, k: int) -> np.ndarray:
    """The k-th part of words."""
    if k:
        x = x >> x.dtype.type(np.dtype(dtype).itemsize * 8 * k)
    return x.astype(dtype)

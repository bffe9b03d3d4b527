"""Integer and bit operations of PTX that NumPy does not have, on arrays of words."""

from typing import Any

import numpy as np

u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
where = np.where


def bits_of(x: np.ndarray) -> int:
    return x.dtype.itemsize * 8


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


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of a 128-bit product, from four products of halves."""
    mask, half = u64(0xFFFFFFFF), u64(32)
    x, y = a.view(u64), b.view(u64)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    low, mid, cross, high = xl * yl, xh * yl, xl * yh, xh * yh
    carry = ((low >> half) + (mid & mask) + (cross & mask)) >> half
    result = high + (mid >> half) + (cross >> half) + carry
    if a.dtype.kind == "i":  # a negative factor counts 2**64 too much
        result = result - where(a < 0, y, u64(0)) - where(b < 0, x, u64(0))
    return result.view(a.dtype)


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


def count_leading_zeros(a: np.ndarray) -> np.ndarray:
    x = a
    shift = 1
    while shift < bits_of(a):
        x = x | (x >> a.dtype.type(shift))
        shift *= 2
    return u32(bits_of(a)) - np.bitwise_count(x).astype(u32)


def find_first(a: np.ndarray, shift_amount: bool) -> np.ndarray:
    """`bfind`: position of the highest bit that is not a copy of the sign; -1 if there is none."""
    x = where(a < 0, ~a, a) if a.dtype.kind == "i" else a
    zeros = count_leading_zeros(x.view(u32 if bits_of(a) == 32 else u64))
    none = zeros == u32(bits_of(a))
    return where(none, ~u32(0), zeros if shift_amount else u32(bits_of(a) - 1) - zeros)


_SWAPS = {
    32: [(16, 0x0000FFFF), (8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555)],
}
_SWAPS[64] = [(32, 0xFFFFFFFF), *((n, m << 32 | m) for n, m in _SWAPS[32])]


def reverse_bits(a: np.ndarray) -> np.ndarray:
    t = a.dtype.type
    for shift, mask in _SWAPS[bits_of(a)]:
        a = ((a >> t(shift)) & t(mask)) | ((a & t(mask)) << t(shift))
    return a


def extract_field(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfe`: `length` bits of `a` from `position`; signed ones are extended by the highest."""
    bits = bits_of(a)
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


def bit_mask(position: np.ndarray, length: np.ndarray, clamp: bool) -> np.ndarray:
    """`bmsk`: `length` ones from `position`."""
    if not clamp:
        position, length = position & u32(31), length & u32(31)
    return ((u32(1) << length) - u32(1)) << position


def extend_sign(a: np.ndarray, length: np.ndarray, clamp: bool) -> np.ndarray:
    """`szext`: the lowest `length` bits, extended by zeros or (for signed types) the sign."""
    length = np.minimum(length, u32(32)) if clamp else length & u32(31)
    spare = (u32(32) - length).astype(a.dtype)
    return (a << spare) >> spare


def find_nth(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """`fns`: position of the n-th set bit from `base`, up or down; -1 if there is none."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    places = np.arange(32, dtype=u32)
    is_set = ((mask[:, None] >> places) & u32(1)).astype(bool)
    start, signed = base[:, None], offset.view(i32)[:, None]
    up = is_set & (places >= start)
    down = is_set & (places <= start)
    nth_up = up & (np.cumsum(up, 1) == signed)
    nth_down = down & (np.cumsum(down[:, ::-1], 1)[:, ::-1] == -signed)
    here = is_set & (places == start)
    found = where(signed == 0, here, where(signed > 0, nth_up, nth_down))
    return where(found.any(1), found.argmax(1), -1).astype(i32).view(u32)


def funnel_left(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.l`: the upper word of the pair, shifted left."""
    pair = high.astype(u64) << u64(32) | low
    return ((pair << amount.astype(u64)) >> u64(32)).astype(u32)


def funnel_right(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.r`: the lower word of the pair, shifted right."""
    pair = high.astype(u64) << u64(32) | low
    return (pair >> amount.astype(u64)).astype(u32)


_SELECTORS = {  # of the modes of prmt: bytes of the result for c = 0..3
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


def permute(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "") -> np.ndarray:
    """`prmt`: four bytes of the eight of `a` (the lower ones) and `b`."""
    if mode:
        table = np.array([int(text, 16) for text in _SELECTORS[mode]], u32)
        c = table[c & u32(3)]
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
    if table in _LOGIC:
        return _LOGIC[table](a, b, c)
    result = np.zeros(1, u32)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            result = result | term
    return result


# The functions that occur most, by their values: 0xF0, 0xCC and 0xAA are the operands.
_LOGIC: dict[int, Any] = {
    0x80: lambda a, b, c: a & b & c,
    0xFE: lambda a, b, c: a | b | c,
    0x96: lambda a, b, c: a ^ b ^ c,
    0xF8: lambda a, b, c: a | (b & c),
    0xEA: lambda a, b, c: (a & b) | c,
    0xE0: lambda a, b, c: a & (b | c),
    0xA8: lambda a, b, c: (a | b) & c,
    0xCA: lambda a, b, c: (a & b) | (~a & c),
    0x78: lambda a, b, c: a ^ (b & c),
    0x6A: lambda a, b, c: (a & b) ^ c,
}


def bytes_of(x: np.ndarray, signed: bool) -> np.ndarray:
    """The four bytes of words, as rows of 32-bit integers."""
    rows = np.ascontiguousarray(x).view(i8 if signed else u8).reshape(-1, 4)
    return rows.astype(i32)


def dot_bytes(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool
) -> np.ndarray:
    """`dp4a`: the scalar product of four bytes each, plus `c`."""
    total = (bytes_of(a, a_signed) * bytes_of(b, b_signed)).sum(1, dtype=i32)
    return (total.view(u32) + c.view(u32)).view(c.dtype)


def dot_halves(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, a_signed: bool, b_signed: bool, high: bool
) -> np.ndarray:
    """`dp2a`: two 16-bit numbers of `a` times two bytes of `b`, plus `c`."""
    x = np.ascontiguousarray(a).view(i16 if a_signed else u16).reshape(-1, 2).astype(i32)
    y = bytes_of(b, b_signed)[:, 2:] if high else bytes_of(b, b_signed)[:, :2]
    return ((x * y).sum(1, dtype=i32).view(u32) + c.view(u32)).view(c.dtype)


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


def absolute_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return where(a > b, a - b, b - a)


def high24(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`mul24.hi`: bits 16 to 47 of the product of the lower 24 bits."""
    return ((_low24(a) * _low24(b)) >> (i64 if a.dtype.kind == "i" else u64)(16)).astype(a.dtype)


def low24(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`mul24.lo`: bits 0 to 31 of that product."""
    return (_low24(a) * _low24(b)).astype(a.dtype)


def _low24(a: np.ndarray) -> np.ndarray:
    t = a.dtype.type
    extended = (a << t(8)) >> t(8)
    return extended.astype(i64 if a.dtype.kind == "i" else u64)

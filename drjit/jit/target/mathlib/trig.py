"""Sine, cosine and tangent.

`x - n pi` comes from fused multiply-adds with pi in three parts (Cody and Waite); arguments too large
for that are multiplied by the bits of 1 / (2 pi) that matter (M. H. Payne and R. N. Hanek, "Radian
reduction for trigonometric functions", SIGNUM Newsletter 18(1), 1983).
"""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, fma, i64, minimum, select, shl, shr
from ..numpy.elementwise import table, u32, u64


def sin_f32(x):
    """The sine."""
    t = fma(x, 0.3183098861837907, 12582912.0)
    n = t - 12582912.0
    r = fma(n, PI_C, fma(n, PI_B, fma(n, PI_A, x)))
    huge = ~(abs(x) < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(x)
        k = fma(y, 0.3183098861837907, 6755399441055744.0) - 6755399441055744.0
        r = select(huge, f32(fma(k, -3.141592653589793, y)), r)
        t = select(huge, f32(k) + 12582912.0, t)
    z = r * r
    p = fma(fma(fma(z, 2.6051557e-6, -0.00019809442), z, 0.0083330665), z, -0.1666666)
    s = fma(r * z, p, r)
    return bitcast(f32, bitcast(u32, s) ^ shl(bitcast(u32, t), 31))


def cos_f32(x):
    """The cosine."""
    t = fma(x, 0.3183098861837907, -0.5) + 12582912.0
    n = (t - 12582912.0) + 0.5
    r = fma(n, PI_C, fma(n, PI_B, fma(n, PI_A, x)))
    huge = ~(abs(x) < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(x)
        k = fma(y, 0.3183098861837907, -0.5) + 6755399441055744.0 - 6755399441055744.0
        r = select(huge, f32(fma(k + 0.5, -3.141592653589793, y)), r)
        t = select(huge, f32(k) + 12582912.0, t)
    z = r * r
    p = fma(fma(fma(z, 2.6051557e-6, -0.00019809442), z, 0.0083330665), z, -0.1666666)
    # cos(x) = -sin(x - pi/2)
    s = fma(r * z, p, r)
    return bitcast(f32, bitcast(u32, s) ^ shl(bitcast(u32, t) + 1, 31))


def tan_f32(x):
    """The tangent."""
    t = fma(x, 0.6366197723675814, 12582912.0)
    n = t - 12582912.0
    h = fma(n, 0.5 * PI_B, fma(n, 0.5 * PI_A, x))
    r = fma(n, 0.5 * PI_C, h)
    huge = ~(abs(x) < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(x)
        k = fma(y, 0.6366197723675814, 6755399441055744.0) - 6755399441055744.0
        r = select(huge, f32(fma(k, -1.5707963267948966, y)), r)
        t = select(huge, f32(k) + 12582912.0, t)
    z = r * r
    s = fma(r * z, fma(fma(z, -0.00019507832, 0.008332106), z, -0.16666654), r)
    c = fma(fma(fma(z, 2.4430085e-5, -0.0013887298), z, 0.041666646), z, -0.5)
    c = fma(c, z, 1.0)
    odd = shl(bitcast(u32, t), 31)
    swap = odd != 0
    q = select(swap, c, s) / select(swap, s, c)
    return bitcast(f32, bitcast(u32, q) ^ odd)


def modulo_turn_f32(x):
    """An `f64` in [-pi, pi] that differs from a large x by turns; NaN if x is not finite."""
    bits = bitcast(u32, x)
    s = (shr(bits, 23) & 255) - 118
    # Lanes with a small x take part, too, but do not count.
    k = minimum(shr(s, 5), 4)
    shift = u64(s & 31)
    high = shl(u64(table(TURN_u32, k)), 32) | u64(table(TURN_u32, k + 1))
    low = shl(u64(table(TURN_u32, k + 2)), 32) | u64(table(TURN_u32, k + 3))
    m = u64((bits & 0x007FFFFF) | 0x00800000)
    turn = m * (shl(high, shift) | shr(low, 64 - shift)) + shr(m * shr(shl(low, shift), 32), 32)
    y = f64(bitcast(i64, turn)) * 3.4061215800865545e-19
    y = select(bits >= 0x80000000, -y, y)
    return select(abs(x) < INF, y, NAN)


# -pi in three parts
PI_A = -3.1415927
PI_B = 8.742278e-08
PI_C = 3.430249e-15
# 32 zero bits, then the bits of 1 / (2 pi)
TURN_u32 = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA, 0xF7AEF158)
INF = float("inf")
NAN = float("nan")

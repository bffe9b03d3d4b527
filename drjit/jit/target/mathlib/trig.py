"""Sine, cosine and tangent.

`x - n pi` comes from fused multiply-adds with pi in three parts (Cody and Waite); arguments too large
for that are multiplied by the bits of 1 / (2 pi) that matter (M. H. Payne and R. N. Hanek, "Radian
reduction for trigonometric functions", SIGNUM Newsletter 18(1), 1983).
"""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, fma, i64, minimum, select, shl, shr
from ..numpy.elementwise import table, u32, u64


def sin_f32(x):
    """The sine."""
    a = abs(x)
    t = fma(a, 0.3183098861837907, 12582912.0)
    n = t - 12582912.0
    r = fma(n, PI_C, fma(n, PI_B, fma(n, PI_A, a)))
    huge = ~(a < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(a)
        k = fma(y, 0.3183098861837907, 6755399441055744.0) - 6755399441055744.0
        r = select(huge, f32(fma(k, -3.141592653589793, y)), r)
        t = select(huge, f32(k) + 12582912.0, t)
    z = r * r
    p = fma(fma(fma(z, SIN_9, SIN_7), z, SIN_5), z, SIN_3)
    s = bitcast(u32, fma(r * z, p, r)) ^ shl(bitcast(u32, t), 31)
    return bitcast(f32, s ^ (bitcast(u32, x) & 0x80000000))


def cos_f32(x):
    """The cosine."""
    # -sin(x - pi/2)
    a = abs(x)
    t = fma(a, 0.3183098861837907, -0.5) + 12582912.0
    n = (t - 12582912.0) + 0.5
    r = fma(n, PI_C, fma(n, PI_B, fma(n, PI_A, a)))
    huge = ~(a < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(a)
        k = (fma(y, 0.3183098861837907, -0.5) + 6755399441055744.0) - 6755399441055744.0
        r = select(huge, f32(fma(k + 0.5, -3.141592653589793, y)), r)
        t = select(huge, f32(k) + 12582912.0, t)
    z = r * r
    p = fma(fma(fma(z, SIN_9, SIN_7), z, SIN_5), z, SIN_3)
    s = bitcast(u32, fma(r * z, p, r)) ^ shl(~bitcast(u32, t), 31)
    return bitcast(f32, s)


def tan_f32(x):
    """The tangent."""
    # A quotient in f64, for sin and cos rounded to f32 would be too many roundings.
    t = fma(x, 0.6366197723675814, 12582912.0)
    y = f64(x)
    huge = ~(abs(x) < 1e5)
    if any_lane(huge):
        y = select(huge, modulo_turn_f32(x), y)
        t = select(huge, fma(f32(y), 0.6366197723675814, 12582912.0), t)
    n = f64(t - 12582912.0)
    r = fma(n, -6.123233995736766e-17, fma(n, -1.5707963267948966, y))
    z = r * r
    s = fma(r * z, fma(fma(z, -0.00019507832, 0.008332106), z, -0.16666654), r)
    c = fma(fma(fma(fma(z, 2.4430085e-5, -0.0013887298), z, 0.041666646), z, -0.5), z, 1.0)
    swap = shl(bitcast(u32, t), 31) != 0
    q = f32(select(swap, c, s) / select(swap, -s, c))
    return select(x == 0.0, x, q)


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
    y = select(x < 0.0, -y, y)
    return select(abs(x) < INF, y, NAN)


# -pi in three parts of one sign
PI_A = -3.141592502593994
PI_B = -1.5099578831723193e-07
PI_C = -1.0780605906948477e-14
# Chosen so that the result never exceeds 1: found by a search beside the minimax coefficients.
SIN_3 = -0.16666658222675323
SIN_5 = 0.008333059959113598
SIN_7 = -0.00019809455261565745
SIN_9 = 2.6051791337522445e-06
# 32 zero bits, then the bits of 1 / (2 pi)
TURN_u32 = (0, 0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA, 0xF7AEF158)
INF = float("inf")
NAN = float("nan")

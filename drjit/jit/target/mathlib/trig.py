"""Sine, cosine and tangent.

`x - n pi` is computed by fused multiply-adds with pi in three parts (Cody and Waite). Larger
arguments are multiplied by the relevant bits of 1 / (2 pi) (M. H. Payne and R. N. Hanek, "Radian
reduction for trigonometric functions", SIGNUM Newsletter 18(1), 1983).
"""

# pyright: reportUndefinedVariable=false


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
    p = polynomial(z, SINE_f32)
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
    p = polynomial(z, SINE_f32)
    s = bitcast(u32, fma(r * z, p, r)) ^ shl(~bitcast(u32, t), 31)
    return bitcast(f32, s)


def sincos_f32(x):
    """Sine and cosine, equal to those of the separate functions. Computed together, their chains of
    dependent operations overlap, and large arguments are tested for only once.
    """
    a = abs(x)
    t = fma(a, 0.3183098861837907, 12582912.0)
    u = fma(a, 0.3183098861837907, -0.5) + 12582912.0
    n = t - 12582912.0
    m = (u - 12582912.0) + 0.5
    r = fma(n, PI_C, fma(n, PI_B, fma(n, PI_A, a)))
    q = fma(m, PI_C, fma(m, PI_B, fma(m, PI_A, a)))
    huge = ~(a < 1e5)
    if any_lane(huge):
        y = modulo_turn_f32(a)
        k = fma(y, 0.3183098861837907, 6755399441055744.0) - 6755399441055744.0
        j = (fma(y, 0.3183098861837907, -0.5) + 6755399441055744.0) - 6755399441055744.0
        r = select(huge, f32(fma(k, -3.141592653589793, y)), r)
        q = select(huge, f32(fma(j + 0.5, -3.141592653589793, y)), q)
        t = select(huge, f32(k) + 12582912.0, t)
        u = select(huge, f32(j) + 12582912.0, u)
    z = r * r
    w = q * q
    p = polynomial(z, SINE_f32)
    o = polynomial(w, SINE_f32)
    s = bitcast(u32, fma(r * z, p, r)) ^ shl(bitcast(u32, t), 31)
    c = bitcast(u32, fma(q * w, o, q)) ^ shl(~bitcast(u32, u), 31)
    return bitcast(f32, s ^ (bitcast(u32, x) & 0x80000000)), bitcast(f32, c)


def tan_f32(x):
    """The tangent."""
    # A quotient in f64, because rounding sin and cos to f32 first would add too many roundings.
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
    c = polynomial(z, COSINE_f32)
    swap = shl(bitcast(u32, t), 31) != 0
    q = f32(select(swap, c, s) / select(swap, -s, c))
    return select(x == 0.0, x, q)


def modulo_turn_f32(x):
    """An `f64` in [-pi, pi] that differs from a large x by full turns; NaN if x is not finite."""
    bits = bitcast(u32, x)
    s = (shr(bits, 23) & 255) - 118
    k = shr(s, 5)
    shift = u64(s & 31)
    high = shl(u64(table(TURN_u32, k)), 32) | u64(table(TURN_u32, k + 1))
    low = shl(u64(table(TURN_u32, k + 2)), 32) | u64(table(TURN_u32, k + 3))
    m = u64((bits & 0x007FFFFF) | 0x00800000)
    turn = m * (shl(high, shift) | shr(low, 64 - shift)) + shr(m * shr(shl(low, shift), 32), 32)
    y = f64(bitcast(i64, turn)) * 3.4061215800865545e-19
    y = select(x < 0.0, -y, y)
    return select(abs(x) < INF, y, NAN)


def _sine_and_cosine_f64(a):
    """The quadrant of `a >= 0`, and the sine and cosine of the remainder."""
    k, r, low = quadrant_f64(a)
    z = r * r
    p = polynomial(z, SINE_f64)
    s = r + fma(r * z, p, low)
    c = cosine_f64(z, r * low)
    return k, s, c


def sin_f64(x):
    """The sine."""
    k, s, c = _sine_and_cosine_f64(abs(x))
    y = select((k & 1) == 0, s, c)
    # The sign: that of x, and negative in quadrants 2 and 3
    sign = shl(k & 2, 62) ^ (bitcast(i64, x) & -0x8000000000000000)
    return bitcast(f64, bitcast(i64, y) ^ sign)


def cos_f64(x):
    """The cosine."""
    k, s, c = _sine_and_cosine_f64(abs(x))
    y = select((k & 1) == 0, c, s)
    return bitcast(f64, bitcast(i64, y) ^ shl((k + 1) & 2, 62))


def sincos_f64(x):
    """Sine and cosine, equal to those of the separate functions, from one reduction."""
    k, s, c = _sine_and_cosine_f64(abs(x))
    even = (k & 1) == 0
    sign = shl(k & 2, 62) ^ (bitcast(i64, x) & -0x8000000000000000)
    sine = bitcast(f64, bitcast(i64, select(even, s, c)) ^ sign)
    cosine = bitcast(f64, bitcast(i64, select(even, c, s)) ^ shl((k + 1) & 2, 62))
    return sine, cosine


def tan_f64(x):
    """The tangent."""
    k, r, low = quadrant_f64(abs(x))
    z = r * r
    p = polynomial(z, SINE_f64)
    w = fma(r * z, p, low)
    s = r + w
    s_low = (r - s) + w
    h = 0.5 * z
    u = 1.0 - h
    v = ((1.0 - u) - h) + fma(z * z, cosine_tail_f64(z), -r * low)
    c = u + v
    c_low = (u - c) + v
    odd = (k & 1) != 0
    n = select(odd, -c, s)
    n_low = select(odd, -c_low, s_low)
    d = select(odd, s, c)
    d_low = select(odd, s_low, c_low)
    # A quotient of sums: one step with the residual
    q = n / d
    q = q + (fma(-q, d, n) + (n_low - q * d_low)) / d
    q = bitcast(f64, bitcast(i64, q) ^ (bitcast(i64, x) & -0x8000000000000000))
    return select(x == 0.0, x, q)


def cosine_tail_f64(z):
    """`(cos(r) - 1 + z / 2) / z^2` for `z = r^2`."""
    q = polynomial(z, COSINE_f64)
    return q


def cosine_f64(z, correction):
    """`cos(r) - correction` for `z = r^2`."""
    h = 0.5 * z
    u = 1.0 - h
    return u + (((1.0 - u) - h) + fma(z * z, cosine_tail_f64(z), -correction))


def quadrant_f64(a):
    """The quadrant (modulo 4) of `a >= 0`, and the remainder in [-pi/4, pi/4] as a sum of two
    numbers."""
    t = fma(a, 0.6366197723675814, 6755399441055744.0)
    n = t - 6755399441055744.0
    h = fma(n, HALF_PI_A, a)
    w = n * HALF_PI_B
    r = h + w
    low = fma(n, HALF_PI_C, ((h - r) + w) + fma(n, HALF_PI_B, -w))
    k = bitcast(i64, t)
    huge = ~(a < 1e9)
    if any_lane(huge):
        quadrant, high, rest = remainder_f64(a)
        k = select(huge, quadrant, k)
        r = select(huge, high, r)
        low = select(huge, rest, low)
    return k, r, low


def remainder_f64(a):
    """`quadrant_f64` for any large a; NaN if it is not finite."""
    bits = bitcast(u64, a)
    s = u32(shr(bits, 52)) - 1043
    k = shr(s, 5)
    shift = u64(s & 31)
    w0 = shl(u64(table(TURN_u32, k)), 32) | u64(table(TURN_u32, k + 1))
    w1 = shl(u64(table(TURN_u32, k + 2)), 32) | u64(table(TURN_u32, k + 3))
    w2 = shl(u64(table(TURN_u32, k + 4)), 32) | u64(table(TURN_u32, k + 5))
    w3 = u64(table(TURN_u32, k + 6))
    b0 = shl(w0, shift) | shr(w1, 64 - shift)
    b1 = shl(w1, shift) | shr(w2, 64 - shift)
    b2 = shl(w2, shift) | shr(w3, 32 - shift)
    m = (bits & 0x000FFFFFFFFFFFFF) | 0x0010000000000000
    # The fraction of a turn in 128 bits
    low = m * b1
    sum = low + mul_hi(m, b2)
    high = m * b0 + mul_hi(m, b1) + select(sum < low, u64(1), u64(0))
    rounded = high + 0x2000000000000000
    quadrant = bitcast(i64, shr(rounded, 62))
    rest = bitcast(i64, high - (rounded & 0xC000000000000000))
    # 53 leading bits and the remaining ones, times 2 pi / 2^64
    d0 = f64(rest & -2048)
    d1 = f64(rest & 2047) + f64(sum) * 5.421010862427522e-20
    y = d0 * TURN_A
    e = fma(d0, TURN_A, -y) + fma(d0, TURN_B, d1 * TURN_A)
    r = y + e
    return quadrant, select(a < INF, r, NAN), (y - r) + e


# -pi in three parts of one sign
PI_A = -3.141592502593994
PI_B = -1.5099578831723193e-07
PI_C = -1.0780605906948477e-14
# -pi/2 in three parts of one sign
HALF_PI_A = -1.5707963267948966
HALF_PI_B = -6.123233995736765e-17
HALF_PI_C = -1.0828566739219139e-32
TURN_A = 3.4061215800865545e-19
TURN_B = 1.3277647201629793e-35
# 32 zero bits, then the bits of 1 / (2 pi)
# fmt: off
TURN_u32 = (
    0,
    0x28BE60DB, 0x9391054A, 0x7F09D5F4, 0x7D4D3770, 0x36D8A566, 0x4F10E410, 0x7F9458EA, 0xF7AEF158,
    0x6DC91B8E, 0x909374B8, 0x01924BBA, 0x82746487, 0x3F877AC7, 0x2C4A69CF, 0xBA208D7D, 0x4BAED121,
    0x3A671C09, 0xAD17DF90, 0x4E64758E, 0x60D4CE7D, 0x272117E2, 0xEF7E4A0E, 0xC7FE25FF, 0xF7816603,
    0xFBCBC462, 0xD6829B47, 0xDB4D9FB3, 0xC9F2C26D, 0xD3D18FD9, 0xA797FA8B, 0x5D49EEB1, 0xFAF97C5E,
    0xCF41CE7D, 0xE294A4BA, 0x9AFED7EC, 0x47E35742, 0x1580CC11, 0xBF1EDAEA, 0xFC33EF08, 0x26BD0D87,
)
# Coefficients of polynomials, highest power first. Those of the sine are chosen such that the
# result never exceeds 1: by a search near the minimax coefficients.
SINE_f32 = (
    2.6051575332530774e-06, -0.00019809443620033562, 0.008333065547049046, -0.16666659712791443,
)
COSINE_f32 = (2.4430085e-5, -0.0013887298, 0.041666646, -0.5, 1.0)
SINE_f64 = (
    1.5894604666301805e-10, -2.5050720414940937e-08, 2.7557313451521346e-06,
    -0.00019841269829115065, 0.008333333333321548, -0.1666666666666663,
)
COSINE_f64 = (
    -1.1357406344136137e-11, 2.0875679418479488e-09, -2.75573140248507e-07, 2.4801587288328773e-05,
    -0.0013888888888872238, 0.04166666666666659,
)
# fmt: on

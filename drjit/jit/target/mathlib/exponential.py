"""Exponentials, logarithms, powers and cube root.

`x = n ln 2 + r` leaves a short polynomial for the exponential (the reduction is exact with fused
multiply-adds, W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980), and
`x = 2^e m` with m in [sqrt(1/2), sqrt(2)) one for the logarithm. Adding 1.5 * 2^23 (2^52) rounds
to an integer that stands in the low bits of the sum.
"""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, floor, fma, i32, i64
from ..numpy.elementwise import maximum, minimum, select, shl, shr, u32, u64


def exp_f32(x):
    """`e^x`."""
    t = fma(x, 1.4426950408889634, 12582912.0)
    n = t - 12582912.0
    r = fma(n, 1.90465421e-9, fma(n, -0.693147182, x))
    p = fma(r, 0.0013846973, 0.008369989)
    p = fma(fma(fma(p, r, 0.04166801), r, 0.16666509), r, 0.49999994)
    p = fma(fma(p, r, 1.0), r, 1.0)
    y = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    extreme = ~(abs(x) < 87.0)
    if any_lane(extreme):
        # Two factors, so that the result may be subnormal; the bounds pass NaN on.
        x = minimum(89.0, maximum(-104.0, x))
        t = fma(x, 1.4426950408889634, 12582912.0)
        n = t - 12582912.0
        r = fma(n, 1.90465421e-9, fma(n, -0.693147182, x))
        p = fma(r, 0.0013846973, 0.008369989)
        p = fma(fma(fma(p, r, 0.04166801), r, 0.16666509), r, 0.49999994)
        p = fma(fma(p, r, 1.0), r, 1.0)
        k = bitcast(i32, t) - 0x4B400000
        h = shr(k, 1)
        p = p * bitcast(f32, shl(h + 127, 23)) * bitcast(f32, shl(k - h + 127, 23))
        y = select(extreme, p, y)
    return y


def exp2_f32(x):
    """`2^x`."""
    t = x + 12582912.0
    r = x - (t - 12582912.0)
    p = fma(r, 0.0001580945, 0.0013417908)
    p = fma(fma(fma(p, r, 0.009617064), r, 0.05550273), r, 0.24022655)
    p = fma(fma(p, r, 0.69314724), r, 1.0)
    y = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    extreme = ~(abs(x) < 126.0)
    if any_lane(extreme):
        x = minimum(129.0, maximum(-151.0, x))
        t = x + 12582912.0
        r = x - (t - 12582912.0)
        p = fma(r, 0.0001580945, 0.0013417908)
        p = fma(fma(fma(p, r, 0.009617064), r, 0.05550273), r, 0.24022655)
        p = fma(fma(p, r, 0.69314724), r, 1.0)
        k = bitcast(i32, t) - 0x4B400000
        h = shr(k, 1)
        p = p * bitcast(f32, shl(h + 127, 23)) * bitcast(f32, shl(k - h + 127, 23))
        y = select(extreme, p, y)
    return y


def log_f32(x):
    """The natural logarithm."""
    bits = bitcast(i32, x)
    offset = f32(0.0)
    special = bitcast(u32, bits) - 0x00800000 >= 0x7F000000
    if any_lane(special):
        # Scale subnormals; an infinite or undefined offset makes the other results.
        tiny = abs(x) < 1.1754943508222875e-38
        bits = select(tiny, bitcast(i32, x * 8388608.0), bits)
        offset = select(tiny, -23.0, select(special, x, offset))
        offset = select(x < 0.0, NAN, select(x == 0.0, -INF, offset))
    e = shr(bits - 0x3F3504F3, 23)
    f = bitcast(f32, bits - shl(e, 23)) - 1.0
    q = fma(f, -0.07642945, 0.12766959)
    q = fma(fma(fma(q, f, -0.13159485), f, 0.14200923), f, -0.16623336)
    q = fma(fma(fma(q, f, 0.20001262), f, -0.25000823), f, 0.3333333)
    q = fma(f * f, fma(q, f, -0.5), f)
    return fma(f32(e) + offset, 0.6931471805599453, q)


def log2_f32(x):
    """The logarithm to base 2."""
    bits = bitcast(i32, x)
    offset = f32(0.0)
    special = bitcast(u32, bits) - 0x00800000 >= 0x7F000000
    if any_lane(special):
        tiny = abs(x) < 1.1754943508222875e-38
        bits = select(tiny, bitcast(i32, x * 8388608.0), bits)
        offset = select(tiny, -23.0, select(special, x, offset))
        offset = select(x < 0.0, NAN, select(x == 0.0, -INF, offset))
    e = shr(bits - 0x3F3504F3, 23)
    f = bitcast(f32, bits - shl(e, 23)) - 1.0
    q = fma(f, -0.14631553, 0.20953698)
    q = fma(fma(fma(q, f, -0.18761685), f, 0.20056379), f, -0.23954704)
    q = fma(fma(fma(q, f, 0.28878704), f, -0.36070716), f, 0.4808944)
    # f + 0.4427 f: the rounding of the large part is that of the result
    return fma(f, fma(fma(q, f, -0.7213472), f, 0.44269505), f) + (f32(e) + offset)


INF = float("inf")
NAN = float("nan")

"""Arc sine, cosine and tangent."""

from ..numpy.elementwise import abs, any_lane, bitcast, f32, f64, fma, i32, i64
from ..numpy.elementwise import maximum, minimum, select, sqrt, u32, u64


def asin_f32(x):
    """The arc sine."""
    a = abs(x)
    large = a > 0.5625
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    z = select(large, fma(a, -0.5, 0.5), a * a)
    s = select(large, sqrt(z), a)
    p = fma(fma(z, 0.05119408, 0.018515995), z, 0.046686947)
    p = fma(fma(p, z, 0.074851), z, 0.16667014)
    r = fma(s * z, p, s)
    r = select(large, fma(r, -2.0, 1.5707963267948966), r)
    return bitcast(f32, bitcast(u32, r) | (bitcast(u32, x) & 0x80000000))


def acos_f32(x):
    """The arc cosine."""
    a = abs(x)
    large = a > 0.5625
    z = select(large, fma(a, -0.5, 0.5), a * a)
    s = select(large, sqrt(z), a)
    p = fma(fma(z, 0.05119408, 0.018515995), z, 0.046686947)
    p = fma(fma(p, z, 0.074851), z, 0.16667014)
    r = fma(s * z, p, s)
    signed = bitcast(f32, bitcast(u32, r) ^ (bitcast(u32, x) & 0x80000000))
    # Large x: 2 r; large -x: pi - 2 r; else pi/2 - r
    base = select(large, select(x < 0.0, 3.141592653589793, f32(0.0)), 1.5707963267948966)
    return fma(signed, select(large, f32(2.0), -1.0), base)


def atan_f32(x):
    """The arc tangent."""
    a = abs(x)
    large = a > 1.0
    s = select(large, 1.0 / a, a)
    z = s * s
    p = fma(fma(z, 0.0029201363, -0.016365381), z, 0.043207273)
    p = fma(fma(fma(p, z, -0.07551798), z, 0.106658034), z, -0.14211005)
    p = fma(fma(p, z, 0.19993767), z, -0.33333153)
    r = fma(s * z, p, s)
    r = select(large, 1.5707963267948966 - r, r)
    return bitcast(f32, bitcast(u32, r) | (bitcast(u32, x) & 0x80000000))


def atan2_f32(y, x):
    """The angle of the point (x, y) in [-pi, pi]."""
    ax = abs(x)
    ay = abs(y)
    # Both pick ax, then ay, where an operand is undefined: so is the quotient.
    q = minimum(ay, ax) / maximum(ax, ay)
    if any_lane(q != q):
        q = select((ax == 0.0) & (ay == 0.0), 0.0, select((ax == INF) & (ay == INF), 1.0, q))
    z = q * q
    p = fma(fma(z, 0.0029201363, -0.016365381), z, 0.043207273)
    p = fma(fma(fma(p, z, -0.07551798), z, 0.106658034), z, -0.14211005)
    p = fma(fma(p, z, 0.19993767), z, -0.33333153)
    r = fma(q * z, p, q)
    r = select(ay > ax, 1.5707963267948966 - r, r)
    r = select(bitcast(i32, x) < 0, 3.141592653589793 - r, r)
    return bitcast(f32, bitcast(u32, r) | (bitcast(u32, y) & 0x80000000))


INF = float("inf")

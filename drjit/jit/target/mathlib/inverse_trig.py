"""Arc sine, cosine and tangent."""

# pyright: reportUndefinedVariable=false


def _arc_f32(x):
    """Whether x is large, and s, q and p of `asin(s) = s + q p` for a smaller argument."""
    a = abs(x)
    large = a > 0.5625
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    z = select(large, fma(a, -0.5, 0.5), a * a)
    s = select(large, sqrt(z), a)
    p = polynomial(z, ASIN_f32)
    return large, s, s * z, p


def asin_f32(x):
    """The arc sine."""
    large, s, q, p = _arc_f32(x)
    # 2.2e-8 is half of the difference between pi/2 in f32 and pi/2
    r = fma(q, p, select(large, s + 2.1855694e-8, s))
    r = select(large, fma(r, -2.0, 1.5707963267948966), r)
    return _with_sign_f32(r, x)


def acos_f32(x):
    """The arc cosine."""
    large, s, q, p = _arc_f32(x)
    r = fma(q, p, s)
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
    p = polynomial(z, ATAN_f32)
    r = fma(s * z, p, s)
    r = select(large, 1.5707963267948966 - r, r)
    return _with_sign_f32(r, x)


def atan2_f32(y, x):
    """The angle of the point (x, y) in [-pi, pi]."""
    ax = abs(x)
    ay = abs(y)
    # Both pick ax, then ay, if an operand is NaN, and so does the quotient.
    q = minimum(ay, ax) / maximum(ax, ay)
    if any_lane(q != q):
        q = select((ax == 0.0) & (ay == 0.0), 0.0, select((ax == INF) & (ay == INF), 1.0, q))
    z = q * q
    p = polynomial(z, ATAN_f32)
    r = fma(q * z, p, q)
    r = select(ay > ax, 1.5707963267948966 - r, r)
    r = select(bitcast(i32, x) < 0, 3.141592653589793 - r, r)
    return _with_sign_f32(r, y)


def _arc_f64(x):
    """Whether x is large, and s, q and p of `asin(s) = s + q p` for a smaller argument."""
    a = abs(x)
    large = a > 0.5625
    # asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2))
    z = select(large, fma(a, -0.5, 0.5), a * a)
    s = select(large, sqrt(z), a)
    p = polynomial(z, ASIN_f64)
    return large, s, s * z, p


def asin_f64(x):
    """The arc sine."""
    large, s, q, p = _arc_f64(x)
    r = fma(q, p, select(large, s - 3.061616997868383e-17, s))
    r = select(large, fma(r, -2.0, 1.5707963267948966), r)
    return _with_sign_f64(r, x)


def acos_f64(x):
    """The arc cosine."""
    large, s, q, p = _arc_f64(x)
    r = fma(q, p, s)
    signed = bitcast(f64, bitcast(u64, r) ^ (bitcast(u64, x) & 0x8000000000000000))
    base = select(large, select(x < 0.0, 3.141592653589793, f64(0.0)), 1.5707963267948966)
    return fma(signed, select(large, f64(2.0), -1.0), base)


def atan_f64(x):
    """The arc tangent."""
    a = abs(x)
    large = a > 1.0
    s = select(large, 1.0 / a, a)
    z = s * s
    p = polynomial(z, ATAN_f64)
    r = fma(s * z, p, s)
    r = select(large, 1.5707963267948966 - r, r)
    return _with_sign_f64(r, x)


def atan2_f64(y, x):
    """The angle of the point (x, y) in [-pi, pi]."""
    ax = abs(x)
    ay = abs(y)
    # Both pick ax, then ay, if an operand is NaN, and so does the quotient.
    q = minimum(ay, ax) / maximum(ax, ay)
    if any_lane(q != q):
        q = select((ax == 0.0) & (ay == 0.0), 0.0, select((ax == INF) & (ay == INF), 1.0, q))
    z = q * q
    p = polynomial(z, ATAN_f64)
    r = fma(q * z, p, q)
    r = select(ay > ax, 1.5707963267948966 - r, r)
    r = select(bitcast(i64, x) < 0, 3.141592653589793 - r, r)
    return _with_sign_f64(r, y)


# fmt: off
# Coefficients of polynomials, highest power first
ASIN_f32 = (0.05119408, 0.018515995, 0.046686947, 0.074851, 0.16667014)
ATAN_f32 = (
    0.0029201363, -0.016365381, 0.043207273, -0.07551798, 0.106658034, -0.14211005, 0.19993767,
    -0.33333153,
)
ASIN_f64 = (
    0.05978800385404671, -0.07668482456572036, 0.0685500199245948, -0.02164349856587707,
    0.01747770477579176, 0.007766429717729486, 0.011862997819371222, 0.013930377346434743,
    0.01735543628242072, 0.02237201839873705, 0.030381949224604153, 0.04464285704677921,
    0.07500000000097451, 0.16666666666666322,
)
ATAN_f64 = (
    1.322553244851664e-05, -0.00015216573783377322, 0.0008313458464225145, -0.0028849908863107375,
    0.007196653039501786, -0.013900785335374307, 0.0219851076868022, -0.029904078489482684,
    0.0366420582252889, -0.04219186620927805, 0.047223253111762065, -0.0525351951530916,
    0.058805280423671794, -0.06666404097797546, 0.07692279844445189, -0.09090907003450814,
    0.11111111007052969, -0.14285714282576037, 0.19999999999951476, -0.3333333333333307,
)
# fmt: on

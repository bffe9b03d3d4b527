"""Exponentials, logarithms, powers and cube root.

Writing `x = n ln 2 + r` leaves a short polynomial for the exponential (the reduction is exact with
fused multiply-adds, W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980),
and `x = 2^e m` with m in [sqrt(1/2), sqrt(2)) one for the logarithm. Adding 1.5 * 2^23 (2^52)
rounds to an integer in the low bits of the sum.
"""

# pyright: reportUndefinedVariable=false


def _exponential_f32(x, bias):
    """`bias + n` for the integer n nearest to `x / ln 2`, and `e^(x - n ln 2)`."""
    t = fma(x, 1.4426950408889634, bias)
    n = t - bias
    r = fma(n, 1.90465421e-9, fma(n, -0.693147182, x))
    return t, polynomial(r, EXP_f32)


def _scaled_f32(p, t):
    """`p 2^n` for the n in the low bits of t, using two factors so that the result may be
    subnormal."""
    k = bitcast(i32, t) - 0x4B400000
    h = shr(k, 1)
    return p * bitcast(f32, shl(h + 127, 23)) * bitcast(f32, shl(k - h + 127, 23))


def exp_f32(x):
    """`e^x`."""
    t, p = _exponential_f32(x, 12582912.0)
    y = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    extreme = ~(abs(x) < 87.0)
    if any_lane(extreme):
        # The bounds propagate NaN.
        x = minimum(89.0, maximum(-104.0, x))
        t, p = _exponential_f32(x, 12582912.0)
        y = select(extreme, _scaled_f32(p, t), y)
    return y


def exp2_f32(x):
    """`2^x`."""
    t = x + 12582912.0
    r = x - (t - 12582912.0)
    p = polynomial(r, EXP2_f32)
    y = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    extreme = ~(abs(x) < 126.0)
    if any_lane(extreme):
        x = minimum(129.0, maximum(-151.0, x))
        t = x + 12582912.0
        r = x - (t - 12582912.0)
        p = polynomial(r, EXP2_f32)
        y = select(extreme, _scaled_f32(p, t), y)
    return y


def _fraction_f32(x):
    """f and e with `x = (1 + f) 2^e`; an infinite or NaN e produces special results."""
    bits = bitcast(i32, x)
    offset = f32(0.0)
    special = bitcast(u32, bits) - 0x00800000 >= 0x7F000000
    if any_lane(special):
        # Scale subnormals.
        tiny = abs(x) < 1.1754943508222875e-38
        bits = select(tiny, bitcast(i32, x * 8388608.0), bits)
        offset = select(tiny, -23.0, select(special, x, offset))
        offset = select(x < 0.0, NAN, select(x == 0.0, -INF, offset))
    e = shr(bits - 0x3F3504F3, 23)
    f = bitcast(f32, bits - shl(e, 23)) - 1.0
    return f, f32(e) + offset


def log_f32(x):
    """The natural logarithm."""
    f, e = _fraction_f32(x)
    q = polynomial(f, LOG_f32)
    q = fma(f * f, fma(q, f, -0.5), f)
    return fma(e, 0.6931471805599453, q)


def log2_f32(x):
    """The logarithm to base 2."""
    f, e = _fraction_f32(x)
    q = polynomial(f, LOG2_f32)
    # f + 0.4427 f: the rounding of the large part is that of the result
    return fma(f, fma(fma(q, f, -0.7213472), f, 0.44269505), f) + e


def expm1_f32(x):
    """`e^x - 1`, accurate near 0."""
    a = minimum(89.0, maximum(-20.0, x))
    # 2^n (e^r - 1) + 2^n - 1, halved. The exponent bias is part of the rounding constant.
    t = fma(a, 1.4426950408889634, 12583038.0)
    n = t - 12583038.0
    r = fma(n, 1.90465421e-9, fma(n, -0.693147182, a))
    p = fma(r * r, polynomial(r, EXPM1_f32), r)
    h = bitcast(f32, shl(bitcast(i32, t), 23))
    y = fma(h, p, h - 0.5)
    return _with_sign_f32(select(n == 0.0, p, y + y), x)


def log1p_f32(x):
    """`log(1 + x)`, accurate near 0."""
    u = 1.0 + x
    f, e = _fraction_f32(u)
    near = e == 0.0
    f = select(near, x, f)
    q = polynomial(f, LOG_f32)
    q = fma(f * f, fma(q, f, -0.5), f)
    # The rounding error of the sum; where x is huge, nothing significant is lost.
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    y = fma(e, 0.6931471805599453, q + select(abs(e) < 30.0, lost / u, 0.0))
    return select(near, q, y)


def _special_powers(x, y, p, negative):
    """`x^y`, given its value p except for the sign and special values; `negative` is the sign
    of x."""
    p = select((abs(x) == 1.0) & (abs(y) == INF), 1.0, p)
    whole = floor(y) == y
    odd = whole & (floor(0.5 * y) != 0.5 * y)
    p = select(negative & odd, -p, p)
    p = select((x < 0.0) & (x > -INF) & ~whole, NAN, p)
    return select((x == 1.0) | (y == 0.0), 1.0, p)


def pow_f32(x, y):
    """`x^y`, with the special values of IEEE 754."""
    bits = bitcast(i32, x)
    offset = f32(0.0)
    special = bitcast(u32, bits) - 0x00800000 >= 0x7F000000
    if any_lane(special):
        a = abs(x)
        tiny = a < 1.1754943508222875e-38
        bits = select(tiny, bitcast(i32, a * 8388608.0), bitcast(i32, a))
        offset = select(tiny, -23.0, select(a < INF, 0.0, a))
        offset = select(a == 0.0, -INF, offset)
    e = shr(bits - 0x3F3504F3, 23)
    f = bitcast(f32, bits - shl(e, 23)) - 1.0
    # log2(1 + f) = C (s + s z Q(z)) as a sum of two, with s = f / (2 + f), z = s^2, C = 2 / ln 2
    d = f + 2.0
    r = _reciprocal_f32(d)
    s = f * r
    s_low = fma(-s, (2.0 - d) + f, fma(-s, d, f)) * r
    z = s * s
    q = fma(fma(fma(z, 0.3346449, 0.41201532), z, 0.5770778), z, 0.9617967)
    h = s * 2.885390043258667
    low = fma(s, 3.851925982253235e-08, fma(s, 2.885390043258667, -h))
    low = fma(s * z, q, fma(s_low, fma(z, 2.885390043258667, 2.885390043258667), low))
    w = f32(e) + offset
    sum = w + h
    low = ((w - sum) + h) + low
    high = sum + low
    low = (sum - high) + low
    v = y * high
    rest = fma(y, low, fma(y, high, -v))
    t = v + 12582912.0
    r = (v - (t - 12582912.0)) + rest
    p = polynomial(r, EXP2_f32)
    power = bitcast(f32, bitcast(i32, p) + shl(bitcast(i32, t), 23))
    special = special | ~(abs(v) < 64.0)
    if any_lane(special):
        # A large result magnifies the rounding error of the product s z.
        low = fma(fma(s, z, -(s * z)) + s * fma(s, s, -z), q, low)
        rest = fma(y, low, fma(y, high, -v))
        v = select(abs(sum) < INF, v, y * sum)
        rest = select(abs(v) < 151.0, rest, 0.0)
        v = minimum(129.0, maximum(-151.0, v))
        t = v + 12582912.0
        r = (v - (t - 12582912.0)) + rest
        p = polynomial(r, EXP2_f32)
        p = _special_powers(x, y, _scaled_f32(p, t), bitcast(i32, x) < 0)
        power = select(special, p, power)
    return power


def cbrt_f32(x):
    """The cube root."""
    a = abs(x)
    tiny = a < 1.1754943508222875e-38
    b = select(tiny, a * 16777216.0, a)
    # x^(-1/3): a third of the bits, then a step of third order
    r = bitcast(f32, 0x54A21D2A - i32(f32(bitcast(i32, b)) * 0.3333333333333333))
    c = b * r * r * r
    r = r * fma(fma(c, 0.2222222222222222, -0.7777777777777778), c, 1.5555555555555556)
    c = b * r * r * r
    r = r * fma(c, -0.3333333333333333, 1.3333333333333333)
    y = b * r * r
    # Newton's step with the residual of y^3
    z = y * y
    d = fma(-z, y, b) - fma(y, y, -z) * y
    y = fma(d * r * r, 0.3333333333333333, y)
    y = select((b == 0.0) | ~(a < INF), b, select(tiny, y * 0.00390625, y))
    return _with_sign_f32(y, x)


def _exponential_f64(x, bias):
    """`bias + n` for the integer n nearest to `x / ln 2`, and `e^(x - n ln 2)`."""
    t = fma(x, 1.4426950408889634, bias)
    n = t - bias
    r = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, x))
    return t, fma(polynomial(r, EXP_f64), r, 1.0)


def _exponential_sum_f64(x, low):
    """The same for `x + low`, with the bias of `_scaled_f64`."""
    t = fma(x, 1.4426950408889634, 6755399441055744.0)
    n = t - 6755399441055744.0
    r = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, x)) + low
    return t, fma(polynomial(r, EXP_f64), r, 1.0)


def _scaled_f64(p, t):
    """`p 2^n` for the n in the low bits of t, using two factors so that the result may be
    subnormal."""
    k = bitcast(i64, t) - 0x4338000000000000
    h = shr(k, 1)
    return p * bitcast(f64, shl(h + 1023, 52)) * bitcast(f64, shl(k - h + 1023, 52))


def exp_f64(x):
    """`e^x`."""
    y = minimum(710.0, maximum(-746.0, x))
    t, p = _exponential_f64(y, 6755399441055744.0)
    z = bitcast(f64, bitcast(i64, p) + shl(bitcast(i64, t), 52))
    extreme = ~(abs(x) < 708.0)
    if any_lane(extreme):
        z = select(extreme, _scaled_f64(p, t), z)
    return z


def exp2_f64(x):
    """`2^x`."""
    y = minimum(1025.0, maximum(-1076.0, x))
    t = y + 6755399441055744.0
    # r ln 2 to more than double precision
    d = y - (t - 6755399441055744.0)
    r = d * 0.6931471805599453
    low = fma(d, 2.3190468138462996e-17, fma(d, 0.6931471805599453, -r))
    p = polynomial(r, EXP_f64)
    p = fma(p, r, 1.0) + low
    z = bitcast(f64, bitcast(i64, p) + shl(bitcast(i64, t), 52))
    extreme = ~(abs(x) < 1022.0)
    if any_lane(extreme):
        z = select(extreme, _scaled_f64(p, t), z)
    return z


def _logarithm_f64(x):
    """f and e with `x = (1 + f) 2^e` (an infinite or NaN e for special results), and the terms s,
    z, h and q of `log(1 + f) = f - (h - s (h + z q))`."""
    bits = bitcast(i64, x)
    offset = f64(0.0)
    special = bitcast(u64, bits) - 0x0010000000000000 >= 0x7FE0000000000000
    if any_lane(special):
        # Scale subnormals.
        tiny = abs(x) < 2.2250738585072014e-308
        bits = select(tiny, bitcast(i64, x * 18014398509481984.0), bits)
        offset = select(tiny, -54.0, select(special, x, offset))
        offset = select(x < 0.0, NAN, select(x == 0.0, -INF, offset))
    k = shr(bits - 0x3FE6A09E667F3BCD, 52)
    f = bitcast(f64, bits - shl(k, 52)) - 1.0
    e = f64(k) + offset
    # log(1 + f) = 2 s + s z R(z) = f - s (f - z R(z)), s = f / (2 + f), z = s^2
    s = f / (2.0 + f)
    z = s * s
    q = polynomial(z, LOG_f64)
    h = 0.5 * f * f
    return f, e, s, z, h, q


def log_f64(x):
    """The natural logarithm."""
    return log_sum_f64(x, 0.0)


def log_sum_f64(x, low):
    """`log(x) + low` for a low that is small relative to x."""
    f, e, s, z, h, q = _logarithm_f64(x)
    # f - s (f - z R) = f - (h - s (h + z R))
    q = h - (fma(s, fma(q, z, h), e * 2.3190468138462996e-17) + low)
    return fma(e, 0.6931471805599453, f - q)


def expm1_f64(x):
    """`e^x - 1`, accurate near 0."""
    a = minimum(710.0, maximum(-40.0, x))
    # 2^n (e^r - 1) + 2^n - 1, halved. The exponent bias is part of the rounding constant.
    t = fma(a, 1.4426950408889634, 6755399441056766.0)
    n = t - 6755399441056766.0
    r = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, a))
    p = fma(r * r, polynomial(r, EXPM1_f64), r)
    h = bitcast(f64, shl(bitcast(i64, t), 52))
    y = fma(h, p, h - 0.5)
    return _with_sign_f64(select(n == 0.0, p, y + y), x)


def log1p_f64(x):
    """`log(1 + x)`, accurate near 0."""
    return select(x == 0.0, x, log1p_sum_f64(x, 0.0))


def log1p_sum_f64(x, low):
    """`log(1 + x + low)` for a low that is small relative to x."""
    u = 1.0 + x
    # The rounding error of the sum; where x is huge, nothing significant is lost.
    lost = select(x < 1.0, x - (u - 1.0), 1.0 - (u - x))
    return log_sum_f64(u, select((x < 1e16) & (x > -1.0), (lost + low) / u, 0.0))


def log2_f64(x):
    """The logarithm to base 2."""
    f, e, s, z, h, q = _logarithm_f64(x)
    # log(1 + f) = high + low with an error far below the last bit of high
    high = f - h
    low = ((f - high) - h) - fma(0.5 * f, f, -h) + s * fma(q, z, h)
    y = high * 1.4426950408889634
    low = fma(low, 1.4426950408889634, fma(high, 1.4426950408889634, -y))
    low = fma(high, 2.0355273740931033e-17, low)
    w = e + y
    return select(abs(e) < INF, w + (((e - w) + y) + low), e)


def pow_f64(x, y):
    """`x^y`, with the special values of IEEE 754."""
    bits = bitcast(i64, x)
    offset = f64(0.0)
    special = bitcast(u64, bits) - 0x0010000000000000 >= 0x7FE0000000000000
    if any_lane(special):
        a = abs(x)
        tiny = a < 2.2250738585072014e-308
        bits = select(tiny, bitcast(i64, a * 18014398509481984.0), bitcast(i64, a))
        offset = select(tiny, -54.0, select(a < INF, 0.0, a))
        offset = select(a == 0.0, -INF, offset)
    k = shr(bits - 0x3FE6A09E667F3BCD, 52)
    f = bitcast(f64, bits - shl(k, 52)) - 1.0
    e = f64(k) + offset
    # log(1 + f) = 2 s + s z (2/3 + z Q(z)) in doubled precision, with s = f / (2 + f), z = s^2
    d = 2.0 + f
    r = 1.0 / d
    s = f * r
    s_low = (fma(-s, d, f) - s * ((2.0 - d) + f)) * r
    z = s * s
    z_low = fma(s, s, -z) + 2.0 * s * s_low
    q = polynomial(z, POW_LOG_f64)
    w = z * q
    c = w + 0.6666666666666666
    c_low = ((0.6666666666666666 - c) + w) + 3.700743415417188e-17
    u = s * z
    u_low = fma(s, z, -u) + fma(s, z_low, s_low * z)
    v = u * c
    v_low = fma(u, c, -v) + fma(u, c_low, u_low * c)
    ln = 2.0 * s + v
    low = ((2.0 * s - ln) + v) + fma(2.0, s_low, v_low)
    # The first part of ln 2 has trailing zeros: its product with e is exact.
    w = e * 0.693147180559663
    high = w + ln
    low = ((w - high) + ln) + fma(e, 2.8235290563031577e-13, low)
    v = y * high
    rest = fma(y, high, -v) + y * low
    t, p = _exponential_sum_f64(v, rest)
    power = bitcast(f64, bitcast(i64, p) + shl(bitcast(i64, t), 52))
    special = special | ~(abs(v) < 708.0)
    if any_lane(special):
        rest = select(abs(v) < 746.0, rest, 0.0)
        v = minimum(710.0, maximum(-746.0, v))
        t, p = _exponential_sum_f64(v, rest)
        p = _special_powers(x, y, _scaled_f64(p, t), bitcast(i64, x) < 0)
        power = select(special, p, power)
    return power


def cbrt_f64(x):
    """The cube root."""
    a = abs(x)
    tiny = a < 2.2250738585072014e-308
    b = select(tiny, a * 18014398509481984.0, a)
    # x^(-1/3): a third of the bits, then steps of third order
    r = bitcast(f64, 0x553EEE5000000000 - i64(f64(bitcast(i64, b)) * 0.3333333333333333))
    c = b * r * r * r
    r = r * fma(fma(c, 0.2222222222222222, -0.7777777777777778), c, 1.5555555555555556)
    c = b * r * r * r
    r = r * fma(fma(c, 0.2222222222222222, -0.7777777777777778), c, 1.5555555555555556)
    y = b * r * r
    # Newton's step with the residual of y^3
    z = y * y
    d = fma(-z, y, b) - fma(y, y, -z) * y
    y = fma(d * r * r, 0.3333333333333333, y)
    y = select((b == 0.0) | ~(a < INF), b, select(tiny, y * 3.814697265625e-06, y))
    return _with_sign_f64(y, x)


# fmt: off
# Coefficients of polynomials, highest power first
EXP_f32 = (0.0013846973, 0.008369989, 0.04166801, 0.16666509, 0.49999994, 1.0, 1.0)
EXP2_f32 = (0.0001580945, 0.0013417908, 0.009617064, 0.05550273, 0.24022655, 0.69314724, 1.0)
LOG_f32 = (
    -0.07642945, 0.12766959, -0.13159485, 0.14200923, -0.16623336, 0.20001262, -0.25000823,
    0.3333333,
)
LOG2_f32 = (
    -0.14631553, 0.20953698, -0.18761685, 0.20056379, -0.23954704, 0.28878704, -0.36070716,
    0.4808944,
)
EXPM1_f32 = (0.0013926184, 0.008363179, 0.041666556, 0.16666576, 0.5)
EXPM1_f64 = (
    2.510038549551032e-08, 2.7620088445409746e-07, 2.7557268459997064e-06, 2.4801521295954376e-05,
    0.00019841269863053618, 0.0013888888917213717, 0.008333333333330062, 0.04166666666662413,
    0.16666666666666669, 0.5,
)
EXP_f64 = (
    2.499867194743873e-08, 2.7630364713823853e-07, 2.7557591778244955e-06, 2.4801492815838754e-05,
    0.00019841269499374753, 0.0013888888943852816, 0.008333333333498307, 0.04166666666652955,
    0.16666666666666405, 0.5000000000000011, 1.0,
)
LOG_f64 = (
    0.14810675163071446, 0.15313147276972683, 0.18183572289670857, 0.22222199075776933,
    0.2857142872939428, 0.3999999999952014, 0.666666666666671,
)
POW_LOG_f64 = (
    0.11883896095642522, 0.11688493330307348, 0.13335588158587441, 0.1538457734809287,
    0.1818181854737974, 0.22222222220347676, 0.28571428571432916, 0.39999999999999997,
)
# fmt: on

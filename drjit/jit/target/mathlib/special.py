"""Error function, its inverse, and the logarithm of the gamma function.

Beyond 0.9, the error function is `1 - exp(-g(x))` with a polynomial g. Its inverse follows M.
Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011): a polynomial in
`w = -log(1 - x^2)` or `sqrt(w)` times x. The logarithm of the gamma function uses Stirling's series
(M. Abramowitz, I. A. Stegun, "Handbook of Mathematical Functions", 6.1.41) or, below 8, a
polynomial on [1, 3] and the recurrence.
"""

# pyright: reportUndefinedVariable=false


def erf_f32(x):
    """The error function."""
    a = abs(x)
    z = x * x
    p = polynomial(z, ERF_f32)
    y = fma(x, p, x)
    large = a > 0.921875
    if any_lane(large):
        # The bound propagates NaN.
        b = minimum(4.0, a)
        g = polynomial(b, ERF_TAIL_f32)
        tail = 1.0 - exp_f32(-g)
        tail = _with_sign_f32(tail, x)
        y = select(large, tail, y)
    return y


def erfinv_f32(x):
    """The inverse error function; NaN beyond 1."""
    w = -log_f32(fma(-x, x, 1.0))
    # p(w) = erfinv(x) / x - 1
    p = polynomial(w, ERFINV_f32)
    large = w > 5.0
    if any_lane(large):
        u = sqrt(w) - 3.0
        q = polynomial(u, ERFINV_TAIL_f32)
        p = select(large, select(w < INF, q, INF), p)
    return fma(x, p, x)


def lgamma_f32(x):
    """The logarithm of the absolute value of the gamma function, infinite at 0, -1, -2 and so on.

    Within 1 ulp for x > 0; below 0 the error is at most 1 ulp or 1e-15 (1 + |x log |x||).
    """
    return f32(lgamma_f64(f64(x)))


def erf_f64(x):
    """The error function."""
    a = abs(x)
    z = x * x
    p = polynomial(z, ERF_f64)
    y = fma(x, p, x)
    large = a > 0.921875
    if any_lane(large):
        # The bound propagates NaN.
        b = minimum(6.0, a)
        g = polynomial(b, ERF_TAIL_f64)
        tail = 1.0 - exp_f64(-g)
        tail = _with_sign_f64(tail, x)
        y = select(large, tail, y)
    return y


def erfinv_f64(x):
    """The inverse error function; NaN beyond 1."""
    w = -log_f64((1.0 - x) * (1.0 + x))
    p = polynomial(w, ERFINV_f64)
    large = w > 4.5
    if any_lane(large):
        v = sqrt(w)
        u = v - 3.0625
        q = polynomial(u, ERFINV_TAIL_f64)
        # The rounding error of the square root would be significant here.
        u = (v - 5.0) + 0.5 * fma(-v, v, w) / v
        r = polynomial(u, ERFINV_FAR_f64)
        q = select(v < 4.0, q, select(v < INF, r, INF))
        p = select(large, q, p)
    # p is the quotient minus 1
    return fma(x, p, x)


def lgamma_f64(x):
    """The logarithm of the absolute value of the gamma function, infinite at 0, -1, -2 and so on.

    Within 4 ulp for x > 0; below 0 the error is at most 1e-15 (1 + |x log |x||).
    """
    a = abs(x)
    # 1 <= y < 3 and a product p with gamma(a) = p gamma(y)
    k = floor(a) - 2.0
    y = a - select(k > 0.0, k, 0.0)
    p = select(k >= 1.0, a - 1.0, 1.0)
    p = select(k >= 2.0, p * (a - 2.0), p)
    p = select(k >= 3.0, p * (a - 3.0), p)
    p = select(k >= 4.0, p * (a - 4.0), p)
    p = select(k >= 5.0, p * (a - 5.0), p)
    below = a < 1.0
    large = a >= 8.0
    # lgamma(y) = (y - 1) (y - 2) R(y - 2); the factors are exact, below 1 as factors of a + 1
    u = select(below, a - 1.0, y - 2.0)
    v = select(below, a, y - 1.0)
    r = polynomial(u, LGAMMA_f64)
    ln = log_f64(select(large, a, select(below, a, p)))
    near = fma(u * v, r, select(below, -ln, ln))
    # Stirling's series
    r = 1.0 / a
    z = r * r
    q = polynomial(z, STIRLING_f64)
    far = fma(a - 0.5, ln - 1.0, fma(q, r, 0.4189385332046727))
    g = select(large, select(a < INF, far, a), near)
    negative = x < 0.0
    if any_lane(negative):
        # gamma(x) gamma(-x) = -pi / (x sin(pi x))
        s = a - floor(a)
        s = sin_f64(3.141592653589793 * minimum(s, 1.0 - s))
        t = 1.1447298858494002 - log_f64(a * s) - g
        # At integers `t` may be inf - inf; close to 0, where a * s underflows, gamma(x) = 1 / x.
        t = select(s == 0.0, INF, select(a < 1e-20, g, t))
        g = select(negative, select(a < INF, t, a), g)
    return g


# fmt: off
# Coefficients of polynomials, highest power first
ERF_f32 = (-0.000599444, 0.0049940306, -0.026767347, 0.112818435, -0.37612498, 0.12837915)
ERFINV_f32 = (
    -8.807007e-9, 2.2140969e-7, -1.980249e-6, 4.003944e-6, 4.4497883e-5, -0.0001273492,
    -0.0023344492, 0.011548749, 0.23201379, -0.11377308,
)
ERF_f64 = (
    1.0065551378331408e-08, -1.5468351875215153e-07, 1.6362667015209868e-06,
    -1.4918705559275823e-05, 0.00012055018948605594, -0.0008548317857553746, 0.005223977458024664,
    -0.026866170627233767, 0.11283791670856687, -0.37612638903181633, 0.1283791670955125,
)
ERFINV_f64 = (
    -3.28843457572137e-17, 1.5001886547196174e-15, -3.031328950950154e-14, 3.482485495168182e-13,
    -2.3896294962205067e-12, 9.063279484583948e-12, -1.449809441418012e-11, 4.6187172266845254e-11,
    -6.353445460488647e-10, 9.046153096968013e-10, 2.2641437405915865e-08, -3.7183266039363264e-08,
    -1.0126109510824037e-06, 2.020005935731409e-06, 4.661143889365366e-05, -0.00012804329514405817,
    -0.0023351016412704283, 0.011549342038224959, 0.23201366653465666, -0.113773074547242,
)
LGAMMA_f64 = (
    -2.2094012136530232e-10, 4.2470837874092646e-10, 7.827912936092339e-10, -1.3911408873958353e-09,
    -2.7363375761296046e-09, 4.9315997889384674e-09, 1.0589062015234202e-09, -7.671275889654257e-10,
    -1.3449694178541307e-08, 2.6255409262289325e-08, -4.0958192752761387e-08, 8.745303789626974e-08,
    -1.9299652636712242e-07, 4.0556713834766996e-07, -8.524504842964133e-07, 1.807458059476415e-06,
    -3.847461474868848e-06, 8.222347964304802e-06, -1.7661650245733894e-05, 3.816886272961761e-05,
    -8.309512965012907e-05, 0.00018255264198747124, -0.00040570739723852663, 0.0009153769220599068,
    -0.002108130833968109, 0.004998641164703907, -0.012384192193371016, 0.03296500062115574,
    -0.10031730167435392, 0.42278433509846713,
)
STIRLING_f64 = (
    -0.02955065359477124, 0.00641025641025641, -0.0019175269175269176, 0.0008417508417508417,
    -0.0005952380952380953, 0.0007936507936507937, -0.002777777777777778, 0.08333333333333333,
)
ERF_TAIL_f32 = (
    -0.00019591344, 0.0030430146, -0.022226214, 0.10393031, 0.63718355, 1.1276749, 0.00019582557,
)
ERFINV_TAIL_f32 = (
    9.67126e-5, -0.00029269955, -2.8745588e-5, 0.0014636917, -0.0036121532, 0.005695302,
    -0.0076341666, 0.00944429, 1.0016748, 1.8329768,
)
ERF_TAIL_f64 = (
    -3.3314486546283193e-16, 1.9597328977703883e-14, -5.42852526802013e-13, 9.400078362907287e-12,
    -1.1379736931456364e-10, 1.01863733403056e-09, -6.930625473522559e-09, 3.602958531272686e-08,
    -1.3941483589616816e-07, 3.588127333539375e-07, -2.6659270053736205e-07, -2.779244348952049e-06,
    1.69153899846781e-05, -5.424083583881291e-05, 9.982294166918472e-05, -1.528608442487265e-05,
    -0.0005512057935243838, 0.0016665056817739938, -0.0001911430439469695, -0.01913698848174625,
    0.10277563661158219, 0.6366190118213962, 1.1283792871154186, -8.962619642727953e-09,
)
ERFINV_TAIL_f64 = (
    -3.066045914608306e-10, -2.595052148260523e-09, 9.165288263388873e-09, 6.672335276851268e-09,
    -6.398181324366785e-08, 9.675281799841576e-08, 6.993363745371388e-08, -6.483449687992429e-07,
    1.3412536858102416e-06, -8.241551693051713e-08, -6.662417357089367e-06, 1.671739912469645e-05,
    -8.342343570419867e-06, -5.6965495750309315e-05, 0.0001726753197117918, -0.00017645153154870828,
    -0.00026301991741467425, 0.0013916846063288147, -0.0030180942564077746, 0.004658446378822851,
    -0.0063543741788167525, 0.0081372026416382, 1.0027716799397672, 1.895616617371387,
)
ERFINV_FAR_f64 = (
    -3.022849454829327e-11, 4.3967445873051535e-11, 1.1425346288063561e-10, -4.419347536726465e-10,
    1.2314570582322473e-09, -3.4642210127154156e-09, 7.907636190562655e-09, -1.5261152012901264e-08,
    2.8967443221373314e-08, -6.755324735313471e-08, 2.2907067933508827e-07, -9.930301945878151e-07,
    4.526049027397374e-06, -1.9681770581729055e-05, 7.599527843992279e-05, -0.00021503011983569877,
    -0.00013871931839309584, 1.0103004648645455, 3.8499064014085844,
)
# fmt: on

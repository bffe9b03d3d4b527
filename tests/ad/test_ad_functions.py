"""Derivatives of every public function: one table, both modes, against finite differences."""

import types

import numpy as np
import pytest
from directional import check
from test_ad_higher import check as check_second_derivatives

import drjit as dr
from drjit import ReduceOp, dda
from drjit.llvm.ad import (
    Array1f64,
    Array2f64,
    Array3f64,
    ArrayXf64,
    Bool,
    Complex2f64,
    Float32,
    Float64,
    Matrix2f64,
    Matrix3f64,
    Matrix4f64,
    Quaternion4f64,
    TensorXf64,
    Texture1f64,
    Texture2f64,
    UInt,
)

X = Float64(0.4, -1.2, 2.1)
Y = Float64(1.3, 0.6, -0.7)
UNIT = Float64(-0.7, 0.2, 0.9)
POSITIVE = Float64(0.2, 1.3, 2.4)
FOUR = Float64(0.3, 1.2, -0.8, 2.5)
V, W = Array3f64([0.3, -1.1], [0.8, 0.5], [-0.4, 1.7]), Array3f64([1.2, 0.1], -0.6, [0.9, 0.4])
Z = Complex2f64([0.3, -1.4], [0.7, 0.6])
Q = Quaternion4f64([0.1, 0.5], [-0.4, 0.2], [0.3, 0.3], [0.8, -0.6])
R = Quaternion4f64([0.3, -0.1], [0.2, 0.6], [-0.5, 0.1], [0.7, 0.9])
T = TensorXf64(np.array([[0.3, -1.2, 0.8], [1.9, 0.5, -0.6]]))
U = TensorXf64(np.array([[1.1, 0.4, -0.9], [0.2, -1.6, 0.7]]))
ACTIVE = Bool(True, False, True)
BOUNDARIES = ("zero", "nearest", "wrap", "reflect", "mirror")


def matrix(cls, n, lanes=2):
    """A matrix per lane, far from singular."""
    entries = np.random.default_rng(3).uniform(-0.5, 0.5, (n, n, lanes))
    return cls((entries + 2 * np.eye(n)[..., None]).tolist())


M2, M3, M4 = [matrix(c, n) for c, n in ((Matrix2f64, 2), (Matrix3f64, 3), (Matrix4f64, 4))]


def one(name, *args):
    return (lambda *a: getattr(dr, name)(*a), *args)


def scatter(update, *more, index=UInt(2, 0, 2)):  # noqa: B008
    def f(target, value):
        changed = Float64(target)
        update(*more, changed, value, index, ACTIVE)
        return changed

    return f


def exchange(target, value):
    changed = Float64(target)
    return [dr.scatter_exch(changed, value, UInt(3, 0, 1), ACTIVE) ** 2, changed]


def compare_and_swap(target, value):
    changed, expected = Float64(target), dr.detach(dr.gather(Float64, target, UInt(3, 0, 1)))
    return [dr.scatter_cas(changed, expected, value, UInt(3, 0, 1), ACTIVE)[0] ** 2, changed]


def evaluated(call):
    def f(x):
        y = dr.sin(x)
        call(y)
        return y * x

    return f


def random_number(x):
    return dr.rng(5).normal(Float64, 3, x, dr.exp(x)) + dr.rng(5).uniform(Float64, 3, x, x * x)


class Cube(dr.CustomOp):
    def eval(self, x):
        self.x = x
        return x**3

    def forward(self):
        self.set_grad_out(3 * self.x**2 * self.grad_in("x"))

    def backward(self):
        self.set_grad_in("x", 3 * self.x**2 * self.grad_out())


class Member:
    def __init__(self, value):
        self.value = value


def called(mode, x, y):
    """A call of one of two functions, and of a method of one of two objects."""
    index = dr.arange(UInt, len(x)) % 2
    targets = [lambda x, y: dr.sin(x) * y, lambda x, y: x * x + y]
    first = dr.switch(index, targets, x, y, mode=mode)
    pointer = dr.instance_t(Float64, Member)
    members = [Member(dr.gather(Float64, x, UInt(k))) for k in (0, 1)]
    p = pointer([members[k] for k in index])
    second = dr.dispatch(p, lambda m, y: m.value * y, y, mode=mode)
    for m in members:
        pointer.unregister(m)
    return [first, second]


@dr.syntax
def iterated(x, y):
    """A loop with a branch in it."""
    i, z = UInt(0), y
    while dr.hint(i < dr.arange(UInt, len(x)), mode="evaluated"):
        if z > 0.5:
            z = z * x
        else:
            z = dr.sin(z)
        i += 1
    return z


def looped(x, y):
    count = dr.arange(UInt, len(x))
    return dr.while_loop((UInt(0), y), lambda i, z: i < count, lambda i, z: (i + 1, dr.sin(z) * x))[
        1
    ]


def branched(x, y):
    return dr.if_stmt((x, y), x > 0, lambda x, y: dr.sin(x) * y, lambda x, y: [y, x][0])


def remembered(x, y):
    local = dr.alloc_local(Float64, 2, x)
    local[dr.arange(UInt, len(x)) % 2] = x * y
    return [local[0] * y, local[dr.arange(UInt, len(x)) // 2]]


def upsampled_texture(data):
    return dr.upsample(Texture1f64(TensorXf64(data, (2, 2))), shape=(6,)).tensor()


# name of a public function -> function and arguments of a test, or several
FUNCTIONS = {
    **{
        n: one(n, X)
        for n in (
            "abs", "asinh", "atan", "cbrt", "copy", "cos", "cosh", "cumsum", "deg2rad", "erf",
            "exp", "exp2", "expm1", "max", "mean", "median", "min", "norm", "prefix_sum", "prod",
            "log_softmax", "logsumexp", "rad2deg", "ravel", "rcp", "reverse", "sin", "softmax",
            "sincos", "sincosh", "sinh", "sort", "sqr",
            "square", "squared_norm", "std", "sum", "tan", "tanh", "var",
        )
    },
    **{n: one(n, UNIT) for n in ("acos", "asin", "atanh", "erfinv", "safe_acos", "safe_asin")},
    **{
        n: one(n, POSITIVE)
        for n in ("lgamma", "log", "log1p", "log2", "rsqrt", "safe_sqrt", "sqrt")
    },
    **{
        n: one(n, X, Y)
        for n in (
            "abs_dot", "atan2", "copysign", "dot", "fmax", "fmin", "hypot", "maximum", "minimum",
            "mulsign",
        )
    },
    "acosh": one("acosh", POSITIVE + 1),
    "power": [one("power", POSITIVE, Y), (lambda x: dr.power(x, 3) + x**-2, X)],
    "fma": one("fma", X, Y, UNIT),
    "lerp": one("lerp", X, Y, UNIT),
    "clip": (lambda x: dr.clip(x, -0.5, 0.5), X),
    "clamp": (lambda x: dr.clamp(x, -0.5, 0.5), X),
    "select": [
        (lambda x, y: dr.select(ACTIVE, x, y), X, Y),
        (lambda x: dr.select(x > 0, dr.sqrt(x), 0), X),
        (lambda t, u: dr.select(t > u, t * u, u), T, U),
    ],
    "linear_to_srgb": [
        one("linear_to_srgb", Float64(0.001, 0.2, 0.8)),
        (lambda x: dr.linear_to_srgb(x, False), Float64(0.001, 0.2, 1.8)),
    ],
    "srgb_to_linear": [
        one("srgb_to_linear", Float64(0.01, 0.2, 0.8)),
        (lambda x: dr.srgb_to_linear(x, False), Float64(0.01, 0.2, 1.8)),
    ],
    "linear_srgb_to_oklab": one("linear_srgb_to_oklab", Array3f64([0.1, 0.7], [0.5, 0.2], 0.9)),
    "oklab_to_linear_srgb": one("oklab_to_linear_srgb", Array3f64([0.4, 0.7], [0.1, -0.1], 0.05)),
    # Memory
    "gather": [
        (lambda x: dr.gather(Float64, x, UInt(2, 0, 2), ACTIVE), X),
        (lambda x: dr.gather(Array2f64, x, UInt(1, 0, 1), ACTIVE), FOUR),
        (lambda v: dr.gather(Array3f64, v, UInt(1, 0, 1), ACTIVE), V),
    ],
    "scatter": (scatter(dr.scatter, index=UInt(2, 0, 3)), FOUR, X),
    "scatter_add": (scatter(dr.scatter_add), FOUR, X),
    "scatter_reduce": [
        (scatter(dr.scatter_reduce, op), FOUR, X)
        for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    ],
    "scatter_exch": (exchange, FOUR, X),
    "scatter_cas": (compare_and_swap, FOUR, X),
    "slice": (lambda v: dr.slice(v, UInt(1, 0, 1)), V),
    # Reductions
    "reduce": [
        (lambda x, op=op: dr.reduce(op, x), X)
        for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    ],
    "prefix_reduce": [
        (lambda x, op=op: dr.prefix_reduce(op, x, exclusive=False, reverse=True), X)
        for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    ],
    "block_reduce": [
        (lambda x, op=op: dr.block_reduce(op, x, 2), FOUR)
        for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    ],
    "block_prefix_reduce": [
        (lambda x, op=op: dr.block_prefix_reduce(op, x, 2, exclusive=False), FOUR)
        for op in (ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max)
    ],
    "block_sum": (lambda x: dr.block_sum(x, 2), FOUR),
    "block_prefix_sum": (lambda x: dr.block_prefix_sum(x, 2, False, True), FOUR),
    **{n: one(n, V) for n in ("sum_nested", "prod_nested", "min_nested", "max_nested")},
    # Shapes
    "repeat": (lambda x: dr.repeat(x, 2), X),
    "tile": (lambda x: dr.tile(x, 2), X),
    "concat": [
        (lambda x, y: dr.concat([x, y]), X, FOUR), (lambda t, u: dr.concat([t, u], 1), T, U)
    ],
    "meshgrid": one("meshgrid", X, Y),
    "unravel": (lambda x: dr.unravel(Array2f64, x), FOUR),
    "reshape": [
        (lambda t: dr.reshape(t, (3, 2)), T),
        (lambda x: dr.reshape(TensorXf64, x, (2, 2), order="F"), FOUR),
        (lambda v: dr.reshape(Float64, v, -1), V),
    ],
    **{
        n: (lambda t, u, n=n: getattr(dr, n)([t, u]), T, U)
        for n in ("column_stack", "dstack", "hstack", "row_stack", "stack", "vstack")
    },
    "split": (lambda t: dr.split(t, [1], axis=1), T),
    "array_split": (lambda t: dr.array_split(t, 2, axis=1), T),
    "expand_dims": (lambda t: dr.expand_dims(t, 1), T),
    "squeeze": (lambda t: dr.squeeze(t[:, :1], 1), T),
    "moveaxis": (lambda t: dr.moveaxis(t, 0, 1), T),
    "swapaxes": (lambda t: dr.swapaxes(t, 0, 1), T),
    "transpose": [one("transpose", T), one("transpose", M3)],
    "take": (lambda t: dr.take(t, [2, 0, 2], 1), T),
    "take_interp": [
        (lambda t, x: dr.take_interp(t, x, 1), T, Float64(0.4, 1.3, 1.9)),
        (lambda x, p: dr.take_interp(x, p), FOUR, Float64(0.4, 1.3)),
    ],
    # Products, signals
    "matmul": [
        (lambda t, u: dr.matmul(t, u, False, True), T, U),
        (lambda t, u: t.T @ u, T, U),
        (lambda t, x: t @ x, T, TensorXf64([1, -2, 0.5])),
        one("matmul", M3, V),
        one("matmul", M2, Array2f64(1, [2, -1])),
        one("matmul", M4, M4),
    ],
    "convolve": [
        (lambda x, b=b: dr.convolve(x, [0.5, 2, -0.7], boundary=b), FOUR) for b in BOUNDARIES
    ]
    + [(lambda t: dr.convolve(t, "gaussian", 1.5, axis=0, normalize=True), T)],
    "resample": [
        (lambda t, b=b: dr.resample(t, (3, 2), boundary=b), T) for b in BOUNDARIES
    ]
    + [(lambda x: dr.resample(x, (7,), "linear"), FOUR)],
    "upsample": [(lambda t: dr.upsample(t, scale_factor=(2, 1)), T), (upsampled_texture, FOUR)],
    # Linear algebra, geometry
    **{
        n: [one(n, m) for m in (M2, M3, M4)]
        for n in ("det", "diag", "frob", "inverse", "trace")
    },
    "cholesky": (lambda m: dr.cholesky(m @ m.T), M3),
    "eigh": (lambda m: dr.eigh(m + m.T), M3),
    "svd": (lambda m: dr.svd(m)[1], M3),
    "solve": [one("solve", M3, V), one("solve", M2, Array2f64(1, [2, -1]))],
    "einsum": (lambda t, u: dr.einsum("ij,kj->ik", t, u), T, U),
    "interp": (lambda x, y: dr.interp(x, [-9, -0.5, 0.5, 9], y), X, FOUR),
    # The derivative is that of the iteration: few steps show as much as many.
    "polar_decomp": [
        (lambda m, n=n: dr.polar_decomp(m, 1 + (n < 4)), matrix(type(m), n, 1))
        for n, m in ((2, M2), (3, M3), (4, M4))
    ],
    "cross": one("cross", V, W),
    "normalize": [one("normalize", V), one("normalize", Q)],
    "sphdir": one("sphdir", POSITIVE, X),
    "unit_angle": (lambda v, w: dr.unit_angle(dr.normalize(v), dr.normalize(w)), V, W),
    "sh_eval": [
        (lambda v, n=n: dr.sh_eval(dr.normalize(v), n)[1:], V) for n in (1, 3, 5)
    ],
    "quat_apply": one("quat_apply", Q, V),
    "quat_to_matrix": [
        (lambda q, c=c: dr.quat_to_matrix(c, q), Q) for c in (Matrix3f64, Matrix4f64)
    ],
    "matrix_to_quat": (
        lambda q: dr.matrix_to_quat(dr.quat_to_matrix(Matrix3f64, dr.normalize(q))),
        Q,
    ),
    "quat_to_euler": (lambda q: dr.quat_to_euler(dr.normalize(q)), Q),
    "euler_to_quat": one("euler_to_quat", V),
    "rotate": (
        lambda v, x: dr.rotate(Quaternion4f64, dr.normalize(v), x), V, Float64(0.3, 2)
    ),
    "slerp": (
        lambda q, r, t: dr.slerp(dr.normalize(q), dr.normalize(r), t),
        Q,
        R,
        Float64(0.3, 0.8),
    ),
    "transform_compose": one("transform_compose", M3, Q, V),
    "transform_decompose": (
        lambda m, v: dr.transform_decompose(dr.transform_compose(m, Quaternion4f64(1), v), 2),
        matrix(Matrix3f64, 3, 1),
        Array3f64(1, 2, 3),
    ),
    # Complex numbers and quaternions
    "conj": [one("conj", Z), one("conj", Q)],
    "real": [one("real", Z), one("real", Q)],
    "imag": [one("imag", Z), one("imag", Q)],
    "arg": one("arg", Z),
    # Values that are tracked in a special way
    "opaque": (lambda x: dr.opaque(dr.sin(x)), X),
    "eval": (evaluated(dr.eval), X),
    "schedule": (evaluated(dr.schedule), X),
    "make_opaque": (evaluated(dr.make_opaque), X),
    "custom": (lambda x: dr.custom(Cube, dr.sin(x)), X),
    "switch": (lambda x, y: called("symbolic", x, y), X, Y),
    "dispatch": (lambda x, y: called("evaluated", x, y), X, Y),
    "func": (lambda x, y: dr.func(lambda x, y: dr.sin(x) * y)(x, y), X, Y),
    "alloc_local": (remembered, X, Y),
    "while_loop": (looped, X, Y),
    "if_stmt": (branched, X, Y),
    "syntax": (iterated, X, Y),
    "hint": (iterated, Y, X),
    "reorder_threads": (lambda x: dr.reorder_threads(UInt(2, 0, 1), 2, dr.sin(x)), X),
    "replace_grad": (lambda x: dr.replace_grad(dr.detach(x * x), x * x), X),
    "rng": (random_number, X),
}  # fmt: skip

COMPLEX = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log",
    "log1p", "log2", "rcp", "rsqrt", "sin", "sincos", "sincosh", "sinh", "sqrt", "square", "tan",
    "tanh",
)  # fmt: skip


def texture(cls, shape, method, look_up=None, **modes):
    """A look-up, as a function of the texels and the position."""

    def f(data, pos):
        made = cls(TensorXf64(data, (*shape, 2)), **modes)
        return getattr(made, method)(pos) if look_up is None else look_up(made, pos)

    return f


TEXELS = Float64(np.cos(3 * np.arange(12)))
AT1 = Array1f64(Float64(-0.3, 0.42, 1.35))
AT2 = Array2f64([-0.3, 0.42, 1.35], [0.77, 0.2, -0.6])
WRAPS = {
    mode.name: {"wrap_mode": mode}
    for mode in (dr.WrapMode.Clamp, dr.WrapMode.Repeat, dr.WrapMode.Mirror)
}

# Points where parts of a formula have no derivative, but the function has one.
TIES = (Float64(1, -3, 0.7, 5, 0.3), Float64(1, 3, -0.7, -5, -0.7))
AXES = (Float64(0.5, 0.3, 0, 0), Float64(0, 0, 0.7, -0.4))

# What is not a function of the package
MORE = {
    "hypot of equal values": (dr.hypot, *TIES),
    **{
        f"complex {n}, {place}": (
            lambda x, y, n=n: getattr(dr, n)(Complex2f64(x, y)), *point
        )
        for n in (*COMPLEX, "abs")
        for place, point in (("ties", TIES), ("axes", AXES))
        if n != "acosh" or place != "axes"  # it has a branch cut there
    },
    **{
        f"quaternion {n}, real": (
            lambda *q, n=n: getattr(dr, n)(Quaternion4f64(*q)), *[Float64(0, 0)] * 3, Float64(1, 2)
        )
        for n in ("abs", "exp", "exp2", "log", "log2", "rcp", "rsqrt", "sqrt")
    },
    **{f"complex {n}": one(n, Z) for n in COMPLEX},
    "complex products": (lambda z, w: [z * w, z / w, z * 2, 1 / w, abs(z)], Z, Z + 1),
    "complex powers": (lambda z, w: [z**w, z**3], Z, Z + 1),
    **{f"quaternion {n}": one(n, Q) for n in ("abs", "exp", "log", "rcp", "sqrt")},
    "quaternion products": (lambda q, r: [q * r, q / r, q**2], Q, R),
    "matrix quotients": (lambda m, x: m / (2 + x * x), M3, Float64(0.4, 1.1)),
    "dynamic arrays": (lambda a: dr.sum(a * a) * a[1], ArrayXf64([1, 2], [3, -4], [0.5, 2])),
    "components": (lambda v: v.zyx * v.xxy.x + v[1], V),
    "tensor to array": (lambda t: Array2f64(t) * Array2f64(1, 2), T),
    "tensor indices": (lambda t: [t[1], t[:, ::-2], t[None, 0, 1:], t[UInt(1, 0, 1), 2]], T),
    "tensor mask": (lambda t: t[t > 0] * 2, T),
    "tensor broadcast": (lambda t, x: t * TensorXf64(x, (3,)) + TensorXf64(x, (3, 1))[0], T, X),
    "casts": (lambda x: Float64(Float32(x * 0) + 1) * x, X),
    **{f"tensor {n}": (lambda t, n=n: getattr(dr, n)(t, axis=0), T) for n in (
        "sum", "prod", "min", "max", "mean", "std", "var", "norm", "squared_norm", "sort", "median",
        "cumsum", "reverse",
    )},
    "tensor sums, all": (lambda t: dr.sum(t * t, axis=None) * dr.mean(t, axis=(0, 1)), T),
    "integrate": (
        lambda o, d, t: dda.integrate(
            o, dr.normalize(d), 9.0, Array2f64(0), Array2f64(1), TensorXf64(t, (2, 3))
        ),
        Array2f64([0.2, 0.9], [-0.2, 0.3]),
        Array2f64([0.3, -0.8], [0.9, 0.2]),
        Float64(1, 4, 2, 5, 3, 6),
    ),
    **{
        f"texture {method}, {dims}D, {mode}": (
            texture(cls, shape, method, **WRAPS[mode]), TEXELS, at
        )
        for dims, cls, shape, at in ((1, Texture1f64, (6,), AT1), (2, Texture2f64, (2, 3), AT2))
        for method, modes in (("eval", WRAPS), ("eval_cubic", WRAPS), ("eval_fetch", ["Repeat"]),
                              ("eval_cubic_grad", ["Mirror"]), ("eval_cubic_hessian", ["Clamp"]))
        for mode in modes
    },
    "texture, nearest": (
        texture(Texture2f64, (2, 3), "eval", filter_mode=dr.FilterMode.Nearest), TEXELS, AT2
    ),
    "texture, masked": (
        texture(Texture2f64, (2, 3), "", lambda t, p: t.eval(p, ACTIVE)), TEXELS, AT2
    ),
    "texture, contents": (
        texture(Texture1f64, (6,), "", lambda t, p: [t.value() ** 2, t.tensor() * 3]), TEXELS, AT1
    ),
}  # fmt: skip

# Functions of the package without a derivative: of integers and masks, piecewise constant ones,
# creation, queries, the tools of differentiation, evaluation and printing.
CONSTANT = frozenset(
    (
        "accum_grad", "all", "all_nested", "allclose", "any", "any_nested", "arange", "argmax",
        "argmin", "argsort", "assert_allclose", "assert_equal", "assert_false", "assert_true",
        "backward", "backward_from", "backward_to", "binary_search", "brev", "ceil", "check_grad",
        "clear_grad", "compress", "count", "detach", "disable_grad", "empty", "empty_like",
        "enable_grad", "enqueue", "epsilon", "expand_threshold", "export", "flag", "floor",
        "flush_kernel_cache", "flush_malloc_cache", "flush_thread", "format", "forward",
        "forward_from", "forward_to", "freeze", "full", "get_cmake_dir", "grad", "grad_enabled",
        "graphviz", "graphviz_ad", "has_backend", "hessian", "identity", "jacobian",
        "isolate_grad", "isfinite", "isinf", "isnan", "kernel_history",
        "kernel", "kernel_history_clear", "kernel_source", "kernels", "largest", "linspace", "load",
        "log2i", "log_level", "lzcnt", "migrate", "mul_hi", "mul_wide", "none", "none_nested",
        "one_minus_epsilon", "ones", "ones_like", "opaque_width", "popcnt", "print", "profile_mark",
        "recip_overflow", "reinterpret_array", "relative_grad", "report", "resume_grad", "round",
        "save", "scatter_inc", "set_backend", "set_expand_threshold", "set_flag", "set_grad",
        "set_grad_enabled", "set_label", "set_log_level", "set_thread_count", "shape", "sign",
        "slice_index", "smallest", "step", "suspend_grad", "sync_thread", "thread_count",
        "traverse", "trunc", "tzcnt", "unique", "whos", "picture", "whos_ad", "width", "wrap",
        "wrap_ad", "zeros", "zeros_like",
    )
)  # fmt: skip

CASES = {
    f"{name} {k}" if isinstance(cases, list) else name: case
    for name, cases in (FUNCTIONS | MORE).items()
    for k, case in enumerate(cases if isinstance(cases, list) else [cases])
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.compiled_every(10)
def test_gradients_are_those_of_finite_differences(tier, name):
    f, *args = CASES[name]
    check(f, *args, together=tier == "compiled")  # what propagates is the same for both


def test_every_public_function_has_an_entry():
    functions = {
        name
        for name in dr.__all__
        if isinstance(getattr(dr, name), types.FunctionType) and not name.endswith(("_t", "_v"))
    }
    assert functions - set(FUNCTIONS) == CONSTANT & functions
    assert set(FUNCTIONS) <= functions


def tensor(f, *shapes):
    """A function of the storage of tensors."""
    return lambda *storage: f(*[TensorXf64(a, s) for a, s in zip(storage, shapes, strict=True)])


ENTRIES = np.cos(3 * np.arange(12.0))
POSITIONS = np.array([0.3, 0.8])

# name -> function of flat arrays, and their entries
SECOND = {
    "product": (tensor(lambda a, b: a @ b, (2, 3), (3, 2)), ENTRIES[:6], ENTRIES[6:]),
    "product with itself": (tensor(lambda a: a @ a.T @ a, (3, 3)), ENTRIES[:9]),
    "batched product": (tensor(lambda a, b: a @ b, (2, 2, 2), (2, 1)), ENTRIES[:8], ENTRIES[8:10]),
    "product with a vector": (tensor(lambda a, b: a @ b, (2, 3), (3,)), ENTRIES[:6], ENTRIES[6:9]),
    **{
        f"{n}, axis {axis}": (
            tensor(lambda t, n=n, axis=axis: getattr(dr, n)(t, axis=axis), (2, 3)), ENTRIES[:6]
        )
        for n in ("sum", "prod", "max", "std")
        for axis in (0, 1, None)
    },
    "indices": (tensor(lambda t: t[:, ::-2] * t[1:, UInt(0, 1)], (2, 3)), ENTRIES[:6]),
    "sort": (tensor(lambda t: dr.sort(t, axis=0) * t, (2, 3)), ENTRIES[:6]),
    "cumsum": (tensor(lambda t: dr.cumsum(t * t, axis=1), (2, 3)), ENTRIES[:6]),
    "stack": (tensor(lambda t, u: dr.stack([t, t * u]), (3,), (3,)), ENTRIES[:3], ENTRIES[3:6]),
    "convolve": (lambda x: dr.convolve(x * x, [1, 0.5, 0.2]), ENTRIES[:6]),
    "resample": (lambda x: dr.resample(x * x, (9,)), ENTRIES[:6]),
    "take_interp": (dr.take_interp, ENTRIES[:6], np.array([0.3, 2.4])),
    **{
        f"texture {method}": (
            lambda texels, x, y, method=method: getattr(
                Texture2f64(TensorXf64(texels, (2, 3, 2))), method
            )(Array2f64(x, y)),
            ENTRIES, POSITIONS, POSITIONS[::-1] * 0.7,
        )
        for method in ("eval", "eval_fetch", "eval_cubic", "eval_cubic_grad")
    },
    "complex logarithm": (lambda x, y: dr.log(Complex2f64(x, y)), ENTRIES[:3], ENTRIES[3:6]),
    "inverse": (
        lambda x: dr.inverse(Matrix3f64(*[dr.gather(Float64, x, UInt(i)) for i in range(9)])),
        ENTRIES[:9] + 3 * np.eye(3).ravel(),
    ),
    "oklab": (lambda x: dr.linear_srgb_to_oklab(Array3f64(x, x * 2, 1)), POSITIONS),
}  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
@pytest.mark.compiled_every(15)
def test_second_derivatives_are_differences_of_gradients(tier, name):
    f, *points = SECOND[name]
    check_second_derivatives(f, points)

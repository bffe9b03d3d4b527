"""Arrays of size 0 in every public function: the table below has an entry for each of them."""

import math
import types
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import UNARY

import drjit as dr
from drjit import llvm
from drjit.llvm import ad


def empties(namespace, evaluated):
    """Arrays without entries of all kinds: e float, i int, u unsigned, b mask, v vector, m matrix,
    c complex, q quaternion, t tensor."""
    made = SimpleNamespace(
        ns=namespace,
        e=namespace.Float([]),
        i=namespace.Int([]),
        u=namespace.UInt([]),
        b=namespace.Bool([]),
        v=dr.zeros(namespace.Array3f, 0),
        m=dr.zeros(namespace.Matrix3f, 0),
        m4=dr.zeros(namespace.Matrix4f, 0),
        c=dr.zeros(namespace.Complex2f, 0),
        q=dr.zeros(namespace.Quaternion4f, 0),
        t=dr.zeros(namespace.TensorXf, (0, 3)),
    )
    if evaluated:
        for value in vars(made).values():
            if isinstance(value, dr.ArrayBase):
                dr.make_opaque(value)
    return made


@dr.syntax
def iterated(x):
    """A loop with a branch in it."""
    while dr.hint(x < 3, label="up"):
        if x > 1:
            x = x + 1
        else:
            x = x + 2
    return x


def dispatched(a):
    """A method call for no references, in both modes."""
    pointer = dr.instance_t(a.ns.Float, complex)
    number = 1 + 2j
    pointer.register(number)
    found = [
        dr.dispatch(pointer([]), lambda z, x: x * z.imag, a.e, mode=mode)
        for mode in ("symbolic", "evaluated")
    ]
    pointer.unregister(number)
    return found


UNARY_FLOAT = [
    *UNARY,
    "isfinite", "isinf", "isnan", "linear_to_srgb", "sqr", "srgb_to_linear", "cumsum",
    "prefix_sum", "sincos", "sincosh", "conj", "real", "arg", "empty_like", "ones_like",
    "zeros_like", "copy", "reverse", "detach",
]  # fmt: skip
UNARY_INTEGER = ["brev", "lzcnt", "popcnt", "tzcnt", "log2i"]
BINARY_FLOAT = [
    "atan2",
    "copysign",
    "fmax",
    "fmin",
    "hypot",
    "maximum",
    "minimum",
    "mulsign",
    "power",
    "step",
]

# name -> what to call; the result has no entries
WITHOUT_ENTRIES = {
    **{n: lambda a, n=n: getattr(dr, n)(a.e) for n in UNARY_FLOAT},
    **{n: lambda a, n=n: getattr(dr, n)(a.u) for n in UNARY_INTEGER},
    **{n: lambda a, n=n: getattr(dr, n)(a.e, a.e) for n in BINARY_FLOAT},
    **{n: lambda a, n=n: getattr(dr, n)(a.e, a.e, a.e) for n in ("fma", "lerp", "clip", "clamp")},
    "mul_hi": lambda a: dr.mul_hi(a.u, a.u),
    "mul_wide": lambda a: dr.mul_wide(a.u, a.u),
    "select": lambda a: dr.select(a.b, a.e, 1),
    "gather": lambda a: (
        dr.gather(a.ns.Float, a.ns.Float(1, 2), a.u),
        dr.gather(a.ns.Float, a.e, a.u),
        dr.gather(a.ns.Array3f, a.ns.Float(1, 2, 3), a.u),
        dr.gather(a.ns.Float, a.e, 0, a.b),
        dr.gather(a.ns.Float, a.ns.Float(1, 2), a.u, a.ns.Bool(True)),
    ),
    "scatter_inc": lambda a: dr.scatter_inc(a.ns.UInt(1, 2), a.u),
    "scatter_exch": lambda a: dr.scatter_exch(a.ns.UInt(1, 2), a.u, a.u),
    "scatter_cas": lambda a: dr.scatter_cas(a.ns.UInt(1, 2), a.u, a.u, a.u),
    "switch": lambda a: [
        dr.switch(a.u, [lambda x: x + 1, lambda x: x * 2], a.e, mode=mode)
        for mode in ("symbolic", "evaluated")
    ],
    "dispatch": dispatched,
    "func": lambda a: dr.func(lambda x: x + 1)(a.e),
    "freeze": lambda a: [f(a.e) for f in [dr.freeze(lambda x: x + 1)] * 2],
    "alloc_local": lambda a: dr.alloc_local(a.ns.Float, 2, a.e)[a.u],
    "reorder_threads": lambda a: dr.reorder_threads(a.u, 2, a.e),
    "slice": lambda a: dr.slice(a.ns.Float(1, 2), a.u),
    "compress": lambda a: (dr.compress(a.b), dr.compress(a.ns.Bool(False, False))),
    "while_loop": lambda a: dr.while_loop((a.e,), lambda x: x < 3, lambda x: (x + 1,))[0],
    "syntax": lambda a: iterated(a.e),
    "hint": lambda a: iterated(dr.hint(a.e)),
    "binary_search": lambda a: dr.binary_search(a.u, a.u, lambda k: k < 3),
    "block_sum": lambda a: dr.block_sum(a.e, 4),
    "block_reduce": lambda a: dr.block_reduce(dr.ReduceOp.Max, a.e, 4),
    "block_prefix_sum": lambda a: dr.block_prefix_sum(a.e, 4),
    "block_prefix_reduce": lambda a: dr.block_prefix_reduce(dr.ReduceOp.Add, a.e, 4),
    "prefix_reduce": lambda a: dr.prefix_reduce(dr.ReduceOp.Min, a.e),
    "arange": lambda a: (dr.arange(a.ns.Float, 0), dr.arange(a.ns.UInt, 5, 5)),
    "linspace": lambda a: dr.linspace(a.ns.Float, 0, 1, 0),
    **{
        n: lambda a, n=n: (
            getattr(dr, n)(a.ns.Float, 0),
            getattr(dr, n)(a.ns.Array3f, 0),
            getattr(dr, n)(a.ns.TensorXf, (2, 0)),
        )
        for n in ("zeros", "ones", "empty")
    },
    "full": lambda a: dr.full(a.ns.Float, 5, 0),
    "opaque": lambda a: dr.opaque(a.ns.Float, 5, 0),
    "identity": lambda a: dr.identity(a.ns.Matrix3f, 0),
    "concat": lambda a: dr.concat([a.e, a.e]),
    "repeat": lambda a: (dr.repeat(a.e, 3), dr.repeat(a.ns.Float(1, 2), 0)),
    "tile": lambda a: (dr.tile(a.e, 3), dr.tile(a.ns.Float(1, 2), 0)),
    "meshgrid": lambda a: dr.meshgrid(a.e, a.e),
    "reshape": lambda a: (
        dr.reshape(a.ns.TensorXf, a.t, (3, 0)),
        dr.reshape(a.ns.TensorXf, a.e, (0, 2)),
    ),
    "ravel": lambda a: (dr.ravel(a.v), dr.ravel(a.t), dr.ravel(a.e)),
    "unravel": lambda a: dr.unravel(a.ns.Array3f, a.e),
    "reinterpret_array": lambda a: dr.reinterpret_array(a.ns.UInt, a.e),
    "cross": lambda a: dr.cross(a.v, a.v),
    "normalize": lambda a: dr.normalize(a.v),
    "sphdir": lambda a: dr.sphdir(a.e, a.e),
    "unit_angle": lambda a: dr.unit_angle(a.v, a.v),
    **{n: lambda a, n=n: getattr(dr, n)(a.m) for n in ("det", "diag", "inverse", "trace", "frob")},
    "polar_decomp": lambda a: dr.polar_decomp(a.m),
    "matrix_to_quat": lambda a: dr.matrix_to_quat(a.m),
    "quat_to_matrix": lambda a: dr.quat_to_matrix(a.ns.Matrix3f, a.q),
    "quat_to_euler": lambda a: dr.quat_to_euler(a.q),
    "quat_apply": lambda a: dr.quat_apply(a.q, a.v),
    "euler_to_quat": lambda a: dr.euler_to_quat(a.v),
    "slerp": lambda a: dr.slerp(a.q, a.q, a.e),
    "rotate": lambda a: dr.rotate(a.ns.Quaternion4f, a.v, a.e),
    "transform_decompose": lambda a: dr.transform_decompose(a.m4),
    "transform_compose": lambda a: dr.transform_compose(a.m, a.q, a.v),
    "linear_srgb_to_oklab": lambda a: dr.linear_srgb_to_oklab(a.v),
    "oklab_to_linear_srgb": lambda a: dr.oklab_to_linear_srgb(a.v),
    "sh_eval": lambda a: dr.sh_eval(a.v, 2)[1:],
    "grad": lambda a: dr.grad(a.e),
    "imag": lambda a: (dr.imag(a.c), dr.imag(a.q)),
    "argsort": lambda a: (dr.argsort(a.e), dr.argsort(a.t)),
    "sort": lambda a: (dr.sort(a.e), dr.sort(a.t, axis=0)),
    **{
        n: lambda a, n=n: getattr(dr, n)([a.t, a.t])
        for n in ("column_stack", "dstack", "hstack", "row_stack", "vstack", "stack")
    },
    "split": lambda a: dr.split(a.t, 3, axis=1),
    "array_split": lambda a: dr.array_split(a.t, 2, axis=0),
    "expand_dims": lambda a: dr.expand_dims(a.t, 0),
    "squeeze": lambda a: dr.squeeze(a.t),
    "moveaxis": lambda a: dr.moveaxis(a.t, 0, 1),
    "swapaxes": lambda a: dr.swapaxes(a.t, 0, 1),
    "transpose": lambda a: dr.transpose(a.t),
    "take": lambda a: dr.take(a.ns.TensorXf([1, 2]), a.u),
    "take_interp": lambda a: dr.take_interp(a.ns.TensorXf([1, 2]), a.e),
    "matmul": lambda a: dr.matmul(a.t, dr.zeros(a.ns.TensorXf, (3, 2))),
    **{n: lambda a, n=n: getattr(dr, n)(a.m) for n in ("cholesky", "eigh", "svd")},
    "solve": lambda a: (dr.solve(a.m, a.v), dr.solve(a.m, a.m)),
    "einsum": lambda a: (dr.einsum("ij->ji", a.t), dr.einsum("i,i->i", a.e, a.e)),
    **{
        n: lambda a, n=n: [getattr(dr, n)(x) for x in (a.e, a.v, a.t)]
        for n in ("softmax", "log_softmax")
    },
    "unique": lambda a: (*dr.unique(a.e, True, True, True), dr.unique(a.t)),
    "interp": lambda a: [dr.interp(x, [0, 1], [1, 2]) for x in (a.e, a.v, a.t)],
    "slice_index": lambda a: dr.slice_index(a.ns.UInt, (0, 3), (slice(None), 1))[1],
    "relative_grad": lambda a: dr.relative_grad(a.e),
    "replace_grad": lambda a: dr.replace_grad(a.e, a.e),
}

# name -> what to call, and the entries of the result
WITH_ENTRIES = {
    "sum": (lambda a: dr.sum(a.e), [0]),
    "prod": (lambda a: dr.prod(a.e), [1]),
    "min": (lambda a: dr.min(a.e), [math.inf]),
    "max": (lambda a: dr.max(a.e), [-math.inf]),
    "mean": (lambda a: dr.mean(a.e), [math.nan]),
    "std": (lambda a: dr.std(a.e), [math.nan]),
    "var": (lambda a: dr.var(a.e), [math.nan]),
    "all": (lambda a: dr.all(a.b), [True]),
    "any": (lambda a: dr.any(a.b), [False]),
    "none": (lambda a: dr.none(a.b), [True]),
    "count": (lambda a: dr.count(a.b), [0]),
    "sum_nested": (lambda a: dr.sum_nested(a.v), [0]),
    "prod_nested": (lambda a: dr.prod_nested(a.v), [1]),
    "min_nested": (lambda a: dr.min_nested(a.v), [math.inf]),
    "max_nested": (lambda a: dr.max_nested(a.v), [-math.inf]),
    "all_nested": (lambda a: dr.all_nested(a.v == 0), [True]),
    "any_nested": (lambda a: dr.any_nested(a.v == 0), [False]),
    "none_nested": (lambda a: dr.none_nested(a.v == 0), [True]),
    "reduce": (lambda a: dr.reduce(dr.ReduceOp.Add, a.u), [0]),
    "dot": (lambda a: dr.dot(a.e, a.e), [0]),
    "abs_dot": (lambda a: dr.abs_dot(a.e, a.e), [0]),
    "norm": (lambda a: dr.norm(a.e), [0]),
    "squared_norm": (lambda a: dr.squared_norm(a.e), [0]),
    "logsumexp": (lambda a: dr.logsumexp(a.e), [-math.inf]),
}

# name -> what to call, and what it gives
OTHER_RESULTS = {
    "allclose": (lambda a: dr.allclose(a.e, a.e), True),
    "assert_allclose": (lambda a: dr.assert_allclose(a.v, a.v), None),
    "assert_equal": (lambda a: dr.assert_equal(a.e, a.e), None),
    "assert_true": (lambda a: dr.assert_true(a.b), None),
    "assert_false": (lambda a: dr.assert_false(a.b), None),
    "eval": (lambda a: dr.eval(a.e + 1, a.v) in (True, False), True),
    "schedule": (lambda a: dr.schedule(a.e + 1) in (True, False), True),
    "make_opaque": (lambda a: dr.make_opaque(a.e, a.v, a.t), None),
    "shape": (lambda a: (dr.shape(a.e), dr.shape(a.v), dr.shape(a.t)), ((0,), (3, 0), (0, 3))),
    "width": (lambda a: (dr.width(a.e), dr.width(a.v), dr.width(a.t)), (0, 0, 0)),
    "opaque_width": (lambda a: dr.opaque_width(a.e).numpy().tolist(), [0]),
    "format": (lambda a: dr.format("{} {}", a.e, a.v), "[] []"),
    "print": (lambda a: dr.print("{}", a.e, file=SimpleNamespace(write=str)), None),
    "kernel_source": (lambda a: "def kernel" in dr.kernel_source(a.e + 1), False),
    "set_label": (lambda a: dr.set_label(a.e, "nothing"), None),
    "scatter": (lambda a: scattered(a, dr.scatter), [1, 2]),
    "scatter_add": (lambda a: scattered(a, dr.scatter_add), [1, 2]),
    "scatter_reduce": (
        lambda a: scattered(a, lambda *x: dr.scatter_reduce(dr.ReduceOp.Min, *x)),
        [1, 2],
    ),
    "enable_grad": (lambda a: dr.enable_grad(a.e), None),
    "disable_grad": (lambda a: dr.disable_grad(a.e), None),
    "clear_grad": (lambda a: dr.clear_grad(a.e), None),
    "set_grad": (lambda a: dr.set_grad(a.e, 0), None),
    "accum_grad": (lambda a: dr.accum_grad(a.e, a.e), None),
    "grad_enabled": (lambda a: dr.grad_enabled(a.e), False),
    "jacobian": (
        lambda a: [dr.jacobian(abs, per_lane=k)(ad.Float()).shape for k in (False, True)],
        [(0, 0), (0,)],
    ),
    "hessian": (
        lambda a: [dr.hessian(f, per_lane=f is abs)(ad.Float()).shape for f in (dr.sum, abs)],
        [(0, 0), (0,)],
    ),
    "set_grad_enabled": (lambda a: dr.set_grad_enabled(a.e, False), None),
}
# name -> what to call, and the error: there is no result without entries
ERRORS = {
    "argmax": (lambda a: dr.argmax(a.e), "no entries"),
    "argmin": (lambda a: dr.argmin(a.e), "no entries"),
    "median": (lambda a: dr.median(a.e), "no entries"),
    "if_stmt": (
        lambda a: dr.if_stmt((a.e,), a.e < 3, lambda x: x + 1, lambda x: x),
        "'cond' cannot be empty",
    ),
}

NOT_APPLICABLE = frozenset(
    (
        "export", "backward", "backward_from", "backward_to", "check_grad", "convolve",
        "custom", "enqueue", "epsilon", "expand_threshold", "flag",
        "flush_kernel_cache", "flush_malloc_cache", "flush_thread", "forward", "forward_from",
        "forward_to", "get_cmake_dir", "graphviz", "graphviz_ad", "has_backend", "isolate_grad",
        "kernel_history",
        "kernel", "kernel_history_clear", "kernels", "largest", "load", "log_level", "migrate",
        "one_minus_epsilon", "profile_mark", "recip_overflow", "resample", "resume_grad", "rng",
        "save",
        "set_backend", "set_expand_threshold", "set_flag", "set_log_level", "set_thread_count",
        "smallest", "suspend_grad", "sync_thread", "thread_count", "traverse", "upsample", "whos",
        "picture", "report", "whos_ad", "wrap", "wrap_ad",
    )
)  # fmt: skip


def scattered(a, update):
    target = a.ns.Float(1, 2)
    update(target, a.e, a.u)
    update(target, 5, a.u)
    update(a.e, a.e, a.u)
    return target.numpy().tolist()


def leaves(value):
    if isinstance(value, dr.ArrayBase):
        return [value]
    return [leaf for v in value for leaf in leaves(v)]


@pytest.fixture(params=[llvm, ad], ids=["llvm", "ad"])
def nothing(request, tier):
    """The arrays, as literals and evaluated."""
    return [empties(request.param, evaluated) for evaluated in (False, True)]


@pytest.mark.parametrize("name", WITHOUT_ENTRIES)
def test_functions_that_give_nothing(nothing, name):
    for a in nothing:
        for result in leaves(WITHOUT_ENTRIES[name](a)):
            assert dr.width(result) == 0 and result.numpy().size == 0
            assert set(repr(result)) <= set("[], \n+ijk")
            assert dr.width(result == result) == 0
    dr.sync_thread()


@pytest.mark.parametrize("name", WITH_ENTRIES)
def test_functions_that_give_their_identity(nothing, name):
    call, expected = WITH_ENTRIES[name]
    for a in nothing:
        assert np.array_equal(call(a).numpy(), expected, equal_nan=True)


@pytest.mark.parametrize("name", OTHER_RESULTS)
def test_functions_with_other_results(nothing, name):
    call, expected = OTHER_RESULTS[name]
    for a in nothing:
        assert call(a) == expected
    dr.sync_thread()


@pytest.mark.parametrize("name", ERRORS)
def test_functions_without_a_result(nothing, name):
    call, text = ERRORS[name]
    for a in nothing:
        with pytest.raises((RuntimeError, ValueError), match=rf"dr\.{name}.*{text}"):
            call(a)


def test_every_public_function_has_an_entry():
    functions = {
        name
        for name in dr.__all__
        if isinstance(getattr(dr, name), types.FunctionType) and not name.endswith(("_t", "_v"))
    }
    known = {*WITHOUT_ENTRIES, *WITH_ENTRIES, *OTHER_RESULTS, *ERRORS, *NOT_APPLICABLE}
    missing = sorted(functions - known)
    assert not missing, f"say what these do with arrays of size 0: {' '.join(missing)}"


def test_operators_and_members(nothing):
    for a in nothing:
        for result in (
            a.e + 1, 2 - a.e, a.e * a.e, a.e / 2, a.e**2, a.i // 2, a.i % 2, a.i << 1, a.i >> 1,
            a.i & 3, a.i | 3, a.i ^ 3, ~a.i, -a.e, abs(a.e), a.e < 1, a.e == a.e, a.b & True,
            a.v + a.e, a.v * 2, a.m @ a.v, a.m @ a.m, a.q * a.q, a.c * a.c, a.t + 1, a.e[:],
            a.e[::2], a.e[5:9], a.e[a.u], a.ns.Float(1, 2)[a.u], a.v.x, a.v[0], a.t[:, 0], a.t[1:],
        ):  # fmt: skip
            assert dr.width(result) == 0 and result.numpy().size == 0
        a.e += 1
        a.e[a.b] = 3
        a.e[:] = 4
        a.v.x = a.e
        a.v[1] = 0
        assert len(a.e) == 0 and list(a.e) == [] and repr(a.e) == "[]" and dr.width(a.v) == 0
        assert a.e.shape == (0,) and a.t.numpy().shape == (0, 3) and np.asarray(a.v).shape == (3, 0)
        with pytest.raises(IndexError, match="size 0"):
            a.e[0]
        with pytest.raises(IndexError, match="size 0"):
            a.e[0] = 1


ARRAYS = {
    "operators": lambda a, one: [
        lambda: a.e + one, lambda: one + a.e, lambda: a.e * one, lambda: a.e - one,
        lambda: a.e / one, lambda: a.e**one, lambda: a.e < one, lambda: a.e == one,
        lambda: a.b & (one == 1), lambda: a.b | (one != 1), lambda: a.e + a.ns.Int(one),
        lambda: a.e + a.ns.Float64(one), lambda: a.u << a.ns.UInt(one),
        lambda: a.e.__iadd__(one),
    ],
    "functions": lambda a, one: [
        lambda: dr.fma(a.e, one, one), lambda: dr.fma(one, one, a.e), lambda: dr.fma(a.e, 1, one),
        lambda: dr.minimum(a.e, one), lambda: dr.maximum(one, a.e), lambda: dr.atan2(a.e, one),
        lambda: dr.hypot(one, a.e), lambda: dr.lerp(a.e, one, 0.5), lambda: dr.clip(a.e, one, 2),
        lambda: dr.select(a.b, one, one), lambda: dr.select(one == 1, a.e, one),
        lambda: dr.select(a.b, a.e, one), lambda: dr.select(True, a.e, one),
        lambda: dr.mul_hi(a.u, a.ns.UInt(one)), lambda: dr.copysign(a.e, one),
    ],
    "memory": lambda a, one: [
        lambda: dr.gather(a.ns.Float, a.ns.Float(1, 2), a.ns.UInt(one), a.b),
        lambda: dr.scatter(a.ns.Float(1, 2), a.e, a.ns.UInt(one)),
        lambda: dr.scatter(a.ns.Float(1, 2), one, a.u),
        lambda: dr.scatter_add(a.ns.Float(1, 2), one, a.u),
        lambda: dr.scatter(a.ns.Float(1, 2), one, a.ns.UInt(one), a.b),
        lambda: dr.scatter(a.ns.Array3f(1, 2, 3), one, a.u),
        lambda: dr.scatter_inc(a.ns.UInt(1, 2), a.ns.UInt(one), a.b),
        lambda: dr.scatter_exch(a.ns.Float(1, 2), one, a.u),
        lambda: dr.scatter_cas(a.ns.Float(1, 2), 1, one, a.u),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("constant", [True, False])
def test_an_array_of_one_entry_does_not_go_with_an_empty_one(nothing, kind, constant):
    """A number does, but neither a constant array nor an evaluated one."""
    for a in nothing:
        one = a.ns.Float(1) if constant else dr.opaque(a.ns.Float, 1)
        for call in ARRAYS[kind](a, one):
            with pytest.raises(RuntimeError, match="operands have incompatible sizes"):
                call()


def test_numbers_go_with_an_empty_array(nothing):
    for a in nothing:
        target = a.ns.Float(1, 2)
        for result in (
            a.e * 0, a.e * 1, 0 * a.e, 1 - a.e, a.e**0, a.e < 1, a.b & True, a.b | False, a.i + 0,
            a.u << 1, dr.fma(a.e, 1, 2), dr.fma(a.e, a.e, 1), dr.fma(a.i, 1, 2),
            dr.minimum(a.e, 1), dr.maximum(0, a.e), dr.atan2(a.e, 1), dr.hypot(a.e, 1),
            dr.select(a.b, 1, 2), dr.select(a.b, a.e, 0), dr.select(True, a.e, 1), a.v + 1,
            1 * a.v, a.v < 0, dr.fma(a.v, 1, 2), a.e + np.float32(1), dr.lerp(a.e, 1, 0.5),
            dr.gather(a.ns.Float, target, 0, a.b), dr.scatter_exch(target, 3, a.u),
            a.t + a.ns.Float(1), a.t * a.ns.TensorXf([1]),
        ):  # fmt: skip
            assert dr.width(result) == 0
        dr.scatter(target, 5, a.u)
        dr.scatter(target, a.e, 0)
        assert list(target) == [1, 2]


def test_components_that_do_not_go_together_are_the_cause(nothing):
    for a in nothing:
        for call in (
            lambda a=a: a.v + a.ns.Array3f(1, 2, 3),
            lambda a=a: a.ns.Array3f(1, 2, 3) * a.v,
            lambda a=a: a.v < a.ns.Float(1),
            lambda a=a: a.m - a.ns.Matrix3f(1),
            lambda a=a: dr.fma(a.v, a.v, a.ns.Array3f(1)),
        ):
            with pytest.raises(RuntimeError, match="operands have incompatible sizes") as raised:
                call()
            assert isinstance(raised.value.__context__, RuntimeError)
            assert "operands have incompatible sizes" in str(raised.value.__context__)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_calls_for_no_lanes_refuse_arguments_of_one(nothing, mode):
    for a in nothing:
        with pytest.raises(RuntimeError, match="arguments have incompatible sizes"):
            dr.switch(a.u, [lambda x: x, lambda x: x], a.ns.Float(1), mode=mode)


def test_an_empty_array_does_not_go_with_others(nothing):
    for a in nothing:
        with pytest.raises(RuntimeError, match=r"incompatible sizes \(0, 2\)"):
            a.e + a.ns.Float(1, 2)
        with pytest.raises(IndexError, match="index 0 is out of bounds for an array of size 0"):
            dr.gather(a.ns.Float, a.e, dr.opaque(a.ns.UInt, 0)).numpy()

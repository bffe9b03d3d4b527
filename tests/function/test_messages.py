"""Messages contain the key phrase of the reference's message, so that a search for it finds what
has been written about it, and handlers that look for it work. Each list is a theme; a row is a
name, a call that raises, and the phrase.
"""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import named

import drjit as dr
from drjit import nn, opt
from drjit.llvm import (
    Array2b,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float64,
    Int,
    Matrix2f,
    TensorXf,
    TensorXi,
    UInt,
    ad,
)

Row = tuple[str, Callable[[], Any], str]

ARRAYS: list[Row] = [
    ("add, sizes", lambda: Array3f(1) + Array2f(1), "Incompatible arguments"),
    ("add, kinds", lambda: Matrix2f(1) + Complex2f(1), "Incompatible arguments"),
    ("bool", lambda: bool(Float(1)), "implicit conversion to 'bool'"),
    ("bool, several", lambda: bool(Bool(True, False)), "implicit conversion to 'bool'"),
    ("component", lambda: Float(1).x, "does not have a"),
    ("component, set", lambda: setattr(Array3f(1), "w", 1), "does not have a"),
    ("constructor, data", lambda: Array3f(np.zeros((2, 3))), "Unable to initialize from an array"),
    ("constructor, keyword", lambda: Float(1, x=1), "Unknown keyword argument"),
    ("constructor, keyword of many", lambda: Array3f(1, 2, 3, x=1), "Unknown keyword argument"),
    ("constructor, None", lambda: Array2f(1, None), "Item assignment failed."),
    ("constructor, None in a mask", lambda: Array2b(None, None), "Item assignment failed."),
    ("constructor, None of lanes", lambda: Float(1, None), "invalid type in input"),
    ("constructor, size", lambda: Array3f(1, 2), "Input has the wrong size (expected 3"),
    (
        "constructor, size of a list",
        lambda: Array3f([1, 2]),
        "Input has the wrong size (expected 3",
    ),
    ("divide floats", lambda: Float(1) // 2, "unsupported operand type(s)"),
    ("divide integers", lambda: Int(1) / 2, "unsupported operand type(s)"),
    ("transpose, axes", lambda: dr.transpose(TensorXf([[1, 2]]), (0,)), "must have length 2"),
    (
        "allclose with text",
        lambda: dr.allclose(Float(1), "a"),
        "Encountered an unsupported argument",
    ),
    ("index", lambda: Float(1, 2)[2], "entry 2 is out of bounds (the array is of size 2)."),
    (
        "index, negative",
        lambda: Float(1, 2)[-3],
        "entry -1 is out of bounds (the array is of size 2).",
    ),
    ("index, deep", lambda: Array2f(1)[0, 0, 0], "Item retrieval failed."),
    ("index, None", lambda: Float(1)[None], "Complex slicing operations involving"),
    ("index, ellipsis", lambda: Array2f(1)[...], "Complex slicing operations involving"),
    ("item", lambda: Float(1, 2).item(), "can only convert arrays of length"),
    ("item of a tensor", lambda: TensorXf([1, 2]).item(), "can only convert arrays of length"),
    ("mT", lambda: TensorXf([1, 2]).mT, "at least 2 dimensions"),
    ("number too large", lambda: Int(1) + (1 << 40), "Could not promote type"),
    ("number too small", lambda: UInt(1) * -1, "Could not promote type"),
    ("promote a list", lambda: Array3f(1) * [1, 2], "Could not promote type"),
    ("shape", lambda: Array2f([1, 2], [1, 2, 3]).shape, "ragged"),
    ("string", lambda: Float(1) + "x", "Encountered an unsupported argument of type"),
    ("string first", lambda: "x" + Float(1), "Encountered an unsupported argument of type"),
    ("T", lambda: TensorXf([1, 2]).T, "2-D tensors"),
    ("tensor, entries", lambda: TensorXf([1, 2, 3], (2, 2)), "Input array has the wrong number"),
    ("tensor, rows", lambda: TensorXf([[1, 2], [3]]), "ragged input"),
    ("tensor, shape only", lambda: TensorXf(shape=(2,)), "Input array must be specified"),
    (
        "tensors",
        lambda: TensorXf([1, 2]) + TensorXf([1, 2, 3]),
        "operands have incompatible shapes:",
    ),
    ("width", lambda: dr.width(Array2f([1, 2], [1, 2, 3])), "ragged"),
]
HALF = ad.Bool(True, False)


def loop(values, body, **options):
    """A loop of two iterations over a counter with two entries and other variables."""
    return dr.while_loop(
        (ad.UInt(0, 0), *values), lambda i, *_: i < 2, lambda i, *v: (i + 1, *body(*v)), **options
    )


def syntax(*lines):
    """A function, from its lines, with `dr.syntax`."""
    text = "\n".join(["@dr.syntax", "def f(x):", *lines]) + "\n"
    name = f"<function {text}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), {"dr": dr})


FLOW: list[Row] = [
    (
        "branch: incompatible sizes",
        lambda: dr.if_stmt((), HALF, lambda: ad.Float(1, 2, 3), lambda: ad.Float(4, 5, 6)),
        "incompatible sizes",
    ),
    (
        "branch: size",
        lambda: dr.if_stmt((), HALF, lambda: [ad.Float(1)], lambda: [ad.Float(1)] * 2),
        "the size of state variable",
    ),
    (
        "branch: size of an array",
        lambda: dr.if_stmt((), HALF, lambda: ad.Float(1, 2, 3), lambda: ad.Float(1, 2)),
        "the size of state variable",
    ),
    (
        "branch: type",
        lambda: dr.if_stmt((), HALF, lambda: ad.Float(1), lambda: ad.UInt(1)),
        "the type of state variable",
    ),
    (
        "branch: uninitialized argument",
        lambda: dr.if_stmt((ad.Float(),), HALF, lambda x: x, lambda x: x + 1),
        "state variable 'args[0]' of type 'drjit.llvm.ad.Float' is uninitialized",
    ),
    (
        "branch: uninitialized result",
        lambda: dr.if_stmt((), HALF, lambda: ad.Float(), lambda: ad.Float(1)),
        "state variable 'rv' of type 'drjit.llvm.ad.Float' is uninitialized",
    ),
    (
        "branch: no array",
        lambda: dr.if_stmt((), HALF, lambda: 1, lambda: 2),
        "the non-array state variable",
    ),
    ("loop: incompatible size", lambda: loop([ad.Float(1, 2, 3)], lambda x: [x + 1]),
     "has an incompatible size"),
    ("loop: no array", lambda: loop([1], lambda x: [x + 1]), "the non-array state variable"),
    ("loop: mode", lambda: loop([], list, mode="fast"), "invalid 'mode' argument"),
    (
        "loop: evaluated within another one",
        lambda: loop([ad.Float(1)], lambda x: loop([x], lambda x: [x], mode="evaluated")[1:]),
        "cannot execute a loop",
    ),
    (
        "call: evaluated within a loop",
        lambda: loop([ad.Float(1)], lambda x: [dr.switch(ad.UInt(x), [abs], x, mode="evaluated")]),
        "in *evaluated mode*",
    ),
    ("loop: exception", lambda: loop([ad.Float(1)], lambda x: [1 / 0]),
     "encountered an exception (see above)"),
    ("loop: size", lambda: loop([[ad.Float(1)]], lambda x: [[*x, *x]]),
     "the size of state variable"),
    ("loop: size of an array", lambda: loop([ad.Float(1, 2)], lambda x: [ad.Float(1, 2, 3)]),
     "the size of state variable"),
    ("loop: type", lambda: loop([ad.Float(0)], lambda x: [ad.UInt(x)]),
     "the type of state variable"),
    ("loop: type of a number", lambda: loop([1], lambda x: [ad.Float(1)]),
     "the type of state variable"),
    ("loop: uninitialized before", lambda: loop([ad.Float()], lambda x: [x]),
     "state variable 'state[1]' of type 'drjit.llvm.ad.Float' is uninitialized"),
    ("loop: uninitialized after", lambda: loop([ad.Float(1)], lambda x: [ad.Float()]),
     "state variable 'state[1]' of type 'drjit.llvm.ad.Float' is uninitialized"),
    (
        "loop: random numbers",
        lambda: loop([ad.Float(0)], lambda x: [x + dr.rng(0).random(ad.Float, 1)]),
        "To generate random numbers within a symbolic loop, you must initialize",
    ),
    ("local: no arrays", lambda: dr.alloc_local(int, 3),
     "does not contain any Jit-tracked arrays"),
    ("local: read", lambda: dr.alloc_local(ad.Float, 3)[3], "out of bounds read"),
    ("local: read by an array", lambda: list(dr.alloc_local(ad.Float, 3)[ad.UInt(0, 3)]),
     "out of bounds read"),
    ("local: write", lambda: dr.alloc_local(ad.Float, 3).write(ad.Float(1), 3),
     "out of bounds write"),
    ("syntax: break", lambda: syntax("  while x < 2:", "    break"),
     "use of 'break' inside a transformed"),
    ("syntax: continue", lambda: syntax("  while x < 2:", "    continue"),
     "use of 'continue' inside a transformed"),
    ("syntax: return", lambda: syntax("  if x < 2:", "    return x"),
     "use of 'return' inside a transformed"),
    ("syntax: hint", lambda: syntax("  if dr.hint(x < 2, name='a'):", "    x += 1"),
     "does not support the keyword argument"),
    ("syntax: decorators", lambda: dr.syntax(dr.freeze(syntax)), "wrong order"),
    ("syntax: functions of ours", lambda: dr.syntax(dr.func(syntax)), "wrong order"),
    ("switch: arguments", lambda: dr.switch(ad.UInt(0, 1), [abs] * 2, ad.Float(1, 2, 3)),
     "call arguments have incompatible sizes"),
    ("switch: empty argument", lambda: dr.switch(ad.UInt(0, 1), [abs] * 2, ad.Float()),
     "call arguments have incompatible sizes"),
    (
        "switch: keys",
        lambda: dr.switch(ad.UInt(0, 1), [lambda: {"a": 1}, lambda: {"b": 1}]),
        "inconsistent dictionary keys for field 'result' (['b'] and ['a'])",
    ),
    (
        "switch: sizes",
        lambda: dr.switch(ad.UInt(0, 1), [lambda: [1], lambda: [1, 1]]),
        "inconsistent sizes for field 'result' (2 and 1)",
    ),
    (
        "switch: types",
        lambda: dr.switch(ad.UInt(0, 1), [lambda: ad.UInt(1), lambda: ad.Float(1)]),
        "inconsistent types for field 'result'",
    ),
    (
        "switch: numbers",
        lambda: dr.switch(ad.UInt(0, 1), [lambda: 1, lambda: 2]),
        "inconsistent scalar Python object of type 'int' for field 'result'",
    ),
    (
        "switch: dependence of another size",
        lambda: dr.switch(ad.UInt(0, 1), [lambda x: x + ad.Float(1, 2, 3), abs], ad.Float(1, 2)),
        "operation that mixes symbolic",
    ),
    ("switch: empty result", lambda: dr.switch(ad.UInt(0, 1), [lambda: ad.Float()] * 2),
     "field 'result' is uninitialized"),
    ("switch: number", lambda: dr.switch(5, [abs], ad.Float(1)),
     "must be strictly smaller than"),
    ("switch: index", lambda: list(dr.switch(ad.UInt(0, 1), [abs], ad.Float(1))),
     "out-of-bounds callable ID"),
]  # fmt: skip
DERIVATIVES: list[Row] = [
    (
        "backward of a number",
        lambda: dr.backward(1.0),
        "incompatible function arguments",
    ),
    (
        "backward without derivatives",
        lambda: dr.backward(ad.Float(1)),
        "does not depend on the input",
    ),
    (
        "forward_to without derivatives",
        lambda: dr.forward_to(ad.Float(1)),
        "does not depend on the input",
    ),
    (
        "grad without an argument",
        lambda: dr.grad(),  # pyright: ignore[reportCallIssue]
        "grad(): incompatible function arguments",
    ),
    (
        "grad with an unknown argument",
        lambda: dr.enable_grad(arg=ad.Float(1)),  # pyright: ignore[reportCallIssue]
        "enable_grad(): incompatible function arguments",
    ),
    (
        "replace_grad of other sizes",
        lambda: dr.replace_grad(ad.Float(1, 2), ad.Float(1, 2, 3)),
        "incompatible input sizes",
    ),
    (
        "set_grad with a gradient too many",
        lambda: dr.set_grad(ad.Float(1), 1, 2),  # pyright: ignore[reportCallIssue]
        "set_grad(): incompatible function arguments",
    ),
    (
        "set_grad without a gradient",
        lambda: dr.set_grad(ad.Float(1)),  # pyright: ignore[reportCallIssue]
        "set_grad(): incompatible function arguments",
    ),
    (
        "accum_grad without a gradient",
        lambda: dr.accum_grad(ad.Float(1)),  # pyright: ignore[reportCallIssue]
        "accum_grad(): incompatible function arguments",
    ),
    (
        "set_grad of another size",
        lambda: dr.set_grad(dr.detail.new_grad(ad.Float(1, 2)), ad.Float(1, 2, 3)),
        "attempted to store a gradient",
    ),
    (
        "set_grad to nothing",
        lambda: dr.set_grad(ad.Float(1), None),
        "incompatible function arguments",
    ),
]
NETWORKS: list[Row] = [
    (
        "CoopVec, derivatives",
        lambda: dr.enable_grad(nn.CoopVec(ad.Float(1), 2)),
        "construct it from grad-enabled components",
    ),
    (
        "CoopVec, evaluation",
        lambda: dr.eval(nn.CoopVec(ad.Float(1), 2)),
        "Cooperative vectors cannot be evaluated",
    ),
    (
        "Linear, the type of its weights",
        lambda: nn.Linear(2, 3).alloc(ad.Float, 2),
        "Linear layer requires a Tensor type",
    ),
    (
        "network without alloc",
        lambda: nn.Linear(2, 3)(nn.CoopVec(ad.Float(1), 2)),
        "uninitialized network",
    ),
    (
        "network without pack",
        lambda: nn.Linear(2, 3).alloc(ad.TensorXf, 2)(nn.CoopVec(ad.Float(1), 2)),
        "requires packed weights",
    ),
    (
        "optimizer, a parameter of another kind",
        lambda: opt.Adam(0.1, {"x": 1}),
        "cannot register parameter",
    ),
    (
        "optimizer, an empty parameter",
        lambda: opt.Adam(0.1, {"x": ad.Float()}),
        'parameter "x" is empty',
    ),
]


T = TensorXf([1, 2, 3])

FUNCTIONS: list[Row] = [
    ("allclose_lengths", lambda: dr.allclose([1, 2], [1, 2, 3]), "incompatible sizes"),
    ("assert_allclose", lambda: dr.assert_allclose(Float(1), 2),
     "Arrays are not equal to tolerance"),
    ("assert_allclose_count", lambda: dr.assert_allclose(Float(1, 2, 3), [1, 2, 4]),
     "Mismatched elements: 1 / 3 (33.3%)\nMax absolute difference: 1\n"),
    ("assert_allclose_values", lambda: dr.assert_allclose(Float(1), 2),
     "\n ACTUAL: [1]\n DESIRED: [2]"),
    ("convolve_no_radius", lambda: dr.convolve(T, abs), "must be specified"),
    ("convolve_radius", lambda: dr.convolve(T, [1.0], filter_radius=3),
     "'filter_radius' must be None"),
    ("empty_shape", lambda: dr.empty(Array3f, (2, 5)), "parameters are incompatible."),
    ("expand_dims_twice", lambda: dr.expand_dims(T, (0, 0)), "duplicate"),
    ("format_brace", lambda: dr.format("{"), "unmatched brace"),
    ("format_keyword", lambda: dr.format("{a}"), "missing keyword argument"),
    ("format_mixed", lambda: dr.format("{} {0}", 1, 2),
     "cannot switch from implicit to explicit"),
    ("format_mixed_again", lambda: dr.format("{0} {}", 1, 2),
     "cannot switch from explicit to implicit"),
    ("format_positional", lambda: dr.format("{}"), "missing positional argument"),
    ("full_shape", lambda: dr.full(Array3f, 1, (2, 5)), "parameters are incompatible."),
    ("gather_other_entries", lambda: dr.gather(Int, Float(1), 0), "unsupported dtype"),
    ("gather_other_type", lambda: dr.gather(int, Float(1), 0), "unsupported dtype"),
    ("keepdims", lambda: dr.sum(Array3f(1), keepdims=True), "keepdims=True"),
    ("keepdims_list", lambda: dr.sum([1.0], keepdims=True), "keepdims=True"),
    ("matmul_integers", lambda: dr.matmul(TensorXi([[1]]), TensorXi([[1]])),
     "Float16, Float32, and Float64"),
    ("opaque_shape", lambda: dr.opaque(Array3f, 1, (2, 5)), "parameters are incompatible."),
    ("opaque_type", lambda: dr.opaque(Float), "received a type object"),
    ("print_brace", lambda: dr.print("{"), "unmatched brace"),
    ("ravel_order", lambda: dr.ravel(Array3f(1), "X"), "order parameter must equal"),
    ("reduction_axis", lambda: dr.sum(Float(1, 2), axis=1), "out-of-bounds axis"),
    ("reinterpret_array", lambda: dr.reinterpret_array(Float64, Float(1)),
     "cannot reinterpret-cast between types"),
    ("resample_axes", lambda: dr.resample(T, (4, 4)), "same number of axes"),
    ("resample_boundary", lambda: dr.resample(T, (4,), boundary="x"), "invalid boundary"),
    ("resample_radius", lambda: dr.resample(T, (4,), filter="box", filter_radius=3),
     "'filter_radius' must be None"),
    ("reshape_inferred", lambda: dr.reshape(TensorXf, Float(1, 2), (-1, 3)),
     "cannot infer a compatible shape"),
    ("reshape_size", lambda: dr.reshape(TensorXf, Float(1, 2), (3,)), "mismatched array sizes"),
    ("reshape_twice", lambda: dr.reshape(T, (-1, -1)), "only a single 'shape' entry"),
    ("rng_shape", lambda: dr.rng(0).random(Array3f, (2, 5)), "parameters are incompatible."),
    ("select_unknown", lambda: dr.select(Float(1) > 0, object(), object()),
     "incompatible objects with an unknown type"),
    ("shape_ragged", lambda: dr.shape(Array3f([1, 2], [1, 2, 3], 4)), "ragged"),
    ("split", lambda: dr.split(T, 2), "cannot be equally split"),
    ("stack", lambda: dr.stack([T, TensorXf([1])]), "same shape"),
    ("transpose_length", lambda: dr.transpose(T, (0, 1)), "must have length 1"),
    ("transpose_twice", lambda: dr.transpose(TensorXf([[1]]), (0, 0)), "must be a permutation"),
    ("unravel_order", lambda: dr.unravel(Array3f, Float(1), "X"), "order parameter must equal"),
    ("unravel_size", lambda: dr.unravel(Array3f, Float(1, 2)), "not divisible"),
    ("unravel_type", lambda: dr.unravel(Array3f, TensorXf([1])), "expected array of type"),
    ("width_ragged", lambda: dr.width(Array3f([1, 2], [1, 2, 3], 4)), "ragged"),
    ("zeros_shape", lambda: dr.zeros(Array3f, (2, 5)), "parameters are incompatible."),
]  # fmt: skip


@pytest.mark.parametrize(
    "call, phrase",
    [
        pytest.param(call, phrase, id=name)
        for name, call, phrase in [*ARRAYS, *FLOW, *DERIVATIVES, *NETWORKS, *FUNCTIONS]
    ],
)
def test_a_message_contains_the_phrase(call, phrase):
    with pytest.raises(Exception) as raised:
        call()
    chain, error = [], raised.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert named(phrase) in "\n".join(chain)


def test_a_mode_that_is_not_possible_is_reported(capfd):
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, False):
        loop([ad.Float(1)], lambda x: [dr.if_stmt((x,), x > 1, abs, abs)])
    assert "forcing conditional statement to symbolic" in capfd.readouterr().err

"""Messages contain the key phrase of the reference's message, so that a search for it finds what
has been written about it, and handlers that look for it work. Each list is a theme; a row is a
name, a call that raises, and the phrase.
"""

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit import opt
from drjit.llvm import Array3f, Float, Float64, Int, TensorXf, TensorXi, ad

Row = tuple[str, Callable[[], Any], str]

ARRAYS: list[Row] = []
FLOW: list[Row] = []
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
        "replace_grad of other sizes",
        lambda: dr.replace_grad(ad.Float(1, 2), ad.Float(1, 2, 3)),
        "incompatible input sizes",
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
    ("print_brace", lambda: dr.print("}"), "unmatched brace"),
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
    ("unravel_type", lambda: dr.unravel(Array3f, TensorXf([1])), "expected an array of type"),
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
    assert phrase in "\n".join(chain)

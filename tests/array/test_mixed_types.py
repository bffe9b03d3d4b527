"""Operands of different namespaces and precisions: the components of every result are of the type
that its class says, and derivatives pass."""

import operator
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.array.base import ArrayBase
from drjit.llvm import ad

_MATRIX = [[1, 2, 0], [0, 3, 1], [4, 0, 1]]
_ARGUMENTS: dict[str, tuple] = {
    "Array3f": (1, 2, 3), "Array3f64": (1, 2, 3), "Array3f16": (1, 2, 3), "Array3i": (1, 2, 3),
    "Array3b": (True, False, True), "ArrayXf": ([1, 2, 3],), "Array33f": (_MATRIX,),
    "Matrix3f": (_MATRIX,), "Matrix3f64": (_MATRIX,), "Complex2f": (1, 2), "Complex2f64": (1, 2),
    "Quaternion4f": (1, 2, 3, 4), "Quaternion4f64": (1, 2, 3, 4), "Float": (0.5, 2),
    "Float16": (0.5,), "Float64": (0.25,), "Int": (2,), "Bool": (True,),
}  # fmt: skip


def values() -> list[Any]:
    found: list[Any] = [2, 0.5, True]
    for namespace, (name, arguments) in product((scalar, llvm, ad), _ARGUMENTS.items()):
        cls = getattr(namespace, name)
        if issubclass(cls, ArrayBase):
            found.append(cls(*arguments))
    return found


def strangers(value: Any) -> Iterator[str]:
    """Yields the components that are of another type than the class says."""
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from strangers(v)
    elif isinstance(value, ArrayBase) and value._kind == "nested":
        expected: Any = type(value).Value
        for c in value._components:
            is_right = type(c) is expected if issubclass(expected, ArrayBase) else True
            if not is_right or (not issubclass(expected, ArrayBase) and isinstance(c, ArrayBase)):
                yield f"{type(value)} with {type(c)}"
            yield from strangers(c)
    elif isinstance(value, ArrayBase) and value._kind == "leaf":
        assert value._node.dtype is value._dtype


BINARY: list[Callable] = [
    operator.add, operator.mul, operator.truediv, operator.floordiv, operator.pow, operator.matmul,
    operator.and_, operator.lt, operator.eq, dr.atan2, dr.cross, dr.copysign, dr.dot, dr.hypot,
    dr.maximum, dr.mulsign, dr.mul_wide, dr.power, dr.quat_apply, dr.replace_grad, dr.matmul,
]  # fmt: skip


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_components_of_results(function: Callable) -> None:
    accepted = 0
    for a, b in product(values(), repeat=2):
        try:
            result = function(a, b)
        except (TypeError, RuntimeError, ZeroDivisionError):
            continue
        accepted += 1
        assert not [*strangers(result)], (type(a), type(b))
    assert accepted > 20


@pytest.mark.parametrize("function", [dr.fma, dr.lerp, dr.select, dr.clip, dr.slerp])
def test_components_of_results_of_three(function: Callable) -> None:
    names = "Array3f", "Array3f64", "Quaternion4f", "Quaternion4f64", "Float", "Float64", "Array3b"
    chosen = [v for v in values() if type(v).__name__ in names]
    for operands in product([0.5, ad.Bool(True, False), llvm.Int(1), *chosen], repeat=3):
        try:
            result = function(*operands)
        except (TypeError, RuntimeError):
            continue
        assert not [*strangers(result)], [*map(type, operands)]


def test_scalar_arrays_have_their_precision() -> None:
    third = 1 / 3
    found = scalar.Array3f64(third) * llvm.Array3f(3)
    assert type(found) is llvm.Array3f64
    assert found.numpy().tolist() == [[third * 3]] * 3
    assert type(scalar.Array3f(third) + llvm.Array3f16(1)) is llvm.Array3f
    # A number has the precision of the array.
    assert type(third * llvm.Array3f(3)) is llvm.Array3f


@pytest.mark.parametrize("namespace", [scalar, llvm, ad])
def test_derivatives_of_rotated_vectors(namespace: Any) -> None:
    v = ad.Array3f([1, 2], [3, 4], [5, 6])
    dr.enable_grad(v)
    turned = dr.quat_apply(namespace.Quaternion4f(0, 0, 1, 0), v)
    assert type(turned) is ad.Array3f
    dr.backward(turned)
    assert v.grad.numpy().tolist() == [[-1, -1], [-1, -1], [1, 1]]


def test_a_matrix_of_numbers_and_a_vector_of_lanes() -> None:
    m = scalar.Matrix3f(_MATRIX)
    v = llvm.Array3f([1, 2], [3, 4], 5)
    expected = np.einsum("km,kn->mn", np.array(_MATRIX), np.array([[1, 2], [3, 4], [5, 5]]))
    for found in (dr.dot(m, v), dr.dot(v, m), dr.abs_dot(m, v)):
        np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal((m @ v).numpy(), np.array(_MATRIX) @ [[1, 2], [3, 4], [5, 5]])


def test_counts_of_other_namespaces() -> None:
    for counts in (scalar.ArrayXu(2, 0, 1), scalar.ArrayXi(2, 0, 1)):
        assert dr.repeat(llvm.Float(1, 2, 3), counts).numpy().tolist() == [1, 1, 3]
    assert list(dr.repeat(scalar.ArrayXf(1, 2, 3), llvm.UInt(2, 0, 1))) == [1, 1, 3]


def test_entries_of_other_namespaces() -> None:
    found = dr.unravel(llvm.Array2f, scalar.ArrayXf(1, 2, 3, 4))
    assert type(found) is llvm.Array2f and found.numpy().tolist() == [[1, 3], [2, 4]]
    assert list(dr.unravel(scalar.Array2f, llvm.Float(1, 2))) == [1, 2]

"""The type in which operands of different types meet."""

import operator

import numpy as np
import pytest

import drjit as dr

L, S, A = dr.llvm, dr.scalar, dr.llvm.ad

ORDER = [L.Bool, L.Int8, L.UInt8, L.Int, L.UInt, L.Int64, L.UInt64, L.Float16, L.Float, L.Float64]


@pytest.mark.parametrize("a", ORDER)
@pytest.mark.parametrize("b", ORDER)
def test_element_types_meet_in_the_larger(a, b) -> None:
    larger = max(a, b, key=ORDER.index)
    assert dr.expr_t(a, b) is larger
    x, y = a(1), b(1)
    if larger is L.Bool:
        with pytest.raises(TypeError, match=r"Bool \+ drjit.llvm.Bool"):
            x + y
        assert type(x | y) is L.Bool
    else:
        assert type(x + y) is larger
        assert (x + y)[0] == 2
    assert type(x == y) is L.Bool
    if dr.is_float_v(larger):
        assert type(x / y) is larger
        with pytest.raises(TypeError, match="//"):
            x // y
    else:
        with pytest.raises(TypeError, match="true division needs floats"):
            x / y


NUMBERS = [
    # array type, number, result of +
    (L.Int, True, L.Int),
    (L.Int, 3, L.Int),
    (L.Int, 1.5, L.Float),
    (L.Int64, 1.5, L.Float),
    (L.Bool, 3, L.Int),
    (L.Bool, 1.5, L.Float),
    (L.UInt8, 255, L.UInt8),
    (L.Float16, 1.5, L.Float16),
    (L.Float64, 3, L.Float64),
    (L.Array3i, 1.5, L.Array3f),
    (L.Array3b, 1, L.Array3i),
    (L.TensorXi, 2.5, L.TensorXf),
    (L.Int, np.float32(1.5), L.Float),
    (L.Int, np.int64(2), L.Int),
    (L.Float, np.bool_(True), L.Float),
    (L.Float, [2], L.Float),
    (L.Int, [1.5, 2.5], L.Float),
    (L.Array3f, (1, 2, 3), L.Array3f),
    (L.Array3f, np.arange(3, dtype=np.float32), L.Array3f),
    (L.Int, np.arange(3, dtype=np.float32), L.Float),
    (L.Float, np.arange(3, dtype=np.float64), L.Float64),
    (S.Array3i, 1.5, S.Array3f),
    (A.Float, 1, A.Float),
]


@pytest.mark.parametrize(("cls", "number", "result"), NUMBERS)
def test_numbers_and_sequences_take_the_type_of_the_array(cls, number, result) -> None:
    assert type(cls(1) + number) is result
    if not isinstance(number, (np.ndarray, np.generic)):
        assert type(number + cls(1)) is result


TYPES = [
    (L.Float, L.Array3f, L.Array3f),
    (L.Float64, L.Array3f, L.Array3f64),
    (L.Array3f, L.Int, L.Array3f),
    (L.Array3i, L.Float, L.Array3f),
    (L.Array3f, L.ArrayXf, L.ArrayXf),
    (L.Array33f, L.Array3f, L.Array33f),
    (L.Float, L.Matrix3f, L.Matrix3f),
    (L.Matrix3f, L.Matrix3f64, L.Matrix3f64),
    (L.Int, L.Complex2f, L.Complex2f),
    (L.Array2f, L.Complex2f, L.Complex2f),
    (L.Array4f, L.Quaternion4f, L.Quaternion4f),
    (L.Float, L.TensorXi, L.TensorXf),
    (L.Float, S.Array3f, L.Array3f),
    (S.ArrayXf, L.Array3f, L.ArrayXf),
    (S.Matrix3f, L.Float, L.Matrix3f),
    (L.Float, A.Float, A.Float),
    (L.Array3f, A.Int, A.Array3f),
    (A.TensorXf, L.TensorXf64, A.TensorXf64),
    (S.Array3f, A.Float16, A.Array3f),
]


@pytest.mark.parametrize(("a", "b", "result"), TYPES)
def test_shapes_and_namespaces_meet(a, b, result) -> None:
    assert dr.expr_t(a, b) is result
    assert dr.expr_t(b, a) is result
    for x, y in ((a, b), (b, a)):
        assert type(x(1) + y(1)) is result
        assert type(x(1) == y(1)) is result.Mask


INCOMPATIBLE = [
    (L.Array2f, L.Array3f),
    (L.Array1f, L.Array3f),
    (L.Array3f, L.TensorXf),
    (L.Matrix3f, L.Array3f),
    (L.Matrix3f, L.Array33f),
    (L.Matrix2f, L.Matrix3f),
    (L.Complex2f, L.Quaternion4f),
]


@pytest.mark.parametrize(("a", "b"), INCOMPATIBLE)
def test_types_that_do_not_go_together(a, b) -> None:
    with pytest.raises(
        RuntimeError,
        match=rf"{a.__name__}.__add__\(\): .* drjit.llvm.{a.__name__}, drjit.llvm.{b.__name__}",
    ):
        a(1) + b(1)
    with pytest.raises(TypeError, match="incompatible types"):
        dr.expr_t(a, b)


@pytest.mark.parametrize("other", [None, "x", 1j, object(), {}])
def test_other_values_are_refused_also_by_equality(other) -> None:
    for f in (operator.add, operator.eq, operator.ne, operator.lt):
        with pytest.raises(RuntimeError, match=r"an unsupported argument of type .* \(must be"):
            f(L.Float(1), other)


@pytest.mark.parametrize(("cls", "value"), [(L.UInt, -1), (L.UInt8, 300), (L.Int, 2**31)])
def test_integers_have_to_fit(cls, value) -> None:
    for a in (cls(1), cls([1, 2])):
        with pytest.raises(RuntimeError, match=f"{value} does not fit"):
            a + value


def test_a_vector_is_added_to_every_row() -> None:
    a = L.Array33f(0) + L.Array3f(1, 2, 3)
    np.testing.assert_array_equal(a.numpy()[..., 0], [[1, 2, 3]] * 3)


@pytest.mark.parametrize("module", [L, dr.scalar])
def test_a_conversion_gives_a_vector_to_every_row(module) -> None:
    a = module.Array33f(module.Array3f(1, 2, 3))
    np.testing.assert_array_equal(a.numpy().reshape(3, 3), [[1, 2, 3]] * 3)


@pytest.mark.parametrize("module", [L, dr.scalar])
def test_the_product_of_nested_arrays_follows_their_dimensions(module) -> None:
    a, b = module.Array22f([1, 2], [3, 4]), module.Array22f([5, 6], [7, 8])
    vector = module.Array2f(1, 2)
    assert type(a @ b) is module.Array22f
    np.testing.assert_array_equal((a @ b).numpy().reshape(2, 2), [[19, 22], [43, 50]])
    assert type(a @ vector) is type(vector @ a) is module.Array2f
    np.testing.assert_array_equal((a @ vector).numpy().ravel(), [5, 11])
    np.testing.assert_array_equal((vector @ a).numpy().ravel(), [7, 10])
    np.testing.assert_array_equal((vector @ vector), 5)


@pytest.mark.parametrize("value", [L.Array2f(1, 2), L.Array22f([1, 2], [3, 4]), L.Float(1, 2)])
def test_a_number_in_a_product_scales(value) -> None:
    for product in (value @ 2, 2.0 @ value):
        assert type(product) is type(value)
        np.testing.assert_array_equal(product.numpy(), 2 * value.numpy())


def test_masks_select_with_the_and_operator() -> None:
    mask = L.Bool(True, False)
    assert list(L.Float(6) & mask) == [6, 0]
    assert list(L.Int(6) & mask) == [6, 0]
    assert list(L.Bool(True) & L.Int(6)) == [0]
    a = L.Array3f(1, 2, 3) & L.Array3b(True, False, True)
    np.testing.assert_array_equal(a.numpy()[:, 0], [1, 0, 3])
    with pytest.raises(TypeError):
        L.Float(6) & L.Float(3)


@pytest.mark.parametrize("mask", [[True, False], (True, False)])
def test_a_sequence_of_bools_is_a_mask_on_the_right_only(mask) -> None:
    for cls in (L.Array2i, L.ArrayXi, A.Array2u):
        np.testing.assert_array_equal((cls(6, 7) & mask).numpy(), [[6], [0]])
        with pytest.raises(RuntimeError, match=r"Could not promote type '(list|tuple)' to"):
            mask & cls(6, 7)
    np.testing.assert_array_equal(mask & L.Array2b(True, True), [[True], [False]])
    assert list(mask & L.Int(7, 7)) == [1, 0]  # as the numbers 1 and 0


@pytest.mark.parametrize("module", [L, A, S])
def test_extrema_of_matrices_go_row_by_row(module) -> None:
    small, deep = module.Matrix3f(1), module.Matrix34f(2)
    for a, b in ((small, deep), (deep, small)):
        high, low = dr.maximum(a, b), dr.minimum(a, b)
        assert type(high) is type(low) is type(deep)
        diagonal = np.eye(3)[:, :, None] * np.ones(4)
        np.testing.assert_array_equal(high.numpy().reshape(3, 3, 4), 2 * diagonal)
        np.testing.assert_array_equal(low.numpy().reshape(3, 3, 4), diagonal)
    clipped = dr.clip(module.Matrix3f(5), deep, 3)
    np.testing.assert_array_equal(clipped.numpy().reshape(3, 3, 4)[0, 0], [3] * 4)


def test_a_nest_of_bools_selects_entries_of_components() -> None:
    chosen = dr.select([[True, False], [False, True]], L.Float(1), L.Float(2))
    assert type(chosen) is L.Array2f
    np.testing.assert_array_equal(chosen.numpy(), [[1, 2], [2, 1]])
    assert type(dr.select([True, False], L.Float(1), L.Float(2))) is L.Float


@pytest.mark.parametrize(
    "mask", [L.Float(1, 0), A.Float(1), L.Array2f(1, 0), S.ArrayXf(1, 0), L.TensorXf([1, 0]), 1.0]
)
def test_floating_point_numbers_are_no_masks(mask) -> None:
    for values in ((L.Float(1), L.Float(2)), ([L.Float(1)], [L.Float(2)])):
        with pytest.raises(RuntimeError, match=r"(has to be|expected) a mask"):
            dr.select(mask, *values)
    assert list(dr.select(L.Int(2, 0), 1, 2)) == [1, 2]


def test_a_select_takes_the_shape_of_mask_and_values() -> None:
    m = L.Bool(True, False)
    np.testing.assert_array_equal(dr.select(m, L.Array2f(1, 2), 0).numpy(), [[1, 0], [2, 0]])
    np.testing.assert_array_equal(dr.select(L.Array2b(True, False), 1.0, 2.0).numpy(), [[1], [2]])
    assert type(dr.select(m, 1, 2)) is L.Int
    assert type(dr.select(m, L.Matrix2f(1), L.Matrix2f(2))) is L.Matrix2f
    assert type(dr.select(L.Array3b(True), A.Float(1), 0)) is A.Array3f
    assert dr.select(True, 1, 2) == 1


def test_expressions_of_python_types() -> None:
    assert dr.expr_t(float, int) is float
    assert dr.expr_t(1, True) is int
    assert dr.expr_t(L.Float(1), 2, L.Array3i) is L.Array3f


@pytest.mark.parametrize("name", ["ArrayXi", "Array2i", "TensorXi"])
def test_numpy_arrays_keep_their_precision_beside_scalar_arrays(name) -> None:
    a = getattr(S, name)([3, 2])
    for entries, suffix in (
        (np.array([1e300, 5]), "f64"),
        (np.array([2**40, 5]), "i64"),
        (np.array([1, 5], np.float16), "f16"),
        (np.array([1, 5]) > 2, "i"),
    ):
        for found in (a + entries, dr.maximum(a, entries), dr.fma(entries, a, 0)):
            assert type(found) is getattr(S, name[:-1] + suffix)
        np.testing.assert_array_equal((a + entries).numpy(), entries + np.array([3, 2]))


def test_expressions_of_sequences_and_none() -> None:
    assert dr.expr_t(L.Array3f, [1, 2, 3]) is L.Array3f
    assert dr.expr_t(L.Int, (1.5, 2)) is L.Float
    assert dr.expr_t(L.Float, None) is L.Float
    assert dr.expr_t(L.Int, [None, 1.5]) is L.Float and dr.expr_t(L.Int, [None]) is L.UInt
    assert dr.expr_t(L.Int(1), [2.5]) is L.Float
    assert dr.expr_t([1], [2.5]) is list and dr.expr_t(np.zeros(1), np.ones(2)) is np.ndarray
    assert dr.expr_t(None) is None and dr.expr_t(None, None) is type(None)
    for wrong in ("a", ["a"], {}, 1j):
        with pytest.raises(TypeError, match=r'incompatible types "drjit\.llvm\.Float" and "'):
            dr.expr_t(L.Float, wrong)


@pytest.mark.parametrize("value", ["a", None, object()])
@pytest.mark.parametrize(
    "function", [dr.copysign, dr.hypot, dr.mul_wide, dr.atan2, dr.minimum, dr.sphdir]
)
def test_operands_that_are_none_are_errors_of_the_function_that_was_called(function, value):
    pattern = rf"^dr\.{function.__name__}\(\): .*{type(value).__name__}"
    for error in (TypeError, RuntimeError):  # it is either, whichever the program expects
        with pytest.raises(error, match=pattern):
            function(dr.llvm.Float(1), value)
    with pytest.raises(TypeError, match=r"^dr\.fma\(\): "):
        dr.fma(dr.llvm.Float(1), 2, value)

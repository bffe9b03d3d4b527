"""Messages contain the sentences of the reference literally, for handlers that look for them and
whoever searches for one. A row is a call that raises, a class of the exception, and the sentence;
rows that are a function of a module of array types are called for each of the modules.
"""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import named, tracked

import drjit as dr
from drjit import hashgrid, nn, opt
from drjit.llvm import Bool, UInt, ad

Row = tuple[str, Callable[..., Any], type[Exception], str]

MODULES = {"scalar": dr.scalar, "llvm": dr.llvm, "llvm.ad": dr.llvm.ad}
TRACED = {"llvm": dr.llvm, "llvm.ad": dr.llvm.ad}


def chain(error: BaseException | None) -> str:
    """Returns the messages of an exception and of its causes."""
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(found)


def check(call: Callable[..., Any], kind: type[Exception], text: str, *args: Any) -> None:
    with pytest.raises(kind) as raised:
        call(*args)
    assert named(text) in chain(raised.value)


def cases(rows: list[Row], modules: dict[str, Any]) -> Any:
    return pytest.mark.parametrize(
        "call, kind, text, name",
        [
            pytest.param(call, kind, text, name, id=f"{title}-{name}")
            for title, call, kind, text in rows
            for name in modules
        ],
    )


def put(array: Any, name: str, value: Any) -> None:
    setattr(array, name, value)


def equal_shapes(cls: Any) -> Any:
    return dr.fma(cls([1, 2]), cls([1, 2]), cls([1, 2, 3]))


SHAPES = 'could not construct output: the provided "shape" and "dtype" parameters are incompatible.'
NOT_CONVERTIBLE = "(must be a Dr.Jit array or a type that can be converted into one)"
BOOL = "implicit conversion to 'bool'"

EVERYWHERE: list[Row] = [
    ("size", lambda m: m.Array4f(1, 2, 3, 4, 5), TypeError,
     "Input has the wrong size (expected 4 elements, got 5)."),
    ("size of a list", lambda m: m.Array3f([1, 2]), TypeError,
     "Input has the wrong size (expected 3 elements, got 2)."),
    ("size of an array", lambda m: m.Array3f(m.ArrayXf(1, 2)), TypeError,
     "Input has the wrong size (expected 3 elements, got 2)."),
    ("size of a matrix", lambda m: m.Matrix2f(1, 2, 3), TypeError,
     "Input has the wrong size (expected 2 elements, got 3)."),
    ("size of a matrix of an array", lambda m: m.Matrix2f(m.Array3f(1, 2, 3)), TypeError,
     "Input has the wrong size (expected 2 elements, got 3)."),
    ("size of a complex number", lambda m: m.Complex2f(1, 2, 3), TypeError,
     "Input has the wrong size (expected 2 elements, got 3)."),
    ("size of a quaternion", lambda m: m.Quaternion4f([1, 2, 3]), TypeError,
     "Input has the wrong size (expected 4 elements, got 3)."),
    ("size of a nested array", lambda m: m.Array22f(1, 2, 3), TypeError,
     "Input has the wrong size (expected 2 elements, got 3)."),
    ("size of a component", lambda m: m.Array22f([1, 2], [1, 2, 3]), TypeError,
     "Input has the wrong size (expected 2 elements, got 3)."),
    ("size of a mask", lambda m: m.Array3b(True, False), TypeError,
     "Input has the wrong size (expected 3 elements, got 2)."),
    ("size, full", lambda m: dr.full(m.Array3f, [1, 2]), RuntimeError,
     "Input has the wrong size (expected 3 elements, got 2)."),
    ("imag", lambda m: put(m.Array3f(1), "imag", 1), TypeError,
     "Array3f' is not complex-valued, cannot assign to 'imag'."),
    ("real", lambda m: put(m.Matrix2f(1), "real", 1), TypeError,
     "Matrix2f' is not complex-valued, cannot assign to 'real'."),
    ("imag of a tensor", lambda m: put(m.TensorXf([1]), "imag", 1), TypeError,
     "TensorXf' is not complex-valued, cannot assign to 'imag'."),
    ("component", lambda m: m.Array3f(1).w, AttributeError,
     "Array3f does not have a 'w' component."),
    ("component, assigned", lambda m: put(m.Array3f(1), "w", 1), TypeError,
     "Array3f does not have a 'w' component."),
    ("component of a complex number", lambda m: m.Complex2f(1).x, RuntimeError,
     "Complex2f does not have a 'x' component."),
    ("component of a tensor", lambda m: m.TensorXf([1]).x, RuntimeError,
     "TensorXf does not have a 'x' component."),
    ("tensors", lambda m: m.TensorXf([1, 2]) + m.TensorXf([1, 2, 3]), RuntimeError,
     "TensorXf.__add__(): operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, compared", lambda m: m.TensorXf([1, 2]) < m.TensorXf([1, 2, 3]), RuntimeError,
     "TensorXf.__richcmp__(): operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, powers", lambda m: m.TensorXf([1, 2]) ** m.TensorXf([1, 2, 3]), RuntimeError,
     "TensorXf.__pow__(): operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, in place", lambda m: m.TensorXf([1, 2]).__iadd__(m.TensorXf([1, 2, 3])),
     RuntimeError, "operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, fma", lambda m: dr.fma(m.TensorXf([1, 2]), m.TensorXf([1, 2, 3]), m.TensorXf(1)),
     RuntimeError, "operands have incompatible shapes: (2,), (3,), and ()."),
    ("tensors, fma of equal ones", lambda m: equal_shapes(m.TensorXf),
     RuntimeError, "operands have incompatible shapes: (2,), (2,), and (3,)."),
    ("tensors, maximum", lambda m: dr.maximum(m.TensorXf([1, 2]), m.TensorXf([1, 2, 3])),
     RuntimeError, "operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, select", lambda m: dr.select(m.TensorXf([1, 2]) > 1, m.TensorXf([1, 2, 3]), 0),
     RuntimeError, "operands have incompatible shapes: (2,), (3,), and ()."),
    ("tensors, atan2", lambda m: dr.atan2(m.TensorXf([1, 2]), m.TensorXf([1, 2, 3])), RuntimeError,
     "operands have incompatible shapes: (2,) and (3,)."),
    ("tensors, lerp", lambda m: dr.lerp(m.TensorXf([1, 2]), m.TensorXf([1, 2, 3]), m.TensorXf(1)),
     RuntimeError, "operands have incompatible shapes: (3,), (), and (2,)."),
    ("tensor of an array", lambda m: m.TensorXf(m.ArrayXf(1, 2, 3, 4), (2, 4)), TypeError,
     "Input array has the wrong number of entries (got 4, expected 8)"),
    ("bool of a number", lambda m: bool(m.Array3f(1)), TypeError,
     f"Array3f.__bool__(): {BOOL} is only supported for scalar mask arrays."),
    ("bool of a tensor", lambda m: bool(m.TensorXf([1])), TypeError,
     f"{BOOL} is only supported for scalar mask arrays."),
    ("bool of a mask of a tensor", lambda m: bool(m.TensorXb([True, False])), RuntimeError,
     f"{BOOL} requires an array with at most 1 element (this one has 2 elements)."),
    *[
        (f"shape, {make.__name__}", lambda m, make=make: make(m.Array3f, (2, 5)), RuntimeError,
         SHAPES)
        for make in (dr.zeros, dr.ones, dr.empty)
    ],
    ("shape, full", lambda m: dr.full(m.Array3f, 1, (2, 5)), RuntimeError,
     f"dr.full(): {SHAPES}"),
    ("shape, opaque", lambda m: dr.opaque(m.Matrix3f, 1, (2, 5)), RuntimeError,
     f"dr.opaque(): {SHAPES}"),
    *[
        (f"operator {symbol} with text", lambda m, f=f: f(m.Array3i(1), "a"), RuntimeError,
         f"Array3i.__{name}__(): Encountered an unsupported argument of type 'str' "
         f"{NOT_CONVERTIBLE}")
        for symbol, name, f in (
            ("+", "add", lambda a, b: a + b),
            ("-", "sub", lambda a, b: a - b),
            ("*", "mul", lambda a, b: a * b),
            ("/", "truediv", lambda a, b: a / b),
            ("//", "floordiv", lambda a, b: a // b),
            ("&", "and", lambda a, b: a & b),
            ("<<", "lshift", lambda a, b: a << b),
            ("<", "richcmp", lambda a, b: a < b),
            ("==", "richcmp", lambda a, b: a == b),
            ("+=", "add", lambda a, b: a.__iadd__(b)),
        )
    ],
    ("operator of text", lambda m: "a" + m.Array3i(1), TypeError,
     f"str.__add__(): Encountered an unsupported argument of type 'str' {NOT_CONVERTIBLE}"),
    ("operator with None", lambda m: m.Matrix2f(1) + None, RuntimeError,
     f"Encountered an unsupported argument of type 'NoneType' {NOT_CONVERTIBLE}"),
    ("operator with None in a list", lambda m: m.Array3f(1) * [1, None, 2], RuntimeError,
     f"Encountered an unsupported argument of type 'NoneType' {NOT_CONVERTIBLE}"),
    ("operator with an object", lambda m: m.TensorXf([1]) > object(), TypeError,
     f"Encountered an unsupported argument of type 'object' {NOT_CONVERTIBLE}"),
    ("function of text", lambda m: dr.maximum(m.Array3f(1), "a"), RuntimeError,
     f"Encountered an unsupported argument of type 'str' {NOT_CONVERTIBLE}"),
    ("order of matrices", lambda m: m.Matrix2f(1) < m.Matrix2f(1), RuntimeError,
     "Matrix2f.__richcmp__(): "),
    ("select of objects", lambda m: dr.select(m.Array3b(True), object(), object()), RuntimeError,
     "encountered incompatible objects with an unknown type (not a Dr.Jit array, not a PyTree)."),
    ("expr_t", lambda m: dr.expr_t(m.Array3f, dict), TypeError, 'Array3f" and "dict"'),
    ("expr_t, the first one", lambda m: dr.expr_t({}, m.Array3f(1)), TypeError,
     'incompatible types "dict" and "'),
    *[
        (f"expr_t with None, {cls}",
         lambda m, cls=cls: dr.expr_t(getattr(m, cls), None), TypeError, f'{cls}" and "NoneType"')
        for cls in ("Array3f", "ArrayXu", "Matrix2f", "Complex2f", "TensorXf", "Array3b")
    ],
    ("expr_t with None, the first one", lambda m: dr.expr_t(None, m.Array3f), TypeError,
     'incompatible types "NoneType" and "'),
    ("expr_t with None at the end", lambda m: dr.expr_t(m.Array3f, float, None), TypeError,
     "incompatible types"),
    ("expr_t with None in a list", lambda m: dr.expr_t(m.Complex2f, [1, None]), TypeError,
     "incompatible types"),
    ("reshape, two", lambda m: dr.reshape(m.TensorXf([1, 2, 3, 4]), (-1, -1)), RuntimeError,
     "only a single 'shape' entry may be equal to -1"),
    ("reshape, -2", lambda m: dr.reshape(m.TensorXf([1, 2, 3, 4]), (-2, 2)), RuntimeError,
     "invalid 'shape' entry (must be nonzero or -1)"),
    ("reshape, -2 beside -1", lambda m: dr.reshape(m.TensorXf([1, 2]), (-1, -2)), RuntimeError,
     "invalid 'shape' entry (must be nonzero or -1)"),
    ("reshape, other size", lambda m: dr.reshape(m.TensorXf([1, 2, 3, 4]), (3, 2)), RuntimeError,
     "mismatched array sizes (input: 4, target: 6)"),
    ("tensor, too many indices", lambda m: m.TensorXf([1, 2])[0, 1], RuntimeError,
     "too many indices"),
    ("tensor, text as index", lambda m: m.TensorXf([1, 2])["a"], TypeError,
     'unsupported type "str" in slice expression'),
    ("matmul, inner sizes", lambda m: dr.matmul(dr.zeros(m.TensorXf, (2, 3)),
     dr.zeros(m.TensorXf, (4, 5))), ValueError,
     "shape mismatch: A has K=3 (At=False), B has K=4 (Bt=False)."),
    ("matmul, transposed", lambda m: dr.matmul(dr.zeros(m.TensorXf, (2, 3)),
     dr.zeros(m.TensorXf, (4, 5)), Bt=True), ValueError,
     "shape mismatch: A has K=3 (At=False), B has K=5 (Bt=True)."),
    ("matmul, number", lambda m: dr.matmul(m.TensorXf(1), dr.zeros(m.TensorXf, (4, 5))), ValueError,
     "0-D (scalar) tensor inputs are not supported."),
    ("matmul, At", lambda m: dr.matmul(m.TensorXf([1]), m.TensorXf([1]), At=True), ValueError,
     "At=True is invalid for a 1-D 'A' operand."),
    ("matmul, Bt", lambda m: dr.matmul(m.TensorXf([1]), m.TensorXf([1]), Bt=True), ValueError,
     "Bt=True is invalid for a 1-D 'B' operand."),
    ("matmul, batch", lambda m: dr.matmul(dr.zeros(m.TensorXf, (4, 2, 3)),
     dr.zeros(m.TensorXf, (5, 3, 2))), ValueError,
     "cannot broadcast batch prefixes of A and B along dim 0 (got 4 vs 5)."),
    ("matmul, longer batch", lambda m: dr.matmul(dr.zeros(m.TensorXf, (7, 4, 2, 3)),
     dr.zeros(m.TensorXf, (6, 1, 3, 2))), ValueError,
     "cannot broadcast batch prefixes of A and B along dim 1 (got 7 vs 6)."),
    ("matmul, operator", lambda m: dr.zeros(m.TensorXf, (2, 3)) @ dr.zeros(m.TensorXf, (4, 5)),
     TypeError, "shape mismatch: A has K=3 (At=False), B has K=4 (Bt=False)."),
]  # fmt: skip


@cases(EVERYWHERE, MODULES)
def test_a_message_of_all_modules(call, kind, text, name):
    check(call, kind, text, MODULES[name])


ON_TRACED: list[Row] = [
    ("bool of a nested mask", lambda m: bool(m.Array2b(True, False)), RuntimeError,
     f"{BOOL} requires an array with at most 1 dimension (this one has 2 dimensions)."),
    ("bool of a doubly nested mask", lambda m: bool(m.Array33b(True)), RuntimeError,
     f"{BOOL} requires an array with at most 1 dimension (this one has 3 dimensions)."),
    ("bool of several", lambda m: bool(m.Bool(True, False)), RuntimeError,
     f"{BOOL} requires an array with at most 1 element (this one has 2 elements)."),
    ("bool of none", lambda m: bool(m.Bool()), RuntimeError,
     f"{BOOL} requires an array with at most 1 element (this one has 0 elements)."),
    ("imag of a number", lambda m: put(m.Float(1), "imag", 1), TypeError,
     "Float' is not complex-valued, cannot assign to 'imag'."),
    ("sizes", lambda m: m.Float(1, 2) + m.Float(1, 2, 3), RuntimeError,
     "Float.__add__(): operands have incompatible sizes"),
    (
        "sizes of compared masks",
        lambda m: m.Bool(True, False) < m.Bool([True] * 3),
        RuntimeError,
        "Bool.__richcmp__(): operands have incompatible sizes",
    ),
    (
        "sizes of a number and a mask",
        lambda m: m.Float(1, 2) & m.Bool([True] * 3),
        RuntimeError,
        ".__and__(): operands have incompatible sizes",
    ),
    ("tensor of a part", lambda m: m.Array3f(m.TensorXf([[1, 2], [3, 4]])), TypeError,
     "mismatched shape (axis 0 has size 3 in target type, 2 in source tensor)"),
    ("tensor of other depth", lambda m: m.Array3f(m.TensorXf([1, 2])), TypeError,
     "dimensionality mismatch (target has 2, source has 1 dimensions)"),
    *[
        (f"random numbers, {draw}",
         lambda m, draw=draw: getattr(dr.rng(0), draw)(m.Array3f, (2, 5)), RuntimeError, SHAPES)
        for draw in ("random", "uniform", "normal")
    ],
    ("random numbers, one-dimensional", lambda m: dr.rng(0).uniform(m.Float, (2, 5)), RuntimeError,
     SHAPES),
    ("random numbers, integers", lambda m: dr.rng(0).integers(m.Array3u, (2, 5), 0, 5),
     RuntimeError, SHAPES),
    ("shape, one-dimensional", lambda m: dr.zeros(m.Float, (2, 5)), RuntimeError,
     f"dr.zeros(): {SHAPES}"),
    *[
        (f"ragged, {title}", call, RuntimeError, "the input is ragged")
        for title, call in {
            "width": lambda m: dr.width(m.Array2f([1, 2], [1, 2, 3])),
            "width of several": lambda m: dr.width(m.Float(1, 2), m.Float(1, 2, 3)),
            "width of a list": lambda m: dr.width([m.Float(1, 2), m.Float(1, 2, 3)]),
            "shape": lambda m: dr.shape(m.Array2f([1, 2], [1, 2, 3])),
            "shape of a list": lambda m: dr.shape([m.Float(1, 2), m.Float(1, 2, 3)]),
            "shape of unequal depth": lambda m: dr.shape([m.Float(1, 2), 1]),
            "attribute": lambda m: m.Array2f([1, 2], [1, 2, 3]).shape,
            "numpy": lambda m: m.Array2f([1, 2], [1, 2, 3]).numpy(),
            "zeros_like": lambda m: dr.zeros_like(m.Array2f([1, 2], [1, 2, 3])),
        }.items()
    ],
    ("local memory, read", lambda m: dr.alloc_local(m.Float, 10)[100], RuntimeError,
     "out of bounds read (source size=10, offset=100)"),
    ("local memory, written", lambda m: dr.alloc_local(m.Float, 10).write(m.Float(1), 100),
     RuntimeError, "out of bounds write (target size=10, offset=100)"),
    ("local memory, assigned", lambda m: dr.alloc_local(m.Float, 10).__setitem__(100, m.Float(1)),
     IndexError, "out of bounds write (target size=10, offset=100)"),
    ("local memory, literal", lambda m: dr.alloc_local(m.Float, 10)[m.UInt(100)], RuntimeError,
     "out of bounds read (source size=10, offset=100)"),
    ("local memory, array", lambda m: list(dr.alloc_local(m.Float, 10)[m.UInt(0, 100)]), IndexError,
     "out of bounds read (source size=10, offset=100)"),
    ("set_label", lambda m: dr.set_label(m.Float(1), "a", b=m.Float(1)), TypeError,
     "incompatible function arguments"),
    ("set_label without a name", lambda m: dr.set_label(m.Float(1)), TypeError,
     "incompatible function arguments"),
    ("opaque of a type", lambda m: dr.opaque(m.Float), RuntimeError, "received a type object"),
    ("slice_index, too many", lambda m: dr.slice_index(m.UInt, (3,), (0, 1)), RuntimeError,
     "too many indices"),
    ("slice_index, text", lambda m: dr.slice_index(m.UInt, (3,), ("a",)), RuntimeError,
     'unsupported type "str" in slice'),
    ("slice_index, float", lambda m: dr.slice_index(m.UInt, (3, 4), (0, 1.0)), RuntimeError,
     'unsupported type "float" in slice'),
    ("slice_index, ellipses", lambda m: dr.slice_index(m.UInt, (3, 4), (..., ...)), RuntimeError,
     "multiple ellipses (...) are not allowed"),
    *[
        (f"slice_index, {title}",
         lambda m, args=args: dr.slice_index(args[0](m), (3,), args[1]), TypeError,
         "incompatible function arguments")
        for title, args in {
            "float type": (lambda m: m.Float, (0,)),
            "signed type": (lambda m: m.Int, (0,)),
            "Python type": (lambda m: int, (0,)),
            "no type": (lambda m: "UInt", (0,)),
            "number": (lambda m: m.UInt, 0),
            "text": (lambda m: m.UInt, "str"),
        }.items()
    ],
    ("set_grad", lambda m: dr.set_grad(tracked(1, 2, 3), ad.Float(1, 2)), RuntimeError,
     "attempted to store a gradient of size 2 into AD variable"),
]  # fmt: skip


@cases(ON_TRACED, TRACED)
def test_a_message_of_traced_arrays(call, kind, text, name):
    check(call, kind, text, TRACED[name])


def of_numpy(text: str) -> str:
    return (
        "Unable to initialize from an array of type 'ndarray'. The input should have the following "
        f"configuration for this to succeed: {text}, order='C'."
    )


@pytest.mark.parametrize(
    "cls, shape, flip, text",
    [
        ("Array3f", (2, 3), False, "ndim=2, shape=(3, *), dtype=float32"),
        ("Array3f", (3, 2), True, "ndim=2, shape=(*, 3), dtype=float32"),
        ("Array3f", (1, 1, 1, 1), False, "ndim=2, shape=(3, *), dtype=float32"),
        ("Matrix3f", (2, 3), False, "ndim=3, shape=(3, 3, *), dtype=float32"),
        ("Matrix3f", (2, 3, 4), True, "ndim=3, shape=(*, 3, 3), dtype=float32"),
        ("Quaternion4f", (5,), False, "ndim=2, shape=(4, *), dtype=float32"),
        ("Complex2f", (2, 3), False, "ndim=1, shape=(*), dtype=complex64"),
        ("ArrayXf", (1, 2, 3), False, "ndim=2, shape=(*, *), dtype=float32"),
        ("Float", (2, 3), False, "ndim=1, shape=(*), dtype=float32"),
        ("UInt64", (2, 3), True, "ndim=1, shape=(*), dtype=uint64"),
        ("Array3f64", (2, 3), False, "ndim=2, shape=(3, *), dtype=float64"),
        ("Bool", (2, 3), False, "ndim=1, shape=(*), dtype=bool"),
    ],
)
@pytest.mark.parametrize("module", TRACED.values(), ids=TRACED)
def test_the_shape_that_an_array_of_numpy_must_have(module, cls, shape, flip, text):
    data = np.zeros(shape)
    check(lambda: getattr(module, cls)(data, flip_axes=flip), TypeError, of_numpy(text))


@pytest.mark.parametrize(
    "cls, shape, text",
    [
        ("Array3f", (2, 3), "ndim=1, shape=(3), dtype=float32"),
        ("Array3f", (5,), "ndim=1, shape=(3), dtype=float32"),
        ("Matrix3f", (2, 3), "ndim=2, shape=(3, 3), dtype=float32"),
        ("Complex2f", (5,), "ndim=0, shape=(), dtype=complex64"),
        ("ArrayXf", (2, 3), "ndim=1, shape=(*), dtype=float32"),
    ],
)
@pytest.mark.parametrize("flip", [False, True])
def test_the_shape_that_an_array_of_numpy_must_have_for_numbers(cls, shape, text, flip):
    check(
        lambda: getattr(dr.scalar, cls)(np.zeros(shape), flip_axes=flip), TypeError, of_numpy(text)
    )


def test_an_array_of_numpy_is_described_as_it_was_given():
    data = np.zeros((2, 3), np.int64)
    given = "It has the shape (2, 3) and the element type int64. Pass the transpose, or flip_axes="
    check(lambda: dr.llvm.Array3f(data), TypeError, f"{given}True.")
    check(lambda: dr.llvm.Array2f(data, flip_axes=True), TypeError, f"{given}False.")
    for cls in dr.llvm.TensorXf, dr.scalar.TensorXf:
        check(lambda cls=cls: cls(np.array(["a"])), TypeError, of_numpy("dtype=float32"))


# ---- Loops, branches and calls

MODES = "symbolic", "evaluated"


def loop(state, body, mode, test=lambda i, *_: i < 3):
    return dr.while_loop(state, test, body, labels=("i", "j")[: len(state)], mode=mode)


def branch(args, first, second, mode):
    names = ("x", "y")
    return dr.if_stmt(
        args, Bool(True, False), first, second,
        arg_labels=names[: len(args)], rv_labels=names[: len(first(*args))], mode=mode,
    )  # fmt: skip


def call(index, args, mode):
    return dr.switch(index, [lambda *a: a[0], lambda *a: -a[0]], *args, mode=mode)


FLOW: list[Row] = [
    ("loop, size", lambda mode: loop((UInt(0, 1),), lambda i: (UInt(4, 5, 6),), mode), RuntimeError,
     "the size of state variable 'i' of type 'drjit.llvm.UInt' changed from 2 to 3."),
    ("loop, size of another variable",
     lambda mode: loop((UInt(0, 1), UInt(0, 1)), lambda i, j: (i + 1, UInt(1, 2, 3)), mode),
     RuntimeError, "the size of state variable 'j' of type 'drjit.llvm.UInt' changed from 2 to 3."),
    ("loop, sizes",
     lambda mode: loop((UInt(0, 1, 2), UInt(0, 1)), lambda i, j: (i + 1, j + 1), mode),
     RuntimeError,
     "this operation processes arrays of size 3, while state variable 'j' has an incompatible "
     "size 2."),
    ("loop, empty", lambda mode: loop((UInt(0, 1), UInt(0)), lambda i, j: (i + 1, UInt()), mode),
     RuntimeError, "state variable 'j' of type 'drjit.llvm.UInt' is uninitialized"),
    ("loop, empty before",
     lambda mode: loop((UInt(0, 1), UInt()), lambda i, j: (i + 1, j), mode),
     RuntimeError, "state variable 'j' of type 'drjit.llvm.UInt' is uninitialized"),
    ("loop, type",
     lambda mode: loop((UInt(0, 1), UInt(0)), lambda i, j: (i + 1, Bool(True)), mode), RuntimeError,
     "the type of state variable 'j' changed from 'drjit.llvm.UInt' to 'drjit.llvm.Bool'"),
    ("loop, number", lambda mode: loop((UInt(0, 1), 1), lambda i, j: (i + 1, j + 1), mode),
     RuntimeError, "the non-array state variable 'j' of type 'int' changed from '1' to '2'"),
    ("branch, size",
     lambda mode: branch((), lambda: (UInt(1, 2),), lambda: (UInt(1, 2, 3),), mode), RuntimeError,
     "the size of state variable 'x' of type 'drjit.llvm.UInt' changed from 2 to 3."),
    ("branch, sizes",
     lambda mode: branch((), lambda: (UInt(1, 2, 3),), lambda: (UInt(4, 5, 6),), mode),
     RuntimeError, "incompatible sizes"),
    ("branch, number",
     lambda mode: branch((), lambda: (UInt(1), 5), lambda: (UInt(2), 10), mode),
     RuntimeError, "the non-array state variable 'y' of type 'int' changed from '5' to '10'"),
    ("branch, variable of the first one",
     lambda mode: branch((UInt(1), 3), lambda x, y: (x, 4), lambda x, y: (x, y), mode),
     RuntimeError, "the non-array state variable 'y' of type 'int' changed from '3' to '4'"),
    ("branch, variable of the second one",
     lambda mode: branch((UInt(1), 3), lambda x, y: (x, y), lambda x, y: (x, 4), mode),
     RuntimeError, "the non-array state variable 'y' of type 'int' changed from '3' to '4'"),
    ("branch, text",
     lambda mode: branch((), lambda: (UInt(1), "a"), lambda: (UInt(2), "b"), mode),
     RuntimeError, "the non-array state variable 'y' of type 'str' changed from 'a' to 'b'"),
    ("branch, type", lambda mode: branch((), lambda: (UInt(1),), lambda: (Bool(True),), mode),
     RuntimeError,
     "the type of state variable 'x' changed from 'drjit.llvm.UInt' to 'drjit.llvm.Bool'"),
    ("branch, type of a variable",
     lambda mode: branch((UInt(0, 1),), lambda x: (Bool(True),), lambda x: (x,), mode),
     RuntimeError,
     "the type of state variable 'x' changed from 'drjit.llvm.UInt' to 'drjit.llvm.Bool'"),
    ("branch, empty", lambda mode: branch((), lambda: (UInt(),), lambda: (UInt(1),), mode),
     RuntimeError, "state variable 'x' of type 'drjit.llvm.UInt' is uninitialized"),
    ("switch, empty", lambda mode: call(UInt(0, 1, 0, 1), [ad.Float()], mode), RuntimeError,
     "some of the call arguments have incompatible sizes (encountered arrays of length 4 and 0)"),
    ("switch, size", lambda mode: call(UInt(0, 1, 0, 1), [ad.Float(1, 2)], mode), RuntimeError,
     "some of the call arguments have incompatible sizes (encountered arrays of length 4 and 2)"),
    ("switch, index", lambda mode: list(call(UInt(0, 100), [ad.Float(1, 2)], mode)), IndexError,
     "out-of-bounds callable ID 101 (must be < 3)."),
    ("switch, one index", lambda mode: call(100, [ad.Float(1, 2)], mode), IndexError,
     "out-of-bounds callable ID 101 (must be < 3)."),
]  # fmt: skip


@cases(FLOW, dict.fromkeys(MODES))
def test_a_message_of_both_modes(call, kind, text, name):
    check(call, kind, text, name)


@pytest.mark.parametrize(
    "targets",
    [
        lambda c: [lambda x: x + c, lambda x: x - c],
        lambda c: [lambda x: c + 1, lambda x: c - 1],
    ],
)
def test_the_cause_is_a_mixture_of_symbolic_and_other_values(targets):
    c = tracked(1, 2, 3)
    with pytest.raises(RuntimeError) as raised:
        dr.switch(UInt(0, 1), targets(c), ad.Float(1, 2), mode="symbolic")
    text = "You performed a differentiable operation that mixes symbolic"
    assert text in str(raised.value.__cause__ or raised.value.__context__)
    with pytest.raises(RuntimeError) as raised:
        dr.switch(UInt(0, 1), targets(dr.detach(c)), ad.Float(1, 2), mode="symbolic")
    assert text not in chain(raised.value)


def test_no_loop_in_evaluated_mode_within_a_recorded_one():
    def inner(i, x):
        y = loop((UInt(0, 0), x), lambda k, y: (k + 1, y), "evaluated")[1]
        return i + 1, y

    with pytest.raises(RuntimeError) as raised:
        loop((UInt(0, 1), UInt(1, 2)), inner, "symbolic")
    assert "cannot execute a loop in *evaluated mode*" in str(raised.value.__context__)


@pytest.mark.parametrize("draw", ["uniform", "normal", "random"])
def test_no_random_numbers_of_a_python_seed_within_a_recorded_loop(draw):
    raised: list[RuntimeError] = []

    def body(i, x):
        try:
            return i + 1, x + getattr(dr.rng(seed=0), draw)(ad.Float, 1)
        except RuntimeError as error:
            raised.append(error)
            raise

    with pytest.raises(RuntimeError):
        loop((UInt(0, 0), ad.Float(0)), body, "symbolic")
    assert (
        "To generate random numbers within a symbolic loop, you must initialize the Generator with "
        "a seed of the underlying JIT backend, e.g.: rng = dr.rng(seed=dr.cuda.UInt32(0))"
    ) in str(raised[0])


@pytest.mark.parametrize("word", ["return", "break", "continue"])
@pytest.mark.parametrize("statement", ["while", "if"])
def test_jumps_out_of_transformed_statements(word, statement):
    lines = ["@dr.syntax", "def f(x):", "  for k in range(3):", f"    {statement} x < 2:"]
    text = "\n".join([*lines, f"      {word}"]) + "\n"
    if statement == "while" and word != "return":  # those of the loop itself
        lines[-1] = "    while x < 2:"
    name = f"<{statement} {word}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    check(
        lambda: exec(compile(text, name, "exec"), {"dr": dr}), SyntaxError,
        f"use of '{word}' inside a transformed 'while' loop or 'if' statement is currently not "
        "supported.",
    )  # fmt: skip


# ---- Formatting, optimizers, networks, derivatives


def registered(value: Any) -> None:
    opt.SGD(0.1)["x"] = value


OTHERS: list[Row] = [
    ("format, open", lambda: dr.format("ab{"), RuntimeError,
     "drjit.format(): unmatched brace in format string (at position 2)."),
    ("format, open with a name", lambda: dr.format("ab{x", x=1), RuntimeError,
     "drjit.format(): unmatched brace in format string (at position 2)."),
    ("format, closed", lambda: dr.format("ab}"), RuntimeError,
     'drjit.format(): single "}" encountered in format string.'),
    ("format, position", lambda: dr.format("{} {}", 1), RuntimeError,
     "drjit.format(): missing positional argument 1 referenced by format string (at position 3)."),
    ("format, keyword", lambda: dr.format("{a}"), RuntimeError,
     'drjit.format(): missing keyword argument "a" referenced by format string (at position 0).'),
    ("format, numbering", lambda: dr.format("{} {0}", 1), RuntimeError,
     "drjit.format(): cannot switch from implicit to explicit field numbering."),
    ("print", lambda: dr.print("ab{"), RuntimeError,
     "drjit.print(): unmatched brace in format string (at position 2)."),
    ("optimizer, number", lambda: registered(1), TypeError,
     'cannot register parameter "x" of type "int"'),
    ("optimizer, list", lambda: registered([ad.Float(1)]), TypeError,
     'cannot register parameter "x" of type "list"'),
    ("optimizer, not differentiable", lambda: registered(UInt(1)), TypeError,
     'cannot register parameter "x" of type "UInt"'),
    ("optimizer, empty", lambda: registered(ad.Float()), RuntimeError,
     'parameter "x" is empty!'),
    ("gradient, accumulated", lambda: dr.accum_grad(tracked(1, 2, 3), ad.Float(1, 2)), RuntimeError,
     "attempted to store a gradient of size 2 into AD variable"),
    ("gradient, attribute", lambda: put(tracked(1, 2, 3), "grad", ad.Float(1, 2)), RuntimeError,
     "attempted to store a gradient of size 2 into AD variable"),
    ("cooperative vector", lambda: dr.enable_grad(nn.CoopVec(ad.Float(1), ad.Float(2))),
     RuntimeError,
     "to create a differentiable cooperative vector, construct it from grad-enabled components"),
    ("cooperative vectors in a list", lambda: dr.enable_grad([nn.CoopVec(ad.Float(1), 2)]),
     RuntimeError,
     "to create a differentiable cooperative vector, construct it from grad-enabled components"),
    ("replace_grad, sizes", lambda: dr.replace_grad(ad.Float(1, 2), ad.Float(1, 2, 3)),
     RuntimeError, "incompatible input sizes (2 and 3)."),
    ("replace_grad, sizes in a list",
     lambda: dr.replace_grad([ad.Float(1, 2)], [ad.Float(1, 2, 3)]), RuntimeError,
     "incompatible input sizes (2 and 3)."),
    ("replace_grad, lengths",
     lambda: dr.replace_grad(ad.ArrayXf(1, 2), ad.ArrayXf(1, 2, 3)), RuntimeError,
     "incompatible input lengths (2 and 3)."),
    ("replace_grad, fewer components",
     lambda: dr.replace_grad(ad.ArrayXf(1, 2), ad.ArrayXf(1)), RuntimeError,
     "incompatible input lengths (2 and 1)."),
    ("replace_grad, shapes",
     lambda: dr.replace_grad(dr.zeros(ad.TensorXf, (2, 3)), dr.zeros(ad.TensorXf, (3, 2))),
     RuntimeError, "incompatible tensor shape ((2, 3) and (3, 2))"),
    ("replace_grad, number and tensor", lambda: dr.replace_grad(2.0, ad.TensorXf([1, 2])),
     RuntimeError, "incompatible tensor shape (() and (2,))"),
]  # fmt: skip


@pytest.mark.parametrize("call, kind, text", [pytest.param(*row[1:], id=row[0]) for row in OTHERS])
def test_a_message(call, kind, text):
    check(call, kind, text)


@pytest.mark.parametrize(
    "first, second",
    [
        ((2.0,), (UInt(3),)),
        ((2.0,), (ad.Float(3),)),
        ((ad.Float(2),), (3.0,)),
        ((1.0,), (2,)),
        ({"a": ad.Float16(1)}, {"a": ad.Float(2)}),
        ([ad.Array2f(1)], [ad.Array3f(1)]),
        ([ad.Array2f(1)], [ad.ArrayXf(1, 2)]),
        ((dr.llvm.Float(2),), (ad.Float(3),)),
        ((ad.Float(1),), ("a",)),
        ((ad.Float(1),), (None,)),
    ],
)
def test_entries_of_trees_have_the_same_type_for_replace_grad(first, second):
    with pytest.raises(RuntimeError) as raised:
        dr.replace_grad(first, second)
    assert "incompatible input types." in str(raised.value.__context__)


def test_replace_grad_of_equal_entries_and_of_promoted_arrays():
    x = tracked(2)
    y = dr.replace_grad((ad.Float(5), 1.0, "a"), (x * x, 2.0, "b"))
    assert repr(y) == "([5], 1.0, 'a')"
    dr.backward(y[0])
    assert repr(x.grad) == "[4]"
    assert repr(dr.replace_grad(2.0, UInt(3))) == "[2]"  # promoted
    assert repr(dr.replace_grad(ad.Array2f(1, 2), x)) == "[[1, 2]]"


def test_a_layer_without_weights():
    for layer in nn.Linear(2, 3), nn.Sequential(nn.Linear(2, 3), nn.ReLU()):
        with pytest.raises(RuntimeError) as raised:
            layer(nn.CoopVec(ad.Float(1), ad.Float(2)))
        assert str(raised.value) == (
            "drjit.nn.Linear: uninitialized network. Call 'net = net.alloc(<Tensor type>)' to "
            "initialize the weight storage first."
        )


@pytest.mark.parametrize("encoding", [hashgrid.HashGridEncoding, hashgrid.PermutoEncoding])
def test_a_warning_of_an_odd_number_of_features(encoding):
    text = "The number of features per level should be a multiple of 2, but it was 1."
    with pytest.warns(RuntimeWarning) as caught:
        encoding(ad.Float, 2, n_levels=1, n_features_per_level=1)
    assert text in str(caught[0].message)


def test_a_warning_of_a_print_statement_with_a_limit(capsys):
    x = dr.arange(UInt, 1000)
    with pytest.warns(RuntimeWarning) as caught:
        dr.eval(loop((x, x), lambda i, j: (dr.print("{}", j, limit=25) or i + 1000, j), "symbolic",
                     lambda i, j: i < 1000))  # fmt: skip
        dr.sync_thread()
    text = "symbolic print statement only captured 25 of 1000 available outputs"
    assert text in str(caught[0].message)


# ---- What the types of arguments decide


@pytest.mark.parametrize("name", TRACED)
def test_none_counts_as_an_unsigned_integer(name):
    m = TRACED[name]
    for cls, joined in (
        (m.Int, m.UInt), (m.Bool, m.UInt), (m.UInt, m.UInt), (m.UInt64, m.UInt64),
        (m.Float, m.Float), (m.Float64, m.Float64),
    ):  # fmt: skip
        assert dr.expr_t(cls, None) is dr.expr_t(None, cls) is joined
        assert dr.expr_t(cls, cls, None) is joined
    assert dr.expr_t(m.Int, float, None) is m.Float
    assert dr.expr_t(int, None) is dr.expr_t(None, bool) is int
    assert dr.expr_t(1.5, None) is float


@pytest.mark.parametrize("name", MODULES)
def test_a_matrix_of_an_array_with_all_entries(name):
    m = MODULES[name]
    for a in m.Array4f(1, 2, 3, 4), m.ArrayXf(1, 2, 3, 4):
        made = m.Matrix2f(a)
        assert repr(made) == repr(m.Matrix2f(1, 2, 3, 4))
        made[0, 0] = 5
        assert a[0] == 1
    with pytest.raises(TypeError, match="cannot convert"):
        m.Matrix2f(m.Array2f(1, 2))
    with pytest.raises(TypeError, match="cannot convert"):
        m.Matrix2f(m.Quaternion4f(1, 2, 3, 4))


@pytest.mark.parametrize("name", MODULES)
def test_components_of_nested_arrays_by_name(name):
    m = MODULES[name]
    a = m.Array33f([1, 2, 3], [4, 5, 6], [7, 8, 9])
    assert repr(a.y) == repr(m.Array3f(4, 5, 6))
    a.x = m.Array3f(7, 8, 9)
    a.y = 0
    assert repr(a) == repr(m.Array33f([7, 8, 9], [0, 0, 0], [7, 8, 9]))
    with pytest.raises(AttributeError, match="does not have a 'w' component"):
        _ = a.w


def test_the_truth_of_masks_of_numbers():
    S = dr.scalar
    assert bool(S.Array1b(True)) and not bool(S.TensorXb([[False]]))
    several = (
        f"Array2b.__bool__(): {BOOL} requires an array with at most 1 element (this one has 2 "
    )
    check(lambda: bool(S.Array2b(True, False)), RuntimeError, f"{several}elements).")
    nested = f"{BOOL} requires an array with at most 1 dimension (this one has 2 dimensions)."
    check(lambda: bool(S.Array33b(True)), RuntimeError, nested)

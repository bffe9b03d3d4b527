"""Operations have short ways for common operands; they give the graphs, variables and errors of the
general way."""

import itertools
import operator

import numpy as np
import pytest
from helpers import outcome

import drjit as dr
from drjit.array import elementwise
from drjit.function.math import arithmetic
from drjit.jit.ir import op as ops
from drjit.llvm import ad

F, T = ad.Float, ad.TensorXf
NUMBERS = [0, 1, 2.5, -0.0, 3, True, float("nan"), float("inf"), 1 << 40, np.float32(2)]


def tracked(x):
    dr.enable_grad(x)
    return x


def flat(cls):
    whole = [cls(range(1, 6)), cls(range(3, 8)), cls(4), cls(), cls(range(4)), cls(range(1, 6)) + 1]
    return [*whole, tracked(cls(range(5)))] if cls._dtype.is_float else whole


def tensors(cls):
    x = cls.Array(range(1, 7))
    found = [cls(x, (2, 3)), cls(x + 1, (2, 3)), cls(x, (3, 2)), cls(x, (6,)), cls([[2, 3, 4]])]
    found += [cls(cls.Array(3), ()), cls(cls.Array(3), (1, 1)), cls(cls.Array(), (0, 3))]
    return [*found, tracked(cls(x, (2, 3)))] if cls._dtype.is_float else found


def vectors(cls):
    x, y = cls(1, 2, [3, 4]), cls([4, 5], 2, 1)
    return [x, y, cls(2), tracked(cls(1, 2, [1, 5])), cls.Array(x)]


OPERANDS = [
    *[flat(cls) for cls in (F, ad.Int, dr.llvm.Float, dr.llvm.UInt)],
    *[tensors(cls) for cls in (T, ad.TensorXi, dr.llvm.TensorXf)],
    [ad.TensorXb([True, False]), ad.TensorXb([False, True]), ad.TensorXb([True]), ad.Bool(True)],
    vectors(ad.Array3f), [*flat(F)[:3], *tensors(T)[:3], *vectors(ad.Array3f)[:2]],
]  # fmt: skip


@pytest.mark.parametrize("xs", OPERANDS)
def test_extrema_of_two(xs):
    for o in (ops.minimum, ops.maximum):
        for keeps_nan in (True, False):
            title = f"dr.{'' if keeps_nan else 'f'}{(o.name[:3], o.name)[keeps_nan]}"
            function = getattr(dr, title[3:])
            for x in xs:
                for y in (*xs, *NUMBERS):
                    for a, b in (x, y), (y, x):
                        wanted = outcome(arithmetic._extremum, title, o, keeps_nan, a, b)
                        assert outcome(function, a, b) == wanted, (title, a, b)


def result(function, *args):
    """What a function gives, with the shape."""
    return outcome(function, *args), outcome(lambda: function(*args).shape)


TENSORS = [xs for xs in OPERANDS if any(type(x)._kind == "tensor" for x in xs)]


@pytest.mark.parametrize("xs", TENSORS)
def test_operators_of_tensors(xs):
    one = [f"__{o.method}__" for o in ops.UNARY]
    two = [f"__{o.method}__" for o in (*ops.ARITHMETIC, *ops.COMPARISONS)]
    two += [f"__r{o.method}__" for o in ops.ARITHMETIC]
    for x in xs:
        if type(x)._kind != "tensor":
            continue
        for name in one:
            general = getattr(dr.ArrayBase, name)
            assert result(getattr(type(x), name), x) == result(general, x), name
        for name in two:
            method, general = getattr(type(x), name), getattr(dr.ArrayBase, name)
            for y in (*xs, *NUMBERS, "a", [1, 2, 3], np.ones((2, 3), np.float32)):
                assert result(method, x, y) == result(general, x, y), (name, x, y)


@pytest.mark.parametrize("xs", TENSORS)
def test_functions_of_tensors(xs):
    masks = [x == y for x, y in itertools.pairwise(xs[:2]) if type(x) is type(y)]
    masks += [dr.llvm.TensorXb([True, False]), ad.Bool(True, False), True]
    for x in xs:
        if type(x)._kind != "tensor":
            continue
        for y in (*xs, *NUMBERS, [1.5, 2, 3]):
            for z in (y, 0.5, xs[1]):
                for a, b, c in ((x, y, z), (y, x, z), (z, y, x)):
                    if type(x)._dtype.is_float:
                        general = elementwise.promoted
                        wanted = result(general, ops.fma, (a, b, c), "dr.fma")
                        assert result(dr.fma, a, b, c) == wanted
            for mask in masks:
                for a, b in ((x, y), (y, x), (y, 2)):
                    if dr.is_array_v(a) or dr.is_array_v(b):
                        general = elementwise.promoted
                        wanted = result(general, ops.select, (mask, a, b), "dr.select")
                        assert result(dr.select, mask, a, b) == wanted


@pytest.mark.parametrize("namespace", [dr.llvm, ad])
def test_selection_of_two_numbers(namespace):
    numbers = [*NUMBERS, -(1 << 31), (1 << 31) - 1, 1 << 31, -0.0, False]
    masks = [namespace.Bool(True, False), namespace.Bool(True), namespace.Bool()]
    masks += [namespace.Array3b(True, [True, False], False), namespace.TensorXb([[True, False]])]
    masks += [namespace.Int(1, 0), namespace.Float(1, 0)]
    for mask in masks:
        for a in numbers:
            for b in numbers:
                wanted = result(elementwise.promoted, ops.select, (mask, a, b), "dr.select")
                assert result(dr.select, mask, a, b) == wanted


def test_derived_classes_take_the_general_way():
    class Length(F):
        pass

    class Table(T):
        pass

    x, t = Length(1, 2, 3), Table([1, 2, 3])
    for f in (dr.minimum, dr.fmax, operator.add, lambda a, b: dr.select(a > b, a, b)):
        assert type(f(x, x)) is type(f(x, F(3, 2, 1))) is F
        assert type(f(t, t)) is type(f(T([3, 2, 1]), t)) is T
        assert type(f(x, 2)) is F and type(f(t, 2)) is T

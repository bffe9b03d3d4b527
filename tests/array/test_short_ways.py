"""Operations have short ways for common operands; they give the graphs, variables and errors of the
general way."""

import itertools
import operator

import numpy as np
import pytest
from helpers import outcome

import drjit as dr
from drjit.array import construct, elementwise, inline
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


@pytest.mark.parametrize("cls", [F, ad.Int])
def test_single_entries_are_broadcast(cls):
    xs = [
        cls(),
        dr.arange(cls, 0),
        cls(4),
        dr.opaque(cls, 4),
        dr.full(cls, 4, 5),
        cls(range(5)),
        cls(range(3)),
    ]
    xs += [tracked(dr.opaque(cls, 2)), tracked(cls(range(5)))] if cls is F else []
    for o in (ops.add, ops.mul, ops.lt, *[ops.fma] * cls._dtype.is_float):
        for args in itertools.product(xs, repeat=o.arity):
            wanted = outcome(elementwise.promoted, o, args, "")
            found = outcome(inline.RECORDED[o], *args)
            is_error = issubclass(wanted[0], Exception)
            assert found == ((type(None), None) if is_error else wanted), (o, args)
    for mask, x, y in itertools.product((x < 5 for x in xs), xs, xs):
        if x is not y:
            wanted = outcome(elementwise.promoted, ops.select, (mask, x, y), "")
            found = outcome(inline.RECORDED[ops.select], mask, x, y)
            assert found[0] is type(None) or found == wanted, (mask, x, y)


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


@pytest.mark.parametrize("base", [F, T, ad.Array3f])
def test_operators_in_place_keep_derived_classes(base):
    class Derived(base):
        pass

    x = before = Derived([1, 2, 3])
    x += 1
    x *= base([1, 2, 3])
    assert x is before and type(x) is Derived and (x == base([2, 6, 12])).numpy().all()
    assert type(x + 1) is base


@pytest.mark.parametrize(
    "name",
    ["Float", "Int", "Bool", "UInt8", "Float16", "Array3f", "Array1i", "Complex2f", "Array3b"],
)
@pytest.mark.parametrize("namespace", [dr.llvm, ad])
def test_constructors(name, namespace):
    cls = getattr(namespace, name)
    x, i, g = F(1, 2, 3), dr.llvm.Int(1, 2, 3), tracked(F(1, 2))
    values = [
        *NUMBERS,
        300,
        -1,
        10**400,
        False,
        None,
        "a",
        2j,
        [1, 2, 3],
        (x, g, x),
        i,
        x,
        g,
        g + 1,
    ]
    values += [dr.llvm.Float(1), ad.Bool(True), ad.Array3f(1, 2, x), dr.llvm.Array3f(1, 2, 3), T(x)]
    values += [namespace.Complex2f(1, 2), namespace.Array3b(True), np.arange(3), np.int32(3)]
    values += [dr.llvm.Array3i(1, 2, i), dr.scalar.Array3f(1, 2, 3), tracked(ad.Array3f(1, 2, 3))]
    values += [(1, 2.5), [1, 10**400], [2.5, True], [0.1, 1 << 60], namespace.Array1f(x)]

    def general(*args, **kwargs):
        made = object.__new__(cls)
        construct.init(made, *args, **kwargs)
        return made

    rows = [(), *[(v,) for v in values], *itertools.product(values[::2], repeat=2)]
    rows += [(a, b, c) for a in values for b, c in ((a, a), (1, x), (g, 2.5))]
    for args in rows:
        assert outcome(cls, *args) == outcome(general, *args), args
    with dr.suspend_grad():
        assert outcome(cls, g) == outcome(general, g)
    for arg in (0, x):
        for key in ("flip_axes", "other"):
            wanted = outcome(lambda a=arg, k=key: general(a, **{k: True}))
            assert outcome(lambda a=arg, k=key: cls(a, **{k: True})) == wanted
    if cls._kind == "nested" and cls is not ad.Complex2f:
        a = cls(*[cls.Value(1)] * cls._size)
        b = cls(a)
        assert all(p is not q for p, q in zip(a._components, b._components, strict=True))


def test_writing_entries_leaves_everybody_else_alone():
    x = dr.llvm.Float(1, 2, 3)
    same, later, view = dr.llvm.Float(x), x * 2, x.numpy()
    x[1] = 5.0
    assert x.numpy().tolist() == [1, 5, 3] and same.numpy().tolist() == view.tolist() == [1, 2, 3]
    assert later.numpy().tolist() == [2, 4, 6]
    same, later = None, x * 2
    x[-1], x[0] = 7, 0.1
    assert later.numpy().tolist() == [2, 10, 6]
    assert x.numpy().tolist() == [np.float32(0.1), 5, 7]
    view = x.numpy()
    x[0] = 1.0
    assert view[0] == np.float32(0.1) and x[0] == 1
    dr.scatter(x, dr.llvm.Float(9), dr.llvm.UInt(2))
    x[2] = 8.0
    assert x.numpy().tolist() == [1, 5, 8]


def test_writing_entries_of_other_types():
    i, h, g = dr.llvm.UInt(1, 2), dr.llvm.Float16(1, 2), tracked(F(1, 2))
    i[0], h[1] = 3, 0.1
    g[0] = 4.0
    assert i.numpy().tolist() == [3, 2] and h[1] == float(np.float16(0.1)) and dr.grad_enabled(g)
    for x, value in ((i, -1), (i, 1 << 32), (i, 0.5), (i, True), (h, "a"), (dr.llvm.Bool(True), 1)):
        before = x.numpy().tolist()
        if value is not True:
            with pytest.raises(TypeError, match="could not initialize an element"):
                x[0] = value
            assert x.numpy().tolist() == before
    with pytest.raises(IndexError, match="out of bounds"):
        h[2] = 1.0


def test_assigned_components_keep_their_identity():
    v, x = ad.Array3f(1, 2, 3), F(4, 5)
    part = v.y
    v.y, v[2] = x, x + 1
    v.x = v[2]
    x += 1
    assert part is v.y and part.numpy().tolist() == [4, 5]
    assert v.x.numpy().tolist() == v.z.numpy().tolist() == [5, 6] and v.x is not v.z
    with pytest.raises(TypeError):
        v.x = ad.Array3f(1)
    with pytest.raises(IndexError):
        v[3] = x
    zyx = v.zyx
    zyx.x += 1
    assert v.z.numpy().tolist() == [5, 6] and type(zyx) is ad.Array3f and type(v.xx) is ad.Array2f

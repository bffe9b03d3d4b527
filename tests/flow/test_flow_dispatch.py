"""`dr.dispatch` and arrays of references to Python objects, against a loop over lanes."""

import dataclasses

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm.ad import Array3f, Bool, Float, Float64, UInt

pytestmark = pytest.mark.usefixtures("tier")
SIZES = [0, 1, 15, 17, 1000]
both = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


class Shape:
    """Something with a size, an array from which it looks up values, and a method."""

    def __init__(self, size, seed=0):
        self.size = Float64(size)
        self.table = Float64(np.random.default_rng(seed).uniform(1, 2, 6))

    def value(self, x, k):
        return self.size * x * dr.gather(Float64, self.table, k)


class Ball(Shape):
    def value(self, x, k):
        return dr.sin(x * self.size) + self.size, k  # another result than that of the base class


class Square(Shape):
    def value(self, x, k):
        return x * dr.gather(Float64, self.table, k), k + 1


class Empty(Shape):
    def value(self, x, k):
        return Float64(0), k


@pytest.fixture
def pointer():
    """A type of references; its objects are forgotten afterwards."""
    made = dr.instance_t(Float64, Shape)
    yield made
    dr.detail.clear_registry()


def scene(n):
    shapes = [Ball(0.5, 1), Square(2.0, 2), None, Ball(1.5, 3), Empty(1, 4)]
    which = np.random.default_rng(n).integers(0, len(shapes), n)
    return shapes, [shapes[k] for k in which]


@both
@pytest.mark.parametrize("n", SIZES)
def test_every_lane_calls_the_method_of_its_object(pointer, mode, n):
    shapes, chosen = scene(n)
    pointer(shapes)
    x, k = np.linspace(0, 1, n), np.arange(n) % 6
    a, b = dr.dispatch(
        pointer(chosen), lambda s, x, k: s.value(x, k), Float64(x), k=UInt(k), mode=mode
    )
    rows = [(0, 0) if s is None else lane(s, x[i], int(k[i])) for i, s in enumerate(chosen)]
    expected = np.array(rows, float).reshape(n, 2)
    np.testing.assert_allclose(a.numpy(), expected[:, 0])
    np.testing.assert_array_equal(b.numpy(), expected[:, 1])


def lane(shape, x, k):
    a, b = shape.value(Float64(x), UInt(k))
    return a[0], b[0]


@both
@pytest.mark.parametrize("n", [1, 15, 17, 1000])
@pytest.mark.compiled_every(3)
def test_gradients_of_data_members(pointer, mode, n):
    shapes, chosen = scene(n)
    x, k = Float64(np.linspace(0, 1, n)), UInt(np.arange(n) % 6)
    real = [s for s in shapes if s is not None]
    members = [m for s in real for m in (s.size, s.table)]

    def result():
        return dr.dispatch(pointer(chosen), lambda s, x, k: s.value(x, k)[0], x, k, mode=mode)

    pointer(shapes)
    dr.enable_grad(x, *members)
    weight = Float64(np.random.default_rng(3).uniform(-1, 1, n))
    dr.backward(result() * weight, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)  # n = 1
    found = [v.grad.numpy() for v in (x, *members)]
    dr.disable_grad(x, *members)

    def total():
        return np.sum(result().numpy() * weight.numpy())

    h = 1e-6
    for values, gradient in zip((x, *members), found, strict=True):
        direction = Float64(np.random.default_rng(5).uniform(-1, 1, len(values)))
        before = Float64(values)
        values += h * direction
        above = total()
        values -= 2 * h * direction
        below = total()
        values -= values - before
        expected = (above - below) / (2 * h)
        assert np.sum(gradient * direction.numpy()) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@both
def test_forward_derivative_of_a_member(pointer, mode):
    a, b = Square(1), Square(2)
    dr.enable_grad(b.table)
    y = dr.dispatch(
        pointer([a, b, None, b]), lambda s, x, k: s.value(x, k)[0], Float64(1, 2, 3, 4),
        UInt(0, 1, 2, 3), mode=mode,
    )  # fmt: skip
    dr.set_grad(b.table, Float64(1, 10, 100, 1000, 0, 0))
    dr.forward_to(y)
    np.testing.assert_array_equal(y.grad.numpy(), [0, 20, 0, 4000])


@both
def test_mask_side_effects_and_labels(pointer, mode):
    a, b = Shape(1), Shape(2)
    count = dr.zeros(UInt, 2)

    def visit(shape, active):
        dr.scatter_add(count, UInt(1), UInt(0 if shape is a else 1))
        return shape.size

    found = dr.dispatch(
        pointer([a, b, None, b, a]), visit, Bool(True, True, True, False, True), mode=mode,
        label="visit",
    )  # fmt: skip
    np.testing.assert_array_equal(found.numpy(), [1, 2, 0, 0, 1])
    np.testing.assert_array_equal(count.numpy(), [2, 1])


def test_calls_within_a_branch_keep_to_its_lanes(pointer):
    a, b = Shape(1), Shape(2)
    counts, sizes = dr.zeros(UInt, 2), pointer([a, b, a, b, a])

    def visit(shape, k):
        dr.scatter_add(counts, UInt(1), UInt(0 if shape is a else 1))
        return k * shape.size

    def yes(p, k):
        return dr.dispatch(p, visit, k, mode="evaluated")

    found = dr.if_stmt(
        (sizes, dr.arange(Float64, 5) + 1), Bool(True, False, True, True, False), yes,
        lambda p, k: Float64(0), mode="evaluated",
    )  # fmt: skip
    assert list(found) == [1, 0, 3, 8, 0]
    assert list(counts) == [2, 1]


@both
def test_only_null_pointers(pointer, mode):
    pointer(Shape(1))
    found = dr.dispatch(dr.zeros(pointer, 3), lambda s, x: (x, UInt(x)), Float(1, 2, 3), mode=mode)
    assert [type(v) for v in found] == [Float, UInt]
    assert [v.numpy().tolist() for v in found] == [[0, 0, 0]] * 2


def test_references(pointer):
    a, b = Shape(1), Ball(2)
    p = pointer([a, None, b])
    assert pointer.__name__ == "ShapePtr" and len(p) == 3
    assert p[0] is a and p[1] is None and list(p) == [a, None, b]
    assert pointer(a)[0] is a and pointer(None)[0] is None and len(pointer()) == 0
    np.testing.assert_array_equal((p == None).numpy(), [False, True, False])  # noqa: E711
    np.testing.assert_array_equal((p != b).numpy(), [True, True, False])
    np.testing.assert_array_equal((p == pointer([b, None, b])).numpy(), [False, True, True])
    assert "Shape" in repr(p) and "None" in repr(p)
    assert dr.instance_t(Array3f, Shape) is pointer or dr.instance_t(Array3f, Shape)(a)[0] is a


def test_references_are_trees(pointer):
    a, b = Shape(1), Shape(2)
    p = pointer([a, None, b])
    assert list(dr.gather(pointer, p, UInt(2, 0))) == [b, a]
    assert list(dr.select(Bool(True, True, False), p, dr.zeros(pointer))) == [a, None, None]
    assert dr.width(p) == 3
    chosen = dr.switch(UInt(0, 1, 1), [lambda p: p, lambda p: pointer(b)], p)
    assert list(chosen) == [a, b, b]
    copied = pointer(p)
    dr.scatter(copied.index, UInt(0), UInt(0))
    assert list(copied) == [None, None, b] and p[0] is a


def test_registry(pointer):
    a, b = Shape(1), Shape(2)
    assert pointer.register(a) == pointer.register(a) != pointer.register(b)
    p = pointer([a, b])
    pointer.unregister(a)
    assert list(p) == [None, b] and list(pointer.instances().values()) == [b]
    found = dr.dispatch(p, lambda s, x: x * s.size, Float64(1, 2))
    np.testing.assert_array_equal(found.numpy(), [0, 4])
    with pytest.raises(RuntimeError, match="is not registered"):
        pointer.unregister(a)
    assert pointer.register(a) not in p.index
    dr.detail.clear_registry()
    assert list(p) == [None, None]
    with pytest.raises(RuntimeError, match="no object of class Shape is registered"):
        dr.dispatch(p, lambda s, x: x, Float(1, 2))


def test_data_classes_can_be_referred_to(pointer):
    @dataclasses.dataclass
    class Item:
        value: Float

    p = dr.instance_t(Float, Item)([Item(Float(2)), Item(Float(3))])
    assert p[0].value[0] == 2
    np.testing.assert_array_equal(dr.dispatch(p, lambda s: s.value).numpy(), [2, 3])


def test_errors(pointer):
    p = pointer([Shape(1), Shape(2)])
    with pytest.raises(TypeError, match=r"'inst' is of type drjit\.llvm\.ad\.UInt"):
        dr.dispatch(UInt(1, 2), lambda s: s.size)
    with pytest.raises(TypeError, match="'target' is 3"):
        dr.dispatch(p, 3)
    with pytest.raises(RuntimeError, match="'mode' is 'scalar'"):
        dr.dispatch(p, lambda s: s.size, mode="scalar")
    with pytest.raises(RuntimeError, match=r"of Shape object .* AttributeError.*'radius'"):
        dr.dispatch(p, lambda s: s.radius)
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        dr.dispatch(p, lambda s, x: x, Float(1, 2, 3))
    known = pointer.instances()
    with pytest.raises(TypeError, match="expected objects of class Shape or None, not int"):
        pointer([Shape(1), 3])
    assert pointer.instances() == known
    with pytest.raises(TypeError, match="not str"):
        pointer("text")
    with pytest.raises(TypeError, match="cannot compare"):
        assert p == dr.instance_t(llvm.Float, Shape)(Shape(3))
    for dtype, domain in ((3, Shape), (int, Shape), (scalar.ArrayXf, Shape), (Float, Shape(1))):
        with pytest.raises(TypeError, match=r"dr\.instance_t"):
            dr.instance_t(dtype, domain)

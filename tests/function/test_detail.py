"""What libraries on top of the package use: numbers of variables, trees that are taken apart and
put together again, scopes of derivatives, permutations that sort blocks.
"""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import drjit as dr
from drjit import detail
from drjit.llvm import Array2f, Float, Int, TensorXf, UInt, ad

LLVM = dr.JitBackend.LLVM


@dataclass
class Point:
    x: Float
    y: UInt


def vector(*arrays):
    found = detail.IndexVector()
    for a in arrays:
        found.append(a.index)
    return found


def test_indices_of_a_tree_are_those_of_its_variables():
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = Array2f(1, 2)
    found = detail.collect_indices([x, 1, "a", None, y, TensorXf([[1, 2]]), Float()])
    assert found[0] == x.index_ad << 32 | x.index
    assert found[1:3] == [y.x.index, y.y.index]
    assert len(found) == 5 and found[4] == 0
    assert detail.collect_indices(dr.scalar.Array3f(1)) == []


def test_update_indices_replaces_variables_and_keeps_derivatives():
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = x * 2
    old = Point(x, UInt(3))
    new = detail.update_indices(old, [*detail.collect_indices(y), 0])
    assert isinstance(new, Point) and len(new.y) == 0 and old.x is x and list(old.y) == [3]
    dr.backward(new.x)
    assert list(x.grad) == [2, 2]
    t = TensorXf([[1, 2]])
    keep = Float(5, 6), Float(5, 6, 7)
    assert detail.update_indices(t, [keep[0].index]).shape == (1, 2)
    assert detail.update_indices(t, [keep[1].index]).shape == (3,)


@pytest.mark.parametrize("indices", [[], [1, 2]])
def test_update_indices_needs_one_for_each_variable(indices):
    with pytest.raises(RuntimeError, match=r"update_indices\(\): . indices for 1 variables"):
        detail.update_indices(Float(1), indices)


def test_numbers_without_a_variable_of_the_type_are_errors():
    gone = (Float(1, 2) + 1).index
    with pytest.raises(RuntimeError, match=f"no variable with the index {gone}"):
        detail.update_indices(Float(1), [gone])
    with pytest.raises(RuntimeError, match="no variable"):
        detail.IndexVector().append(-1)
    other = UInt(1)
    with pytest.raises(RuntimeError, match=r"element type uint32, but drjit\.llvm\.Float"):
        detail.update_indices(Float(1), [other.index])


def test_an_index_vector_keeps_variables_alive():
    v = vector(Float(1, 2) + 1)
    assert list(detail.update_indices(Float(), list(v))) == [2, 3]
    other = Float(7)
    v[0] = other.index
    assert v[0] == other.index and len(v) == 1
    for access in (lambda: v[1], lambda: v.__setitem__(1, other.index)):
        with pytest.raises(IndexError):
            access()
    v.clear()
    assert len(v) == 0


def test_attributes_of_an_object_are_read_and_replaced():
    class Owner:
        def __init__(self):
            self.a, self.b, self.c = Float(1, 2), [UInt(3)], "text"

    o, found, new = Owner(), [], Float(7, 8)
    detail.traverse_py_cb_ro(o, lambda *args: found.append(args))
    assert found == [(o.a.index, "", ""), (o.b[0].index, "", "")]
    detail.traverse_py_cb_rw(o, lambda k, *_: new.index if k == o.a.index else k)
    assert list(o.a) == [7, 8] and list(o.b[0]) == [3]
    with pytest.raises(RuntimeError, match="expected an index"):
        detail.traverse_py_cb_rw(o, lambda *_: "1")  # pyright: ignore[reportArgumentType]
    p = Point(Float(1), UInt(2))
    detail.traverse_py_cb_rw(p, lambda k, *_: new.index if k == p.x.index else k)
    assert list(p.x) == [7, 8]


def test_new_grad_is_independent_of_the_past():
    x = ad.Float(1, 2)
    dr.enable_grad(x)
    y = x * 2
    z, i, text = detail.new_grad((y, ad.UInt(1), "a"))
    assert dr.grad_enabled(z) and not dr.grad_enabled(i) and text == "a"
    dr.backward(z * 3)
    assert list(z.grad) == [3, 3] and list(x.grad) == [0, 0]
    with dr.suspend_grad():
        assert not dr.grad_enabled(detail.new_grad(y))


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (Float(1), [Float(1)], "type of state variable 'name' changed"),
        ([Float(1)], [Float(1), Float(1)], "size of state variable 'name'"),
        (Float(1, 2), UInt(1, 2), "type of state variable 'name' changed"),
        ({"a": 1}, {"b": 1}, "keys of state variable 'name'"),
        (1, 2, "changed from '1' to '2'"),
        ([Float(1, 2)], [Float(1, 2, 3)], r"size of state variable 'name\[0\]' .* from 2 to 3"),
    ],
)
def test_incompatible_trees(a, b, text):
    with pytest.raises(RuntimeError, match=text):
        detail.check_compatibility(a, b, True, "name")


def test_compatible_trees():
    detail.check_compatibility({"a": Float(1, 2)}, {"a": Float(1)}, True, "name")
    detail.check_compatibility(Float(1, 2), Float(1, 2, 3), False, "name")


class TestTracker:
    def test_writes_in_place_and_restores(self):
        state = (Float(1, 2), [UInt(3)])
        tracker = detail.VariableTracker()
        assert list(tracker.read(state)) == [state[0].index, state[1][0].index]
        tracker.write(state, vector(Float(5, 6), UInt(7)))
        assert list(state[0]) == [5, 6] and list(state[1][0]) == [7]
        assert tracker.rebuild()[0] is state[0]
        tracker.verify_size(2)
        with pytest.raises(RuntimeError, match=r"'state\[0\]' has 2 entries"):
            tracker.verify_size(3)
        tracker.restore()
        assert list(state[0]) == [1, 2] and list(state[1][0]) == [3]

    def test_replaced_entries(self):
        a = Float(1, 2)
        state = [a, {"k": Float(3)}]
        tracker = detail.VariableTracker()
        tracker.read(state)
        state[0] = Float(7, 8)
        state[1]["k"] += 1
        tracker.read(state)
        assert list(tracker.rebuild()[0]) == [7, 8]
        tracker.restore()
        assert state[0] is a and list(a) == [1, 2] and list(state[1]["k"]) == [3]

    @pytest.mark.parametrize(
        ("changed", "text"),
        [
            ((Float(1, 2, 3), 3), "size of state variable 'p' .* from 2 to 3"),
            ((UInt(1), 3), "type of state variable 'p'"),
            ((Float(1, 2), 4), "variable 'q' .* changed from '3' to '4'"),
        ],
    )
    def test_changes_are_errors(self, changed, text):
        tracker = detail.VariableTracker()
        tracker.read((Float(1, 2), 3), ["p", "q"])
        with pytest.raises(RuntimeError, match=text):
            tracker.read(changed, ["p", "q"])

    def test_checks_can_be_off(self):
        tracker = detail.VariableTracker(strict=False, check_size=False)
        tracker.read((Float(1, 2), 3), ["p", "q"])
        tracker.read((Float(1, 2, 3), 4), ["p", "q"])
        assert tracker.rebuild(["p", "q"])[1] == 4

    def test_misuse(self):
        tracker = detail.VariableTracker()
        for f in (tracker.rebuild, tracker.restore):
            with pytest.raises(RuntimeError, match=r"no tree with the labels \['state'\]"):
                f()
        tracker.verify_size(3)
        with pytest.raises(RuntimeError, match="0 indices for 1 variables"):
            tracker.write(Float(1), detail.IndexVector())
        with pytest.raises(RuntimeError, match="1 labels"):
            tracker.read((Float(1), 2), ["p"])

    def test_pending_side_effects(self):
        target = dr.zeros(Float, 3)
        tracker = detail.VariableTracker()
        dr.scatter(target, Float(5), UInt(1))
        tracker.write(target, vector(Float(1, 2, 3)), preserve_dirty=True)
        assert list(target) == [0, 5, 0]
        tracker.write(target, vector(Float(1, 2, 3)), preserve_dirty=True)
        assert list(target) == [1, 2, 3]


class TestScopesOfDerivatives:
    def test_kinds(self):
        assert type(dr.suspend_grad()) is detail.ADContextManager
        assert type(dr.resume_grad()) is detail.ADContextManager
        assert type(dr.isolate_grad()) is detail.ADContextManager
        assert type(dr.suspend_grad(when=False)) is detail.NullContextManager
        assert pickle.loads(pickle.dumps(detail.ADScope.Resume)) is detail.ADScope.Resume
        assert (
            repr(detail.ADScope.Resume) == "ADScope.Resume" and detail.ADScope(1).name == "Suspend"
        )

    def test_by_number(self):
        x, y = ad.Float(1), ad.Float(2)
        dr.enable_grad(x, y)
        with detail.ADContextManager(detail.ADScope.Suspend, []):
            assert not dr.grad_enabled(x)
            with detail.ADContextManager(detail.ADScope.Resume, [x.index_ad]):
                assert dr.grad_enabled(x) and not dr.grad_enabled(y)
        with detail.ADContextManager(detail.ADScope.Suspend, [x.index_ad]):
            assert not dr.grad_enabled(x) and dr.grad_enabled(y)
        with dr.suspend_grad(ad.UInt(1)):  # which has no variables
            assert dr.grad_enabled(x)

    def test_errors(self):
        with pytest.raises(RuntimeError, match="invalid"):
            detail.ADContextManager(detail.ADScope.Invalid, [])
        with pytest.raises(RuntimeError, match="isolates"):
            detail.ADContextManager(detail.ADScope.Isolate, [1])


@pytest.mark.parametrize("size", [0, 1, 2, 15, 17, 1000])
@pytest.mark.parametrize("block", [1, 3, 17, 2000])
def test_block_mkperm(size, block):
    values = np.random.default_rng(size).integers(0, 4, size, np.uint32)
    blocks = np.arange(size) // block
    got = detail.block_mkperm(UInt(values), block, 4)
    np.testing.assert_array_equal(got.numpy(), np.lexsort((values, blocks)))


def test_block_mkperm_errors():
    with pytest.raises(TypeError, match=r"UInt32, not drjit\.llvm\.Int"):
        detail.block_mkperm(Int(1, 2), 2, 4)
    with pytest.raises(RuntimeError, match="must be positive"):
        detail.block_mkperm(UInt(1, 2), 0, 4)
    with pytest.raises(ValueError, match=r"entry 7 is not less than bucket_count \(4\)"):
        detail.block_mkperm(UInt(1, 7), 2, 4)


@pytest.mark.processor
def test_numbers_of_scopes():
    first = detail.new_scope(LLVM)
    assert detail.scope(LLVM) == first
    assert detail.advance_scope(LLVM, 10) == first + 10 == detail.scope(LLVM)
    detail.set_scope(LLVM, first)
    assert detail.scope(LLVM) == first and detail.new_scope(LLVM) == first + 11
    assert detail.advance_scope(LLVM, 0) == first + 11  # takes no longer for more
    assert detail.advance_scope(LLVM, 2**32 - 1) == first + 10 + 2**32 == detail.scope(LLVM)
    assert detail.new_scope(LLVM) == first + 11 + 2**32
    for n in (-1, 2**32, 1.0):
        with pytest.raises(TypeError, match=r"'n' must be an integer from 0 to 4294967295, not"):
            detail.advance_scope(LLVM, n)
    for f in (detail.scope, detail.new_scope):
        with pytest.raises(RuntimeError, match=r"JitBackend\.CUDA is not available"):
            f(dr.JitBackend.CUDA)


@pytest.mark.parametrize("array", [Float(1, 2), Array2f(1, 2), TensorXf([1]), dr.scalar.Array2f(1)])
def test_iterators_are_of_one_type(array):
    assert type(iter(array)) is detail.dr_iterator


@pytest.mark.processor
def test_what_belongs_to_extensions():
    assert issubclass(dr.CustomOp, detail.IntrusiveBase)
    with pytest.raises(TypeError, match="DRJIT_STRUCT"):
        detail.TraversableBase()
    with detail.scoped_rtld_deepbind() as nothing:
        assert nothing is None
    with pytest.raises(RuntimeError, match="CUDA is not available"):
        detail.cuda_compute_capability()
    with pytest.raises(RuntimeError, match=r"no C\+\+ headers"):
        dr.get_cmake_dir()


@pytest.mark.parametrize("kind", ["loop", "call", "evaluated"])
def test_the_state_of_values_in_bodies(kind):
    outside = dr.arange(Float, 3) + 1
    looped = dr.while_loop((outside,), lambda x: x < 3, lambda x: (x * 2,))[0]
    called = dr.switch(UInt(0, 1, 0), [lambda x: x + 1, lambda x: x * 2], outside)
    again = dr.switch(UInt(0, 1, 0), [lambda x: x + 1, lambda x: x * 2], called)
    kept = dr.opaque(Float, 2, 3)
    states, symbolic = [], []

    def look(x):
        inner = dr.while_loop((x,), lambda x: x < 3, lambda x: (x + 1,))[0]
        inside = [x + 1, looped + x, inner, Array2f(x + 1, inner)]
        states.append([v.state for v in inside])
        states.append([v.state for v in (outside, looped, called, again, looped + again)])
        states.append([kept.state, Float(1).state, Array2f(x + 1, kept).state])
        symbolic.append([detail.any_symbolic([v, 1]) for v in (x, outside, looped, kept)])
        return x + 1

    if kind == "call":
        dr.switch(UInt(0, 1, 0), [look, lambda x: x], kept)
    else:
        mode = "evaluated" if kind == "evaluated" else "symbolic"
        dr.while_loop((kept * 1,), lambda x: x < 3, lambda x: (look(x),), mode=mode)
    here = dr.VarState.Unevaluated if kind == "evaluated" else dr.VarState.Symbolic
    assert states[:3] == [
        [here] * 4,
        [dr.VarState.Unevaluated] * 5,
        [dr.VarState.Evaluated, dr.VarState.Literal, dr.VarState.Mixed],
    ]
    assert symbolic[0] == [kind != "evaluated", False, False, False]
    assert looped.state is dr.VarState.Unevaluated

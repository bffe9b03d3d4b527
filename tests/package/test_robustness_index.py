"""Indices beyond the end of an array: every access reports them as an IndexError that names the
line, does the rest of its work, and writes nowhere else."""

import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import Array2f, Array3f, ArrayXf, Bool, Float, Int, Int64, TensorXf, UInt, UInt64

SIZE = 12
BAD = [-1, 12, 1 << 20, -(1 << 31), (1 << 31) - 1]
REDUCTIONS = [r for r in dr.ReduceOp if r is not dr.ReduceOp.Identity]
MODES = [m for m in dr.ReduceMode if m is not dr.ReduceMode.Permute]


def line_of(what):
    """The number of the line of this file that holds a text (which must occur once)."""
    with open(__file__, encoding="utf-8") as file:
        found = [k for k, line in enumerate(file, 1) if what in line]
    assert len(found) == 1
    return found[0]


def array(cls, values):
    """An evaluated array."""
    made = cls(np.array(values, cls._dtype.numpy))
    dr.make_opaque(made)
    return made


def surroundings():
    """Arrays made before and after: blocks that a stray write would hit."""
    return [array(Float, range(64)) for _ in range(4)]


def intact(arrays):
    return all(a.numpy().tolist() == list(range(64)) for a in arrays)


def reads(source, index, active):
    yield lambda: dr.gather(Float, source, index, active)
    yield lambda: dr.gather(Array2f, source, index, active)
    yield lambda: dr.gather(Array3f, source, index, active)
    yield lambda: dr.gather(ArrayXf, source, index, active, shape=(5, dr.width(index)))
    yield lambda: dr.gather(TensorXf, TensorXf(source, (3, 4)), index, active)
    yield lambda: dr.gather(Array3f, Array3f(source), index, active)
    yield lambda: dr.gather(list, [source, source + 1], index, active)[1]
    yield (
        lambda: (
            dr.slice(source, index) if active is True else dr.gather(Float, source, index, active)
        )
    )


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 2])
def test_reads(tier, bad, place):
    indices = [0, 1, 0]
    indices[place] = bad
    around = surroundings()
    source = array(Float, range(SIZE))
    index = array(Int, indices)
    enabled = array(Bool, [k != place for k in range(3)])
    for read, masked in zip(reads(source, index, True), reads(source, index, enabled), strict=True):
        if bad == -1 and "slice" in read.__code__.co_names:
            continue  # the last entry
        with pytest.raises(IndexError, match=rf"index {bad} is out of bounds .*lane {place}; at "):
            repr(read())
        dr.eval(masked())
        dr.sync_thread()
    assert source.numpy().tolist() == list(range(SIZE)) and intact(around)


@pytest.mark.parametrize(
    "index_type, index",
    [
        (Int, -1), (Int, 12), (UInt, 12), (UInt, (1 << 32) - 1), (llvm.Int8, -3), (llvm.UInt8, 200),
        (Int64, -1), (Int64, 1 << 32), (Int64, -(1 << 63)),
        (UInt64, 1 << 32), (UInt64, (1 << 64) - 1), (UInt64, 1 << 63),
    ],
)  # fmt: skip
def test_the_message_has_the_index_as_the_user_wrote_it(tier, index_type, index):
    source = array(Float, range(SIZE))
    with pytest.raises(IndexError) as caught:
        dr.gather(Float, source, array(index_type, [index])).numpy()  # the line
    assert str(caught.value) == (
        f"dr.gather: index {index} is out of bounds for an array of size 12 "
        f"(lane 0; at {__file__}:{line_of('# the ' + 'line')} in "
        "test_the_message_has_the_index_as_the_user_wrote_it). The entry was skipped."
    )


def writes(target, index, active):
    for value in (5, array(Float, [5, 6, 7])):
        yield lambda v=value: dr.scatter(target, v, index, active)
        for op, mode in itertools.product(REDUCTIONS, MODES):
            if op in (dr.ReduceOp.And, dr.ReduceOp.Or):
                continue
            yield lambda v=value, o=op, m=mode: dr.scatter_reduce(o, target, v, index, active, m)
        yield lambda v=value: dr.scatter_add(target, v, index, active)
        yield lambda v=value: dr.scatter_exch(target, v, index, active)
        yield lambda v=value: dr.scatter_cas(target, 100, v, index, active)


@pytest.mark.parametrize("bad", BAD)
def test_writes(tier, bad):
    around = surroundings()
    target = array(Float, range(100, 100 + SIZE))
    other = Float(target)
    index, enabled = array(Int, [3, bad, 5]), array(Bool, [True, False, True])
    for write, masked in zip(
        writes(target, index, True), writes(target, index, enabled), strict=True
    ):
        with pytest.raises(
            IndexError, match=rf"index {bad} is out of bounds .*lane 1; at .*{__file__}"
        ):
            write()
            dr.sync_thread()
            dr.eval(target)
            dr.sync_thread()
        masked()
        dr.eval(target)
        dr.sync_thread()
    untouched = [k for k in range(SIZE) if k not in (3, 5)]
    assert target.numpy()[untouched].tolist() == [100 + k for k in untouched]
    assert other.numpy().tolist() == list(range(100, 100 + SIZE)) and intact(around)


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda o: o.name)
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_reductions_of_integers(tier, op, mode):
    target = array(UInt, range(1, SIZE + 1))
    dr.scatter_reduce(op, target, UInt(6), array(Int, [3, -1, 5, SIZE]), True, mode)
    with pytest.raises(IndexError, match=r"dr.scatter_reduce: index (-1|12) is out of bounds"):
        target.numpy()
    numpy_op = {
        "Add": np.add, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum,
        "And": np.bitwise_and, "Or": np.bitwise_or,
    }[op.name]  # fmt: skip
    expected = np.arange(1, SIZE + 1, dtype=np.uint32)
    expected[[3, 5]] = numpy_op(expected[[3, 5]], np.uint32(6))
    assert target.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("bad", BAD)
def test_atomics_of_integers(tier, bad):
    around = surroundings()
    for update in (
        lambda t, i: dr.scatter_inc(t, i),
        lambda t, i: dr.scatter_exch(t, UInt(9), i),
        lambda t, i: dr.scatter_cas(t, UInt(0), UInt(9), i)[0],
    ):
        target = array(UInt, [0] * SIZE)
        old = update(target, array(Int, [3, bad, 5]))
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds"):
            old.numpy()
        assert old.numpy().tolist() == [0, 0, 0]
        assert target.numpy().nonzero()[0].tolist() == [3, 5]
    assert intact(around)


@pytest.mark.parametrize("size", [12, 13, 14])
@pytest.mark.parametrize("bad", [-1, 6, 1 << 30, -(1 << 31), (1 << 31) - 1])
def test_packets(tier, size, bad):
    around = surroundings()
    for cls, count in ((Array2f, 2), (Array3f, 3), (llvm.Array4f, 4)):
        bad_index = size // count if bad == 6 else bad
        target = array(Float, range(size))
        index = array(Int, [0, bad_index])
        for write in (
            lambda t, v, i: dr.scatter(t, v, i),
            lambda t, v, i: dr.scatter_add(t, v, i),
            lambda t, v, i: dr.scatter_reduce(dr.ReduceOp.Max, t, v, i),
        ):
            write(target, cls(50), index)
            with pytest.raises(IndexError, match=f"index {bad_index} .* packets? of {count} ent"):
                target.numpy()
        assert (target.numpy()[:count] >= 50).all()
        assert target.numpy()[count:].tolist() == list(range(count, size))
    assert intact(around)


def test_nested_targets_and_trees(tier):
    target = Array3f(array(Float, range(4)), array(Float, range(4)), array(Float, range(4)))
    tree = {"a": array(Float, range(4)), "b": [array(Float, range(4))]}
    for write in (
        lambda: dr.scatter(target, Array3f(9), array(Int, [1, 4])),
        lambda: dr.scatter(tree, {"a": 9.0, "b": [9.0]}, array(Int, [1, 4])),
    ):
        with pytest.raises(IndexError, match="index 4 is out of bounds for an array of size 4"):
            write()
            dr.eval(target, tree)
            dr.sync_thread()
        dr.sync_thread()
    for leaf in (*target, tree["a"], tree["b"][0]):
        assert leaf.numpy().tolist() == [0, 9, 2, 3]


def store(target, key, value):
    target[key] = value


@pytest.mark.parametrize(
    "make, key",
    [
        (lambda: array(Float, range(4)), 4),
        (lambda: array(Float, range(4)), -5),
        (lambda: array(Float, range(4)), UInt(4)),
        (lambda: array(Float, range(4)), Int(0, -5)),
        (lambda: Array3f(1, 2, 3), 3),
        (lambda: Array3f(1, 2, 3), -4),
        (lambda: Array3f(array(Float, range(4))), (0, 4)),
        (lambda: ArrayXf(1, 2), 2),
        (lambda: dr.zeros(TensorXf, (2, 3)), 2),
        (lambda: dr.zeros(TensorXf, (2, 3)), (0, -4)),
        (lambda: dr.zeros(TensorXf, (2, 3)), (slice(None), 3)),
        (lambda: dr.zeros(TensorXf, (2, 3)), (slice(None), UInt(0, 3))),
        (lambda: dr.zeros(TensorXf, (2, 3)), (0, UInt(0, 3))),
        (lambda: dr.zeros(TensorXf, (2, 3)), (0, Int(0, -4))),
        (lambda: dr.zeros(TensorXf, (2, 3)), (0, llvm.Int8(0, -4))),
        (lambda: dr.zeros(TensorXf, (2, 3)), (UInt(0, 2), 0)),
        (lambda: dr.zeros(dr.scalar.TensorXf, (2, 3)), (0, dr.scalar.ArrayXi(0, -4))),
        (lambda: dr.zeros(llvm.Matrix2f, 2), (2, 0)),
        (lambda: dr.scalar.Array3f(1, 2, 3), 3),
    ],
)  # fmt: skip
def test_brackets(tier, make, key):
    target = make()
    before = repr(target)
    # Valid entries beside the wrong one are assigned: here to what they are.
    value = 0 if dr.width(target) > 1 else 1
    for access in (lambda: repr(target[key]), lambda: (store(target, key, value), repr(target))):
        with pytest.raises(IndexError, match="out of bounds"):
            access()
            dr.sync_thread()
        dr.sync_thread()
    assert repr(target) == before


def test_slices_end_where_the_array_ends(tier):
    a = array(Float, range(5))
    assert a[2:99].numpy().tolist() == [2, 3, 4] and a[7:9].numpy().tolist() == []
    assert a[-99:2].numpy().tolist() == [0, 1] and a[::-1].numpy().tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="zero"):
        a[::0]


def test_functions_that_take_indices(tier):
    """What computes indices from its arguments checks these instead."""
    a = array(Float, range(5))
    for call in (
        lambda: dr.slice(a, 5),
        lambda: dr.slice(Array3f(a), 5),
        lambda: dr.slice([a, a], 5),
        lambda: dr.slice(a, array(UInt, [1, 5])).numpy(),
    ):
        with pytest.raises(IndexError, match="5 is out of bounds"):
            call()
    for axis in (1, -2, 7):
        with pytest.raises((IndexError, RuntimeError), match=f"{axis}"):
            dr.sum(a, axis=axis)
    # A search stays within its range, whatever the predicate says.
    assert dr.binary_search(0, 5, lambda i: dr.gather(Float, a, i) < 100).numpy().tolist() == [5]
    dr.sync_thread()


def test_many_errors_in_one_synchronization(tier):
    """The first is raised, the others are counted, and nothing is left for later."""
    source = array(Float, range(4))
    results = [dr.gather(Float, source, array(Int, [k, 9])) for k in range(3)]
    with pytest.raises(IndexError, match="index 9"):
        for r in results:
            dr.eval(r)
        dr.sync_thread()
    dr.sync_thread()
    assert [r.numpy().tolist() for r in results] == [[0, 0], [1, 0], [2, 0]]


def test_without_checks_nothing_is_reported_for_valid_indices(tier):
    with dr.scoped_set_flag(dr.JitFlag.BoundsChecks, False):
        a = array(Float, range(4))
        assert dr.gather(Float, a, array(UInt, [3, 0])).numpy().tolist() == [3, 0]


def test_large_work_on_all_threads(tier):
    """One bad lane among many, on whatever thread it falls."""
    n = 300_000
    index = np.arange(n, dtype=np.int64)
    index[n // 3] = n
    source = dr.arange(Float, n)
    target = dr.zeros(Float, n)
    dr.scatter(target, source + 1, Int64(index))
    with pytest.raises(IndexError, match=f"index {n} .*lane {n // 3};"):
        target.numpy()
    expected = np.arange(1, n + 1, dtype=np.float32)
    expected[n // 3] = 0
    assert np.array_equal(target.numpy(), expected)


def test_errors_in_threads(tier):
    """Every error is raised in one of the threads, and their arrays stay right."""
    count = SimpleNamespace(errors=0, wrong=0)
    lock = threading.Lock()

    def work(salt):
        for k in range(20):
            source = array(Float, range(salt, salt + 8))
            for _ in range(3):
                try:
                    values = dr.gather(Float, source, array(Int, [k % 8, 8 + salt])).numpy()
                    break
                except IndexError:
                    with lock:
                        count.errors += 1
            else:
                values = dr.gather(Float, source, array(Int, [k % 8])).numpy()
            with lock:
                count.wrong += source.numpy().tolist() != list(range(salt, salt + 8))
                count.wrong += values[0] != salt + k % 8

    threads = [threading.Thread(target=work, args=(s,)) for s in (0, 100, 1000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    while True:
        try:
            dr.sync_thread()
            break
        except IndexError:
            count.errors += 1
    assert count.wrong == 0 and count.errors >= 1

"""Large graphs, large and wrong sizes, deep trees, exhausted memory, borrowed memory, and what
cannot be converted: each gives the right result or says what is wrong."""

import gc
import re
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest
from helpers import ALLOCATE, ALLOCATOR, allocate_by, named

import drjit as dr
from drjit import llvm
from drjit.llvm import Array3f, ArrayXf, Bool, Float, Int, TensorXf, UInt

DEPTH = 20_000


def run_script(text, *args, check=True, **options):
    script = textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


# Large graphs


def test_a_long_chain_of_operations(tier):
    x = dr.opaque(Float, 1, 3)
    for _ in range(DEPTH):
        x = x + 1
    assert x.numpy().tolist() == [DEPTH + 1] * 3


@pytest.mark.parametrize(
    "tier", ["numpy", pytest.param("compiled", marks=pytest.mark.sweep)], indirect=True
)
def test_a_long_chain_with_a_second_value_at_every_step(tier):
    x = dr.opaque(UInt, 1, 3)
    total = UInt(0)
    for _ in range(DEPTH // 2):
        x = x * 3
        total += x
    want_x, want = 1, 0
    for _ in range(DEPTH // 2):
        want_x = want_x * 3 % 2**32
        want = (want + want_x) % 2**32
    assert total.numpy().tolist() == [want] * 3 and x.numpy().tolist() == [want_x] * 3


def test_a_long_chain_of_dependent_reductions_and_scatters(tier):
    total, target = dr.opaque(UInt, 1), dr.zeros(UInt, 3)
    for _ in range(500):
        total = dr.sum(total + dr.arange(UInt, 4)) & 1023
        dr.scatter_add(target, total, UInt(1))
    want, added = 1, 0
    for _ in range(500):
        want = (4 * want + 6) & 1023
        added += want
    assert total.numpy().tolist() == [want] and target.numpy().tolist() == [0, added, 0]


@pytest.mark.parametrize("cls", [Float, llvm.ad.Float])
def test_a_long_chain_is_dropped_without_recursion(cls):
    x = dr.opaque(cls, 1, 3)
    first = weakref.ref((y := x * 2)._node)
    for _ in range(DEPTH):
        y = y * 2 + 1
    assert first() is not None
    del y
    assert first() is None


def test_many_outputs_of_one_evaluation(tier):
    x = dr.arange(Float, 1000)
    outputs = [x * k + 1 for k in range(500)]
    dr.eval(outputs)
    expected = np.arange(1000, dtype=np.float32)
    for k, o in enumerate(outputs):
        assert np.array_equal(o.numpy(), expected * np.float32(k) + 1)


def test_many_inputs_of_one_kernel(tier):
    inputs = [dr.opaque(Float, k, 3) for k in range(500)]
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    assert total.numpy().tolist() == [500 * 499 / 2] * 3


def test_many_sizes_in_one_evaluation(tier):
    arrays = [dr.arange(UInt, k) * 2 for k in range(200)]
    dr.eval(arrays)
    for k, a in enumerate(arrays):
        assert a.numpy().tolist() == list(range(0, 2 * k, 2))


# Sizes

TOO_LARGE = r"an array cannot have [\d,]+ entries: the limit is 4,294,967,295"


@pytest.mark.parametrize("size", [1 << 32, 1 << 40, 1 << 70])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: dr.zeros(Float, n), lambda n: dr.ones(Int, n), lambda n: dr.full(Float, 2, n),
        lambda n: dr.arange(UInt, n), lambda n: dr.linspace(Float, 0, 1, n),
        lambda n: dr.opaque(Float, 1, n), lambda n: dr.empty(Float, n),
        lambda n: dr.zeros(Array3f, n), lambda n: dr.zeros(TensorXf, (2, n)),
        lambda n: dr.tile(Float(1, 2), n), lambda n: dr.repeat(Float(1, 2), n),
        lambda n: dr.arange(Float, n), lambda n: dr.zeros(TensorXf, (1 << 20, n)),
    ],
)  # fmt: skip
def test_too_large_sizes(make, size):
    with pytest.raises((RuntimeError, MemoryError), match=TOO_LARGE):
        make(size)


@pytest.mark.parametrize("size", [-1, 2.5, "3", None, (2, 3), [2, 3], -(1 << 40)])
@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full", "opaque"])
def test_sizes_that_are_none(name, size):
    arguments = (Float, 1, size) if name in ("full", "opaque") else (Float, size)
    with pytest.raises((TypeError, RuntimeError), match=re.escape(f"{size}".strip("()[]"))):
        getattr(dr, name)(*arguments)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: dr.arange(Float, -3), RuntimeError, "start=0, stop=-3, step=1"),
        (lambda: dr.arange(Float, 0, 3, 0), (RuntimeError, ValueError), "step"),
        (lambda: dr.linspace(Float, 0, 1, -3), TypeError, "-3"),
        (lambda: dr.linspace(Float, 0, 1, 2.5), TypeError, "num=2.5"),
        (lambda: dr.tile(Float(1), -1), ValueError, "'reps' must not be negative, got -1"),
        (lambda: dr.repeat(Float(1), -1), ValueError, "'repeats' must not be negative, got -1"),
        (lambda: dr.repeat(Float(1), 1.5), TypeError, "float"),
        (lambda: dr.block_sum(Float(1, 2, 3), 0), (TypeError, RuntimeError), "'block_size'"),
        (lambda: dr.block_sum(Float(1, 2, 3), -2), (TypeError, RuntimeError), "'block_size'"),
        (lambda: dr.zeros(TensorXf, (-2, 3)), TypeError, "(-2, 3)"),
        (lambda: dr.zeros(Array3f, (2, 3)), RuntimeError, "(2, 3)"),
        (lambda: Float(1, 2) + Float(1, 2, 3), RuntimeError, "drjit.llvm.Float.__add__(): "),
        (lambda: Float(1, 2) * Float(1, 2, 3), RuntimeError, "(2, 3). Sizes must agree"),
        (lambda: dr.fma(Float(1, 2), 1, Float(1, 2, 3)), RuntimeError, "dr.fma"),
        (lambda: dr.select(Bool(True, False), Float(1, 2, 3), 0), RuntimeError, "(2, 3"),
        (lambda: dr.scatter(Float(1, 2), Float(1, 2, 3), UInt(0, 1)), RuntimeError, "3"),
        (lambda: dr.width(Float(1, 2), Float(1, 2, 3)), RuntimeError, "sizes 2 and 3"),
        (lambda: Array3f(1, 2), TypeError, "expected 3 elements, got 2"),
        (lambda: Array3f(np.zeros((4, 4))), TypeError, "shape (4, 4)"),
        (lambda: TensorXf(Float(1, 2, 3), (2, 2)), TypeError, "do not fill the shape"),
        (lambda: TensorXf([[1, 2], [3]]), TypeError, "ragged"),
        (lambda: dr.zeros(TensorXf, (2, 3)) + dr.zeros(TensorXf, (3, 2)), RuntimeError, "(2, 3)"),
        (lambda: llvm.Matrix3f(1, 2), (TypeError, RuntimeError), "Matrix3f"),
        (lambda: llvm.Matrix3f(1) @ llvm.Matrix2f(1), (TypeError, RuntimeError), "Matrix3f"),
        (lambda: dr.dot(Array3f(1), llvm.Array2f(1)), (TypeError, RuntimeError), "Array2f"),
        (lambda: dr.reshape(TensorXf, dr.zeros(TensorXf, 6), (4, 2)), RuntimeError, "4"),
        (lambda: dr.unravel(Array3f, Float(1, 2, 3, 4)), RuntimeError, "4"),
        (lambda: Float(np.zeros((2, 2))), TypeError, "shape (2, 2)"),
    ],
)  # fmt: skip
def test_sizes_and_shapes_that_do_not_fit(tier, call, error, text):
    with pytest.raises(error) as caught:
        repr(call())
    assert named(text) in str(caught.value)


# Types


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: Float("a"), "str"),
        (lambda: Float(None), "NoneType"),
        (lambda: Float(1j), "complex"),
        (lambda: Float([1, "a"]), "str"),
        (lambda: Float(np.array(["a"])), "<U1"),
        (lambda: Float(np.array([1j])), "complex128"),
        (lambda: Float(np.array([object()])), "object"),
        (lambda: Float(np.array(["2000-01-01"], "M8[D]")), "datetime64"),
        (lambda: Float(np.zeros(2, [("a", "f4")])), "[('a', '<f4')]"),
        (lambda: Float(1) + "a", "str"),
        (lambda: Float(1) + object(), "object"),
        (lambda: None - Float(1), "NoneType"),
        (lambda: dr.sin("a"), "str"),
        (lambda: dr.sin(None), "NoneType"),
        (lambda: dr.fma(Float(1), "a", 1), "str"),
        (lambda: dr.select("a", Float(1), 2), "str"),
        (lambda: dr.gather(Float, "abc", UInt(0)), "str"),
        (lambda: dr.gather(int, Float(1), UInt(0)), "int"),
        (lambda: dr.gather(Float, Float(1), "a"), "str"),
        (lambda: dr.scatter(Float(1), {}, UInt(0)), "dict"),
        (lambda: dr.scatter(5, 1, UInt(0)), "int"),
        (lambda: dr.zeros("Float", 3), "'Float'"),
        (lambda: dr.sum("abc", axis="x"), "x"),
        (lambda: dr.scatter_reduce("add", Float(1), 1, UInt(0)), "add"),
        (lambda: dr.set_flag("Debug", True), "JitFlag"),
        (lambda: dr.set_flag(12345, True), "12345"),
        (lambda: dr.flag("Debug"), "JitFlag"),
        (lambda: dr.flag(None), "JitFlag"),
        (lambda: dr.scoped_set_flag("Debug").__enter__(), "JitFlag"),
        (lambda: dr.set_log_level("loud"), "loud"),
        (lambda: dr.set_thread_count("many"), "str"),
        (lambda: dr.set_thread_count(-1), "-1"),
        (lambda: Float(1) & Float(2), "Float"),
        (lambda: Float(1) << 2, "Float"),
        (lambda: ~Float(1), "Float"),
        (lambda: dr.popcnt(Float(1)), "Float"),
        (lambda: dr.sin(Int(1)), "Int"),
    ],
)
def test_types_that_do_not_fit(call, text):
    with pytest.raises((TypeError, RuntimeError, ValueError)) as caught:
        call()
    assert named(text) in str(caught.value)


@pytest.mark.parametrize(
    "cls", [Float, Array3f, ArrayXf, TensorXf, llvm.Matrix2f, llvm.ad.Float, dr.scalar.Array3f]
)
def test_arrays_that_were_never_initialized(cls):
    class Derived(cls):
        def __init__(self):  # forgets super().__init__()
            pass

    for use in (
        repr, len, dr.sin, dr.sum, dr.eval, dr.width, cls, lambda a: a + 1, lambda a: a[0],
        lambda a: a.shape, lambda a: a.numpy(), lambda a: store(a, 0, 1),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=r"never initialized.*super\(\).__init__\(\)"):
            use(Derived())


def store(target, key, value):
    target[key] = value


def test_dr_empty_may_be_read(tier):
    assert dr.empty(Float, 5).numpy().shape == (5,)
    assert (dr.empty(UInt, 5) * 0).numpy().tolist() == [0] * 5


# Trees

TREE_FUNCTIONS = [
    dr.eval, dr.schedule, dr.width, dr.shape, dr.zeros_like, dr.ones_like, dr.empty_like, dr.copy,
    dr.make_opaque, dr.kernel_source, lambda t: dr.allclose(t, t), lambda t: dr.format("{}", t),
    lambda t: dr.select(Bool(True), t, t), lambda t: dr.gather(type(t), t, UInt(0)),
    lambda t: dr.scatter(t, t, UInt(0)), TensorXf,
]  # fmt: skip


@pytest.mark.parametrize("function", TREE_FUNCTIONS)
def test_trees_without_end(function):
    itself = []
    itself.append(itself)
    deep = Float(1)
    for _ in range(DEPTH):
        deep = [deep]
    for tree in (itself, deep):
        with pytest.raises(RecursionError, match="nested too deeply, or contain themselves"):
            function(tree)
    while type(deep) is list:  # Python's own destructor is the one that would recurse
        deep = deep[0]


def test_a_tree_within_the_limit():
    tree = Float(1)
    for _ in range(100):
        tree = [tree]
    dr.eval(dr.zeros_like(tree))
    assert dr.width(tree) == 1


# Memory


def test_numpy_memory_that_changes_dies_or_is_read_only(tier):
    data = np.arange(5000, dtype=np.float32)
    a = Float(data)
    b = a + 1
    data[:] = 7
    assert b.numpy().tolist() in (list(range(1, 5001)), [8.0] * 5000)
    del data
    gc.collect()
    filler = [np.full(5000, 9, np.float32) for _ in range(20)]
    assert a.numpy().tolist() == [7.0] * 5000 or a.numpy().tolist() == list(range(5000))
    assert len(filler) == 20
    read_only = np.arange(5000, dtype=np.float32)
    read_only.flags.writeable = False
    c = Float(read_only)
    c += 1
    dr.scatter(c, 5, UInt(0))
    assert c.numpy()[:3].tolist() == [5, 2, 3] and read_only[0] == 0
    d = Float(read_only)
    dr.scatter(d, 5, UInt(0))
    assert d.numpy()[0] == 5 and read_only[0] == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[::-1], lambda x: x[::3], lambda x: x.astype(">f4"), lambda x: x[3:],
        lambda x: x.reshape(-1, 2)[:, 1],
        lambda x: np.frombuffer(bytearray(b"\0" + x.tobytes()), np.uint8)[1:].view(np.float32),
        lambda x: np.broadcast_to(x[:1], 50), lambda x: x.astype("f2"),
    ],
)  # fmt: skip
def test_numpy_memory_in_odd_layouts(tier, make):
    x = make(np.arange(2000, dtype=np.float32))
    a = Float(x)
    assert np.array_equal(a.numpy(), x) and np.array_equal((a + 1).numpy(), x + 1)


def test_a_view_outlives_its_array_and_sees_no_later_scatter(tier):
    a = dr.arange(Float, 1000)
    view = a.numpy()
    dr.scatter(a, -1, UInt(0))
    assert a.numpy()[0] == -1 and view[0] == 0
    del a
    gc.collect()
    _ = [dr.opaque(Float, 3, 1000) for _ in range(8)]
    dr.sync_thread()
    assert view.tolist() == list(range(1000))


def test_a_failed_allocation_loses_nothing(tier, monkeypatch):
    """Whatever allocation fails, the evaluation can be repeated once there is memory."""
    real = getattr(ALLOCATOR, ALLOCATE)

    def allocate(*args, **kwargs):
        budget[0] -= 1
        if budget[0] < 0:
            raise MemoryError("Cannot allocate 1 byte")
        return real(*args, **kwargs)

    n = 3000
    failures = 0
    budget = [0]
    for successes in range(20):
        budget[0] = successes
        x = dr.arange(Float, n)
        y, total = x * 2, dr.sum(x)
        target = dr.zeros(UInt, 7)
        dr.scatter_add(target, UInt(1), UInt(x) % 7)
        with monkeypatch.context() as patch:
            allocate_by(patch, allocate)
            try:
                dr.eval(y, total, target)
            except MemoryError:
                failures += 1
        assert np.array_equal(y.numpy(), 2 * np.arange(n, dtype=np.float32))
        assert total.numpy()[0] == n * (n - 1) / 2
        assert target.numpy().tolist() == np.bincount(np.arange(n) % 7, minlength=7).tolist()
    assert 2 <= failures < 20


@pytest.mark.processor
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs RLIMIT_AS")
@pytest.mark.parametrize("which", ["numpy", "compiled"])
def test_exhausted_memory(which):
    """In a process with little memory: the error names sizes, and all work goes on."""
    done = run_script(
        """
        import resource, sys
        import numpy as np
        import drjit as dr
        from drjit.jit.cpu import variants
        from drjit.llvm import Float, UInt
        variants.pinned = sys.argv[1]

        def program(n):
            target = dr.zeros(UInt, 4)
            dr.scatter_add(target, 1, dr.arange(UInt, 1000) % 4)
            return dr.arange(Float, n) * 0.5, target

        for value in program(1000):
            value.numpy()
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 48_000_000, limit[1]))
        y, target = program(16_000_000)
        for attempt in range(2):
            try:
                dr.eval(y)
            except MemoryError as error:
                print(error)
        print(target.numpy().tolist())
        resource.setrlimit(resource.RLIMIT_AS, limit)
        print(y[1], y[15_999_999])
        """,
        which,
    )
    lines = done.stdout.splitlines()
    assert lines[2:] == ["[250, 250, 250, 250]", "0.5 7999999.5"], done.stdout
    for line in lines[:2]:
        assert re.match(r"(Cannot|Unable to) allocate [\d.,]+ (bytes|MiB)", line)

"""Random numbers: streams against plain implementations of the published algorithms and fixed
numbers, generators of arrays, and bad input.
"""

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    PCG32,
    Array2f,
    Array2u,
    Array3f64,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    Matrix2f,
    Philox4x32,
    TensorXf,
    TensorXi,
    UInt,
    UInt64,
    ad,
)

M64, M32 = (1 << 64) - 1, (1 << 32) - 1


class PlainPCG32:
    """PCG32 by its definition (O'Neill 2014)."""

    def __init__(self, state, sequence):
        self.inc = (sequence << 1 | 1) & M64
        self.state = 0
        self.step()
        self.state = (self.state + state) & M64
        self.step()

    def step(self):
        self.state = (self.state * 6364136223846793005 + self.inc) & M64

    def draw(self):
        old = self.state
        self.step()
        mixed, turn = ((old >> 18 ^ old) >> 27) & M32, old >> 59
        return (mixed >> turn | mixed << (-turn & 31)) & M32


def plain_philox(counter, key, rounds):
    """Philox4x32 by its definition (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(rounds):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & M32, (a >> 32) ^ c[3] ^ k[1], a & M32]
        k = [(k[0] + 0x9E3779B9) & M32, (k[1] + 0xBB67AE85) & M32]
    return c


def entries(value):
    return value.numpy().tolist()


# PCG32


def test_pcg_first_numbers_of_the_published_demo():
    # The output of the C library's demo for the seed 42 and the sequence 54.
    rng = PCG32(1, 42, 54)
    numbers = [entries(rng.next_uint32())[0] for _ in range(6)]
    assert numbers == [0xA15C02B7, 0x7B47F409, 0xBA1D3330, 0x83D2F293, 0xBFA4784B, 0xCBED606E]


@pytest.mark.parametrize("size", [1, 2, 17])
def test_pcg_streams(tier, size):
    rng = PCG32(size, 5, 9)
    plain = [PlainPCG32(5 + i, 9 + i) for i in range(size)]
    for _ in range(3):
        assert entries(rng.next_uint32()) == [p.draw() for p in plain]
    low, high = [p.draw() for p in plain], [p.draw() for p in plain]
    wide = [a | b << 32 for a, b in zip(low, high, strict=True)]
    assert entries(rng.next_uint64()) == wide
    assert entries(rng.state) == [p.state for p in plain]
    assert entries(rng.inc) == [p.inc for p in plain]


def test_pcg_floats(tier):
    rng, words = PCG32(1000), PCG32(1000)
    w = words.next_uint32().numpy()
    assert np.array_equal(rng.next_float32().numpy(), (w >> 9) * np.float32(2**-23))
    w = words.next_uint32().numpy()
    assert np.array_equal(rng.next_float64().numpy(), w * 2.0**-32)
    w = words.next_uint32().numpy()
    half = ((w >> 9) * np.float32(2**-23)).astype(np.float16)
    assert np.array_equal(rng.next_float16().numpy(), half)


@pytest.mark.parametrize(
    ("bits", "kind", "tolerance"), [(16, Float16, 4e-3), (32, Float, 1e-4), (64, Float64, 1e-8)]
)
def test_pcg_normal_is_the_quantile_of_the_uniform_number(tier, bits, kind, tolerance):
    special = pytest.importorskip("scipy.special")
    rng, words = PCG32(1000), PCG32(1000)
    uniform = words.next_float64() if bits == 64 else words.next_float32()
    expected = special.ndtri(uniform.numpy().astype(np.float64))
    found = rng.next_float_normal(kind)
    assert type(found) is kind
    assert np.allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)
    assert entries(rng.state) == entries(words.state)
    again = getattr(PCG32(1000), f"next_float{bits}_normal")()
    assert np.array_equal(again.numpy(), found.numpy())


def test_pcg_backwards(tier):
    rng = PCG32(3)
    start = entries(rng.state)
    forward = [rng.next_uint32(), rng.next_uint64(), rng.next_float32(), rng.next_float64_normal()]
    back = [rng.prev_float64_normal(), rng.prev_float32(), rng.prev_uint64(), rng.prev_uint32()]
    for a, b in zip(forward, reversed(back), strict=True):
        assert entries(a) == entries(b)
    assert entries(rng.state) == start


def test_pcg_mask(tier):
    rng, free = PCG32(2), PCG32(2)
    before = entries(rng.state)
    number = rng.next_uint32(Bool(True, False))
    assert entries(number) == entries(free.next_uint32())
    assert entries(rng.state) == [entries(free.state)[0], before[1]]
    rng.next_float(Float, False)
    assert entries(rng.state) == [entries(free.state)[0], before[1]]
    rng.prev_uint32(Bool(True, False))
    assert entries(rng.state) == before


@pytest.mark.parametrize("steps", [0, 1, 5, 200, 2**40 + 3, -7])
@pytest.mark.compiled_every(3)
def test_pcg_jumps(tier, steps):
    rng = PCG32(2)
    moved = rng + steps
    ahead, back = moved - rng, rng - moved
    again, mixed = (moved - steps).state, (rng + Int64(steps, 0)).state
    dr.eval(ahead, back, again, mixed, moved.state)  # in one kernel
    assert entries(ahead) == [steps, steps]
    assert entries(back) == [-steps, -steps]
    assert entries(again) == entries(rng.state)
    assert entries(mixed) == [entries(moved.state)[0], entries(rng.state)[1]]
    if 0 <= steps <= 200:
        plain = PCG32(2)
        for _ in range(steps):
            plain.next_uint32()
            dr.eval(plain.state)  # one small kernel for all steps
        assert entries(plain.state) == entries(moved.state)


def test_pcg_in_place_jump():
    rng = same = PCG32(2)
    rng += 4
    assert rng is same
    rng -= Int64(4)
    assert entries(rng.state) == entries(PCG32(2).state)


def test_pcg_bounded(tier):
    bound = 3_000_000_000  # rejects 3 words out of 10
    rng = PCG32(100)
    plain = [PlainPCG32(0x853C49E6748FEA9B + i, 0xDA3E39CB94B95BDB + i) for i in range(100)]
    expected = []
    for p in plain:
        word = p.draw()
        while word < (1 << 32) % bound:
            word = p.draw()
        expected.append(word % bound)
    assert entries(rng.next_uint32_bounded(bound)) == expected
    assert entries(rng.state) == [p.state for p in plain]
    assert max(entries(rng.next_uint64_bounded(10**12))) < 10**12
    assert entries(PCG32(5).next_uint32_bounded(1)) == [0] * 5
    power = PCG32(3)
    assert power.next_uint32_bounded(8).state == dr.VarState.Unevaluated
    assert entries(PCG32(2).next_uint32_bounded(6)) == [0, 3]


def test_pcg_bounded_in_recorded_code(tier):
    bound = 3_000_000_000

    def draws(rng, count):
        i, total = UInt(0), dr.zeros(UInt64, 5)
        while_ = dr.while_loop(
            (i, total, rng),
            lambda i, total, rng: i < count,
            lambda i, total, rng: (i + 1, total * 3 + rng.next_uint32_bounded(bound, i < 2), rng),
        )
        return while_[1], while_[2]

    counts = UInt(0, 1, 2, 3, 4)
    found, rng = draws(PCG32(5), counts)
    frozen, other = dr.freeze(draws)(PCG32(5), counts)
    state, want = PCG32(5), np.zeros(5, np.uint64)
    for k in range(4):
        inside = k < counts.numpy()
        word = state.next_uint32_bounded(bound, Bool(inside & (k < 2))).numpy()
        want = np.where(inside, want * np.uint64(3) + word, want)
    for values, generator in ((found, rng), (frozen, other)):
        np.testing.assert_array_equal(values.numpy(), want)
        assert entries(generator.state) == entries(state.state)


def test_pcg_seeds_and_copies():
    rng = PCG32(2, UInt64(1, 2), 7)
    assert entries(rng.state) != entries(PCG32(2).state)
    other = PCG32(rng)
    other.next_uint32()
    assert entries(other.state) != entries(rng.state)
    rng.seed(UInt(3), UInt64(4, 5))
    assert entries(rng.state) == [PlainPCG32(3, 4).state, PlainPCG32(3, 5).state]
    rng.state, rng.inc = UInt64(1, 2), 3
    assert entries(rng.state) == [1, 2]
    assert len(PCG32(0).next_float32()) == 0


def test_pcg_is_a_tree():
    assert set(PCG32.DRJIT_STRUCT) == {"state", "inc"}
    rng = PCG32(4)
    assert dr.width(rng) == 4
    rng.next_float32()
    assert dr.eval(rng)
    twin = dr.copy(rng)
    twin.next_float32()
    assert entries(twin.state) != entries(rng.state)
    assert type(ad.PCG32(2).next_float32()) is ad.Float


def test_pcg_of_python_numbers():
    rng = scalar.PCG32()
    traced = PCG32()
    for name in ("next_uint32", "next_uint64", "next_float32", "next_float64", "next_float16",
                 "prev_uint32", "prev_float32"):  # fmt: skip
        assert getattr(rng, name)() == getattr(traced, name)().numpy()[0]
    assert rng.state == traced.state[0]
    assert (rng + 9) - rng == 9
    assert rng - (rng + 9) == -9
    assert rng.next_uint32_bounded(10) < 10
    assert rng.next_float(float) == rng.prev_float(float)


def test_python_numbers_have_double_precision():
    rng, again = scalar.PCG32(), scalar.PCG32()
    for name in ("next_float", "next_float_normal"):
        for _ in range(5):
            found = getattr(rng, name)(float)
            exact = getattr(again, name.replace("float", "float64"))()
            assert found == exact and found != float(np.float32(found))
    assert scalar.PCG32().next_float(float) == 0.10837870510295033
    generator = dr.rng(0)
    got = [generator.random(float, 1) for _ in range(3)]
    assert got == [0.31034912362435585, 0.613184740847206, 0.6246202731388435]
    np.testing.assert_allclose(dr.rng(0).normal(float, 1, 5, 2), 5.612412229151625, rtol=1e-14)
    np.testing.assert_allclose(dr.rng(0).uniform(float, 1, 5, 7), 5.620698247248711, rtol=1e-14)


@pytest.mark.parametrize(
    "call",
    [
        lambda: PCG32(-1),
        lambda: PCG32("a"),
        lambda: PCG32(2.0),
        lambda: PCG32(1, "a"),
        lambda: PCG32(1, -1),
        lambda: PCG32().next_float(UInt),
        lambda: PCG32().next_float(float),
        lambda: PCG32().next_float(3),
        lambda: PCG32().next_uint32_bounded(0),
        lambda: PCG32().next_uint32_bounded(1 << 32),
        lambda: PCG32().next_uint32_bounded(2.5),
        lambda: PCG32().next_uint32("mask"),
        lambda: PCG32() + 1.5,
        lambda: PCG32() + "a",
        lambda: 1 + PCG32(),
    ],
)
def test_pcg_bad_input(call):
    with pytest.raises(TypeError):
        call()


def test_pcg_sizes_that_do_not_fit():
    with pytest.raises(RuntimeError, match="size"):
        PCG32(3, UInt64(1, 2))


# Philox4x32


@pytest.mark.parametrize(
    ("counter", "seed", "expected"),
    [
        ((0, 0, 0), 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        # The last word of the counter is the number of blocks, which the published vectors exceed.
        ((7, 8, 9), 0x0123456789ABCDEF, None),
    ],
)
def test_philox_blocks(tier, counter, seed, expected):
    rng = Philox4x32(seed, *counter, iterations=10)
    key = (seed >> 32, seed & M32)
    for block in range(3):
        found = rng.next_uint32x4().numpy().ravel().tolist()
        assert found == plain_philox((*counter, block), key, 10)
        if expected and not block:
            assert found == expected


def test_philox_types_of_numbers(tier):
    def rng():
        return Philox4x32(5, dr.arange(UInt, 100))

    words = rng().next_uint32x4().numpy()
    last = [plain_philox((i, 0, 0, 0), (0, 5), 7)[3] for i in range(100)]
    assert words[3].tolist() == last
    pairs = words[::2].astype(np.uint64) | words[1::2].astype(np.uint64) << np.uint64(32)
    assert np.array_equal(rng().next_uint64x2().numpy(), pairs)
    singles = (words >> 9) * np.float32(2**-23)
    assert np.array_equal(rng().next_float32x4().numpy(), singles)
    assert np.array_equal(rng().next_float16x4().numpy(), singles.astype(np.float16))
    doubles = (pairs >> np.uint64(12)) * 2.0**-52
    assert np.array_equal(rng().next_float64x2().numpy(), doubles)
    radius, angle = np.sqrt(-2 * np.log(1 - doubles[0])), 2 * np.pi * doubles[1]
    expected = [radius * np.cos(angle), radius * np.sin(angle)]
    assert np.allclose(rng().next_float64x2_normal().numpy(), expected)
    radius, angle = np.sqrt(-2 * np.log(1 - singles[2:])), 2 * np.pi * singles[:2]
    columns = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(4, -1)
    assert np.allclose(rng().next_float32x4_normal().numpy(), columns, rtol=1e-4, atol=1e-5)
    assert np.allclose(rng().next_float16x4_normal().numpy(), columns, rtol=2e-3, atol=1e-3)


def test_philox_mask_and_members():
    rng = Philox4x32(5, UInt(0, 1))
    rng.next_float32x4(Bool(True, False))
    assert entries(rng.counter) == [[0, 1], [0, 0], [0, 0], [1, 0]]
    assert entries(rng.seed) == [[0], [5]]
    assert rng.iterations == 7
    copy = Philox4x32(rng)
    copy.next_uint32x4()
    assert entries(copy.counter)[3] == [2, 1]
    assert entries(rng.counter)[3] == [1, 0]
    copy.counter, copy.iterations = [0, 0, 0, 0], 0
    assert entries(copy.next_uint32x4()) == [[0], [0], [0], [0]]


def test_philox_of_python_numbers():
    traced = Philox4x32(5, 3)
    rng = scalar.Philox4x32(5, 3)
    for name in ("next_uint32x4", "next_float32x4", "next_float64x2", "next_uint64x2"):
        assert list(getattr(rng, name)()) == getattr(traced, name)().numpy().ravel().tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Philox4x32(5, -1),
        lambda: Philox4x32(5, 1.0),
        lambda: Philox4x32("a", 0),
        lambda: Philox4x32(5, 0, iterations=-1),
        lambda: Philox4x32(5, 0).next_uint32x4(3),
    ],
)
def test_philox_bad_input(call):
    with pytest.raises(TypeError):
        call()


# Generators of arrays

# The stream is part of the interface: these numbers must never change.
U = [0.0853155, 0.94187, 0.835392, 0.313272, 0.0849707, 0.93962]


def same(found, expected):
    assert np.allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_fixed_stream(tier):
    same(dr.rng(5).random(Float, 6), U)
    same(dr.rng(5).random(Float64, 3), U[:3])
    same(dr.rng(5).random(TensorXf, (2, 3)).array, U)
    same(dr.rng(5).random(ad.Float, 3), U[:3])
    rng = dr.rng(5)
    rng.random(Float, 100)
    same(rng.random(Float, 3), [0.589149, 0.918342, 0.803483])
    same(dr.rng(5).normal(Float, 4), [-0.422253, 0.978531, -1.08348, -0.860159])
    same(dr.rng(5).normal(Float64, 3), [0.847056, -0.133301, -1.15813])
    assert entries(dr.rng(5).integers(Int, 6, -5, 5)) == [-5, 4, 3, -2, -5, 4]
    assert entries(dr.rng(5).integers(UInt, 3, 3 << 30)) == [274820595, 3033976675, 2588199487]
    assert entries(dr.rng(UInt64(5)).integers(UInt, 6, 10)) == [0, 9, 8, 3, 0, 9]


def test_components_of_nested_arrays(tier):
    same(dr.rng(5).random(Array2f, (2, 3)), [U[:3], [0.411792, 0.0567534, 0.26783]])
    same(dr.rng(5).random(Matrix2f, (2, 2, 1))[0, 0], [0.0853155])
    same(
        np.ravel(dr.rng(5).random(ArrayXf, (6, 1))),
        [0.0853155, 0.411792, 0.747224, 0.657603, 0.589149, 0.124373],
    )
    same(dr.rng(5).random(Array3f64, (3, 1)), [[0.0853155], [0.747225], [0.58915]])
    same(dr.rng(5).random(scalar.Array3f, 3), [0.0853155, 0.411792, 0.747224])
    same(dr.rng(5).random(float, 1), U[0])
    same(dr.rng(5).random(scalar.TensorXf, (2, 3)).array, U)


def test_intervals_and_moments(tier):
    rng = dr.rng(1)
    u = rng.uniform(Float, 10000, -2, 3).numpy()
    assert u.min() >= -2
    assert u.max() < 3
    assert abs(u.mean() - 0.5) < 0.05
    n = rng.normal(Float, 10000, 5, 2).numpy()
    assert abs(n.mean() - 5) < 0.1
    assert abs(n.std() - 2) < 0.1
    low = rng.uniform(Float, 3, Float(0, 10, 20), Float(1, 11, 21)).numpy()
    assert np.array_equal(np.floor(low), [0, 10, 20])


@pytest.mark.parametrize("kind", [Int, UInt, TensorXi, Array2u])
def test_integers(tier, kind):
    shape = (2, 500) if kind in (TensorXi, Array2u) else 1000
    found = dr.rng(2).integers(kind, shape, 3, 9, endpoint=True)
    assert type(found) is kind
    numbers = np.ravel(found)
    assert set(numbers.tolist()) == set(range(3, 10))


def test_integers_of_the_whole_range_and_of_array_bounds(tier):
    whole = dr.rng(2).integers(Int, 1000, -(2**31), 2**31 - 1, endpoint=True).numpy()
    assert whole.min() < -(2**30)
    assert whole.max() > 2**30
    low, high = Int(-1, -10, -(2**31)), Int(1, 10, 2**31 - 1)
    for endpoint in (False, True):
        found = dr.rng(2).integers(Int, 3, low, high, endpoint).numpy()
        assert np.all(found >= low.numpy())
        assert np.all(found <= high.numpy() - (not endpoint))
    assert dr.rng(3).integers(int, 1, 4, 5) == 4


def test_generator_compiles_once_and_draws_what_is_used(tier):
    rng = dr.rng(8)

    def draw():
        values = rng.random(Float, 1000) + rng.normal(Float, 1000)
        dr.eval(values)
        return values

    draw()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        found = [draw().numpy().tolist() for _ in range(5)]
        history = dr.kernel_history()
    assert len({tuple(f) for f in found}) == 5
    assert len(history) == 5
    assert len({h["hash"] for h in history}) == 1
    assert all(h["cache_hit"] for h in history)
    assert rng.random(Float, 3).state == dr.VarState.Unevaluated


def test_seeds_are_data():
    def draw(seed):
        dr.eval(dr.rng(seed).random(Float, 77))

    draw(1)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for seed in range(2, 6):
            draw(seed)
        assert len({h["hash"] for h in dr.kernel_history()}) == 1


def test_symbolic_state_is_not_evaluated():
    rng = dr.rng(UInt64(5), symbolic=True)
    same(rng.random(Float, 3), U[:3])
    same(rng.random(Float, 1), [0.589149])
    assert rng._counter.state == dr.VarState.Literal


def test_clone_and_representation():
    rng = dr.rng(5)
    assert repr(rng) == "Philox4x32Generator[seed=5, counter=0]"
    rng.random(Float, 2)
    twin = rng.clone()
    assert repr(rng) == "Philox4x32Generator[seed=5, counter=1]"
    assert entries(rng.random(Float, 9)) == entries(twin.random(Float, 9))
    assert isinstance(rng, dr.random.Generator)
    assert isinstance(rng, dr.random.Philox4x32Generator)
    same(dr.random.Philox4x32Generator(5, 7).random(Float, 2), [0.457619, 0.964543])


def test_seeds_of_entries():
    same(dr.rng(UInt64(5, 6)).random(Float, 2), [0.0853155, 0.299814])


def test_permutation():
    assert entries(dr.rng(5).permutation(UInt, 8)) == [4, 0, 3, 6, 2, 7, 5, 1]
    for axis in ((), (0,), (-1,)):
        assert entries(dr.rng(5).permutation(Float(10, 20, 30, 40), *axis)) == [10, 40, 30, 20]
    with pytest.raises(RuntimeError, match="axis 1"):
        dr.rng(5).permutation(Float(1, 2), axis=1)
    table = TensorXf([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert entries(dr.rng(5).permutation(table)) == [[1, 2, 3], [7, 8, 9], [4, 5, 6]]
    assert entries(dr.rng(5).permutation(table, axis=-1)) == [[1, 3, 2], [4, 6, 5], [7, 9, 8]]
    assert sorted(dr.rng(5).permutation(scalar.ArrayXf(3, 1, 2))) == [1, 2, 3]
    for n in (0, 1):
        rng = dr.rng(5)
        assert entries(rng.permutation(UInt, n)) == list(range(n))
        same(rng.random(Float, 1), U[:1])


def test_empty_results(tier):
    rng = dr.rng(5)
    assert len(rng.random(Float, 0)) == 0
    assert rng.random(TensorXf, (0, 4)).shape == (0, 4)
    assert len(rng.integers(UInt, 0, 10)) == 0
    assert len(rng.permutation(Float())) == 0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda g: g.random(UInt, 3), RuntimeError),
        (lambda g: g.random(int, 3), RuntimeError),
        (lambda g: g.random(Array2f, 3), RuntimeError),
        (lambda g: g.random(Array2f, (3, 3)), RuntimeError),
        (lambda g: g.random(Float, (2, 2)), RuntimeError),
        (lambda g: g.random(Float, ()), RuntimeError),
        (lambda g: g.random(Float, -1), TypeError),
        (lambda g: g.random(Float, "a"), TypeError),
        (lambda g: g.uniform(UInt, 3, 0, 2), RuntimeError),
        (lambda g: g.normal(UInt, 3), RuntimeError),
        (lambda g: g.integers(Float, 3, 5), RuntimeError),
        (lambda g: g.integers(UInt64, 3, 5), RuntimeError),
        (lambda g: g.integers(UInt, 3), ValueError),
        (lambda g: g.integers(UInt, 3, 5, 5), ValueError),
        (lambda g: g.integers(UInt, 3, -1, 5), ValueError),
        (lambda g: g.integers(UInt, 3, 0, 2**33), ValueError),
        (lambda g: g.integers(Int, 3, Int(1, 2, 3), Int(5, 2, 5)), ValueError),
        (lambda g: g.permutation(UInt, -1), RuntimeError),
        (lambda g: g.permutation([1, 2, 3]), RuntimeError),
        (lambda g: g.permutation(Array2f([1, 2], [3, 4])), RuntimeError),
        (lambda g: g.permutation(TensorXf([[1, 2]]), 2), RuntimeError),
        (lambda g: dr.rng(-1), TypeError),
        (lambda g: dr.rng(2**64), TypeError),
        (lambda g: dr.rng("a"), ValueError),
        (lambda g: dr.rng(Array2f(1)), TypeError),
        (lambda g: dr.rng(0, "mersenne"), RuntimeError),
        (lambda g: dr.random.Generator().random(Float, 3), NotImplementedError),
        (lambda g: dr.random.Generator().clone(), NotImplementedError),
    ],
)
def test_generator_bad_input(call, error):
    with pytest.raises(error):
        call(dr.rng(5))


@pytest.mark.parametrize(
    ("seed", "counter"), [(UInt64(7), 0), (UInt(7), 0), (7, UInt(0)), (UInt(7), UInt(0))]
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_generators_in_symbolic_loops(seed, counter, symbolic, tier):
    def drawn(n):
        generator = dr.random.Philox4x32Generator(seed, counter, symbolic)
        state = UInt(0), Float(0), UInt(0), generator

        def body(i, total, integers, rng):
            total += rng.random(Float, 3)
            integers += rng.integers(UInt, 3, 3 << 30) >> 20
            return i + 1, total, integers, rng

        found = dr.while_loop(state, lambda i, *_: i < n, body, mode="symbolic")
        return found[1].numpy(), found[2].numpy(), found[3]

    totals, integers, rng = drawn(UInt(2, 2, 2))
    again = dr.rng(seed)
    first, _ = again.random(Float, 3), again.integers(UInt, 3, 1 << 30)
    np.testing.assert_allclose(totals, (first + again.random(Float, 3)).numpy(), rtol=1e-6)
    assert (integers < 2 * 3072).all()
    again.integers(UInt, 3, 1 << 30)
    same(rng.random(Float, 3), again.random(Float, 3).numpy())


def test_integers_of_recorded_programs_are_unbiased_and_take_one_call(tier):
    rng = dr.rng(5, symbolic=True)
    found = rng.integers(UInt, 30000, 3 << 30)
    assert found.state == dr.VarState.Unevaluated
    counts = np.bincount(found.numpy() % 3, minlength=3)  # without redrawing, half are multiples
    assert counts.sum() == 30000 and (abs(counts - 10000) < 400).all()
    # What is not rejected is what a generator with a counter in memory gives.
    words = dr.rng(5).integers(UInt, 30000, 1 << 32).numpy().astype(np.uint64)
    kept = (words * (3 << 30) & 0xFFFFFFFF) >= (1 << 32) % (3 << 30)
    assert np.array_equal(found.numpy()[kept], (words[kept] * (3 << 30)) >> 32)
    following = dr.rng(5)
    following.integers(UInt, 1, 1 << 30)
    same(rng.random(Float, 3), following.random(Float, 3).numpy())
    low, high = TensorXi([[-4], [5]]), TensorXi([[6, 9, 7]])
    values = dr.rng(5, symbolic=True).integers(TensorXi, (2, 3), low, high).numpy()
    assert ((values >= low.numpy()) & (values < high.numpy())).all()

"""Long kernels in the SIMD target: their blocks are parted, so that compiling takes a time that is
linear in their length.
"""

import numpy as np
import pytest
from test_simd import (
    call,
    test_compress,
    test_nested_control_flow,
    test_reductions_of_every_type_over_several_blocks,
    test_while,
)

from drjit.jit.target import simd
from drjit.jit.target.simd import translate
from drjit.jit.target.simd.kernel import module_text

# Run again by this module, with blocks as short as can be.
__all__ = [
    "test_compress", "test_nested_control_flow",
    "test_reductions_of_every_type_over_several_blocks", "test_while",
]  # fmt: skip


@pytest.fixture(autouse=True)
def short_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.function.__name__ in __all__:
        monkeypatch.setattr(translate, "BLOCK_LINES", 0)


def chain(length: int, indent: str = "    ") -> str:
    """Statements that add 1 to `x` so many times."""
    return "".join([f"{indent}x = x + 1\n" for _ in range(length)])


def straight(length: int) -> str:
    """The kernel text of a chain."""
    return (
        "def kernel(i, p):\n    x = load(f32, p[1], i)\n"
        f"{chain(length)}    store(f32, p[2], i, x)\n"
    )


def looping(length: int) -> str:
    """The kernel text of three rounds of a chain."""
    return (
        "def kernel(i, p):\n    x = load(f32, p[1], i)\n    n = lane(i) * 0\n    live = n < 3\n"
        "    while any_lane(live):\n"
        f"{chain(length, '        ')}        n = n + 1\n        live = n < 3\n"
        "    store(f32, p[2], i, x)\n"
    )


def blocks(text: str) -> list[int]:
    """The lines of each block of a kernel's module."""
    module = module_text(text, "k", simd.default_lanes(), False)
    lengths = [0]
    for line in module.ir.split("\n"):
        if line.endswith(":"):
            lengths.append(0)
        lengths[-1] += 1
    assert module.uncombined
    return lengths


@pytest.mark.parametrize("text", [straight, looping])
def test_blocks_are_bounded_and_their_number_is_proportional_to_the_length(text) -> None:
    limit = translate.BLOCK_LINES + 50
    counts = []
    for length in (4_000, 8_000, 16_000):
        lengths = blocks(text(length))
        assert max(lengths) <= limit
        counts.append(len(lengths))
    assert abs(counts[1] - counts[0] - 4) <= 1
    assert abs(counts[2] - counts[1] - 8) <= 1


def test_blocks_of_short_kernels_stay_whole() -> None:
    assert "never:" not in module_text(straight(900), "k", 16, False).ir


@pytest.mark.parametrize(("text", "added"), [(straight, 3_000), (looping, 9_000)])
def test_a_long_kernel_computes_what_a_short_one_would(text, added: int) -> None:
    x, y = np.arange(17, dtype=np.float32), np.zeros(17, np.float32)
    call(text(3_000), [0, x, y], 17, simd.default_lanes())
    np.testing.assert_array_equal(y, x + added)


def test_packets_of_long_loops_are_single_vectors() -> None:
    one = simd.default_lanes()
    widths = [simd.packet_lanes(looping(length)) // one for length in (10, 500, 1_500)]
    assert widths == [4 if one == 16 else 2, 2, 1]


@pytest.mark.parametrize("code", ["f32", "u64", "f16", "mask"])
def test_many_parameters(code):
    """Addresses, sizes and broadcast values that registers have no room for are read where they
    are used."""
    count, n = 70, 37
    t = {"mask": np.bool_, "f32": np.float32, "u64": np.uint64, "f16": np.float16}[code]
    rng = np.random.default_rng(1)
    numbers = [rng.integers(0, 2, 1).astype(t) for _ in range(count)]
    arrays = [rng.integers(0, 2, n).astype(t) for _ in range(count)]
    sizes = [np.uint64(rng.integers(1, n + 1)) for _ in range(count)]
    lines = ["def kernel(i, p):", "    a = active(i)", "    x = lane(i)", f"    s = {code}(0)"]
    plus, times = "^&" if code == "mask" else "+*"
    for k in range(count):
        lines += [
            f"    b{k} = broadcast({code}, p[{1 + k}])",
            f"    m{k} = in_bounds(p[0], {k}, x, p[{1 + 2 * count + k}], a)",
            f"    g{k} = gather({code}, p[{1 + count + k}], x, m{k})",
            f"    s = s {plus} (g{k} {times} b{k})",
        ]
    last = 1 + 3 * count
    text = "\n".join([*lines, f"    store({code}, p[{last}], i, s)"])
    got = np.zeros(n, t)
    call(text, [np.zeros(6, np.int64), *numbers, *arrays, *sizes, got], n, simd.default_lanes())
    want = np.zeros(n, t)
    for b, array, size in zip(numbers, arrays, sizes, strict=True):
        part = np.where(np.arange(n) < size, array, t(0))
        want = want ^ (part & b) if code == "mask" else (want + part * b).astype(t)
    np.testing.assert_array_equal(got, want)
    ir = module_text(text, "k", 8, False).ir
    entry = ir.partition("packet:")[0]
    assert entry.count("load") < 10

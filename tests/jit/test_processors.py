"""Shapes follow from the registers of a processor: tables of those chosen for several, and the hot
loops of kernels for these, as assembly text. Nothing runs.
"""

import re
from functools import reduce
from operator import add

import numpy as np
import pytest

import drjit as dr
from drjit.jit import processor
from drjit.jit.cpu import primitives as cpu_matmul
from drjit.jit.target import simd
from drjit.jit.target.simd import llvm
from drjit.jit.target.simd.ir import Machine
from drjit.jit.target.simd.kernel import module_text
from drjit.jit.target.simd.matmul import _register_tile
from drjit.jit.target.simd.matvec import registers_across, rows_down
from drjit.jit.target.simd.stepping import Stepping
from drjit.llvm import Float, Float16

X86 = "x86_64-unknown-linux-gnu"
BEFORE = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt"
# The processor, its features, and the bytes of a register.
TARGETS = {
    "haswell": (X86, "haswell", BEFORE, 32),
    "znver3": (X86, "znver3", BEFORE, 32),
    "skylake-avx512": (X86, "skylake-avx512", f"{BEFORE},+avx512f,+avx512vl,+avx512dq", 64),
    "znver4": (X86, "znver4", "", 64),
    "sapphirerapids": (X86, "sapphirerapids", "", 64),
    "neon": ("aarch64-unknown-linux-gnu", "generic", "+neon", 16),
}
AVX2 = ("haswell", "znver3")


@pytest.fixture
def target(request, monkeypatch):
    """The name of the processor for which text is compiled."""
    llvm.binding.initialize_all_targets()
    llvm.binding.initialize_all_asmprinters()
    width = TARGETS[request.param][3]
    monkeypatch.setattr(processor, "register_bytes", lambda: width)
    monkeypatch.setattr(llvm, "host", lambda: Machine(width, width == 64))
    return request.param


def targets(*names):
    return pytest.mark.parametrize("target", names or TARGETS, indirect=True)


def lowered(text, target):
    """Returns the machine code of a kernel's text as assembly text."""
    triple, cpu, features, _ = TARGETS[target]
    machine = llvm.binding.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic"
    )
    made = module_text(text, "kernel", simd.packet_lanes(text), True)
    ir = f'target triple = "{triple}"\n{made.ir}'
    module = llvm.binding.parse_assembly(ir, llvm.binding.create_context())
    manager, builder = llvm.Compiler().passes(made.uncombined, False, False)
    manager.run(module, builder)
    return machine.emit_assembly(module)


def blocks(assembly):
    """Returns the instructions of each block."""
    parts = re.split(r"^\.?L\w*BB\w+:.*$", assembly, flags=re.M)
    return [re.findall(r"^\t([a-z].*)$", part, flags=re.M) for part in parts]


def on_stack(instructions):
    """Returns the instructions that access vectors on the stack."""
    return [x for x in instructions if re.search(r"\(%r[sb]p\)", x) and re.search(r"%[yz]mm", x)]


STRAIGHT = "def kernel(i, p):\n    x0 = load(f32, p[1], i)\n    store(f32, p[2], i, x0)\n"
REDUCED = STRAIGHT + "    reduce(f32, 'add', p[3], p[4], i, x0)\n"
CALLS = REDUCED.replace("    reduce(f32, 'add', p[3], p[4], i, x0)", "    v0 = sin(x0)")
LOOP = STRAIGHT + "    while any_lane(v0):\n        pass\n"
UPDATES = "".join([f"        v{k} = select(v0, v{k + 30}, v{k})\n" for k in range(1, 18)])
STATES = STRAIGHT + f"    while any_lane(v0):\n{UPDATES}"
LOOKED_UP = STATES + "    v50 = gather(f32, p[5], v1, v0)\n"
UPDATED = STRAIGHT + 2 * (
    "    scatter_reduce_packet(f32, 'add', p[3], p[4], p[5], x1, v0, x0, x0)\n"
    "    scatter_reduce_expand(f32, 'add', p[6], p[7], p[8], x0, x1, v0)\n"
)
VECTORS = STRAIGHT + "    v0 = splat(f32, 64, x0)\n"


@pytest.mark.parametrize(
    ("target", "lanes"),
    [
        # A plain kernel, a short one with a reduction, one of library calls, a loop, one with
        # many variables, the same with a look-up, one that updates memory, vectors.
        ("haswell", (8, 16, 32, 16, 16, 16, 8, 16)),
        ("skylake-avx512", (16, 32, 64, 64, 16, 64, 8, 16)),
        ("neon", (8, 8, 16, 8, 8, 8, 8, 16)),
    ],
    indirect=["target"],
)
def test_lanes_of_a_packet(target, lanes):
    texts = (STRAIGHT, REDUCED, CALLS, LOOP, STATES, LOOKED_UP, UPDATED, VECTORS)
    assert tuple([simd.packet_lanes(text) for text in texts]) == lanes


@pytest.mark.parametrize(
    ("register", "tiles", "block"),
    [
        # Rows and registers of accumulators: products of matrices with many, 4 and 1 rows; a matrix
        # and the vectors of 16 lanes.
        (32, ((6, 2), (4, 2), (1, 6)), (6, 2)),
        (64, ((8, 2), (4, 4), (1, 8)), (16, 1)),
        (16, ((6, 4), (4, 4), (1, 8)), (6, 4)),
    ],
)
def test_tiles_of_products(register, tiles, block):
    c = Stepping(register)
    lanes, registers = c.width("f32"), 16 // c.width("f32")
    assert tuple([_register_tile(c, rows, 1 << 10, lanes) for rows in (8, 4, 1)]) == tiles
    assert (rows_down(c, 96, registers), registers) == block
    for rows, vectors in (*tiles, block, (4, registers_across(c, 8))):
        # The sums, a row of the one operand, and a broadcast element of the other.
        assert rows * vectors + min(vectors, 2) + 1 <= c.machine.registers


@pytest.mark.parametrize(("kib", "columns"), [(256, 64), (512, 64), (1024, 128), (2048, 256)])
def test_blocks_of_products_fill_half_of_the_second_level_cache(kib, columns, monkeypatch):
    monkeypatch.setattr(processor, "second_level_cache", lambda: kib << 10)
    assert cpu_matmul._widest_tile(cpu_matmul._DEPTH) == columns


def matmul(rows):
    operands = "p[1], p[2], p[3], i, p[4], p[5], False, False"
    return f"def kernel(i, p):\n    matmul(f32, {rows}, 64, 256, {operands})\n"


MATVEC = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    v0 = splat(f32, 96, x0)
    v1 = matvec(f32, p[2], p[3], 96, 96, 96, False, v0)
    store_vector(f32, 96, p[4], i, v1)
"""


@targets(*AVX2)
@pytest.mark.parametrize(
    ("text", "products"), [(matmul(8), 12), (matmul(4), 8), (matmul(1), 6), (MATVEC, 12)]
)
def test_sums_of_products_stay_in_registers(text, products, target):
    inner = [b for b in blocks(lowered(text, target)) if str(b).count("vfmadd") == products]
    assert inner
    # There is another loop that packs the operand along the way.
    assert not on_stack(min(inner, key=len))


def chains(count, length):
    """Independent sequences of multiply-adds, each beginning with a literal."""
    x = dr.opaque(Float, 0.5, 100)
    values = [x + k for k in range(count)]
    for _ in range(length):
        values = [dr.fma(v, x, x) for v in values]
    return reduce(add, values)


@targets(*AVX2)
@pytest.mark.parametrize("count", [8, 12])
def test_independent_operations_are_not_ordered_one_after_the_other(count, target):
    """A multiply-add takes four cycles, in which eight can begin."""
    code = lowered(dr.kernel_source(chains(count, 20)), target)
    fused = [x.rpartition("%")[2] for b in blocks(code) for x in b if x.startswith("vfmadd")]
    assert len(fused) == 20 * count
    places = range(count, len(fused) - count, count)
    assert all(len(set(fused[k : k + 8])) == 8 for k in places)


@targets("haswell")
def test_masks_are_compressed_without_a_loop_over_lanes(target):
    code = lowered("def kernel(i, p):\n    x0 = load(mask, p[1], i)\n"
                   "    compress(p[2], p[3], i, x0)\n", target)  # fmt: skip
    assert len(re.findall(r"^\tv?popcnt|^\tpopcnt", code, flags=re.M)) == 1
    assert len(re.findall(r"^\t\w", code, flags=re.M)) < 120


@targets("haswell", "znver3")
@pytest.mark.parametrize("to", ["i64", "u64"])
def test_floats_become_64_bit_integers_in_vectors(to, target):
    text = "def kernel(i, p):\n    x0 = load(f64, p[1], i)\n"
    code = lowered(f"{text}    v0 = {to}(x0)\n    store({to}, p[2], i, v0)\n", target)
    assert "cvttsd2si" not in code


HALVES = """def kernel(i, p):
    x0 = load(f16, p[1], i)
    x1 = load(f16, p[2], i)
    v0 = x0 * x1
    v1 = v0 + x1
    v2 = fma(v0, v1, x0)
    v3 = sqrt(v2) / x1
    store(f16, p[3], i, v3)
"""


@targets("znver4", "sapphirerapids")
@pytest.mark.parametrize(
    "text", [HALVES, MATVEC.replace("f32", "f16"), matmul(8).replace("f32", "f16")]
)
def test_instructions_that_round_otherwise_are_not_used(text, target):
    """The processors have AVX512-BF16, the second one also arithmetic of halves and AMX. Fused
    operations of these, and all of bfloat16, would give other results. Sums, products, quotients
    and roots of halves are used: see the next test."""
    names = {x.split()[0] for b in blocks(lowered(text, target)) for x in b}
    assert any(name.startswith("vfmadd") and name.endswith("ps") for name in names)
    assert not [name for name in names if re.search(r"bf16|^tdp|^tile|^vf\w+[ps]h$", name)]
    if text is HALVES:
        assert ("vmulph" in names) == (target == "sapphirerapids")


@pytest.mark.parametrize("f", ["x + y", "x - y", "x * y", "x / y", "dr.sqrt(dr.abs(x))"])
def test_operations_on_halves_round_once(f, tier):
    """Rounding to single precision first changes nothing, as 24 is at least 2 * 11 + 2 (S. A.
    Figueroa, "When is double rounding innocuous?", ACM SIGNUM 30(3), 1995)."""
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 1 << 16, (2, 1 << 16)).astype(np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        exact = eval(
            f.replace("dr.", "np."), {"np": np, "x": x.astype(float), "y": y.astype(float)}
        )
        want = exact.astype(np.float16)
    got = eval(f, {"dr": dr, "x": Float16(x), "y": Float16(y)}).numpy()
    np.testing.assert_array_equal(got, want)

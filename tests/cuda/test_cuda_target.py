"""The CUDA target: kernel text becomes PTX, which the assembler accepts where it is installed."""

import re

import numpy as np
import pytest
from cuda_call import call
from ptxas_resources import ptxas

from drjit.jit.target import cuda
from drjit.jit.target.cuda import nvptx
from drjit.jit.target.simd.ir import KernelError

pytest.importorskip("llvmlite")

TYPES = ["mask", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"]
AXPY = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    c0 = literal(f32, p[2])
    v0 = fma(x0, c0, x0)
    store(f32, p[3], i, v0)
"""


def lowered(text, words=8, **options):
    return cuda.compile(text, "k", words, **options)


def assembled(code):
    """Machine code, or None where there is no assembler."""
    tool = ptxas()
    return tool and tool.assemble(code, "sm_90")


def test_a_lane_is_a_thread():
    made = lowered(AXPY, 4, capability=(9, 0))
    assert not made.strides and made.by_value and not made.finish
    assert ".target sm_90" in made.code and "ld.global" in made.code and "fma.rn.f32" in made.code
    assert "bar.sync" not in made.code
    assembled(made.code)


@pytest.mark.parametrize("code", TYPES)
def test_memory_of_every_type(code):
    text = f"""def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    x0 = load({code}, p[1], i)
    v2 = in_bounds(p[0], 0, v1, p[2], v0)
    v3 = gather({code}, p[3], v1, v2)
    scatter({code}, p[4], v3, v1, v2)
    y0, y1, y2, y3 = gather_packet({code}, p[3], v1, v2, 4)
    scatter_packet({code}, p[4], v1, v2, y3, y2, y1, y0)
    v4 = scatter_exch({code}, p[5], x0, v1, v2)
    v5 = scatter_cas({code}, p[5], x0, v4, v1, v2)
    store({code}, p[6], i, v5)
"""
    assembled(lowered(text, capability=(9, 0)).code)


@pytest.mark.parametrize("code", TYPES)
def test_reductions_of_every_type(code):
    ops = ["and", "or"] if code == "mask" else ["add", "mul", "min", "max"]
    ops += ["and", "or"] if code[0] in "iu" else []
    lines = ["def kernel(i, p):", "    v0 = active(i)", f"    x0 = load({code}, p[1], i)"]
    for k, op in enumerate(ops):
        lines.append(f"    reduce({code}, '{op}', p[{2 + 2 * k}], p[{3 + 2 * k}], i, x0)")
    lines.append("    v1 = lane(i)")
    for op in ops:
        lines.append(f"    scatter_reduce({code}, '{op}', 'direct', p[1], x0, v1, v0)")
    made = lowered("\n".join(lines) + "\n", 20, capability=(9, 0))
    assert made.strides
    assembled(made.code)


def test_many_parameters_are_in_memory():
    lines = ["def kernel(i, p):"]
    lines += [f"    x{k} = load(f32, p[{k + 1}], i)" for k in range(600)]
    lines += [f"    v{k + 1} = {f'v{k}' if k else 'x0'} + x{k}" for k in range(600)]
    lines += ["    store(f32, p[601], i, v600)", ""]
    made = lowered("\n".join(lines), 602, capability=(9, 0))
    assert not made.by_value
    assembled(made.code)


def test_halves_are_summed_in_single_precision():
    text = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    x0 = load(f16, p[1], i)
    scatter_reduce_expand(f16, 'add', p[2], p[3], p[4], x0, v1, v0)
"""
    made = lowered(text, 5, capability=(9, 0))
    assert made.finish == "k_finish" and re.search(r"(atom|red)\S*\.add\.f32", made.code)
    assembled(made.code)


@pytest.mark.parametrize("capability", [(7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0)])
def test_compute_capabilities(capability):
    code = lowered(AXPY, 4, capability=capability).code
    assert f".target sm_{capability[0]}{capability[1]}" in code


def test_primitives_of_the_processor_are_refused():
    text = "def kernel(i, p):\n    x0 = load(mask, p[1], i)\n    compress(p[2], p[3], i, x0)\n"
    with pytest.raises(KernelError, match="compress"):
        lowered(text)


@pytest.mark.parametrize("code", ["f16", "f32"])
@pytest.mark.parametrize("count", [2, 3, 4, 6])
@pytest.mark.parametrize("size", [40, 9000])  # the first fits into shared memory
def test_neighbouring_floats_are_added_together(count, code, size):
    kind = {"f16": np.float16, "f32": np.float32}[code]
    names = [f"x{k}" for k in range(count)]
    lines = ["def kernel(i, p):", "    v0 = active(i)", "    v1 = load(u32, p[1], i)"]
    lines += [f"    x{k} = load({code}, p[{k + 5}], i)" for k in range(count)]
    target = f"{code}, 'add', p[2], p[3], p[4], v1, v0, {', '.join(names)}"
    text = "\n".join([*lines, f"    scatter_reduce_packet({target})", ""])
    n, rng = 500, np.random.default_rng(count)
    index = rng.integers(0, size, n).astype(np.uint32)
    values = rng.integers(-3, 4, (count, n)).astype(kind)
    sums = np.zeros(size * count, kind)
    room = np.zeros(size * count, np.float32)
    words = [np.zeros(6, np.int64), index, sums, room, size * count, *values]
    want = np.zeros((size, count), kind)
    np.add.at(want, index, values.T)
    for capability in ((9, 0), (8, 0)):
        sums[:] = 0
        room[:] = 0
        call(text, words, n, capability=capability)
        assert (sums.reshape(size, count) == want).all()
        code_of = lowered(text, len(words), capability=capability).code
        together = f"red.global.add.v{4 if count == 4 else 2}.f32"
        assert (together in code_of) == (capability == (9, 0) and count % 2 == 0)
        assembled(code_of)


@pytest.mark.parametrize("capability", [(7, 0), (9, 0)])
def test_halves_are_added_by_one_instruction(capability):
    text = """def kernel(i, p):
    v0 = active(i)
    v1 = load(u32, p[1], i)
    x0 = load(f16, p[2], i)
    scatter_reduce(f16, 'add', 'direct', p[3], x0, v1, v0)
"""
    n, rng = 300, np.random.default_rng(0)
    index = rng.integers(0, 33, n).astype(np.uint32)  # neighbours share a word
    values = rng.integers(-8, 9, n).astype(np.float16) * np.float16(6e-8)  # subnormal
    sums = np.zeros(33, np.float16)
    call(text, [np.zeros(6, np.int64), index, values, sums], n, capability=capability)
    want = np.zeros(33, np.float16)
    np.add.at(want, index, values)
    np.testing.assert_array_equal(sums, want)
    made = lowered(text, 4, capability=capability)
    assert ".add.noftz.f16" in made.code and ".cas." not in made.code
    assembled(made.code)


def test_modules_that_llvm_would_abort_for_are_refused():
    wrong = "define i32 @f() {\na:\n%x = add i32 %y, 1\n%y = add i32 %x, 1\nret i32 %x\n}\n"
    with pytest.raises(KernelError, match="does not dominate"):
        nvptx.ptx(wrong, (9, 0))

"""The CUDA target: kernel text becomes PTX, which the assembler accepts where it is installed."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda_call import call
from ptxas_resources import ptxas

from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.cuda.emulator.errors import OutOfBounds
from drjit.jit.device import STOP_WORD
from drjit.jit.ir.dtype import BY_CODE
from drjit.jit.target import cuda
from drjit.jit.target.cuda import memory, nvptx
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


LAYER = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    v2 = in_bounds(p[0], 0, v1, p[1], v0)
    x0 = gather(f16, p[2], v1, v2)
    v3 = splat(f16, 16, x0)
    v4 = matvec(f16, p[3], p[4], 16, 16, 16, False, v3)
    v5 = total(v4)
    v6 = f32(v5)
    scatter_reduce_expand(f32, 'add', p[5], p[6], p[7], v6, v1, v2)
    reduce(f16, 'add', p[8], p[9], i, v5)
"""
# The architecture and the version of PTX for a compute capability.
CAPABILITIES = {
    (7, 0): (70, "8.0"), (7, 5): (75, "8.0"), (8, 0): (80, "8.0"), (8, 6): (86, "8.0"),
    (8, 9): (89, "8.0"), (9, 0): (90, "8.1"), (10, 0): (100, "8.6"), (10, 3): (100, "8.6"),
    (11, 0): (100, "8.6"), (12, 0): (120, "8.7"), (12, 1): (120, "8.7"), (13, 0): (120, "8.7"),
}  # fmt: skip
# In which version of the toolkit there are assemblers for compute capabilities.
ASSEMBLERS = {(9, 0): (11, 8), (10, 0): (12, 8), (10, 3): (12, 9), (11, 0): (13, 0),
              (12, 0): (12, 8), (12, 1): (12, 9), (13, 0): (99, 0)}  # fmt: skip
CHILD = """
import sys
from drjit.jit.target import cuda
for capability in {capabilities}:
    print(capability, flush=True)
    for k, text in enumerate({texts}):
        code = cuda.compile(text, "k", 10, capability=capability).code
        with open(f"{{sys.argv[1]}}/{{capability}}{{k}}.ptx", "w") as file:
            file.write(code)
print("done")
"""


def test_compute_capabilities(tmp_path):
    """In another process, which LLVM ends where an architecture is not in the version of PTX."""
    texts = [AXPY, LAYER]
    code = CHILD.format(capabilities=[*CAPABILITIES], texts=texts)
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout[-10:] + done.stderr
    tool = ptxas()
    for capability, (number, version) in CAPABILITIES.items():
        for k in range(len(texts)):
            code = Path(tmp_path, f"{capability}{k}.ptx").read_text()
            assert f".version {version}\n.target sm_{number}\n" in code
            if tool is not None:
                known = tool.version >= ASSEMBLERS.get(capability, (0, 0))
                target = 10 * capability[0] + capability[1] if known else number
                oldest = 75 if tool.version >= (13, 0) else 0
                assert tool.assemble(code, f"sm_{max(target, oldest)}")


def test_primitives_of_the_processor_are_refused():
    text = "def kernel(i, p):\n    x0 = load(mask, p[1], i)\n    compress(p[2], p[3], i, x0)\n"
    with pytest.raises(KernelError, match="compress"):
        lowered(text)


# Packets


def numpy_type(code):
    return np.dtype(BY_CODE[code].numpy)


@pytest.mark.parametrize("code", TYPES)
@pytest.mark.parametrize("n", [1, 7, 300, 1024])
def test_a_thread_accesses_sixteen_bytes(code, n):
    kind = numpy_type(code)
    lanes = min(16 // kind.itemsize, 8)
    rng = np.random.default_rng(n)
    x, y = (rng.integers(0, 2 if code == "mask" else 9, n).astype(kind) for _ in range(2))
    text = f"""def kernel(i, p):
    x0 = load({code}, p[0], i)
    x1 = load({code}, p[1], i)
    x2 = broadcast({code}, p[2])
    c0 = literal({code}, p[3])
    v0 = x0 == x1
    v1 = select(v0, x2, x0)
    v2 = v1 {"&" if code == "mask" else "+"} c0
    v3 = v2 != x1
    store({code}, p[4], i, v2)
    store(mask, p[5], i, v3)
"""
    z, m = np.zeros(n, kind), np.zeros(n, np.bool_)
    capability = (9, 0) if n % 2 else (12, 0)  # which computes with two floats at a time
    call(text, [x, y, x[:1].copy(), y[0], z, m], n, packets=True, capability=capability)
    chosen = np.where(x == y, x[0], x)
    want = chosen & y[0] if code == "mask" else (chosen + y[0]).astype(kind)
    assert (z == want).all() and (m == (want != y)).all()
    made = lowered(text, packets=True, capability=(9, 0))
    assert made.lanes == lanes and made.threads * lanes >= 256
    many = f"v{min(lanes * kind.itemsize // 4, 4)}.b32" if kind.itemsize < 8 else "v2.b64"
    assert made.code.count(f"ld.global.{many}") == 2
    assert made.code.count(f"st.global.{many}") == 1 + (lanes == 8 and kind.itemsize == 1)
    assembled(made.code)


@pytest.mark.parametrize("index", ["u32", "u64"])
def test_packets_with_gathers(index):
    """The first lane whose index is out of bounds is reported, with its number."""
    text = f"""def kernel(i, p):
    v0 = active(i)
    x0 = load({index}, p[1], i)
    x1 = load(f32, p[2], i)
    v1 = in_bounds(p[0], 7, x0, p[3], v0)
    v2 = gather(f32, p[4], x0, v1)
    v3 = lane(i)
    v4 = f32(v3)
    v5 = sin(v4)
    v6 = v2 + x1
    v7 = v6 + v5
    store(f32, p[5], i, v7)
"""
    n = 1001
    rng = np.random.default_rng(0)
    x, table = rng.random((2, n), np.float32)
    at = rng.integers(0, n, n).astype(numpy_type(index))
    for bad in (None, 640, 1000, 3):
        record, z = np.zeros(6, np.int64), np.zeros(n, np.float32)
        if bad is not None:
            at[bad] = 5000
        call(text, [record, at, x, n, table, z], n, packets=True)
        read = np.where(at < n, table[np.minimum(at, n - 1)], 0)
        np.testing.assert_allclose(z, read + x + np.sin(np.arange(n)), atol=1e-6)
        if bad is not None:
            assert record[:4].tolist() == [1, 7, 5000, n] and at[record[4]] == 5000
    assert lowered(text, packets=True).lanes == (4 if index == "u32" else 2)


@pytest.mark.parametrize("code", ["i32", "u64", "f16", "f32", "f64", "mask"])
def test_packets_with_reductions(code):
    op = "or" if code == "mask" else "add"
    kind = numpy_type(code)
    text = f"""def kernel(i, p):
    x0 = load({code}, p[0], i)
    reduce({code}, '{op}', p[1], p[2], i, x0)
    v0 = ~x0
    store({code}, p[3], i, v0)
""".replace("~x0", "~x0" if code == "mask" else "-x0")
    assert lowered(text, packets=True).lanes == min(16 // kind.itemsize, 8)
    for n in (1, 5, 4099):
        x = np.random.default_rng(n).integers(0, 2, n).astype(kind)
        room, total, y = np.zeros(9), np.zeros(1, kind), np.zeros(n, kind)
        call(text, [x, room, total, y], n, packets=True)
        assert total[0] == (x.any() if code == "mask" else x.sum())
        assert (y == (~x if code == "mask" else np.negative(x))).all()


@pytest.mark.parametrize("code", ["f16", "f32"])
def test_products_of_halves_are_rounded(code):
    """Others are fused with sums where that is allowed."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 500)).astype(numpy_type(code))
    result = np.zeros_like(x)
    text = AXPY.replace("f32", code).replace("fma(x0, c0, x0)", "x0 * c0\n    v1 = v0 + x0")
    call(text.replace("i, v0)", "i, v1)"), [0, x, y[0], result], 500, contract=True)
    assert (result == x * y[0] + x).all() == (code == "f16")


def test_kernels_without_packets():
    def lanes(*lines):
        return lowered("\n    ".join(["def kernel(i, p):", *lines]) + "\n", 60, packets=True).lanes

    x, y = "x0 = load(f32, p[1], i)", "store(f32, p[2], i, x0)"
    m, at = "m = active(i)", "k = lane(i)"
    read = "v0 = gather(f32, p[3], k, m)"
    assert lanes(x, y) == 4
    assert lanes(x, m, at, read, y) == 4
    assert lanes(m, at, read, "store(f32, p[2], i, v0)") == 1
    assert lanes(x, m, at, "scatter(f32, p[3], x0, k, m)", y) == 1
    assert lanes(x, m, "while any_lane(m):", "    m = x0 < x0", y) == 1
    many = [f"v{k} = load(f32, p[{k}], i)" for k in range(50)]
    sums = [f"v0 = v0 + v{k}" for k in range(1, 50)]
    assert lanes(*many[:20], *sums[:19], "store(f32, p[2], i, v0)") == 4
    assert lanes(*many, *sums, "store(f32, p[2], i, v0)") == 1
    assert lanes(x, *["x0 = x0 * x0"] * 200, y) == 1
    add = "scatter_reduce_expand({0}, 'add', p[{1}], p[{1}], p[9], {0}(1), k, m)".format
    sums = [add("f32", 10 + j) for j in range(3)]
    assert lanes(x, m, at, *sums[:2], y) == 4  # in the shared memory of the block
    assert lanes(x, m, at, *sums, y) == lanes(x, m, at, add("u8", 10), y) == 1


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


@pytest.mark.parametrize("code", ["u32", "i64", "f16", "f32", "f64"])
@pytest.mark.parametrize("op", ["add", "min", "mul"])
@pytest.mark.parametrize("packets", [False, True])
def test_each_memory_has_its_own_instructions(code, op, packets):
    """A target that may be in shared memory is not accessed by instructions for any memory, which
    find out each time where it is."""
    kind = numpy_type(code)
    text = f"""def kernel(i, p):
    v0 = active(i)
    x0 = load(u32, p[1], i)
    x1 = load({code}, p[2], i)
    scatter_reduce_expand({code}, '{op}', p[3], p[4], p[5], x1, x0, v0)
"""
    form = lowered(text, capability=(9, 0), packets=packets)
    made, lanes = form.code, min(16 // kind.itemsize, 4)
    assert form.lanes == (lanes if packets else 1)
    atomics = re.findall(r"\t((?:atom|red)\.\S+)", made)
    assert {".shared." in a or ".global." in a for a in atomics} == {True}
    assert any(".shared." in a for a in atomics) and not re.search(r"\t(?:ld|st)\.b", made)
    assembled(made)
    n = 601
    for size in (10, 9000):
        rng = np.random.default_rng(size)
        index, x = rng.integers(0, size, n).astype(np.uint32), rng.integers(1, 3, n)
        target = np.ones(size, kind)
        start = {"add": 0, "min": np.inf, "mul": 1}[op]
        room = np.full(size, start, np.float32) if code == "f16" else 0
        want = np.ones(size, kind)
        x = np.where(rng.random(n) < 0.05, x, 1) if op == "mul" else x
        {"add": np.add, "min": np.minimum, "mul": np.multiply}[op].at(want, index, x.astype(kind))
        words = [np.zeros(6, np.int64), index, x.astype(kind), target, room, size]
        call(text, words, n, packets=packets)
        assert (target == want).all()


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


LOOP = """def kernel(i, p):
    v0 = active(i)
    x0 = load(u32, p[1], i)
    v1 = literal(u32, p[3])
    c0 = literal(u32, p[4])
    v2 = v1 < x0
    v3 = v2 & v0
    while any_lane(v3):
        v4 = v1 + c0
        v1 = select(v3, v4, v1)
        v5 = v1 < x0
        v3 = v3 & v5
        v3 = going(p[0], v3)
    store(u32, p[2], i, v1)
"""
# The same in whole warps, which vectors need.
LOOP_OF_WARPS = f"""{LOOP}    v6 = f16(v1)
    v7 = splat(f16, 16, v6)
    v8 = matvec(f16, p[5], p[6], 16, 16, 16, False, v7)
    v9 = total(v8)
    store(f16, p[7], i, v9)
"""


@pytest.mark.parametrize("text", [LOOP, LOOP_OF_WARPS], ids=["threads", "warps"])
def test_loops_seldom_look_at_the_memory_of_the_host(text):
    """The word that stops them is across a bus. Here it cannot be read at all."""
    n = 40
    rounds, most = np.zeros(n, np.uint32), np.zeros(n, np.uint32)
    rest = [np.uint32(0), np.uint32(1), np.zeros(256, np.float32), 0, np.zeros(n, np.float16)]
    most[:] = 4095
    call(text, [0, most, rounds, *rest], n)
    assert (rounds == 4095).all()
    most[-1] += 2
    with pytest.raises(OutOfBounds, match="read of 8 bytes at 0x28"):
        call(text, [0, most, rounds, *rest], n)
    words = np.zeros(6, np.int64)
    call(text, [words, most, rounds, *rest], n)
    assert (rounds == most).all()
    words[STOP_WORD] = 1
    most[:] = 1 << 30  # practically endless
    most[3] = 7
    call(text, [words, most, rounds, *rest], n)
    assert rounds[3] == 7 and (np.delete(rounds, 3) == 4096).all()


def test_one_thread_of_a_warp_looks(monkeypatch):
    monkeypatch.setattr(memory, "_LOOK", 2)
    made, gpu = lowered(LOOP_OF_WARPS, 8, capability=(9, 0)), Memory()
    record, most, rounds, matrix, out, counter = places = [gpu.allocate(1024) for _ in range(6)]
    for place in places:
        gpu.view(place, 1024)[:] = 0
    gpu.view(most, 128).view(np.uint32)[:] = 5
    block = struct.pack("<10Q", record, most, rounds, 0, 1, matrix, 0, out, 32, counter)
    entry = Module(made.code, gpu).entries[made.entry]
    steps = entry.trace(1, made.threads, block, shared=made.shared)
    assert [s.lanes for s in steps if s.text.startswith("ld.volatile")] == [[0], [0]]


def test_atomic_operations_concern_the_gpu_only():
    """Not the system with the host, for which the claim of an error record has no need, either."""
    text = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    x0 = load(f32, p[1], i)
    v2 = in_bounds(p[0], 0, v1, p[2], v0)
    v3 = scatter_cas(f32, p[3], x0, x0, v1, v2)
    scatter_reduce(f32, 'mul', 'direct', p[3], v3, v1, v2)
    v5 = f16(x0)
    scatter_reduce(f16, 'add', 'direct', p[4], v5, v1, v2)
    v4 = scatter_exch(f32, p[3], x0, v1, v2)
    reduce(f32, 'add', p[5], p[6], i, v4)
"""
    code = lowered(text, 8, capability=(9, 0)).code
    assembled(code)
    assert ".sys" not in code and "membar" not in code
    assert code.count("atom.relaxed.gpu.global.cas.b64") == 1  # the claim
    # A fence before the count of blocks that have ended, and one after it, of one thread.
    fence, count = r"fence\.acq_rel\.gpu;", r"atom\.global\.add\.u32 [^;]*;"
    between = r"[^:]*?"  # no label: in one block
    assert re.search(f"{fence}{between}{count}{between}{fence}", code) and code.count("fence") == 2

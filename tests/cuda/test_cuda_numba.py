"""Kernel texts compiled by `numba.cuda`: the same bits as on the direct route, in an emulated GPU,
and kernels in Numba's programs."""

import re

import cuda_call
import numpy as np
import pytest
from cuda_call import call
from cuda_namespace import registered
from helpers import differing, opaque, results
from ptxas_resources import ptxas, resources
from test_numba_route import COLLATZ, VECTORS
from test_three_executions import PLAIN, applied, edges

import drjit as dr
from drjit.jit import flags
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.flags import JitFlag
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import scope
from drjit.jit.run import cache
from drjit.jit.target import cuda
from drjit.jit.target.cuda import nvvm
from drjit.jit.target.simd.ir import KernelError

numba_route = pytest.importorskip("drjit.jit.target.cuda.numba_route", reason="needs Numba")


needs_nvvm = pytest.mark.skipif(bool(nvvm.problem()), reason=nvvm.problem())
# NVVM has a compiler for GPUs before compute capability 10.0, and another one.
CAPABILITIES = [(7, 5), (8, 0), (9, 0), (12, 0)]

WAVES = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    c0 = literal(f32, p[2])
    v0 = sin(x0)
    v1 = v0 * c0
    v2 = v1 + x0
    store(f32, p[3], i, v2)
    reduce(f32, 'add', p[4], p[5], i, v1)
"""
# Products of vectors: `mma` and `ldmatrix`, sums of halves in a second launch.
LAYER = """def kernel(i, p):
    v0 = active(i)
    x0 = load(f16, p[1], i)
    v1 = splat(f16, 16, x0)
    v2 = matvec(f16, p[2], p[3], 16, 16, 16, False, v1)
    v3 = tanh(v2)
    outer(f16, p[4], p[5], p[6], p[3], 16, 16, 16, v3, v1, v0)
    v4 = total(v3)
    store(f16, p[7], i, v4)
"""
ATOMICS = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    v2 = v1 & 7
    x0 = load({code}, p[1], i)
    scatter_reduce({code}, '{op}', 'direct', p[2], x0, v2, v0)
"""


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    with registered(Cuda(EmulatedDriver())) as made:
        yield made


def both(text, arguments, n, monkeypatch, **options):
    """The contents of all arrays after both routes."""
    found = []
    for by_numba in (False, True):
        words = [w.copy() if isinstance(w, np.ndarray) else w for w in arguments()]
        with monkeypatch.context() as patch:
            if by_numba:
                made = lambda text, words, contract, capability, reduced: numba_route.compile(  # noqa: E731
                    text, "k", words, contract, capability, reduced
                )
                patch.setattr(cuda_call, "made", made)
            call(text, words, n, **options)
        found.append([w for w in words if isinstance(w, np.ndarray)])
    return found


def same(text, arguments, n, monkeypatch, **options):
    direct, by_numba = both(text, arguments, n, monkeypatch, **options)
    for a, b in zip(direct, by_numba, strict=True):
        assert a.tobytes() == b.tobytes()
    return direct


@needs_nvvm
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("contract", [False, True])
def test_the_same_bits(capability, contract, monkeypatch):
    """A product and a sum are one operation only where the text allows it, not in functions of the
    library, and with the arguments that take their rare branches."""
    x = np.r_[np.linspace(-300, 300, 990), 1e30, -1e7, 0, -0.0, np.inf, np.nan].astype(np.float32)

    def arguments():
        results = np.zeros_like(x), np.zeros(64, np.float32), np.zeros(1, np.float32)
        return [0, x, np.float32(2.5), *results]

    options = {"capability": capability, "contract": contract}
    _, y, _, _ = same(WAVES, arguments, x.size, monkeypatch, **options)
    np.testing.assert_allclose(y[:990], np.sin(x[:990]) * np.float32(2.5) + x[:990], atol=1e-4)


@needs_nvvm
def test_loops_and_branches(monkeypatch):
    n = np.arange(1, 101, dtype=np.uint32)
    _, steps, _ = same(
        COLLATZ,
        lambda: [0, n, np.zeros(100, np.uint32), np.zeros(100, np.float32)],
        100,
        monkeypatch,
    )
    assert steps[26] == 111  # the steps of 27


@needs_nvvm
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("reduced", [False, True])
def test_products_of_vectors(capability, reduced, monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=70).astype(np.float16), rng.normal(size=256).astype(np.float16)

    def arguments():
        gradient, sums = np.zeros(256, np.float16), np.zeros(256, np.float32)
        return [
            0,
            x,
            w.astype(np.float32),
            np.int64(0),
            gradient,
            sums,
            np.int64(256),
            np.zeros(70, np.float16),
        ]

    options = {"capability": capability, "reduced": reduced}
    found = same(LAYER, arguments, 70, monkeypatch, **options)
    expected = np.tanh(np.outer(x, w.reshape(16, 16).astype(float).sum(1))).sum(1)
    np.testing.assert_allclose(found[-1], expected, atol=0.1)
    assert np.all(found[2])


@needs_nvvm
def test_vectors_in_loops(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=50).astype(np.float16), rng.normal(size=64).astype(np.float16)

    def arguments():
        counts, partial = np.zeros(8, np.uint32), np.zeros(64)
        return [0, x, w.astype(np.float32), np.int64(0), counts, partial, np.zeros(1, np.float16)]

    same(VECTORS, arguments, 50, monkeypatch)


@needs_nvvm
@pytest.mark.parametrize("capability", [(9, 0), (12, 0)])
@pytest.mark.parametrize(
    ("code", "op"),
    [("i8", "add"), ("u16", "max"), ("i16", "min"), ("u8", "or"), ("f16", "add"), ("f32", "add"),
     ("f64", "add"), ("f32", "min"), ("f16", "max"), ("i64", "max"), ("u32", "and")],
)  # fmt: skip
def test_atomic_operations(code, op, capability, monkeypatch):
    """NVVM has those on words of 32 and 64 bits only."""
    kind = np.dtype({"f": "float", "i": "int", "u": "uint"}[code[0]] + code[1:])
    x = np.random.default_rng(0).integers(0, 9, 100).astype(kind)

    same(ATOMICS.format(code=code, op=op), lambda: [0, x, np.ones(8, kind)], 100, monkeypatch,
         capability=capability)  # fmt: skip


@needs_nvvm
@pytest.mark.parametrize("t", [dt.i8, dt.u32, dt.i64, dt.f16, dt.f32, dt.f64], ids=str)
def test_operations(t, gpu, monkeypatch):
    """Every element-wise operation without a function of the library, at edge cases."""
    x = edges(t)
    a, b = np.repeat(x, x.size), np.tile(x, x.size)
    found = []
    for flag in (0, JitFlag.NumbaCompiler):
        monkeypatch.setattr(flags, "current", int(JitFlag.Default) | flag)
        gpu.forget_kernels()
        with scope.using(gpu):
            nodes = applied(PLAIN, t, [opaque(t, v) for v in (a, b, np.roll(a, 7))])
            found.append(results([*nodes.values()]))
    assert len(nodes) > 8
    for name, direct, by_numba in zip(nodes, *found, strict=True):
        assert not differing(by_numba, direct).size, name


@needs_nvvm
def test_the_assembler_takes_it():
    tool = ptxas()
    if tool is None:
        pytest.skip("there is no ptxas")
    for text in (WAVES, LAYER):
        for capability in ((8, 0), (9, 0), (12, 0)):
            made = numba_route.compile(text, "k", 8, False, capability)
            name = "sm_{}{}".format(*capability)
            found = resources(tool, made.code, name)
            assert made.entry in found and (made.finish or made.entry) in found


@needs_nvvm
def test_the_flag_chooses(gpu, monkeypatch):
    """Kernels of `drjit.cuda` are compiled by NVVM then, and there are those of both routes."""
    seen: list[str] = []
    compiled = cuda.compile

    def compile(*arguments, **options):
        made = compiled(*arguments, **options)
        seen.append(made.code)
        return made

    monkeypatch.setattr(cuda, "compile", compile)
    found = []
    for flag in (0, JitFlag.NumbaCompiler, 0):
        monkeypatch.setattr(flags, "current", int(JitFlag.Default) | flag)
        x = dr.linspace(dr.cuda.Float, 0, 1, 100)
        y = dr.exp(x) * x
        found.append(y.numpy().tobytes())
    assert found[0] == found[1] == found[2]
    assert ["NVVM" in code for code in seen] == [False, True]


@needs_nvvm
@pytest.mark.parametrize("is_function", [False, True])
def test_a_kernel_in_a_program_of_numba(is_function):
    """It is called with arrays, and inlined; the caller has the addresses of their data."""
    from numba.cuda import compile as compiled
    from numba.cuda import types

    made, form = numba_route.kernel(WAVES, "waves", capability=(9, 0), device=is_function)
    assert form.strides and form.shared == 0
    signature = types.void(types.int64[::1], types.int64, types.uint32[::1])

    def own(block, n, counter):
        made(block, n, counter)

    run = own if is_function else made.py_func
    ptx, _ = compiled(run, signature, device=False, cc=(9, 0), abi="numba")
    (entry,) = re.findall(r"\.entry (\w+)", ptx)
    assert ".extern .func" not in ptx
    memory, n = Memory(), 300
    x = np.linspace(-3, 3, n, dtype=np.float32)
    source, target, partial, total, block, counter = (
        memory.allocate(s) for s in (4 * n, 4 * n, 64, 4, 48, 4)
    )
    memory.view(source, 4 * n).view(np.float32)[:] = x
    words = memory.view(block, 48).view(np.int64)
    words[:] = 0, source, 0, target, partial, total
    words.view(np.float32)[4] = 2.5
    memory.view(counter, 4)[:] = 0

    def array(address, count, size):
        """As Numba passes an array: two owners, entries, their size, data, shape, strides."""
        return [0, 0, count, size, address, count, size]

    parameters = [*array(block, 6, 8), n, *array(counter, 1, 4)]
    module = Module(ptx, memory)
    module.entries[entry].launch(2, form.threads, np.array(parameters, np.int64).tobytes())
    found = memory.view(target, 4 * n).view(np.float32)
    np.testing.assert_allclose(found, np.sin(x) * np.float32(2.5) + x, rtol=2e-6, atol=1e-6)


@needs_nvvm
def test_what_kernels_of_numba_cannot_do():
    text = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    x0 = load(f16, p[1], i)
    scatter_reduce_expand(f16, 'add', p[2], p[3], p[4], x0, v1, v0)
"""
    with pytest.raises(NotImplementedError, match="two launches"):
        numba_route.kernel(text, "k")
    with pytest.raises(KernelError, match="the function sine is unknown"):
        numba_route.compile(WAVES.replace("sin(", "sine("), "k")


def test_without_numba_cuda(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(ImportError, match=r"pip install 'drjit-numba\[numba-cuda\]'"):
        numba_route.compile(WAVES, "k")


class Pathfinder:
    """The module `cuda.pathfinder`, on a machine with some libraries."""

    def __init__(self, *there):
        self.there = there

    def load_nvidia_dynamic_lib(self, name):
        if name not in self.there:
            raise RuntimeError(f"Failure finding {name}")


@pytest.mark.parametrize("there", [(), ("nvvm",), ("nvrtc",)])
def test_numba_cuda_without_a_toolkit(there, monkeypatch, gpu, capfd):
    """Kernels are compiled directly, as without the package, and a warning says what is missing."""
    from drjit.jit.cuda import kernel

    monkeypatch.setattr(nvvm, "find_spec", lambda name: name)
    monkeypatch.setattr(nvvm, "import_module", lambda name: Pathfinder(*there))
    lacks = "nvrtc" if there == ("nvvm",) else "nvvm"
    text = f"the library {lacks} of a CUDA toolkit is missing: pip install 'drjit-numba"
    text += "[numba-cuda]'"
    assert nvvm.problem() == text
    with pytest.raises(ImportError, match=re.escape(f"cannot compile kernels: {text}")):
        numba_route.compile(WAVES, "k")
    kernel.numba_versions.cache_clear()
    with dr.scoped_set_flag(JitFlag.NumbaCompiler):
        for k in range(2):
            assert (dr.cuda.Float([1, 2]) * 3 + k).numpy().tolist() == [3 + k, 6 + k]
    kernel.numba_versions.cache_clear()
    assert capfd.readouterr().err.count(f"compiled directly, and not by Numba: {text}") == 1


def test_numba_cuda_with_a_toolkit(monkeypatch):
    monkeypatch.setattr(nvvm, "find_spec", lambda name: name)
    monkeypatch.setattr(nvvm, "import_module", lambda name: Pathfinder("nvvm", "nvrtc"))
    assert not nvvm.problem()


def test_the_dialect_of_atomic_operations():
    """The scope of the GPU is that of operations without one; a fence is the one of NVVM."""
    lines = nvvm.dialect(
        '%0 = cmpxchg ptr %p, i64 0, i64 1 syncscope("device") monotonic monotonic\n'
        'fence syncscope("device") acq_rel\n'
        '%1 = load atomic i64, ptr %p syncscope("device") monotonic, align 8\n'
        '%2 = call i32 asm sideeffect "vote.sync.ballot.b32 $0, 1, -1;", "=r"() convergent'
    ).split("\n")
    assert [s for s in lines if "bitcast" not in s and "declare" not in s] == [
        "%0 = cmpxchg i64* %.1, i64 0, i64 1 monotonic monotonic",
        "call void @llvm.nvvm.membar.gl()",
        "%1 = load volatile i64, i64* %.2, align 8",
        '%2 = call i32 asm sideeffect "vote.sync.ballot.b32 $0, 1, -1;", "=r"() convergent',
    ]


def test_the_dialect():
    """Pointers get types, and what LLVM 7 does not have is written in another way."""
    lines = nvvm.dialect(
        "@table = internal addrspace(1) constant [2 x i32] [i32 0, i32 1], align 64\n"
        "%0 = load <1 x float>, ptr %p, align 4\n"
        "%1 = fneg <1 x float> %0\n"
        "%2 = call i32 @llvm.umin.i32(i32 %x, i32 1)\n"
        "%3 = getelementptr i32, ptr addrspace(1) @table, i32 %2\n"
        "%4 = add <2 x i32> %y, splat (i32 1)"
    ).split("\n")
    table = "bitcast ([2 x i32] addrspace(1)* @table to i8 addrspace(1)*)"
    assert lines[1:] == [
        "%.1 = bitcast i8* %p to <1 x float>*",
        "%0 = load <1 x float>, <1 x float>* %.1, align 4",
        "%1 = fsub <1 x float> <float -0.0>, %0",
        "%.2 = icmp ult i32 %x, 1",
        "%2 = select i1 %.2, i32 %x, i32 1",
        f"%.3 = bitcast i8 addrspace(1)* {table} to i32 addrspace(1)*",
        "%.4 = getelementptr i32, i32 addrspace(1)* %.3, i32 %2",
        "%3 = bitcast i32 addrspace(1)* %.4 to i8 addrspace(1)*",
        "%4 = add <2 x i32> %y, <i32 1, i32 1>",
    ]

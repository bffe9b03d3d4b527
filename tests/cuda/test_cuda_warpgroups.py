"""Products of halves by warpgroups against NumPy, on the emulated driver, and the mistakes that it
reports in such kernels."""

import functools
import re
import struct

import numpy as np
import pytest
from test_cuda_primitives import TRANSPOSED, got, multiplies, put

from drjit.jit.cuda import primitives
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.emulator import EmulatorError, Memory, Module, tensor_map
from drjit.jit.cuda.emulator.warpgroup import swizzled
from drjit.jit.ir import dtype as dt
from drjit.jit.primitives import matmul
from drjit.jit.target.cuda.primitives.entry import EntryCode
from drjit.jit.target.cuda.primitives.products import ProductForm
from drjit.jit.target.cuda.primitives.warpgroups import WarpGroups

pytest.importorskip("llvmlite")

every_way = pytest.mark.parametrize("transposed", TRANSPOSED, ids=["", "At", "Bt", "At Bt"])


@pytest.fixture(params=[128, pytest.param(256, marks=pytest.mark.every(2))])
def gpu(request, monkeypatch):
    """A GPU that has nothing else for products of halves."""
    monkeypatch.setattr(primitives, "_TENSOR_CORES", [])
    monkeypatch.setattr(primitives, "_LARGE_SPEED", 1e-9)
    monkeypatch.setattr(primitives, "_WARPGROUPS", [(request.param, 1.0)])
    made = Cuda(EmulatedDriver())
    made.has_warpgroups = True
    return made


def specs(gpu):
    return [k.spec for k in gpu.kernels() if isinstance(k.spec, WarpGroups)]


@every_way
def test_sizes(gpu, transposed):
    """Whole tiles; more stages than shared memory has room for; tiles and depths that are cut off,
    and products that are smaller than one."""
    for m, n, k in ((128, 256, 64), (136, 264, 456), (8, 16, 72), (64, 72, 200)):
        multiplies(gpu, dt.f16, m, n, k, transposed)
    assert {s.columns for s in specs(gpu)} <= {128, 256} and len(specs(gpu)) == 1


def test_odd_sizes(gpu):
    """Whatever is not consecutive may have any size."""
    multiplies(gpu, dt.f16, 133, 271, 72, (False, True))
    multiplies(gpu, dt.f16, 3, 5, 8, (False, True))
    multiplies(gpu, dt.f16, 64, 72, 37, (True, False))
    multiplies(gpu, dt.f16, 67, 72, 40, (False, False))
    multiplies(gpu, dt.f16, 64, 71, 40, (True, True))


@every_way
def test_batches(gpu, transposed):
    multiplies(gpu, dt.f16, 24, 40, 48, transposed, count=2)
    assert specs(gpu)


def test_a_long_depth_is_divided_among_blocks(gpu):
    multiplies(gpu, dt.f16, 24, 40, 1600, (False, True))
    (spec,) = specs(gpu)
    assert spec.layout.result == "f32"


def test_one_matrix_with_several(gpu):
    rng = np.random.default_rng(1)
    a, b = (rng.uniform(-1, 1, s).astype(np.float16) for s in ((3, 40, 64), (64, 24)))
    offsets = np.array([[0, 0], [2560, 0], [5120, 0]])
    layout = matmul.layout((40, 24, 64), (False, False), offsets)
    found = primitives.matmul(gpu, dt.f16, (put(gpu, a), a.size), (put(gpu, b), b.size), layout)
    y = got(gpu, found, dt.f16, 3 * 40 * 24).reshape(3, 40, 24)
    np.testing.assert_allclose(y, a.astype(float) @ b.astype(float), 2e-3, 2e-2)
    assert specs(gpu)


def test_infinities_stay_where_they_are(gpu):
    a, b = np.ones((16, 40), np.float16), np.ones((24, 40), np.float16)
    a[1, 2] = np.inf
    layout = matmul.layout((16, 24, 40), (False, True), np.zeros((1, 2), np.int64))
    found = primitives.matmul(gpu, dt.f16, (put(gpu, a), a.size), (put(gpu, b), b.size), layout)
    expected = np.full((16, 24), 40.0)
    expected[1] = np.inf
    np.testing.assert_array_equal(got(gpu, found, dt.f16, 16 * 24).reshape(16, 24), expected)


@pytest.mark.every(2)
def test_what_tensors_cannot_say_has_other_kernels(monkeypatch):
    """Rows that are not multiples of 16 bytes, memory that is not aligned, matrices that do not
    follow each other evenly, and other types."""
    gpu = Cuda(EmulatedDriver())
    gpu.has_warpgroups = True
    multiplies(gpu, dt.f16, 120, 128, 37, (False, True))
    multiplies(gpu, dt.f16, 120, 128, 40, (False, True), aligned=False)
    multiplies(gpu, dt.f16, 24, 40, 48, (False, True), count=3)  # the last one is the first one
    multiplies(gpu, dt.f32, 120, 128, 40, (False, True))
    assert not any(isinstance(k.spec, WarpGroups) for k in gpu.kernels())


def test_the_switch(monkeypatch):
    monkeypatch.delenv("DRJIT_CUDA_WGMMA", raising=False)
    assert not Cuda(EmulatedDriver()).has_warpgroups
    monkeypatch.setenv("DRJIT_CUDA_WGMMA", "1")
    assert not Cuda(EmulatedDriver((8, 6))).has_warpgroups
    assert not Cuda(EmulatedDriver((10, 0))).has_warpgroups
    gpu = Cuda(EmulatedDriver())
    assert gpu.has_warpgroups
    multiplies(gpu, dt.f16, 128, 256, 64, (False, True))
    assert [type(k.spec) for k in gpu.kernels()] == [WarpGroups]


def test_maps():
    """The driver refuses maps that the hardware cannot read."""
    driver = EmulatedDriver()
    at = driver.allocate(1 << 16)
    good = {"address": at, "shape": (64, 8, 1), "strides": (128, 1024), "box": (64, 64, 1)}
    assert len(driver.tensor_map(**good)) == 128
    for wrong in (
        {"address": at + 8}, {"strides": (136, 1024)}, {"strides": (128, 1000)},
        {"strides": (112, 1024)}, {"box": (32, 64, 1)}, {"box": (64, 257, 1)},
        {"shape": (64, 0, 1)},
    ):  # fmt: skip
        with pytest.raises(CudaError, match="tensor"):
            driver.tensor_map(**good | wrong)


def test_the_order_of_parts():
    """That of swizzling by 128 bytes: the numbers of the parts of 16 bytes, by row."""
    rows = "01234567 10325476 23016745 32107654 45670123 54761032 67452301 76543210"
    at = swizzled(np.arange(0, 2048, 16)).reshape(16, 8)
    assert (at // 128 == np.arange(16)[:, None]).all()
    assert [[int(c) for c in row] for row in 2 * rows.split()] == (at // 16 % 8).tolist()


# ---------------------------------------------------------------------- mistakes in such a kernel


@functools.cache
def compiled(transposed):
    """A kernel, and its code."""
    spec = WarpGroups(ProductForm("f16", "f16", *transposed, 8, 8, False, True), 128)
    entry = EntryCode()
    spec.emit(entry)
    return spec, entry.compiled("k", (9, 0))


def product(change=lambda text: text, transposed=(False, True), depth=448):
    """The product of a kernel whose PTX is changed, and what is expected."""
    (spec, made), memory, (m, n) = compiled(transposed), Memory(), (128, 128)
    rng, maps, operands = np.random.default_rng(1), b"", []
    for lines, operand in zip((m, n), spec.operands, strict=True):
        x = rng.uniform(-1, 1, (lines, depth)).astype(np.float16)
        operands.append(x.astype(float))
        stored = np.ascontiguousarray(x if operand.along else x.T)
        at = memory.allocate(stored.nbytes)
        memory.view(at, stored.nbytes).view(np.float16)[:] = stored.ravel()
        shape, strides = (*stored.shape[::-1], 1), (2 * stored.shape[1], stored.nbytes)
        maps += tensor_map(at, shape, strides, (*operand.box, 1))
    result = memory.allocate(2 * m * n)
    words = maps + struct.pack("<8q", result, m, n, depth, depth, 1, 0, 0)
    changed = change(made.code)
    entries = Module(changed, memory).entries
    entries["k"].launch(1, made.threads, words, shared=made.shared)
    found = memory.view(result, 2 * m * n).view(np.float16).reshape(m, n).copy()
    return found, operands[0] @ operands[1].T


def replaced(pattern, by):
    def change(text):
        changed, number = re.subn(pattern, by, text)
        assert number
        return changed

    return change


@every_way
def test_the_kernel_as_it_is(transposed):
    found, expected = product(transposed=transposed)
    np.testing.assert_allclose(found, expected, 2e-3, 2e-2)


WAIT = r"mbarrier\.try_wait\.parity[^;]*; selp\.u32 (%r\d+), 1, 0, p;"
LAST = rf"(?s)(.*){WAIT}"  # of those who multiply
RACES = {
    "barriers that copies do not see": (r"fence\.proxy\.async[^;]*;", "", "fence.proxy.async"),
    "barriers that others do not see": (r"barrier\.cta\.sync[^;]*;|bar\.sync[^;]*;", "", "race"),
    "operands that nobody has waited for": (LAST, r"\1mov.u32 \2, 1;", "not been waited for"),
    "stages that are not empty":
        ("(?s)" + WAIT + r"(?=.*expect_tx)", r"mov.u32 \1, 1;", "arrivals"),
    "operands that are overwritten":
        (r"(wait_group\.sync\.aligned\s+)1", r"\g<1>4", "operands of products"),
    "sums that nobody has waited for":
        (r"(wait_group\.sync\.aligned )0", r"\g<1>1", "register of products"),
    "fewer bytes than arrive": (r"(expect_tx.*, )%r\d+;", r"\g<1>16384;", "more bytes arrive"),
    "products without a fence": (r"wgmma\.fence[^;]*;", "", "without wgmma.fence"),
}  # fmt: skip


@pytest.mark.parametrize("name", RACES)
def test_mistakes(name):
    pattern, by, message = RACES[name]
    with pytest.raises(EmulatorError, match=message):
        product(replaced(pattern, by))


def test_threads_that_wait_for_more_bytes_than_come():
    with pytest.raises(EmulatorError, match="deadlock"):
        product(replaced(r"(expect_tx.*, )%r\d+;", r"\g<1>65536;"), depth=64)


LAYOUTS = {
    "A is turned": (r"p, 1, 1, 0, 0", "p, 1, 1, 1, 0"),
    "B is turned": (r"p, 1, 1, 0, 0", "p, 1, 1, 0, 1"),
    "products are subtracted": (r"p, 1, 1, 0, 0", "p, -1, 1, 0, 0"),
    "sums begin anew": (r"setp\.eq\.u32 p, 0, 0", "setp.eq.u32 p, 0, 1"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_other_layouts_give_other_products(name):
    found, expected = product(replaced(*LAYOUTS[name]))
    assert np.abs(found - expected).max() > 1


def test_half_a_warpgroup_cannot_multiply():
    text = """.version 8.1
.target sm_90a
.address_size 64
.visible .entry k() { wgmma.fence.sync.aligned; ret; }"""
    with pytest.raises(EmulatorError, match="four warps"):
        Module(text, Memory()).entries["k"].launch(1, 64, b"")


def test_unknown_variants():
    head = ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k()"
    for code in ("wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16", "mbarrier.inval.b64 [0]"):
        with pytest.raises(EmulatorError, match="unknown variant"):
            Module(f"{head} {{ {code}; ret; }}", Memory()).entries["k"].launch(1, 128, b"")

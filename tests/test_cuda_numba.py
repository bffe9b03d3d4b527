"""Kernel texts inside of Numba's CUDA programs: the same PTX, called as Numba calls functions."""

import re

import numpy as np
import pytest

from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.target.cuda import numba_route

TEXT = """def kernel(i, p):
    x0 = load(f32, p[1], i)
    c0 = literal(f32, p[2])
    v0 = sin(x0)
    v1 = fma(v0, c0, x0)
    store(f32, p[3], i, v1)
    reduce(f32, 'add', p[4], p[5], i, v1)
"""
# What Numba makes of a kernel that calls the function.
CALLER = """
.visible .entry caller(.param .u64 block, .param .u64 size, .param .u64 counter)
{
	.reg .b32 %r<2>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [block];
	ld.param.u64 %rd2, [size];
	ld.param.u64 %rd3, [counter];
	mov.u64 %rd4, 0;
	{
	.param .b64 param0;
	st.param.b64 [param0], %rd4;
	.param .b64 param1;
	st.param.b64 [param1], %rd1;
	.param .b64 param2;
	st.param.b64 [param2], %rd2;
	.param .b64 param3;
	st.param.b64 [param3], %rd3;
	.param .b32 retval0;
	call.uni (retval0), k_lanes, (param0, param1, param2, param3);
	ld.param.b32 %r1, [retval0];
	}
	ret;
}
"""


def launched(ptx, entry, n):
    """Launches an entry with the parameters of TEXT; returns its results and the right ones."""
    memory = Memory()
    x = np.linspace(-3, 3, n, dtype=np.float32)
    sizes = (4 * n, 4 * n, 8 * 8, 4, 8 * 6, 4)
    source, target, partial, total, block, counter = (memory.allocate(s) for s in sizes)
    memory.view(source, 4 * n).view(np.float32)[:] = x
    words = memory.view(block, 48).view(np.int64)
    words[:] = 0, source, 0, target, partial, total
    words.view(np.float32)[4] = 2.5
    memory.view(counter, 4)[:] = 0
    parameters = np.array([block, n, counter], np.int64).tobytes()
    Module(ptx, memory).entries[entry].launch(2, 256, parameters)
    expected = np.sin(x) * np.float32(2.5) + x
    found = memory.view(target, 4 * n).view(np.float32).copy()
    return found, memory.view(total, 4).view(np.float32)[0], expected


@pytest.mark.parametrize("n", [1, 257, 1000])
def test_a_function_that_numba_can_call(n):
    ptx, form = numba_route.device_code(TEXT, "k", capability=(9, 0))
    assert form.strides and ".visible .entry" not in ptx
    found, total, expected = launched(ptx + CALLER, "caller", n)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(total, expected.sum(dtype=np.float64), rtol=1e-5, atol=1e-4)


def test_sums_of_halves_need_two_launches():
    text = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    x0 = load(f16, p[1], i)
    scatter_reduce_expand(f16, 'add', p[2], p[3], p[4], x0, v1, v0)
"""
    with pytest.raises(NotImplementedError, match="two launches"):
        numba_route.device_code(text, "k")


def test_numba_compiles_the_caller():
    cuda = pytest.importorskip("numba.cuda")
    if not hasattr(cuda, "PTXSource"):
        pytest.skip("numba-cuda is not installed")
    from numba.cuda import types

    made = numba_route.kernel(TEXT, "k", capability=(9, 0))
    signature = types.void(types.int64[::1], types.int64, types.uint32[::1])
    try:
        caller, _ = cuda.compile_ptx(made.py_func, signature, cc=(9, 0))
    except Exception as error:
        if "driver" in str(error).lower():
            pytest.skip("numba-cuda asks a driver for the compute capability")
        raise
    assert "k_lanes" in caller
    ptx, _ = numba_route.device_code(TEXT, "k", capability=(9, 0))
    # As the linker does: definitions in place of declarations, and one head.
    caller = re.sub(r"\.extern \.func.*?;", "", caller, flags=re.S)
    caller = re.sub(r"^\.(version|target|address_size).*$", "", caller, flags=re.M)
    (entry,) = re.findall(r"\.entry (\w+)", caller)
    assert entry
    found = Module(ptx + caller, Memory()).entries
    assert entry in found

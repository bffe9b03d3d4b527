"""Native code frees buffers as Python's destructor does."""

import gc
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest
from helpers import growth

import drjit as dr
from drjit.jit.cpu import memory, plans, runtime, warm_up
from drjit.jit.ir import dtype as dt

places = warm_up.places(plans)
pytestmark = pytest.mark.skipif("finalize" not in places, reason="other layout of objects")
in_python = plans._FINALIZED["other"]


@pytest.fixture(params=["native", "Python"], autouse=True)
def way(request):
    before = vars(memory.Buffer)["__del__"]
    if request.param == "native":
        plans.install_finalizer(places["finalize"])
        assert type(vars(memory.Buffer)["__del__"]) is types.WrapperDescriptorType
    else:
        memory.Buffer.__del__ = in_python
    yield
    memory.Buffer.__del__ = before


@pytest.mark.parametrize("nbytes", [64, 1000, 1 << 20])
def test_memory_goes_back_to_its_pool(nbytes):
    buffer = memory.allocate(nbytes)
    free, block, capacity = memory.pool(buffer.nbytes), buffer._block, buffer.nbytes
    before, count, ref = memory.statistics(), len(free), weakref.ref(buffer)
    block.ticket = -1
    del buffer
    after = memory.statistics()
    assert ref() is None and len(free) == count + 1 and free[-1] is block
    assert after["in_use"] == before["in_use"] - capacity and after["peak"] == before["peak"]
    assert block.ticket == runtime.submitted
    del free[-1]
    other = object()
    assert sys.getrefcount(block) == sys.getrefcount(other)


def test_references_are_counted():
    def run():
        for _ in range(1000):
            memory.allocate(256)

    def references():
        return [sys.getrefcount(memory.Buffer), sys.getrefcount(runtime.submitted)]

    assert np.all(abs(growth(run, references)) < 10)
    assert abs(growth(run, sys.getallocatedblocks)) < 50


def test_foreign_memory_is_released():
    base = np.zeros(4096 + 64, np.float32)
    values = base[-base.ctypes.data % 64 // 4 :][:1024]
    buffer = memory.adopt(values)
    if buffer is None:
        pytest.skip("at the end of a page")
    before, ref = memory.statistics(), weakref.ref(values)
    del values
    assert ref() is not None
    del buffer
    runtime.drain()
    assert ref() is None and memory.statistics()["in_use"] == before["in_use"]


def test_exceptions_in_flight_stay():
    def failing(foreign):
        pooled = memory.allocate(64)
        other = memory.adopt(np.zeros(1024, np.float32)) if foreign else None
        raise ValueError(f"{pooled} {other}")

    for foreign in (False, True):
        with pytest.raises(ValueError, match="Buffer"):
            failing(foreign)

    def frees():
        b = memory.allocate(64)
        try:
            yield 1
        finally:
            del b

    assert [*frees()] == [1]
    with pytest.raises(KeyError), np.errstate():
        x = dr.llvm.Float(1, 2, 3) + 1
        dr.eval(x)
        {}[1]
        del x


def test_cycles():
    b = memory.allocate(128)
    free, count = memory.pool(b.nbytes), len(memory.pool(b.nbytes))
    b.source = [b]
    del b
    gc.collect()
    assert len(free) == count + 1


def test_results_are_right():
    x = dr.arange(dr.llvm.Float, 1000)
    for k in range(200):
        y = x * k + 1
        dr.eval(y)
        assert y[3] == 3 * k + 1
        del y
    assert memory.allocate_for(dt.f32, 10).nbytes >= 40


def test_the_end_of_a_process():
    program = (
        "import drjit as dr, sys\n"
        "from drjit.jit.cpu import plans, warm_up\n"
        "plans.install_finalizer(warm_up.places(plans)['finalize'])\n"
        "x = dr.arange(dr.llvm.Float, 1000) + 1\n"
        "dr.eval(x)\n"
        "sys.kept = [x, dr.llvm.Float(x.numpy()), dr.copy(x)]\n"
        "class Last:\n"
        "    def __init__(self): self.x = dr.opaque(dr.llvm.Float, 1, 100)\n"
        "    def __del__(self): del self.x\n"
        "last = Last()\n"
        "sys.modules['last'] = last\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr

"""The record of launches: what an entry says about kernels, operations and frozen functions."""

import numpy as np
import pytest
from helpers import launched

import drjit as dr
from drjit import KernelRecordingMode, KernelType
from drjit.llvm import Float, TensorXf, UInt

pytestmark = pytest.mark.usefixtures("tier")

N = 1000


def data() -> Float:
    return Float(np.arange(1, N + 1, dtype=np.float32))


OPERATIONS = {
    "block_sum": (lambda x: dr.block_sum(x, 10), KernelType.BlockReduce, N),
    "long blocks": (lambda x: dr.block_sum(x, 500), KernelType.BlockReduce, N),
    "rows": (lambda x: dr.sum(TensorXf(x, (10, 100)), axis=1), KernelType.BlockReduce, N),
    "columns": (lambda x: dr.sum(TensorXf(x, (10, 100)), axis=0), KernelType.BlockReduce, N),
    "cumsum": (dr.cumsum, KernelType.BlockPrefixReduce, N),
    "block_prefix_sum": (lambda x: dr.block_prefix_sum(x, 4), KernelType.BlockPrefixReduce, N),
    "matmul": (
        lambda x: TensorXf(x, (10, 100)) @ TensorXf(x, (100, 10)),
        KernelType.BatchedGemm,
        100,
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_one_entry_with_the_size_of_its_input(name: str):
    run, kind, size = OPERATIONS[name]
    x = data()
    (entry,) = launched(lambda: run(x))
    assert (entry["type"], entry["size"]) == (kind, size)
    assert (entry["input_count"], entry["output_count"]) == (1, 1)
    assert entry["recording_mode"] is KernelRecordingMode.Inactive
    assert entry["execution_time"] > 0 and entry["source"] == entry["ir"].getvalue()


def test_a_compression_is_one_entry_beside_that_of_its_mask():
    x = data()
    mask, found = launched(lambda: dr.compress(x > 500))
    assert (mask["type"], mask["size"]) == (KernelType.JIT, N)
    assert (found["type"], found["size"]) == (KernelType.Compress, N)
    assert (found["input_count"], found["output_count"]) == (1, 1)
    assert launched(lambda: dr.compress(x > 500), KernelType.Compress)[0]["size"] == N
    assert launched(lambda: dr.compress(x > 500), KernelType.Dot) == []


def test_a_long_prefix_reduction_of_two_launches_is_one_entry():
    x = dr.opaque(Float, 1, 1 << 18)
    (entry,) = launched(lambda: dr.cumsum(x))
    assert (entry["type"], entry["size"]) == (KernelType.BlockPrefixReduce, 1 << 18)


def test_launches_of_a_frozen_function_are_recorded_and_replayed():
    @dr.freeze
    def f(x):
        y = x * 2
        dr.eval(y)
        return dr.cumsum(y), y + 1

    x = data()
    modes = [{e["recording_mode"] for e in launched(lambda: f(x))} for _ in range(3)]
    recorded, replayed = {KernelRecordingMode.Recorded}, {KernelRecordingMode.Replayed}
    assert modes == [recorded, replayed, replayed]
    kinds = [e["type"] for e in launched(lambda: f(x))]
    assert kinds.count(KernelType.BlockPrefixReduce) == 1
    (after,) = launched(lambda: x + 1)
    assert after["recording_mode"] is KernelRecordingMode.Inactive


def test_a_recording_that_fails_leaves_the_mode_as_it_was():
    @dr.freeze
    def f(x):
        raise ValueError

    with pytest.raises(ValueError):
        f(data())
    (entry,) = launched(lambda: data() + 1)
    assert entry["recording_mode"] is KernelRecordingMode.Inactive


def test_a_kernel_says_how_many_arrays_it_reads_and_writes():
    x, y = data(), data() + 1
    dr.eval(y)
    (entry,) = launched(lambda: [x * y, x - y, dr.arange(UInt, N)])
    assert (entry["input_count"], entry["output_count"], entry["size"]) == (2, 3, N)
    assert entry["operation_count"] > 0

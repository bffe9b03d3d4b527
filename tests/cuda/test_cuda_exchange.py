"""Arrays on a GPU and other libraries: DLPack, `__cuda_array_interface__`, NumPy, other backends.
The other library is either this one, behind another object, or one that only describes memory."""

import gc

import numpy as np
import pytest
from cuda_library import FakeLibrary
from cuda_namespace import registered

import drjit as dr
from drjit import llvm
from drjit.jit.cuda import dlpack
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.libcuda import LibCuda
from drjit.jit.ir import dtype as dt

NAMES = ("Bool", "Int8", "UInt8", "Int", "UInt", "Int64", "UInt64", "Float16", "Float", "Float64")


@pytest.fixture(params=[False, True], ids=["at once", "delayed"])
def gpu(request):
    with registered(Cuda(EmulatedDriver(delayed=request.param))) as made:
        yield made


class Other:
    """An array of another library in memory of the device, with what protocols it has."""

    def __init__(self, gpu, values, strides=None, shape=None, start=0, **entries):
        values = np.asarray(values)
        self.gpu = gpu
        self.address = gpu.driver.allocate(max(values.nbytes, 8))
        gpu.driver.memory.view(self.address, values.nbytes)[:] = np.frombuffer(
            values.tobytes(), np.uint8
        )
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": values.shape if shape is None else shape,
            "typestr": values.dtype.str,
            "data": (self.address + start * values.itemsize, False),
            "strides": strides,
            "stream": None,
            **entries,
        }


class Capsules:
    """Shows an array of ours by DLPack alone, like a library that is not known here."""

    def __init__(self, array, versioned):
        self.array, self.versioned, self.streams = array, versioned, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream=None, **arguments):
        self.streams.append(stream)
        version = {"max_version": (1, 0)} if self.versioned else {}
        return self.array.__dlpack__(stream=stream, **version, **arguments)


# To other libraries


def test_where_arrays_are(gpu):
    assert dr.cuda.Float([1, 2]).__dlpack_device__() == (dlpack.EMULATED, 0)
    assert dr.cuda.Array3f(1).__dlpack_device__() == (dlpack.EMULATED, 0)
    with registered(Cuda(LibCuda(FakeLibrary()))):
        assert dr.cuda.Float([1, 2]).__dlpack_device__() == (2, 0)
    assert llvm.Float([1, 2]).__dlpack_device__() == (1, 0)
    assert dr.scalar.ArrayXf([1, 2]).__dlpack_device__() == (1, 0)
    with pytest.raises(TypeError, match="cannot be read through DLPack"):
        llvm.Float(Capsules(dr.cuda.Float([1, 2]), False))


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_dlpack_shares_memory(gpu, name, versioned):
    cls = getattr(dr.cuda, name)
    x = cls([True, False, True]) if name == "Bool" else cls([1, 2, 3])
    dr.eval(x)
    seen = Capsules(x, versioned)
    y = cls(seen)
    assert y._node.data.address == x._node.data.address
    assert y.numpy().tolist() == x.numpy().tolist()
    assert seen.streams == [gpu.queue.stream]


@pytest.mark.parametrize("versioned", [False, True])
def test_who_releases_the_memory(gpu, versioned):
    used = gpu.memory_statistics()["in_use"]
    x = dr.cuda.Float([1, 2, 3])
    buffer = x._node.data
    capsule = x.__dlpack__(max_version=(1, 0) if versioned else None)
    assert buffer.views == 1
    del capsule  # nobody has taken it
    assert buffer.views == 0
    y = dr.cuda.Float(Capsules(x, versioned))
    assert buffer.views == 1
    del x
    assert y.numpy().tolist() == [1, 2, 3]
    del y
    gpu.sync()
    assert buffer.views == 0
    del buffer
    assert gpu.memory_statistics()["in_use"] == used


def test_tensors_and_nested_arrays(gpu):
    t = dr.cuda.TensorXf(np.arange(6).reshape(2, 3))
    back = dr.cuda.TensorXf(Capsules(t, True))
    assert back.shape == (2, 3) and back.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    v = dr.cuda.Array3f([1, 2], 3, [5, 6])
    assert dr.cuda.TensorXf(Capsules(v, False)).numpy().tolist() == [[1, 2], [3, 3], [5, 6]]
    assert dr.all(dr.cuda.Array3f(Capsules(v, False)) == v, axis=None)
    empty = dr.cuda.Float(Capsules(dr.cuda.Float(), True))
    assert len(empty) == 0


def test_writing_leaves_shared_memory_unchanged(gpu):
    x = dr.cuda.Float([1, 2, 3])
    y = dr.cuda.Float(Capsules(x, True))
    x[1] = 20
    y[2] = 30
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([1, 20, 3], [1, 2, 30])


def test_streams_wait_for_each_other():
    with registered(Cuda(EmulatedDriver(delayed=True))) as gpu:
        x = dr.cuda.Float([1, 2, 3])
        theirs = gpu.driver.create_stream()
        capsule = x.__dlpack__(stream=theirs)
        assert len(gpu.driver._queues[theirs]) == 1  # waits for the upload
        seen = np.zeros(3, np.float32)
        taken = dlpack.take_array(capsule, "test")
        gpu.driver.copy(seen.ctypes.data, taken.address, 12, theirs)
        before = len(gpu.driver._queues[gpu.queue.stream])
        del capsule, taken  # our stream waits for the copy before the memory is used again
        assert len(gpu.driver._queues[gpu.queue.stream]) == before + 1
        del x
        y = dr.cuda.Float([7, 8, 9])
        gpu.sync()
        assert seen.tolist() == [1, 2, 3] and y.numpy().tolist() == [7, 8, 9]


def test_memory_behind_the_interface_is_reused_after_the_default_stream():
    """In which another library may still read it, when the array is gone."""
    with registered(Cuda(EmulatedDriver(delayed=True))) as gpu:
        x = dr.cuda.Float([1, 2, 3])
        found, theirs, seen = x.__cuda_array_interface__, 1, np.zeros(3, np.float32)
        event = gpu.driver.create_event()  # as the protocol asks for
        gpu.driver.record(event, found["stream"])
        gpu.driver.wait_for(theirs, event)
        gpu.driver.copy(seen.ctypes.data, found["data"][0], 12, theirs)
        del x
        gc.collect()
        y = dr.cuda.Float([7, 8, 9])
        assert y._node.data.address == found["data"][0]
        gpu.sync()
        assert seen.tolist() == [1, 2, 3] and y.numpy().tolist() == [7, 8, 9]


def test_requests_that_cannot_be_met(gpu):
    x = dr.cuda.Float([1, 2])
    with pytest.raises(BufferError, match=r"on device \(12, 0\), not on \(1, 0\)"):
        x.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="no streams"):
        llvm.Float([1, 2]).__dlpack__(stream=1)
    copied = dlpack.take_array(x.__dlpack__(stream=-1, copy=True), "test")
    assert copied.address != x._node.data.address


def test_cuda_array_interface(gpu):
    x = dr.cuda.Float([1, 2, 3]) + 1
    found = x.__cuda_array_interface__
    assert found == {
        "version": 3, "shape": (3,), "typestr": "<f4", "data": (x._node.data.address, False),
        "strides": None, "stream": gpu.queue.stream,
    }  # fmt: skip
    t = dr.cuda.TensorXu8(np.zeros((2, 3), np.uint8))
    assert t.__cuda_array_interface__["shape"] == (2, 3)
    for other in (llvm.Float(1), dr.cuda.Array3f(1), dr.scalar.ArrayXf(1)):
        assert not hasattr(other, "__cuda_array_interface__")


def test_memory_behind_the_interface_stays_as_long_as_the_array(gpu):
    x = dr.cuda.Float([1, 2, 3])
    address = x.__cuda_array_interface__["data"][0]
    dr.scatter(x, dr.cuda.Float(9), dr.cuda.UInt(0))
    x += 1
    dr.eval(x)
    others = [dr.cuda.Float([5, 6, 7]) for _ in range(3)]
    gpu.sync()
    assert gpu.driver.memory.view(address, 12).view(np.float32).tolist() == [1, 2, 3]
    assert x.numpy().tolist() == [10, 3, 4]
    del x
    gc.collect()
    others += [dr.cuda.Float([5, 6, 7]) for _ in range(3)]
    assert address in [b._node.data.address for b in others]


# From other libraries


@pytest.mark.parametrize("name", NAMES)
def test_memory_of_other_libraries_is_shared(gpu, name):
    cls = getattr(dr.cuda, name)
    values = np.array([1, 0, 3]).astype(cls._dtype.numpy)
    other = Other(gpu, values)
    x = cls(other)
    assert x._node.data.address == other.address and x._node.data.owner is other
    assert x.numpy().tolist() == values.tolist()
    y = dr.cuda.Float64(other)  # other types are converted
    assert y.numpy().tolist() == values.astype(np.float64).tolist()


@pytest.mark.parametrize("n", [5, 8])
def test_nothing_is_read_beyond_memory_of_other_libraries(gpu, n):
    values = np.arange(n, dtype=np.float32)
    y = dr.cuda.Float(values)
    gpu.forget_kernels()
    for x in (dr.cuda.Float(Other(gpu, values)), dr.cuda.Float(values)):
        z = x + y
        assert z.numpy().tolist() == (2 * values).tolist()
    (kernel,) = gpu.kernels()
    assert [c.form.lanes for c in kernel.codes.values()] == ([4] if n == 8 else [4, 1])


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.bool_, np.uint64])
def test_element_types_are_converted(gpu, kind):
    values = np.array([0, 1, 5]).astype(kind)
    expected = values.astype(np.float32).tolist()
    assert dr.cuda.Float(Other(gpu, values)).numpy().tolist() == expected
    assert dr.cuda.TensorXf(Other(gpu, values)).numpy().tolist() == expected


def test_shapes_of_classes(gpu):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    v = dr.cuda.Array3f(Other(gpu, rows))
    assert v.numpy().tolist() == rows.tolist()
    assert dr.cuda.Array2f(Other(gpu, rows), flip_axes=True).numpy().tolist() == rows.T.tolist()
    assert dr.cuda.Array3f(Other(gpu, rows[:, 0].copy())).numpy().tolist() == [[0], [2], [4]]
    assert dr.cuda.Float(Other(gpu, np.float32(7))).numpy().tolist() == [7]
    assert dr.cuda.Array3f(Other(gpu, np.float32(7))).numpy().tolist() == [[7], [7], [7]]
    m = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    np.testing.assert_array_equal(dr.cuda.Matrix2f(Other(gpu, m)).numpy(), m)
    c = np.array([1 + 2j, 3 + 4j], np.complex64)
    np.testing.assert_array_equal(dr.cuda.Complex2f(Other(gpu, c)).numpy(), c)
    with pytest.raises(
        TypeError, match=r"Array3f\(\): .*type 'Other'.*shape=\(3, \*\).*has the shape \(2, 3\)"
    ):
        dr.cuda.Array3f(Other(gpu, rows.reshape(2, 3)))
    with pytest.raises(TypeError, match=r"Float\(\): .*type 'Other'.*has the shape \(3, 2\)"):
        dr.cuda.Float(Other(gpu, rows))


def test_strides(gpu):
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    for view in (values.T, values[::2], values[:, 1:3], values[::-1, ::-2], values[:, 0]):
        start = (view.ctypes.data - values.ctypes.data) // 4
        other = Other(gpu, values, view.strides, view.shape, start)
        np.testing.assert_array_equal(dr.cuda.TensorXi(other).numpy(), view)
    repeated = Other(gpu, values, (0, 4), (3, 4))
    np.testing.assert_array_equal(dr.cuda.TensorXi(repeated).numpy(), values[[0, 0, 0]])


def test_memory_that_is_not_aligned_is_copied(gpu):
    values = np.arange(10, dtype=np.float32)
    other = Other(gpu, values, shape=(9,), start=1)
    x = dr.cuda.Float(other)
    assert x.numpy().tolist() == values[1:].tolist()
    assert x._node.data.address % 256 == 0


def test_their_stream_is_waited_for():
    with registered(Cuda(EmulatedDriver(delayed=True))) as gpu:
        theirs = gpu.driver.create_stream()
        other = Other(gpu, np.zeros(3, np.float32), stream=theirs)
        source = np.array([1, 2, 3], np.float32)
        gpu.driver.copy(other.address, source.ctypes.data, 12, theirs)
        assert dr.cuda.Float(other).numpy().tolist() == [1, 2, 3]


def test_arrays_that_cannot_be_converted(gpu):
    values = np.zeros(3, np.float32)
    with pytest.raises(TypeError, match="with a mask"):
        dr.cuda.Float(Other(gpu, values, mask=object()))
    with pytest.raises(TypeError, match=r"Float\(\): elements of type \|V4 have no equivalent"):
        dr.cuda.Float(Other(gpu, values, typestr="|V4"))
    with pytest.raises(TypeError, match=r"in memory that CUDA does not know.* uses GPU 0"):
        dr.cuda.Float(Other(gpu, values, data=(values.ctypes.data, False)))
    gpu.driver.pointer = lambda address: ("device", 1)
    with pytest.raises(TypeError, match=r"the array is on GPU 1, and the backend uses GPU 0"):
        dr.cuda.Float(Other(gpu, values))


def test_types_that_dlpack_has_beyond_ours(gpu):
    owner = dr.scalar.ArrayXf()
    capsule = dlpack.make_capsule(gpu.allocate(8).address, dt.f32, (2,), (2, 0), owner, True)
    dlpack._structure(capsule).tensor.code = 4  # bfloat
    with pytest.raises(TypeError, match=r"Float\(\): elements of DLPack's type \(4, 32 bits"):
        dlpack.take_array(capsule, "Float()")


def test_import_tensor(gpu):
    values = np.arange(6, dtype=np.float64).reshape(2, 3)
    for other in (Other(gpu, values), Capsules(dr.cuda.TensorXf64(values), True)):
        t = dr.detail.import_tensor(other, ad=True)
        assert type(t) is dr.cuda.ad.TensorXf64
        np.testing.assert_array_equal(t.numpy(), values)
    assert type(dr.detail.import_tensor(values)) is llvm.TensorXf64


def test_numpy_arrays(gpu):
    values = np.arange(5, dtype=np.float32)
    x = dr.cuda.Float(values)
    values[:] = 0
    assert x.numpy().tolist() == [0, 1, 2, 3, 4]
    held = x.numpy()
    held[0] = 9  # a copy
    assert x[0] == 0 and np.asarray(x).tolist() == [0, 1, 2, 3, 4]
    assert memoryview(x.memview()).tolist() == [0, 1, 2, 3, 4]


# Other backends


def test_arrays_are_converted_between_backends(gpu):
    x = llvm.Float([1, 2, 3]) + 1
    y = dr.cuda.Float(x)
    assert type(y) is dr.cuda.Float and y.numpy().tolist() == [2, 3, 4]
    assert llvm.Int(y * 2).numpy().tolist() == [4, 6, 8]
    assert dr.cuda.Array3f(llvm.Array3f(1, [2, 3], 4)).numpy().tolist() == [[1, 1], [2, 3], [4, 4]]
    t = dr.cuda.TensorXf(llvm.TensorXf(np.eye(2)))
    assert t.shape == (2, 2) and llvm.TensorXf(t).numpy().tolist() == [[1, 0], [0, 1]]
    assert dr.cuda.Float(llvm.Float(3)).state is dr.VarState.Literal
    z = dr.cuda.ad.Float(x)
    assert not dr.grad_enabled(z)


def test_derivatives_stay_on_their_backend(gpu):
    x = llvm.ad.Float([1, 2, 3])
    dr.enable_grad(x)
    with pytest.raises(TypeError, match=r"cuda\.ad\.Float\(\): .* another backend.*dr\.detach"):
        dr.cuda.ad.Float(x)
    assert dr.cuda.ad.Float(dr.detach(x)).numpy().tolist() == [1, 2, 3]

"""OpenGL buffers and textures, and parts of a GPU, on a library that notes calls of the driver."""

import ctypes

import numpy as np
import pytest
from cuda_library import CONTEXT, FakeLibrary
from cuda_namespace import registered

import drjit as dr
from drjit.jit.cuda import green
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.graphics import _Copy
from drjit.jit.cuda.libcuda import PROTOTYPES, LibCuda


class Library(FakeLibrary):
    """With a buffer of 24 bytes, and a texture of 2 x 3 texels of 4 floats."""

    version_of_driver = 12040
    multiprocessors = 16

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(24, np.uint8)
        self.copies = []

    def _cuGraphicsGLRegisterBuffer(self, made, number, flags):
        made[0] = 0xB0

    def _cuGraphicsGLRegisterImage(self, made, number, target, flags):
        assert target == 0x0DE1
        made[0] = 0x1A

    def _cuGraphicsMapResources(self, count, resources, stream):
        self.mapped = count, resources[0], stream

    _cuGraphicsUnmapResources = _cuGraphicsMapResources

    def _cuGraphicsResourceGetMappedPointer_v2(self, address, size, resource):
        address[0], size[0] = self.buffer.ctypes.data, 24

    def _cuGraphicsSubResourceGetMappedArray(self, made, resource, index, level):
        made[0] = 0xA00 + level

    def _cuArrayGetDescriptor_v2(self, found, array):
        words = (ctypes.c_uint32 * 6).from_address(found)
        words[0], words[2], words[4], words[5] = 3, 2, 0x20, 4

    def _cuMemcpy2DAsync_v2(self, copy, stream):
        self.copies.append(
            (_Copy.from_buffer_copy(ctypes.string_at(copy, ctypes.sizeof(_Copy))), stream)
        )

    def _resource(self, address):
        return green._Resource.from_address(address)

    def _cuDeviceGetDevResource(self, device, found, kind):
        resource = self._resource(found)
        resource.type, resource.count = kind, 16

    def _cuDevSmResourceSplitByCount(self, part, groups, whole, others, flags, least):
        size = -(-least // 8) * 8
        assert groups[0] == 1 and self._resource(whole).count == 16
        self._resource(part).count, self._resource(others).count = size, 16 - size

    def _cuDevResourceGenerateDesc(self, made, resource, count):
        made[0] = 0xD00 + self._resource(resource).count

    def _cuGreenCtxCreate(self, made, description, device, flags):
        made[0] = description + 0x100

    def _cuCtxFromGreenCtx(self, made, context):
        made[0] = context + 0x100

    def _cuGreenCtxStreamCreate(self, made, context, flags, priority):
        made[0] = 0x77


@pytest.fixture
def library():
    made = Library()
    with registered(Cuda(LibCuda(made))):
        made.calls.clear()
        yield made


def names(library):
    return [c[0] for c in library.take()]


def test_structures_have_the_sizes_of_the_driver():
    assert ctypes.sizeof(_Copy) == 128 and _Copy.target_array.offset == 96
    assert ctypes.sizeof(green._Resource) == 144 and green._Resource.count.offset == 96


def test_a_buffer_gets_an_array(library):
    interop = dr.cuda.GLInterop.from_buffer(5)
    assert library.take() == [("cuGraphicsGLRegisterBuffer", 5, 2)]
    values = dr.cuda.Float([1, 2, 3, 4, 5, 6])
    assert interop.map().upload(values).unmap() is interop
    assert library.buffer.view(np.float32).tolist() == [1, 2, 3, 4, 5, 6]
    called = names(library)
    assert [n for n in called if "Graphics" in n] == [
        "cuGraphicsMapResources", "cuGraphicsResourceGetMappedPointer_v2",
        "cuGraphicsUnmapResources",
    ]  # fmt: skip
    del interop
    assert library.take() == [("cuGraphicsUnregisterResource", 0xB0)]


def test_a_texture_gets_a_tensor(library):
    interop = dr.cuda.GLInterop.from_texture(6)
    image = dr.cuda.TensorXf(np.arange(24).reshape(2, 3, 4))
    interop.map(1).upload(image).unmap()
    ((copy, stream),) = library.copies
    assert (copy.source_type, copy.target_type, copy.target_array) == (2, 3, 0xA01)
    assert (copy.source_pitch, copy.width, copy.height) == (48, 48, 2)
    assert copy.source_device == image._array._node.data.address
    assert stream == library.mapped[2] != 0


def test_what_does_not_fit(library):
    buffer, texture = dr.cuda.GLInterop.from_buffer(5), dr.cuda.GLInterop.from_texture(6)
    with pytest.raises(RuntimeError, match=r"upload\(\): nothing is mapped; call map\(\) first"):
        buffer.upload(dr.cuda.Float(1))
    with pytest.raises(RuntimeError, match=r"unmap\(\): nothing is mapped"):
        buffer.unmap()
    buffer.map()
    with pytest.raises(RuntimeError, match=r"it is mapped; call unmap\(\) first"):
        buffer.map()
    with pytest.raises(ValueError, match="the array has 8 bytes, and the buffer 24"):
        buffer.upload(dr.cuda.Float([1, 2]))
    with pytest.raises(TypeError, match=r"expected an array on the GPU, got numpy.ndarray"):
        buffer.upload(np.zeros(6, np.float32))
    texture.map()
    with pytest.raises(ValueError, match=r"has 3 x 2 texels of 16 bytes, and the texture 2 x 3 of"):
        texture.upload(dr.cuda.TensorXf(np.zeros((3, 2, 4))))
    with pytest.raises(ValueError, match=r"\(height, width, channels\), got shape \(6,\)"):
        texture.upload(dr.cuda.Float([1, 2, 3, 4, 5, 6]))
    library.fails = {"cuGraphicsGLRegisterBuffer": 1}
    with pytest.raises(
        RuntimeError, match=r"from_buffer\(\): the driver refuses 9 .*OpenGL buffer"
    ):
        dr.cuda.GLInterop.from_buffer(9)
    with pytest.raises(TypeError, match="the number of an OpenGL object, got 'x'"):
        dr.cuda.register_gl_texture("x")
    with pytest.raises(TypeError, match=r"use GLInterop\.from_buffer"):
        dr.cuda.GLInterop()


def test_resources(library):
    buffer, texture = dr.cuda.register_gl_buffer(5), dr.cuda.register_gl_texture(6)
    assert "CUgraphicsResource" in repr(buffer)
    assert dr.cuda.map_graphics_resource_ptr(buffer) == (library.buffer.ctypes.data, 24)
    assert dr.cuda.map_graphics_resource_array(texture, 2) == 0xA02
    dr.cuda.memcpy_2d_to_array_async(0xA02, 0x1234, 12, 5)
    dr.cuda.memcpy_2d_to_array_async(0xA02, 0x1234, 12, 5, from_host=True)
    first, second = [copy for copy, _ in library.copies]
    assert (first.source_type, first.source_device, first.source_host) == (2, 0x1234, None)
    assert (second.source_type, second.source_device, second.source_host) == (1, 0, 0x1234)
    for resource in (buffer, texture):
        dr.cuda.unmap_graphics_resource(resource)
        dr.cuda.unregister_cuda_resource(resource)
    assert names(library)[-4:] == ["cuGraphicsUnmapResources", "cuGraphicsUnregisterResource"] * 2
    with pytest.raises(TypeError, match=r"expected what register_gl_buffer\(\) or .*, got int"):
        dr.cuda.unmap_graphics_resource(3)


def test_a_part_of_the_gpu(library):
    x, queue = dr.cuda.Float([1, 2]), dr.jit.device.find(dr.JitBackend.CUDA).queue
    usual = queue.stream
    part = dr.cuda.green_context(5)
    assert (part.requested_sm_count, part.sm_count) == (5, 8)
    assert "CUcontext" in repr(part.remaining_ctx)
    library.take()
    with part:
        assert queue.stream == 0x77
        assert next(c for c in library.take() if c[0] == "cuStreamWaitEvent")[1] == 0x77
        with dr.cuda.green_context(16) as all_of_it:
            assert all_of_it.remaining_ctx is None
        assert x.numpy().tolist() == [1, 2]
    assert queue.stream == usual
    library.take()
    with pytest.raises(ZeroDivisionError), part:
        raise ZeroDivisionError
    assert queue.stream == usual
    library.take()
    del part
    assert names(library)[-2:] == ["cuGreenCtxDestroy", "cuGreenCtxDestroy"]
    assert library.current.context == CONTEXT


def test_events_in_a_part_of_the_gpu(library):
    """Where the driver wants event and stream to be of one context, it takes the green one's."""
    event, end = dr.cuda.Event(), dr.cuda.Event()
    refuses = lambda event, stream: 400 if stream == 0x77 else 0  # noqa: E731
    library._cuEventRecord = refuses
    library.cuEventRecord = ctypes.CFUNCTYPE(ctypes.c_int, *PROTOTYPES["cuEventRecord"])(
        library._noting("cuEventRecord")
    )
    part = dr.cuda.green_context(5)
    library.take()
    with part:
        event.record()
        x = dr.cuda.Float([1, 2]) + 1
        assert x.__dlpack__(stream=0x51)
        assert x.numpy().tolist()
    recorded = [c for c in library.take() if c[0] == "cuGreenCtxRecordEvent"]
    assert ("cuGreenCtxRecordEvent", 0xE08, event.handle) in recorded and len(recorded) > 3
    end.record()
    assert event.elapsed_time(end) == 1.5
    assert not [c for c in library.take() if c[0] == "cuGreenCtxRecordEvent"]
    library.fails = {"cuEventRecord": 400}
    with pytest.raises(CudaError, match="INVALID_HANDLE"):
        end.record()
    library.fails = {}


def test_parts_that_cannot_be(library):
    with pytest.raises(RuntimeError, match=r"17 multiprocessors are asked for, and .* has 16"):
        dr.cuda.green_context(17)
    library.fails = {"cuGreenCtxCreate": 1}
    with pytest.raises(
        RuntimeError, match=r"cannot give 4 of 16 multiprocessors .*cuGreenCtxCreate"
    ):
        dr.cuda.green_context(4)
    library.fails = {}
    library.version = 12020
    with pytest.raises(RuntimeError, match=r"CUDA 12\.4 or later, and this one is for CUDA 12\.2"):
        dr.cuda.green_context(4)


def test_a_driver_without_them():
    with registered(Cuda(EmulatedDriver())):
        for call in (
            dr.cuda.GLInterop.from_buffer,
            dr.cuda.register_gl_texture,
            dr.cuda.green_context,
        ):
            with pytest.raises(RuntimeError, match="the emulator lacks it"):
                call(1)

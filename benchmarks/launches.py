"""What a launch on a GPU costs on the host: Python's part, and the driver's, with and without CUDA
graphs.

    python benchmarks/launches.py

measures Python's part on any machine, with a driver whose functions do nothing. `gpu.py` measures
both on a GPU. Times are of the processor, in microseconds a kernel.
"""

import ctypes
import itertools
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint, c_void_p
from typing import Any

import numpy as np

import drjit as dr
from drjit.jit import device
from drjit.jit.cuda import libcuda
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import DeviceAttribute

KERNELS = 10  # in a frozen function, and in a graph


class NoDriver(libcuda.LibCuda):
    """The driver by ctypes, on C functions that return 0 and do nothing else."""

    def __init__(self) -> None:
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        code = binding.parse_assembly("define i32 @nothing() { ret i32 0 }")
        machine = binding.Target.from_default_triple().create_target_machine()
        self._engine = binding.create_mcjit_compiler(code, machine)
        self._engine.finalize_object()
        nothing = ctypes.CFUNCTYPE(ctypes.c_int)(self._engine.get_function_address("nothing"))
        library = type("Library", (), {})()
        for name, types in (libcuda.PROTOTYPES | GRAPHS).items():
            function: Any = ctypes.cast(nothing, ctypes.CFUNCTYPE(ctypes.c_int))
            function.argtypes = types
            setattr(library, name, function)
        self._addresses, self._host = itertools.count(1 << 40, 1 << 30), []
        super().__init__(library)

    def version(self) -> int:
        return 13000

    def device_name(self, ordinal: int) -> str:
        return "no GPU"

    def device_attribute(self, ordinal: int, attribute: DeviceAttribute) -> int:
        return {
            DeviceAttribute.CAPABILITY_MAJOR: 9, DeviceAttribute.MULTIPROCESSORS: 132,
            DeviceAttribute.MAX_SHARED_PER_BLOCK_OPTIN: 227 << 10,
        }.get(attribute, 0)  # fmt: skip

    def allocate(self, nbytes: int) -> int:
        return next(self._addresses)

    def allocate_host(self, nbytes: int) -> int:
        self._host.append(np.zeros(nbytes, np.uint8))
        return self._host[-1].ctypes.data


# ---- Python's part


@dr.syntax
def doubled(x, n):
    k = type(n)(0)
    while k < n:
        x = x * 2
        k += 1
    return x


def programs() -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yields names, programs, and how many kernels they launch."""
    from drjit.cuda import Float, Float16, UInt

    x, y, n = dr.opaque(Float, 1, 64), dr.opaque(Float, 2, 64), dr.opaque(UInt, 3, 64)
    half, total = dr.opaque(Float16, 1, 64), dr.opaque(Float16, 0, 64)

    def repeated(step: Callable) -> Callable:
        @dr.freeze
        def run(v, *others):
            for _ in range(KERNELS):
                v = step(v, *others)
                dr.eval(v)
            return v

        return run

    def added(t, v, i):
        dr.scatter_add(t, v, i)
        return t

    yield "`x*2 + y`: trace, schedule, launch", lambda: dr.eval(x * 2 + y), 1
    for name, step, arguments in (
        ("a frozen kernel", lambda v, y: v * 2 + y, (x, y)),
        ("with bounds checks", lambda v, i: dr.gather(Float, v, i) + 1, (x, n)),
        ("with a loop", doubled, (x, n)),
        ("with sums of halves in single precision", added, (total, half, n)),
    ):
        frozen = repeated(step)
        yield f"{name}, {KERNELS} in a function", lambda f=frozen, a=arguments: f(*a), KERNELS


def cost(run: Callable[[], object], kernels: int, rounds: int = 40, count: int = 40) -> float:
    """Returns the microseconds of the processor for a kernel, in the quickest round."""
    for _ in range(5):
        run()
    times = []
    for _ in range(rounds):
        dr.sync_thread()
        start = time.process_time()
        for _ in range(count):
            run()
        times.append((time.process_time() - start) / count / kernels)
    return min(times) * 1e6


# ---- The driver's part

_HANDLE = ctypes.POINTER(c_void_p)
GRAPHS: dict[str, tuple[Any, ...]] = {
    "cuGraphCreate": (_HANDLE, c_uint),
    "cuGraphAddKernelNode_v2": (_HANDLE, c_void_p, c_void_p, ctypes.c_size_t, c_void_p),
    "cuGraphInstantiateWithFlags": (_HANDLE, c_void_p, ctypes.c_ulonglong),
    "cuGraphExecKernelNodeSetParams_v2": (c_void_p, c_void_p, c_void_p),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
}


class _Node(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", c_void_p), ("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
        ("parameters", c_void_p), ("extra", c_void_p), ("kernel", c_void_p), ("context", c_void_p),
    )  # fmt: skip


class Graph:
    """A launch of the driver, repeated in a graph whose kernels run one after the other."""

    def __init__(self, driver: Any, launch: tuple, kernels: int) -> None:
        self.driver, self._graph, self._executable = driver, c_void_p(), c_void_p()
        for name, types in GRAPHS.items():
            function = getattr(driver.library, name)
            function.argtypes, function.restype = types, ctypes.c_int
        function, grid, block, shared, _, parameters, _ = launch
        self._kept = parameters, ctypes.c_size_t(len(parameters))
        extra = libcuda._Extra(1, parameters, 2, ctypes.addressof(self._kept[1]), None)
        self._extra = extra
        self.node = _Node(
            function, (c_uint * 3)(*grid), (c_uint * 3)(*block), shared, None,
            ctypes.addressof(extra), None, None,
        )  # fmt: skip
        self.call("cuGraphCreate", byref(self._graph), 0)
        self.nodes: list[c_void_p] = []
        for _ in range(kernels):
            made, before = c_void_p(), self.nodes[-1:]
            given = byref(before[0]) if before else None
            self.call(
                "cuGraphAddKernelNode_v2", byref(made), self._graph, given, len(before),
                byref(self.node),
            )  # fmt: skip
            self.nodes.append(made)
        self.call("cuGraphInstantiateWithFlags", byref(self._executable), self._graph, 0)

    def call(self, function: str, *arguments: Any) -> None:
        self.driver._call_in_context(function, *arguments)

    def launch(self, stream: int, update: bool = False) -> None:
        library = self.driver.library
        if update:
            for n in self.nodes:
                library.cuGraphExecKernelNodeSetParams_v2(self._executable, n, byref(self.node))
        code = library.cuGraphLaunch(self._executable, stream)
        if code:
            raise self.driver._error(code, "cuGraphLaunch")

    def close(self) -> None:
        self.call("cuGraphExecDestroy", self._executable)
        self.call("cuGraphDestroy", self._graph)


def a_launch(gpu: Cuda) -> tuple:
    """Returns the arguments of the driver for a small kernel."""
    seen: list[tuple] = []
    x, real = dr.opaque(dr.cuda.Float, 1, 64), gpu.driver.launch
    gpu.driver.launch = lambda *a: (seen.append(a), real(*a))[1]  # pyright: ignore
    try:
        for _ in range(2):
            dr.eval(x * 2 + 1)
    finally:
        del gpu.driver.launch  # pyright: ignore
    dr.sync_thread()
    return seen[-1]


def calls(gpu: Cuda) -> Iterator[tuple[str, Callable[[], object], int]]:
    """Yields ways to launch the kernels of a frozen function by the driver, without Python's part;
    see `programs`. All but the last repeat what they did before, as if nothing had changed."""
    launch, driver = a_launch(gpu), gpu.driver
    stream = gpu.queue.stream

    def one_by_one(first: bool = False) -> None:
        for _ in range(KERNELS):
            if first:
                driver._call("cuCtxSetCurrent", driver._context)  # pyright: ignore
            driver.launch(*launch)

    yield "`cuLaunchKernel`", one_by_one, KERNELS
    yield "the same, after `cuCtxSetCurrent`", lambda: one_by_one(True), KERNELS
    graph = Graph(driver, launch, KERNELS)
    try:
        yield "`cuGraphLaunch`", lambda: graph.launch(stream), KERNELS
        name = "the same, after `cuGraphExecKernelNodeSetParams` for each kernel"
        yield name, lambda: graph.launch(stream, True), KERNELS
    finally:
        dr.sync_thread()
        graph.close()


def until_done(gpu: Cuda, run: Callable[[], object], kernels: int, count: int = 20) -> float:
    """Returns the microseconds for a kernel from the first call to the end of the last kernel, in
    the quickest of several rounds."""
    times = []
    for _ in range(20):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(count):
            run()
        gpu.driver.synchronize(gpu.queue.stream)
        times.append((time.perf_counter() - start) / count / kernels)
    return min(times) * 1e6


def main() -> None:
    gpu = Cuda(NoDriver())
    device.register(gpu)
    print("| a launch, with a driver that does nothing | µs |\n| --- | --- |")
    for name, run, kernels in itertools.chain(programs(), calls(gpu)):
        print(f"| {name} | {cost(run, kernels):.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""What this machine can do at most: bytes read and written in a second, and operations, where a
fused multiply-add is two. Kernels of ours measure it once for each machine and number of threads;
a file beside the kernels of the disk cache keeps it. A GPU's limits follow from its clocks.
"""

import json
import os
import platform
import struct
import time
from typing import Any

from ..jit import processor
from ..jit.cpu import kernel, memory, runtime
from ..jit.cpu.variants import Variant, key_of
from ..jit.run import cache

STREAM_LANES = 1 << 24  # of four bytes: three arrays do not fit into caches
FUSED_LANES = 1 << 18
CHAINS, LENGTH = 12, 24  # fused multiply-adds at a time, and one after the other
_REPEATED = 4
_BITS = {"f32": "<f", "f64": "<d"}

_known: dict[tuple, dict[str, Any]] = {}


def limits() -> dict[str, Any]:
    """Returns `bandwidth` in bytes a second, `flops` by type, and when and for how many `threads`
    they were measured; an empty dictionary where that is impossible. The first call on a machine
    takes a second or two."""
    key = platform.node(), *processor.identity(), runtime.thread_count()
    if key not in _known:
        _known[key] = _from_disk(key) or _measured(key)
    return _known[key]


def of_gpu(device: Any) -> dict[str, Any]:
    """Returns the same for a GPU, by its clocks and the numbers of its units."""
    from ..jit.cuda.driver import DeviceAttribute

    if device.driver.emulated:
        return {}
    try:
        clock, memory_clock, width = [
            device.driver.device_attribute(device.ordinal, DeviceAttribute[name])
            for name in ("CLOCK_RATE", "MEMORY_CLOCK_RATE", "MEMORY_BUS_WIDTH")
        ]
    except RuntimeError:  # the device can no longer be used
        return {}
    large = device.capability in ((7, 0), (8, 0), (9, 0), (10, 0))  # made for computing centres
    units = 64 if device.capability in ((7, 0), (7, 5), (8, 0)) else 128
    f32 = 2e3 * clock * device.multiprocessors * units
    flops = {"f16": f32 if units == 128 else 2 * f32, "f32": f32, "f64": f32 / (2 if large else 64)}
    bandwidth = 2e3 * memory_clock * width / 8
    return {"bandwidth": bandwidth, "flops": flops, "measured": "", "threads": 0, "modelled": True}


def _path(key: tuple) -> str | None:
    where = cache.folder()
    name = cache.digest("", *key, machine=False)
    return None if where is None else os.path.join(where, f"{name}.machine")


def _from_disk(key: tuple) -> dict[str, Any]:
    """Returns what an earlier process has measured."""
    path = _path(key)
    found = cache.opened(path) if path else None
    if found is None:
        return {}
    with open(found[0], "rb") as file:
        try:
            return json.load(file)
        except ValueError:
            return {}


def _measured(key: tuple) -> dict[str, Any]:
    try:
        found = {
            "bandwidth": _bandwidth(),
            "flops": {code: _flops(code) for code in _BITS},
            "measured": time.strftime("%Y-%m-%d"),
            "threads": runtime.thread_count(),
        }
    except (ImportError, MemoryError):  # no compiler, or arrays that do not fit
        return {}
    if path := _path(key):
        cache.write(path, json.dumps(found).encode())
    return found


def _prepared(text: str, lanes: int, layout: str, cost: int) -> kernel.CpuKernel:
    """Returns a kernel with packets of a number of lanes. It is nobody else's."""
    made = kernel.CpuKernel(text, layout, cost)
    variant = Variant(key_of(text, 0, lanes), lanes)
    made.adopt(made._from_disk([variant]) or made.compiled(variant, 0))
    return made


def _seconds(made: kernel.CpuKernel, words: list[int], size: int) -> float:
    """Returns how long a launch takes."""
    start = time.perf_counter()
    kernel.launch(made, words, size, kernel.block_for(size * made.cost, size), False)
    runtime.drain()  # errors are left for who reads
    return time.perf_counter() - start


def _bandwidth() -> float:
    """Adds two arrays and writes the sum past the caches."""
    text = kernel.text_of(
        "x0 = load(f32, p[1], i)", "x1 = load(f32, p[2], i)", "v0 = x0 + x1",
        "stream(f32, p[3], i, v0)",
    )  # fmt: skip
    made = _prepared(text, 16, "4Q", 4)
    arrays = [memory.allocate(4 * STREAM_LANES) for _ in range(3)]
    times = []
    for _ in range(2 * _REPEATED):  # each array is written before it is read
        arrays = [*arrays[1:], arrays[0]]
        times.append(_seconds(made, [0, *[a.address for a in arrays]], STREAM_LANES))
    return 12 * STREAM_LANES / min(times[3:])


def _flops(code: str) -> float:
    """Computes several fused multiply-adds at a time in registers. Each needs a result of another
    one, or else LLVM would order them such that few values are in use at a time."""
    lines = ["v0 = lane(i)", f"v1 = {code}(v0)"]
    lines += [f"c0 = literal({code}, p[1])"]
    lines += [f"w{k} = v1 + {k}" for k in range(CHAINS)]
    steps = [f"w{k} = fma(w{k}, c0, w{(k + 1) % CHAINS})" for k in range(CHAINS)]
    lines += [*steps * LENGTH, *[f"w0 = w0 + w{k}" for k in range(1, CHAINS)]]
    lines += [f"store({code}, p[2], i, w0)"]
    itemsize = struct.calcsize(_BITS[code])
    lanes = processor.register_bytes() // itemsize
    made = _prepared(kernel.text_of(*lines), lanes, "3Q", CHAINS * LENGTH)
    result = memory.allocate(itemsize * FUSED_LANES)
    half = struct.pack(_BITS[code], 0.5).ljust(8, b"\0")
    words = [0, int.from_bytes(half, "little"), result.address]
    times = [_seconds(made, words, FUSED_LANES) for _ in range(10 * _REPEATED)]
    return 2 * CHAINS * LENGTH * FUSED_LANES / min(times)

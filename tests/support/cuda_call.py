"""Runs the text of a kernel on an emulated GPU."""

from functools import cache

import numpy as np

from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.target import cuda


@cache
def made(text, words, contract, capability, reduced, **options):
    """A compiled kernel: many tests run one for several sizes."""
    return cuda.compile(text, "k", words, contract, capability, reduced, **options)


def call(
    text, words, n, lanes=1, *, blocks=2, contract=False, capability=(9, 0), reduced=False,
    edit=str, packets=False, **_,
):  # fmt: skip
    """Runs a kernel for `n` lanes, with so many blocks if these stride over the lanes. Arrays
    become buffers that are copied back, anything else a word. `edit` changes the PTX. Returns the
    reports of the launches. With `packets`, threads may have several lanes."""
    options = {"packets": True} if packets else {}
    built = made(text, len(words), contract, capability, reduced, **options)
    memory = Memory()
    module = Module(edit(built.code), memory)
    buffers, block = [], np.zeros(len(words), np.uint64)
    for k, word in enumerate(words):
        if isinstance(word, np.ndarray):
            padding = -word.nbytes % 16 if packets else 0
            block[k] = memory.allocate(max(word.nbytes + padding, 1), f"p[{k}]")
            buffers.append((word, memory.view(int(block[k]), word.nbytes).view(word.dtype)))
            buffers[-1][1][:] = word
        elif isinstance(word, np.generic):
            block[k] = int.from_bytes(word.tobytes(), "little")
        else:
            block[k] = word
    parameters, counter = block.tobytes(), memory.allocate(4, "counter")
    memory.view(counter, 4)[:] = 0
    if not built.by_value:
        place = memory.allocate(len(parameters), "parameters")
        memory.view(place, len(parameters))[:] = np.frombuffer(parameters, np.uint8)
        parameters = np.uint64(place).tobytes()
    parameters += np.int64(n).tobytes() + np.uint64(counter).tobytes()
    grid = max(-(-n // (built.threads * built.lanes)), 1)
    grid = min(grid, blocks) if built.strides else grid
    entries = module.entries
    reports = [entries[built.entry].launch(grid, built.threads, parameters, built.shared)]
    if built.finish:
        reports.append(entries[built.finish].launch(2, built.threads, parameters))
    for word, buffer in buffers:
        word[:] = buffer
    return reports

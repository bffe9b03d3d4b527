"""Kernels that run as Python, on NumPy or on single numbers: their parameters and outputs."""

import marshal
import time
from typing import Any

from .. import flags, log
from ..device import Operands
from ..flags import JitFlag
from ..ir.dtype import DType
from ..lazy import np
from ..run import history
from ..run.launch import as_python
from . import memory, runtime, variants
from .memory import Buffer


def run_on_numpy(kernel: Any, size: int, operands: Operands, record: Any) -> list[Buffer | None]:
    def output(t: DType, n: int) -> tuple[Buffer, np.ndarray]:
        b = memory.allocate(t.itemsize * n)
        return b, b.array(t.numpy, n)

    p, outputs = as_python(
        kernel.program,
        size,
        operands,
        record,
        lambda t, n, b: b.array(t.numpy, n),
        lambda e: e.buffer.array(e.dtype.numpy, e.size),
        output,
    )
    interpret(kernel, p, size)
    if record is not None:
        runtime.run_check(record.check)
    return outputs


def run_on_numbers(
    kernel: Any, size: int, operands: Operands, record: Any
) -> list[Buffer | None] | None:
    """Launches a kernel on single numbers; returns the outputs, or None if a loop takes longer than
    loading machine code would."""
    from ..target import python

    runtime.drain()
    inputs, literals, checks, _ = operands
    outputs = [python.Output() for _ in kernel.outputs]
    p: list[Any] = [python.ErrorReport(record.words, variants.python_limit()) if record else None]
    p += [n.data.entries(n.dtype, n.size) for n in inputs]
    p += [n.data for n in literals]
    p += [c.data[0] for c in checks]
    for (kind, _), o in zip(kernel.outputs, outputs, strict=True):
        p += [None, o] if kind == "reduce" else [o]
    before = kernel.interpreted_seconds
    try:
        interpret(kernel, p, size, "python")
    except python.TooLong:
        kernel.runs_as_python, kernel.state = False, "new"
        if record is not None:
            record.words[0] = 0
        return None
    if kernel.loops:  # their estimate is that of one iteration
        variants.add_python_time(kernel, kernel.interpreted_seconds - before)
    buffers: list[Buffer | None] = []
    for (_, itemsize), o, row in zip(kernel.outputs, outputs, kernel.program.outputs, strict=True):
        values = o.result(row.dtype)
        b = memory.allocate(itemsize * len(values), host=True)
        b.write(row.dtype, values)
        buffers.append(b)
    if record is not None:
        runtime.run_check(record.check)
    return buffers


def interpret(kernel: Any, p: list, size: int, where: str = "numpy") -> None:
    """Runs a kernel text as Python: on NumPy, or on single numbers."""
    if where == "numpy":
        from ..target import numpy as target
    else:
        from ..target import python as target
    busy = runtime.completed() < runtime.submitted
    waiting = time.perf_counter()
    runtime.drain()
    start = time.perf_counter()
    if busy:  # a compiled kernel would have been queued
        kernel.estimated_seconds += start - waiting
    if kernel.state == "new":
        kernel.state = where
    if flags.current & JitFlag.Debug:
        from .. import debug

        debug.run(kernel.text, kernel.name, p, size)
    else:
        function = kernel.functions.get(where)
        if function is None:
            names = dict(target.namespace)
            if kernel.bytecode:
                code = marshal.loads(kernel.bytecode)
            else:
                code = compile(kernel.text, f"<{kernel.name}>", "exec")
                kernel.bytecode = marshal.dumps(code)
            exec(code, names)
            function = kernel.functions[where] = names["kernel"]
        target.run(function, p, size)
    seconds = time.perf_counter() - start
    kernel.interpreted_seconds += seconds
    kernel.interpreted_launches += 1
    if flags.current & history.OBSERVED:
        history.add(kernel, size, where, seconds)
    if log.level >= 3:
        what = "NumPy" if where == "numpy" else "single numbers"
        kernel.log("ran on %s, %d lanes, %.3f ms", what, size, seconds * 1e3)

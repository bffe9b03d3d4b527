"""What tests in several files need: nodes with given values and back, comparison bit by bit, data,
functions in a few forms, and what has been launched."""

import gc
import time
import weakref
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import drjit as dr
from drjit.ad import graph
from drjit.jit import collector, substitutes
from drjit.jit.cpu import background, interpreted, kernel, memory
from drjit.jit.ir import node as ir
from drjit.jit.ir import op
from drjit.jit.ir.dtype import DType
from drjit.jit.ir.node import BUFFER, Node
from drjit.jit.run import cache, launch, schedule

ELEMENTWISE = tuple([o.name for o in op.TABLE.values() if o.elementwise])
"""The names of all element-wise operations."""

UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh",
    "deg2rad", "erf", "erfinv", "exp", "exp2", "expm1", "floor", "lgamma", "log", "log1p", "log2",
    "rad2deg", "rcp", "round", "rsqrt", "safe_acos", "safe_asin", "safe_sqrt", "sign", "sin",
    "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
"""The names of functions of one floating-point number."""

DEVICE = dr.llvm.Float._device
"""That of the types of drjit.llvm, which is a GPU with --device cuda."""

ALLOCATOR = memory if DEVICE.on_host else DEVICE.pool
ALLOCATE = "allocate" if DEVICE.on_host else "block"
"""The name of its function that returns memory of `DEVICE` for kernels and arrays."""


def allocate_by(patch: Any, allocate: Callable) -> None:
    """Lets a function allocate the memory of kernels and arrays."""
    patch.setattr(substitutes, "perform", None)
    patch.setattr(substitutes, "repeat", None)
    patch.setattr(ALLOCATOR, ALLOCATE, allocate)
    if hasattr(ALLOCATOR, "allocate_all"):

        def allocate_all(sizes: list[int], addresses: list[int]) -> list[Any]:
            found = [allocate(n) for n in sizes]
            addresses += [b.address for b in found]
            return found

        patch.setattr(ALLOCATOR, "allocate_all", allocate_all)


@dr.syntax
def slowly(x: Any) -> Any:
    """Computes 2 from 1, or any other number, in some 50 ms for few entries."""
    i = dr.uint32_array_t(x)(0)
    while i < 20_000_000:
        x = x * 0.5 + 1
        i += 1
    return x


def settle(collect: bool = True) -> None:
    """Waits until no thread compiles or writes to the cache, whose objects a test would count, and
    collects garbage if asked to. Native operators do not come meanwhile."""
    substitutes.milestone += 1 << 20
    background.finish()
    while collector.pauses:  # by threads that are about to leave
        time.sleep(1e-3)
    cache.write_pending()
    if collect:
        gc.collect()


def objects() -> int:
    """Returns how many objects the garbage collector knows, without weak references, which are
    swept out from time to time."""
    classes = [*map(type, collector.every_object())]
    return len(classes) - classes.count(weakref.ref)


def living_variables() -> int:
    """Returns how many variables of derivatives there are."""
    return len(collector.objects_of(graph.Var))


def in_cycles() -> list[str]:
    """Returns the classes of the package's objects, and its functions, that were not freed by
    reference counting but by the collector of cycles: not of all garbage, since other libraries and
    threads that compile make some at any time."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
    finally:
        gc.set_debug(0)
    found = [o if isinstance(o, FunctionType) else type(o) for o in gc.garbage]
    gc.garbage.clear()
    gc.collect()
    names = [f"{o.__module__}.{o.__qualname__}" for o in found]
    own = [s for s in names if s.startswith("drjit.")]
    kernel = "drjit.jit.cpu.kernel"
    compiling = f"{kernel}.CompiledCode", f"{kernel}.CpuKernel.submit"
    return [s for s in own if not s.startswith(("drjit.jit.target.", *compiling))]


def standing_still(patch: Any) -> SimpleNamespace:
    """Has launches on NumPy take no time, so that the estimates alone decide where kernels run.
    Returns the clock that they look at, whose time is `now`."""
    clock = SimpleNamespace(now=0.0)
    patch.setattr(interpreted, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def growth(run: Callable[[], Any], count: Callable[[], Any] = objects, collect: bool = True) -> Any:
    """Returns by how much `count`, or each number that it returns, grows when `run` is called,
    usually: what is imported or compiled for all later calls comes in one of them, and what
    earlier tests left in the process goes in one of them. Without `collect`, objects in cycles
    count."""
    found = []
    for _ in range(5):
        run()
        settle(collect)
        found.append(count())
    return np.sort(np.diff(found, axis=0), axis=0)[1]  # the lower one of the two in the middle


def forget_forward_traversals() -> None:
    """Restores the state of a program without forward traversals so far."""
    graph._tape_complete, graph._searches = False, 0
    graph._tape.clear()
    graph.taped.clear()


def named(text: str) -> str:
    """Returns a text with the name of the backend of `DEVICE` in place of llvm and LLVM."""
    name = DEVICE.backend.name
    return text.replace("llvm", name.lower()).replace("LLVM", name)


# ---- Nodes


def opaque(t: DType, values: Any) -> Node:
    """Returns an evaluated node."""
    values = np.atleast_1d(np.asarray(values, t.numpy))
    return ir.buffer(t, values.size, launch.from_numpy(t, values, DEVICE))


def results(nodes: list[Node]) -> list[np.ndarray]:
    """Returns copies of the values of nodes, which are evaluated together."""
    schedule.evaluate(nodes, DEVICE)
    return [
        np.full(n.size, n.data, n.dtype.numpy)
        if n.is_literal
        else launch.to_numpy(n.dtype, n.size, n.data).copy()
        for n in nodes
    ]


def entries(arrays: list[Any]) -> list[np.ndarray]:
    """Returns what arrays contain, which one kernel computes: reading them one by one would take a
    kernel each, with what they have in common in all of them."""
    dr.eval(arrays)
    return [a.numpy() for a in arrays]


# ---- Graphs


def described(n, known):
    """What a node consists of, with those met before by their numbers."""
    if n.size == 0:
        return n.dtype, 0
    if n not in known:
        known[n] = len(known)
        is_buffer = n.op is BUFFER
        data = (
            launch.to_numpy(n.dtype, n.size, n.data).tobytes()
            if is_buffer
            else (type(n.data), repr(n.data))
        )
        return (n.op, n.dtype, n.size, data, [described(d, known) for d in n.deps], n.mark)
    return known[n]


def variables(v, known):
    """What a variable consists of."""
    if v is None or v in known or v.rule is None:
        return v if v is None or v.rule is None else known[v]
    known[v] = len(known)
    nodes = {}
    kept = [None if n is None else described(n, nodes) for n in (*v.inputs, v.result)]
    rest = v.dtype, v.size, v.data, v.grad, v.grad_var, v.mark
    return (v.rule, [variables(d, known) for d in v.deps], kept, *rest)


def outcome(function, *args):
    """The array that a function returns, or its error."""
    try:
        x = function(*args)
    except Exception as error:
        return type(error), str(error)
    if not isinstance(x, dr.ArrayBase):
        return type(x), x.tolist() if isinstance(x, np.ndarray) else x
    if x._kind != "leaf":
        parts = [x._array] if x._kind == "tensor" else x._components
        return type(x), [outcome(dr.ArrayBase.__pos__, c) for c in parts]
    assert all(d.serial < x._node.serial for d in x._node.deps)
    return type(x), described(x._node, {}), variables(x._var, {})


# ---- Arrays of NumPy


def differing(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Returns where two arrays differ in a bit. Any NaN equals any NaN."""
    word = np.dtype(f"u{got.itemsize}")
    equal = got.view(word) == want.view(word)
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(want)
    return np.flatnonzero(~equal)


def uniform(shape: Any, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    """Returns random numbers between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def padded(array: np.ndarray) -> np.ndarray:
    """Returns a copy with room for whole packets behind it."""
    room = np.zeros(array.size + 64, array.dtype)
    room[: array.size] = array
    return room


# ---- Arrays and functions


def tracked(*values: Any, cls: type = dr.llvm.ad.Float) -> Any:
    """Returns an array whose derivatives are recorded."""
    x = cls(*values)
    dr.enable_grad(x)
    return x


def formula(x: Any, k: Any = 2) -> Any:
    """Is long enough to become a body of its own in a kernel."""
    return dr.fma(x, k, dr.abs(x - 3)) * 0.5 + dr.sqrt(dr.abs(x))


def plain_formula(x: np.ndarray, k: float = 2) -> np.ndarray:
    """Is what `formula` computes."""
    return (x * k + np.abs(x - 3)) * 0.5 + np.sqrt(np.abs(x))


# ---- What is launched


def launched(run: Callable[[], Any], *types: dr.KernelType) -> list[dict[str, Any]]:
    """Returns the kernel history of a function and the evaluation of its results."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(run())
        return dr.kernel_history(types)


def watch_launches(monkeypatch: Any, entry: Callable[[kernel.CpuKernel, int], Any]) -> list:
    """Returns a list that grows by `entry(kernel, lanes)` for each kernel that runs."""
    seen: list = []
    run = launch.run

    def watched(found: kernel.CpuKernel, size: int, operands: tuple) -> list:
        seen.append(entry(found, size))
        return run(found, size, operands)

    monkeypatch.setattr(launch, "run", watched)
    monkeypatch.setattr(substitutes, "perform", None)
    monkeypatch.setattr(substitutes, "repeat", None)
    return seen

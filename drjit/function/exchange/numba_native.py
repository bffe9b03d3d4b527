"""Dr.Jit functions of numbers as native code: a kernel with one lane, and a function with the
calling convention of C around it, whose parameter block is on the stack."""

import ctypes
import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...ad.flags import ADFlag, ADMode
from ...array import leaf, table
from ...array.base import type_label
from ...array.show import is_array
from ...jit.ir import dtype as dt
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.dtype import DType
from ...jit.ir.node import Node
from ...jit.run import schedule
from ...jit.run.launch import await_data, layout_of
from ...jit.text import program, source, structure
from ..ad.grad import clear_grad, enable_grad, grad, set_grad
from ..ad.propagate import enqueue, traverse
from ..evaluation import make_opaque
from .bridge import label

_C = {dt.f32: ctypes.c_float, dt.f64: ctypes.c_double}
_serial = itertools.count()

OUT_OF_BOUNDS = "an index is out of bounds in {}(), or a function that it calls raised an exception"


class Native:
    """Machine code of a function of numbers, as long as this object lives.

    `address` is that of a C function that takes the numbers and returns the value (NaN where
    something goes wrong). The function at `status` takes an address for the results in addition,
    before the numbers, and returns 0, or 1 if it fails.
    """

    def __init__(self, function: Callable, count: int, dtype: DType, gradient: bool) -> None:
        from ...jit.target import library
        from ...jit.target.simd import llvm
        from ...jit.target.simd.kernel import module_text

        self.dtype, self.results = dtype, 1 + count * gradient
        traced = _traced(function, count, dtype, gradient)
        self.text, self._held = traced.text, traced.held
        name = f"function{next(_serial)}"
        module = module_text(traced.text, name, 1, False, library)
        code = module.ir.replace(f'define void @"{name}"', f'define internal void @"{name}"', 1)
        assert code != module.ir and not module.has_finish
        code += _entries(name, traced, dtype)
        self._loaded, (self.status, self.address) = llvm.link(
            llvm.object_code(code, module.uncombined), [f"{name}_status", f"{name}_value"]
        )
        c = _C[dtype]
        self.ctypes: Any = ctypes.CFUNCTYPE(c, *[c] * count)(self.address)
        self._call: Any = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[c] * count)(
            self.status
        )
        self._results: Any = c * self.results
        self.title = label(function)

    def __call__(self, *numbers: float) -> list[float]:
        """Returns the results for numbers.

        Raises IndexError if the function fails.
        """
        results = self._results()
        if self._call(ctypes.addressof(results), *numbers):
            raise IndexError(OUT_OF_BOUNDS.format(self.title))
        return list(results)


class SingleKernel(NamedTuple):
    """The text of a kernel, the words of its parameter block, and the positions in these of the
    addresses that a caller fills in: of some given inputs (None if it does not depend on one) and
    of the outputs. `held` are the nodes whose data it reads."""

    text: str
    words: list[int]
    inputs: list[int | None]
    outputs: list[int]
    held: list[Node]


def _traced(function: Callable, count: int, dtype: DType, gradient: bool) -> SingleKernel:
    """Returns the kernel of a function, and possibly of its partial derivatives."""
    cls = table.find("llvm.ad", "leaf", dtype)
    arguments = [cls(k + 0.5) for k in range(count)]
    make_opaque(arguments)
    given = [a._node for a in arguments]
    try:
        if not gradient:
            return _kernel([_result(function(*arguments), function, cls)[1]], given)
        try:
            return _kernel(_backward(function, arguments, cls), given)
        except RuntimeError:  # loops that run backwards need memory for what they computed
            return _kernel(_forward(function, arguments, cls), given)
    except RuntimeError as error:
        raise RuntimeError(
            f"dr.wrap(): {label(function)}() cannot be compiled to one function of numbers: {error}"
        ) from error


def _backward(function: Callable, arguments: list, cls: Any) -> list[Node]:
    inputs = [leaf.wrap(cls, a._node) for a in arguments]
    enable_grad(inputs)
    value, root = _result(function(*inputs), function, cls)
    if value._var is not None:
        set_grad(value, 1)
        enqueue(ADMode.Backward, value)
        traverse(ADMode.Backward)
    return [root, *[grad(x)._node for x in inputs]]


def _forward(function: Callable, arguments: list, cls: Any) -> list[Node]:
    inputs = [leaf.wrap(cls, a._node) for a in arguments]
    enable_grad(inputs)
    value, root = _result(function(*inputs), function, cls)
    roots = [root]
    for x in inputs:
        clear_grad([value, *inputs])
        set_grad(x, 1)
        enqueue(ADMode.Forward, x)
        traverse(ADMode.Forward, ADFlag.ClearInterior)
        roots.append(grad(value)._node)
    return roots


def _result(value: Any, function: Callable, cls: Any) -> tuple[Any, Node]:
    """Returns the result of a function, and its value as a node of the element type."""
    if isinstance(value, int | float):
        value = cls(value)
    if not is_array(value) or type(value)._kind != "leaf":
        raise TypeError(
            f"dr.wrap(): {label(function)}() returned a {type_label(value)}; expected one number"
        )
    if value._node.size != 1:
        raise RuntimeError(f"the result has {value._node.size} entries, but must be one number")
    return value, ir.cast(cls._dtype, value._node)


def _entries(name: str, traced: SingleKernel, dtype: DType) -> str:
    """Returns the functions that call a kernel."""
    scalar, size = "float" if dtype is dt.f32 else "double", dtype.itemsize
    count, words = len(traced.inputs), len(traced.words)
    given = ", ".join([f"{scalar} %x{k}" for k in range(count)])
    lines = [
        f'define i32 @"{name}_status"(ptr %results{", " if given else ""}{given}) nounwind {{',
        f"%p = alloca [{words} x i64], align 64",
        "%record = alloca [6 x i64], align 64",
        "store [6 x i64] zeroinitializer, ptr %record, align 64",
    ]
    values = {0: "%record"}
    for k, at in enumerate(traced.inputs):
        if at is not None:
            lines.append(f"%in{k} = alloca {scalar}, align 64")
            lines.append(f"store {scalar} %x{k}, ptr %in{k}, align 64")
            values[at] = f"%in{k}"
    for k, at in enumerate(traced.outputs):
        lines.append(f"%out{k} = alloca {scalar}, align 64")
        values[at] = f"%out{k}"
    for k, word in enumerate(traced.words):
        lines.append(f"%w{k} = getelementptr i64, ptr %p, i64 {k}")
        kind, value = ("ptr", values[k]) if k in values else ("i64", word)
        lines.append(f"store {kind} {value}, ptr %w{k}")
    lines.append(f'call void @"{name}"(ptr %p, i64 0, i64 1, i64 1, i64 0) noinline')
    for k in range(len(traced.outputs)):
        lines.append(f"%r{k} = load {scalar}, ptr %out{k}, align 64")
        lines.append(f"%place{k} = getelementptr i8, ptr %results, i64 {k * size}")
        lines.append(f"store {scalar} %r{k}, ptr %place{k}")
    nan = "0x7FF8000000000000"
    return "\n".join(
        [
            "",
            *lines,
            "%flag = load i64, ptr %record, align 64",
            "%failed = icmp ne i64 %flag, 0",
            "%status = zext i1 %failed to i32",
            "ret i32 %status\n}",
            f'define {scalar} @"{name}_value"({given}) nounwind {{',
            f"%results = alloca [{len(traced.outputs)} x {scalar}]",
            f'%status = call i32 @"{name}_status"(ptr %results{", " if given else ""}{given})',
            f"%value = load {scalar}, ptr %results",
            "%failed = icmp ne i32 %status, 0",
            f"%result = select i1 %failed, {scalar} {nan}, {scalar} %value",
            f"ret {scalar} %result\n}}\n",
        ]
    )


def _kernel(roots: Sequence[Node], given: Sequence[Node]) -> SingleKernel:
    """Returns the kernel that computes nodes of one entry from given ones. What these do not
    contribute to is evaluated where the kernel needs it as memory.

    Raises:
        RuntimeError: there is no such kernel.
    """
    _evaluate_others(roots, given)
    roots = [ir.make(op.copy, n.dtype, 1, (n,)) for n in roots]
    graph = structure.ProgramGraph(roots)
    if graph.effects():
        raise RuntimeError("it writes to arrays")
    ordered, passed = structure.settle(graph, roots)
    built = program.build(ordered, roots)
    inputs, literals, checks = [
        found if taken is None else [found[k] for k in taken]
        for found, taken in zip((graph.inputs, graph.literals, graph.checks), passed, strict=True)
    ]
    place = {n: 1 + k for k, n in enumerate(inputs)}
    held = [n for n in inputs if n not in given]
    # A single lane reads no packets: memory of NumPy's serves wherever it is.
    values = [0 if n in given else n.data.address or n.data.origin for n in inputs]
    values += [n.data for n in literals]
    values += [c.data[0] for c in checks]
    values += [0] * len(roots)
    for n in held:
        await_data(n.data)
    block = struct.pack("<" + layout_of(built), 0, *values)
    words = list(struct.unpack(f"<{built.words}q", block))
    return SingleKernel(
        source.render(built),
        words,
        [place.get(n) for n in given],
        [o.param for o in built.outputs],
        held,
    )


def _evaluate_others(roots: Sequence[Node], given: Sequence[Node]) -> None:
    """Evaluates memory that is read and sums over lanes, if they do not depend on the given nodes.

    Raises:
        RuntimeError: one of them does.
    """
    needed: dict[Node, None] = {}
    for n in structure.ProgramGraph([*roots]).noted:
        if n.op is op.reduce:
            needed[n] = None
        elif n.op.reads:
            needed.update(dict.fromkeys([d for d in n.deps[n.op.reads] if d.op is not ir.BUFFER]))
    for n in needed:
        if not set(given).isdisjoint(structure.ProgramGraph([n]).inputs):
            raise RuntimeError("it reads from an array that it computes, or sums one up")
    schedule.evaluate([*needed])

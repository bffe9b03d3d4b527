"""`wrap` with the source Numba: compiled code calls Dr.Jit functions of numbers. Their native code
is a kernel with one lane within a function of C's calling convention, which has the parameter block
of the kernel on its stack."""

import ctypes
import itertools
from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

from ...ad.graph import ADFlag, ADMode
from ...array import leaf, table
from ...array.base import type_label
from ...array.show import is_array
from ...jit.ir import dtype as dt
from ...jit.ir.node import Node, cast
from ...jit.lazy import np
from ...jit.run import single
from ..ad.grad import clear_grad, enable_grad, grad, set_grad
from ..ad.propagate import propagate
from ..evaluation import make_opaque
from ..signature import signature
from .bridge import imported, label

_C = {dt.f32: ctypes.c_float, dt.f64: ctypes.c_double}
_serial = itertools.count()

OUT_OF_BOUNDS = "an index is out of bounds in {}(), or a function that it calls raised an exception"


class Native:
    """Machine code of a function of numbers, as long as this object lives.

    `address` is that of a C function that takes the numbers and returns the value (NaN where
    something goes wrong). The function at `status` takes an address for the results in addition,
    before the numbers, and returns 0, or 1 if it fails.
    """

    def __init__(self, function: Callable, count: int, dtype: dt.DType, gradient: bool) -> None:
        from ...jit.target.simd import llvm
        from ...jit.target.simd.kernel import module_text

        self.dtype, self.results = dtype, 1 + count * gradient
        traced = _traced(function, count, dtype, gradient)
        self.text, self._held = traced.text, traced.held
        name = f"function{next(_serial)}"
        module = module_text(traced.text, name, 1, False)
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


def _traced(function: Callable, count: int, dtype: dt.DType, gradient: bool) -> single.SingleKernel:
    """Returns the kernel of a function, and possibly of its partial derivatives."""
    cls = table.find("llvm.ad", "leaf", dtype)
    arguments = [cls(k + 0.5) for k in range(count)]
    make_opaque(arguments)
    given = [a._node for a in arguments]
    try:
        if not gradient:
            return single.kernel([_result(function(*arguments), function, cls)[1]], given)
        try:
            return single.kernel(_partials(function, arguments, cls, ADMode.Backward), given)
        except RuntimeError:  # loops that run backwards need memory for what they computed
            return single.kernel(_partials(function, arguments, cls, ADMode.Forward), given)
    except RuntimeError as error:
        raise RuntimeError(
            f"dr.wrap(): {label(function)}() cannot be compiled to one function of numbers: {error}"
        ) from error


def _partials(function: Callable, arguments: list, cls: Any, mode: ADMode) -> list[Node]:
    """Returns the value of a function and its partial derivatives."""
    inputs = [leaf.wrap(cls, a._node) for a in arguments]
    enable_grad(inputs)
    value, root = _result(function(*inputs), function, cls)
    if mode is ADMode.Backward:
        if value._var is not None:
            set_grad(value, 1)
            propagate(mode, value)
        return [root, *[grad(x)._node for x in inputs]]
    roots = [root]
    for x in inputs:
        clear_grad([value, *inputs])
        set_grad(x, 1)
        propagate(mode, x, ADFlag.ClearInterior)
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
    return value, cast(cls._dtype, value._node)


def _entries(name: str, traced: single.SingleKernel, dtype: dt.DType) -> str:
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


class NumbaCallable:
    """A Dr.Jit function of numbers that compiled code of Numba calls; see `wrap`.

    It is called with numbers, or, like a universal function of NumPy, with arrays. Its
    `value_and_grad` returns the value and a tuple of the partial derivatives. `address` and
    `ctypes` are a C function on `double`, for callbacks such as `scipy.LowLevelCallable`, and
    `ufunc` is a universal function.
    """

    def __init__(self, function: Callable, gradient: bool = False) -> None:
        self.function, self.gradient = function, gradient
        update_wrapper(self, function)
        self.count = len(signature(function).parameters)
        self._natives: dict[dt.DType, Native] = {}

    def __repr__(self) -> str:
        return f"<{label(self.function)}{'.value_and_grad' * self.gradient} for Numba>"

    def native(self, dtype: dt.DType = dt.f64) -> Native:
        """Returns the machine code for an element type, compiled on first use."""
        result = self._natives.get(dtype)
        if result is None:  # two threads may compile it at once; both use the first
            made = Native(self.function, self.count, dtype, self.gradient)
            result = self._natives.setdefault(dtype, made)
        return result

    def __call__(self, *args: Any) -> Any:
        if any(is_array(a) for a in args) and not self.gradient:
            return self.function(*args)
        if len(args) != self.count:
            raise TypeError(f"{label(self.function)}() takes {self.count} numbers, not {len(args)}")
        if all(np.ndim(a) == 0 for a in args):
            value, *partials = self.native()(*args)
            return (value, tuple(partials)) if self.gradient else value
        result = self.ufunc(*args)
        return (result[0], result[1:]) if self.gradient else result

    @cached_property
    def value_and_grad(self) -> "NumbaCallable":
        """The same function, with the value and a tuple of the partial derivatives as results."""
        if self.gradient:
            raise AttributeError("value_and_grad")
        return NumbaCallable(self.function, True)

    @property
    def address(self) -> int:
        """The address of a C function that takes and returns `double`, as long as this object
        lives: NaN where the function fails."""
        return self.native().address

    @property
    def ctypes(self) -> Any:
        """The same as a function of `ctypes`, which keeps the machine code alive."""
        result = self.native().ctypes
        result.owner = self
        return result

    @cached_property
    def ufunc(self) -> Any:
        """A universal function of NumPy, for `float32` and `float64`."""
        numba: Any = imported("numba", "Numba")
        inputs = [f"x{k}" for k in range(self.count)]
        names: dict[str, Any] = {"function": self}
        if not self.gradient:
            exec(f"def loop({', '.join(inputs)}): return function({', '.join(inputs)})", names)
            types = [t(*[t] * self.count) for t in (numba.float32, numba.float64)]
            return numba.vectorize(types)(names["loop"])
        outputs = [f"y{k}" for k in range(self.count + 1)]
        lines = [f"def loop({', '.join(inputs + outputs)}):"]
        lines.append(f"    y0[0], partials = function({', '.join(inputs)})")
        lines += [f"    y{k + 1}[0] = partials[{k}]" for k in range(self.count)]
        exec("\n".join(lines), names)
        types = [
            numba.void(*[t] * self.count, *[t[:]] * len(outputs))
            for t in (numba.float32, numba.float64)
        ]
        layout = f"{','.join(['()'] * self.count)}->{','.join(['()'] * len(outputs))}"
        return numba.guvectorize(types, layout)(names["loop"])

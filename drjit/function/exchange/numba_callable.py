"""`wrap` with the source Numba: Dr.Jit functions of numbers as functions that compiled code of Numba
calls."""

import inspect
from collections.abc import Callable
from functools import cache, cached_property, update_wrapper
from threading import Lock
from typing import Any

import numpy as np

from ...array.show import is_array
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from .bridge import label
from .numba_function import module
from .numba_native import OUT_OF_BOUNDS, Native


def expose(function: Callable) -> "NumbaCallable":
    """Returns a Dr.Jit function of numbers as a function for Numba; see `wrap`."""
    _extend()
    return NumbaCallable(function)


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
        self.count = len(inspect.signature(function).parameters)
        self._natives: dict[DType, Native] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<{label(self.function)}{'.value_and_grad' * self.gradient} for Numba>"

    def native(self, dtype: DType = dt.f64) -> Native:
        """Returns the machine code for an element type, which is made on first use."""
        with self._lock:
            found = self._natives.get(dtype)
            if found is None:
                found = Native(self.function, self.count, dtype, self.gradient)
                self._natives[dtype] = found
            return found

    def __call__(self, *args: Any) -> Any:
        if any(is_array(a) for a in args) and not self.gradient:
            return self.function(*args)
        if len(args) != self.count:
            raise TypeError(f"{label(self.function)}() takes {self.count} numbers, not {len(args)}")
        if all(np.ndim(a) == 0 for a in args):
            value, *partials = self.native()(*args)
            return (value, tuple(partials)) if self.gradient else value
        found = self.ufunc(*args)
        return (found[0], found[1:]) if self.gradient else found

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
        made = self.native().ctypes
        made.owner = self
        return made

    @cached_property
    def ufunc(self) -> Any:
        """A universal function of NumPy, for `float32` and `float64`."""
        numba: Any = module()
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


@cache
def _extend() -> None:
    """Teaches Numba the type of these functions."""
    numba: Any = module()
    from numba.core import cgutils, imputils, types, typing
    from numba.core.datamodel import models
    from numba.extending import lower_builtin, register_model, typeof_impl, unbox
    from numba.core.typing.templates import AttributeTemplate, infer_getattr, signature

    class FunctionType(types.Callable, types.Opaque):
        def __init__(self, function: NumbaCallable) -> None:
            self.function = function
            super().__init__(f"{function!r} {id(function)}")

        @property
        def key(self) -> Any:
            return self.function

        def get_call_type(self, context: Any, args: tuple, kws: dict) -> Any:
            function = self.function
            if kws or len(args) != function.count:
                return None
            if any(isinstance(a, types.Array) for a in args):
                if function.gradient:
                    return None
                universal = context.resolve_value_type(function.ufunc)
                return context.resolve_function_type(universal, args, {})
            args = tuple([types.unliteral(a) for a in args])
            if not all(isinstance(a, types.Number | types.Boolean) for a in args):
                return None
            single = any(a == types.float32 for a in args) and types.float64 not in args
            t = types.float32 if single else types.float64
            if any(isinstance(a, types.Complex) for a in args):
                return None
            result = types.Tuple((t, types.UniTuple(t, function.count)))
            return signature(result if function.gradient else t, *[t] * function.count)

        def get_call_signatures(self) -> Any:
            return [], True

        def get_impl_key(self, sig: Any) -> Any:
            return FunctionType, self.function

    register_model(FunctionType)(models.OpaqueModel)

    @typeof_impl.register(NumbaCallable)
    def _typeof(value: NumbaCallable, _: Any) -> Any:
        _lower(value)
        return FunctionType(value)

    @imputils.lower_constant(FunctionType)
    def _constant(context: Any, *_: Any) -> Any:
        return context.get_dummy_value()

    @unbox(FunctionType)
    def _unbox(_: Any, __: Any, c: Any) -> Any:
        from numba.extending import NativeValue

        return NativeValue(c.context.get_dummy_value())

    @infer_getattr
    class Attributes(AttributeTemplate):
        key = FunctionType

        def resolve_value_and_grad(self, t: Any) -> Any:
            return None if t.function.gradient else numba.typeof(t.function.value_and_grad)

    @imputils.lower_getattr(FunctionType, "value_and_grad")
    def _gradient(context: Any, *_: Any) -> Any:
        return context.get_dummy_value()

    @cache
    def _lower(function: NumbaCallable) -> None:
        @lower_builtin((FunctionType, function), types.VarArg(types.Any))
        def _call(context: Any, builder: Any, sig: Any, args: tuple) -> Any:
            if any(isinstance(a, types.Array) for a in sig.args):
                t = context.typing_context.resolve_value_type(function.ufunc)
                return context.get_function(t, sig)(builder, args)
            return _emit(function, context, builder, sig, args)

    def _emit(function: NumbaCallable, context: Any, builder: Any, sig: Any, args: tuple) -> Any:
        from llvmlite import ir

        t = sig.args[0] if sig.args else types.float64
        native = function.native(dt.f32 if t == types.float32 else dt.f64)
        kind = context.get_value_type(t)
        results = cgutils.alloca_once(builder, kind, size=native.results)
        of = ir.FunctionType(ir.IntType(32), [results.type, *[kind] * len(args)])
        address = context.get_constant(types.intp, native.status)
        called = builder.inttoptr(address, ir.PointerType(of))
        status = builder.call(called, [results, *args])
        with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
            text = OUT_OF_BOUNDS.format(label(function.function))
            context.call_conv.return_user_exc(builder, IndexError, (text,))
        values = [
            builder.load(builder.gep(results, [ir.IntType(32)(k)])) for k in range(native.results)
        ]
        if not function.gradient:
            return values[0]
        partials = cgutils.pack_array(builder, values[1:]) if values[1:] else None
        return context.make_tuple(builder, sig.return_type, [values[0], partials])

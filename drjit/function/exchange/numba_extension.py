"""The type that Dr.Jit functions of numbers have in Numba. Importing this module imports Numba."""

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, imputils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate, infer_getattr, signature
from numba.extending import NativeValue, lower_builtin, register_model, typeof_impl, unbox

from ...jit.ir import dtype as dt
from .bridge import label
from .numba_callable import OUT_OF_BOUNDS, NumbaCallable


def expose(function: Callable) -> NumbaCallable:
    """Returns a Dr.Jit function of numbers as a function for Numba; see `wrap`."""
    _register()
    return NumbaCallable(function)


class FunctionType(types.Callable, types.Opaque):
    """The type of a single function, so that the callee is known when its caller is compiled."""

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
        if not all(isinstance(a, types.Integer | types.Float | types.Boolean) for a in args):
            return None
        single = types.float32 in args and types.float64 not in args
        t = types.float32 if single else types.float64
        both = types.Tuple((t, types.UniTuple(t, function.count)))
        return signature(both if function.gradient else t, *[t] * function.count)

    def get_call_signatures(self) -> Any:
        return [], True

    def get_impl_key(self, sig: Any) -> Any:
        return FunctionType, self.function


class _Attributes(AttributeTemplate):
    key = FunctionType

    def resolve_value_and_grad(self, t: Any) -> Any:
        if t.function.gradient:
            return None
        return self.context.resolve_value_type(t.function.value_and_grad)


@cache
def _register() -> None:
    """Teaches Numba the type."""
    register_model(FunctionType)(models.OpaqueModel)
    typeof_impl.register(NumbaCallable)(_typeof)
    unbox(FunctionType)(_unbox)
    infer_getattr(_Attributes)
    imputils.lower_constant(FunctionType)(_nothing)
    imputils.lower_getattr(FunctionType, "value_and_grad")(_nothing)


def _typeof(value: NumbaCallable, _: Any) -> Any:
    _lower(value)
    return FunctionType(value)


def _nothing(context: Any, *_: Any) -> Any:
    """A function has no value at run time."""
    return context.get_dummy_value()


def _unbox(_: Any, __: Any, c: Any) -> Any:
    return NativeValue(c.context.get_dummy_value())


@cache
def _lower(function: NumbaCallable) -> None:
    """Registers how calls of a function are compiled, and keeps it alive: compiled code contains
    its address."""

    @lower_builtin((FunctionType, function), types.VarArg(types.Any))
    def _call(context: Any, builder: Any, sig: Any, args: tuple) -> Any:
        if any(isinstance(a, types.Array) for a in sig.args):
            universal = context.typing_context.resolve_value_type(function.ufunc)
            return context.get_function(universal, sig)(builder, args)
        return _emit(function, context, builder, sig, args)


def _emit(function: NumbaCallable, context: Any, builder: Any, sig: Any, args: tuple) -> Any:
    """Emits the call of the machine code, and returns the result."""
    t = sig.args[0] if sig.args else types.float64
    native = function.native(dt.f32 if t == types.float32 else dt.f64)
    kind = context.get_value_type(t)
    results = cgutils.alloca_once(builder, kind, size=native.results)
    of = ir.FunctionType(ir.IntType(32), [results.type, *[kind] * len(args)])
    address = context.get_constant(types.intp, native.status)
    status = builder.call(builder.inttoptr(address, ir.PointerType(of)), [results, *args])
    with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
        text = OUT_OF_BOUNDS.format(label(function.function))
        context.call_conv.return_user_exc(builder, IndexError, (text,))
    values = [
        builder.load(builder.gep(results, [ir.IntType(32)(k)])) for k in range(native.results)
    ]
    if not function.gradient:
        return values[0]
    partials = cgutils.pack_array(builder, values[1:])
    return context.make_tuple(builder, sig.return_type, [values[0], partials])

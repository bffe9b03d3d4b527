"""Names of NumPy and PyTorch that Dr.Jit does not have, and what to write instead. Error messages
say so where a program uses one.
"""

from collections.abc import Iterable
from functools import update_wrapper
from types import FunctionType
from typing import Any, NoReturn, TypeVar

from ..jit import frames
from .base import ArrayBase

F = TypeVar("F", bound=Any)

_TAKES_KEYWORDS = 8  # in the flags of code

# What to write, and the names for it elsewhere.
_FUNCTIONS = {
    "dr.select(mask, a, b)": "where",
    "dr.concat(arrays)": "cat concatenate hconcat append",
    "dr.compress(mask)": "nonzero flatnonzero argwhere extract masked_select",
    "a constructor, such as Float(values) or TensorXf(values)": (
        "array_from tensor asarray as_tensor from_numpy FloatTensor"
    ),
    "a type, such as drjit.llvm.Float": (
        "float16 float32 float64 int8 int32 int64 uint8 uint32 uint64 bool_ bool8 half single "
        "double dtype"
    ),
    "dr.abs(x)": "absolute fabs",
    "dr.asin(x), dr.acos(x), dr.atan(x)": "arcsin arccos arctan",
    "dr.atan2(y, x)": "arctan2",
    "dr.asinh(x), dr.acosh(x), dr.atanh(x)": "arcsinh arccosh arctanh",
    "dr.power(x, y)": "pow float_power",
    "dr.max(x)": "amax nanmax",
    "dr.min(x)": "amin nanmin",
    "x % y": "mod remainder fmod",
    "x // y": "floor_divide",
    "x & y, x | y, ~x": "logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not",
    "x == y, x < y and the like": "equal not_equal less greater less_equal greater_equal eq ne",
    "dr.rcp(x)": "reciprocal",
    "dr.rcp(1 + dr.exp(-x))": "sigmoid expit",
    "dr.maximum(x, 0)": "relu",
    "dr.binary_search()": "searchsorted digitize",
    "dr.gather(type(x), x, index)": "index_select take_along_axis take_along_dim",
    "dr.scatter(target, value, index)": "put put_along_axis index_put",
    "dr.scatter_add(target, value, index)": "index_add scatter_add_ bincount histogram add_at",
    "dr.reverse(x)": "flip fliplr flipud",
    "dr.moveaxis(), dr.swapaxes() or dr.transpose()": "permute permute_dims",
    "dr.expand_dims(x, axis)": "unsqueeze",
    "dr.ravel(x)": "flatten",
    "dr.inverse(m)": "inv pinv",
    "dr.matmul(a, b) or a @ b": "mm bmm mv",
    "dr.rng(seed)": "manual_seed seed rand randn random_sample default_rng Generator",
    "dr.suspend_grad()": "no_grad inference_mode stop_gradient",
    "dr.detach(x)": "lax_stop_gradient",
    "dr.enable_grad(x)": "requires_grad",
    "a class derived from dr.CustomOp": "custom_vjp custom_jvp",
    "dr.freeze": "compile",
    "dr.sync_thread()": "synchronize block_until_ready",
    "dr.while_loop() or @dr.syntax": "fori_loop scan",
    "dr.if_stmt() or @dr.syntax": "cond",
    "arrays: each lane is an instance": "vmap vectorize pmap",
}
_METHODS = {
    "a constructor, such as Float64(x)": "astype to type float double half int long bool cast",
    "type(x) and dr.type_v(x)": "dtype",
    "dr.width(x) or len(x)": "size numel",
    "dr.grad_enabled(x)": "requires_grad",
    "dr.enable_grad(x)": "requires_grad_ retain_grad",
    "dr.clear_grad(x)": "zero_grad zero_",
    "type(x)(x)": "clone",
    "list(x) or x.numpy().tolist()": "tolist",
    "dr.ravel(x)": "flatten",
    "dr.reshape(x, shape) or dr.reinterpret_array()": "view",
    "dr.migrate(x, ...) and the types of another namespace": "cpu device",
    "dr.power(x, y)": "pow",
    "x @ y": "mm",
    "dr.expand_dims(x, axis)": "unsqueeze",
    "dr.moveaxis(x, ...)": "permute",
    "x + y, and x += y in place": "add add_",
    "x - y": "sub sub_",
    "x * y": "mul mul_",
    "x / y": "div div_",
    "dr.compress(mask)": "nonzero",
    "dr.reverse(x)": "flip",
    "dr.full()": "fill fill_",
    "dr.sync_thread()": "block_until_ready",
}

# Names of arguments.
_ARGUMENTS = {
    "axis": "dim dims axes", "keepdims": "keepdim keep_dims", "stop": "end", "num": "steps n",
    "shape": "size", "index": "indices idx", "mode": "reduction", "dtype": "type",
    "value": "fill_value",
}  # fmt: skip

# Functions that are methods of arrays elsewhere.
_FUNCTIONS_ONLY = (
    "abs all any argmax argmin argsort backward ceil clamp clip conj copy cos cosh count cross "
    "cumsum det detach diag dot eval exp expand_dims floor gather isfinite isinf isnan log log1p "
    "log2 max mean median min moveaxis norm prod ravel repeat reshape rsqrt round scatter "
    "scatter_add select sign sin sinh sort split sqrt square squeeze std sum swapaxes take tan "
    "tanh tile trace transpose trunc var where"
)


def _inverted(table: dict[str, str]) -> dict[str, str]:
    return {name: instead for instead, names in table.items() for name in names.split()}


FUNCTIONS, METHODS, ARGUMENTS = map(_inverted, (_FUNCTIONS, _METHODS, _ARGUMENTS))
METHODS |= {name: FUNCTIONS.get(name, f"dr.{name}(x)") for name in _FUNCTIONS_ONLY.split()}


def module_hint(name: str) -> str:
    """Returns what to add to the message about a missing name of `drjit`.

    >>> module_hint("where")
    '. Use dr.select(mask, a, b)'
    """
    instead = FUNCTIONS.get(name)
    return f". Use {instead}" if instead else ""


def array_hint(name: str) -> str:
    """Returns what to add to the message about a missing attribute of an array `x`.

    >>> array_hint("mean"), array_hint("astype"), array_hint("spam")
    ('. Use dr.mean(x)', '. Use a constructor, such as Float64(x)', '')
    """
    instead = METHODS.get(name)
    return f". Use {instead}" if instead else ""


def argument_hint(name: str) -> str:
    """Returns what to add to the message about an argument that does not exist.

    >>> argument_hint("dim"), argument_hint("spam")
    ('. Use axis', '')
    """
    instead = ARGUMENTS.get(name)
    return f". Use {instead}" if instead else ""


def incompatible(function: str, problem: str) -> TypeError:
    """Returns the error to raise for arguments that a function does not take, from Python's words
    for the problem."""
    if "unexpected keyword argument" in problem:
        problem += argument_hint(problem.split("'")[1])
    return TypeError(f"{function}(): incompatible function arguments ({problem})")


def unexpected_argument(function: str, names: Iterable[str]) -> TypeError:
    """Returns the error to raise for keyword arguments that a function does not have."""
    return incompatible(function, f"got an unexpected keyword argument '{next(iter(names))}'")


def hinted(function: F) -> F:
    """Leaves `**unknown`, which is there for `unexpected_argument` alone, out of the signature that
    `help` and `inspect` show: they follow `__wrapped__`."""
    code = function.__code__
    code = code.replace(co_flags=code.co_flags & ~_TAKES_KEYWORDS)
    shown = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    update_wrapper(shown, function)
    del shown.__wrapped__
    function.__wrapped__ = shown
    return function


@frames.guard_members
class _Absent:
    """An attribute that arrays do not have, for a message that says more. A program's subclasses
    may define it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, array: Any, owner: type) -> NoReturn:
        of = f"type object {owner.__name__!r}" if array is None else f"{owner.__name__!r} object"
        raise AttributeError(f"{of} has no attribute {self._name!r}{array_hint(self._name)}")


def _is_shown(array: Any, name: str) -> bool:
    if name in METHODS or name in ("x", "y", "z", "w"):
        return hasattr(array, name)
    return not 1 < len(name) < 5 or not {*name} <= {*"xyzw"}


def _names(array: Any) -> list[str]:
    """Returns the names that `dir` is to show: not those of attributes that are missing, nor all
    the ways to read several components at once, such as `v.zyx`."""
    return [name for name in object.__dir__(array) if _is_shown(array, name)]


for _name in METHODS:
    if not hasattr(ArrayBase, _name):
        setattr(ArrayBase, _name, _Absent(_name))
ArrayBase.__dir__ = _names  # type: ignore[method-assign]

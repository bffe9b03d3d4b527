"""Names of NumPy and PyTorch that Dr.Jit does not have, and what to write instead: part of the
message where a program uses one.
"""

from typing import Any, NoReturn

from ..jit import frames
from .base import ArrayBase

# Names that differ, by what is to be written.
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

# Functions of which others have a method.
_SAME = (
    "abs all any argmax argmin argsort backward ceil clamp clip conj copy cos cosh count cross "
    "cumsum det detach diag dot eval exp expand_dims floor gather isfinite isinf isnan log log1p "
    "log2 max mean median min moveaxis norm prod ravel repeat reshape rsqrt round scatter "
    "scatter_add select sign sin sinh sort split sqrt square squeeze std sum swapaxes take tan "
    "tanh tile trace transpose trunc var where"
)


def _inverted(table: dict[str, str]) -> dict[str, str]:
    return {name: instead for instead, names in table.items() for name in names.split()}


FUNCTIONS, METHODS, ARGUMENTS = map(_inverted, (_FUNCTIONS, _METHODS, _ARGUMENTS))
METHODS |= {name: FUNCTIONS.get(name, f"dr.{name}(x)") for name in _SAME.split()}


def of_module(name: str) -> str:
    """Returns what to add to the message about a missing name of `drjit`.

    >>> of_module("where")
    '. Use dr.select(mask, a, b)'
    """
    instead = FUNCTIONS.get(name)
    return f". Use {instead}" if instead else ""


def of_array(name: str) -> str:
    """Returns what to add to the message about a missing attribute of an array `x`.

    >>> of_array("mean"), of_array("astype"), of_array("spam")
    ('. Use dr.mean(x)', '. Use a constructor, such as Float64(x)', '')
    """
    instead = METHODS.get(name)
    return f". Use {instead}" if instead else ""


def of_argument(name: str) -> str:
    """Returns what to add to the message about an argument of that name, which there is not.

    >>> of_argument("dim"), of_argument("spam")
    ('. Use axis', '')
    """
    instead = ARGUMENTS.get(name)
    return f". Use {instead}" if instead else ""


def unexpected(function: str, names: Any) -> TypeError:
    """Returns the error to raise for arguments that a function does not have."""
    name = next(iter(names))
    return TypeError(
        f"{function}(): incompatible function arguments (got an unexpected keyword argument "
        f"'{name}'{of_argument(name)})"
    )


@frames.guard_members
class _Absent:
    """An attribute that arrays do not have, so that the message can say more; classes that a
    program derives may have it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, array: Any, owner: type) -> NoReturn:
        of = f"type object {owner.__name__!r}" if array is None else f"{owner.__name__!r} object"
        raise AttributeError(f"{of} has no attribute {self._name!r}{of_array(self._name)}")


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

"""Element-wise operations on any operands: arrays of any kind and Python numbers are promoted, and
the operation is mapped over components and tensors.
"""

from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.ir.op import Op
from ..jit.lazy import np
from . import leaf, table, tensor
from .base import ArrayBase, IncompatibleError, KernelValue, nested, type_label
from .inline import RECORDED, broadcasts_to_components
from .promote import (
    Incompatible,
    check_range,
    convert,
    join,
    nesting,
    operand,
    resolve,
    traced,
)


class UnsupportedError(RuntimeError):
    """The operation does not support the element type."""


_PYTHON = {bool: dt.mask, int: dt.i64, float: dt.f64}


def elementwise(op_: Op, *args: Any, name: str = "") -> Any:
    """Applies an operation of the table to arrays and numbers. Returns a Python number if no
    argument is an array.

    `name` is the function that the user called, for messages.

    Raises:
        UnsupportedError: the operation does not support the element type.
        RuntimeError: types, sizes or shapes are incompatible.
    """
    result = RECORDED[op_](*args)
    return promoted(op_, args, name) if result is None else result


def promoted(op_: Op, args: tuple, name: str) -> Any:
    """Like `elementwise`, for operands that must first be promoted, or that are invalid."""
    name = name or f"dr.{op_.name.rstrip('_')}"
    for a in args:
        if isinstance(a, KernelValue):
            return a._elementwise(op_, args, name)
    try:
        if len(args) == 1 and isinstance(args[0], ArrayBase):
            cls, operands = type(args[0]), list(args)
        elif op_.result == "second":
            cls, operands = _resolve_select(args)
        else:
            cls, operands = resolve(args)
    except Incompatible as problem:
        raise IncompatibleError(f"{name}(): {problem}") from None
    dtype = cls._dtype if issubclass(cls, ArrayBase) else _PYTHON.get(cls)
    if dtype in (dt.mask, dt.i64) and op_.domain == "f" and not issubclass(cls, ArrayBase):
        dtype = dt.f64
    if dtype is None or not op_.accepts(dtype):
        element = "" if dtype is None else f" (element type {dtype.name})"
        raise UnsupportedError(f"{name}(): operation not supported for {type_label(cls)}{element}")
    try:
        if not issubclass(cls, ArrayBase):
            return numbers(op_, dtype, operands)
        return _map(op_, cls, operands, name)
    except Incompatible as problem:
        raise IncompatibleError(f"{name}(): {problem}") from None
    except RuntimeError as problem:
        inner = problem if cls._kind == "nested" else None  # that of a component
        raise _renamed(problem, op_, name, operands) from inner


def _renamed(problem: RuntimeError, op_: Op, name: str, operands: list) -> RuntimeError:
    """Converts an error of the operation to one of the function that the user called."""
    text = str(problem)
    if not text.startswith(f"{op_.name}:"):
        return problem
    if any(getattr(v, "_var", None) is not None for v in operands):
        text = text.replace(
            f"This is an {node.MIXTURE}", f"You performed a differentiable {node.MIXTURE}"
        )
    return type(problem)(f"{name}():{text[len(op_.name) + 1 :]}")


def _resolve_select(args: tuple) -> tuple[Any, list]:
    """Returns the class of a select: that of its values, in the shape that the mask requires."""
    mask, *values = args
    if isinstance(mask, ArrayBase) and not any(isinstance(v, ArrayBase) for v in values):
        values = [_vector(v) for v in values]
        if not any(isinstance(v, ArrayBase) for v in values):
            values = [_as_array(v, type(mask)) for v in values]
    cls, operands = resolve(tuple(values))
    if isinstance(mask, (bool, np.bool_)):
        return cls, [bool(mask), *operands]
    of_values = not isinstance(cls, type) or not issubclass(cls, ArrayBase)
    if not isinstance(mask, ArrayBase):
        if of_values or not isinstance(mask, (list, tuple, np.ndarray)):
            raise Incompatible(f"the first operand has to be a mask, not {type_label(type(mask))}")
        shape = nesting(mask, [v for v in operands if isinstance(v, ArrayBase)])
        cls = join((cls, *shape))
        try:
            return cls, [cls.Mask(mask), *operands]
        except TypeError as problem:
            raise Incompatible(
                f"Could not promote type {type_label(type(mask))}: {problem}"
            ) from None
    of_mask = type(mask)
    if mask._dtype.is_float:
        raise Incompatible(f"the first operand has to be a mask, not {type_label(of_mask)}")
    if not mask._dtype.is_mask:
        cls, of_values, mask = join((of_mask, cls)), False, of_mask.Mask(mask)
        operands = [convert(cls, v) for v in operands]
    alike = not of_values and (
        of_mask._kind == "leaf"
        or (of_mask.__meta__.dims, of_mask._kind) == (cls.__meta__.dims, cls._kind)
    )
    cls = join((of_mask.Mask._leaf if alike else of_mask.Mask, cls))
    return cls, traced(cls, [mask, *operands])


def _vector(value: Any) -> Any:
    """Converts a sequence that contains arrays to an array with the entries as components."""
    if not isinstance(value, (list, tuple)) or not any(isinstance(v, ArrayBase) for v in value):
        return value
    meta = join(operand(value, [])[1]).__meta__
    return table.find(meta.namespace, "vector", meta.dtype, (len(value), *meta.dims))(value)


def _as_array(value: Any, mask: Any) -> Any:
    """Converts a sequence of numbers to an array with the shape of a mask's class."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    types = operand(value, [mask])[1]
    return table.related(mask, dtype=join((mask, *types))._dtype)(value)


def numbers(op_: Op, dtype: dt.DType, values: list) -> Any:
    """Applies an operation to Python numbers in the given element type."""
    types = [dtype] * len(values)
    if op_.result == "second":
        types[0] = dt.mask
    literals = [node.literal(t, v) for t, v in zip(types, values, strict=True)]
    return node.evaluate_literal(op_, dtype, tuple(literals))


def _map(op_: Op, cls: Any, operands: list, name: str) -> Any:
    kind = cls._kind
    first = 1 if op_.result == "second" else 0
    if kind == "leaf":
        values = [convert(cls, v) for v in operands[first:]]
        if first:
            values.insert(0, convert(cls.Mask, operands[0]))
        if 0 in [v._node.size for v in values]:
            leaf.check_empty(op_.name, [v._node for v in values], operands)
        return leaf.apply(op_, *values)
    result = cls.Mask if op_.result == "mask" else cls
    if kind == "tensor":
        return _map_tensor(op_, cls, result, operands, first)
    columns = [_components(cls, v, first == 1 and i == 0) for i, v in enumerate(operands)]
    sizes = [len(c) for c in columns if isinstance(c, list)]
    size, *others = ({*sizes} - {1}) or {1}
    if others:
        shown = " and ".join(map(str, sizes))
        raise Incompatible(f"arrays have different numbers of components ({shown})")
    rows = (
        [c[i if len(c) > 1 else 0] if isinstance(c, list) else c for c in columns]
        for i in range(size)
    )
    if issubclass(cls.Value, ArrayBase):
        return nested(result, [elementwise(op_, *row, name=name) for row in rows])
    return nested(result, [numbers(op_, cls._dtype, row) for row in rows])


def _components(cls: Any, value: Any, is_mask: bool) -> Any:
    """Returns the list of components of an operand, or a single value for all of them."""
    kind, target = cls.__meta__.kind, cls.Mask if is_mask else cls
    if isinstance(value, ArrayBase):
        dims = value.__meta__.dims
        if value._kind == "nested" and dims and not broadcasts_to_components(cls, value):
            deeper = kind == "matrix" and len(dims) != len(cls.__meta__.dims)
            of_numbers = not issubclass(cls.Value, ArrayBase)
            if deeper or (of_numbers and value._dtype is not target._dtype):
                value = target(value)
            return value._components
        if value._kind == "tensor":
            raise Incompatible(f"{type_label(value)} does not go together with {type_label(cls)}")
        if is_mask:
            return value
        if kind == "vector":
            shallow = value._kind == "leaf" and type(value) is not cls._leaf
            return leaf.cast(cls._leaf, value) if shallow else value
    elif kind == "vector" and not isinstance(value, (list, tuple, np.ndarray)):
        if not is_mask:
            check_range(cls, value)
        return value
    elif is_mask:
        return value
    return convert(target, value)._components


def _map_tensor(op_: Op, cls: Any, result: Any, operands: list, first: int) -> Any:
    kinds = [cls.Mask if first and i == 0 else cls for i in range(len(operands))]
    parts = [*map(tensor.parts, kinds, operands)]
    shape = tensor.broadcast_shape([own for _, own in parts])
    arrays = [tensor.broadcast(a, own, shape) for a, own in parts]
    return tensor.wrap(result, elementwise(op_, *arrays), shape)

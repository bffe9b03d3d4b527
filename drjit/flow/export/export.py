"""`dr.export`: a function as a file that needs NumPy and Numba only."""

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...array.base import ArrayBase
from ...array.pytree import leaf_arrays, map_tree
from ...function.ad.grad import detach, enable_grad, grad
from ...function.ad.propagate import backward
from ...function.data.reduce import sum as total
from ...function.signature import signature
from ...jit.ir.scope import innermost
from ...jit.run.freeze import active

_HEAD = '''"""{title}

Written by drjit.export from {origin}. It needs NumPy and Numba.

{functions}
Arrays of the original are NumPy arrays here: Array3f one of shape (3, n), data classes are
dictionaries. Sizes may differ from those in the export, but equal ones must stay equal. Kernels are
functions of ordinary Python loops, compiled on their first call. A comment names the line that the
statements after it come from.
"""'''


def export(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | os.PathLike[str],
    gradient: bool = False,
    name: str | None = None,
) -> Path:
    """Writes a function as a Python file that needs NumPy and Numba only, and returns its path.

    The function is traced for `arguments`, which are examples: their types count, not their
    contents. The file has a function of the same name (or `name`) that runs the same kernels on
    NumPy arrays. Arguments and results have the structure of the original: an array is an array of
    one axis, a tensor one of the same shape, an `Array3f` one of shape (3, n), a data class a
    dictionary (as an argument, any object with such attributes). Arrays outside of the arguments,
    such as the weights of a network, become part of the file; so do Python numbers among the
    arguments, which calls have to repeat.

    Arrays may have another size in a call; those of equal size, or first axis, in the example have
    equal sizes in calls. Where the trace depends on a size in another way than in proportion, that
    size is fixed: a warning is logged with the line, and calls are checked. An array of one entry
    stays one.

    With `gradient`, the file has a second function `NAME_value_and_grad`, which returns the result,
    and the gradients of the sum of all its entries with respect to the floating-point arguments, in
    a tuple with their structure (None for others).

    Every operation is rounded, as without `JitFlag.FastMath`. Results do not depend on the number
    of threads: sums and scatter-reductions into small arrays are made for chunks of lanes that only
    depend on their number, and then joined in order; other atomic updates are made lane by lane.

    Raises:
        RuntimeError: the function cannot be exported, because it reads the contents of arrays,
            makes arrays of sizes that depend on contents, or changes something in place; the
            message names the line.
        TypeError: arguments or results contain other objects.

    >>> import tempfile, os
    >>> def wave(x, y):
    ...     return dr.sin(x) * y
    >>> path = os.path.join(tempfile.mkdtemp(), "wave.py")
    >>> text = dr.export(wave, Float(1, 2, 3), Float(4, 5, 6), path=path).read_text()
    >>> "def wave(x, y):" in text, "from numba import njit" in text
    (True, True)
    """
    from .file import write  # with the translation of kernel texts, for few programs

    what = f"dr.export({getattr(function, '__qualname__', 'function')})"
    if not callable(function):
        raise TypeError(f"dr.export(): expected a function, got {type(function).__name__}")
    if active() is not None or innermost() is not None:
        raise RuntimeError(f"{what}: cannot be used in a function that is being traced")
    own: str = getattr(function, "__name__", "compute")
    name = name or (own if own.isidentifier() else "compute")
    if not str(name).isidentifier():
        raise ValueError(f"{what}: {name!r} is not a name")
    parameters = _parameters(function, len(arguments), what)
    title = (inspect.getdoc(function) or f"What {name} computes.").splitlines()[0]
    made = [_traced(function, name, parameters, arguments, title, what)]
    if gradient:
        made.append(
            _traced(
                _value_and_grad(function, what), f"{name}_value_and_grad", parameters, arguments,
                f"The result of {name}, and the gradients of the sum of its entries.", what,
            )
        )  # fmt: skip
    text = write(made, what, _head(function, made))
    target = Path(path)
    target.write_text(text, encoding="utf-8")
    return target


def _traced(
    function: Callable, name: str, parameters: tuple[str, ...], arguments: Sequence[Any],
    title: str, what: str,
) -> Any:  # fmt: skip
    from .file import Traced
    from .trace import traced

    general, fixed, reasons = traced(function, arguments, what)
    return Traced(name, parameters, general, tuple(fixed), reasons, title)


def _parameters(function: Callable, count: int, what: str) -> tuple[str, ...]:
    """Returns names for the arguments of a function."""
    try:
        found = signature(function).parameters.values()
    except (TypeError, ValueError):
        found = ()
    by_position = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = [p.name for p in found if p.kind in by_position][:count]
    names += [f"argument{k}" for k in range(len(names), count)]
    if len(set(names)) < len(names):
        raise TypeError(f"{what}: cannot name the arguments")
    return tuple(names)


def _value_and_grad(function: Callable, what: str) -> Callable:
    """Returns the function that computes the result and its gradients."""

    def compute(*arguments: Any) -> Any:
        inner = detach(arguments)
        enable_grad(inner)
        result = function(*inner)
        summed = [
            total(a, axis=None)
            for a in leaf_arrays(result)
            if a._kind == "leaf" and a._diff and a._dtype.is_float
        ]
        if not summed:
            raise RuntimeError(
                f"{what}: the result has no differentiable array; use a type such as "
                "drjit.auto.ad.Float"
            )
        for one in summed:
            backward(one)
        return detach(result), tuple([_gradients(a) for a in inner])

    compute.__wrapped__ = function  # type: ignore[attr-defined]
    return compute


def _gradients(value: Any) -> Any:
    def of(a: Any) -> Any:
        floats = isinstance(a, ArrayBase) and a.__meta__.dtype.is_float and a.__meta__.is_diff
        return grad(a) if floats else None

    return map_tree(of, value, stop=ArrayBase)


def _head(function: Callable, made: list[Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}" if code else "an object"
    lines = [f"    {t.name}({', '.join(t.parameters)})" for t in made]
    functions = "\n".join([*lines, ""])
    return _HEAD.format(title=made[0].title, origin=where, functions=functions)

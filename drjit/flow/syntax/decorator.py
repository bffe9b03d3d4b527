"""The decorator `syntax`, which makes Python loops and branches work on arrays, and `hint`.

The source of the function is parsed, transformed (`transform`), and compiled again at its place in
the file, so that tracebacks and debuggers show the user's lines. The disk cache keeps the code: to
transform a function takes longer than all else that a small program does in its first second.
"""

import marshal
import os
import sys
import types
import warnings
from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from types import SimpleNamespace
from typing import Any, TypedDict, TypeVar, Unpack, overload

from ...array.base import IncompatibleError
from ...jit.run import cache
from ..call.branch import if_stmt
from ..loop.while_loop import while_loop
from ..region.messages import is_undefined, value

T = TypeVar("T", bound=Any)
F = TypeVar("F", bound=Callable[..., Any])


_flow = SimpleNamespace(
    while_loop=while_loop,
    if_stmt=if_stmt,
    value=value,
    is_undefined=is_undefined,
)


def hint(
    arg: T,
    /,
    *,
    mode: str | None = None,
    max_iterations: int | None = None,
    label: str | None = None,
    include: list[object] | None = None,
    exclude: list[object] | None = None,
    strict: bool = True,
) -> T:
    """Returns its argument. Around the condition of a loop or branch in a function with `syntax`,
    it controls the execution of that statement.

    `mode`, `max_iterations`, `label` and `strict` are those of `while_loop` and `if_stmt`. With
    `mode='scalar'`, the statement remains an ordinary Python statement, in which `break`,
    `continue` and `return` are allowed. `include` and `exclude` list variables that must, or must
    not, be part of the state. In a function with `syntax`, `compress` is passed on to `while_loop`
    as well.

    >>> from drjit.llvm import UInt
    >>> @dr.syntax
    ... def f(i):
    ...     while dr.hint(i < 10, mode="evaluated", label="doubling"):
    ...         i = i * 2
    ...     return i
    >>> f(UInt(1, 5))
    [16, 10]
    """
    return arg


class _Options(TypedDict, total=False):
    recursive: bool
    print_ast: bool
    print_code: bool


@overload
def syntax(f: None = None, **options: Unpack[_Options]) -> Callable[[F], F]: ...
@overload
def syntax(f: F, **options: Unpack[_Options]) -> F: ...
def syntax(
    f: Any = None,
    *,
    recursive: bool = False,
    print_ast: bool = False,
    print_code: bool = False,
) -> Any:
    """Decorator of functions whose `while` loops and `if` statements may have arrays as their
    conditions: they become calls of `while_loop` and `if_stmt`.

    `for` loops, conditional expressions, and the operators `and`, `or` and `not` do not change.
    `break`, `continue` and `return` must not leave a transformed statement. `recursive` also
    transforms nested functions. Wrappers added by `functools.wraps` are preserved. `print_ast` and
    `print_code` print the function before and after.

    Raises:
        SyntaxError: a statement cannot be transformed.
        TypeError: `f` is a lambda function, is not a Python function, or was created by another
            Dr.Jit decorator.
        RuntimeError: the source of the function is not available.

    >>> from drjit.llvm import Int
    >>> @dr.syntax
    ... def collatz(n):
    ...     steps = Int(0)
    ...     while n != 1:
    ...         if n & 1 == 0:
    ...             n //= 2
    ...         else:
    ...             n = 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> collatz(Int(1, 6, 27))
    [0, 8, 111]
    """
    if f is None:
        return lambda g: syntax(g, recursive=recursive, print_ast=print_ast, print_code=print_code)
    _check(f)
    inner = getattr(f, "__wrapped__", None)
    if inner is not None:
        made = syntax(inner, recursive=recursive, print_ast=print_ast, print_code=print_code)
        return _decorated(f, inner, made)
    if print_ast or print_code:
        return _build(f, _transformed(f, recursive, print_ast, print_code))
    key = _key(f, recursive)
    entry = cache.get(key) if key else None
    if entry is not None:
        return _build(f, marshal.loads(entry.code))
    code = _transformed(f, recursive)
    if key:
        cache.put(key, "", marshal.dumps(code), False)
    return _build(f, code)


def _transformed(f: types.FunctionType, recursive: bool, *show: bool) -> types.CodeType:
    from .transform import transformed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler warns of, it has when it met the text
        return transformed(f, recursive, *show)


def _key(f: types.FunctionType, recursive: bool) -> str:
    """Returns the key of a transformed function in the disk cache; nothing if the function is not
    in a file, as those of notebooks, which are seldom the same again."""
    file = f.__code__.co_filename
    try:
        with open(file, "rb") as source:
            text = source.read().decode(errors="backslashreplace")
    except OSError:
        return ""
    facts = f.__code__.co_firstlineno, f.__qualname__, f.__code__.co_freevars, recursive
    facts += sys.version, sys.flags.optimize, cache.files_in(os.path.dirname(__file__))
    return cache.digest(text, file, *facts, machine=False)


def _check(f: Any) -> None:
    order = (
        "This is the wrong order of decorators: apply @dr.syntax before the others, that is, below "
        "them."
    )
    if not isinstance(f, types.FunctionType):
        raise TypeError(f"dr.syntax(): expected a Python function, not {type(f).__name__}. {order}")
    if f.__name__ == "<lambda>":
        raise TypeError(
            "dr.syntax(): lambda functions consist of an expression, so that there are no "
            "statements to transform. Use 'def', or dr.if_stmt() and dr.select()."
        )
    if f.__globals__.get("__name__", "").startswith(__name__.partition(".")[0] + "."):
        raise IncompatibleError(
            f"dr.syntax(): '{f.__qualname__}' is a function that Dr.Jit has made. {order}"
        )


def _decorated(f: types.FunctionType, inner: Any, made: Any) -> Any:
    """Returns a decorated function with its inner function replaced by another one."""
    cells = f.__closure__ or ()
    closure = tuple([types.CellType(made) if _holds(c, inner) else c for c in cells])
    if all(c is old for c, old in zip(closure, cells, strict=True)):
        return made
    new = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, closure)
    new.__kwdefaults__ = f.__kwdefaults__
    update_wrapper(new, f, [*WRAPPER_ASSIGNMENTS])
    vars(new)["__wrapped__"] = made
    return new


def _holds(cell: types.CellType, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # a variable without a value
        return False


def _build(f: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """Returns the function with its code transformed."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    closure = tuple([cells.get(n) or types.CellType(_flow) for n in code.co_freevars])
    made = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    made.__kwdefaults__ = f.__kwdefaults__
    update_wrapper(made, f, [*WRAPPER_ASSIGNMENTS])
    del made.__wrapped__  # type: ignore[attr-defined]
    return made

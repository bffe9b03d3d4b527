"""The decorator `syntax`, which makes Python loops and branches work on arrays, and `hint`.

The source of the function is parsed, transformed (`transform`), and compiled again at its place in
the file, so that tracebacks and debuggers show the user's lines.
"""

import ast
import inspect
import linecache
import types
from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, update_wrapper
from types import SimpleNamespace
from typing import Any, TypeVar, overload

from ...array.base import IncompatibleError
from ..call.branch import if_stmt
from ..loop.while_loop import while_loop
from ..region.undefined import is_undefined, value
from .transform import FLOW, Transformer

T = TypeVar("T", bound=Any)

_flow = SimpleNamespace(
    while_loop=while_loop, if_stmt=if_stmt, value=value, is_undefined=is_undefined
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


@overload
def syntax(
    f: None = None,
    *,
    recursive: bool = False,
    print_ast: bool = False,
    print_code: bool = False,
) -> Callable[[T], T]: ...


@overload
def syntax(
    f: T,
    *,
    recursive: bool = False,
    print_ast: bool = False,
    print_code: bool = False,
) -> T: ...


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
    tree, function = _parse(f)
    if print_ast:
        _show("Input AST", ast.dump(function, indent=4))
    if print_code:
        _show("Input code", ast.unparse(function))
    if "__class__" in f.__code__.co_freevars and function.args.args:
        _Super(function.args.args[0].arg).visit(function)
    Transformer(function, f.__code__.co_filename, recursive)
    ast.fix_missing_locations(tree)
    if print_ast:
        _show("Output AST", ast.dump(function, indent=4))
    if print_code:
        _show("Output code", ast.unparse(function))
    return _build(f, tree)


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


def _show(title: str, text: str) -> None:
    print(f"{title}\n{'-' * len(title)}\n{text}\n")


def _parse(f: types.FunctionType) -> tuple[ast.Module, Any]:
    """Returns a module that contains the function, at its lines in the file, and the function.

    It is nested in a function whose parameters are its free variables, and in its class, whose name
    is part of the names of private members.
    """
    file, first = f.__code__.co_filename, f.__code__.co_firstlineno
    linecache.checkcache(file)
    # inspect.getsourcelines() would examine the files of all modules first.
    lines = linecache.getlines(file, f.__globals__)[first - 1 :]
    if not lines:
        raise RuntimeError(
            f"dr.syntax(): the source of '{f.__qualname__}' is not available ({file}, line "
            f"{first}). The function has to be defined in a file or a notebook; use "
            "dr.while_loop() and dr.if_stmt() elsewhere."
        )
    lines = inspect.getblock(lines)
    indented = lines[0][:1].isspace()
    text = "".join(["if True:\n", *lines] if indented else lines)
    tree = ast.parse(text, file)
    ast.increment_lineno(tree, first - 1 - indented)
    body: Any = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    function = body[0]
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        raise TypeError(f"dr.syntax(): '{f.__qualname__}' is not defined by a 'def' statement")
    function.decorator_list = []
    inner: Any = function
    owner = f.__qualname__.split(".")[-2:-1]
    if owner and owner[0] != "<locals>":
        inner = ast.ClassDef(owner[0], [], [], [inner], [])
        if hasattr(ast, "TypeVar"):
            inner.type_params = []
    free = (FLOW, *f.__code__.co_freevars)
    around: Any = ast.parse("def around(): pass").body[0]
    around.args.args = [ast.arg(n) for n in free]
    # The function may refer to itself or its class by the names that the program uses.
    known = [n for n in dict.fromkeys((function.name, inner.name)) if n not in free]
    around.body = [*([ast.Global(known)] if known else []), inner]
    return ast.Module([around], []), function


def _build(f: types.FunctionType, tree: ast.Module) -> types.FunctionType:
    """Returns the function with the code from a module."""
    code = _find(compile(tree, f.__code__.co_filename, "exec", dont_inherit=True), f.__name__)
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    cells[FLOW] = types.CellType(_flow)
    code = code.replace(co_qualname=f.__code__.co_qualname)
    made = types.FunctionType(
        code, f.__globals__, f.__name__, f.__defaults__, tuple([cells[n] for n in code.co_freevars])
    )
    made.__kwdefaults__ = f.__kwdefaults__
    update_wrapper(made, f, [*WRAPPER_ASSIGNMENTS])
    del made.__wrapped__  # type: ignore[attr-defined]
    return made


def _find(code: types.CodeType, name: str) -> types.CodeType:
    """Returns the outermost code object with a name."""
    queue = [code]
    for c in queue:
        if c.co_name == name and c is not code:
            return c
        queue += [k for k in c.co_consts if isinstance(k, types.CodeType)]
    raise RuntimeError(f"dr.syntax(): '{name}' could not be compiled")


class _Super(ast.NodeTransformer):
    """Adds the arguments of `super()`, which cannot be inferred in nested functions."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super" and not node.args:
            node.args = [
                ast.copy_location(ast.Name(n, ast.Load()), node) for n in ("__class__", self.owner)
            ]
        return node

"""The code of a function with its statements transformed, from the function's source."""

import ast
import inspect
import linecache
import types
from typing import Any

from ...jit.parsing import syntax_tree
from ..region.state import FLOW
from .transform import Transformer


def transformed(
    f: types.FunctionType, recursive: bool, print_ast: bool = False, print_code: bool = False
) -> types.CodeType:
    """Returns the code; prints the function before and after on demand.

    Raises:
        SyntaxError: a statement cannot be transformed.
        TypeError: the function is not defined by a `def` statement.
        RuntimeError: the source is not available.
    """
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
    module = compile(tree, f.__code__.co_filename, "exec", dont_inherit=True)
    return _find(module, f.__name__).replace(co_qualname=f.__code__.co_qualname)


def _show(title: str, text: str) -> None:
    print(f"{title}\n{'-' * len(title)}\n{text}\n")


def _unavailable(f: types.FunctionType) -> RuntimeError:
    code = f.__code__
    return RuntimeError(
        f"dr.syntax(): the source of '{f.__qualname__}' is not available ({code.co_filename}, line "
        f"{code.co_firstlineno}). The function has to be defined in a file or a notebook; use "
        "dr.while_loop() and dr.if_stmt() elsewhere."
    )


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
        raise _unavailable(f)
    lines = inspect.getblock(lines)
    indented = lines[0][:1].isspace()
    tree = syntax_tree("".join(["if True:\n", *lines] if indented else lines), file)
    ast.increment_lineno(tree, first - 1 - indented)
    body: Any = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    function = body[0]
    # From Python 3.13 on, what `exec` compiles has the file name of what `python -c` runs.
    if file == "<string>" and getattr(function, "name", "") != f.__code__.co_name:
        raise _unavailable(f)
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
    around: Any = syntax_tree("def around(): pass").body[0]
    around.args.args = [ast.arg(n) for n in free]
    # The function may refer to itself or its class by the names that the program uses.
    known = [n for n in dict.fromkeys((function.name, inner.name)) if n not in free]
    around.body = [*([ast.Global(known)] if known else []), inner]
    return ast.Module([around], []), function


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

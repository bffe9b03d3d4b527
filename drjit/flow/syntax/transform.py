"""The code of a function whose `while` and `if` statements are calls of `while_loop` and `if_stmt`.

The test and the body of a statement become nested functions of the variables that they share with
the surrounding code: those that they read, and those that they write and whose values are needed
later (`liveness`). Variables that only live within a body stay local to it.
"""

import ast
import inspect
import linecache
import types
from collections.abc import Iterable
from typing import Any, NoReturn

from ...jit.parsing import syntax_tree
from ..region.state import FLOW
from .liveness import FUNCTIONS, NONE, Live, Names, all_writes, parameters, reads, uses, writes

# What stands for parts of a statement in the text that replaces it.
_TEST, _BODY, _ELSE = "_drjit_test", "_drjit_body", "_drjit_else"

_HINTS = ("mode", "max_iterations", "label", "strict", "compress")
_ONLY_LOOPS = ("max_iterations", "compress")
_JUMPS = {ast.Break: "break", ast.Continue: "continue", ast.Return: "return"}
_YIELDS = {ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Await: "await"}


class Hint:
    """The contents of a `dr.hint` around the condition of a statement."""

    def __init__(self, test: Any, error: Any) -> None:
        self.test, self.options = test, dict[str, ast.expr]()
        self.include, self.exclude = NONE, NONE
        if not _is_hint(test):
            return
        if len(test.args) != 1 or isinstance(test.args[0], ast.Starred):
            error(test, "dr.hint() takes one positional argument, the condition")
        self.test = test.args[0]
        for k in test.keywords:
            if k.arg in ("include", "exclude"):
                setattr(self, k.arg, _listed(k, error))
            elif k.arg in _HINTS:
                self.options[k.arg] = k.value
            else:
                error(test, f"dr.hint() does not support the keyword argument {k.arg or '**'!r}")

    @property
    def scalar(self) -> bool:
        """Whether the statement remains an ordinary one."""
        mode = self.options.get("mode")
        return isinstance(mode, ast.Constant) and mode.value == "scalar"

    @property
    def keywords(self) -> str:
        """The options as further arguments of a call."""
        return "".join([f", {name}={ast.unparse(value)}" for name, value in self.options.items()])


def _is_hint(test: Any) -> bool:
    function = test.func if isinstance(test, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr == "hint"
    return isinstance(function, ast.Name) and function.id == "hint"


def _listed(keyword: ast.keyword, error: Any) -> Names:
    if ast.unparse(keyword.value) == "None":
        return NONE
    value: Any = keyword.value
    if not isinstance(value, (ast.List, ast.Tuple)) or not all(
        isinstance(e, ast.Name) for e in value.elts
    ):
        error(value, f"'{keyword.arg}' of dr.hint() must be a list of names of variables")
    return frozenset([e.id for e in value.elts if isinstance(e, ast.Name)])


class Transformer:
    """Transforms the statements of one function in place."""

    def __init__(self, function: Any, filename: str, recursive: bool) -> None:
        self.filename, self.recursive = filename, recursive
        self.count = 0
        own = parameters(function.args)
        declared = [
            name
            for n in _own_nodes(function.body)
            if isinstance(n, (ast.Nonlocal, ast.Global))
            for name in n.names
        ]
        self.locals = frozenset(own) | all_writes(function.body) | frozenset(declared)
        self.live = Live(function.body)
        self.inner = _captures(function.body, self.locals)
        function.body, _ = self.block(function.body, frozenset(own))

    def error(self, node: Any, message: str) -> NoReturn:
        """Always raises a SyntaxError, at the line of a node."""
        raise SyntaxError(
            f"@dr.syntax: {message}", (self.filename, node.lineno, node.col_offset + 1, None)
        )

    # ---- Statements. Each method returns the replacement, and the variables that are definitely
    # assigned after it

    def block(self, body: list[ast.stmt], bound: Names) -> tuple[list[ast.stmt], Names]:
        """Transforms statements in order."""
        found: list[ast.stmt] = []
        for s in body:
            new, bound = self.statement(s, bound)
            found += new
        return found, bound

    def statement(self, s: ast.stmt, bound: Names) -> tuple[list[ast.stmt], Names]:
        """Transforms one statement."""
        match s:
            case ast.While():
                return self._while(s, bound)
            case ast.If():
                return self._if(s, bound)
            case ast.For() | ast.AsyncFor():
                s.body, _ = self.block(s.body, bound | writes(s.target))
                s.orelse, _ = self.block(s.orelse, bound)
                return [s], bound
            case ast.With() | ast.AsyncWith():
                s.body, bound = self.block(s.body, bound | writes(*s.items))
                return [s], bound
            case ast.Try():
                before = bound
                s.body, bound = self.block(s.body, before)
                s.orelse, bound = self.block(s.orelse, bound)
                for h in s.handlers:
                    named = frozenset([h.name]) if h.name else NONE
                    h.body, after = self.block(h.body, before | named)
                    bound &= after - named
                s.finalbody, final = self.block(s.finalbody, before)
                return [s], bound | final
            case ast.Match():
                for c in s.cases:
                    c.body, _ = self.block(c.body, bound | writes(c.pattern))
                return [s], bound
            case ast.FunctionDef() | ast.AsyncFunctionDef() if self.recursive:
                Transformer(s, self.filename, True)
                return [s], bound | {s.name}
            case ast.Delete():
                return [s], bound - writes(s)
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return [s], bound | self.locals  # nothing after it runs
        return [s], bound | writes(s)

    def _while(self, s: ast.While, bound: Names) -> tuple[list[ast.stmt], Names]:
        hint = Hint(s.test, self.error)
        if hint.scalar or isinstance(hint.test, ast.Constant):
            s.test = hint.test
            s.body, _ = self.block(s.body, bound | writes(s.test))
            s.orelse, _ = self.block(s.orelse, bound | writes(s.test))
            return [s], bound | writes(s.test)
        self._check_jumps(s.body, "while", s)
        entry = self.live.entry[s]
        assigned = writes(s.test)
        if assigned & (entry | self.live.after[s] | reads(*s.body)):
            self.error(
                s, "an assignment expression in the condition of a 'while' loop cannot be used "
                "outside of the condition"
            )  # fmt: skip
        used = reads(hint.test, *s.body) | all_writes(s.body)
        state = sorted(((used & entry & self.locals) | hint.include) - hint.exclude)
        self._check_captured(s, all_writes(s.body) & frozenset(state), "loop")
        body, _ = self.block(s.body, bound | frozenset(state))
        number, every = self._number(), _tuple(state)
        test, function = f"_while_test{number}", f"_while_body{number}"
        made = [
            *_read(state, bound),
            _function(test, state, f"return {_TEST}"),
            _function(function, state, _BODY, f"return {every}"),
            f"{_target(state)}{FLOW}.while_loop({every}, {test}, {function}, "
            f"labels={tuple(state)}{hint.keywords})",
            *_unset(state, bound),
        ]
        orelse, _ = self.block(s.orelse, bound)
        return _filled(made, s.test, {_TEST: hint.test, _BODY: body}) + orelse, bound

    def _if(self, s: ast.If, bound: Names) -> tuple[list[ast.stmt], Names]:
        hint = Hint(s.test, self.error)
        bound |= writes(s.test)
        if hint.scalar:
            s.test = hint.test
            s.body, first = self.block(s.body, bound)
            s.orelse, second = self.block(s.orelse, bound)
            return [s], first & second
        for name in _ONLY_LOOPS:
            if name in hint.options:
                self.error(s, f"'{name}' of dr.hint() is for loops")
        self._check_jumps([*s.body, *s.orelse], "if", None)
        after = self.live.after[s]
        assigned = all_writes([*s.body, *s.orelse])
        used = reads(*s.body, *s.orelse) | assigned
        args = sorted(((used & self.live.entry[s] & self.locals) | hint.include) - hint.exclude)
        dead = assigned - after
        results = sorted(((frozenset(args) - dead) | (assigned & after)) - hint.exclude)
        self._check_captured(s, assigned & frozenset(results), "branch")
        inner = bound | frozenset(args)
        inside = uses([*s.body, *s.orelse])
        augmented, rebound = frozenset(inside.augmented), frozenset(inside.bound)
        body, first = self.block(s.body, inner)
        orelse, second = self.block(s.orelse, inner)
        number = self._number()
        # In-place changes of an array may be visible elsewhere, even if the variable is not read
        # later or is assigned another array. A variable assigned here may refer to the same array
        # as any other.
        changing = frozenset(args) if augmented & rebound else augmented & frozenset(args)
        kept = sorted(changing & (dead | rebound))
        held = [f"_kept{number}_{n}" for n in kept]
        known = frozenset(results) & first & second & (bound | (assigned - frozenset(args)))
        keep = [_target(held) + _tuple(kept)] if kept else []
        missing = [[n for n in results if n not in given] for given in (first, second)]
        back = f"return {_tuple([*results, *held])}"
        true, false = f"_if_true{number}", f"_if_false{number}"
        # Arguments may depend on what the test assigns.
        assigns = [f"_if_test = {_TEST}"] if writes(hint.test) else []
        made = [
            *assigns,
            *_read(args, bound),
            _function(true, args, *keep, _BODY, *map(_value, missing[0]), back),
            _function(false, args, *keep, _ELSE, *map(_value, missing[1]), back),
            f"{_target([*results, *held])}{FLOW}.if_stmt({_tuple(args)}, "
            f"{'_if_test' if assigns else _TEST}, {true}, {false}, arg_labels={tuple(args)}, "
            f"rv_labels={(*results, *kept)}{hint.keywords})",
            *_unset(results, bound | known),
        ]
        return _filled(made, s.test, {_TEST: hint.test, _BODY: body, _ELSE: orelse}), bound | known

    # ---- Building blocks

    def _number(self) -> str:
        self.count += 1
        return "" if self.count == 1 else str(self.count)

    def _check_jumps(self, body: list[ast.stmt], kind: str, loop: ast.While | None) -> None:
        for n, own in _jumps(body, loop is not None):
            word = _JUMPS.get(type(n)) or _YIELDS[type(n)]
            if own or not isinstance(n, (ast.Break, ast.Continue)):
                self.error(
                    n, f"use of '{word}' inside a transformed 'while' loop or 'if' statement is "
                    f"currently not supported. It is inside '{kind}', where lanes may go different "
                    "ways. If the condition is a Python bool, write dr.hint(condition, "
                    "mode='scalar')."
                )  # fmt: skip

    def _check_captured(self, s: ast.stmt, changed: Names, kind: str) -> None:
        inside = {id(n) for n in ast.walk(s)}
        for name in sorted(changed):
            for function in self.inner.get(name, ()):
                if id(function) not in inside:
                    title = getattr(function, "name", "a lambda function")
                    self.error(
                        s, f"variable '{name}' changes in a {kind}, but '{title}', which is "
                        "defined outside of it, refers to it. Pass it as an argument."
                    )  # fmt: skip


def _own_nodes(body: Iterable[Any]) -> Iterable[ast.AST]:
    """Yields the nodes of statements, excluding nested functions and classes."""
    stack = list(body)
    while stack:
        n = stack.pop()
        yield n
        if not isinstance(n, (*FUNCTIONS, ast.ClassDef)):
            stack += ast.iter_child_nodes(n)


def _captures(body: list[ast.stmt], variables: Names) -> dict[str, list[ast.AST]]:
    """Returns the nested functions that refer to variables."""
    found: dict[str, list[ast.AST]] = {}
    for s in body:
        for n in ast.walk(s):
            if isinstance(n, FUNCTIONS):
                for name in reads(n) & variables:
                    found.setdefault(name, []).append(n)
    return found


def _jumps(body: Iterable[Any], in_loop: bool) -> Iterable[tuple[Any, bool]]:
    """Yields statements that leave a body, and whether they concern enclosing code."""
    for n in body:
        if isinstance(n, (*FUNCTIONS, ast.ClassDef)):
            continue
        if type(n) in _JUMPS or type(n) in _YIELDS:
            yield n, True
        if isinstance(n, (ast.For, ast.AsyncFor, ast.While)):
            for m, _ in _jumps(n.body, in_loop):
                yield m, not isinstance(m, (ast.Break, ast.Continue))
            head = n.test if isinstance(n, ast.While) else n.iter
            yield from _jumps([*n.orelse, head], in_loop)
        else:
            yield from _jumps(ast.iter_child_nodes(n), in_loop)


# ---- The text of new statements


def _tuple(names: Iterable[str]) -> str:
    return f"({''.join([f'{n}, ' for n in names])})"


def _target(names: list[str]) -> str:
    return f"{_tuple(names)} = " if names else ""


def _value(name: str) -> str:
    """Gives a variable that may have no value a stand-in."""
    return f"{name} = {FLOW}.value(lambda: {name}, {name!r})"


def _read(names: list[str], bound: Names) -> list[str]:
    """Gives those variables that may have no value stand-ins."""
    return [_value(n) for n in names if n not in bound]


def _unset(names: list[str], bound: Names) -> list[str]:
    """Deletes variables without a value."""
    return [f"if {FLOW}.is_undefined({n}): del {n}" for n in names if n not in bound]


def _function(name: str, args: list[str], *body: str) -> str:
    return "\n    ".join([f"def {name}({', '.join(args)}):", *body])


def _filled(made: list[str], place: ast.expr, parts: dict[str, Any]) -> list[ast.stmt]:
    """Statements from their text, at a place of the program, with parts of this for names."""
    return _Filling(place, parts).visit(syntax_tree("\n".join(made))).body


class _Filling(ast.NodeTransformer):
    def __init__(self, place: ast.expr, parts: dict[str, Any]) -> None:
        self.place, self.parts = place, parts

    def visit(self, node: ast.AST) -> Any:
        name = node.value if isinstance(node, ast.Expr) else node
        if isinstance(name, ast.Name) and name.id in self.parts:
            return self.parts[name.id]
        return self.generic_visit(ast.copy_location(node, self.place))


# ---- From the source of a function to code


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

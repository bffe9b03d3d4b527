"""Parses kernel text to a syntax tree.

Texts are long, but their lines have few forms, which are parsed here several times faster than by
Python's parser. Lines of other forms are passed on to Python's.
"""

import ast
from keyword import iskeyword

from ...parsing import syntax_tree
from ..language import INFIXES, PREFIXES
from .ir import KernelError

_BINARY = {text: kind() for text, kind in INFIXES.items() if issubclass(kind, ast.operator)}
_COMPARISONS = {text: kind() for text, kind in INFIXES.items() if issubclass(kind, ast.cmpop)}
_UNARY: dict[str, ast.unaryop] = {text: kind() for text, kind in PREFIXES.items()}
_HEADS: dict[str, type] = {"if": ast.If, "while": ast.While}
_COMPOUND = (ast.If, ast.While, ast.FunctionDef)
_CONSTANTS = {"False": False, "True": True}
_LOAD = ast.Load()
_INDENT = 4


class _Unusual(Exception):
    """A line has another form."""


class _Atoms(dict[str, ast.expr]):
    """Names, constants and words of the parameter block by their spelling. Equal ones share a
    single node."""

    def __missing__(self, text: str) -> ast.expr:
        node: ast.expr
        if text.isidentifier() and not iskeyword(text):
            node = ast.Name(text, _LOAD)
        elif text[:2] == "p[" and text[-1] == "]":
            index = self[text[2:-1]]
            if type(index) is not ast.Constant:
                raise _Unusual
            node = ast.Subscript(self["p"], index, _LOAD)
        elif text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
            node = ast.Constant(int(text))
        elif text in _CONSTANTS:
            node = ast.Constant(_CONSTANTS[text])
        elif text[:1] == "'" == text[-1:] and text[1:-1].isidentifier():
            node = ast.Constant(text[1:-1])
        else:
            raise _Unusual
        self[text] = node
        return node


def _expression(text: str, atoms: _Atoms) -> ast.expr:
    if text[-1] == ")":
        name, _, rest = text[:-1].partition("(")
        function = atoms[name]
        if type(function) is not ast.Name:
            raise _Unusual
        arguments = [atoms[a] for a in rest.split(", ")] if rest else []
        return ast.Call(function, arguments, [])
    parts = text.split(" ")
    if len(parts) == 3:
        left, name, right = parts
        binary = _BINARY.get(name)
        if binary is not None:
            return ast.BinOp(atoms[left], binary, atoms[right])
        comparison = _COMPARISONS.get(name)
        if comparison is not None:
            return ast.Compare(atoms[left], [comparison], [atoms[right]])
        raise _Unusual
    if text[0] in _UNARY:
        operand = atoms[text[1:]]
        if type(operand) is not ast.Name:
            raise _Unusual
        return ast.UnaryOp(_UNARY[text[0]], operand)
    return atoms[text]


def _target(text: str, atoms: _Atoms) -> ast.expr:
    if "," not in text:
        node = atoms[text]
        if type(node) is ast.Name:
            return node
        raise _Unusual
    nodes = [atoms[name] for name in text.split(", ")]
    for node in nodes:
        if type(node) is not ast.Name:
            raise _Unusual
    return ast.Tuple(nodes, _LOAD)


def _statement(text: str, atoms: _Atoms) -> ast.stmt:
    """Parses a statement other than an assignment."""
    if text[-1] == ":":
        keyword, _, test = text[:-1].partition(" ")
        if keyword == "def":
            return _definition(test, atoms)
        kind = _HEADS.get(keyword)
        if kind is None or not test:
            raise _Unusual
        return kind(_expression(test, atoms), [], [])
    if text.startswith("return "):
        values = [atoms[name] for name in text[7:].split(", ")]
        return ast.Return(values[0] if len(values) == 1 else ast.Tuple(values, _LOAD))
    if text[-1] != ")":
        raise _Unusual
    return ast.Expr(_expression(text, atoms))


def _definition(text: str, atoms: _Atoms) -> ast.FunctionDef:
    """Parses what stands between `def` and the colon."""
    head = _expression(text, atoms)
    if type(head) is not ast.Call:
        raise _Unusual
    names = [a.id for a in (head.func, *head.args) if type(a) is ast.Name]
    if len(names) != 1 + len(head.args):
        raise _Unusual
    arguments = [ast.arg(name) for name in names[1:]]
    return ast.FunctionDef(names[0], ast.arguments([], arguments, None, [], [], None, []), [], [])


def _unusual(text: str) -> list[ast.stmt]:
    """Parses a line with Python's parser; a line that opens a body does not contain it yet.

    Raises:
        SyntaxError: it is invalid, or contains a body.
    """
    opens = text[-1] == ":" and "#" not in text
    found = syntax_tree(f"{text} pass" if opens else text).body
    for s in found:
        if isinstance(s, _COMPOUND):
            if not opens:
                raise SyntaxError
            s.body.clear()
    return found


def _by_lines(text: str) -> list[ast.stmt]:
    """Parses the statements of a text.

    Raises:
        SyntaxError: it is invalid, or statements span several lines.
    """
    atoms = _Atoms()
    bodies: list[list[ast.stmt]] = [[]]
    body, indent = bodies[0], 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.lstrip(" ")
        if not stripped:
            continue
        if len(line) - len(stripped) != indent:
            depth, rest = divmod(len(line) - len(stripped), _INDENT)
            if rest or depth >= len(bodies) or not body:
                raise SyntaxError
            del bodies[depth + 1 :]
            body, indent = bodies[depth], depth * _INDENT
        left, _, right = stripped.partition(" = ")
        try:
            if right:
                made = ast.Assign([_target(left, atoms)], _expression(right, atoms))
                made.lineno = number
                body.append(made)
                continue
            statement = _statement(stripped, atoms)
        except _Unusual:
            found = _unusual(stripped)
            for s in found:
                s.lineno = number
            body += found
            if not found:
                continue
            statement = found[-1]
        else:
            statement.lineno = number
            body.append(statement)
        if isinstance(statement, _COMPOUND):
            body = statement.body
            bodies.append(body)
            indent += _INDENT
    if not body:
        raise SyntaxError
    return bodies[0]


def functions(text: str) -> list[ast.FunctionDef]:
    """Parses the functions of a kernel's text.

    Raises:
        KernelError: the text is not valid Python.
    """
    try:
        try:
            statements = _by_lines(text)
        except SyntaxError:
            statements = syntax_tree(text).body
    except SyntaxError as error:
        raise KernelError(f"line {error.lineno}: {error.text}: {error.msg}") from None
    return [s for s in statements if type(s) is ast.FunctionDef]

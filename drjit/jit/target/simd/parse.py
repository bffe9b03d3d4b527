"""From the text of a kernel to its syntax tree.

Texts are long and their lines are of few forms, which are read here, several times faster than by
Python's parser. Lines of other forms go to that one.
"""

import ast
from keyword import iskeyword

from .ir import KernelError

_BINARY: dict[str, ast.operator] = {
    "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "&": ast.BitAnd(),
    "|": ast.BitOr(), "^": ast.BitXor(),
}  # fmt: skip
_COMPARISONS: dict[str, ast.cmpop] = {
    "==": ast.Eq(), "!=": ast.NotEq(), "<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(),
    ">=": ast.GtE(),
}  # fmt: skip
_PREFIXES: dict[str, ast.unaryop] = {"-": ast.USub(), "~": ast.Invert()}
_LOAD = ast.Load()
_INDENT = 4


class _Unusual(Exception):
    """A line of another form."""


class _Atoms(dict[str, ast.expr]):
    """Names, whole numbers and words of the parameter block by their spelling. Each is one node,
    wherever it stands."""

    def __missing__(self, text: str) -> ast.expr:
        node: ast.expr
        if text.isidentifier() and not iskeyword(text):
            node = ast.Name(text, _LOAD)
        elif text.isdecimal() and text.isascii() and (text[0] != "0" or text == "0"):
            node = ast.Constant(int(text))
        elif text.startswith("p[") and text.endswith("]"):
            index = self[text[2:-1]]
            if type(index) is not ast.Constant:
                raise _Unusual
            node = ast.Subscript(self["p"], index, _LOAD)
        else:
            raise _Unusual
        self[text] = node
        return node


def _expression(text: str, atoms: _Atoms) -> ast.expr:
    if text[-1] == ")":
        name, _, rest = text.partition("(")
        function = atoms[name]
        if type(function) is not ast.Name:
            raise _Unusual
        arguments = rest[:-1]
        return ast.Call(
            function, [atoms[a] for a in arguments.split(", ")] if arguments else [], []
        )
    parts = text.split(" ")
    if len(parts) == 3:
        left, name, right = parts
        if name in _BINARY:
            return ast.BinOp(atoms[left], _BINARY[name], atoms[right])
        if name in _COMPARISONS:
            return ast.Compare(atoms[left], [_COMPARISONS[name]], [atoms[right]])
        raise _Unusual
    if text[0] in _PREFIXES:
        operand = atoms[text[1:]]
        if type(operand) is not ast.Name:
            raise _Unusual
        return ast.UnaryOp(_PREFIXES[text[0]], operand)
    return atoms[text]


def _target(text: str, atoms: _Atoms) -> ast.expr:
    nodes = [atoms[name] for name in text.split(", ")]
    if any(type(node) is not ast.Name for node in nodes):
        raise _Unusual
    return nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, _LOAD)


def _statement(text: str, atoms: _Atoms) -> ast.stmt:
    left, equals, right = text.partition(" = ")
    if right:
        return ast.Assign([_target(left, atoms)], _expression(right, atoms))
    if equals:
        raise _Unusual
    if text[-1] == ":":
        keyword, _, test = text[:-1].partition(" ")
        kind = {"if": ast.If, "while": ast.While}.get(keyword)
        if kind is None or not test:
            raise _Unusual
        return kind(_expression(test, atoms), [], [])
    if text.startswith("return "):
        values = [atoms[name] for name in text[7:].split(", ")]
        return ast.Return(values[0] if len(values) == 1 else ast.Tuple(values, _LOAD))
    if text[-1] != ")":
        raise _Unusual
    return ast.Expr(_expression(text, atoms))


def _by_lines(text: str) -> list[ast.stmt]:
    """The statements of a text.

    Raises:
        SyntaxError: it is wrong, or statements go over several lines.
    """
    atoms = _Atoms()
    bodies: list[list[ast.stmt]] = [[]]
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.lstrip(" ")
        if not stripped:
            continue
        depth, rest = divmod(len(line) - len(stripped), _INDENT)
        if rest or depth >= len(bodies):
            raise SyntaxError
        if not bodies[-1] and depth < len(bodies) - 1:
            raise SyntaxError  # a body without statements
        del bodies[depth + 1 :]
        try:
            found = [_statement(stripped, atoms)]
        except _Unusual:
            opens = stripped[-1] == ":"
            found = ast.parse(f"{stripped} pass" if opens else stripped).body
            if opens:
                found[0].body.clear()  # type: ignore[attr-defined]
        for s in found:
            s.lineno = number
        bodies[depth] += found
        if isinstance(found[-1] if found else None, ast.If | ast.While | ast.FunctionDef):
            bodies.append(found[-1].body)  # type: ignore[attr-defined]
    if not bodies[-1]:
        raise SyntaxError
    return bodies[0]


def functions(text: str) -> list[ast.FunctionDef]:
    """The functions of a kernel's text.

    Raises:
        KernelError: the text is no Python.
    """
    try:
        try:
            statements = _by_lines(text)
        except SyntaxError:
            statements = ast.parse(text).body
    except SyntaxError as error:
        raise KernelError(f"line {error.lineno}: {error.text}: {error.msg}") from None
    return [s for s in statements if type(s) is ast.FunctionDef]

"""The functions of an exported file: parts of the prelude and of the math library, as far as they
are used, and kernels.
"""

import ast
import os
from collections.abc import Sequence
from functools import cache

from ...parsing import syntax_tree
from .. import library
from .expressions import NUMBER, Fragment, NameScope, has_cases

_PRELUDE = os.path.join(os.path.dirname(__file__), "prelude.py")


@cache
def definitions_of(path: str) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Returns the text of each function of a Python file, and of each call or table that is
    assigned to a name, and the others that it refers to."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    lines = text.splitlines()
    texts: dict[str, str] = {}
    nodes: dict[str, ast.AST] = {}
    for s in syntax_tree(text).body:
        name, first = "", s.lineno - 1
        if isinstance(s, ast.FunctionDef):
            name, first = s.name, (s.decorator_list or [s])[0].lineno - 1
        elif isinstance(s, ast.Assign) and isinstance(s.value, ast.Call | ast.Dict):
            name = s.targets[0].id  # type: ignore[attr-defined]
        if name:
            rows = [line.partition("  # noqa")[0] for line in lines[first : s.end_lineno]]
            texts[name], nodes[name] = "\n".join(rows), s
    refers = {}
    for name, s in nodes.items():
        found = dict.fromkeys([n.id for n in ast.walk(s) if isinstance(n, ast.Name)])
        refers[name] = [n for n in found if n in nodes and n != name]
    return texts, refers


class ExportedModule:
    """The functions of a file so far; `use` and `library_function` add those that a text needs."""

    def __init__(self) -> None:
        self._used: dict[str, None] = {}
        self._library: dict[tuple, tuple[str, Sequence[str]]] = {}
        self._names: set[str] = set()
        self._tables: dict[str, str] = {}
        self.library_texts: list[str] = []
        self.kernels: list[str] = []
        self.host_names: dict[str, None] = {}
        """Functions for the host that the kernels need, which the file is to define."""

    def host(self, *names: str) -> None:
        """Notes functions for the host that a kernel needs."""
        self.host_names.update(dict.fromkeys(names))

    def use(self, name: str) -> str:
        """Adds a function of the prelude, and those that it calls; returns its name."""
        if name not in self._used:
            for other in definitions_of(_PRELUDE)[1][name]:
                self.use(other)
            self._used[name] = None
        return name

    def add(self, name: str, text: str) -> str:
        """Adds a table, or a helper that is not one of the prelude."""
        if name not in self._tables:
            self._tables[name] = text
        return name

    @property
    def helpers(self) -> list[str]:
        """The texts of the helpers that are used, in the order of the prelude."""
        return [text for name, text in definitions_of(_PRELUDE)[0].items() if name in self._used]

    @property
    def tables(self) -> list[str]:
        """The texts of tables of numbers, and of helpers made for some types."""
        return [*self._tables.values()]

    def library_function(self, name: str, codes: tuple[str, ...]) -> tuple[str, Sequence[str]]:
        """Returns the name and the result types of a library function for arguments of some types;
        the function is added on first use."""
        key = (name, codes)
        function = self._library.get(key)
        if function is None:
            definition = library.definitions()[name]
            own_name = name.lstrip("_")
            while own_name in self._names:
                own_name += "_"
            self._names.add(own_name)
            self.use("inlined")
            text, results = _function(self, definition, own_name, codes)
            self.library_texts.append(text)
            function = self._library[key] = own_name, results
        return function

    def unconditional(self, name: str, arguments: int, results: int) -> str:
        """Returns the name of the form of a library function that always computes the rare cases,
        for places where the lanes are not computed together."""
        alone = f"{name}_alone"
        if alone not in self._names:
            self._names.add(alone)
            self.use("helper")
            names = ", ".join("xyz"[:arguments])
            values = ", ".join([f"v{k}" for k in range(results)])
            self.library_texts.append(
                f"@helper\ndef {alone}({names}):\n"
                f"    {values}, _ = {name}({names}, True, False)\n    return {values}"
            )
        return alone


def _function(
    module: ExportedModule, definition: ast.FunctionDef, name: str, codes: tuple[str, ...]
) -> tuple[str, tuple[str, ...]]:
    """Returns the text of a library function for arguments of some types, and its result types."""
    names = [a.arg for a in definition.args.args]
    scope = NameScope(module, dict(zip(names, codes, strict=True)), True)
    scope.cases = has_cases(definition.name)
    more = ["full", "rare"] * scope.cases
    lines = [f"def {name}({', '.join([*names, *more])}):  # {', '.join(codes)}"]
    results: tuple[str, ...] = ()
    body = definition.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        lines.append(f'    """{" ".join(str(body[0].value.value).split())}"""')
        body = body[1:]

    def write(statements: list[ast.stmt], indent: str) -> None:
        nonlocal results
        for s in statements:
            if isinstance(s, ast.Assign):
                add(indent, assignment(scope, s))
            elif isinstance(s, ast.If):  # of the rare cases
                test = scope.expr(s.test.args[0])  # type: ignore[attr-defined]
                add(indent, f"rare = rare | {test.inner}", f"if full and {test.inner}:")
                write(s.body, indent + "    ")
            elif isinstance(s, ast.Return):
                parts = s.value.elts if isinstance(s.value, ast.Tuple) else [s.value]
                values = [scope.typed(scope.expr(e), codes[0]) for e in parts]  # type: ignore[arg-type]
                results = tuple([v.code for v in values])
                texts = [v.text for v in values] + ["rare"] * scope.cases
                add(indent, f"return {', '.join(texts)}")
            else:
                raise NotImplementedError(ast.unparse(s))

    def add(indent: str, text: str, *others: str) -> None:
        lines.extend([indent + line for line in (*scope.pending(), text, *others)])

    write(body, "    ")
    text = "\n".join(lines)
    return f"@inlined\n{text}", results


def assignment(scope: NameScope, s: ast.Assign) -> str:
    """Returns the text of an assignment, and notes the types of its names."""
    target = s.targets[0]
    value = scope.value(s.value)
    if isinstance(target, ast.Tuple):
        names = [n.id for n in target.elts]  # type: ignore[attr-defined]
        scope.codes.update(zip(names, value.several, strict=True))
        return f"{', '.join(names + ['rare'] * value.cases)} = {value.text}"
    assert isinstance(target, ast.Name)
    if value.cases:
        scope.codes[target.id] = value.several[0]
        return f"{target.id}, rare = {value.text}"
    if value.code == NUMBER:
        value = Fragment("f64", repr(value.number))
    before = scope.codes.get(target.id)
    if before is not None and before != value.code and not scope.is_library:
        raise TypeError(f"{target.id} is {before}, then {value.code}")
    scope.codes[target.id] = value.code
    return f"{target.id} = {value.text}"

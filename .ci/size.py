"""Prints how many lines of code each package has, and what has outgrown one sitting.

A line of code is one that holds a token other than a comment or a docstring. Files and functions
above their budgets are named, as is text in string literals: what is code there is hidden from
linters, type checkers and editors. The exit status is 1 if anything is above its budget.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "drjit"
FILE_BUDGET = 450
FUNCTION_BUDGET = 60
LITERAL_BUDGET = 300
# Literals of up to so many lines are templates of a statement or two, and are not counted.
TEMPLATE = 3
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and ast.get_docstring(node) is not None:
                yield first


def extent(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def code_lines(text: str, tree: ast.Module) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines.difference(*map(extent, docstrings(tree))))


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The name of each function, and its lines but for docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            own = set(extent(node)).difference(*map(extent, docstrings(node)))
            yield f"{node.lineno}: {node.name}", len(own)


def literals(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The place of each string literal with more lines of text than a template, and those lines."""
    nodes: list[ast.AST] = [tree]
    skipped = {id(first.value) for first in docstrings(tree)}
    while nodes:
        node = nodes.pop()
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            parts: list[ast.expr] = node.values
        else:
            parts = [node] if isinstance(node, ast.Constant) else []
            nodes += ast.iter_child_nodes(node)
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts
        )
        count = len(text.strip().splitlines())
        if isinstance(node, ast.expr) and count > TEMPLATE:
            yield f"{node.lineno}: a literal", count


def main() -> int:
    totals: Counter[str] = Counter()
    files: Counter[str] = Counter()
    outgrown: list[str] = []
    texts: list[str] = []
    literal_lines = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        text, name = path.read_text(), path.relative_to(PACKAGE.parent)
        tree = ast.parse(text)
        count = code_lines(text, tree)
        totals[str(name.parent)] += count
        files[str(name.parent)] += 1
        if count > FILE_BUDGET:
            outgrown.append(f"{name}: {count} lines of code, more than {FILE_BUDGET}")
        for function, count in functions(tree):
            if count > FUNCTION_BUDGET:
                outgrown.append(f"{name}:{function}: {count} lines, more than {FUNCTION_BUDGET}")
        for literal, count in literals(tree):
            literal_lines += count
            texts.append(f"{name}:{literal} of {count} lines")
    for name in sorted(totals):
        print(f"{totals[name]:7} lines {files[name]:4} files  {name}")
    print(f"{totals.total():7} lines {files.total():4} files  in all")
    print(f"{literal_lines:7} lines {len(texts):4} texts  in string literals")
    if literal_lines > LITERAL_BUDGET:
        outgrown += [*texts, f"string literals: {literal_lines} lines, more than {LITERAL_BUDGET}"]
    for line in outgrown:
        print(line)
    return 1 if outgrown else 0


if __name__ == "__main__":
    sys.exit(main())

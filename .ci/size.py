"""Prints how many lines of code each package has, and which files have outgrown one sitting.

A line of code is one that holds a token other than a comment or a docstring.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "drjit"
FILE_BUDGET = 500
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(text: str) -> int:
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(ast.parse(text)))


def main() -> None:
    totals: Counter[str] = Counter()
    files: Counter[str] = Counter()
    too_long = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.parent.relative_to(PACKAGE.parent))
        count = code_lines(path.read_text())
        totals[name] += count
        files[name] += 1
        if count > FILE_BUDGET:
            too_long.append((path.relative_to(PACKAGE.parent), count))
    for name in sorted(totals):
        print(f"{totals[name]:7} lines {files[name]:4} files  {name}")
    print(f"{totals.total():7} lines {files.total():4} files  in all")
    for path, count in too_long:
        print(f"{path}: {count} lines of code, more than {FILE_BUDGET}")


if __name__ == "__main__":
    main()

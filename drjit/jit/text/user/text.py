"""From a kernel text that a user wrote to what launches need: the text in the form that all targets
understand, with words in the order of launches, and a program that describes its parameters.
"""

import ast
import re
from collections.abc import Sequence

from ...ir.location import line_of
from ...parsing import syntax_tree
from ...target.language import NAMES
from ...tuples import NamedTuple
from ..program import Output, Program
from .reading import Line, Reading, Source
from .statements import FunctionReader, StatementReader
from .words import ARGUMENTS, TextWord, WordLayout, layout

_WORD = re.compile(r"p\[(\d+)\]|<(site|word):(\d+)>")


class UserText(NamedTuple):
    """A user's kernel text: the `text` for all targets, the same with comments that name the lines
    from which statements come, the program, the layout of the words, the words, and those that are
    arguments, in order."""

    text: str
    commented: str
    program: Program
    layout: WordLayout
    words: dict[int, TextWord]
    arguments: tuple[int, ...]


def read(source: Source) -> UserText:
    """Reads a text that begins with a kernel, perhaps followed by functions.

    Raises:
        SyntaxError: it violates the rules of the language.
    """
    try:
        statements = syntax_tree("\n".join(source.lines)).body
    except SyntaxError as error:
        line, column = source.above + (error.lineno or 1), (error.offset or 1) + source.indent
        place = (
            source.file,
            line,
            column,
            " " * source.indent + (error.text or "").rstrip() + "\n",
        )
        raise SyntaxError(f"{(error.text or '').strip()}: {error.msg}", place) from None
    definition, functions = _definitions(source, statements)
    reading = Reading(source, _parameters(source, definition))
    reading.taken = {n.id for n in ast.walk(definition) if isinstance(n, ast.Name)}
    for d in functions:
        if d.name in reading.functions or d.name == definition.name:
            raise source.error(f"there are two functions {d.name}", d)
        reading.taken |= {n.id for n in ast.walk(d) if isinstance(n, ast.Name)}
        reading.taken |= {a.arg for a in d.args.args}
        reading.functions[d.name] = FunctionReader(reading, d)
    kernel = StatementReader(reading)
    kernel.body([s for s in definition.body if not isinstance(s, ast.FunctionDef)])
    for f in reading.functions.values():
        if f.state == "new":
            raise source.error(f"{f.title} is never called", f.definition)
    unused = [name for name, k in reading.named.items() if k not in reading.words]
    if unused:
        raise source.error(f"the parameter {unused[0]} is never used", definition)
    if not any(w.kind in ("store", "reduced", "target") for w in reading.words.values()):
        raise source.error(
            "the kernel computes nothing: it neither stores nor scatters", definition
        )
    _complete_checks(reading)
    return _assembled(reading, kernel, definition)


def _definitions(
    source: Source, statements: Sequence[ast.stmt]
) -> tuple[ast.FunctionDef, list[ast.FunctionDef]]:
    """Returns the kernel of a text, and its functions, some of which may be inside the kernel."""
    definitions: list[ast.FunctionDef] = []
    for s in statements:
        if isinstance(s, ast.FunctionDef):
            definitions.append(s)
        elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            raise source.error("a kernel text consists of functions", s)
    if not definitions:
        raise SyntaxError(
            "a kernel text begins with a function kernel(i, p)", (source.file, 1, 1, "")
        )
    kernel, *others = definitions
    return kernel, [s for s in kernel.body if isinstance(s, ast.FunctionDef)] + others


def _parameters(source: Source, d: ast.FunctionDef) -> list[str] | None:
    """Returns the names of words, if the kernel has names instead of `p`."""
    a = d.args
    names = [one.arg for one in a.args]
    if a.vararg or a.kwarg or a.kwonlyargs or a.defaults or a.posonlyargs or names[:1] != ["i"]:
        raise source.error(
            "the parameters of a kernel are i, the lanes, and p, its words, or their names: "
            "def kernel(i, p): or def kernel(i, x, y):",
            d,
        )
    if names == ["i", "p"]:
        return None
    if len(names) == 1:
        raise source.error("the kernel has no words: def kernel(i, p):", d)
    for one in a.args[1:]:
        if one.arg in NAMES or one.arg == "size":
            raise source.error(f"the name {one.arg} has a meaning already", one)
    return names[1:]


def _complete_checks(reading: Reading) -> None:
    """Determines the sizes of checks: where nothing says what they are, they become arguments."""
    words, checks = reading.words, reading.checks
    for check in checks.values():
        if not check.is_known and check.word is not None:
            same = [c for c in checks.values() if c.word == check.word and c.is_known]
            if same:
                check.adopt(same[0])
    for k in [k for k, w in words.items() if w.kind == "count"]:
        if all(c.is_known for c in checks.values() if c.word == k):
            del words[k]
    for k in sorted(reading.relative):
        check = checks[k]
        if not check.is_known:
            where = f"line {line_of(check.location)}"
            words.setdefault(k, TextWord("count", check.dtype, where, f"p{k}"))


def _assembled(reading: Reading, kernel: StatementReader, definition: ast.FunctionDef) -> UserText:
    """Returns the text with words in their final places, and what belongs to it."""
    words = reading.words
    try:
        placed = layout(words, reading.checks, reading.relative)
    except ValueError as error:
        (k,) = error.args
        raise reading.source.error(
            f"p[{k}] is {words[k]} between the words of bounds checks of functions, which have to "
            "follow each other",
            definition,
        ) from None
    first = 1 + len(placed.inputs) + len(placed.literals)

    def final(match: re.Match) -> str:
        if match[1] is not None:
            k = int(match[1])
            return f"p[{placed.new[k] if k else 0}]"
        number = placed.new.get(int(match[3]), first)
        return str(number - first if match[2] == "site" else number)

    lines = [Line(0, "def kernel(i, p):", 0), *kernel.lines]
    for f in reading.functions.values():
        lines += [Line(0, f.head, 0), *f.lines]
    plain, commented = [], []
    for depth, text, number in lines:
        line = "    " * depth + _WORD.sub(final, text)
        plain.append(line)
        original = reading.source.statement(number) if number else ""
        if number and original != text and line.strip() != original:
            where = f"{reading.source.code.co_filename.rpartition('/')[2]}:"
            line = f"{line}  # {where}{reading.source.above + number} {original}"
        commented.append(line)
    program = Program(
        tuple(reading.instrs),
        (
            *[
                Output("reduce" if words[k].kind == "reduced" else "store", words[k].dtype, 0,
                       placed.new[k] - len(words[k].before))
                for k in placed.outputs
            ],
            *[Output("effect", words[k].dtype, 0, placed.words) for k in placed.targets],
        ),
        tuple([words[k].dtype for k in placed.inputs]),
        tuple([words[k].dtype for k in placed.literals]),
        len(placed.checks),
        tuple([(words[k].dtype, words[k].mode) for k in placed.targets]),
        placed.words,
    )  # fmt: skip
    arguments = tuple([k for k in sorted(words) if words[k].kind in ARGUMENTS])
    return UserText(
        "\n".join(plain) + "\n", "\n".join(commented) + "\n", program, placed, words, arguments
    )

"""Which line of a kernel's text each instruction is from. While the text is translated, every line
of LLVM IR is tagged with the statement that emitted it; tags become debug locations, which LLVM
carries through its passes to the assembly. The translator itself knows nothing of this, so the code
is the one that runs, and so is everything that is counted in the text of the module.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from ..jit.target.simd import llvm
from ..jit.target.simd.arguments import grouped
from ..jit.target.simd.ir import Function
from ..jit.target.simd.translate import Translator

_TAG = re.compile(r"^(.*), !dbg !L(\d+)$", re.M)
_FUNCTION = re.compile(r"^(define .*?(@[^(]+)\(.*)#(\d) \{\n((?s:.*?))\n\}$", re.M)
_QUOTES = '@"'
_FIRST = 100  # number of the first piece of metadata; modules have a few of their own


class _Statement:
    """The line of the statement that is being translated."""

    def __init__(self) -> None:
        self.line = 0
        self.finishing = 0  # the last one of which something is left to do after all lanes

    def run(self, line: int, emit: Callable[..., Any], *arguments: Any) -> Any:
        """Has something emitted by the statement of a line."""
        self.line, before = line, self.line
        try:
            return emit(*arguments)
        finally:
            self.line = before


def _tagged(text: str, line: int) -> str:
    """Returns lines of LLVM IR with their tags. Labels and empty lines have none."""
    if not line or not text:
        return text
    lines = text.split("\n")
    return "\n".join([x if x.endswith(":") else f"{x}, !dbg !L{line}" for x in lines])


class _Lines(list[str]):
    """The lines of a function. They get their tags as they are read for the text of the module."""

    def __init__(self, now: _Statement) -> None:
        super().__init__()
        self.now, self.places = now, []

    def append(self, text: str, /) -> None:
        super().append(text)
        self.places.append(self.now.line)

    def __iadd__(self, texts: Any, /) -> "_Lines":  # type: ignore[misc]
        for text in texts:
            self.append(text)
        return self

    def __iter__(self) -> Iterator[str]:
        return iter([*map(_tagged, super().__iter__(), self.places)])


class _Head(dict[str, str]):
    """The values of an entry block, with their tags."""

    def __init__(self, now: _Statement) -> None:
        super().__init__()
        self.now = now

    def __setitem__(self, name: str, text: str, /) -> None:
        super().__setitem__(name, _tagged(text, self.now.line))

    def setdefault(self, name: str, text: str = "", /) -> str:
        return super().setdefault(name, _tagged(text, self.now.line))


def tagging() -> Callable[[Translator, Any], None]:
    """Returns the `translate` of `module_text` that tags lines."""
    now = _Statement()

    def traced(f: Function) -> Function:
        head, lines, prologue = _Head(now), _Lines(now), _Lines(now)
        head |= f.head
        lines += f.lines
        prologue += f.prologue
        f.head, f.lines, f.prologue = head, lines, prologue
        return f

    def translate(t: Translator, definition: Any) -> None:
        traced(t.f)
        routine, new_function = t.module.routine, t.module.new_function

        def tagged_routine(name: str, parameters: Any, emit: Any, *more: Any, **named: Any) -> str:
            return routine(name, parameters, lambda f: emit(traced(f)), *more, **named)

        def finish(*arguments: Any) -> Function:
            now.line = now.finishing
            return traced(new_function(*arguments))

        is_kernel = "routine" not in vars(t.module)  # or a function of its text
        if is_kernel:
            t.module.routine = tagged_routine  # type: ignore[method-assign]
        t.body = partial(_body, t, now)  # type: ignore[method-assign]
        t.body(definition.body)
        if is_kernel:
            t.module.new_function = finish  # type: ignore[method-assign]

    return translate


def _body(t: Any, now: _Statement, statements: list[Any]) -> None:
    """Does what `Translator.body` does, one statement after the other."""
    if hasattr(t, "survey") and not t.depth:
        t.survey(statements)
    for group in grouped(statements) if t.has_runs else [[s] for s in statements]:
        line = group[0].lineno
        counts = [len(later) for later in (t.pauses, t.endings)]
        left = len(t.reductions) + len(t.expansions) + len(t.finishers)
        now.run(line, Translator.body, t, group)
        if len(t.reductions) + len(t.expansions) + len(t.finishers) > left:
            now.finishing = line
        for later, known in zip((t.pauses, t.endings), counts, strict=True):
            later[known:] = [partial(now.run, line, emit) for emit in later[known:]]
        for operations in getattr(t, "waiting", {}).values():  # emitted with later statements
            for operation in operations:
                if not hasattr(operation.emit, "func"):
                    operation.emit = partial(now.run, line, operation.emit)


def with_locations(ir: str) -> str:
    """Returns the text of a module with debug locations in place of tags. Functions that are
    inlined in several places have none: their instructions belong to the statements that call
    them."""
    functions: list[str] = []
    inlined = {m[1] for m in re.finditer(r"^attributes #(\d) = \{ alwaysinline", ir, re.M)}
    uses = Counter(re.findall(r"@[\w.]+|@\"[^\"]+\"", ir))

    def located(m: re.Match) -> str:
        head, name, attributes, body = m.groups()
        if "!dbg !L" not in body or (attributes in inlined and uses[name] > 2):
            return untagged(m[0])
        scope = _FIRST + 4 + len(functions)
        functions.append(name)
        body = _TAG.sub(rf"\1, !dbg !DILocation(line: \2, scope: !{scope})", body)
        return f"{head}#{attributes} !dbg !{scope} {{\n{body}\n}}"

    text = _FUNCTION.sub(located, ir)
    unit, file, version, kind = range(_FIRST, _FIRST + 4)
    data = [
        f"!llvm.dbg.cu = !{{!{unit}}}",
        f"!llvm.module.flags = !{{!{version}}}",
        f"!{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, "
        "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)",
        f'!{file} = !DIFile(filename: "kernel", directory: "")',
        f'!{version} = !{{i32 2, !"Debug Info Version", i32 3}}',
        f"!{kind} = !DISubroutineType(types: !{{}})",
    ]
    for number, name in enumerate(functions, _FIRST + 4):
        row = f'name: "{name.strip(_QUOTES)}", scope: !{file}, file: !{file}, line: 1, '
        row += f"type: !{kind}, spFlags: DISPFlagDefinition, unit: !{unit}"
        data.append(f"!{number} = distinct !DISubprogram({row})")
    return "\n".join([text, *data, ""])


def untagged(ir: str) -> str:
    """Returns the text of a module without tags."""
    return _TAG.sub(r"\1", ir)


@cache
def keep_merged() -> None:
    """Has LLVM keep one of two lines where an instruction moves to a block with others: the earlier
    one, where it is from. By default it would have neither. Code does not depend on this."""
    llvm.binding.set_option("drjit", "--pick-merged-source-locations")

"""Adds to docstrings of the reference a table of their parameters, and the names related to them.

Both are made from what is there: types and defaults are those of signatures; what a parameter means
is said by a section `Arguments`, by the sentence of the docstring that begins with its name, or by
those of the functions that the docstring refers to. Related are names that docstrings mention, and
variants that the same module defines.
"""

import enum
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import gallery
import reference_pages

from drjit import _names

FEW = 8
"""How many related names are shown, and what modules define at most for all to be related."""

WORDS = {
    "Active": "mask",
    "ArrayBase": "array",
    "Callable": "function",
    "CallablePT": "function",
    "CallableSelfPT": "function",
    "Convertible": "array or number",
    "FlatT": "array or tensor",
    "HasMask": "vector",
    "Index": "integers",
    "Initial": "array",
    "LeafT": "array",
    "Mapping": "mapping",
    "PyTree": "PyTree",
    "Sequence": "sequence",
    "Sequences": "sequence",
    "Sizes": "size or shape",
    "SupportsIndex": "`int`",
    "T": "",
    "TensorT": "tensor",
    "Untyped": "",
    "Vec": "vector",
    "object": "",
    "type": "type",
}
"""What annotations are called; others are shown as they are."""

SECTION = re.compile(r"^Arguments[^\n]*:\n((?:    [^\n]*\n?|\n(?=    ))+)", re.M)
REFERRED = re.compile(r"(?:[Ss]ee|as for|as in|those of) ((?:`[\w.]+`(?:, | and )?)+)")
NAME = re.compile(r"(?<!method )`((?:dr\.)?[\w.]+)`")
DEFERS = re.compile(r"(?:as for|as in|those of) `")
SUBJECT = re.compile(r"(?:^|[;,]? and |; |(?<=`), )(?:With |Without )?`(\w+)`")


# ---- What there is


class Entry(NamedTuple):
    """A public name: the module that has it, and its value."""

    owner: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        return f"{self.owner}.{self.name}"

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.value) or ""


@functools.cache
def entries() -> dict[str, Entry]:
    """Returns all functions and classes of the reference by path."""
    names = [("drjit", n) for n in _names.MODULES]
    for _, owner in reference_pages.MODULES.values():
        names += [(owner, n) for n in importlib.import_module(owner).__all__]
    found = [Entry(o, n, getattr(importlib.import_module(o), n)) for o, n in names]
    return {e.path: e for e in found if callable(e.value) and e.doc}


def named(text: str, owner: str) -> Iterator[Entry]:
    """Yields what a text mentions, as its own module or `drjit` has it."""
    for name in NAME.findall(text):
        for where in (owner, "drjit"):
            if found := entries().get(f"{where}.{name.removeprefix('dr.')}"):
                yield found
                break


# ---- Parameters


def parameters(value: Any) -> list[inspect.Parameter]:
    """Returns what a function or class takes, without `self` and what collects the rest."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    if isinstance(value, enum.EnumMeta):
        return []
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [p for p in signature.parameters.values() if p.kind not in several]
    return [p for p in found if p.name not in ("self", "cls")]


def type_words(annotation: Any) -> str:
    """Returns the type of a parameter, in words where there are some."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(typing|collections\.abc|drjit(\.\w+)*|os)\.|~|\[Any\]", "", text)
    if annotation is inspect.Parameter.empty or text == "Any":
        return ""
    words = []
    for part in re.split(r" \| (?![^\[]*\])", text):
        word = WORDS.get(re.split(r"\[", part)[0], f"`{part}`")
        words += [word] if word and word not in words else []
    return ", ".join(words[:-1]) + " or " * (len(words) > 1) + words[-1] if words else ""


def default_words(default: Any) -> str:
    """Returns the default of a parameter, if it has one that says something."""
    if default is inspect.Parameter.empty or type(default) is object:
        return ""
    if isinstance(default, str):
        return f"`{default!r}`"
    return "`...`" if default is Ellipsis else f"`{getattr(default, '__name__', default)}`"


def listed(doc: str) -> dict[str, str]:
    """Returns what the section `Arguments` of a docstring says of each."""
    found = {}
    for section in SECTION.findall(doc + "\n"):
        for name, text in re.findall(r"^    (\w+): ((?:.*\n?(?:      .*\n?)*))", section, re.M):
            words = " ".join(text.split())
            found[name] = words[:1].upper() + words[1:]
    return found


def sentences(doc: str) -> dict[str, str]:
    """Returns the first sentence whose subject each name is, unless it only refers to others."""
    prose = re.split(r"^(?:Raises:|>>> )", doc, maxsplit=1, flags=re.M)[0]
    found: dict[str, str] = {}
    for block in prose.split("\n\n"):
        for text in re.split(r"(?<=\.) (?=[A-Z`])", " ".join(block.split())):
            if text.endswith(".") and not DEFERS.search(text):
                for name in SUBJECT.findall(text):
                    found.setdefault(name, text)
    return found


def meanings(entry: Entry) -> dict[str, str]:
    """Returns what is said of parameters: in the docstring, or in those that it refers to."""
    found = {**sentences(entry.doc), **listed(entry.doc)}
    for text in REFERRED.findall(" ".join(entry.doc.split())):
        for other in named(text, entry.owner):
            if other.path != entry.path:
                found = {**sentences(other.doc), **listed(other.doc), **found}
    return found


def rows(entry: Entry) -> list[tuple[str, str, str, str]]:
    """Returns a row for each parameter: name, type, default and meaning."""
    said = meanings(entry)
    found = [
        (f"`{p.name}`", type_words(p.annotation), default_words(p.default), said.get(p.name, ""))
        for p in parameters(entry.value)
    ]
    tells = any(row[1] or row[3] for row in found)
    return found if tells and (len(found) > 1 or listed(entry.doc)) else []


def table(entry: Entry) -> list[str]:
    """Returns the lines of the table of parameters, without columns that would be empty."""
    found = rows(entry)
    if not found:
        return []
    columns = [k for k in range(4) if any(row[k] for row in found)]
    lines = [".. list-table::", "   :class: parameters", "   :header-rows: 1", ""]
    for row in [("Parameter", "Type", "Default", "Meaning"), *found]:
        for mark, k in zip("*" + " " * 3, columns, strict=False):
            lines.append(f"   {mark} - {gallery.escaped(row[k])}".rstrip())
    return [*lines, ""]


# ---- Related names


@functools.cache
def mentions() -> dict[str, list[str]]:
    """Returns the paths of what each docstring mentions: what it refers to, and names of the same
    page or after `dr.`. Others may be those of parameters, members or words of a language."""
    passed = {p.name for e in entries().values() for p in parameters(e.value)}
    found = {}
    for entry in entries().values():
        own = {entry.name, *(vars(entry.value) if inspect.isclass(entry.value) else ())}
        text = re.sub(rf"`({'|'.join(passed)})`", "", " ".join(entry.doc.split()))
        sure = " ".join([*REFERRED.findall(text), *re.findall(r"`dr\.\w+`", text)])
        others = [*named(sure, entry.owner)]
        others += [e for e in named(text, entry.owner) if page_of(e) == page_of(entry)]
        found[entry.path] = list(dict.fromkeys(e.path for e in others if e.name not in own))
    return found


def page_of(entry: Entry) -> str:
    """Returns the page of the reference that has a name; its module, if there is none."""
    if entry.owner != "drjit":
        return entry.owner
    module = _names.MODULES[entry.name]
    pages = reference_pages.PAGES.items()
    return next((page for page, (_, modules) in pages if module in modules.split()), module)


def neighbours(entry: Entry) -> list[str]:
    """Returns the paths of variants that the same module defines: all of a few, otherwise those
    whose names have a part in common."""
    if entry.owner == "drjit":
        names = _names._NAMES[_names.MODULES[entry.name]].split()
    else:
        names = list(importlib.import_module(entry.owner).__all__)
    others = [n for n in names if n != entry.name and f"{entry.owner}.{n}" in entries()]
    if len(names) > FEW:
        others = [n for n in others if _alike(n, entry.name)]
    return [f"{entry.owner}.{n}" for n in others]


def _alike(a: str, b: str) -> bool:
    """Whether one name contains the other, or they have a long word in common."""
    a, b = sorted((a.lower(), b.lower()), key=len)
    words = {w for w in re.split(r"_|\d+", a) if len(w) > 3}
    return (len(a) > 2 and a in b) or bool(words & set(re.split(r"_|\d+", b)))


def related(entry: Entry) -> list[str]:
    """Returns the paths of related names, those first that say most."""
    found = [*mentions()[entry.path], *neighbours(entry)]
    found += [path for path, others in mentions().items() if entry.path in others]
    return [p for p in dict.fromkeys(found) if p != entry.path][:FEW]


def see_also(entry: Entry) -> list[str]:
    """Returns the lines that refer to related names."""
    links = [f":py:obj:`~{path}`" for path in related(entry)]
    return [".. rst-class:: related", "", f"See also {', '.join(links)}.", ""] if links else []


# ---- Docstrings


def extended(lines: list[str], made: list[str]) -> list[str]:
    """Returns the lines of a docstring with a table, in the place of the section `Arguments` or
    below the prose."""
    if not made:
        return lines
    text = SECTION.sub("", "\n".join(lines).rstrip() + "\n")
    end = re.search(r"^(?:Raises:|>>> )", text, re.M)
    at = end.start() if end else len(text)
    return [*text[:at].rstrip().splitlines(), "", *made, *text[at:].splitlines()]


def setup(app: Any) -> dict[str, bool]:
    def docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]):
        entry = entries().get(name)
        if entry is not None:
            lines[:] = [*extended(lines, table(entry)), "", *see_also(entry)]
        elif what == "method" and listed(inspect.getdoc(value) or ""):
            owner, _, own = name.rpartition(".")
            lines[:] = extended(lines, table(Entry(owner, own, value)))

    # After examples were run, and before sections of docstrings become markup.
    app.connect("autodoc-process-docstring", docstring, priority=200)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

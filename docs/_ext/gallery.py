"""Writes the gallery: a page of cards, and a page for each example, with its picture and source.

All that an example needs is its file. A picture is docs/images/examples/NAME with the ending .jpg,
.png, .gif or .webp, and the part of it that a card shows is in the folder cards there;
docs/images/pictures.py makes both. Run times are those that `python -m drjit demo` prints.
"""

import ast
import re
import runpy
from pathlib import Path
from typing import Any, NamedTuple

import reports

DOCS = Path(__file__).parents[1]
FOLDER = DOCS.parent / "drjit_examples"
PICTURES = DOCS / "images" / "examples"
FORMATS = ("jpg", "png", "gif", "webp")
OTHERS = {"__init__", "common"}
"""Files beside the examples that are none."""

INTRO = """Programs to try, to read and to copy. A card leads to the picture in full, and to the
source. The package brings them along: `python -m drjit demo` lists them, and
`python -m drjit demo fluid` runs one. Times are those of two processor cores, with what is preset,
compilation included."""


class Example(NamedTuple):
    """An example: its name, the paragraphs of its docstring and the first line after it, how many
    lines it has, the seconds that it runs, and its picture, unless they are not known."""

    name: str
    paragraphs: list[str]
    first: int
    lines: int
    seconds: int | None
    picture: Path | None

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()

    @property
    def facts(self) -> str:
        """How long it runs, and how long it is."""
        time = [f"{self.seconds} s"] if self.seconds is not None else []
        return " · ".join([*time, f"{self.lines} lines"])


def picture(name: str) -> Path | None:
    """Returns the picture of an example."""
    files = (PICTURES / f"{name}.{ending}" for ending in FORMATS)
    return next((file for file in files if file.exists()), None)


def examples() -> list[Example]:
    """Returns all examples, in the order in which they are listed elsewhere."""
    seconds = runpy.run_path(str(FOLDER / "__init__.py"))["SECONDS"]
    files = {file.stem: file for file in sorted(FOLDER.glob("*.py")) if file.stem not in OTHERS}
    names = [n for n in seconds if n in files]
    found = []
    for name in [*names, *(n for n in files if n not in names)]:
        text = files[name].read_text("utf-8")
        tree = ast.parse(text)
        paragraphs = (ast.get_docstring(tree) or "").split("\n\n")
        lines = text.splitlines()
        end = tree.body[0].end_lineno or 0
        first = 1 + next(k for k in range(end, len(lines)) if lines[k].strip())
        more = len(lines), seconds.get(name), picture(name)
        found.append(Example(name, paragraphs, first, *more))
    return found


def escaped(text: str) -> str:
    """Returns a text of a docstring in which nothing but `code` is markup."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if k % 2 else re.sub(r"[\\*|]|_(?!\w)", r"\\\g<0>", part)
        for k, part in enumerate(parts)
    )


def paragraph(text: str) -> list[str]:
    """Returns the lines of a paragraph; one that is indented is a program."""
    if text.startswith("    "):
        return [".. code-block:: text", "", *text.splitlines(), ""]
    return [*escaped(text).splitlines(), ""]


def indented(lines: list[str]) -> list[str]:
    return [f"   {line}" if line else line for line in lines]


def shown(example: Example, above: str = "..", card: bool = False) -> list[str]:
    """Returns the lines that show a picture, or the part of it for a card, if there is one."""
    if example.picture is None:
        return []
    part = PICTURES / "cards" / f"{example.name}.jpg"
    file = part if card and part.exists() else example.picture
    path = f"{above}/{file.relative_to(DOCS).as_posix()}"
    return [f".. image:: {path}", f"   :alt: {alternative(example)}", ""]


def alternative(example: Example) -> str:
    return " ".join(example.paragraphs[0].split())


def card(example: Example) -> list[str]:
    """Returns the lines of a card. Its title is a link, which the style sheet extends to all of
    it."""
    inner = [
        *shown(example, card=True),
        f":doc:`{example.title} <{example.name}>`",
        "",
        *paragraph(example.paragraphs[0]),
        ".. rst-class:: facts",
        "",
        example.facts,
        "",
    ]
    kind = "card" if example.picture else "card bare"
    return [f".. container:: {kind}", "", *indented(inner)]


def page(example: Example) -> str:
    """Returns the page of an example."""
    path = f"../../{FOLDER.name}/{example.name}.py"
    lines = [example.title, "=" * len(example.title), ""]
    for text in example.paragraphs[:1]:
        lines += paragraph(text)
    lines += shown(example)
    for text in example.paragraphs[1:]:
        lines += paragraph(text)
    command = f"python -m drjit demo {example.name}"
    lines += [".. rst-class:: facts", "", example.facts, ""]
    lines += [".. code-block:: sh", "", f"   {command}", ""]
    if example.name in reports.PROGRAMS:
        lines += [f":report:`What a short run of it does <{example.name}>`: a report.", ""]
    source = [f".. literalinclude:: {path}", "   :language: python"]
    lines += [*source, f"   :lines: {example.first}-", ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Returns the texts of all pages by file name."""
    all_examples = examples()
    found = {example.name: page(example) for example in all_examples}
    toctree = [".. toctree::", "   :hidden:", "", *(f"   {e.name}" for e in all_examples), ""]
    cards = [".. container:: cards", ""]
    for example in all_examples:
        cards += indented(card(example))
    title = ["Gallery", "=" * len("Gallery"), ""]
    found["index"] = "\n".join([":hide-toc:", "", *title, INTRO, "", *cards, *toctree])
    return found


def write(app: Any) -> None:
    """Writes the pages whose text has changed, so that only those are built again, and removes
    those of examples that are no more."""
    folder = Path(app.srcdir) / "gallery"
    folder.mkdir(exist_ok=True)
    texts = pages()
    for file in folder.glob("*.rst"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")


def row(names: list[str]) -> list[str]:
    """Returns the lines of a row of pictures that lead to the pages of their examples; the picture
    of README.md, if there are none."""
    known = {example.name: example for example in examples()}
    found = [known[n] for n in names if n in known and known[n].picture]
    if not found:
        return [".. image:: images/gallery.jpg", "   :alt: What examples have computed", ""]
    lines = [".. container:: pictures", ""]
    for e in found:
        inner = [*shown(e, ".", card=True), f":doc:`{e.title} <gallery/{e.name}>`", ""]
        lines += indented([".. container:: picture", "", *indented(inner)])
    return lines


def setup(app: Any) -> dict[str, bool]:
    from sphinx.util.docutils import SphinxDirective

    class Pictures(SphinxDirective):
        """`pictures`, with names of examples: a row of what they have computed."""

        has_content = True

        def run(self) -> Any:
            names = " ".join(self.content).split()
            self.env.note_reread()  # pictures may have been added since
            return self.parse_text_to_nodes("\n".join(row(names)))

    app.add_directive("pictures", Pictures)
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

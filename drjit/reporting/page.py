"""The page of a report: one HTML file that holds its data, style and scripts, and needs no network.

The program's lines are coloured and graphs are laid out here; all else is done by the scripts
beside this file, one for each view.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..function.inspect import layered
from ..function.inspect.kernels import TOKEN, coloured

_FOLDER = Path(__file__).parent
# The first has what the others use; views have numbers in their order.
_SCRIPTS = (
    "page", "view_timeline", "view_kernels", "view_kernel", "view_why", "view_lanes",
    "view_derivatives",
)  # fmt: skip
_DRAWN = 400  # variables of a graph, beyond which a drawing says little
_DIGITS = 5

Highlighter = Callable[[Sequence[str]], list[str]]


def html(data: Mapping[str, Any]) -> str:
    """Returns the page that shows the data of a report (`Report.data`)."""
    highlight = _highlighter()
    shown = dict(data)
    shown["files"] = {
        path: [(1, highlight(lines))] for path, lines in data.get("files", {}).items()
    }
    shown["token"] = TOKEN.pattern.replace("(?P<", "(?<")
    shown["derivatives"] = [
        {**graph, "layout": _layout(graph)} for graph in data.get("derivatives", ())
    ]
    command = data.get("program", {}).get("command", "")
    parts = {
        "title": escape(f"{command} · report" if command else "Report"),
        "style": _read("page.css"),
        "script": "\n".join(_read(f"{name}.js") for name in _SCRIPTS),
        "data": embedded(shown),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _read("page.html"))


def embedded(data: object) -> str:
    """Returns JSON, compressed (RFC 1950) to a sixth, in letters that may stand in an element
    `script`.

    Numbers that are not finite, which JSON lacks, become texts such as `nan`.
    """
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def read(page: str) -> dict[str, Any]:
    """Returns the data that a page shows."""
    packed = page.partition('id="data">')[2].partition("<")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def _read(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8").strip()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _highlighter() -> Highlighter:
    """Returns what makes HTML of lines of Python: by Pygments, which knows strings of several
    lines, or line by line where it is not installed."""
    try:
        from pygments.lexers.python import PythonLexer
        from pygments.token import Comment, Keyword, Name, Number, Operator, String
    except ImportError:
        return lambda lines: [coloured(line) for line in lines]
    classes = {
        Keyword: "k", Operator.Word: "k", String: "s", Comment: "f", Number: "d",
        Name.Function: "o", Name.Class: "o", Name.Decorator: "o", Name.Builtin: "t",
    }  # fmt: skip
    lexer = PythonLexer(stripnl=False, ensurenl=False)

    def highlight(lines: Sequence[str]) -> list[str]:
        result = [""]
        for token, text in lexer.get_tokens("\n".join(lines)):
            kind = next((name for base, name in classes.items() if token in base), "")
            for k, piece in enumerate(text.split("\n")):
                if k:
                    result.append("")
                shown = escape(piece, quote=False)
                known = kind and piece.strip()
                result[-1] += f'<span class="{kind}">{shown}</span>' if known else shown
        return result[: len(lines)]

    return highlight


def _layout(graph: Mapping[str, Any]) -> dict[str, Any]:
    """Where a traversal's variables and edges are drawn: boxes and curves, in their order."""
    variables = graph["variables"][:_DRAWN]
    boxes = {
        v["id"]: layered.Box([[row] for row in _rows(v)], "")
        for v in sorted(variables, key=lambda v: v["id"])
    }
    known = [a in boxes and b in boxes for a, b, *_ in graph["edges"]]
    edges = [(a, b, "") for (a, b, *_), drawn in zip(graph["edges"], known, strict=True) if drawn]
    width, height, places, curves = layered.layout(boxes, edges)
    drawn = iter(curves)
    return {
        "size": [round(width), round(height)],
        "rows": [_rows(v) for v in variables],
        "boxes": [[round(x, 1) for x in places[v["id"]]] for v in variables],
        "curves": [next(drawn) if shown else "" for shown in known],
        "left_out": len(graph["variables"]) - len(variables),
    }


def _rows(variable: Mapping[str, Any]) -> list[str]:
    """What the box of a variable says: operation or label, type and size, norm of the gradient."""
    size = f"{variable['size']:,}" if variable["size"] != 1 else "1 entry"
    norm = variable.get("norm")
    reached = variable.get("visited") or variable.get("root")
    shown = "" if reached else "no gradient"  # norms are known if they were asked for
    shown = shown if norm is None else f"|g| = {norm:.{_DIGITS}g}"
    rows = [variable.get("label") or variable["op"], f"{variable['type']} × {size}", shown]
    return rows if shown else rows[:2]

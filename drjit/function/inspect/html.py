"""What notebooks show of tables and kernels. Colours are legible on light and on dark pages,
because pages do not tell which they are; text has the colour of the page.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

_RULES = {
    "": "overflow-x:auto;font-size:13px",
    "table": "border-collapse:collapse;margin:0;border:0;background:none;color:inherit;"
    "font-size:inherit;width:auto",
    "table tr": "background:none;border:0",
    "table td": "border:0;padding:0 .8em 0 0;text-align:left;vertical-align:top;white-space:pre;"
    "line-height:1.5;max-width:none",
    "table th": "border:0;padding:0 .8em 0 0;text-align:left;white-space:pre",
    "table .n": "text-align:right",
    "code": "font-family:monospace;background:none;border:0;padding:0;color:inherit;"
    "font-size:inherit;white-space:pre",
    "table td.u": "padding-right:1.5em;border-right:2px solid #8886",
    "table td.c": "padding-left:1em;font-family:monospace",
    "table tr.g td": "background:#8881",
    "pre": "font-size:inherit;background:none;color:inherit;border:0;padding:0",
    "details pre": "margin:.3em 0 .3em 1em",
    "summary": "cursor:pointer",
    ".b": "display:inline-block;height:.75em;min-width:1px;background:#2f7fd0",
    ".b2": "background:#d08a2f",
    # Of code: comments, keywords, calls, types, numbers, strings.
    ".f": "color:#7a7a7a",
    ".k": "color:#b0489b",
    ".o": "color:#2f7fd0",
    ".t": "color:#2a8a78",
    ".d": "color:#b5651d",
    ".s": "color:#5f8a1f",
}
_STYLE = f"<style>{''.join(f'.drjit {k}{{{v}}}' for k, v in _RULES.items())}</style>"

_TOKEN = re.compile(
    r"(?P<f>#.*)|(?P<s>'[^']*'|\"[^\"]*\")|(?P<k>\b(?:def|while|for|if|else|return|in|and|or|not|"
    r"True|False|None|import|from|with|as|lambda|break|continue|pass)\b)|"
    r"(?P<t>\b(?:[uif](?:8|16|32|64)|mask)\b)|"
    r"(?P<d>(?<![\w.])(?:0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?)\b)|(?P<o>\b\w+(?=\())"
)
_NOTED = re.compile(r"^(.*?)  # (\S+):(\d+) ?(.*)$")
_CELL = re.compile(r"\d+\.py|<(?:stdin|ipython-input.*)>")


def page(content: str) -> str:
    """Returns an element of a page with its style."""
    return f'{_STYLE}<div class="drjit">{content}</div>'


def coloured(code: str) -> str:
    """Returns a line of Python or of a kernel, as HTML."""
    parts, end = [], 0
    for found in _TOKEN.finditer(code):
        parts.append(escape(code[end : found.start()], quote=False))
        parts.append(f'<span class="{found.lastgroup}">{escape(found[0], quote=False)}</span>')
        end = found.end()
    return "".join([*parts, escape(code[end:], quote=False)])


def _noted(text: str) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yields the lines of a kernel without what notes where they come from, and with it: a file, a
    line, and the text there."""
    for line in text.splitlines():
        found = _NOTED.match(line)
        if found is None:
            yield line, ("", "", "")
        else:
            yield found[1], (found[2], found[3], found[4])


def source_table(text: str) -> str:
    """Returns a kernel beside the user's lines that it notes."""
    lines = list(_noted(text))
    if not any(place[1] for _, place in lines):
        body = "\n".join(coloured(line) for line, _ in lines)
        return page(f"<pre><code>{body}</code></pre>")
    runs: list[tuple[tuple[str, str, str], list[str]]] = []
    for line, place in lines:
        if not runs or runs[-1][0] != place:
            runs.append((place, []))
        runs[-1][1].append(line)
    rows, shaded = [], False
    for place, code in runs:
        shaded = bool(place[1]) and not shaded
        kind = ' class="g"' if shaded else ""
        first = f'<td class="u" rowspan="{len(code)}">{_user_line(*place)}</td>'
        for line in code:
            rows.append(f'<tr{kind}>{first}<td class="c">{coloured(line)}</td></tr>')
            first = ""
    return page(f"<table>{''.join(rows)}</table>")


def _user_line(file: str, line: str, text: str) -> str:
    if not line:
        return ""
    place = f"line {line}" if _CELL.fullmatch(file) else f"{file}:{line}"
    return f'<span class="f">{escape(place)}</span>  <code>{coloured(text)}</code>'


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a table of cells in HTML; numbers, all but the first `left` columns, end on the
    right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [' class="n"' if k >= left else "" for k in range(len(cells))]
        parts = zip(kinds, cells, strict=True)
        return f"<tr>{''.join(f'<{tag}{kind}>{cell}</{tag}>' for kind, cell in parts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', titles)}</thead><tbody>{body}</tbody></table>"


def bar(part: float, second: bool = False, width: float = 12) -> str:
    """Returns a bar whose length is a part of `width` (in em)."""
    kind = "b b2" if second else "b"
    return f'<span class="{kind}" style="width:{max(part, 0) * width:.2f}em"></span>'

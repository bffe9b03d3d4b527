"""Draws the figure of README.md, docs/images/benchmarks.svg, from the tables of docs/benchmarks.md.

python benchmarks/figure.py
"""

from html import escape
from math import log2
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
# Rows of the tables, and what they are called in the figure.
ROWS = {
    "`2.5*x + y`, 16M": "2.5 x + y of 16 million entries",
    "`mean(sin(a*a))`, 16M": "mean(sin(a²)) of 16 million",
    "scatter-add of 4M into 1024": "histogram of 4 million",
    "matrix product 1024 x 1024": "matrix product, 1024 x 1024",
    "sort of 4M": "sorting 4 million",
    "the same with its gradient": "a chain of 40 operations, with gradient",
    "uniform random numbers, 16M": "16 million random numbers",
    "Mandelbrot set, 1024 x 1024, 200 rounds": "Mandelbrot set",
    "sphere tracing, 1M rays, 64 steps": "sphere tracing, 1 million rays",
    "a call of one of 16 functions, 4M": "one of 16 functions for each entry",
    "training step, single precision": "training a network, single precision",
    "training step, half precision": "training a network, half precision",
    "training step with a hash grid": "training a network with a hash grid",
    "first training step, new process, empty cache": "first training step, all compiled",
    "new kernel of 300 operations": "compiling 300 operations",
    "import": "import",
    "two operations on 64 entries": "two operations on 64 entries",
    # The worst ones.
    "the same with its kernel in the disk cache": "first print of three numbers, kernel on disk",
    "300 operations from the disk cache, new process": "300 operations, kernel on disk",
    "reverse traversal of an edge": "a traversed edge of a gradient",
    "determinants of 100,000 matrices of 4 x 4": "determinants of 4 x 4 matrices",
    "adjoint of a random gather, 4M": "gradient of a random gather",
}
WIDTH, ROW, LEFT, UNIT = 760, 22, 300, 54  # a factor of two is UNIT wide
CENTRE = LEFT + 148
COLOURS = "#2a7f9e", "#c8703a"


def ratios(text: str) -> dict[str, float]:
    """By row, how many times the reference's time ours is; a later table does not replace it."""
    found: dict[str, float] = {}
    column = None
    for line in text.splitlines():
        cells = [c.strip() for c in line.split("|")[1:-1]]
        if "drjit-numba" in cells and "reference" in cells:
            column = cells.index("ratio")
        elif not cells:
            column = None
        elif column is not None and all(map(_is_number, cells[column - 2 :])):
            own, reference = [float(c) for c in cells[column - 2 : column]]
            found.setdefault(cells[0], own / reference)
    return found


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def label(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def figure(found: dict[str, float]) -> str:
    """The figure as SVG: bars to the right are faster than the reference, to the left slower."""
    shown = sorted(((found[row], name) for row, name in ROWS.items()), key=lambda v: v[0])
    height = ROW * len(shown) + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        label(
            LEFT - 8, 20, "Speed relative to Dr.Jit (C++), processor", "end", ' font-weight="bold"'
        ),
    ]
    for factor in (0.25, 0.5, 1, 2, 4, 8, 16, 32):
        x = CENTRE + UNIT * log2(factor)
        parts.append(
            f'<path d="M{x:.0f} 30V{height - 24}" stroke="#{"888" if factor == 1 else "ddd"}"/>'
        )
        parts.append(label(x, 22, f"{factor:g}x", "middle", ' fill="#777"'))
    for k, (ratio, name) in enumerate(shown):
        y, speed = 36 + ROW * k, 1 / ratio
        end = CENTRE + UNIT * log2(speed)
        x, w = min(end, CENTRE), abs(end - CENTRE)
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{w:.1f}" height="{ROW - 8}" '
            f'fill="{COLOURS[speed < 1]}"/>'
        )
        parts.append(label(LEFT - 8, y + 11, name, "end"))
        parts.append(label(max(end, CENTRE) + 5, y + 11, f"{speed:.2g}x"))
    note = (
        "Two cores of an Intel Xeon (Sapphire Rapids). The worst rows of the table are among these."
    )
    parts.append(label(12, height - 8, note, "start", ' fill="#777"'))
    return "\n".join([*parts, "</svg>\n"])


def summary(found: dict[str, float]) -> str:
    """The figure in words, for those who cannot see it."""
    shown = sorted((found[row], name) for row, name in ROWS.items())
    (best, first), (worst, last) = shown[0], shown[-1]
    return (
        f"Speed of {len(shown)} programs relative to Dr.Jit: from {1 / best:.2g} times ({first}) "
        f"to {1 / worst:.2g} times ({last}); {sum(ratio < 1 for ratio, _ in shown)} are faster"
    )


def current() -> str:
    """The figure of the present tables."""
    return figure(ratios((DOCS / "benchmarks.md").read_text()))


if __name__ == "__main__":
    (DOCS / "images" / "benchmarks.svg").write_text(current())

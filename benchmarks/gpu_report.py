"""The report of `gpu.py`, in Markdown."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

COPIES = "copy by the driver", "copy with an addition, `x + 1`"
AXPY, MIX = "`2.5*x + y`", "`exp(-x)*log(x) + tanh(x)`"
NEAR, FAR, SORT = "gather from 1M", "gather from all, 32 bytes each", "sort of 32-bit keys"
INFERENCE = "network, 64 wide, 4 hidden layers, half"
TRAINING, STEP = f"{INFERENCE}: value and gradient", "training step of neural_field, frozen"
SMALL = "two operations on 64 entries: trace, schedule, launch"
FROZEN = "two operations on 64 entries, frozen"
"""Rows that goals, or the shares of other rows, depend on."""

LINES = 60  # of the kernel texts in the report
_SYMBOLS = "B/s", "FLOP/s"
MOST_OF_PART = 6  # problems are shown in full
MOST = 3000  # characters of a problem


class Goal(NamedTuple):
    """A row, what of it counts (the "share" of what memory allows, a "rate", or "seconds"), and
    what it should be: at least, or at most for seconds."""

    row: str
    of: str
    value: float


GOALS = (
    Goal(AXPY, "share", 0.85),
    Goal(MIX, "share", 0.85),
    Goal(NEAR, "share", 0.85),
    Goal(FAR, "share", 0.85),
    Goal(SORT, "share", 0.85),
    Goal(INFERENCE, "rate", 3e9),
    Goal(TRAINING, "rate", 1.2e9),
    Goal(STEP, "seconds", 100e-6),
    Goal(SMALL, "seconds", 25e-6),
    Goal(FROZEN, "seconds", 10e-6),
)


def time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def rate(value: float, unit: str) -> str:
    for prefix, word, size in (
        ("T", "trillion", 1e12), ("G", "billion", 1e9), ("M", "million", 1e6),
    ):  # fmt: skip
        if value >= size:
            scaled = f"{value / size:.3g}"
            return f"{scaled} {prefix}{unit}" if unit in _SYMBOLS else f"{scaled} {word} {unit}"
    return f"{value:.3g} {unit}"


def table(*columns: str, rows: list[tuple[Any, ...]]) -> list[str]:
    lines = [columns, ["---"] * len(columns), *rows]
    return [*["| " + " | ".join(map(str, cells)) + " |" for cells in lines], ""]


def render(session: Any) -> str:
    """Returns the report of what a session has found by now."""
    rows = {k: v for outcome in session.outcomes.values() for k, v in outcome.rows.items()}
    peak = max((_rate(rows[name]) for name in COPIES if name in rows), default=0.0)
    lines = ["# drjit.cuda on this machine", ""]
    if session.options.emulated:
        lines += ["**On the emulated GPU, at a tiny size: the times mean nothing.**", ""]
    if "facts" in session.outcomes:
        facts = session.outcomes["facts"].rows.values()
        lines += [*[f"- {fact['row']}: {fact['text']}" for fact in facts], ""]
    lines += _problems(session)
    lines += ["## Goals", "", *_goals(rows, peak, session.options.emulated)]
    lines += ["## The same results as emulated", "", *_comparison(rows)]
    lines += ["## What was tried", "", *_tried(session)]
    lines += ["## Figures", "", *_figures(session, rows, peak)]
    lines += ["## Parts", "", *_parts(session)]
    return "\n".join(lines)


def _rate(row: dict[str, Any]) -> float:
    return row["items"] / row["seconds"] if row["seconds"] else 0.0


def _problems(session: Any) -> list[str]:
    alike: dict[Any, list[Any]] = {}  # rows of a part with the same problem
    for p in session.problems:
        alike.setdefault((p.part, p.text), []).append(p)
    lines = [f"## Problems: {len(session.problems)}" if alike else "## No problems", ""]
    shown: set[str] = set()
    told: Counter[str] = Counter()
    for (part, text), problems in alike.items():
        rows = ", ".join(p.row for p in problems if p.row)
        title, told[part] = f"- **{part}{': ' * bool(rows)}{rows}**", told[part] + 1
        if told[part] > MOST_OF_PART:
            lines += [f"{title}: {text.partition(chr(10))[0][:200]}", ""]
            continue
        lines += [title, "", *_quoted(text[:MOST])]
        for p in problems:
            for found in p.found:
                first, _, more = found[:MOST].partition("\n")
                lines += [f"  {first}", "", *_quoted(more)]
        p = max(problems, key=lambda p: (len(p.found), len(p.kernels)))
        if p.kernels:
            place = p.folder.relative_to(session.out)
            lines += [f"  Kernels, in `{place}`: {', '.join(p.kernels)}.", ""]
        for name in p.kernels:
            file = p.folder / f"{name}.txt"
            if name not in shown and len(shown) < 10 and file.exists():
                shown.add(name)
                lines += _quoted("\n".join(file.read_text().splitlines()[:LINES]), "python")
    return lines


def _quoted(text: str, language: str = "") -> list[str]:
    """Returns lines of code in an item of a list."""
    if not text:
        return []
    return [f"  ```{language}", *[f"  {t}" for t in text.splitlines()], "  ```", ""]


def _goals(rows: dict[str, Any], peak: float, emulated: bool) -> list[str]:
    lines = []
    for goal in GOALS:
        row, value, shown = rows.get(goal.row), 0.0, "not measured"
        wanted = f"{goal.value:.0%} of what memory allows"
        if goal.of == "seconds":
            wanted = f"at most {time(goal.value)}"
        elif goal.of == "rate":
            wanted = rate(goal.value, "a second")
        if row is not None and goal.of == "seconds":
            value, shown = goal.value / row["seconds"], time(row["seconds"])
        elif row is not None and goal.of == "rate":
            value, shown = _rate(row) / goal.value, rate(_rate(row), row["unit"])
        elif row is not None and peak:
            value, shown = _rate(row) / peak / goal.value, f"{_rate(row) / peak:.0%}"
        met = "" if row is None or emulated else ("yes" if value >= 1 else "**no**")
        lines.append((goal.row, wanted, shown, met))
    return table("goal", "wanted", "measured", "met", rows=lines)


def _comparison(rows: dict[str, Any]) -> list[str]:
    compared = [row["equal"] for row in rows.values() if "equal" in row]
    equal, near, alone = (sum(e is kind for e in compared) for kind in (True, False, None))
    return [
        f"Of {len(compared)} results, {equal} are equal to those of the emulated GPU bit by bit,",
        f"and {near} within the rounding of sums. With {alone}, there was nothing to compare.",
        "What differs is among the problems.",
        "",
    ]


def _tried(session: Any) -> list[str]:
    lines = []
    for outcome in session.outcomes.values():
        rows = outcome.rows.values()
        found = {row["row"]: row["text"].replace("|", "/") for row in rows if "text" in row}
        if len(found) == len(rows):  # there are neither figures nor results to compare
            found |= {p.row: "**failed**, see above" for p in outcome.problems if p.row}
        lines += found.items() if outcome.name != "facts" else ()
    return table("what", "result", rows=lines)


def _figures(session: Any, rows: dict[str, Any], peak: float) -> Iterator[str]:
    yield f"Large workloads have 2^{session.options.scale} entries."
    copies = [f"a {n}: {rate(_rate(rows[n]), 'B/s')}" for n in COPIES if n in rows]
    if copies:
        yield f"What memory allows is the better one of {'; '.join(copies)}."
    yield ""
    for outcome in session.outcomes.values():
        lines = []
        for name, row in outcome.rows.items():
            if "seconds" in row:
                speed = rate(_rate(row), row["unit"]) if row["unit"] else ""
                share = f"{_rate(row) / peak:.0%}" if row["unit"] == "B/s" and peak else ""
                more = ", ".join(filter(None, (speed, row["more"])))
                lines.append((name, time(row["seconds"]), more, share))
        if lines:
            yield from table(outcome.name, "time", "rate", "of what memory allows", rows=lines)


def _parts(session: Any) -> list[str]:
    rows: list[tuple[Any, ...]] = []
    for outcome in session.outcomes.values():
        problems = len(outcome.problems) or ""
        rows.append((outcome.name, f"{outcome.seconds:.1f}", outcome.status, problems))
    return table("part", "seconds", "status", "problems", rows=rows)

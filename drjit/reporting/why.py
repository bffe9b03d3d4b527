"""Why kernels were made: for each that was new, the nearest one that existed, and what differs in
terms of the program. A number that became part of the code is named: `Values` notes the plain
values of functions that trace, and the names in the line behind a statement are looked up there.
"""

import ast
import difflib
import linecache
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..jit import flags
from ..jit.ir.node import Node
from ..jit.run.recompiled import NUMBER, advice, plain_values, shapes, user_frames, without_numbers

CANDIDATES = 40  # kernels that one is compared with: of the same line, and others
ALIKE, ALIKE_THERE = 0.5, 0.3  # share of common operations of like kernels; of those of one line
MOST_REASONS = 4
_LONGEST_MATCH = 600  # statements that are put side by side
_VARIES = object()  # a value that changes while a kernel is traced, or does not change the kernel

_TWICE = (
    "compiled twice: at once without optimization, then with it, as it has much to do; nothing "
    "has changed"
)
_NOW_COMPILED = (
    "it is not new: it has so much to do that compiling it pays, or was about to be compiled"
)
_NOW_OPTIMIZED = "it was compiled without optimization before, and has much to do"
_IGNORED = int(flags.JitFlag.Record | flags.JitFlag.KernelHistory | flags.JitFlag.Progress)
_TYPE = re.compile(r"\b([fiu](?:8|16|32|64)|bf16|bool)\b")
_BRINGS = re.compile(r"^ +\w+ = (?:load|broadcast|literal)\w*\(")
_ENDS = ("store", "stream")
_OPERATION = re.compile(r"^ *(?:\w+ = )?(?:(\w+)\(|~?-?\w+(?: (\S+) \w+)?)")
_SIGNS = {"+": "addition", "-": "subtraction", "*": "product", "/": "division"}
_SIGNS |= dict.fromkeys(("<", ">", "<=", ">=", "==", "!="), "comparison")


class Reason(NamedTuple):
    """What differs, the number of the place behind it, and what can be done."""

    text: str
    place: int = 0
    fix: str = ""


class Values:
    """The plain values that functions of the program had when they traced a node."""

    def __init__(self) -> None:
        self.of_nodes: WeakKeyDictionary[Node, list[tuple[Any, dict]]] = WeakKeyDictionary()
        self.last: tuple[int, CodeType | None, int] = (0, None, 0)  # where it was told of a node
        self._found: list[tuple[Any, dict]] = []

    def note(self, thing: Any) -> None:
        """Is told of each new node while lines are noted. The values are taken anew where a
        function is called, or jumps backwards, as that takes long."""
        if type(thing) is Node:
            frames = user_frames(3, 1)
            frame = frames[0] if frames else None
            code, at = (frame.f_code, frame.f_lasti) if frame else (None, 0)
            before, self.last = self.last, (id(frame), code, at)
            if code is not before[1] or self.last[0] != before[0] or at < before[2]:
                self._found = [(f.f_code, plain_values(f)) for f in frames]
            self.of_nodes[thing] = self._found

    def restart(self) -> None:
        """Has them taken anew after an evaluation."""
        self.last = (0, None, 0)

    def collect(self, known: dict[Any, dict[str, Any]], nodes: Iterable[Node]) -> None:
        """Adds the values behind the nodes of a kernel to those known of it. What differs from
        time to time has no influence on the kernel."""
        for n in nodes:
            for code, values in self.of_nodes.get(n, ()):
                own = known.setdefault(code, {})
                if values is own.get(""):
                    continue
                own[""] = values  # seen last
                for name, value in values.items():
                    before = own.setdefault(name, value)
                    if before is not value and repr(before) != repr(value):
                        own[name] = _VARIES


class _Kernel:
    """A kernel as it is compared."""

    def __init__(self, met: Any, numbers: list[int]) -> None:
        self.met, self._numbers = met, numbers
        self.shapes = shapes("\n".join(met.text))
        self.body = [k for k, s in enumerate(self.shapes) if not _BRINGS.match(s)]
        self.elsewhere = 0  # the place of statements where these are not known
        kinds = [_TYPE.sub("T", without_numbers(self.shapes[k])) for k in self.body]
        self.kinds = Counter([s for s in kinds if not s.lstrip().startswith(_ENDS)])

    def place(self, k: int) -> int:
        """Returns the place of a statement."""
        places = self.met.places
        known = places and k + 1 < len(places)
        return self._numbers[places[k + 1]] if known else self.elsewhere


class Why:
    """Explains the kernels of a recorder."""

    def __init__(self, recorded: Any, numbers: list[int], places: list[list]) -> None:
        self.recorded, self.numbers, self.places = recorded, numbers, places
        # When machine code was made for a kernel, by what, and how.
        self.compiled: dict[Any, list[tuple[float, str, str]]] = defaultdict(list)
        self.traversals: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for place, found in recorded.derivatives.inputs.items():
            self.traversals[numbers[place]] += found
        by_number = {m.number: m for m in recorded.kernels.values()}
        for kind, _, start, _, _, number, text, *_ in recorded.events:
            if kind in ("compile", "load") and number in by_number:
                self.compiled[by_number[number]].append((start, kind, text))

    def rows(self, met: list[Any], time: Any) -> list[dict[str, Any]]:
        """Returns the rows of a report for those among kernels that were new or compiled."""
        r, index = self.recorded, {m: k for k, m in enumerate(met)}
        old = [_Kernel(k, self.numbers) for k in r.earlier()]
        is_old = {k.met for k in old}
        new = sorted([m for m in r.kernels.values() if m not in is_old], key=lambda m: m.at)
        rows, known = [], old
        for m in new:
            kernel = _Kernel(m, self.numbers)
            nearest = self._nearest(kernel, known)
            known.append(kernel)
            if m in index:
                rows.append((m, nearest, self._reasons(kernel, nearest)))
        for m in is_old & self.compiled.keys() & index.keys():
            text = _NOW_OPTIMIZED if r.before[m.kernel] == "compiled" else _NOW_COMPILED
            rows.append((m, None, [Reason(text)]))
        found = []
        for m, nearest, reasons in rows:
            at = min([start for start, *_ in self.compiled[m] if start], default=m.at)
            where = m.where.most_common(1)
            found.append(
                {
                    "kernel": index[m], "place": self.numbers[where[0][0]] if where else 0,
                    "nearest": index.get(nearest.met, -1) if nearest else -1, "time": time(at),
                    "seconds": round(m.compile_seconds, 6),
                    "reasons": [x._asdict() for x in dict.fromkeys(reasons)][:MOST_REASONS],
                }
            )  # fmt: skip
        return sorted(found, key=lambda row: row["time"])

    def _nearest(self, kernel: _Kernel, known: list[_Kernel]) -> _Kernel | None:
        """Returns the kernel with the largest share of statements in common, the latest of
        several."""
        m, same, others = kernel.met, [], []
        for k in reversed(known):
            among = same if not m.where.keys().isdisjoint(k.met.where) else others
            if len(among) < CANDIDATES and k.met.kernel.device is m.kernel.device:
                among.append(k)
        best, most = None, 0.0
        for among, least in ((same, ALIKE_THERE), (others, ALIKE)):
            for k in among:
                total = max(kernel.kinds.total(), k.kinds.total())
                share = (kernel.kinds & k.kinds).total() / total if total else 1.0
                if share >= least and share > most:
                    best, most = k, share
            most += 0.1 * bool(best)
        return best

    # ---- What differs

    def _reasons(self, b: _Kernel, a: _Kernel | None) -> list[Reason]:
        frozen = self._frozen(b.met)
        again = [how for _, kind, how in self.compiled[b.met] if kind == "compile"]
        tiers = [Reason(_TWICE)] * (len(again) > 1 and again[0] != "")
        if a is None:
            kind = b.met.whole
            what = f"new: a kernel of {kind}" if kind else "new: nothing like it ran before"
            return [*frozen, Reason(what), *tiers]
        differ = (a.met.flags ^ b.met.flags) & ~_IGNORED if a.met.flags >= 0 else 0
        changed = []
        for flag in flags.JitFlag:
            if flag.bit_count() == 1 and flag & differ:
                how = "on, was off" if flag & b.met.flags else "off, was on"
                changed.append(Reason(f"JitFlag.{flag.name} is {how}"))
        return [*frozen, *changed, *self._difference(a, b), *tiers]

    def _frozen(self, met: Any) -> list[Reason]:
        if "Recorded" not in met.modes:
            return []
        found = [row for row in self.recorded.recordings if row[0] <= met.at]
        again = found and " again: " in found[-1][1]
        return [Reason(found[-1][1], self.numbers[found[-1][2]])] if again else []

    def _difference(self, a: _Kernel, b: _Kernel) -> list[Reason]:
        x, y = ([k.shapes[i] for i in k.body] for k in (a, b))
        a.elsewhere = b.elsewhere = 0
        if x == y:
            return self._operands(a, b)
        if [_TYPE.sub("T", s) for s in x] == [_TYPE.sub("T", s) for s in y]:
            rows = [
                (i, p, q) for i, s, t in zip(b.body, x, y, strict=True)
                for p, q in zip(_TYPE.findall(s), _TYPE.findall(t), strict=True) if p != q
            ]  # fmt: skip
            return [Reason(f"a type: {q} was {p}", b.place(i)) for i, p, q in rows[:1]]
        if [*map(without_numbers, x)] == [*map(without_numbers, y)]:
            return [*self._numbers(a, b, x, y)]
        sizes = [s.replace("stream(", "store(") for s in (*x, *y)]
        if sizes[: len(x)] == sizes[len(x) :]:
            return [Reason("a size that mattered: results no longer fit into caches, or do again")]
        return [*self._operations(a, b, x, y)]

    def _operands(self, a: _Kernel, b: _Kernel) -> list[Reason]:
        """Says what differs if the operations are the same."""
        counts = []
        for k in (a, b):
            brought = [s for i, s in enumerate(k.shapes) if i not in {*k.body}]
            counts.append([sum([f"= {w}" in s for s in brought])
                           for w in ("load", "broadcast", "literal")])  # fmt: skip
        (loads, single, numbers), (loads2, single2, numbers2) = counts
        if loads + single != loads2 + single2 and numbers != numbers2:
            how = "is an input now" if numbers2 < numbers else "was an input before"
            return [Reason(f"a number {how}, as dr.opaque() makes it")]
        if loads + single != loads2 + single2:
            n, m = loads2 + single2, loads + single
            how = "were different ones" if n < m else "were the same one"
            return [Reason(f"{n} input{'s' * (n != 1)}, {m} before: some operands {how}")]
        if numbers != numbers2:
            how = "different" if numbers2 < numbers else "equal"
            return [Reason(f"{numbers2} numbers, {numbers} before: some of them were {how}")]
        if loads != loads2:
            less = "an input has one entry" if single2 > single else "an input has several entries"
            return [Reason(f"a size that mattered: {less} now")]
        types = [_TYPE.findall(" ".join(k.shapes)) for k in (a, b)]
        if types[0] != types[1]:
            p, q = next((p, q) for p, q in zip(*types, strict=False) if p != q)
            return [Reason(f"a type: {q} was {p}")]
        if a.met.text == b.met.text:
            return [Reason("the same statements, with inputs or results of other kinds")]
        return [Reason("the same operations on other operands, or in another order")]

    def _numbers(self, a: _Kernel, b: _Kernel, x: list[str], y: list[str]) -> Iterator[Reason]:
        """Names the numbers in the code that differ."""
        for i, s, t in zip(b.body, x, y, strict=True):
            for p, q in zip(NUMBER.findall(s), NUMBER.findall(t), strict=True):
                if p != q:
                    place = b.place(i)
                    found = self._named(a, b, [place])
                    text = f"a number that became part of the code: {q} was {p}"
                    exact = [reason for value, reason in found if value in (q, "-" + q)]
                    yield next(iter(exact or [r for _, r in found]), Reason(text, place))

    def _operations(self, a: _Kernel, b: _Kernel, x: list[str], y: list[str]) -> Iterator[Reason]:
        """Says which operations of which lines differ."""
        if Counter(x) == Counter(y):
            yield Reason("the same operations on other operands, or in another order")
            return
        gone, came = _unmatched([_TYPE.sub("T", s) for s in x], [_TYPE.sub("T", s) for s in y])
        lost, new = [a.body[i] for i in gone], [b.body[i] for i in came]
        a.elsewhere = b.place(new[0]) if new else 0
        b.elsewhere = a.place(lost[0]) if lost else 0
        places = [*dict.fromkeys([b.place(i) for i in new] + [a.place(i) for i in lost])]
        named = self._named(a, b, [p for p in places if p])
        if named:
            yield from [reason for _, reason in named]
            return
        yield from [self._line(a, b, p, lost, new) for p in places]
        then, now = ({*_TYPE.findall(" ".join(k.shapes))} for k in (a, b))
        if now - then:
            more = ", ".join(sorted(now - then))
            yield Reason(f"a type: {more}, which there was not before")

    def _line(self, a: _Kernel, b: _Kernel, p: int, lost: list[int], new: list[int]) -> Reason:
        """Says what differs in what a line has traced."""
        minus = [_operation(a.shapes[i]) for i in lost if a.place(i) == p]
        plus = [_operation(b.shapes[i]) for i in new if b.place(i) == p]
        if p in self.traversals:
            then, now = (self._inputs(p, k.met.at) for k in (a, b))
            if then != now and then and now:
                return Reason(f"gradients of {now} input{'s' * (now != 1)}, {then} before", p)
        before, after = (
            [_operation(k.shapes[i]) for i in k.body if k.place(i) == p] for k in (a, b)
        )
        same = {*plus, *minus} <= {*before} & {*after} and not (plus and minus)
        if same:
            how = f"more often: {_list(plus)}" if plus else f"less often: {_list(minus)}"
            if not (p and a.met.places and b.met.places):
                return Reason(f"the same operations, {how}", p)
            n, m = len(after), len(before)
            return Reason(f"a line was traced into {n} operations, {m} before ({how})", p)
        gone, came = _list(minus), _list(plus)
        if gone and came:
            text = f"another operation: {came}, was {gone}"
            return Reason("the same operations in another order" if gone == came else text, p)
        return Reason(f"a new operation: {came}" if came else f"no longer an operation: {gone}", p)

    def _inputs(self, place: int, at: float) -> int:
        """Returns the number of inputs of the last traversal of a line at a time."""
        return next((n for t, n in reversed(self.traversals[place]) if t <= at), 0)

    # ---- Names in the program

    def _named(self, a: _Kernel, b: _Kernel, places: list[int]) -> list[tuple[str, Reason]]:
        """Returns the values of names that became part of the code of lines, and differ."""
        found: dict[tuple, tuple[str, Reason]] = {}
        for p in places:
            path, line, _ = self.places[p]
            then, now = (_values(k.met.values, path, line) for k in (a, b))
            for names, unrolled in _names(path, line):
                rows = [(n, then.get(n, _VARIES), now.get(n, _VARIES)) for n in names]
                rows = [row for row in rows if _VARIES not in row[1:] and row[1] != row[2]]
                for name, old, new in rows:
                    kind = "a Python " + {"str": "string", "tuple": "tuple of numbers"}.get(
                        type(new).__name__, type(new).__name__
                    )
                    text = f"`{name}` is {kind} that became part of the code: {new!r} was {old!r}"
                    found.setdefault(
                        (name, old, new), (repr(new), Reason(text, p, advice(name, new, unrolled)))
                    )
                if rows:
                    break
        return [*found.values()]


def _values(known: dict[Any, dict[str, Any]], path: str, line: int) -> dict[str, Any]:
    """Returns the values of names in functions around a line, the innermost ones last."""
    found: dict[str, Any] = {}
    for code in sorted(known, key=lambda c: c.co_firstlineno):
        if code.co_filename == path and code.co_firstlineno <= line:
            found |= known[code]
    return found


@lru_cache(8)
def _statements(path: str) -> list[ast.stmt]:
    """Returns the statements of a file, outer ones first."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return []
    return [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]


@lru_cache(1 << 10)
def _names(path: str, line: int) -> list[tuple[list[str], bool]]:
    """Returns the names in the statement of a line, then those in the heads of the loops and
    branches around it, inside out, with whether these repeat the line."""
    found = []
    around = [s for s in _statements(path) if s.lineno <= line <= (s.end_lineno or s.lineno)]
    loops = [s.target for s in around if isinstance(s, ast.For)]
    counters = {n.id for target in loops for n in ast.walk(target) if isinstance(n, ast.Name)}
    for s in reversed(around):
        parts: list[ast.AST] = [s]
        if isinstance(s, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if isinstance(s, ast.For):
            parts = [s.iter]
        elif isinstance(s, ast.If | ast.While):
            parts = [s.test]
        elif isinstance(s, ast.With):
            parts = [item.context_expr for item in s.items]
        elif hasattr(s, "body"):
            continue
        repeats = isinstance(s, ast.For | ast.While) or any(
            isinstance(n, ast.comprehension) for n in ast.walk(s) if s is parts[0]
        )
        names = [
            ast.unparse(n) for part in parts for n in ast.walk(part)
            if (isinstance(n, ast.Name) and n.id not in counters)
            or (isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        ]  # fmt: skip
        found.append((names, repeats))
    return found


def _operation(shape: str) -> str:
    """Returns the name of the operation of a statement."""
    if shape.lstrip().startswith("while "):
        return "a loop"
    if shape.lstrip().startswith(_ENDS):
        return "a result"
    match = _OPERATION.match(shape)
    name, sign = match.groups() if match else ("", "")
    return f"`{name}`" if name else _SIGNS.get(sign or "", f"`{sign}`" if sign else "a value")


def _list(operations: list[str]) -> str:
    return ", ".join(dict.fromkeys([o for o in operations if o != "a value"] or operations))


def _unmatched(x: list[str], y: list[str]) -> tuple[list[int], list[int]]:
    """Returns the places of statements in one list that have no counterpart in the other."""
    first = next((i for i, (s, t) in enumerate(zip(x, y, strict=False)) if s != t), 0)
    rest = min(len(x), len(y)) - first
    tails = zip(reversed(x), reversed(y), strict=False)
    last = next((i for i, (s, t) in enumerate(tails) if s != t or i >= rest), rest)
    p, q = x[first : len(x) - last], y[first : len(y) - last]
    if len(p) + len(q) > _LONGEST_MATCH:
        return _surplus(p, q, first), _surplus(q, p, first)
    blocks = difflib.SequenceMatcher(None, p, q, autojunk=False).get_matching_blocks()
    kept = [{b[side] + k for b in blocks for k in range(b.size)} for side in (0, 1)]
    return (
        [first + i for i in range(len(p)) if i not in kept[0]],
        [first + i for i in range(len(q)) if i not in kept[1]],
    )


def _surplus(p: list[str], q: list[str], first: int) -> list[int]:
    """Returns the places of statements that one list has more often than another, the last
    ones."""
    left, found = Counter(p) - Counter(q), []
    for i in range(len(p) - 1, -1, -1):
        if left[p[i]] > 0:
            left[p[i]] -= 1
            found.append(first + i)
    return found[::-1]


def text(data: dict[str, Any]) -> str:
    """Returns the rows of a report as text."""
    lines = []
    for row in data["why"]:
        kernel = data["kernels"][row["kernel"]]
        made = "compiled" if row["seconds"] else "new, and runs as Python"
        how = "loaded" if kernel["state"] == "disk" else made
        time = f" in {row['seconds'] * 1e3:.1f} ms" if row["seconds"] else ""
        lines.append(f"{kernel['title']} ({kernel['name'][:9]}): {how}{time}")
        for reason in row["reasons"]:
            path, line, _ = data["places"][reason["place"]]
            where = f" ({path.replace(chr(92), '/').rpartition('/')[2]}:{line})" if path else ""
            fix = f"; {reason['fix']}" if reason["fix"] else ""
            lines.append(f"  {reason['text']}{where}{fix}")
    return "\n".join(lines) or "no new kernels"

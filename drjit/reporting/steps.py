"""The text of a kernel with a note after each statement, and what the notes say: the values of some
lanes, step by step, and where a NaN came from."""

import ast
from collections.abc import Callable
from typing import Any

from ..jit.lazy import np

_FEATURES = 8  # of a vector that are shown
_LONGEST_WAY = 64  # steps from a NaN back to where it came from
_MOST_ROUNDS = 1_000_000  # of the loops of a launch
# Where an effect has its value and its mask, among its arguments.
EFFECTS = {
    "store": (-1, None), "stream": (-1, None), "store_vector": (-1, None), "reduce": (-1, None),
    "scatter": (-3, -1), "scatter_reduce": (-3, -1), "scatter_reduce_expand": (-3, -1),
    "scatter_packet": (4, 3), "scatter_reduce_packet": (7, 6), "outer": (-3, -1),
    "accumulate": (-2, -1),
}  # fmt: skip
READS = {"load", "broadcast", "gather", "gather_packet", "gather_weighted", "matvec"}
READS |= {"load_vector", "broadcast_vector"}
RETURNING = {"scatter_inc", "scatter_exch", "scatter_cas"}
_FROM_MEMORY = {*READS, *RETURNING, "literal"} - {"matvec"}  # which also has an operand


# ---- A text with notes


def noted(tree: ast.Module) -> str:
    """Returns a text with a call after each statement that says what it has computed."""
    functions = [f for f in tree.body if isinstance(f, ast.FunctionDef)]
    own = {f.name for f in functions} - {"kernel"}
    lines: list[str] = []
    for f in functions:
        body = _block(f.body, own)
        if f.name in own:
            given = tuple([a.arg for a in f.args.args if a.annotation is not None])
            body.insert(0, f"_begin({given})")
        lines += [f"def {f.name}({ast.unparse(f.args)}):", *_indented(body)]
    return "\n".join(lines)


def _block(body: list[ast.stmt], own: set[str]) -> list[str]:
    found: list[str] = []
    for s in body:
        if isinstance(s, ast.While | ast.If):
            found += _nested(s, own)
            continue
        value: Any = getattr(s, "value", None)
        name = getattr(getattr(value, "func", None), "id", "")
        if name in own:
            given = tuple([a.id if isinstance(a, ast.Name) else "" for a in value.args])
            found.append(f"_calling({given})")
        if isinstance(s, ast.Return):
            found.append(f"_end({_names(s)})")
        elif isinstance(s, ast.Expr) and name in EFFECTS:
            place, mask = EFFECTS[name]
            given = ast.unparse(value.args[place])
            on = mask and ast.unparse(value.args[mask])
            found.append(f"_effect({s.lineno}, {given}, {on or True}, {_names(value.args[place])})")
        found.append(ast.unparse(s))
        if isinstance(s, ast.Assign):
            is_quotient = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div)
            kind = "/" if is_quotient else name
            names = _names(s.targets[0])
            values = f"({', '.join(names)},)"
            found.append(f"_note({s.lineno}, {names}, {values}, {_names(value)}, {kind!r})")
        elif name in own:  # which may have returned something that nobody needs
            found.append("_over()")
    return found


def _nested(s: Any, own: set[str]) -> list[str]:
    """Returns a loop or a branch with notes on which lanes are in it."""
    test = f"{s.test.func.id!r}, {ast.unparse(s.test.args[0])}"
    if isinstance(s, ast.While):
        return ["_loop()", f"while _head({test}):", *_indented(_block(s.body, own))]
    found: list[str] = []
    for head, body in ((f"if {ast.unparse(s.test)}:", s.body), ("else:", s.orelse)):
        if body:
            notes = [f"_enter({test}, {body is s.orelse})", *_block(body, own), "_leave()"]
            found += [head, *_indented(notes)]
    return found


def _indented(lines: list[str]) -> list[str]:
    return [" " + line for line in lines]


def _names(part: ast.AST) -> tuple[str, ...]:
    return tuple([n.id for n in ast.walk(part) if isinstance(n, ast.Name)])


# ---- What the notes say


class Full(Exception):
    """There are too many steps."""


class Steps:
    """What each statement computed, in order. A row has the line, the rounds of the loops around
    it, a name, values and active lanes, the steps of the operands, and what computed it."""

    def __init__(self, lanes: list[int], of_all: int, most: int, keeps_last: bool) -> None:
        """All lanes run, if `of_all` says how many these are. Of too many steps, the first `most`
        are kept, or about as many of the last."""
        self.lanes, self.most, self.keeps_last = lanes, most, keeps_last
        self.rows: list[tuple] = []
        self.dropped = False
        self._count = of_all or len(lanes)
        self._places = np.array(lanes) if of_all else np.arange(len(lanes))
        self._active = [np.ones(len(lanes), np.bool_)]
        self._rounds: list[int] = []
        self._known: list[dict[str, int]] = [{}]  # the last step of each name
        self._given: tuple[str, ...] = ()
        self._returned: list[int] | None = None
        self._total = self._first = 0
        self._effects: list[int] = []

    def functions(self) -> dict[str, Callable]:
        """Returns what the text calls."""
        return {
            name: getattr(self, name)
            for name in vars(Steps)
            if name.startswith("_") and not name.startswith("__")
        }

    def _chosen(self, value: Any) -> Any:
        value = np.asarray(value)
        shape = (*value.shape[:-1], self._count) if value.ndim == 2 else (self._count,)
        return np.broadcast_to(value, shape)[..., self._places]

    # ---- Called by the text

    def _note(self, line: int, names: tuple, values: tuple, operands: tuple, kind: str) -> None:
        if not self._active[-1].any():
            self._returned = None
            return
        known = self._known[-1]
        used = [known[o] for o in operands if o in known]
        if self._returned is not None:
            used, self._returned = self._returned, None
        made = [self._add(line, n, v, used, kind) for n, v in zip(names, values, strict=True)]
        known.update(zip(names, made, strict=True))

    def _effect(self, line: int, value: Any, mask: Any, operands: tuple) -> None:
        active = self._active[-1] & self._chosen(mask)
        if active.any():
            known = self._known[-1]
            used = [known[o] for o in operands if o in known]
            self._active.append(active)
            self._effects.append(self._add(line, "", value, used, "effect"))
            self._active.pop()

    def _add(self, line: int, name: str, value: Any, used: list[int], kind: str) -> int:
        number = self._first + len(self.rows)
        row = line, tuple(self._rounds), name, self._chosen(value), self._active[-1], used, kind
        self.rows.append(row)
        if len(self.rows) > self.most:
            if not self.keeps_last:
                self.rows.pop()
                raise Full
            half = max(self.most // 2, 1)
            del self.rows[:half]
            self._first += half
            self.dropped = True
        return number

    def _loop(self) -> None:
        self._rounds.append(-1)
        self._active.append(self._active[-1])

    def _head(self, test: str, mask: Any) -> bool:
        self._rounds[-1] += 1
        self._total += 1
        if self._total > _MOST_ROUNDS:
            raise Full
        going = bool(np.any(mask) if test == "any_lane" else np.all(mask))
        self._active[-1] = self._active[-2] & self._chosen(mask)
        if not going:
            self._rounds.pop()
            self._active.pop()
        return going

    def _enter(self, test: str, mask: Any, other: bool) -> None:
        active = self._active[-1]
        if test == "any_lane":
            active = active & (self._chosen(mask) != other)
        self._active.append(active)

    def _leave(self) -> None:
        self._active.pop()

    def _calling(self, given: tuple) -> None:
        self._given = given

    def _begin(self, names: tuple) -> None:
        known = self._known[-1]
        pairs = zip(names, self._given[len(self._given) - len(names) :], strict=True)
        self._known.append({a: known[b] for a, b in pairs if b in known})

    def _end(self, names: tuple) -> None:
        known = self._known.pop()
        self._returned = [known[n] for n in names if n in known]

    def _over(self) -> None:
        self._returned = None

    # ---- What is shown

    def plain(self) -> list[list]:
        """Returns the rows as simple objects."""
        return [
            [line, [*rounds], name, _plain(values), [*map(int, active)]]
            for line, rounds, name, values, active, _, _ in self.rows
        ]

    # ---- Where a NaN came from

    def origins(self) -> list[dict[str, Any]]:
        """Returns, for each lane with a NaN or an infinity, the step at which it appeared, and the
        steps from there back to the input that it came from; first those of NaN that the kernel
        has written."""
        found = []
        for k, lane in enumerate(self.lanes):
            start = self._start(k)
            if start is not None:
                step, chain = self._way(start, k)
                row = {"lane": lane, "step": step, "chain": chain}
                found.append((self.rows[start][6] != "effect", row))
        return [row for _, row in sorted(found, key=lambda pair: pair[0])]

    def _start(self, lane: int) -> int | None:
        """Returns the last effect that had a NaN, or the first step of all that had one; the same
        for infinities, if there is none."""
        effects = [e - self._first for e in self._effects if e >= self._first]
        for test in (np.isnan, np.isinf):
            for steps in (reversed(effects), range(len(self.rows))):
                for k in steps:
                    _, _, _, values, active, _, kind = self.rows[k]
                    if active[lane] and kind != "literal" and _is_bad(values[..., lane], test):
                        return k
        return None

    def _way(self, step: int, lane: int) -> tuple[int, list[int]]:
        """Returns the step at which the NaN of another one appeared, and the way back from it."""
        test = np.isnan if _is_bad(self._value(step, lane), np.isnan) else np.isinf
        while before := [k for k in self._used(step) if _is_bad(self._value(k, lane), test)]:
            step = before[0]
        chain, at = [step], step
        while len(chain) < _LONGEST_WAY and (operands := self._operands(at)):
            kind = self.rows[at][6]
            if kind == "/" and len(operands) == 2 and not np.any(self._value(operands[1], lane)):
                at = operands[1]
            else:
                at = max(operands, key=lambda k: self._suspicion(k, lane))
            chain.append(at)
        return step, chain

    def _used(self, step: int) -> list[int]:
        """Returns the steps that computed the operands of one."""
        return [k - self._first for k in self.rows[step][5] if 0 <= k - self._first < step]

    def _operands(self, step: int) -> list[int]:
        """Returns the same, but none where memory was read."""
        return [] if self.rows[step][6] in _FROM_MEMORY else self._used(step)

    def _value(self, step: int, lane: int) -> Any:
        return self.rows[step][3][..., lane]

    def _suspicion(self, step: int, lane: int) -> tuple:
        """Returns how likely an operand is why a result is no number: one that is none itself, no
        constant, no mask, and large."""
        value = self._value(step, lane)
        number = value.dtype.kind == "f"
        bad = number and not np.all(np.isfinite(value))
        size = float(np.max(np.abs(value))) if number and not bad else 0.0
        return bad, number, self.rows[step][6] != "literal", size


def _plain(values: Any) -> list[int | float | str]:
    """Returns values as numbers, or text where JSON has no such number."""
    if values.ndim == 2:
        return [_vector(v) for v in values.T]
    if values.dtype.kind == "b":
        return [str(v) for v in values.tolist()]
    if values.dtype.kind in "iu":
        return [v if abs(v) < 1 << 53 else str(v) for v in values.tolist()]
    good = np.isfinite(values)  # the shortest digits that are this number in its type
    return [float(str(v)) if g else str(v) for v, g in zip(values, good, strict=True)]


def _vector(features: Any) -> str:
    shown = [str(v) for v in features[:_FEATURES]]
    more = f", .. {len(features)} features" if len(features) > _FEATURES else ""
    return f"[{', '.join(shown)}{more}]"


def _is_bad(value: Any, test: Callable) -> bool:
    """Returns whether a value, or one of its vector, is a NaN or an infinity."""
    return value.dtype.kind == "f" and bool(np.any(test(value)))

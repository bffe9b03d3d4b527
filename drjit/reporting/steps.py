"""The text of a kernel with a note after each statement, and what the notes say: the values of some
lanes, step by step, and where a NaN came from."""

import ast
from collections.abc import Callable
from copy import copy
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
OF_BLOCKS = {"scan", "scan_totals", "scan_blocks", "compress", "radix_count", "radix_move"}
OF_BLOCKS |= {"matmul", "reduce_rows"}
_FROM_MEMORY = {*READS, *RETURNING, "literal"} - {"matvec"}  # which also has an operand


# ---- A text with notes


def noted(tree: ast.Module) -> ast.Module:
    """Returns a text with a call after each statement that says what it has computed."""
    functions: list[Any] = [f for f in tree.body if isinstance(f, ast.FunctionDef)]
    own = {f.name for f in functions} - {"kernel"}
    body: list[Any] = []
    for f in functions:
        block = _block(f.body, own)
        if f.name in own:
            given = tuple([a.arg for a in f.args.args if a.annotation is not None])
            block.insert(0, _call("_begin", f, _constant(given)))
        body.append(copy(f))
        body[-1].body = block
    return ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))


def _block(body: list[ast.stmt], own: set[str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.While | ast.If):
            test: Any = s.test
            found += _nested(s, test.func.id, test.args[0], own)
        elif isinstance(s, ast.Return):
            names = _names(s.value) if s.value is not None else []
            found += [_call("_end", s, _constant(tuple(names))), s]
        elif isinstance(s, ast.Assign):
            target: Any = s.targets[0]
            names = [e.id for e in getattr(target, "elts", [target])]
            values = ast.Tuple([_load(n) for n in names], ast.Load())
            found += _entry(s.value, own)
            operands = _constant(tuple(_names(s.value)))
            kind, assigned = _constant(_kind(s.value)), _constant(tuple(names))
            found += [s, _call("_note", s, assigned, values, operands, kind)]
        elif isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            name = getattr(s.value.func, "id", "")
            found += _entry(s.value, own)
            if name in EFFECTS:
                value, mask = EFFECTS[name]
                given = s.value.args
                operands = _constant(tuple(_names(given[value])))
                on = _constant(True) if mask is None else given[mask]
                found.append(_call("_effect", s, given[value], on, operands))
            found.append(s)
            if name in own:  # which may have returned something that nobody needs
                found.append(_call("_over", s))
        else:
            found.append(s)
    return found


def _nested(s: Any, test: str, mask: ast.expr, own: set[str]) -> list[ast.stmt]:
    """Returns a loop or a branch with notes on which lanes are in it."""
    if isinstance(s, ast.While):
        head = ast.Call(_load("_head"), [_constant(test), mask], [])
        loop = ast.While(test=head, body=_block(s.body, own), orelse=[])
        return [_call("_loop", s), ast.copy_location(loop, s), _call("_leave_loop", s)]
    body = [_call("_enter", s, _constant(test), mask, _constant(False)), *_block(s.body, own)]
    body.append(_call("_leave", s))
    other: list[ast.stmt] = []
    if s.orelse:
        other = [_call("_enter", s, _constant(test), mask, _constant(True))]
        other += [*_block(s.orelse, own), _call("_leave", s)]
    return [ast.copy_location(ast.If(test=s.test, body=body, orelse=other), s)]


def _entry(value: ast.expr, own: set[str]) -> list[ast.stmt]:
    """Returns the note before a call of one of the text's functions."""
    if not (isinstance(value, ast.Call) and getattr(value.func, "id", "") in own):
        return []
    given = [a.id if isinstance(a, ast.Name) else "" for a in value.args]
    return [_call("_calling", value, _constant(tuple(given)))]


def _kind(value: ast.expr) -> str:
    """Returns what computes a value: the name of a function, or `/`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div):
        return "/"
    return getattr(value.func, "id", "") if isinstance(value, ast.Call) else ""


def _names(value: ast.expr) -> list[str]:
    return [n.id for n in ast.walk(value) if isinstance(n, ast.Name)]


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _constant(value: Any) -> ast.expr:
    if isinstance(value, tuple):
        return ast.Tuple([ast.Constant(v) for v in value], ast.Load())
    return ast.Constant(value)


def _call(name: str, at: Any, *arguments: ast.expr) -> ast.stmt:
    call = ast.Call(_load(name), [ast.Constant(at.lineno), *arguments], [])
    return ast.copy_location(ast.Expr(call), at)


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

    def _loop(self, line: int) -> None:
        self._rounds.append(-1)
        self._active.append(self._active[-1])

    def _head(self, test: str, mask: Any) -> bool:
        self._rounds[-1] += 1
        self._total += 1
        if self._total > _MOST_ROUNDS:
            raise Full
        going = bool(np.any(mask) if test == "any_lane" else np.all(mask))
        self._active[-1] = self._active[-2] & self._chosen(mask)
        return going

    def _leave_loop(self, line: int) -> None:
        self._rounds.pop()
        self._active.pop()

    def _enter(self, line: int, test: str, mask: Any, other: bool) -> None:
        active = self._active[-1]
        if test == "any_lane":
            active = active & (self._chosen(mask) != other)
        self._active.append(active)

    def _leave(self, line: int) -> None:
        self._active.pop()

    def _calling(self, line: int, given: tuple) -> None:
        self._given = given

    def _begin(self, line: int, names: tuple) -> None:
        known = self._known[-1]
        pairs = zip(names, self._given[len(self._given) - len(names) :], strict=True)
        self._known.append({a: known[b] for a, b in pairs if b in known})

    def _end(self, line: int, names: tuple) -> None:
        known = self._known.pop()
        self._returned = [known[n] for n in names if n in known]

    def _over(self, line: int) -> None:
        self._returned = None

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
                    if active[lane] and kind != "literal" and _is_bad(values, lane, test):
                        return k
        return None

    def _way(self, step: int, lane: int) -> tuple[int, list[int]]:
        """Returns the step at which the NaN of another one appeared, and the way back from it."""
        test = np.isnan if _is_bad(self.rows[step][3], lane, np.isnan) else np.isinf
        while before := [k for k in self._used(step) if self._has(k, lane, test)]:
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

    def _has(self, step: int, lane: int, test: Callable) -> bool:
        return _is_bad(self.rows[step][3], lane, test)

    def _suspicion(self, step: int, lane: int) -> tuple:
        """Returns how likely an operand is why a result is no number: one that is none itself, no
        constant, no mask, and large."""
        value = self._value(step, lane)
        number = value.dtype.kind == "f"
        bad = number and not np.all(np.isfinite(value))
        size = float(np.max(np.abs(value))) if number and not bad else 0.0
        return bad, number, self.rows[step][6] != "literal", size


def plain(values: Any) -> list[int | float | str]:
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


def _is_bad(values: Any, lane: int, test: Callable) -> bool:
    """Returns whether a value of a lane, or of its vector, is a NaN or an infinity."""
    return values.dtype.kind == "f" and bool(np.any(test(values[..., lane])))

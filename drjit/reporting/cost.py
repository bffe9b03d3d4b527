"""What a kernel reads, writes and computes, from its text, and how near that comes to what the
machine can do. Rounds of loops are not counted while a kernel runs, so they are an estimate.
"""

import ast
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..jit.ir.nesting import ASSUMED_ITERATIONS
from ..jit.target import library
from ..jit.target.language import CALLABLE, STATEMENTS
from ..jit.target.simd.ir import BYTES, KernelError
from ..jit.target.simd.parse import functions
from .steps import EFFECTS

LAUNCH = 4e-6
"""Seconds in which hardly any kernel is launched and waited for."""
_ENOUGH = 0.4
"""The share of a limit from which on it is what bounds a kernel."""
_UNKNOWN = ("matmul", "reduce_rows", "block_reduce", "radix_count", "radix_move", "compress")

Value = tuple[str, int]
"""An element type, and the number of features."""


class Cost:
    """What a lane costs: bytes that are `read` and `written` in order, or `gathered` and
    `scattered`, and operations by the bits of their type. `shared` bytes are read once in a launch.
    `notes` tell what is not exact."""

    def __init__(self, text: str) -> None:
        self.read = self.written = self.gathered = self.scattered = self.shared = 0
        self.operations: Counter[int] = Counter()
        self.notes: dict[str, None] = {}
        self._types: dict[str, Value] = {}
        self._rounds = 1
        kernel, *others = functions(text)
        self._functions = {d.name: d for d in others}
        self._walk(kernel.body)

    def _walk(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            if isinstance(s, ast.Assign):
                results = self._value(s.value)
                names: Any = getattr(s.targets[0], "elts", s.targets)
                self._types |= {name.id: results for name in names}
            elif isinstance(s, ast.Expr | ast.Return) and s.value is not None:
                self._value(s.value)
            elif isinstance(s, ast.If):
                self._walk(s.body)
            elif isinstance(s, ast.While):
                self.notes[
                    f"Loops are counted with {ASSUMED_ITERATIONS} rounds, which is an estimate."
                ] = None
                self._rounds *= ASSUMED_ITERATIONS
                self._walk(s.body)
                self._rounds //= ASSUMED_ITERATIONS

    def _count(self, value: Value, times: float = 1) -> None:
        code, features = value
        bits = 64 if BYTES.get(code, 4) == 8 else 32
        if code != "mask":
            self.operations[bits] += int(times * features * self._rounds)

    def _value(self, e: ast.expr) -> Value:
        """Counts an expression and returns its type."""
        if isinstance(e, ast.Name):
            return self._types.get(e.id, ("", 1))
        if isinstance(e, ast.Call):
            return self._call(e.func.id, e.args)  # type: ignore[attr-defined]
        operands = [self._value(x) for x in ast.iter_child_nodes(e) if isinstance(x, ast.expr)]
        if not operands:
            return "", 1
        value = self._widest(operands)
        if not isinstance(e, ast.Tuple):
            self._count(value)
        return ("mask", value[1]) if isinstance(e, ast.Compare) else value

    def _widest(self, values: Sequence[Value]) -> Value:
        code = next((code for code, _ in values if code), "")
        return code, max([features for _, features in values])

    def _call(self, name: str, args: Sequence[Any]) -> Value:
        if name in BYTES:  # a conversion
            value = self._value(args[0])
            self._count((name, value[1]))
            return name, value[1]
        if name in self._functions:
            definition, types = self._functions[name], self._types
            given = zip(definition.args.args[2:], args[2:], strict=True)
            self._types = {a.arg: self._value(x) for a, x in given}
            self._walk(definition.body)
            last = definition.body[-1]
            value = self._value(last.value) if isinstance(last, ast.Return) and last.value else None
            self._types = types
            return value or ("", 1)
        if name in CALLABLE or name in library.names:
            values = [self._value(x) for x in args]
            value = self._widest(values[1:] if name == "select" else values)
            times = 2 if name == "fma" else 1
            self._count(value, library_cost(name, value[0]) if name in library.names else times)
            return value
        return self._access(name, args)

    def _access(self, name: str, args: Sequence[Any]) -> Value:
        """Counts a statement that is not element-wise; its first argument is mostly a type."""
        code = getattr(args[0], "id", "") if args else ""
        size = BYTES.get(code, 0)
        numbers = [x.value for x in args if type(x) is ast.Constant and type(x.value) is int]
        if name in _UNKNOWN:
            self.notes["Loops within a statement are not counted."] = None
        elif name.startswith("gather"):
            taps = (len(args) - 4) // 2 if name == "gather_weighted" else 1
            entries = numbers[0] if name != "gather" else 1
            self.gathered += size * entries * taps * self._rounds
            self._count((code, entries), 2 * taps if name == "gather_weighted" else 0)
        elif name.startswith("scatter"):
            entries = len(args) - EFFECTS[name][0] if name.endswith("_packet") else 1
            self.scattered += size * entries * self._rounds
            if name not in ("scatter", "scatter_packet"):  # it reads what it replaces
                self.gathered += size * entries * self._rounds
                self._count((code, entries))
        elif name in ("matvec", "outer"):
            rows, columns = numbers[:2]
            self.shared += max(size, 4) * rows * columns
            self._count((code, rows * columns), 2)
            transposed = name == "matvec" and getattr(args[6], "value", False)
            return code, columns if transposed else rows
        elif name in ("feature", "take", "put", "total", "accumulate"):
            value = self._value(args[-2] if name == "accumulate" else args[0])
            self._count(value, name in ("total", "accumulate"))
            return value if name == "put" else (value[0], 1)
        else:
            return self._simple(name, code, numbers, len(args))
        return code, 1

    def _simple(self, name: str, code: str, numbers: list[int], arguments: int) -> Value:
        """Counts a statement on consecutive lanes, or one without operations."""
        features = numbers[0] if name.endswith("_vector") or name == "splat" else 1
        nbytes = BYTES.get(code, 0) * features
        if name in ("load", "load_vector"):
            self.read += nbytes
        elif name in ("store", "stream", "store_vector"):
            self.written += nbytes
        elif name in ("broadcast", "broadcast_vector"):
            self.shared += nbytes
        elif name in ("reduce", "scan", "scan_totals", "scan_blocks"):
            self._count((code, 1))
        if name == "vector":
            return code, arguments - 1
        row = STATEMENTS.get(name)
        return (row.result, 1) if row and row.result in BYTES else (code, features)


@cache
def library_cost(name: str, code: str) -> int:
    """Returns the operations of a function of the library on usual arguments: those within
    branches are for others.

    >>> library_cost("sin", "f32") > 10
    True
    """
    code = "f32" if code in ("f16", "") else code
    try:
        definition = library.function(name, code)
    except KeyError:
        return 1
    total = 0
    for s in definition.body:
        nodes = [] if isinstance(s, ast.If) else ast.walk(s)
        for e in nodes:
            if isinstance(e, ast.BinOp | ast.Compare | ast.UnaryOp):
                total += 1
            elif isinstance(e, ast.Call) and isinstance(e.func, ast.Name):
                called = e.func.id
                base, _, suffix = called.rpartition("_")
                if called == "fma":
                    total += 2
                elif called == "polynomial":
                    total += 2 * (len(library.table(e.args[1].id)) - 1)  # type: ignore
                elif called in CALLABLE:
                    total += 1
                elif suffix in BYTES and base:
                    total += library_cost(base, suffix)
                elif called in library.names:
                    total += library_cost(called, code)
    return total


def describe(entry: dict[str, Any], text: str, sizes: Counter[int], limits: dict[str, Any]) -> None:
    """Adds to a kernel's entry what all its launches read, write and compute, and how near that
    comes to the limits of the machine: `share`, what it is bound by, and the seconds to `gain` if
    it came all the way."""
    entry |= {"read": 0, "written": 0, "operations": 0, "bound": "", "share": 0.0, "gain": 0.0}
    entry |= {"modelled": bool(limits.get("modelled")), "words": entry.get("words", [])}
    try:
        cost = Cost(text)
    except (KernelError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        entry["words"].append("What it computes could not be counted.")
        return
    lanes = sum([n * times for n, times in sizes.items()])
    launches = sum(sizes.values())
    streamed = lanes * (cost.read + cost.written) + launches * cost.shared
    operations = {bits: lanes * n for bits, n in cost.operations.items()}
    entry["read"] = lanes * (cost.read + cost.gathered) + launches * cost.shared
    entry["written"] = lanes * (cost.written + cost.scattered)
    entry["operations"] = sum(operations.values())
    entry["words"] += cost.notes
    seconds = entry["seconds"]
    if not limits or not seconds or not launches:
        return
    flops = limits["flops"]
    arithmetic = sum([n / flops["f64" if bits == 64 else "f32"] for bits, n in operations.items()])
    memory = (entry["read"] + entry["written"]) / limits["bandwidth"]
    if memory > seconds > streamed / limits["bandwidth"]:
        memory = streamed / limits["bandwidth"]
        entry["words"].append("Most of what it gathers or scatters is in caches.")
    share = min(max(arithmetic, memory) / seconds, 1.0)
    if share >= _ENOUGH:
        bound = "memory" if memory >= arithmetic else "arithmetic"
    elif entry["tier"] != "compiled" or launches * LAUNCH >= seconds / 2:
        bound = "launch"
    else:
        bound = "latency"
    entry |= {"bound": bound, "share": round(share, 4), "gain": round(seconds * (1 - share), 9)}

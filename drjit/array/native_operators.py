"""Native operators of traced one-dimensional arrays: slots of their classes that make the array and
the node themselves where operands are plain (`drjit.jit.native.operators`), and call the functions
of `recorders` for all others. A program that traces much gets them, see `cpu.warm_up`.

A slot wrapper, as classes written in C have, is what puts native code into a slot: Python does so
itself when a class gets one as an attribute, and subclasses inherit and override it as usual.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from ..ad.algebra import element_recorder
from ..ad.graph import GradScope, Inner, Var, scopes, taped
from ..jit import flags, substitutes
from ..jit.ir import node
from ..jit.ir import op as ops
from ..jit.ir.dtype import DType
from ..jit.native import loader, objects
from ..jit.run import launch
from ..jit.target import foreign
from . import inline, recorders, table

# Comparisons are numbered as by Python.
_COMPARISONS = ops.lt, ops.le, ops.eq, ops.ne, ops.gt, ops.ge
_NUMBERED = (*_COMPARISONS, *ops.ARITHMETIC, *ops.UNARY)
_RECORDED = "recorded_unary", "recorded_binary", "recorded_ternary"
_GENERATED = inline.__name__, recorders.__name__
_MOST = 256  # classes with native operators: look-ups end at an empty one of twice as many cells

_OBJECTS = {"var_type": Var, "inner_type": Inner, "scopes": scopes, "taped": taped}
objects.samples[objects.Var] = Var
objects.samples[objects.GradScope] = GradScope
Operators, Record = map(objects.layout, (objects.Operators, objects.OperatorRecord))
_memory = bytearray(ctypes.sizeof(Operators) + 64)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_memory))
_start = ctypes.addressof(ctypes.c_char.from_buffer(_memory))
_operators: Any = Operators.from_address(_start + -_start % 64)
foreign.symbols["drjit_operators"] = ctypes.addressof(_operators)


class _OrdinaryNumbers(dict[float, float | None]):
    """A table of numbers rounded to a type. The value is None for zeros, as -0.0 equals 0.0, for
    the `special` numbers, which may simplify an operation, and for integers that the type does not
    have. Programs use the same few constants over and over."""

    def __init__(self, dtype: DType, special: tuple) -> None:
        super().__init__()
        self._dtype, self._special = dtype, special

    def __missing__(self, value: float) -> float | None:
        if len(self) >= 4096:
            self.clear()
        found, t = value, self._dtype
        if value and t.is_float:
            found = node.ROUNDED[t](value)
        elif not t.low <= value <= t.high:
            found = None
        self[value] = found = None if not found or found in self._special else found
        return found


ordinary_numbers = cache(_OrdinaryNumbers)


# Windows has no table of far addresses, through which the code refers to its data elsewhere.
HAS_SLOTS = sys.platform != "win32"
MODULES = "operators adjoint" if HAS_SLOTS else ""
OBJECTS = [objects.Node, objects.Var, objects.GradScope]


def fits() -> bool:
    """Returns whether the interpreter's wrappers of slots are as expected."""
    return not HAS_SLOTS or bool(_bases())


def exported() -> list[str]:
    """Returns the names of the code's functions."""
    if not HAS_SLOTS:
        return []
    return ["compare", *_RECORDED, "collect_variables", "cut", *[f for f, *_ in _definitions()]]


def definitions() -> dict[str, str]:
    """Returns those of them that the modules do not have, one for each operator: see
    `loader.addresses`."""
    rows = _definitions() if HAS_SLOTS else []
    text = "".join([f"def {f}({xs}):\n    return {call}, {xs})\n" for f, xs, call in rows])
    return {"operators": text} if text else {}


def _definitions() -> list[tuple[str, str, str]]:
    two, one = [[o.name for o in row] for row in (ops.ARITHMETIC, ops.UNARY)]
    first = len(_COMPARISONS)
    rows = [(f"op_{name}", "x, y", f"binary({first + k}") for k, name in enumerate(two)]
    rows += [(f"in_place_{name}", "x, y", f"in_place({first + k}") for k, name in enumerate(two)]
    first += len(two)
    rows += [(f"op_{name}", "x", f"unary({first + k}") for k, name in enumerate(one)]
    return rows


def _bases() -> dict[str, int]:
    """Returns the addresses of what Python knows about the special methods of operators, which the
    wrappers of `int` refer to; nothing if wrappers are laid out in another way."""
    methods = [o.method for o in _NUMBERED] + [f"r{o.method}" for o in ops.ARITHMETIC]
    found: dict[str, int] = {}
    for name in [sys.intern(f"__{method}__") for method in methods]:
        words = objects.memory_of(vars(int)[name])
        if len(words) != 7 or words[2:4] != [id(int), id(name)]:
            return {}
        found[name] = words[5]
    base, function = objects.memory_of(vars(float)["__mul__"])[5:]
    same = found["__mul__"] == base != found["__rmul__"] and len({*found.values()}) == len(found)
    return found if same and function == objects.memory_of(vars(float)["__rmul__"])[6] else {}


def _place(descriptor: Any, cls: type) -> int:
    """Returns where an object of the class has an attribute, in bytes."""
    made, mark = object.__new__(cls), object()
    descriptor.__set__(made, mark)
    return 8 * objects.memory_of(made).index(id(mark))


def _fields(cls: Any) -> tuple[int, int]:
    """Returns where an array of the class has its node and variable."""
    return _place(cls._node, cls), _place(cls._var, cls) if cls._diff else 0


def _address(thing: Any) -> int:
    return 0 if thing is None else id(thing)


class NativeOperators:
    """The native operators of all classes, and what their code refers to, which is never freed."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places, self._bases = places, _bases()
        self._python: dict[tuple[type, str], Any] = {}  # the methods that were there before
        self._referents: list[Any] = []
        self._classes = 0
        self._fields = cache(_fields)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._referents))
        objects.fill(_operators, **_OBJECTS)
        for k, o in enumerate(_NUMBERED):
            for at, kind in (k, ""), (objects.OTHERS + k, "i"):
                other = self._other(f"__{kind}{o.method}__", f"__r{o.method}__")
                self._referents.append(other)
                _operators.others[at] = id(other)

    def _other(self, method: str, reflected: str) -> Callable:
        """Returns the operator for an operand of a class that a program derived."""
        known = self._python

        def other(x: Any, *more: Any) -> Any:
            for first, name, second in ((x, method, more), *[(y, reflected, (x,)) for y in more]):
                for cls in type(first).__mro__:
                    if (cls, name) in known:
                        return known[cls, name](first, *second)
            return NotImplemented

        return other

    def add(self, cls: Any) -> None:
        """Gives a class its native operators."""
        if cls._kind != "leaf" or not cls._usable or self._classes == _MOST:
            return
        self._classes += 1
        records = (Record * len(_NUMBERED))()
        self._referents += (cls, records)
        found: dict[str, tuple[str, Any]] = {}  # methods, and the functions for the slots
        for o, record in zip(_NUMBERED, records, strict=True):
            name, entry = o.method, "compare" if o in _COMPARISONS else f"op_{o.name}"
            methods = [f"__{name}__", f"__r{name}__"] if o in ops.ARITHMETIC else [f"__{name}__"]
            functions = [vars(cls).get(m) for m in methods]
            if all(type(f) is FunctionType and f.__module__ in _GENERATED for f in functions):
                self._fill(record, o, cls, *functions)
                found |= {m: (entry, f) for m, f in zip(methods, functions, strict=True)}
        k = id(cls) >> 4
        while _operators.cells[k % len(_operators.cells)].object:
            k += 1
        cell = _operators.cells[k % len(_operators.cells)]
        cell.records, cell.object = ctypes.addressof(records), id(cls)
        for method, (entry, function) in found.items():
            made = loader.slot_wrapper(cls, self._bases[method], self._places[entry])
            self._set(cls, method, function, made)
        for o in ops.ARITHMETIC:
            if f"__{o.method}__" in found:
                method = f"__i{o.method}__"
                text = f"{method}($self, value, /)\n--\n\nReturn self{o.symbol}=value."
                place = self._places[f"in_place_{o.name}"]
                after = loader.method(cls, method, place, text)
                self._set(cls, method, getattr(cls, method), after)

    def _set(self, cls: type, method: str, before: Any, after: Any) -> None:
        self._python[cls, method] = before
        setattr(cls, method, after)

    def _fill(
        self, record: Any, o: ops.Op, cls: Any, array_first: Any, number_first: Any = None
    ) -> None:
        result = cls.Mask if o.result == "mask" else cls
        fold = node.folder(o, result._dtype)
        special = ops.special_numbers(o, cls._dtype)
        tables = [self._numbers(cls, o, s) for s in (special if o.commutative else (), special)]
        self._referents += (array_first, number_first, tables, fold, result, cls.Mask)
        record.type, record.op, record.out = id(cls), id(o), id(result._dtype)
        record.node, record.var = self._fields(cls)
        first = cls.Mask if o.result == "second" else cls
        record.first, record.first_node = id(first), self._fields(first)[0]
        record.dtype, record.result = id(cls._dtype), id(result)
        record.result_node, record.result_var = self._fields(result)
        (first, first_zero), (second, second_zero) = tables
        if not o.in_code:  # numbers are data
            record.first_numbers, record.first_zero = _address(first), _address(first_zero)
            record.zero = _address(second_zero)
        record.numbers, record.in_code = _address(second), o.in_code
        record.floats, record.fold = cls._dtype.is_float, _address(fold)
        record.involution, record.idempotent = id(o) if o.involution else 0, o.idempotent
        record.forward, record.backward = id(array_first), id(number_first)
        rule = element_recorder(o, result._dtype)[0]
        if rule is not None:
            record.rule = id(rule)
            record.keeps_inputs, record.keeps_result = rule.keeps_inputs, rule.keeps_result

    def _numbers(self, cls: Any, o: ops.Op, special: tuple) -> tuple[Any, Any]:
        """Returns the table of numbers that are an operand, and the zero of their type, if that is
        one; None for none."""
        if o.arity == 1 or cls._dtype.is_mask:
            return None, None
        zero = None if 0 in special else 0.0 if cls._dtype.is_float else 0
        return ordinary_numbers(cls._dtype, special), zero

    def recorder(self, o: ops.Op, cls: Any, function: Callable) -> Callable:
        """Returns the native form of a function that records an operation on arrays of a class."""
        if (
            cls._kind != "leaf"
            or not cls._usable
            or o.arity > 3
            or function is inline.record_nothing
        ):
            return function
        record = Record()
        self._referents.append(record)
        self._fill(record, o, cls, function, lambda x, y: function(y, x))
        name = _RECORDED[o.arity - 1]
        return loader.bound(name, self._places[name], ctypes.addressof(record))


_installed: NativeOperators | None = None


def install(places: dict[str, int]) -> None:
    """Gives all classes native operators, and the traversals of variables theirs, once."""
    global _installed
    if not HAS_SLOTS or _installed is not None:
        return
    _installed = made = NativeOperators(places)
    table.for_each(made.add)
    inline.use_native(made.recorder)
    substitutes.collect_variables = loader.bound("collect_variables", places["collect_variables"])
    substitutes.cut = loader.bound("cut", places["cut"])
    flags.on_debug_switch(_switch)


def _switch(debugging: bool) -> None:
    """Switches native operators off where others have to see what happens."""
    _operators.off = debugging or launch.on_change is not None

"""The text of an exported file."""

import base64
import os
import zlib
from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

from ...jit.ir.dtype import BY_CODE, DType
from ...jit.ir.location import describe
from ...jit.ir.op import starting_value
from ...jit.lazy import np
from ...jit.run.freeze import Literal, RecordedLaunch, Recording, ValueNumber
from ...jit.run.launch import to_numpy
from ...jit.target.scalar import ExportedModule
from ...jit.target.scalar.expressions import CannotExport, constant
from ...jit.target.scalar.kernel import KernelFunction, kernel
from ...jit.target.scalar.module import definitions_of
from ..freeze.recordings import GeneralRecording, Proportion, SizedNumber

_SUPPORT = os.path.join(os.path.dirname(__file__), "support.py")
FEW = 8  # entries of a constant that are written as numbers


class TracedKernel(NamedTuple):
    """A kernel as a recording has it: the text, the place of bounds checks among its words, and the
    words with the addresses of its inputs, targets and outputs."""

    text: str
    first_check: int
    checks: int
    words: tuple[int, ...]

    def values(self, step: RecordedLaunch) -> dict[int, int]:
        """Returns the values of a launch whose addresses are among its words, by these."""
        return dict(zip(self.words, [*step.read, *step.results], strict=True))


def traced_kernel(kernel: Any) -> TracedKernel:
    """Returns a kernel as a recording has it."""
    program = kernel.program
    first = 1 + len(program.inputs) + len(program.literals)
    words = [*range(1, 1 + len(program.inputs))]
    word = first + program.checks
    for _, mode in program.effects:
        words.append(word)
        word += 3 if mode == "expand" else 1
    # Before its result, a reduction has a word for partial results.
    words += [o.param + (o.kind == "reduce") for o in program.outputs if o.kind != "effect"]
    # Whether results bypass the caches depends on sizes.
    text = kernel.text.replace("    stream(", "    store(")
    return TracedKernel(text, first, program.checks, tuple(words))


class Leaf(NamedTuple):
    """A one-dimensional array: its value, element type and size."""

    value: Any
    dtype: DType
    size: Any


class TreePart(NamedTuple):
    """A container: its kind, its keys or shape, and its parts."""

    kind: str
    keys: Any
    parts: tuple


class Traced(NamedTuple):
    """A function to write: its name, the names of its parameters, the recording, its sizes (0 for
    those that are free), why others are fixed, and its documentation."""

    name: str
    parameters: tuple[str, ...]
    general: GeneralRecording
    sizes: tuple[int, ...]
    reasons: dict[int, str]
    title: str


class File:
    """An exported file under construction."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.module = ExportedModule()
        self.kernels: dict[Any, KernelFunction] = {}
        self.constants: dict[tuple, str] = {}
        self.constant_texts: list[str] = []
        self.support: dict[str, None] = {}
        self.functions: list[str] = []
        self.sites: list[str] = []

    def use(self, name: str) -> str:
        """Adds a support function, and those that it needs."""
        if name not in self.support:
            for other in sorted(definitions_of(_SUPPORT)[1][name]):
                self.use(other)
            self.support[name] = None
        return name

    def kernel(self, code: TracedKernel) -> KernelFunction:
        """Returns the function of a kernel, which is added on first use."""
        found = self.kernels.get(code)
        if found is None:
            name = f"kernel_{len(self.kernels)}"
            try:
                found = kernel(self.module, name, code.text, code.first_check, code.checks)
            except CannotExport as error:
                raise RuntimeError(f"{self.what}: {error}") from None
            self.kernels[code] = found
        return found

    def constant(self, values: np.ndarray) -> str:
        """Returns the name of an array in the file."""
        key = values.dtype.str, values.tobytes()
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"DATA_{len(self.constants)}"
            self.constant_texts.append(self._data(name, values))
        return name

    def _data(self, name: str, values: np.ndarray) -> str:
        dtype = f"np.{values.dtype.name}" if values.dtype.kind != "b" else "np.bool_"
        if values.size <= FEW and np.isfinite(values.astype(np.float64)).all():
            return f"{name} = np.array({values.tolist()}, {dtype})"
        text = base64.b85encode(zlib.compress(values.tobytes(), 9)).decode()
        rows = [f'    "{text[k : k + 92]}"' for k in range(0, len(text), 92)]
        self.use("data")
        body = "\n".join(rows)
        return f"{name} = data(  # {values.size} numbers\n{body},\n    {dtype},\n)"

    def text(self, head: str) -> str:
        """Returns the whole file."""
        module = self.module
        helpers = "\n\n\n".join([*module.helpers])
        for name in module.host_names:
            self.use(name)
        support = self.support
        parts = [head, ""]
        parts += ["import base64"] if "data" in support else []
        parts += ["import itertools", "import math", "import os"] if "spans" in support else []
        parts += ["import sys"] if module.kernels else []
        parts += ["import zlib"] if "data" in support else []
        if "spans" in support:
            parts.append("from concurrent.futures import ThreadPoolExecutor")
        parts += ["", "import numpy as np"]
        if module.kernels:
            parts.append(f"from numba import njit{', types' if 'types.' in helpers else ''}")
        if "@intrinsic" in helpers:
            parts.append("from numba.extending import intrinsic")
        parts += ["", _ALIASES]
        blocks = [*module.helpers, *module.tables, *module.library_texts, *module.kernels]
        blocks += [
            text for name, text in definitions_of(_SUPPORT)[0].items() if name in self.support
        ]
        blocks += [*self.sites, *self.functions]
        if self.constant_texts:
            blocks.append("\n".join(self.constant_texts))
        return "\n".join(parts) + "\n\n\n" + "\n\n\n".join(blocks) + "\n"


_ALIASES = """i8, u8, i16, u16 = np.int8, np.uint8, np.int16, np.uint16
i32, u32, i64, u64 = np.int32, np.uint32, np.int64, np.uint64
f16, f32, f64, mask = np.float16, np.float32, np.float64, np.bool_
TILE = 64"""


class PublicFunctionWriter:
    """Writes the public function of a recording."""

    def __init__(self, file: File, traced: Traced) -> None:
        self.file, self.traced = file, traced
        self.recording: Recording = traced.general.recording
        self.names: dict[int, str] = {}
        self.dtypes: dict[int, DType] = {}
        self.labels: dict[int, str] = {}  # of arguments
        self.lines: list[str] = []
        self.size_names = [str(n) if n else f"n{k}" for k, n in enumerate(traced.sizes)]
        self.bound_sizes: set[int] = set()

    def write(self) -> None:
        """Adds the function to the file."""
        traced, recording = self.traced, self.recording
        arguments, result = recording.outcome
        self.lines = [
            f"def {traced.name}({', '.join(traced.parameters)}):",
            *_docstring(traced, arguments, result),
        ]
        for name, part in zip(traced.parameters, arguments.parts, strict=True):
            self.argument(part, name, name)
        for number, length in traced.general.even:
            size = self.size(number)
            self.add(f"if {size} % {length}:")
            self.add(f'    raise ValueError(f"expected a multiple of {length}, got {{{size}}}")')
        for number, n in recording.constants:
            values = to_numpy(n.dtype, n.size, n.data)
            self.names[number] = self.file.constant(np.array(values))
            self.dtypes[number] = n.dtype
        for step in recording.steps:
            if isinstance(step, RecordedLaunch):
                self.launch(step)
            else:
                self.operation(step)
        self.add(f"return {self.result(result)}")
        self.file.functions.append("\n".join(self.lines))

    def add(self, line: str) -> None:
        self.lines.append(f"    {line}")

    def size(self, number: Any) -> str:
        """Returns a size as an expression."""
        if type(number) is not SizedNumber:
            return str(int(number))
        found = []
        for p in number.options:
            product, divisor = fraction(p, self.size_names[p.which])
            found.append(product if divisor == 1 else f"{product} // {divisor}")
        return min(found, key=len)

    def literal(self, dtype: DType, value: Any) -> str:
        """Returns a literal as an expression of its type."""
        if type(value) is not SizedNumber:
            return constant(dtype.element.code, value)
        number = self.size(value)
        return f"{dtype.element.code}({f'1 / np.float64({number})' if value.inverse else number})"

    # ---- Arguments

    def argument(self, part: Any, value: str, name: str) -> None:
        """Reads an argument, and checks its type and size."""
        use = self.file.use
        if isinstance(part, str):
            self.add(f"{use('same')}({value}, {part}, {name!r})")
        elif isinstance(part, Leaf):
            made = self.value(part, name)
            self.add(f"{made} = {use('entries')}({value}, {_numpy(part.dtype)}, {name!r})")
            self.check_size(made, part.size, name)
        elif part.kind == "tensor":
            (leaf,) = part.parts
            made = self.value(leaf, name)
            shape = [self.size(n) for n in part.keys]
            free = [k for k, n in enumerate(part.keys) if type(n) is SizedNumber]
            shown = ", ".join(["None" if k in free else n for k, n in enumerate(shape)])
            shown += "," if len(shape) == 1 else ""
            self.add(
                f"{made} = {use('shaped')}({value}, ({shown}), {_numpy(leaf.dtype)}, {name!r}"
                f"{self.reason(part.keys[0] if part.keys else 0)})"
            )
            self.check_size(made, leaf.size, name)
        elif part.kind == "nested":
            shape, leaves = _components(part)
            made = [self.value(leaf, name) for leaf in leaves]
            shown = ", ".join(map(str, shape))
            whole = f"{made[0]}_all"
            self.add(
                f"{whole} = {use('shaped')}({value}, ({shown}, None), {_numpy(leaves[0].dtype)}, "
                f"{name!r})"
            )
            comma = "," if len(made) == 1 else ""
            self.add(f"{', '.join(made)}{comma} = np.split({whole}, {len(made)})")
            self.check_size(made[0], leaves[0].size, name)
        else:
            for k, inner in enumerate(part.parts):
                if part.kind == "struct":
                    where = f"{use('field')}({value}, {part.keys[k]!r})"
                    self.argument(inner, where, f"{name}.{part.keys[k]}")
                else:
                    key = repr(part.keys[k]) if part.kind == "dict" else str(k)
                    self.argument(inner, f"{value}[{key}]", f"{name}[{key}]")

    def reason(self, size: Any) -> str:
        """Returns the argument that says why a size is fixed."""
        found = None if type(size) is SizedNumber else self.traced.reasons.get(int(size))
        return f", {found!r}" if found else ""

    def value(self, leaf: Leaf, label: str) -> str:
        """Returns the name of an argument's array."""
        self.labels[leaf.value] = label
        return self.new_value(leaf.value, leaf.dtype, "a")

    def check_size(self, made: str, size: Any, name: str) -> None:
        """Takes a size from an argument, or compares it."""
        if type(size) is SizedNumber:
            for option in size.options:
                if option.length == 1 and option.which not in self.bound_sizes and (
                    option.value % option.at == 0
                ):  # fmt: skip
                    self.bound_sizes.add(option.which)
                    factor = option.value // option.at
                    n = self.size_names[option.which]
                    self.add(f"{n} = {made}.size" + (f" // {factor}" if factor > 1 else ""))
                    return
        given = f"{made}, {self.size(size)}, {name!r}{self.reason(size)}"
        self.add(f"{self.file.use('sized')}({given})")

    # ---- Steps

    def new_value(self, number: int, dtype: DType, letter: str = "t") -> str:
        """Returns the name of a new value."""
        name = self.names[number] = f"{letter}{number}"
        self.dtypes[number] = dtype
        return name

    def passed(self, number: int) -> str:
        """Returns a value as kernels take it: halves are 16-bit integers."""
        name = self.names[number]
        return f"{name}.view(u16)" if self.dtypes[number].element.code == "f16" else name

    def launch(self, step: RecordedLaunch) -> None:
        """Writes the launch of a kernel."""
        code: Any = step.kernel
        size = self.size(step.size)
        function = self.file.kernel(code)
        for made in step.outputs:
            if made is None:
                continue
            number, dtype, reduced = made
            lanes = "1" if reduced else size
            if dtype.is_vector:
                lanes = f"(({lanes} + 63) // 64 * {64 * dtype.count})"
            name = self.new_value(number, dtype)
            self.add(f"{name} = np.empty({lanes}, {_numpy(dtype.element)})")
        numbers = code.values(step)
        words = {k: self.passed(number) for k, number in numbers.items()}
        for k, (dtype, value) in enumerate(step.literals):
            words[1 + len(step.inputs) + k] = self.literal(dtype, value)
        for k, first, extent in function.matrices:
            if numbers[k] in self.labels:
                given = f"{words[k]}, int({words[first]}) + {extent}, {self.labels[numbers[k]]!r}"
                self.add(f"{self.file.use('holds')}({given})")
        given = [size, *[words[k] for k in function.words]]
        if function.checks:
            given[1:1] = ["error", self.bounds(step)]
            self.add("error = np.zeros(5, i64)")
        self.add(f"{function.name}({', '.join(given)})")
        if function.checks:
            self.add(f"{self.file.use('check')}(error, SITES_{len(self.file.sites) - 1})")

    def bounds(self, step: RecordedLaunch) -> str:
        """Writes the table of the places that check bounds; returns their sizes."""
        rows, sizes = [], []
        for (count, what, where, signed, _, packet), dtype in step.checks:
            rows.append(f"    ({what!r}, {short(where)!r}, {dtype.itemsize * signed}, {packet}),")
            sizes.append(self.size(count))
        name = f"SITES_{len(self.file.sites)}"
        self.file.sites.append("\n".join([f"{name} = (", *rows, ")"]))
        return f"np.array([{', '.join(sizes)}], u64)"

    def operation(self, step: Any) -> None:
        """Writes the call of a primitive."""
        given, use = step.arguments, self.file.use
        values = [self.operand(a) for a in given]
        source: Any = next(a for a in given if isinstance(a, ValueNumber | Literal | DType))
        dtype = self.dtypes[source] if type(source) is ValueNumber else source
        dtype = dtype.dtype if isinstance(dtype, Literal) else dtype
        match step.function.__name__:
            case "_duplicate":
                text = f"{values[0]}.copy()"
            case "_allocated":
                text = f"np.empty({values[0]}, {values[1]})"
            case "_sorted":
                dtype = dtype if given[1] is None else BY_CODE["u32"]
                text = f"{use('sort')}({values[0]}, {values[1]})"
            case "matmul":
                text = f"{use('products')}({', '.join(values)})"
            case "_block_reduce":
                text = f"{use('block_reduce')}({', '.join(values[:3])})"
            case name:  # `prefix` and `reduce_rows`
                wide = dtype.accumulator
                start = constant(wide.code, starting_value(given[0], wide))
                text = f"{use(name)}({', '.join([*values, start])})"
        self.add(f"{self.new_value(step.results[0], dtype)} = {text}")

    def operand(self, a: Any) -> str:
        """Returns an argument of a primitive."""
        if type(a) is ValueNumber:
            return self.names[a]
        if type(a) is Literal:
            return (
                f"np.full({self.size(a.size)}, {self.literal(a.dtype, a.value)}, {_numpy(a.dtype)})"
            )
        if type(a) is SizedNumber:
            return self.size(a)
        if isinstance(a, tuple):
            return f"({', '.join([self.operand(v) for v in a])}{',' if len(a) == 1 else ''})"
        if isinstance(a, DType):
            return _numpy(a)
        return repr(a)

    # ---- The result

    def result(self, part: Any) -> str:
        """Returns a result as an expression."""
        if isinstance(part, str):
            return part
        if isinstance(part, Leaf):
            if type(part.value) is ValueNumber:
                name = self.names[part.value]
                return name if name.startswith("t") else f"{name}.copy()"
            return self.operand(part.value)
        if part.kind == "tensor":
            shape = ", ".join([self.size(n) for n in part.keys])
            return f"{self.result(part.parts[0])}.reshape({shape or '()'})"
        parts = [self.result(p) for p in part.parts]
        if part.kind == "nested":
            return f"{self.file.use('stacked')}([{', '.join(parts)}])"
        if part.kind == "tuple":
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if part.kind == "list":
            return f"[{', '.join(parts)}]"
        rows = [f"{k!r}: {v}" for k, v in zip(part.keys, parts, strict=True)]
        return f"{{{', '.join(rows)}}}"


def _numpy(dtype: DType) -> str:
    return "np.bool_" if dtype.is_mask else f"np.{dtype.element.name}"


def _components(part: Any) -> tuple[list[int], list[Leaf]]:
    """Returns the shape of a nested array without its last axis, and its leaves."""
    if isinstance(part, Leaf):
        return [], [part]
    found = [_components(p) for p in part.parts]
    return [len(part.parts), *found[0][0]], [leaf for _, leaves in found for leaf in leaves]


def _docstring(traced: Traced, arguments: TreePart, result: Any) -> list[str]:
    lines = [f'    """{traced.title}', ""]
    for name, part in zip(traced.parameters, arguments.parts, strict=True):
        lines.append(f"    {name}: {_described(part)}")
    return [*lines, f"    Returns {_described(result)}.", '    """']


def _described(part: Any) -> str:
    """Describes an argument or result."""
    if isinstance(part, str):
        return part
    if isinstance(part, Leaf):
        return f"array of {part.dtype.name}"
    if part.kind == "tensor":
        sizes = ["n" if type(n) is SizedNumber else str(n) for n in part.keys]
        comma = "," if len(sizes) == 1 else ""
        return f"array of {part.parts[0].dtype.name}, shape ({', '.join(sizes)}{comma})"
    if part.kind == "nested":
        shape, leaves = _components(part)
        return f"array of {leaves[0].dtype.name}, shape ({', '.join(map(str, shape))}, n)"
    inner = [_described(p) for p in part.parts]
    if part.kind in ("dict", "struct"):
        rows = ", ".join([f"{k!r}: {v}" for k, v in zip(part.keys, inner, strict=True)])
        return f"dictionary {{{rows}}}"
    return f"({', '.join(inner)})" if part.kind == "tuple" else f"[{', '.join(inner)}]"


def write(traced: Sequence[Traced], what: str, head: str) -> str:
    """Returns the text of a file with some functions."""
    file = File(what)
    for t in traced:
        PublicFunctionWriter(file, t).write()
    return file.text(head)


def short(place: Any) -> str:
    """Returns a place without its folder."""
    return describe(place).rpartition("/")[2]


def fraction(p: Proportion, size: str) -> tuple[str, int]:
    """Returns a multiple of a size, as an expression, and what it is to be divided by."""
    shared = gcd(p.value, p.at)
    factor = p.value // shared
    parts = size if p.length == 1 else f"(({size} + {p.length - 1}) // {p.length})"
    return parts if factor == 1 else f"{factor} * {parts}", p.at // shared

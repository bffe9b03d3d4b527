"""`dr.export`: a function as a file that needs NumPy and Numba only, or as an object file
(`object.py`).

The function is traced: its launches are those that a frozen function records, for arguments of
which only types and sizes matter; nothing is launched. Traces for different sizes tell which sizes
are free, and how numbers depend on them.
"""

import inspect
import os
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

from ...array import leaf, tree
from ...array.base import ArrayBase, type_label
from ...array.pytree import leaf_arrays, map_tree
from ...function.ad.grad import detach, enable_grad, grad
from ...function.ad.propagate import ADContextManager, ADScope, backward
from ...function.data.reduce import sum as total
from ...jit import flags, log
from ...jit.device import Buffer, Operands
from ...jit.ir import dtype as dt
from ...jit.ir.location import describe, user_location
from ...jit.ir.node import BUFFER, LITERAL, Node, buffer
from ...jit.ir.scope import innermost
from ...jit.run import freeze, schedule
from ...jit.run.freeze import Literal, RecordedLaunch, RecordedOperation, Recorder, Recording
from ...jit.run.freeze_size import plain
from ...jit.text.names import without_names
from ..freeze.layout import (
    InputLayout,
    evaluated_layout,
    free_variables,
    keys_and_parts,
    kind_of,
    nodes_in,
)
from ..freeze.recordings import Different, GeneralRecording, generalize
from ..freeze.result import Snapshot
from ..region.state import call
from .file import Leaf, Traced, TreePart, short, traced_kernel, write
from .interface import parameters

_OBJECTS = (".o", ".obj")
_HEAD = '''"""{title}

Written by drjit.export from {origin}. It needs NumPy and Numba.

{functions}
Arrays of the original are NumPy arrays here: Array3f one of shape (3, n), data classes are
dictionaries. Sizes may differ from those in the export, but equal ones must stay equal. Kernels are
functions of ordinary Python loops, compiled on their first call. A comment names the line that the
statements after it come from.
"""'''


def export(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | os.PathLike[str] | None = None,
    gradient: bool = False,
    name: str | None = None,
    target: str | None = None,
) -> Path:
    """Writes a function as a Python file that needs NumPy and Numba only, or as an object file, and
    returns the path of the file.

    `dr.export(frozen, "step.o")` writes the recordings of a frozen function to an object file, and
    the declaration of a C function for each to `step.h`; see docs/leaving-python.md. It is for this
    machine's processor and system, or for the `target`: a processor ("x86-64-v3"), a system
    ("aarch64-apple-darwin"), or both, separated by a colon. The suffix is `.o` or `.obj`, and
    `name` that of the functions, by default that of the file. All that follows is about Python
    files.

    The function is traced for `arguments`, which are examples: their types count, not their
    contents. The file has a function of the same name (or `name`) that runs the same kernels on
    NumPy arrays. Arguments and results have the structure of the original: an array is an array of
    one axis, a tensor one of the same shape, an `Array3f` one of shape (3, n), a data class a
    dictionary (as an argument, any object with such attributes). Arrays outside of the arguments,
    such as the weights of a network, become part of the file; so do Python numbers among the
    arguments, which calls have to repeat.

    Arrays may have another size in a call; those of equal size, or first axis, in the example have
    equal sizes in calls. Where the trace depends on a size in another way than in proportion, that
    size is fixed: a warning is logged with the line, and calls are checked. An array of one entry
    stays one.

    With `gradient`, the file has a second function `NAME_value_and_grad`, which returns the result,
    and the gradients of the sum of all its entries with respect to the floating-point arguments, in
    a tuple with their structure (None for others).

    Every operation is rounded, as without `JitFlag.FastMath`. Results do not depend on the number
    of threads: sums and scatter-reductions into small arrays are made for chunks of lanes that only
    depend on their number, and then joined in order; other atomic updates are made lane by lane.

    Raises:
        RuntimeError: the function cannot be exported, because it reads the contents of arrays,
            makes arrays of sizes that depend on contents, or changes something in place; the
            message names the line. A frozen function has not been recorded, or a recording has
            what an object file cannot have.
        TypeError: arguments or results contain other objects; an object file is wanted of a
            function that is not frozen.
        ValueError: there is no such target, or the name is none.

    >>> import tempfile, os
    >>> def wave(x, y):
    ...     return dr.sin(x) * y
    >>> path = os.path.join(tempfile.mkdtemp(), "wave.py")
    >>> text = dr.export(wave, Float(1, 2, 3), Float(4, 5, 6), path=path).read_text()
    >>> "def wave(x, y):" in text, "from numba import njit" in text
    (True, True)
    """
    what = f"dr.export({getattr(function, '__qualname__', 'function')})"
    if path is None and arguments and isinstance(arguments[-1], str | os.PathLike):
        *arguments, path = arguments  # type: ignore[assignment]
    if path is None:
        raise TypeError(f"{what}: give the path of the file")
    if Path(path).suffix in _OBJECTS:
        if arguments or gradient:
            raise TypeError(
                f"{what}: an object file has the recordings of a frozen function, and takes "
                "neither examples nor 'gradient'"
            )
        from .object import export_object  # loads the compiler

        return export_object(function, path, name, target, what)
    if target is not None:
        raise TypeError(f"{what}: 'target' is for object files, with the suffix .o or .obj")
    if not callable(function):
        raise TypeError(f"dr.export(): expected a function, got {type(function).__name__}")
    if freeze.active() is not None or innermost() is not None:
        raise RuntimeError(f"{what}: cannot be used in a function that is being traced")
    own: str = getattr(function, "__name__", "compute")
    name = name or (own if own.isidentifier() else "compute")
    if not str(name).isidentifier():
        raise ValueError(f"{what}: {name!r} is not a name")
    names = parameters(function, len(arguments), what)
    title = (inspect.getdoc(function) or f"What {name} computes.").splitlines()[0]
    rows = [(function, name, title)]
    if gradient:
        title = f"The result of {name}, and the gradients of the sum of its entries."
        rows.append((_value_and_grad(function, what), f"{name}_value_and_grad", title))
    made = []
    for f, own, title in rows:
        general, fixed, reasons = trace_sizes(f, arguments, what)
        made.append(Traced(own, names, general, tuple(fixed), reasons, title))
    file = Path(path)
    file.write_text(write(made, what, _head(inspect.unwrap(function), made)), encoding="utf-8")
    return file


def _value_and_grad(function: Callable, what: str) -> Callable:
    """Returns the function that computes the result and its gradients."""

    def compute(*arguments: Any) -> Any:
        inner = detach(arguments)
        enable_grad(inner)
        result = function(*inner)
        summed = [
            total(a, axis=None)
            for a in leaf_arrays(result)
            if a._kind == "leaf" and a._diff and a._dtype.is_float
        ]
        if not summed:
            raise RuntimeError(
                f"{what}: the result has no differentiable array; use a type such as "
                "drjit.auto.ad.Float"
            )
        for one in summed:
            backward(one)
        return detach(result), tuple([_gradients(a) for a in inner])

    compute.__wrapped__ = function  # type: ignore[attr-defined]
    return compute


def _gradients(value: Any) -> Any:
    def of(a: Any) -> Any:
        floats = isinstance(a, ArrayBase) and a.__meta__.dtype.is_float and a.__meta__.is_diff
        return grad(a) if floats else None

    return map_tree(of, value, stop=ArrayBase)


def _head(function: Callable, made: list[Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno}" if code else "an object"
    lines = [f"    {t.name}({', '.join(t.parameters)})" for t in made]
    functions = "\n".join([*lines, ""])
    return _HEAD.format(title=made[0].title, origin=where, functions=functions)


# ---- Traces


class Tracer(Recorder):
    """Records launches without carrying them out."""

    def slot(self, n: Node) -> freeze.ValueNumber:
        """Returns the number of an evaluated node; what was there before is a constant."""
        known = self._find(n.data)
        return self._constant(n) if known is None else known

    def record(self, launched: Any, size: int, operands: Operands) -> list[Buffer | None]:
        made = super().record(launched, size, operands)
        self.steps[-1] = self.steps[-1]._replace(kernel=traced_kernel(launched))
        return made

    def _launch(self, launched: Any, size: int, operands: Operands) -> list[Buffer | None]:
        return [
            None if o.kind == "effect"
            else launched.device.allocate_for(o.dtype, 1 if o.kind == "reduce" else size)
            for o in launched.program.outputs
        ]  # fmt: skip

    def operation(self, function: Callable, arguments: tuple, sized_by_data: bool) -> Any:
        """Records a primitive, whose result has the type and size that `_SHAPES` says."""
        name = function.__name__
        if sized_by_data:
            raise self.refusal(
                f"dr.{name}() makes an array whose size depends on the contents of others, so that "
                "the sizes of what follows are not known"
            )
        for a in arguments:
            if isinstance(a, Node) and a.op is not LITERAL:
                schedule.materialize(a)
        given = tuple([self._given(a) for a in arguments])
        if name == "matmul":
            layout = arguments[2]
            rows = tuple([tuple(map(int, row)) for row in layout.offsets])
            given = (*given[:2], layout.sizes, layout.transposed, rows)
        t, size = _SHAPES[name](*arguments)
        device = next(
            (a.data.device for a in arguments if isinstance(a, Node) and a.op is BUFFER), None
        ) or arguments[-1]  # fmt: skip
        made = buffer(t, size, device.allocate_for(t, size))
        self.steps.append(RecordedOperation(function, given, (self._result(made.data),), None))
        return made

    def bound(self, n: Node) -> int:
        raise self.refusal("the memory it needs depends on the contents of an array")

    def refuse_read(self) -> None:
        raise self.refusal(
            "the function reads the contents of an array (by converting it to a Python "
            "number, a NumPy array or text, or as the condition of an evaluated loop). Use "
            "dr.select() and symbolic loops, or return the array"
        )

    def refusal(self, reason: str) -> RuntimeError:
        """Returns the error for something that cannot be exported."""
        return RuntimeError(f"{self.what}: at {describe(user_location())}, {reason}.")


_CONTAINERS = ("nested", "tensor", "sequence", "dict", "struct")
_SHAPES: dict[str, Callable[..., tuple[dt.DType, int]]] = {
    "prefix": lambda reduce, a, *rest: (a.dtype, a.size),
    "_block_reduce": lambda reduce, a, length, count: (a.dtype, count),
    "reduce_rows": lambda reduce, a, rows, columns: (a.dtype, a.size // rows),
    "_sorted": lambda key, payload, bits: (key.dtype if payload is None else dt.u32, key.size),
    "matmul": lambda a, b, layout: (
        a.dtype, layout.sizes[0] * layout.sizes[1] * len(layout.offsets)
    ),
    "_allocated": lambda size, dtype, device: (dtype, size),
}  # fmt: skip


def as_tuples(value: Any, number: Callable[[Node], Any], what: str) -> Any:
    """Returns a PyTree of arrays as nested tuples, in which other values are texts.

    Raises:
        TypeError: it contains something else.
    """
    value = plain(value)
    kind = kind_of(type(value))
    if kind == "leaf":
        n = value._node
        found = Literal(n.dtype, n.data, n.size) if n.op is LITERAL else number(n)
        return Leaf(found, n.dtype, n.size)
    if kind in _CONTAINERS:
        keys, parts = keys_and_parts(value, kind)
        if kind == "sequence":
            kind = "tuple" if isinstance(value, tuple) else "list"
        keys = tuple(keys) if keys is not None else None
        return TreePart(kind, keys, tuple([as_tuples(v, number, what) for v in parts]))
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    raise TypeError(
        f"{what}: an object of type {type_label(type(value))} among arguments or results. They can "
        "be arrays, tensors, Python numbers, and lists, tuples, dictionaries and data classes of "
        "them."
    )


def stand_in(value: Any, scaled: Callable[[int], int], what: str, size: int | None = None) -> Any:
    """Returns arguments of the same types without contents. `scaled` gets the sizes of arrays, of a
    tensor that of its first axis, and returns those to use instead."""
    kind = kind_of(type(value))
    if kind == "leaf":
        n = value._node
        lanes = scaled(n.size) if size is None else size
        return leaf.wrap(
            type(value), buffer(n.dtype, lanes, value._device.allocate_for(n.dtype, lanes))
        )
    if kind in _CONTAINERS:
        keys, parts = keys_and_parts(value, kind)
        if kind == "tensor":
            keys = (*map(scaled, keys[:1]), *keys[1:])
            size = prod(keys)
        elif kind == "nested" and size is None:
            size = scaled(max([a._node.size for a in leaf_arrays(value)], default=0))
        return tree.rebuilt(type(value), keys, [stand_in(v, scaled, what, size) for v in parts])
    if isinstance(value, ArrayBase):
        raise TypeError(
            f"{what}: an argument of type {type_label(type(value))} belongs to drjit.scalar; pass "
            "arrays of drjit.llvm or drjit.auto."
        )
    return value


def recording(
    function: Callable, arguments: Sequence[Any], sizes: tuple[int, ...], what: str
) -> Recording:
    """Traces a function; returns the recording, whose outcome describes arguments and result."""
    outside = free_variables(function)
    before = outside()
    layout = evaluated_layout(what, None, (tuple(arguments),), before)
    schedule.evaluate([])
    snapshot = Snapshot(layout, what)
    own = InputLayout(None, (tuple(arguments),), ()).nodes
    held = list(own)  # so that a scatter copies instead of changing them
    tracer = Tracer([n.data for n in own], what)
    debugging = flags.scoped_set_flag(flags.JitFlag.Debug)  # in which values know their lines
    with debugging, without_names(), ADContextManager(ADScope.Isolate, ()):
        try:
            tracer.start()
            result = plain(call(what, lambda a: function(*a), tuple(arguments)))
            schedule.evaluate([*snapshot.nodes(), *nodes_in(result, arguments, before)])
            outcome = snapshot.outcome(tracer, result, [])
        finally:
            tracer.stop()
    after = outside()
    changed = outcome.arrays or outcome.gradients or outcome.contents
    if changed or any(a is not b for a, b in zip(before, after, strict=False)):
        raise RuntimeError(
            f"{what}: the function changes an argument, or something outside of it, in place. An "
            "exported function computes results from arguments: make a copy, such as Float(x), "
            "and return it."
        )
    parts = (as_tuples(tuple(arguments), tracer.slot, what), as_tuples(result, tracer.slot, what))
    del held
    return tracer.recording(sizes, parts)


# ---- Sizes


# What sizes are multiplied with in two traces. Multiples remain divisible by what the example is
# divisible by, and few programs have other arrays of such sizes.
_FIRST, _SECOND = (37, 43, 53, 61, 71, 79), (41, 47, 59, 67, 73, 83)
_LARGE = 1 << 13  # sizes that other arrays rarely have anyway


class _ShapeFunction:
    """A function with examples of its arguments, whose distinct sizes are `sizes`."""

    def __init__(self, function: Callable, examples: Sequence[Any], what: str) -> None:
        self.function, self.examples, self.what = function, tuple(examples), what
        found: dict[int, int] = {}
        stand_in(self.examples, lambda n: found.setdefault(n, n), what)
        self.sizes = [n for n in found if n > 1]
        self.reasons: dict[int, str] = {}

    def trace(self, factors: dict[int, int]) -> Recording:
        """Returns the recording for sizes multiplied by some factors."""

        def scaled(n: int) -> int:
            return n * factors.get(n, 1)

        arguments = stand_in(self.examples, scaled, self.what)
        return recording(self.function, arguments, tuple(map(scaled, self.sizes)), self.what)

    def general(self, free: Sequence[int]) -> GeneralRecording:
        """Returns the recording for any values of some sizes."""
        if not free:
            return GeneralRecording(self.trace({}), (), ())
        pairs = [
            (a, b) if n < _LARGE else (1, 2 + k)
            for k, (n, a, b) in enumerate(zip(free, _FIRST, _SECOND, strict=False))
        ]
        first, second = (dict(zip(free, row, strict=False)) for row in zip(*pairs, strict=True))
        a, b = self.trace(first), self.trace(second)
        try:
            return generalize(a, b)
        except Different:
            self.reasons[free[-1]] = _difference(a, b)
            raise

    def allows(self, free: Sequence[int]) -> bool:
        """Whether some sizes may change together; if not, the last one gets a reason."""
        try:
            self.general(free)
        except Different:
            return False
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            self.reasons[free[-1]] = f"the function cannot run with another one: {error}"
            return False
        return True


def _difference(a: Recording, b: Recording) -> str:
    """Says where two recordings differ in more than sizes."""
    for n, m, place in zip(a.uses.decisions, b.uses.decisions, a.uses.places, strict=False):
        if n != m:
            return f"it decides about the trace at {short(place)}"
    for s, other in zip(a.steps, b.steps, strict=False):
        if isinstance(s, RecordedLaunch) and isinstance(other, RecordedLaunch):
            lines, others = (step.kernel.text.split("\n") for step in (s, other))
            comments = [line.partition("  # ")[2] for line in lines]
            for k, (x, y) in enumerate(zip(lines, others, strict=False)):
                seen = [c for c in comments[: k + 1] if c]
                if x != y and seen:
                    place = seen[-1].rpartition("/")[2]
                    return f"the kernels differ from here on: {place}"
    return "the function does other things with another one"


def trace_sizes(
    function: Callable, examples: Sequence[Any], what: str
) -> tuple[GeneralRecording, list[int], dict[int, str]]:
    """Traces a function for several sizes of its arguments. Returns the recording, the distinct
    sizes of the examples that must stay as they are, 0 in place of those that are free, and why.

    A size is free if traces for two values of it differ only in numbers that are proportional to
    it.
    """
    f = _ShapeFunction(function, examples, what)
    free: list[int] = f.sizes
    if not f.allows(free):
        f.trace({})  # raises what is wrong with the function itself
        free = []
        for n in f.sizes:
            if f.allows([*free, n]):
                free.append(n)
    fixed = [n if n not in free else 0 for n in f.sizes]
    reasons = {n: f.reasons[n] for n in fixed if n}
    for n, reason in reasons.items():
        log.log(log.LogLevel.Warn, "%s: the size %d is fixed, because %s.", what, n, reason)
    return f.general(free), fixed, reasons

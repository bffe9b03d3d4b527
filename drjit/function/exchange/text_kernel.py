"""`kernel`: kernel texts that a user wrote as functions of arrays."""

import inspect
import linecache
import textwrap
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from types import FunctionType, SimpleNamespace
from typing import Any, TypeAlias
from weakref import ref
from zlib import crc32

from ...ad.graph import Value, Var
from ...array import leaf, signatures, table
from ...array.base import ArrayBase, KernelValue, type_label
from ...array.leaf_access import replace
from ...jit import flags
from ...jit.backend import JitBackend
from ...jit.device import find, mismatch
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import BUFFER, LITERAL, Node, buffer, literal, make, normalize
from ...jit.ir.scope import innermost
from ...jit.run import launch, pending, schedule
from ...jit.text.user.reading import Source
from ...jit.text.user.text import read
from ...jit.tuples import NamedTuple
from ..ad.custom import attach
from ..signature import importable_name
from .text_call import NUMBERS, UNKNOWN, Derivatives, KernelCall, Parameters, Rules

_NAMES = ("__doc__", "__module__", "__qualname__")
_DEBUG = int(flags.JitFlag.Debug)
_STEPPING = _DEBUG | int(flags.JitFlag.Breakpoint)


class _FastPath(NamedTuple):
    """What calls with arguments of certain classes need, of kernels without bounds checks and
    targets: the kernel (a weak reference, because kernels can be forgotten); the positions of
    arrays among the arguments, and for each whether it has an entry per lane (`_EACH`), a single
    one (1), or any number (0); the positions and types of numbers; and for each result its class,
    and whether it has an entry per lane."""

    kernel: Any
    arrays: tuple[int, ...]
    sizes: tuple[int, ...]
    numbers: tuple[tuple[int, dt.DType], ...]
    results: tuple[tuple[Any, bool], ...]


_EACH = -1


class TextKernel:
    """A kernel text as a function of arrays; see `kernel`."""

    __name__: str
    _by_identity = True  # compared like that by frozen functions

    def __init__(self, source: Source, rules: Rules = UNKNOWN) -> None:
        self._read = read_text = read(source)
        self._source, self._title, self._rules = source, source.title, rules
        self._parameters = Parameters(read_text, source.title)
        if rules.derivative is not None:
            self._parameters.check_derivative()
        self._fast_paths: dict[tuple, _FastPath] = {}
        self.__name__ = source.title

    def __reduce__(self) -> Any:
        if name := importable_name(self):
            return name
        named = {k: v for k, v in self.__dict__.items() if k in _NAMES}
        return TextKernel, (self._source, self._rules), named

    # ---- The text

    def __repr__(self) -> str:
        words = self._read.words
        given = [f"{words[k].name}: {words[k]}" for k in self._read.arguments]
        made = [
            str(words[k]) if words[k].kind == "store" else f"{words[k].dtype.code} number"
            for k in self._read.layout.outputs
        ]
        return f"<kernel {self._title}({', '.join(given)}) -> {', '.join(made) or 'None'}>"

    @property
    def __signature__(self) -> inspect.Signature:
        signature = self._parameters.signature
        size = inspect.Parameter("size", inspect.Parameter.KEYWORD_ONLY, default=None)
        return signature.replace(parameters=[*signature.parameters.values(), size])

    @property
    def source(self) -> str:
        """The text that runs: that of the kernel with one operation a statement, and with bounds
        checks."""
        return self._read.text

    @property
    def llvm(self) -> str:
        """The LLVM IR that the text becomes for the processor, before LLVM's passes."""
        from ...jit.target import simd

        return simd.compile(self.source, self._title, contract=_fast_math()).ir

    @property
    def asm(self) -> str:
        """The machine code for the processor, as assembly text."""
        from ...jit.target import simd

        return simd.assembly(self.source, contract=_fast_math())

    @property
    def ptx(self) -> str:
        """The PTX for the GPU in use, or for any that is supported."""
        from ...jit.target import cuda

        device: Any = find(JitBackend.CUDA)
        capability = device.capability if device is not None else (7, 0)
        words = self._read.program.words
        return cuda.compile(
            self.source, self._title, words, _fast_math(), capability, packets=True
        ).code

    # ---- Calls

    def __call__(self, *args: Any, size: int | None = None, **kwargs: Any) -> Any:
        """Launches the kernel; see `kernel`."""
        if size is None and not kwargs and self._fast_paths:
            result = self._call_fast(args)
            if result is not NotImplemented:
                return result
        return self._call(args, kwargs, size, 0)

    def step(self, *args: Any, size: int | None = None, **kwargs: Any) -> Any:
        """Runs the kernel as Python and enters the debugger in its first line; returns the results.

        Comments name the lines that statements are from. Variables are NumPy arrays of all lanes.
        """
        return self._call(args, kwargs, size, _STEPPING)

    def _call(self, args: tuple, kwargs: dict, size: int | None, flags_set: int) -> Any:
        parameters = self._parameters
        if kwargs or len(args) != len(self._read.arguments):
            args = parameters.bound(args, kwargs)
        given = dict(zip(self._read.arguments, args, strict=True))
        arrays = parameters.arrays(given)
        numbers = {k: parameters.number(k, v) for k, v in given.items() if k not in arrays}
        parameters.refuse_recording(arrays)
        space = _namespace(list(arrays.values()))
        device: Any = table.find(space, "leaf", dt.f32)._device
        lanes = parameters.lanes(arrays, size)
        parameters.check_sizes(arrays, numbers)
        before = flags.current
        schedule.evaluate([a._node for a in arrays.values()], device)
        flags.current |= flags_set
        try:
            found = self._launch(arrays, numbers, lanes, device)
        finally:
            flags.current = before
        self._add_fast_path(args, found, space, device)
        return self._results(found, given, arrays, space)

    def _add_fast_path(self, args: tuple, found: list[Node], space: str, device: Any) -> None:
        """Adds a fast path for arguments of the classes of these, if there can be one."""
        text, words = self._read, self._read.words
        given = [words[k] for k in text.arguments]
        plain = not text.layout.checks and not text.layout.targets and found
        plain = plain and not any(w.dtype.is_vector for w in words.values())
        if not plain or any(w.ranges for w in given) or not any(w.lanes for w in given):
            return
        # The fast path converts no numbers.
        arrays = {k: j for j, k in enumerate(text.arguments) if words[k].kind == "array"}
        numbers = [(j, words[k].dtype) for j, k in enumerate(text.arguments) if k not in arrays]
        if any(type(args[j]) not in NUMBERS for j, _ in numbers):
            return
        places = [(arrays[k], words[k]) for k in text.layout.inputs]
        literals = {k: j for j, k in enumerate(text.arguments)}
        self._fast_paths[_classes(args)] = _FastPath(
            ref(self._kernel(device)),
            tuple([j for j, _ in places]),
            tuple([_EACH if w.lanes else int(w.single) for _, w in places]),
            tuple([(literals[k], words[k].dtype) for k in text.layout.literals]),
            tuple(
                [
                    (table.find(space, "leaf", words[k].dtype), words[k].kind == "store")
                    for k in text.layout.outputs
                ]
            ),
        )

    def _call_fast(self, args: tuple) -> Any:
        """Launches the kernel on the fast path, which is for evaluated arrays without derivatives.
        Returns NotImplemented if there is none for the classes of the arguments."""
        plan = self._fast_paths.get(_classes(args))
        if plan is None or pending.effects or innermost() is not None:
            return NotImplemented
        made = plan.kernel()
        if made is None:
            return NotImplemented
        inputs = []
        size = -1
        for k, entries in zip(plan.arrays, plan.sizes):  # noqa: B905
            a = args[k]
            n = a._node
            if n.op is not BUFFER or a._var is not None:
                return NotImplemented
            if entries and n.size != (size if entries < 0 else 1):
                if entries > 0 or size >= 0:
                    return NotImplemented
                size = n.size
            inputs.append(n)
        if not size:
            return NotImplemented
        literals = []
        for k, t in plan.numbers:
            value = args[k]
            if t.is_int and not t.low <= value <= t.high:
                return NotImplemented
            literals.append(make(LITERAL, t, 1, (), normalize(t, value)))
        with schedule.lock:
            buffers = launch.run(made, size, (inputs, literals, (), ()))
        schedule.catch_up()
        found = [
            leaf.wrap(cls, buffer(cls._dtype, size if each else 1, b))  # type: ignore[arg-type]
            for (cls, each), b in zip(plan.results, buffers)  # noqa: B905
        ]
        return found[0] if len(found) == 1 else tuple(found)

    def _launch(
        self, arrays: dict[int, Any], numbers: dict[int, Any], lanes: int, device: Any
    ) -> list[Node]:
        """Launches the kernel; returns nodes of the results."""
        text, words = self._read, self._read.words
        at = text.layout
        outputs = [(words[k].dtype, words[k].kind == "store", k) for k in at.outputs]
        if lanes == 0:
            return [
                literal(t, 0, 0) if stored else literal(t, op.starting_value(words[k].reduce, t))
                for t, stored, k in outputs
            ]
        sizes = {k: a._node.size for k, a in arrays.items()}
        checks = []
        for check, k in at.checks:
            t, data = dt.u32, (0, "", (), False, 0, 1)
            if check is not None:
                t, data = check.dtype, check.data(sizes, numbers.get(k, 0))
            checks.append(make(op.in_bounds, dt.mask, 1, (literal(t, 0),), data))
        literals = [make(LITERAL, words[k].dtype, 1, (), numbers[k]) for k in at.literals]
        with schedule.lock:
            inputs = [schedule.materialize(arrays[k]._node, device) for k in at.inputs]
            for a in {id(arrays[k]): arrays[k] for k in at.targets}.values():
                replace(a, lambda taken: taken.own())  # others may share its memory
            targets = []
            for k in at.targets:
                w, n = words[k], arrays[k]._node
                targets.append(pending.Effect(n.data, w.dtype, n.size, w.reduce, w.mode))
            made = self._kernel(device)
            postponed = targets and made.can_be_interrupted
            with launch.interrupts_postponed() if postponed else nullcontext():
                buffers = launch.run(made, lanes, (inputs, literals, checks, targets))
        schedule.catch_up()
        return [
            buffer(t, lanes if stored else 1, b)  # type: ignore[arg-type]
            for (t, stored, _), b in zip(outputs, buffers, strict=False)
        ]

    def _kernel(self, device: Any) -> Any:
        """Returns the kernel of a device."""
        text = self._read
        return device.kernel(text.commented if flags.current & _DEBUG else text.text, text.program)

    def _results(
        self, found: list[Node], given: dict[int, Any], arrays: dict[int, Any], space: str
    ) -> Any:
        classes = [table.find(space, "leaf", n.dtype.element) for n in found]
        values = map(Value, found, self._variables(found, classes, given, arrays))
        results = [_wrapped(cls, value) for cls, value in zip(classes, values, strict=True)]
        return results[0] if len(results) == 1 else tuple(results) or None

    def _variables(
        self, found: list[Node], classes: list[Any], given: dict[int, Any], arrays: dict[int, Any]
    ) -> list[Var | None]:
        """Records the call for derivatives; returns variables of results."""
        variables: list[Var | None] = [None] * len(found)
        words, at = self._read.words, self._read.layout
        read = [
            (j, k) for j, k in enumerate(given)
            if words[k].kind == "array" and words[k].dtype.is_float
            and not words[k].dtype.is_vector
        ]  # fmt: skip
        own = {j: arrays[k]._var for j, k in read if arrays[k]._var is not None}
        rows = [k for k, n in enumerate(found) if n.dtype.is_float and not n.dtype.is_vector]
        targets = [arrays[k] for k in at.targets]
        changed = [a for a in targets if a._diff and a._dtype.is_float]
        nodes = [*[found[k] for k in rows], *[a._node for a in changed]]
        if not own or not nodes:
            return variables
        args = tuple([_detached(a) for a in given.values()])
        places = [j for j, _ in read]
        call = KernelCall(
            self._title, args, places, [type(args[j]) for j in places], own,
            [(classes[k], found[k].size, words[at.outputs[k]].kind == "reduced") for k in rows],
        )  # fmt: skip
        rules = UNKNOWN if changed else self._rules
        made = attach(Derivatives(call, rules), nodes, [*own.values()])
        for k, v in zip(rows, made, strict=False):
            variables[k] = v
        for a, v in zip(changed, made[len(rows) :], strict=True):
            a._var = v
        return variables


def _detached(value: Any) -> Any:
    return leaf.wrap(type(value), value._node) if isinstance(value, ArrayBase) else value


def _wrapped(cls: Any, value: Value) -> Any:
    """Returns an array, or a cooperative vector with features of a class."""
    if not value.node.dtype.is_vector:
        return leaf.from_value(cls, value)
    # Its class belongs to a package that builds on this one.
    return import_module("drjit.nn.coopvec").wrap(cls, value)


def _classes(args: tuple) -> tuple:
    return (flags.current & _DEBUG, *map(type, args))


def _namespace(arrays: Sequence[Any]) -> str:
    """Returns the namespace of results.

    Raises:
        DeviceMismatch: the arrays belong to several backends.
    """
    arrays = [a._type if isinstance(a, KernelValue) else a for a in arrays]
    devices = {a._device for a in arrays}
    if len(devices) > 1:
        raise mismatch(devices)
    spaces = sorted({a._namespace for a in arrays})
    return next((s for s in spaces if s.endswith(".ad")), spaces[0] if spaces else "") or (
        f"{table.auto_namespace()}.ad"
    )


def _fast_math() -> bool:
    return bool(flags.current & flags.JitFlag.FastMath)


Rule: TypeAlias = Callable[..., Any] | str | None


@signatures.compiling
def kernel(
    text: str | Callable[..., Any] | None = None,
    /,
    *,
    derivative: Rule = None,
    backward: Rule = None,
    forward: Rule = None,
) -> Any:
    """Returns a function of arrays for a kernel: a text, such as `kernel_source` returns, perhaps
    edited, or a function in the kernel language, which this decorates.

    A text is a function `kernel(i, p)`, where `p[1]`, `p[2]`, ... are its parameters, or one with
    names for them, such as `kernel(i, x, y)`. Functions that it calls follow it, or are defined
    within. What a parameter is follows from the calls that use it:

    - `load(T, p[k], i)`: an array of the element type with an entry for each lane. These arrays
      determine the number of lanes; if there are none, `size` does;
    - `broadcast(T, p[k])`: an array of one entry;
    - `gather(T, p[k], x, m)` and products of matrices: an array of any size;
    - `literal(T, p[k])`: a Python number;
    - `scatter(T, p[k], v, x, m)` and the like: an array that is changed in place, as by
      `dr.scatter`, which copies memory that other arrays share;
    - `store(T, p[k], i, v)` and `reduce(T, 'add', p[k], i, v)`: results. They are no arguments, but
      are returned: none, an array, or a tuple of several.

    Arguments are passed in the order of parameters, or by name: that of the parameter, or else of
    the variable that it is loaded into, or else `p3`. The call launches a kernel like those of
    traced programs, asynchronously, on the backend of its arguments. It can be part of frozen
    functions.

    Functions that compute derivatives, traced ones or kernels, are keywords. They are called when
    derivatives are wanted:

    - `derivative` takes the same arguments, and returns the partial derivatives of each lane: one
      for each array of floats among the arguments, in their order, or if there are several results
      of floats, a tuple of these for each. This serves both directions, where lanes do not depend
      on other lanes (arrays are read by `load` and `broadcast` only);
    - `backward` takes the same arguments and the gradients of the results of floats. It returns the
      gradient of each array of floats among the arguments, of any size, or None;
    - `forward` takes the same arguments and the tangents of arrays of floats among them. It returns
      the tangents of the results of floats, or None.

    Without one, differentiating the results is an error, and so it is for arrays that the kernel
    changes.

    Numbers that the function refers to are constants. What a text does not say is added: bounds
    checks of accesses to memory, so that a bad index raises an `IndexError` with the line of the
    text where results are read; masks without the lanes beyond the end; and the test in loops
    whether Ctrl-C was pressed. `source` is the resulting text, with one operation a statement.
    `llvm`, `asm` and `ptx` are what it becomes on its way to the processor or a GPU. `step(...)`
    runs it as Python, in the debugger.

    >>> @dr.kernel
    ... def saxpy(i, a, x, y, result):
    ...     ax = literal(f32, a) * load(f32, x, i)
    ...     store(f32, result, i, ax + load(f32, y, i))
    >>> saxpy(2, Float(1, 2, 3), y=Float(10, 20, 30))
    [12, 24, 36]

    >>> @dr.kernel(derivative=lambda x: 3 * x * x)
    ... def cube(i, x, y):
    ...     v = load(f32, x, i)
    ...     store(f32, y, i, v * v * v)
    >>> x = ad.Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.backward(cube(x))
    >>> x.grad
    [3, 12]

    >>> x = dr.opaque(Float, 2, 3)
    >>> text = dr.kernel_source(dr.sqrt(x) + 1)
    >>> edited = dr.kernel(text.replace("sqrt", "exp2"))
    >>> edited
    <kernel kernel(x0: f32 array, c0: f32 number) -> f32 array>
    >>> edited(x, 1)
    [5, 5, 5]

    Raises:
        SyntaxError: the text violates the rules of the language; the error has its line.
        TypeError: the argument is neither a function with an available source nor a text, or
            `derivative` cannot apply; when called, arguments have other numbers or types.
        RuntimeError: when called, sizes are incompatible, or it is in the body of a symbolic loop,
            branch or call and depends on it.
        IndexError: when called, a product of matrices goes beyond the end of an array.
    """
    given = {"derivative": derivative, "backward": backward, "forward": forward}
    rules = Rules(*[_rule(name, f) for name, f in given.items()])
    return partial(_made, rules) if text is None else _made(rules, text)


def _rule(name: str, function: Any) -> Any:
    if isinstance(function, str):
        return kernel(function)
    if function is not None and not callable(function):
        raise TypeError(
            f"dr.kernel(): {name}= is a function of arrays, a kernel or the text of one, got "
            f"{type_label(function)}"
        )
    return function


def _made(rules: Rules, text: str | Callable[..., Any]) -> TextKernel:
    if isinstance(text, str):
        return TextKernel(_source_of_text(text), rules)
    if not isinstance(text, FunctionType):
        raise TypeError(
            f"dr.kernel(): expected a function or the text of a kernel, got {type_label(text)}"
        )
    result = TextKernel(_source_of_function(text), rules)
    for name in _NAMES:
        setattr(result, name, getattr(text, name))
    return result


def _source_of_text(text: str) -> Source:
    """Returns the source of a text without a file."""
    lines = textwrap.dedent(text).strip("\n").split("\n")
    file = f"<kernel text {crc32(text.encode()):08x}>"
    linecache.cache[file] = (len(text), None, [f"{line}\n" for line in lines], file)
    title = next((v[4:].partition("(")[0] for v in lines if v.startswith("def ")), "kernel")
    code = SimpleNamespace(co_filename=file, co_name=title)
    return Source(title, file, 0, lines, 0, code, {}.__getitem__)


def _source_of_function(function: FunctionType) -> Source:
    """Returns the source of a function.

    Raises:
        TypeError: it is not available.
    """
    code = function.__code__
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise TypeError(
            f"dr.kernel: the source of {function.__name__}() is not available; pass the text as a "
            "string: dr.kernel('def kernel(i, p): ...')"
        ) from None
    start = next((k for k, v in enumerate(lines) if v.lstrip().startswith("def ")), None)
    if start is None:
        raise TypeError(f"dr.kernel: {function.__name__} is not a function defined by def")
    indent = len(lines[start]) - len(lines[start].lstrip())
    own = textwrap.dedent("".join(lines[start:])).rstrip("\n").split("\n")

    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=False))

    def constant(name: str) -> Any:
        if name not in cells:
            return function.__globals__[name]
        try:
            return cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None

    above = first - 1 + start
    return Source(function.__name__, code.co_filename, above, own, indent, code, constant)

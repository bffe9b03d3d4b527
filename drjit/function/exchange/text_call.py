"""Calls of kernel texts: which arguments a text takes, whether those of a call fit, and their
derivatives, as functions of the user compute them."""

import inspect
from collections.abc import Callable
from typing import Any

from ...ad.graph import Var, visible
from ...array import leaf
from ...array.base import ArrayBase, IncompatibleError, KernelValue, type_label
from ...array.meta import LEAF_NAME
from ...jit import locks
from ...jit.ir import dtype as dt
from ...jit.ir.node import BUFFER, LITERAL, Node, literal, normalize
from ...jit.ir.scope import ACTIVE, innermost, recording
from ...jit.run.freeze_size import decided
from ...jit.text.user.text import UserText
from ...jit.trace.access import reduce_all
from ...jit.tuples import NamedTuple
from ..ad.custom import ValueOp, weighted_sum
from ..conversion import integer

NUMBERS = bool, int, float
"""The types of numbers that are passed as such."""


class Parameters:
    """The parameters of a kernel text, in the order of its arguments."""

    def __init__(self, text: UserText, title: str) -> None:
        self._what = f"{title}()"
        self._words, self._checks = text.words, text.layout.checks
        self._parameters = [text.words[k] for k in text.arguments]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.signature = inspect.Signature(
            [inspect.Parameter(w.name, kind) for w in self._parameters]
        )

    def check_derivative(self) -> None:
        """Raises a TypeError if lanes depend on entries of other lanes, as then partial derivatives
        of each lane do not suffice."""
        words = self._words.values()
        for w in words:
            if w.kind == "target" or (w.anywhere and w.dtype.is_float):
                how = "changed" if w.kind == "target" else "read at any position"
                hint = "use a dr.CustomOp" if w.kind == "target" else "pass backward=..."
                raise TypeError(
                    f"dr.kernel: derivative= has the partial derivatives of each lane, but "
                    f"{w.name} of {self._what} is {how} ({w.where}): {hint}"
                )

    def bound(self, args: tuple, kwargs: dict) -> tuple:
        """Returns the arguments in order."""
        try:
            return self.signature.bind(*args, **kwargs).args
        except TypeError as error:
            wanted = ", ".join([f"{w.name}: {w}" for w in self._parameters])
            raise TypeError(f"{self._what}: the arguments are ({wanted}); {error}") from None

    def arrays(self, given: dict[int, Any]) -> dict[int, Any]:
        """Returns the arrays among the arguments.

        Raises:
            TypeError: an argument should be an array of another type.
            RuntimeError: a target is differentiable.
        """
        words = self._words
        result = {}
        for k, value in given.items():
            word = words[k]
            if word.kind not in ("array", "target"):
                continue
            if word.dtype.is_vector:
                result[k] = self._vector(word, value)
                continue
            cls = type(value)
            right = isinstance(value, ArrayBase) and cls._kind == "leaf" and hasattr(value, "_node")
            if not right or cls._dtype is not word.dtype:
                raise TypeError(
                    f"{self._what}: {word.name} is an array of type {LEAF_NAME[word.dtype]} "
                    f"({word.where}), got {describe(value, word.dtype)}"
                )
            if word.kind == "target" and value._var is not None and visible(value._var) is not None:
                raise RuntimeError(
                    f"{self._what}: {word.name} is written to, but it is differentiable, and "
                    "derivatives of the kernel are unknown. Pass dr.detach() of it"
                )
            result[k] = value
        return result

    def _vector(self, word: Any, value: Any) -> Any:
        """Returns a vector among the arguments."""
        n, name = word.dtype.count, f"{self._what}: {word.name}"
        if not isinstance(value, KernelValue) or value._node.dtype is not word.dtype:
            t = LEAF_NAME[word.dtype.element]
            if isinstance(value, KernelValue):
                hint = f" of {value._node.dtype.count} {value._type.__name__}"
            else:
                hint = f": nn.CoopVec({', '.join('xyzw'[:n]) if n <= 4 else '...'})"
            raise TypeError(
                f"{name} is a cooperative vector of {n} features of type {t} ({word.where}), got a "
                f"{type_label(value)}{hint}"
            )
        if value._var is not None and visible(value._var) is not None:
            raise RuntimeError(
                f"{name} is a differentiable vector, and derivatives with respect to vectors are "
                "unknown. Pass dr.detach() of it, or its features as arrays"
            )
        return value

    def number(self, k: int, value: Any) -> Any:
        """Returns a number of the element type of a word."""
        word = self._words[k]
        if isinstance(value, ArrayBase) and getattr(type(value), "_kind", "") == "leaf":
            n = getattr(value, "_node", None)
            if n is not None and n.op is LITERAL and n.dtype is word.dtype:
                return n.data
        if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:  # a number of NumPy
            value = value.item()
        t, name = word.dtype, f"{self._what}: {word.name}"
        if type(value) not in NUMBERS:
            hint = ""
            if isinstance(value, ArrayBase):
                hint = f"; broadcast({t.code}, p[k]) reads one entry of an array for all lanes"
            raise TypeError(f"{name} is a number ({word.where}), got {describe(value, t)}{hint}")
        if t.is_mask:
            if type(value) is not bool:
                raise TypeError(f"{name} is True or False ({word.where}), got {value!r}")
        elif not t.is_float:
            if type(value) is float:
                raise TypeError(f"{name} is an integer ({word.where}), got {value!r}")
            if not t.low <= value <= t.high:
                raise OverflowError(f"{name} is an {t.code} ({word.where}), got {value!r}")
        return normalize(t, value)

    def refuse_recording(self, arrays: dict[int, Any]) -> None:
        """Raises a RuntimeError if the kernel cannot be launched now."""
        scope = innermost()
        if scope is None:
            return
        words, symbolic = self._words, recording()
        for k, a in arrays.items():
            name, written = words[k].name, words[k].kind == "target"
            if symbolic and (written or a._node.op not in (BUFFER, LITERAL)):
                why = f"it writes to {name}" if written else f"{name} is not evaluated"
                raise RuntimeError(
                    f"{self._what} is called within a symbolic loop, branch or call, where "
                    f"nothing is launched, and {why}. Evaluate arrays that do not depend on it "
                    "before, with dr.eval(); otherwise use mode='evaluated'"
                )
            if written and scope.mask is not ACTIVE:
                raise RuntimeError(
                    f"{self._what} writes to {name} for all lanes, but the code around it, an "
                    "evaluated loop or call, is for some lanes only"
                )

    def lanes(self, arrays: dict[int, Any], size: int | None) -> int:
        """Returns the number of lanes.

        Raises:
            IncompatibleError: arrays have other numbers of entries.
        """
        words = self._words
        sizes = {k: a._node.size for k, a in arrays.items() if words[k].lanes}
        found = {*sizes.values()}
        if size is not None:
            found.add(integer(size, f"{self._what}: size is a number of lanes, got"))
        if len(found) > 1:
            each = [f"{words[k].name} has {n}" for k, n in sizes.items()]
            each += [f"size is {size}"] if size is not None else []
            raise IncompatibleError(
                f"{self._what}: arrays with an entry for each lane differ in size: "
                f"{', '.join(each)}"
            )
        if not found:
            raise TypeError(
                f"{self._what}: no array has an entry for each lane, so pass the number of "
                "lanes: size=..."
            )
        (lanes,) = found
        if not 0 <= lanes < 1 << 32:
            raise ValueError(f"{self._what}: size is a number of lanes, got {size!r}")
        return lanes

    def check_sizes(self, arrays: dict[int, Any], numbers: dict[int, Any]) -> None:
        words = self._words
        for k, a in arrays.items():
            word, count = words[k], a._node.size
            if word.single and count != 1:
                raise IncompatibleError(
                    f"{self._what}: {word.name} has 1 entry for all lanes ({word.where}), got "
                    f"an array of size {count}"
                )
            if word.ranges:
                decided(count)
            for r in word.ranges:
                first = numbers[r.offset]
                if first < 0 or first + r.count > count:
                    raise IndexError(
                        f"{self._what}: entries {first} to {first + r.count - 1} of "
                        f"{word.name} are accessed ({r.where}), which has {count}"
                    )
        for check, _ in self._checks:
            if check is None or not check.arrays:
                continue
            counts = [arrays[k]._node.size for k, _ in check.arrays]
            if len(counts) > 1:  # the smallest of them may be another one next time
                decided(*counts)
            if check.dtype is dt.u32 and max(counts) >= 1 << 31:
                raise IncompatibleError(
                    f"{self._what}: for arrays of 2**31 entries or more, indices have to be u64"
                )


def describe(value: Any, dtype: dt.DType) -> str:
    """Describes an argument that should be a one-dimensional array or a number, with a hint."""
    label = type_label(value)
    if isinstance(value, ArrayBase):
        kind = type(value)._kind
        if kind == "tensor":
            return f"a tensor {label}: pass its .array"
        if kind == "nested":
            return f"a {label}: pass its components one by one"
        return f"a {label}; {LEAF_NAME[dtype]}(x) converts"
    return f"a {label}"


class Rules(NamedTuple):
    """The user's functions that compute derivatives: the partial derivatives of each lane,
    gradients of the arguments, and tangents of the results. None is unknown."""

    derivative: Callable | None = None
    backward: Callable | None = None
    forward: Callable | None = None


UNKNOWN = Rules()


class KernelCall(NamedTuple):
    """A call of a kernel: its name, its arguments without their derivatives, the places of float
    arrays among them, the classes of these, and the variables of those that have one (by place);
    for each float result its class, its size, and whether lanes are summed up in it."""

    title: str
    args: tuple
    places: list[int]
    classes: list[Any]
    variables: dict[int, Var]
    results: list[tuple[Any, int, bool]]


class Derivatives(ValueOp):
    """A call in the graph of derivatives. The user's functions are called when derivatives are
    wanted, once for each traversal."""

    def __init__(self, call: KernelCall, rules: Rules) -> None:
        self.call, self.rules = call, rules

    def name(self) -> str:
        return self.call.title

    def forward(self) -> None:
        call, rules = self.call, self.rules
        own = dict(zip(call.variables, self.gradients(self.arguments), strict=True))
        tangents = [
            own[k] if k in own else literal(t._dtype, 0, call.args[k]._node.size)
            for k, t in zip(call.places, call.classes, strict=True)
        ]
        if rules.forward is not None:
            given = [leaf.wrap(t, n) for t, n in zip(call.classes, tangents, strict=True)]
            made = self._made("forward", rules.forward, given, len(call.results), "results")
            found = [
                literal(t._dtype, 0, size) if m is None else m
                for m, (t, size, _) in zip(made, call.results, strict=True)
            ]
        else:
            found = []
            for (t, _, summed), row in zip(call.results, self._partials("forward"), strict=True):
                total = weighted_sum(row, tangents, t._dtype)
                found.append(reduce_all("add", total) if summed else total)
        self.accumulate(self.results, found[: len(self.results)])

    def backward(self) -> None:
        call, rules = self.call, self.rules
        gradients = self.gradients(self.results)[: len(call.results)]
        if rules.backward is not None:
            pairs = zip(call.results, gradients, strict=True)
            given = [leaf.wrap(t, g) for (t, _, _), g in pairs]
            found = self._made("backward", rules.backward, given, len(call.places), "arguments")
        else:
            columns = list(zip(*self._partials("backward"), strict=True))
            found = [
                weighted_sum(columns[j], gradients, t._dtype) if k in call.variables else None
                for j, (k, t) in enumerate(zip(call.places, call.classes, strict=True))
            ]
        at = dict(zip(call.variables, self.arguments, strict=True))
        pairs = [(at[k], n) for k, n in zip(call.places, found, strict=True) if k in at]
        pairs = [(v, n) for v, n in pairs if n is not None]
        self.accumulate([v for v, _ in pairs], [n for _, n in pairs])

    def _partials(self, wanted: str) -> list[list[Node]]:
        """Returns the partial derivatives of each result by each array."""
        call, rules = self.call, self.rules
        if rules.derivative is None:
            other = next((n for n in ("backward", "forward") if getattr(rules, n)), None)
            known = f" in this direction: {other}= is given" if other else ""
            raise RuntimeError(
                f"dr.kernel: the derivatives of {call.title}() are unknown{known}. Pass "
                f"derivative=..., a function or kernel of the same arguments that returns the "
                f"partial derivatives of each lane, or {wanted}=..., or detach the arguments. "
                "Arrays that the kernel changes need a dr.CustomOp"
            )
        count, rows = len(call.places), len(call.results)
        flat = self._made("derivative", rules.derivative, [], rows * count, "partial derivatives")
        flat = [
            literal(call.classes[k % count]._dtype, 0) if n is None else n
            for k, n in enumerate(flat)
        ]
        return [flat[r * count : (r + 1) * count] for r in range(rows)]

    def _made(
        self, what: str, function: Callable, more: list, count: int, of: str
    ) -> list[Node | None]:
        """Calls a function of the user's; returns the nodes of its results.

        Raises:
            TypeError: there are more or fewer of them than there should be, or others than arrays
                and numbers.
        """
        call = self.call
        with locks.released():
            found = _flat(function(*call.args, *more))
        title = f"dr.kernel: {what}= of {call.title}()"
        if len(found) != count:
            arrays = f"{len(call.places)} arrays of floats among its arguments"
            results = f"{len(call.results)} results of floats"
            raise TypeError(
                f"{title} returned {len(found)} values; expected {count} {of}: it has {arrays}, "
                f"and {results}"
            )
        sizes = {1, *[size for _, size, _ in call.results]}
        sizes |= {call.args[k]._node.size for k in call.places}
        return [_node(x, title, sizes) for x in found]


def _flat(value: Any) -> list:
    if isinstance(value, tuple | list):
        return [x for v in value for x in _flat(v)]
    return [value]


def _node(x: Any, title: str, sizes: set[int]) -> Node | None:
    if x is None:
        return None
    if type(x) in (bool, int, float):
        return literal(dt.f64, float(x))
    if not (isinstance(x, ArrayBase) and type(x)._kind == "leaf" and hasattr(x, "_node")):
        raise TypeError(f"{title} returned a {type_label(x)}; expected arrays, numbers, or None")
    if x._node.size not in sizes:
        raise IncompatibleError(
            f"{title} returned an array of size {x._node.size}; arguments and results have the "
            f"sizes {', '.join(map(str, sorted(sizes - {1})))}"
        )
    return x._node

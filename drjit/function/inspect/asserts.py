"""Comparison with tolerances, and assertions.

`assert_true`, `assert_false` and `assert_equal` check nothing unless debug mode is on
(`JitFlag.Debug`), so they can stay in programs.
"""

import functools
import operator
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...array import leaf, leaf_access, pytree, show, signatures, table
from ...array.base import IncompatibleError, type_label
from ...array.elementwise import elementwise
from ...array.interop import components, host_array, is_foreign_array
from ...array.promote import promote
from ...jit import flags, log
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.location import Location, describe
from ...jit.ir.node import LITERAL
from ...jit.lazy import np
from ...jit.trace import record
from ...jit.tuples import NamedTuple
from ..conversion import is_array, plain
from ..data.reduce import all as all_entries
from .format import active_lanes, formatted, print_later, select_lanes, value_text

if TYPE_CHECKING:
    from ...array.kinds import Convertible
    from ...array.promotion import PyTree

_TOLERANCES = {dt.f16: (1e-2, 1e-2), dt.f32: (1e-3, 1e-5)}
_DEFAULT_TOLERANCES = (1e-5, 1e-8)


@signatures.closeness
def allclose(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
) -> Any:
    """Returns whether all entries satisfy `abs(a - b) <= atol + rtol * abs(b)` or are equal
    infinities.

    Default tolerances depend on the element type: `rtol` and `atol` are 1e-2 and 1e-2 for float16,
    1e-3 and 1e-5 for float32, and 1e-5 and 1e-8 for all others. Numbers, arrays and sequences of
    one entry are compared with all entries of a sequence; entries of matrices and complex numbers
    are compared one by one. Returns a mask with one entry (a zero-dimensional tensor for tensors)
    if an argument is an array, and otherwise a Python bool.

    Raises:
        RuntimeError: sizes differ.
        TypeError: the arguments cannot be compared.

    >>> import drjit as dr
    >>> dr.allclose(dr.llvm.Float(1, 2), [1, 2.0001])
    [True]
    """
    if is_array(a) or is_array(b):
        return _close_arrays(a, b, rtol, atol, equal_nan)
    if is_foreign_array(a) or is_foreign_array(b):
        a, b = (host_array(v) if is_foreign_array(v) else v for v in (a, b))
    elif _is_sequence(a) or _is_sequence(b) or pytree.is_container(a) or pytree.is_container(b):
        sequences = _is_sequence(a) or _is_sequence(b)
        try:
            rows = _rows(a, b) if sequences else pytree.aligned_leaves("dr.allclose", a, b)
            return all(bool(allclose(x, y, rtol, atol, equal_nan)) for *_, x, y in list(rows))
        except RecursionError:
            raise pytree.too_deep() from None
    elif not all(isinstance(v, (int, float, complex)) for v in (a, b)):
        raise IncompatibleError(
            f"dr.allclose(): cannot compare {type_label(a)} and {type_label(b)}"
        )
    return bool(np.allclose(a, b, *_tolerances(dt.f64, rtol, atol), equal_nan))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple, range))


def _rows(a: Any, b: Any) -> list[tuple[Any, Any]]:
    """Returns pairs of entries of two sequences; a single entry, or anything that is not a
    sequence, is paired with all.

    Raises:
        RuntimeError: the sequences differ in length.
    """
    columns = [list(v) if _is_sequence(v) else [v] for v in (a, b)]
    sizes = [len(c) for c in columns]
    size = sizes[1] if sizes[0] == 1 else sizes[0]
    if any(n not in (1, size) for n in sizes):
        raise RuntimeError(
            f"dr.allclose(): incompatible sizes: sequences of {sizes[0]} and {sizes[1]} entries"
        )
    x, y = (c * size if len(c) == 1 else c for c in columns)
    return list(zip(x, y, strict=True))


def _close_arrays(a: Any, b: Any, rtol: float | None, atol: float | None, equal_nan: bool) -> Any:
    """Performs `allclose` if one of the values is an array. It is compared with every entry of a
    sequence that does not convert to its type."""
    try:
        return _all(_close(*_promoted("dr.allclose", a, b), rtol, atol, equal_nan))
    except TypeError:
        array, other = (a, b) if is_array(a) else (b, a)
        if is_foreign_array(other):
            other = list(host_array(other)) if host_array(other).ndim else other
        if not _is_sequence(other) or not any(
            is_array(v) or _is_sequence(v) or is_foreign_array(v) for v in other
        ):
            raise
    rows = [(v, array) if array is b else (array, v) for v in other]
    held = [allclose(x, y, rtol, atol, equal_nan) for x, y in rows]
    return functools.reduce(operator.and_, held)


def _tolerances(dtype: dt.DType, rtol: float | None, atol: float | None) -> tuple[float, float]:
    """Returns the given tolerances, or the defaults for the element type."""
    relative, absolute = _TOLERANCES.get(dtype, _DEFAULT_TOLERANCES)
    return relative if rtol is None else rtol, absolute if atol is None else atol


def _promoted(what: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Returns both values as arrays of one class; entries of matrices and complex numbers are
    compared one by one.

    Raises:
        TypeError: they are incompatible.
    """
    try:
        a, b = (list(v) if isinstance(v, range) else v for v in (a, b))
        if isinstance(a, complex) or isinstance(b, complex):
            cls = type(a) if is_array(a) else type(b)
            a, b = (v if is_array(v) else cls(v) for v in (a, b))
        x, y = promote(plain(a), plain(b))
        return x, y
    except TypeError as error:
        names = f"{type_label(a)} and {type_label(b)}"
        raise IncompatibleError(f"{what}(): cannot compare {names}: {error}") from None


def _close(a: Any, b: Any, rtol: float | None, atol: float | None, equal_nan: bool) -> Any:
    """Returns a mask of the entries that agree."""
    if a._dtype.is_mask:
        return a == b
    relative, absolute = _tolerances(a._dtype, rtol, atol)
    same = a == b
    wide = dt.f32 if a._dtype in (dt.f16, dt.f32) else dt.f64
    if a._dtype is not wide:
        cls = table.related(type(a), dtype=wide)
        a, b = cls(a), cls(b)
    error = elementwise(op.abs, a - b)
    bound = elementwise(op.abs, b) * relative + absolute
    # An infinite difference is within an infinite bound, but not close.
    close = same | ((error <= bound) & (error < float("inf")))
    return close | ((a != a) & (b != b)) if equal_nan else close


def _all(mask: Any) -> Any:
    """Returns whether all entries of a mask are true."""
    if mask._kind == "tensor":
        return all_entries(mask)
    parts = list(show.innermost(mask))
    if not mask.__meta__.is_jit:
        return all(parts)
    held = leaf.literal(mask._leaf, True)
    for part in parts:
        held = held & leaf_access.reduce_all("and", part)
    return held


def assert_allclose(
    actual: "Convertible | PyTree",
    desired: "Convertible | PyTree",
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    err_msg: str = "",
) -> None:
    """Raises an error that shows how two values differ unless `allclose` is true, even outside
    debug mode.

    The relative difference is relative to `abs(desired) + atol`. The first differing entries are
    notes of the exception.

    Raises:
        AssertionError: they differ by more than the tolerances; the message starts with `err_msg`.
        RuntimeError: sizes differ.
        TypeError: the values cannot be compared.
    """
    a: Any = actual
    held = allclose(a, desired, rtol, atol, equal_nan)
    if not (components(held).all() if is_array(held) else held):
        report, entries = _difference(actual, desired, rtol, atol, equal_nan)
        error = AssertionError("\n".join([*([err_msg] if err_msg else []), *report]))
        for text in entries:
            error.add_note(text)
        raise error


def _difference(
    actual: Any, desired: Any, rtol: float | None, atol: float | None, equal_nan: bool
) -> tuple[list[str], list[str]]:
    """Returns a description of how two values differ, line by line, and the first entries that
    do."""
    try:
        if not (is_array(actual) or is_array(desired)):
            raise TypeError
        a, b = _promoted("dr.assert_allclose", actual, desired)
    except TypeError:
        return [f"assert_allclose() failed: actual={actual!r}, desired={desired!r}"], []
    relative, absolute = _tolerances(a._dtype, rtol, atol)
    differs = ~components(_close(a, b, rtol, atol, equal_nan))
    x, y = np.broadcast_arrays(components(a), components(b))
    share = f"{100 * differs.mean():.3g}%"
    lines = [
        f"Arrays are not equal to tolerance rtol={relative:g}, atol={absolute:g}",
        f"Mismatched elements: {differs.sum()} / {differs.size} ({share})",
    ]
    if not a._dtype.is_mask:
        with np.errstate(all="ignore"):
            error = np.abs(x.astype(np.float64) - y.astype(np.float64))
            ratio = error / (np.abs(y.astype(np.float64)) + absolute)
        for name, values in (("absolute", error), ("relative", ratio)):
            lines.append(f"Max {name} difference: {values[~np.isnan(values)].max(initial=0):g}")
    for name, value in ((" ACTUAL: ", a), (" DESIRED: ", b)):
        lines.append(name + value_text(value).replace("\n", "\n" + " " * len(name)))
    return lines, [
        f"entry {_index_text(at)}: actual {_number_text(x[at])}, desired {_number_text(y[at])}"
        for at in map(tuple, np.argwhere(differs)[:3].tolist())
    ]


def _number_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, np.floating) else str(value)


def _index_text(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else str(index)


def assert_true(
    cond: object,
    fmt: str | None = None,
    *args: Any,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """In debug mode, raises an error unless all entries of a mask are true.

    The message is formatted from `fmt` and the further arguments by `dr.format`; only the failing
    lanes of arrays are shown. It lists up to `tb_depth` lines of the calling program, innermost
    first, skipping the first `tb_skip`.

    Raises:
        AssertionError: an entry is false.
        TypeError: `cond` contains anything other than masks and bools.
    """
    if flags.current & flags.JitFlag.Debug:
        report = Report("dr.assert_true", fmt, args, kwargs, tb_depth, tb_skip)
        _check_mask(cond, True, report)


def assert_false(
    cond: object,
    fmt: str | None = None,
    *args: Any,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """In debug mode, raises an error if any entry of a mask is true; see `assert_true`.

    Raises:
        AssertionError: an entry is true.
        TypeError: `cond` contains anything other than masks and bools.
    """
    if flags.current & flags.JitFlag.Debug:
        report = Report("dr.assert_false", fmt, args, kwargs, tb_depth, tb_skip)
        _check_mask(cond, False, report)


def assert_equal(
    arg0: object,
    arg1: object,
    fmt: str | None = None,
    *args: Any,
    limit: int = 3,
    tb_depth: int = 3,
    tb_skip: int = 0,
    **kwargs: Any,
) -> None:
    """In debug mode, raises an error unless two values, or PyTrees of values, agree in all entries.

    The message shows up to `limit` differing entries; see `assert_true` for the other arguments.

    Raises:
        AssertionError: an entry differs, or is NaN.
        RuntimeError: sizes or structures differ.
    """
    if not flags.current & flags.JitFlag.Debug:
        return
    report = Report("dr.assert_equal", fmt, args, kwargs, tb_depth, tb_skip)
    for path, a, b in pytree.aligned_leaves(report.what, arg0, arg1):
        if _is_recorded(a) or _is_recorded(b):
            report.check_later(a != b)
            continue
        equal = _active(_host(a == b))
        if not equal.all():
            report.fail(equal, path, _values(a, b, equal, limit))


def _check_mask(cond: Any, wanted: bool, report: "Report") -> None:
    """Reports entries of masks or bools in a PyTree that differ from the wanted value."""
    for path, value in pytree.walk(cond):
        if _is_recorded(value):
            report.check_later(~value if wanted else value)
            continue
        held = _active(_truth(report.what, value) == wanted)
        if not held.all():
            report.fail(held, path)


def _is_recorded(value: Any) -> bool:
    """Returns whether an array has no values yet because it is being recorded."""
    return (
        record.recording()
        and is_array(value)
        and value.__meta__.is_jit
        and any(a._node.op is not LITERAL for a in pytree.leaf_arrays(value))
    )


def _active(held: np.ndarray) -> np.ndarray:
    """Returns the condition, treating lanes that do not execute the code as true."""
    active = active_lanes(True, "assertion")
    if active is True:
        return held
    lanes = leaf.host(active)
    return held | ~lanes if len({held.shape[-1:] or (1,), lanes.shape} - {(1,)}) < 2 else held


def _host(value: Any) -> np.ndarray:
    """Returns an array, or a number, as a NumPy array."""
    return components(value) if is_array(value) else np.asarray(value)


def _values(a: Any, b: Any, equal: np.ndarray, limit: int) -> list[str]:
    """Returns the first differing values, line by line."""
    x, y = (np.broadcast_to(_host(v), equal.shape) for v in (a, b))
    lines = []
    for at in map(tuple, np.argwhere(~equal)[:limit].tolist()):
        where = f"entry {_index_text(at)}: " if at else ""
        lines.append(f"  {where}{_number_text(x[at])} != {_number_text(y[at])}")
    return lines


def _truth(what: str, value: Any) -> np.ndarray:
    """Converts a mask of any kind, or a bool, to a NumPy array."""
    if isinstance(value, (bool, np.bool_)):
        return np.asarray(value)
    if is_array(value) and value._dtype.is_mask:
        return components(value)
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return value
    raise IncompatibleError(f"{what}(): expected a mask or a bool, not '{type_label(value)}'")


class Report(NamedTuple):
    """The failure report of an assertion `what`: the user's message, and the number of program
    lines to list."""

    what: str
    fmt: str | None
    args: tuple
    kwargs: dict
    depth: int
    skip: int

    def check_later(self, failing: Any) -> None:
        """Makes a check part of the kernel being traced: failures are reported on standard error
        once it has run."""
        text = "Assertion failure!" if self.fmt is None else f"Assertion failure: {self.fmt}"
        for where in _user_frames(self.depth, self.skip):
            text += f"\n  at {describe(where)}".replace("{", "{{").replace("}", "}}")
        for mask in pytree.leaf_arrays(failing):
            if not mask._dtype.is_mask:
                raise IncompatibleError(
                    f"{self.what}(): expected a mask, not '{type_label(failing)}'"
                )
            values = (text, *self.args)
            print_later(self.what, values, self.kwargs, mask, "\n", log.write, 20, warns=False)

    def fail(self, held: np.ndarray, path: str, shown: Sequence[str] = ()) -> None:
        """Raises the error of a failed assertion."""
        failing = np.asarray(~held)
        lines = ["Assertion failure!"]
        if self.fmt is not None:
            lanes = np.asarray(np.any(failing, axis=tuple(range(failing.ndim - 1))))
            values = self.args, self.kwargs
            args, kwargs = select_lanes(values, lanes) if lanes.size > 1 else values
            lines = [f"Assertion failure: {formatted('dr.format', (self.fmt, *args), kwargs)}"]
        lines += shown
        if held.size > 1:
            first = _index_text(tuple(np.argwhere(failing)[0].tolist()))
            inside = f" of {path}" if path else ""
            lines.append(
                f"  {failing.sum()} of {held.size} entries{inside} fail, the first is entry {first}"
            )
        lines += [f"  at {describe(where)}" for where in _user_frames(self.depth, self.skip)]
        raise AssertionError("\n".join(lines))


def _user_frames(depth: int, skip: int) -> list[Location]:
    """Returns the innermost lines of the user's program, i.e. outside this package."""
    found: list[Location] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < skip + depth:
        name = frame.f_globals.get("__name__", "")
        if not (name == "drjit" or name.startswith("drjit.")):
            found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return found[skip:]

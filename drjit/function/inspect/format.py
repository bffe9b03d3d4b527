"""Formatting of text with values: `dr.format` and `dr.print`.

Both evaluate the arrays to be shown. However, on request, and always in a symbolic loop or branch,
`dr.print` takes them out of the running kernel. A replacement field is `{}`, `{0}` or `{name}`;
with a trailing equals sign, as in `{name=}`, its name is shown as well. There are no format
specifications.
"""

import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from ...array import leaf, pytree, show, table
from ...array.base import type_label
from ...jit import log
from ...jit.device import current
from ...jit.ir import dtype as dt
from ...jit.ir import op, scope
from ...jit.ir.location import user_location
from ...jit.ir.node import BUFFER, Node, apply, broadcast_size, buffer, literal, make
from ...jit.lazy import np
from ...jit.run import launch, pending, schedule
from ...jit.trace import record
from ...jit.trace.access import Access, WriteTarget, scatter
from ..conversion import is_array, map_leaves

if TYPE_CHECKING:
    from ...array.kinds import Active

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_BRACKETS = {list: "[]", tuple: "()"}


def format(*args: Any, limit: int = 20, **kwargs: Any) -> str:
    """Returns a text with values in place of its replacement fields, or a single value as text.

    Arrays are shown as by `repr`, except that the middle of an axis is omitted if it has more than
    `limit` entries (never, if negative). Lists, tuples, dictionaries and structures take several
    lines.

    Raises:
        RuntimeError: a field has no value, or a brace stands alone.
        TypeError: there is no value, or several without a text.

    >>> import drjit as dr
    >>> dr.format("{} and {x=}", dr.llvm.Float(1, 2), x=3)
    '[1, 2] and x=3'
    """
    return formatted("drjit.format", args, kwargs, limit)


def print(
    *args: Any,
    active: "Active" = True,
    end: str = "\n",
    file: TextIO | None = None,
    limit: int = 20,
    mode: str = "auto",
    **kwargs: Any,
) -> None:
    """Writes the result of `format` to a file, by default standard output (if there is one).

    With a mask as `active`, arrays show only the entries of active lanes, in an evaluated loop,
    branch or call of those that are inside, and nothing is written if there are none. Tensors, and
    arrays whose number of lanes differs from the mask's, are shown unchanged. Without a mask, all
    entries are shown whenever the statement is executed.

    With `mode="symbolic"`, the default within symbolic loops, branches and calls, the statement
    becomes part of the kernel, and the text appears once that has run. Arrays then show the values
    of all executions, lane by lane, of which `limit` are kept; the field `{thread_id}` shows their
    lanes.

    Raises:
        RuntimeError: a field has no value, or `active` or `mode` are invalid.
        TypeError: there is no value, or several without a text.

    >>> import drjit as dr
    >>> x = dr.llvm.Float(1, 2, 3)
    >>> dr.print("large: {}", x, active=x > 1)
    large: [2, 3]
    """
    if mode not in ("auto", "evaluate", "symbolic"):
        raise RuntimeError(
            f"drjit.print(): mode={mode!r} must be one of 'auto', 'evaluate', or 'symbolic'"
        )
    if mode == "symbolic" or (mode == "auto" and record.recording()):
        print_later("drjit.print", args, kwargs, active, end, _writer(file), limit)
        return
    if is_array(active):
        active = active_lanes(active, "drjit.print")  # whose memory the mask below is
    _check_mask(active, "drjit.print")
    mask = leaf.host(active) if is_array(active) else np.array([active])
    if not mask.any() or scope.nothing_runs():
        return
    if mask.size > 1:
        args, kwargs = select_lanes((args, kwargs), mask)
    _writer(file)(formatted("drjit.print", args, kwargs, limit) + end)


def _writer(file: TextIO | None) -> Callable[[str], object]:
    """Returns what writes to a file, or to standard output. That is None in services and programs
    with windows, for which, like Python's `print`, it does nothing."""
    stream = sys.stdout if file is None else file
    return (lambda text: None) if stream is None else stream.write


def active_lanes(active: Any, what: str) -> Any:
    """Restricts a mask, or a Python bool, to the lanes that execute the code: in an evaluated loop,
    branch or call, those that are inside.

    Raises:
        RuntimeError: it is neither.
    """
    _check_mask(active, what)
    around = scope.active()
    if around is scope.ACTIVE or record.recording() or active is False:
        return active
    cls = type(active) if is_array(active) else table.find("llvm", "leaf", dt.mask)
    inside = leaf.wrap(cls, around)
    if not is_array(active):
        return inside
    fits = len({active._node.size, around.size} - {1}) < 2
    return leaf.apply(op.and_, active, inside) if fits else active


def print_later(
    what: str,
    args: tuple,
    kwargs: Mapping[str, Any],
    active: Any,
    end: str,
    write: Callable[[str], object],
    limit: int,
    warns: bool = True,
) -> None:
    """Makes printing part of the kernel being traced: `write` takes the text."""
    _check_mask(active, what)
    values = pytree.leaf_arrays((args, kwargs))
    if "thread_id" not in kwargs:
        kwargs = {**kwargs, "thread_id": None}
    formatted(what, *_shown(args, kwargs, None, np.zeros(0, np.uint32)), limit)  # detects mistakes
    mask = active._node if is_array(active) else literal(dt.mask, bool(active))
    capacity = limit if limit >= 0 else _UNLIMITED
    location = user_location()
    owner = next((v._device for v in (*values, active) if is_array(v)), None)
    with scope.using(owner):
        sample = Sample([v._node for v in values], mask, max(capacity, 1), what)

    def show() -> None:
        count, lanes, columns = sample.read()
        if not count:
            return
        if count > sample.capacity and warns:
            log.warn(
                f"dr.print(): symbolic print statement only captured {sample.capacity} of {count} "
                "available outputs, chosen by chance; those of a lane are in order, with gaps. A "
                "larger limit=.. shows more, and the field {thread_id} tells the lane of each.",
                location,
            )
        found = {id(v): column for v, column in zip(values, columns, strict=True)}
        write(formatted(what, *_shown(args, kwargs, found, lanes), limit) + end)

    schedule.observers.append((sample, show))


_UNLIMITED = 1 << 20  # executions kept by a statement without limit


def _shown(
    args: tuple,
    kwargs: Mapping[str, Any],
    found: Mapping[int, np.ndarray] | None,
    lanes: np.ndarray,
) -> tuple[tuple, dict[str, Any]]:
    """Returns the arguments with leaf arrays replaced by the values found for the lanes, keyed by
    identity (with text as long as nothing has been found)."""
    shown, named = pytree.map_tree(lambda v: _shown_value(v, found), (args, dict(kwargs)))
    if named.get("thread_id", lanes) is None:
        named["thread_id"] = str(lanes.tolist())
    return shown, named


def _shown_value(value: Any, found: Mapping[int, np.ndarray] | None) -> Any:
    if not is_array(value) or not value.__meta__.is_jit:
        return value
    if found is None:
        return ""
    if value._kind == "tensor":
        return _shown_value(value._array, found)

    def entries(a: Any) -> Any:
        return leaf.from_numpy(type(a), found.get(id(a), np.zeros(0, a._dtype.numpy)), copy=True)

    return map_leaves(value, entries)


def _check_mask(active: Any, what: str) -> None:
    """Raises a RuntimeError unless a value is a mask or a Python bool."""
    if isinstance(active, (bool, np.bool_)):
        return
    if is_array(active) and active._kind == "leaf" and active._dtype.is_mask:
        return
    raise RuntimeError(
        f"{what}(): 'active' must be a 1-D mask or a bool, not '{type_label(active)}'"
    )


def select_lanes(tree: Any, mask: np.ndarray) -> Any:
    """Restricts all arrays of a PyTree to the lanes where a mask is true.

    Arrays with one lane are broadcast; tensors and arrays whose size differs from the mask's stay
    unchanged.
    """
    chosen = np.flatnonzero(mask)

    def select(value: Any) -> Any:
        if not is_array(value) or value._kind == "tensor":
            return value
        if value.__meta__.is_jit and show.common_width(list(show.innermost(value))) in (
            1,
            mask.size,
        ):
            return map_leaves(value, taken)
        return value

    def taken(a: Any) -> Any:
        entries = leaf.host(a)
        found = np.broadcast_to(entries, chosen.size) if entries.size == 1 else entries[chosen]
        return leaf.from_numpy(type(a), found, copy=True)

    return pytree.map_tree(select, tree)


def formatted(what: str, args: tuple, kwargs: Mapping[str, Any], limit: int = 20) -> str:
    """Implements `format`; `what` is the function that the user called."""
    if not args and "fmt" in kwargs:
        args = (kwargs["fmt"],)
    if not args:
        raise TypeError(f"{what}(): expected a text with replacement fields, or a value")
    first, *values = args
    if isinstance(first, str):
        return _filled(what, first, values, kwargs, limit)
    if values:
        raise TypeError(
            f"{what}(): several values need a text with replacement fields as the first argument, "
            f"such as {what}('{{}} {{}}', a, b)"
        )
    return value_text(first, limit)


def _filled(what: str, text: str, values: list[Any], kwargs: Mapping[str, Any], limit: int) -> str:
    """Fills in the replacement fields of a text."""
    count = 0
    numbering = ""

    def field(found: re.Match) -> str:
        nonlocal count, numbering
        token = found[0]
        if token in ("{{", "}}"):
            return token[0]
        name = found[1]
        if name is None:
            at = f"at position {found.start()}"
            if token == "}":
                raise RuntimeError(
                    f'{what}(): single "}}" encountered in format string. It is {at}.'
                )
            raise RuntimeError(f"{what}(): unmatched brace in format string ({at}).")
        prefix = name if name.endswith("=") else ""
        name = name.removesuffix("=")
        if name and not name.isdecimal():
            if name not in kwargs:
                raise RuntimeError(_missing(what, name, found.start()))
            return prefix + value_text(kwargs[name], limit)
        kind = "explicit" if name else "implicit"
        if numbering not in ("", kind):
            raise RuntimeError(
                f"{what}(): cannot switch from {numbering} to {kind} field numbering. The text "
                "mixes numbered fields {0} with plain ones {}."
            )
        numbering = kind
        position = int(name) if name else count
        count += 1
        if position >= len(values):
            raise RuntimeError(
                f"{what}(): missing positional argument {position} referenced by format string (at "
                f"position {found.start()})."
            )
        return prefix + value_text(values[position], limit)

    return _TOKEN.sub(field, text)


def _missing(what: str, name: str, position: int) -> str:
    hint = ""
    if re.search(r"[:!.\[]", name):
        hint = " Fields are plain names: there are no format specifications, attributes or indices."
    return (
        f'{what}(): missing keyword argument "{name}" referenced by format string (at position '
        f"{position}).{hint}"
    )


def value_text(value: Any, limit: int = 20) -> str:
    """Formats a value for a replacement field; text stays as it is."""
    try:
        return value if isinstance(value, str) else _text(value, limit, 0)
    except RecursionError:
        raise pytree.too_deep() from None


def _text(value: Any, limit: int, depth: int) -> str:
    cls = type(value)
    if is_array(value):
        return show.array_repr(value, limit).replace("\n", "\n" + " " * depth)
    if cls is str:
        return f"'{value}'"
    if cls is float:
        return show.number_text(value)
    if cls in _BRACKETS:
        opening, closing = _BRACKETS[cls]
        return _block(opening, [_text(v, limit, depth + 2) for v in value], closing, depth)
    if cls is dict:
        entries = [
            f"{_text(k, limit, depth + 2)}: {_text(v, limit, depth + 2)}" for k, v in value.items()
        ]
        return _block("{", entries, "}", depth)
    if isinstance(getattr(cls, "DRJIT_STRUCT", None), dict):
        entries = [f"{n}={_text(getattr(value, n), limit, depth + 2)}" for n in cls.DRJIT_STRUCT]
        return _block(f"{cls.__name__}[", entries, "]", depth)
    return repr(value)


def _block(opening: str, entries: list[str], closing: str, depth: int) -> str:
    """Puts entries on separate lines between brackets."""
    if not entries:
        return opening + closing
    line = "\n" + " " * (depth + 2)
    return opening + line + ("," + line).join(entries) + "\n" + " " * depth + closing


# Values of lanes, for recorded code to print


class Sample:
    """The values that up to `capacity` executions of a statement saw, copied out of a running
    kernel: each lane that reaches the statement claims the next slot with an atomic counter and
    writes its values there."""

    __slots__ = ("_arrays", "_counter", "capacity")

    def __init__(self, values: list[Node], active: Node, capacity: int, what: str) -> None:
        self.capacity = capacity
        size = broadcast_size((*values, active), what)
        if active.op is op.literal:
            active = literal(dt.mask, active.data, size)
        at = Access(literal(dt.u32, 0), active, what)
        self._counter = scatter(WriteTarget(_zeros(dt.u32, 1)), [], at, op.scatter_inc)
        self._arrays: list[Node] = []
        if self._counter is None:  # there are no lanes
            return
        slot = pending.old_value(self._counter, dt.u32)
        taken = apply(op.lt, slot, literal(dt.u32, capacity))
        if active.op is not op.literal:
            taken = apply(op.and_, taken, active)
        # Not a literal where values have size 1: within a body, the kernel may have more lanes.
        at = Access(slot, taken, what, inside=True)
        for value in (make(op.lane, dt.u32, size, (), current()), *values):
            after = scatter(WriteTarget(_zeros(value.dtype, capacity)), [value], at)
            if after is not None:
                self._arrays.append(after)

    @property
    def is_complete(self) -> bool:
        """Whether the kernel that contains the statement has been launched: an observer of
        evaluations (`schedule.observers`) waits for that."""
        return self._counter is None or self._counter.op is BUFFER

    def read(self) -> tuple[int, np.ndarray, list[np.ndarray]]:
        """Returns how often the statement was executed, and the lanes and values of the executions
        that were kept, lane by lane and in execution order within each lane."""
        if self._counter is None:
            return 0, np.zeros(0, np.uint32), []
        count = int(launch.to_numpy(dt.u32, 1, self._counter.data)[0])
        kept = min(count, self.capacity)
        found = [launch.to_numpy(n.dtype, n.size, n.data)[:kept] for n in self._arrays]
        order = np.argsort(found[0], kind="stable")
        lanes, *values = [array[order] for array in found]
        return count, lanes, values


def _zeros(dtype: dt.DType, size: int) -> Node:
    return buffer(dtype, size, launch.from_numpy(dtype, np.zeros(size, dtype.numpy)))

"""A thread's open recordings: the bodies of the symbolic loops and branches that it is tracing.

A scope holds the mask of the lanes that execute the code being traced. It collects the code's side
effects, which belong to the loop or branch and not to the surrounding program. The thread's current
device, which computes where there are only constants, is chosen here as well (`using`).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import flags
from ..device import Device, chosen
from . import dtype as dt
from . import op
from .node import BUFFER, LITERAL, Node, make, next_serial

ACTIVE = make(op.active, dt.mask, 1)
"""The lanes of a kernel where nothing restricts them further."""


WRITTEN = (
    "an array is written to and read in the same symbolic loop, branch or call; what it holds is "
    "known only when the kernel has run. Read it before, use mode='evaluated', or dr.alloc_local."
)


class Scope:
    """A body being recorded: the mask of its lanes, the side effects so far, and weak references to
    the nodes that stand for their targets. `repeats` says that it is the body of a loop."""

    __slots__ = ("_mask", "afters", "depth", "effects", "repeats")

    def __init__(self, mask: Node, depth: int) -> None:
        self._mask, self.depth = mask, depth
        self.repeats = False
        self.effects: list[Node] = []
        self.afters: list[Any] = []

    @property
    def mask(self) -> Node:
        """The lanes that execute the code. If it has been evaluated meanwhile, its entries say
        nothing about the lanes of a packet behind the last one."""
        if self._mask.op is BUFFER:
            self._mask = within(self._mask)
        return self._mask


def within(mask: Node) -> Node:
    """Returns a mask restricted to the lanes that a kernel has."""
    if mask is ACTIVE or mask.op is LITERAL:
        return mask
    return make(op.and_, dt.mask, mask.size, (mask, ACTIVE))


class using:  # a class, because it takes less time than a generator
    """Makes a device the current one in a block of statements; None changes nothing."""

    __slots__ = ("before", "device")

    def __init__(self, device: Device | None) -> None:
        self.device = device

    def __enter__(self) -> None:
        self.before = chosen.device
        chosen.device = self.device or self.before

    def __exit__(self, *_: object) -> None:
        chosen.device = self.before


class StateAccessError(RuntimeError):
    """A gather from or scatter to `node`, which is the state of a loop or an argument of a branch
    and hence has no memory; `written` says that it was a scatter."""

    def __init__(self, node: Node, written: bool) -> None:
        super().__init__(
            "gathers and scatters cannot access a variable that a symbolic loop or branch "
            "computes: it has no memory, its entries are spread over the lanes. Use "
            "mode='evaluated'."
        )
        self.node, self.written = node, written


class BlockData:
    """The data of a node that is a block: a loop, branch or call.

    `counts` has the numbers of operands by role (see `RegionOperands`), `depth` is the number of
    recordings that were open around it. `values` refers to the nodes of its results; `shared` is
    the body that a call shares with other calls (see `sharing`). `names` returns what the
    program calls the variables of a loop, for people who look at its kernel.
    """

    __slots__ = ("counts", "depth", "names", "shared", "values")

    def __init__(
        self,
        counts: tuple,
        depth: int,
        shared: Any = None,
        names: Callable[[], list[str]] | None = None,
    ) -> None:
        self.counts, self.depth, self.shared, self.names = counts, depth, shared, names
        self.values: list[Any] = []

    @property
    def static(self) -> tuple:
        """Returns the part that kernel text depends on."""
        return (self.counts, self.depth)


class LaneRegion:
    """Code that runs for several lanes at once without being recorded: the body of an evaluated
    loop, branch or call. A value of size 1 that it computes, with a serial number from `begin` on,
    stands for one value in each of the lanes, and so does its derivative.

    If its lanes are some of the `size` lanes of the surrounding code, `index` has their numbers.
    `around` is the region of the surrounding code, and `outermost` the serial number from which the
    outermost region begins.
    """

    __slots__ = ("around", "begin", "index", "outermost", "size")

    def __init__(
        self, begin: int, around: "LaneRegion | None" = None, index: Any = None, size: int = 1
    ) -> None:
        self.begin, self.around, self.index, self.size = begin, around, index, size
        self.outermost: int = begin if around is None else around.outermost


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.region: LaneRegion | None = None


_stack = _Stack()


def innermost() -> Scope | None:
    """Returns this thread's innermost scope."""
    scopes = _stack.scopes
    return scopes[-1] if scopes else None


def stack() -> list[Scope]:
    """Returns this thread's scopes, innermost last."""
    return _stack.scopes


def recording() -> bool:
    """Returns whether this thread is tracing the body of a symbolic loop or branch. A scope that
    merely restricts the active lanes has depth 0 and does not count."""
    scopes = _stack.scopes
    return bool(scopes) and scopes[-1].depth > 0


flags.recording = recording


def active() -> Node:
    """Returns the mask of the lanes that execute the code being traced."""
    scopes = _stack.scopes
    return scopes[-1].mask if scopes else ACTIVE


def region() -> LaneRegion | None:
    """Returns this thread's innermost region of code for several lanes."""
    return _stack.region


def nothing_runs() -> bool:
    """Returns whether a function is being called for no lanes, only for the types of its
    results."""
    region = _stack.region
    return region is not None and region.index is not None and region.index.size == 0


@contextmanager
def running(index: Node | None = None, size: int = 1) -> Iterator[None]:
    """Declares that the code being traced runs for all lanes of the surrounding code or those of a
    mask, or, with an `index`, for the lanes with these numbers among its `size` lanes."""
    before = _stack.region
    if index is not None:
        _stack.region = LaneRegion(next_serial(), before, index, size)
    else:
        _stack.region = before or LaneRegion(next_serial())
    try:
        yield
    finally:
        _stack.region = before


@contextmanager
def unmasked() -> Iterator[None]:
    """Lifts the surrounding masks for work that is not part of the traced code."""
    scopes = _stack.scopes
    masks = [] if recording() else scopes[:]
    del scopes[: len(masks)]
    try:
        yield
    finally:
        scopes[:0] = masks

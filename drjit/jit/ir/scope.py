"""Open recordings of a thread: the bodies of symbolic loops and branches that it is tracing.

A scope says which lanes execute what is traced now, and collects its side effects, which belong to
the loop or branch and not to the program around it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import flags
from . import dtype as dt
from . import op
from .node import Node, make

ACTIVE = make(op.active, dt.mask, 1)
"""The lanes of a kernel, where nothing restricts them further."""


WRITTEN = (
    "an array is written to and read in the same symbolic loop, branch or call; what it holds is "
    "known only when the kernel has run. Read it before, use mode='evaluated', or dr.alloc_local."
)


class Scope:
    """A body under recording: the mask of the lanes that execute it, the side effects so far, and
    weak references to the nodes that stand for their targets. `repeats` says that it is that of a
    loop."""

    __slots__ = ("afters", "depth", "effects", "mask", "repeats")

    def __init__(self, mask: Node, depth: int) -> None:
        self.mask, self.depth = mask, depth
        self.repeats = False
        self.effects: list[Node] = []
        self.afters: list[Any] = []


class StateTarget(RuntimeError):
    """A gather from, or a scatter to, what stands for the state of a loop or the argument of a
    branch, which has no memory; `node` is that."""

    def __init__(self, node: Node, written: bool) -> None:
        super().__init__(
            "gathers and scatters cannot access a variable that a symbolic loop or branch "
            "computes: it has no memory, its entries are spread over the lanes. Use "
            "mode='evaluated'."
        )
        self.node, self.written = node, written


class OpenRegion:
    """What a node of a loop or branch knows beyond its operands.

    `counts` says how the operands are divided, `depth` how many recordings were open around it;
    `values` refers to the nodes of its results, `shared` is the body that a call has in common with
    others (see `sharing`).
    """

    __slots__ = ("counts", "depth", "shared", "values")

    def __init__(self, counts: tuple, depth: int, shared: Any = None) -> None:
        self.counts, self.depth, self.shared = counts, depth, shared
        self.values: list[Any] = []

    @property
    def static(self) -> tuple:
        """What kernel text depends on."""
        return (self.counts, self.depth)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.lanes = 1


_stack = _Stack()


def innermost() -> Scope | None:
    """The innermost scope of this thread."""
    scopes = _stack.scopes
    return scopes[-1] if scopes else None


def stack() -> list[Scope]:
    """The scopes of this thread, innermost last."""
    return _stack.scopes


def recording() -> bool:
    """Whether this thread is tracing the body of a symbolic loop or branch; code that is merely
    restricted to some lanes has depth 0."""
    scopes = _stack.scopes
    return bool(scopes) and scopes[-1].depth > 0


flags.recording = recording


def active() -> Node:
    """The mask of the lanes that execute what is traced now."""
    scopes = _stack.scopes
    return scopes[-1].mask if scopes else ACTIVE


def lanes() -> int:
    """How often a side effect of one lane happens: once for each lane of the group for which a
    function is being called, where nothing is recorded."""
    return 1 if recording() else _stack.lanes


@contextmanager
def group(size: int) -> Iterator[None]:
    """Says that what is traced now is for a group of so many lanes, and no longer for those of a
    mask around it."""
    scopes, before = _stack.scopes, _stack.lanes
    kept = len(scopes)
    if scopes and not recording():
        whole = Scope(ACTIVE, 0)
        whole.effects, whole.afters = scopes[-1].effects, scopes[-1].afters
        scopes.append(whole)
    _stack.lanes = size
    try:
        yield
    finally:
        del scopes[kept:]
        _stack.lanes = before


@contextmanager
def unmasked() -> Iterator[None]:
    """Lifts the masks and the group around for work that is no part of the traced code."""
    scopes, before = _stack.scopes, _stack.lanes
    masks = [] if recording() else scopes[:]
    del scopes[: len(masks)]
    _stack.lanes = 1
    try:
        yield
    finally:
        scopes[:0] = masks
        _stack.lanes = before

"""A thread's open recordings: the bodies of the symbolic loops and branches that it is tracing.

A scope holds the mask of the lanes that execute the code being traced. It collects the code's side
effects, which belong to the loop or branch and not to the surrounding program.
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
"""The lanes of a kernel where nothing restricts them further."""


WRITTEN = (
    "an array is written to and read in the same symbolic loop, branch or call; what it holds is "
    "known only when the kernel has run. Read it before, use mode='evaluated', or dr.alloc_local."
)


class Scope:
    """A body being recorded: the mask of its lanes, the side effects so far, and weak references to
    the nodes that stand for their targets. `repeats` says that it is the body of a loop."""

    __slots__ = ("afters", "depth", "effects", "mask", "repeats")

    def __init__(self, mask: Node, depth: int) -> None:
        self.mask, self.depth = mask, depth
        self.repeats = False
        self.effects: list[Node] = []
        self.afters: list[Any] = []


class StateTarget(RuntimeError):
    """A gather from, or scatter to, `node`, which is the state of a loop or an argument of a branch
    and hence has no memory."""

    def __init__(self, node: Node, written: bool) -> None:
        super().__init__(
            "gathers and scatters cannot access a variable that a symbolic loop or branch "
            "computes: it has no memory, its entries are spread over the lanes. Use "
            "mode='evaluated'."
        )
        self.node, self.written = node, written


class OpenRegion:
    """Metadata of a loop or branch node.

    `counts` is the number of operands per role, `depth` the number of recordings open around it.
    `values` refers to the nodes of its results; `shared` is the body that a call shares with other
    calls (see `sharing`).
    """

    __slots__ = ("counts", "depth", "shared", "values")

    def __init__(self, counts: tuple, depth: int, shared: Any = None) -> None:
        self.counts, self.depth, self.shared = counts, depth, shared
        self.values: list[Any] = []

    @property
    def static(self) -> tuple:
        """Returns the part of the metadata that kernel text depends on."""
        return (self.counts, self.depth)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.lanes = 1


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


def lanes() -> int:
    """Returns how many times a side effect of one lane happens: once per lane of the group for
    which a function is being called, if nothing is being recorded."""
    return 1 if recording() else _stack.lanes


@contextmanager
def group(size: int) -> Iterator[None]:
    """Declares that the code being traced runs for a group of `size` lanes, and no longer under the
    surrounding mask."""
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
    """Lifts the surrounding masks and group for work that is not part of the traced code."""
    scopes, before = _stack.scopes, _stack.lanes
    masks = [] if recording() else scopes[:]
    del scopes[: len(masks)]
    _stack.lanes = 1
    try:
        yield
    finally:
        scopes[:0] = masks
        _stack.lanes = before

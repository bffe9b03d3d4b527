"""Open recordings of a thread: the bodies of symbolic loops and branches that it is tracing.

A scope says which lanes execute what is traced now, and collects its side effects, which belong to
the loop or branch and not to the program around it.
"""

import threading
from typing import Any

from . import dtype as dt
from . import op
from .node import Node, make

ACTIVE = make(op.active, dt.mask, 1)
"""The lanes of a kernel, where nothing restricts them further."""


class Scope:
    """A body under recording: the mask of the lanes that execute it, the side effects so far, and
    weak references to the nodes that stand for their targets."""

    __slots__ = ("afters", "depth", "effects", "mask")

    def __init__(self, mask: Node, depth: int) -> None:
        self.mask, self.depth = mask, depth
        self.effects: list[Node] = []
        self.afters: list[Any] = []


class Block:
    """What a node of a loop or branch knows beyond its operands.

    `counts` says how the operands are divided, `depth` how many recordings were open around it;
    `values` refers to the nodes of its results.
    """

    __slots__ = ("counts", "depth", "values")

    def __init__(self, counts: tuple, depth: int) -> None:
        self.counts, self.depth = counts, depth
        self.values: list[Any] = []

    @property
    def static(self) -> tuple:
        """What kernel text depends on."""
        return (self.counts, self.depth)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = []


_stack = _Stack()


def innermost() -> Scope | None:
    """The innermost scope of this thread."""
    scopes = _stack.scopes
    return scopes[-1] if scopes else None


def stack() -> list[Scope]:
    """The scopes of this thread, innermost last."""
    return _stack.scopes


def active() -> Node:
    """The mask of the lanes that execute what is traced now."""
    scopes = _stack.scopes
    return scopes[-1].mask if scopes else ACTIVE

"""The recordings of a frozen function: those for inputs of one structure, for certain values of
literals among them, and for certain sizes of arrays.
"""

from itertools import count
from typing import Any

from ..jit.freeze import Replay
from .freeze_result import Outcome
from .freeze_sizes import Different, General, Program, merged

_READY = 16  # sizes of inputs for which steps are kept ready
_TIED = 16  # recordings of inputs of one structure that go with their own sizes only

_tick = count().__next__


class Ready:
    """A recording for arrays of given sizes, ready to be replayed."""

    __slots__ = ("outcome", "replay", "written")

    def __init__(self, program: Program) -> None:
        self.outcome: Outcome = program.outcome
        self.written = program.written
        kept = program.outcome.values()
        self.replay = Replay(program.steps, program.count, program.constants, kept)


class Family:
    """The recordings for inputs that differ in nothing but the sizes of arrays."""

    __slots__ = ("general", "ready", "recorded", "used")

    def __init__(self) -> None:
        self.recorded: dict[tuple[int, ...], Program] = {}
        self.general: list[General] = []
        self.ready: dict[tuple[int, ...], Ready] = {}
        self.used = 0

    def __len__(self) -> int:
        return len(self.general) + len(self.recorded)

    def find(self, sizes: tuple[int, ...]) -> Ready | None:
        """The recording for arrays of some sizes, if there is one."""
        self.used = _tick()
        found = self.ready.get(sizes)
        if found is None:
            program = self.recorded.pop(sizes, None)
            if program is not None:
                self.recorded[sizes] = program  # as the one used last
            for general in self.general:
                program = program or general.for_sizes(sizes)
            if program is not None:
                if len(self.ready) >= _READY:
                    del self.ready[next(iter(self.ready))]
                found = self.ready[sizes] = Ready(program)
        return found

    def add(self, program: Program) -> bool:
        """Adds a recording; gives whether it is a new one, and not what another one says if its
        sizes are changed."""
        self.ready.pop(program.sizes, None)
        self.recorded.pop(program.sizes, None)
        for sizes, other in self.recorded.items():
            try:
                general = merged(other, program)
            except Different:
                continue
            del self.recorded[sizes]
            # Others that are a special case of it.
            self.general = [g for g in self.general if general.for_sizes(g.program.sizes) is None]
            self.recorded = {n: p for n, p in self.recorded.items() if general.for_sizes(n) is None}
            self.general.append(general)
            return False
        if len(self.recorded) >= _TIED:
            self.drop(next(iter(self.recorded)))
        self.recorded[program.sizes] = program
        return True

    def drop(self, sizes: tuple[int, ...]) -> None:
        """Forgets a recording that turned out not to fit."""
        self.ready.pop(sizes, None)
        self.recorded.pop(sizes, None)


class Structure:
    """What is known about inputs of one structure: the recordings by the values of literals, the
    last of these values, and the literals that change from call to call, so that they are data."""

    __slots__ = ("changing", "families", "last")

    def __init__(self, values: list[Any], changing: set[int]) -> None:
        self.last, self.changing = values, changing
        self.families: dict[tuple, Family] = {}

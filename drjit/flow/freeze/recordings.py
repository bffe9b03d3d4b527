"""The recordings of a frozen function: those for one input structure, for certain values of
literals, and for certain sizes of arrays.
"""

from itertools import count
from typing import Any

from ...jit.run.freeze import Recording, Replay
from .sizes import Different, General, merged

_READY = 16  # number of input sizes for which steps are kept ready
_TIED = 16  # number of recordings per input structure that match only their own sizes

_tick = count().__next__


class Family:
    """The recordings for inputs that differ only in the sizes of arrays."""

    __slots__ = ("general", "last_use", "ready", "recorded")

    def __init__(self) -> None:
        self.recorded: dict[tuple[int, ...], Recording] = {}
        self.general: list[General] = []
        self.ready: dict[tuple[int, ...], Replay] = {}
        self.last_use = 0

    def __len__(self) -> int:
        return len(self.general) + len(self.recorded)

    def find(self, sizes: tuple[int, ...]) -> Replay | None:
        """Returns the recording for given array sizes, if there is one."""
        self.last_use = _tick()
        found = self.ready.get(sizes)
        if found is None:
            recording = self.recorded.pop(sizes, None)
            if recording is not None:
                self.recorded[sizes] = recording  # as the most recently used one
            for general in self.general:
                recording = recording or general.for_sizes(sizes)
            if recording is not None:
                if len(self.ready) >= _READY:
                    del self.ready[next(iter(self.ready))]
                found = self.ready[sizes] = Replay(recording, recording.outcome.values())
        return found

    def has(self, sizes: tuple[int, ...], replay: Replay) -> bool:
        """Returns whether `find` would return this, and notes its use if so."""
        if self.ready.get(sizes) is not replay:
            return False
        self.last_use = _tick()
        return True

    def add(self, recording: Recording) -> bool:
        """Adds a recording. Returns whether it is new, rather than an existing one with other
        sizes."""
        self.ready.pop(recording.sizes, None)
        self.recorded.pop(recording.sizes, None)
        for sizes, other in self.recorded.items():
            try:
                general = merged(other, recording)
            except Different:
                continue
            del self.recorded[sizes]
            # Others that are special cases of it.
            self.general = [g for g in self.general if general.for_sizes(g.recording.sizes) is None]
            self.recorded = {n: p for n, p in self.recorded.items() if general.for_sizes(n) is None}
            self.general.append(general)
            return False
        if len(self.recorded) >= _TIED:
            self.drop(next(iter(self.recorded)))
        self.recorded[recording.sizes] = recording
        return True

    def drop_oldest(self) -> None:
        """Forgets one recording."""
        if self.recorded:
            self.drop(next(iter(self.recorded)))
        else:
            self.general.pop(0)
            self.ready.clear()

    def drop(self, sizes: tuple[int, ...]) -> None:
        """Forgets a recording that turned out not to match."""
        self.ready.pop(sizes, None)
        self.recorded.pop(sizes, None)


class Structure:
    """The recordings for one input structure by the values of literals, the latest values, and the
    literals that change from call to call and are therefore data."""

    __slots__ = ("changing", "families", "last")

    def __init__(self, values: list[Any], changing: set[int]) -> None:
        self.last, self.changing = values, changing
        self.families: dict[tuple, Family] = {}

"""The scheduler: which basic block runs next, and for which threads.

As long as all threads are at the same place, a block runs for all of them at once. When a branch
separates them, they form groups, by the block that each is to execute next. The group whose block
comes first in the text runs next, for its threads alone; groups that arrive at the same block
become one. That is where a compiler lets them meet again.

Three kinds of threads wait: those at an instruction of a warp that names threads who are not there
yet, those at a barrier, and those that spin in a loop until another thread writes to memory. The
last ones are noticed because nothing changes from one iteration to the next: then other groups run
first. Should a loop hide that (with a counter, say), the group that has not run for longest gets
every 4096th turn.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.emit_control import Barrier
from drjit.jit.cuda.emulator.errors import (
    Deadlock,
    DivergentCollective,
    Fault,
    InvalidTarget,
    first,
)
from drjit.jit.cuda.emulator.threads import spread
from drjit.jit.cuda.emulator.translate import BasicBlock
from drjit.jit.cuda.emulator.warp import Warps

u32, u64, i64 = np.uint32, np.uint64, np.int64
_FAIR = 4096
_SPINS = 16  # backward jumps between two looks at whether anything changes
Registers = dict[str, np.ndarray]


class ThreadGroup:
    """Threads (positions in increasing order) that are to execute the same block."""

    __slots__ = ("here", "since")

    def __init__(self, here: np.ndarray, since: int):
        self.here, self.since = here, since


class ThreadChunk(Warps):
    """A chunk of threads that executes the blocks of a kernel."""

    blocks: list[BasicBlock]

    def start(self, blocks: list[BasicBlock], first: int, registers: Registers) -> None:
        """Gets ready to run: all threads are at the block `first`."""
        self.blocks, self.end = blocks, len(blocks)
        self.R = registers
        self.R["place"] = self.all_places
        self.size = len(self.all_places)
        self.pc: int | None = first  # None where threads are at several blocks
        self.groups: dict[int, ThreadGroup] = {}
        self.waiting: dict[int, np.ndarray] = {}
        self.barriers: dict[int, list[tuple[int, np.ndarray, Barrier]]] = {}
        self.owned: set[str] = set()
        # Groups that spin, and the states of groups at backward jumps.
        self.spinning: set[int] = set()
        self.states: dict[int, Any] = {}
        self.jumps = 0
        self.executed = self.divergent = self.turns = 0
        # Counts what a deadlock would not do: threads finish, or get past a barrier.
        self.progress = 0
        self.warps = self.blocks_here * self.warps_per_block

    @property
    def finished(self) -> bool:
        return self.pc == self.end

    def run(self, turns: int) -> None:
        """Executes at most `turns` blocks."""
        for _ in self.steps(turns, False):
            pass

    def steps(
        self, turns: int, each: bool = True
    ) -> Iterator[tuple[BasicBlock, np.ndarray | None]]:
        """Executes blocks; yields (with `each`) every one after it has run, with the positions of
        the threads that have run it, None for all."""
        stop = self.turns + turns
        while self.turns < stop and self.pc != self.end:
            if self.pc is None:
                ran = self._turn()
                if each and ran is not None:
                    yield ran
                continue
            block = self.blocks[self.pc]
            if block.sync is not None and block.sync[0] == "barrier":
                self._pass_together(block)
            else:
                result = block.run(self.R, self)
                self.turns += 1
                if type(result) is int:
                    self.pc = result
                else:
                    self._decide(result)
            self.executed += block.count * self.warps
            if each:
                yield block, None

    # ---- all threads together

    def _decide(self, result: Any) -> None:
        """Goes on after a branch of all threads."""
        if type(result) is tuple:
            condition, yes, no = result
            holds = int(np.count_nonzero(condition))
            if holds == len(condition) or holds == 0:
                self.pc = yes if holds else no
                return
        sides = self._sides(result, self.R["place"])
        alive = [(pc, here) for pc, here in sides if pc != self.end]
        if len(alive) == 1:  # the others are finished
            self.progress += 1
            self.pc = alive[0][0]
            self._keep(alive[0][1])
            return
        self.pc = None
        for pc, here in sides:
            self._join(pc, here)

    def _sides(self, result: Any, place: np.ndarray) -> list[tuple[int, Any]]:
        """The blocks that follow for some threads, and which of these go there."""
        if type(result) is int:
            return [(result, slice(None))]
        if type(result) is tuple:
            condition, yes, no = spread(result[0], len(place)), *result[1:]
            self._count_divergence(condition, place)
            return [(yes, np.flatnonzero(condition)), (no, np.flatnonzero(~condition))]
        result = spread(result, len(place))
        return [(int(v), np.flatnonzero(result == v)) for v in np.unique(result)]

    def _keep(self, here: np.ndarray) -> None:
        """Forgets all threads but these."""
        self.R = {k: v if len(v) == 1 else v.take(here, axis=0) for k, v in self.R.items()}
        self.size = len(here)
        self.owned.clear()
        self._whole = None
        self.warps = _warps(self.R["place"])

    def _count_divergence(self, condition: np.ndarray, place: np.ndarray) -> None:
        """Counts the warps whose threads do not agree."""
        starts = np.flatnonzero(np.diff(place >> 5, prepend=-1))
        some = np.logical_or.reduceat(condition, starts)
        every = np.logical_and.reduceat(condition, starts)
        self.divergent += int(np.count_nonzero(some & ~every))

    def _pass_together(self, block: BasicBlock) -> None:
        """A barrier that all threads reach together."""
        self.pc = block.sync[1].following
        self.turns += 1
        self.progress += 1
        if self.detector is not None:
            self.detector.block_count += 1

    # ---- groups

    def _join(self, pc: int, here: np.ndarray) -> None:
        """Threads go to a block."""
        if not len(here):
            return
        if pc == self.end:
            self.progress += 1
            self._wake()
            return
        group = self.groups.get(pc)
        if group is None:
            self.groups[pc] = ThreadGroup(here, self.turns)
        else:
            group.here = np.sort(np.concatenate((group.here, here)))

    def _wake(self) -> None:
        """Some threads have finished: nobody needs to wait for them anymore."""
        waiting, self.waiting = self.waiting, {}
        for pc, here in waiting.items():
            self._join(pc, here)
        for identifier in list(self.barriers):
            self._release(identifier)

    def _alive(self) -> np.ndarray:
        """For each position, whether the thread is not finished."""
        alive = np.zeros(self.size, bool)
        for group in self.groups.values():
            alive[group.here] = True
        for here in self.waiting.values():
            alive[here] = True
        for entries in self.barriers.values():
            for _, here, _ in entries:
                alive[here] = True
        return alive

    def _turn(self) -> tuple[BasicBlock, np.ndarray] | None:
        """Runs one block for one group."""
        if not self.groups:
            self._stuck()
        self.turns += 1
        pc = self._choose()
        here = self.groups.pop(pc).here
        block = self.blocks[pc]
        if block.sync is not None:
            if block.sync[0] == "barrier":
                self._arrive(block.sync[1], pc, here)
                self._meet()
                return None
            here = self._ready(pc, here, block.sync[1])
            if not len(here):
                return None
        result = self._execute(block, here)
        place = self.R["place"][here]
        self.executed += block.count * _warps(place)
        sides = self._sides(result, place)
        for following, some in sides:
            self._join(following, here[some])
        following = min(following for following, _ in sides)
        if following <= block.number:
            self._look_for_spinning(following)
        self._meet()
        return block, here

    def _choose(self) -> int:
        """The block of the group that runs next."""
        if self.turns % _FAIR == 0:
            return min(self.groups, key=lambda k: self.groups[k].since)
        if self.spinning:
            others = [pc for pc in self.groups if pc not in self.spinning]
            if others:
                return min(others)
            self.spinning.clear()
        return min(self.groups)

    def _look_for_spinning(self, pc: int) -> None:
        """After a backward jump: has anything changed since an earlier one?"""
        self.jumps += 1
        group = self.groups.get(pc)
        if self.jumps % _SPINS or group is None or len(self.groups) == 1:
            return
        here = group.here
        registers = tuple(self.R[name][here].tobytes() for name in sorted(self.owned))
        state = self.memory.writes, here.tobytes(), hash(registers)
        if self.states.get(pc) == state:
            self.spinning.add(pc)
        self.states[pc] = state

    def _execute(self, block: BasicBlock, here: np.ndarray) -> Any:
        """Runs a block for some threads: their registers are taken out and put back."""
        self.here, self._whole = here, None
        R = self.R
        some = {}
        for name in block.reads:
            value = R[name]
            some[name] = value if len(value) == 1 else value.take(here, axis=0)
        result = block.run(some, self)
        for name in block.writes:
            self.put(name, some[name], here)
        self.here, self._whole = None, None
        return result

    def put(self, name: str, value: np.ndarray, here: np.ndarray) -> None:
        """Changes a register for some threads."""
        if name not in self.owned:
            old = self.R[name]
            new = np.empty((self.size, *value.shape[1:]), value.dtype)
            new[:] = old
            self.R[name] = new
            self.owned.add(name)
        self.R[name][here] = value

    def _meet(self) -> None:
        """If all threads that are left are at one block, they go on together."""
        if self.waiting or self.barriers:
            return
        if not self.groups:
            self.pc = self.end
        elif len(self.groups) == 1:
            pc, group = self.groups.popitem()
            self.pc = pc
            if len(group.here) < self.size:
                self._keep(group.here)
            self.owned.clear()
            self.spinning.clear()
            self.states.clear()
            self._whole = None

    # ---- waiting for the threads of a warp

    def _ready(self, pc: int, here: np.ndarray, members: int | str) -> np.ndarray:
        """Those threads, of the ones at an instruction of a warp, whose partners are all there."""
        if pc in self.waiting:
            here = np.sort(np.concatenate((here, self.waiting.pop(pc))))
        place = self.R["place"]
        alive = self._alive()
        alive[here] = True
        if len(here) == np.count_nonzero(alive):
            return here
        warps = int(place[-1] >> 5) + 1
        bit = u32(1) << (place & 31).astype(u32)
        present, living = (np.zeros(warps, u32) for _ in range(2))
        np.bitwise_or.at(present, place[here] >> 5, bit[here])
        living_here = np.flatnonzero(alive)
        np.bitwise_or.at(living, place[living_here] >> 5, bit[living_here])
        if isinstance(members, str):
            named = np.broadcast_to(self.R[members], (self.size,))[here].astype(u32)
        else:
            named = np.full(len(here), members & 0xFFFFFFFF, u32)
        warp = place[here] >> 5
        complete = (named & living[warp] & ~present[warp]) == 0
        if not complete.all():
            self.waiting[pc] = here[~complete]
        return here[complete]

    # ---- barriers of a block

    def _block_numbers(self, here: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.block_of(self.R["place"][here])), here.shape)

    def _arrive(self, barrier: Barrier, pc: int, here: np.ndarray) -> None:
        """Threads reach a barrier."""
        which = barrier.identifier
        if isinstance(which, int):
            numbers = np.full(len(here), which)
        else:
            numbers = np.broadcast_to(self.R[which], (self.size,))[here]
        identifiers = np.unique(numbers).tolist()
        for identifier in identifiers:
            entries = self.barriers.setdefault(identifier, [])
            entries.append((pc, here[numbers == identifier], barrier))
        for identifier in identifiers:
            self._release(identifier)

    def _release(self, identifier: int) -> None:
        """Lets the threads of those blocks go on whose threads have all reached a barrier."""
        entries = self.barriers.get(identifier, [])
        if not entries:
            self.barriers.pop(identifier, None)
            return
        size = self.blocks_here
        counts = np.zeros(size, i64)
        for _, here, _ in entries:
            counts += np.bincount(self._block_numbers(here), minlength=size)
        alive = np.flatnonzero(self._alive())
        expected = np.bincount(self._block_numbers(alive), minlength=size)
        full = (counts >= expected) & (counts > 0)
        if not full.any():
            return
        self._check_aligned(entries, full)
        if self.detector is not None:
            self.detector.block_count[full] += 1
        self.progress += 1
        go_on, left = [], []
        for pc, here, barrier in entries:
            released = full[self._block_numbers(here)]
            go_on.append((barrier.following, here[released]))
            if not released.all():
                left.append((pc, here[~released], barrier))
        self.barriers[identifier] = left
        if not left:
            del self.barriers[identifier]
        for pc, here in go_on:
            self._join(pc, here)

    def _check_aligned(
        self, entries: list[tuple[int, np.ndarray, Barrier]], full: np.ndarray
    ) -> None:
        """`bar.sync` must be the same instruction for all threads of a warp."""
        where: dict[int, int] = {}
        place = self.R["place"]
        for pc, here, barrier in entries:
            if not barrier.aligned:
                continue
            some = here[full[self._block_numbers(here)]]
            for warp in np.unique(place[some] >> 5).tolist():
                if where.setdefault(warp, pc) != pc:
                    lines = sorted(self.blocks[k].line for k in (pc, where[warp]))
                    raise Fault(
                        DivergentCollective,
                        f"divergent collective: threads of one warp wait at different barriers, at "
                        f"lines {lines[0]} and {lines[1]}",
                        slot=int(some[place[some] >> 5 == warp][0]),
                        line=self.blocks[pc].line,
                    )

    # ---- nothing goes on

    def _stuck(self) -> None:
        """All threads wait: says for whom."""
        kind: Any = Deadlock
        texts: list[str] = []
        slot, line = 0, None
        for entries in self.barriers.values():
            for pc, here, _ in entries:
                texts.append(self._describe_waiting(pc, here))
                slot, line = int(here[0]), self.blocks[pc].line
        for pc, here in self.waiting.items():
            texts.append(self._describe_waiting(pc, here))
            slot, line, kind = int(here[0]), self.blocks[pc].line, DivergentCollective
        name = "divergent collective" if kind is DivergentCollective else "deadlock"
        message = f"{name}: threads wait for each other: " + "; ".join(texts)
        raise Fault(kind, message, slot=slot, line=line)

    def _describe_waiting(self, pc: int, here: np.ndarray) -> str:
        first = self.name_of(int(self.R["place"][here[0]]))
        more = f" and {len(here) - 1} more" if len(here) > 1 else ""
        return f"{first}{more} at line {self.blocks[pc].line}"

    def where_threads_are(self) -> str:
        """For messages: the lines at which threads are."""
        if self.pc is not None:
            return self._describe_waiting(self.pc, np.arange(self.size))
        places = [(pc, group.here) for pc, group in self.groups.items()]
        places += list(self.waiting.items())
        places += [(pc, here) for e in self.barriers.values() for pc, here, _ in e]
        return "; ".join(self._describe_waiting(pc, here) for pc, here in sorted(places)[:8])

    def snapshot(self) -> Any:
        """The state, to see later whether anything has changed."""
        groups = {pc: group.here for pc, group in self.groups.items()}
        return self.pc, groups, dict(self.waiting), {k: v.copy() for k, v in self.R.items()}

    def same(self, state: Any) -> bool:
        """Whether the state is that of a snapshot."""
        pc, groups, waiting, registers = state
        mine = {k: group.here for k, group in self.groups.items()}
        if pc != self.pc or mine.keys() != groups.keys() or waiting.keys() != self.waiting.keys():
            return False
        return (
            all(np.array_equal(mine[k], groups[k]) for k in groups)
            and all(np.array_equal(waiting[k], self.waiting[k]) for k in waiting)
            and all(_same_bits(v, self.R[k]) for k, v in registers.items())
        )

    # ---- jumps that threads compute

    def jump(self, index: np.ndarray, targets: tuple[int, ...]) -> Any:
        """`brx.idx`."""
        outside = index >= len(targets)
        if (k := first(outside)) is not None:
            message = f"the index {int(index[k])} of a jump is beyond its {len(targets)} targets"
            raise Fault(InvalidTarget, message, k)
        return self.go_back(np.array(targets, i64)[index])

    def go_back(self, target: np.ndarray) -> Any:
        """To blocks that threads know by number: where a function returns to."""
        if len(target) == 1 or not np.count_nonzero(target != target[0]):
            return int(target[0])
        return target


def _warps(place: np.ndarray) -> int:
    """The number of warps of threads in order."""
    warp = place >> 5
    return int(np.count_nonzero(warp[1:] != warp[:-1])) + 1


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()

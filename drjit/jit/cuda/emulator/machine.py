"""The scheduler: which basic block runs next, and for which threads.

As long as all threads are at the same place, a block runs for all of them at once. When a branch
separates them, they form groups, by the block that each is to execute next. The group whose block
comes first in the text runs next, for its threads alone; groups that arrive at the same block
become one. That is where a compiler lets them meet again.

Three kinds of threads wait: those at an instruction of a warp that names threads which are not
there yet, those at a barrier, and those that spin in a loop until another thread writes to memory.
The latter are noticed because nothing changes from one iteration to the next: then other groups run
first. In case a loop hides that (with a counter, say), the group that has not run for longest gets
every 4096th turn.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .access import spread
from .errors import Deadlock, DivergentCollective, Fault, InvalidTarget, first
from .translate import BasicBlock
from .warpgroup import Warpgroups

if TYPE_CHECKING:
    from .module import EmulatedLaunch

u32, u64, i64 = np.uint32, np.uint64, np.int64
_FAIR = 4096
_SPINS = 16  # backward jumps between two looks at whether anything changes


class ThreadChunk(Warpgroups):
    """A chunk of threads that executes the blocks of a kernel."""

    def __init__(self, launch: "EmulatedLaunch", first: int, blocks: int):
        super().__init__(launch, first, blocks)
        code = launch.code
        self.blocks, self.end = code.blocks, len(code.blocks)
        special = {name: self.special(text) for name, text in code.special.items()}
        self.R = {**code.initial, **special, "place": self.all_places}
        self.size = len(self.all_places)
        # Threads (positions in increasing order) by the block that they are to execute, and since
        # which turn they have been waiting.
        self.groups = {code.first: (np.arange(self.size), 0)}
        self.waiting: dict[int, np.ndarray] = {}
        self.barriers: dict[int, list[tuple[int, np.ndarray]]] = {}
        # Registers whose arrays are not shared with others, so that single elements may change.
        self.owned: set[str] = set()
        # Groups that spin, and the states of groups at backward jumps.
        self.spinning: set[int] = set()
        self.states: dict[int, Any] = {}
        self.jumps = 0
        self.executed = self.divergent = self.turns = 0
        # Counts what does not happen in a deadlock: threads finish, or get past a barrier.
        self.progress = 0
        self.warps = self.blocks_here * self.warps_per_block

    @property
    def finished(self) -> bool:
        return not (self.groups or self.waiting or self.barriers)

    def steps(self, turns: int) -> Iterator[tuple[BasicBlock, np.ndarray]]:
        """Executes up to `turns` blocks; yields each after it has run, with the positions of the
        threads that have run it."""
        stop = self.turns + turns
        while self.turns < stop and not self.finished:
            if not self.groups:
                self._stuck()
            if len(self.groups) == 1 and not self.waiting and not self.barriers:
                self._forget_finished()
            self.turns += 1
            pc = self._choose()
            block, here = self.blocks[pc], self.groups.pop(pc)[0]
            if block.sync == "warp" and len(here) < self.size:
                here = self._ready(pc, here, block.members)
                if not len(here):
                    continue
            place = self.R["place"] if len(here) == self.size else self.R["place"][here]
            warps = self.warps if len(here) == self.size else _warps(place)
            self.executed += (block.end - block.first) * warps
            if block.sync == "barrier":
                self._arrive(block, here)
            else:
                self._execute(block, here, place)
            yield block, here

    def _choose(self) -> int:
        """The block of the group that runs next."""
        if self.turns % _FAIR == 0:
            return min(self.groups, key=lambda pc: self.groups[pc][1])
        if not self.groups.keys() - self.spinning:
            self.spinning.clear()
        return min(self.groups.keys() - self.spinning)

    def _execute(self, block: BasicBlock, here: np.ndarray, place: np.ndarray) -> None:
        """Runs a block for some threads, whose registers are taken out and put back, or for all."""
        R = self.R
        if len(here) == self.size:
            self.owned.clear()
            result = block.run(R, self)
        else:
            self.here, self._whole = here, None
            some = {}
            for name in block.reads:
                value = R[name]
                some[name] = value if len(value) == 1 else value.take(here, axis=0)
            result = block.run(some, self)
            for name in block.writes:
                if name not in self.owned:
                    R[name] = spread(R[name], self.size).astype(some[name].dtype)
                    self.owned.add(name)
                R[name][here] = some[name]
            self.here, self._whole = None, None
        successors = self._successors(result, place)
        for following, chosen in successors:
            self._join(following, here[chosen])
        following = min(following for following, _ in successors)
        if following <= block.number and len(self.groups) > 1:
            self._look_for_spinning(following)

    def _successors(self, result: Any, place: np.ndarray) -> list[tuple[int, Any]]:
        """The blocks that follow, and which of the threads go to each."""
        if type(result) is int:
            return [(result, slice(None))]
        if type(result) is tuple:
            condition, yes, no = result
            holds = np.count_nonzero(condition)
            if holds == len(condition) or not holds:
                return [(yes if holds else no, slice(None))]
            condition = spread(condition, len(place))
            self._count_divergence(condition, place)
            return [(yes, np.flatnonzero(condition)), (no, np.flatnonzero(~condition))]
        result = spread(result, len(place))
        return [(int(v), np.flatnonzero(result == v)) for v in np.unique(result)]

    def _count_divergence(self, condition: np.ndarray, place: np.ndarray) -> None:
        """Counts the warps whose threads do not agree."""
        starts = np.flatnonzero(np.diff(place >> 5, prepend=-1))
        some = np.logical_or.reduceat(condition, starts)
        every = np.logical_and.reduceat(condition, starts)
        self.divergent += int(np.count_nonzero(some & ~every))

    def _join(self, pc: int, here: np.ndarray) -> None:
        """Threads go to a block."""
        if not len(here):
            return
        if pc == self.end:
            self.progress += 1
            self._wake()
            return
        there, since = self.groups.get(pc, (here[:0], self.turns))
        if len(there):
            here = np.sort(np.concatenate((there, here)))
        self.groups[pc] = here, since

    def _forget_finished(self) -> None:
        """Drops finished threads, when all others are at one block."""
        self.spinning.clear()
        self.states.clear()
        ((pc, (here, since)),) = self.groups.items()
        if len(here) < self.size:
            self.R = {k: v if len(v) == 1 else v.take(here, axis=0) for k, v in self.R.items()}
            self.size, self._whole = len(here), None
            self.warps = _warps(self.R["place"])
            self.groups[pc] = np.arange(self.size), since

    def _wake(self) -> None:
        """Threads have finished: nobody needs to wait for them any longer."""
        waiting, self.waiting = self.waiting, {}
        for pc, here in waiting.items():
            self._join(pc, here)
        for identifier in list(self.barriers):
            self._release(identifier)

    def _alive(self) -> np.ndarray:
        """For each position, whether the thread is not finished."""
        alive = np.zeros(self.size, bool)
        for _, here in self._unfinished():
            alive[here] = True
        return alive

    def _unfinished(self) -> list[tuple[int, np.ndarray]]:
        """All threads that are not finished, by the blocks that they are to execute."""
        groups = [(pc, here) for pc, (here, _) in self.groups.items()]
        groups += self.waiting.items()
        return groups + [entry for entries in self.barriers.values() for entry in entries]

    def _look_for_spinning(self, pc: int) -> None:
        """After a backward jump: has anything changed since an earlier one?"""
        self.jumps += 1
        if self.jumps % _SPINS or pc not in self.groups:
            return
        here = self.groups[pc][0]
        registers = tuple(self.R[name][here].tobytes() for name in sorted(self.owned))
        state = self.memory.writes, here.tobytes(), hash(registers)
        if self.states.get(pc) == state:
            self.spinning.add(pc)
        self.states[pc] = state

    # ---- waiting for the threads of a warp

    def _ready(self, pc: int, here: np.ndarray, members: int | str) -> np.ndarray:
        """Of the threads at an instruction of a warp, those whose partners are all there."""
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

    def _arrive(self, block: BasicBlock, here: np.ndarray) -> None:
        """Threads reach a barrier."""
        if len(here) == self.size:
            self._pass(slice(None))
            self._join(block.run(self.R, self), here)
            return
        which = block.members
        if isinstance(which, int):
            numbers = np.full(len(here), which)
        else:
            numbers = np.broadcast_to(self.R[which], (self.size,))[here]
        identifiers = np.unique(numbers).tolist()
        for identifier in identifiers:
            entries = self.barriers.setdefault(identifier, [])
            entries.append((block.number, here[numbers == identifier]))
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
        for _, here in entries:
            counts += np.bincount(self._block_numbers(here), minlength=size)
        alive = np.flatnonzero(self._alive())
        expected = np.bincount(self._block_numbers(alive), minlength=size)
        full = (counts >= expected) & (counts > 0)
        if not full.any():
            return
        self._check_aligned(entries, full)
        self._pass(full)
        go_on, left = [], []
        for pc, here in entries:
            released = full[self._block_numbers(here)]
            go_on.append((self.blocks[pc].run(self.R, self), here[released]))
            if not released.all():
                left.append((pc, here[~released]))
        self.barriers[identifier] = left
        if not left:
            del self.barriers[identifier]
        for pc, here in go_on:
            self._join(pc, here)

    def _pass(self, blocks: Any) -> None:
        """All threads of some blocks have reached a barrier."""
        self.progress += 1
        if self.detector is not None:
            self.detector.block_count[blocks] += 1

    def _check_aligned(self, entries: list[tuple[int, np.ndarray]], full: np.ndarray) -> None:
        """`bar.sync` must be the same instruction for all threads of a warp."""
        where: dict[int, int] = {}
        place = self.R["place"]
        for pc, here in entries:
            if not self.blocks[pc].aligned:
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
        """Raises a `Fault`, as all threads wait for each other."""
        kind: Any = Deadlock
        texts: list[str] = []
        slot, line = 0, None
        for entries in self.barriers.values():
            for pc, here in entries:
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
        places = sorted(self._unfinished(), key=lambda where: where[0])[:8]
        return "; ".join(self._describe_waiting(pc, here) for pc, here in places)

    def state(self) -> Any:
        """All that determines what threads do, to see later whether anything has changed."""
        where = sorted((pc, here.tobytes()) for pc, here in self._unfinished())
        return where, {name: value.tobytes() for name, value in self.R.items()}

    # ---- jumps that threads compute

    def jump(self, index: np.ndarray, targets: tuple[int, ...]) -> Any:
        """`brx.idx`."""
        outside = index >= len(targets)
        if (k := first(outside)) is not None:
            message = f"the index {int(index[k])} of a jump is beyond its {len(targets)} targets"
            raise Fault(InvalidTarget, message, k)
        return self.go_to_blocks(np.array(targets, i64)[index])

    def go_to_blocks(self, target: np.ndarray) -> Any:
        """Continues at blocks given by number, such as those to which functions return."""
        if len(target) == 1 or not np.count_nonzero(target != target[0]):
            return int(target[0])
        return target


def _warps(place: np.ndarray) -> int:
    """The number of warps of threads in order."""
    warp = place >> 5
    return int(np.count_nonzero(warp[1:] != warp[:-1])) + 1

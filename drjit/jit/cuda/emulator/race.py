"""Races in shared memory, and bank conflicts.

Two accesses to the same word race if they are by different threads, one of them writes, and no
barrier lies between: one of the whole block, or `bar.warp.sync` for threads of one warp. Barriers
are counted, per block and per warp; each word remembers who wrote and who read it last, and at
which counts. (Barriers for a part of a block count for all of it: races that such a barrier does
not prevent are not found.)
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import Fault, Race, first

i64 = np.int64


class RaceDetector:
    """Remembers accesses to the shared memory of a chunk, per `grain` bytes. In messages, `name_of`
    is for threads, and `line_text` for lines of generated code."""

    def __init__(
        self, nbytes: int, grain: int, blocks: int, warps: int, name_of: Callable[[int], str],
        line_text: Callable[[int], str],
    ):  # fmt: skip
        self.grain, self.name_of, self.line_text = grain, name_of, line_text
        words = nbytes // grain + 1
        self.block_count = np.zeros(blocks, i64)
        self.warp_count = np.zeros(warps, i64)
        # Of the last write and read: place of the thread, counts of barriers, line of the code.
        self.writes = {name: np.full(words, -1, i64) for name in ("place", "block", "warp", "line")}
        self.reads = {name: np.full(words, -1, i64) for name in ("place", "block", "warp", "line")}
        # Whether, since the barrier, another thread of the last reader's warp has read the word, or
        # one of another warp.
        self.mates, self.others = np.zeros(words, bool), np.zeros(words, bool)
        self.strong = np.zeros(words, bool)  # the last write was atomic, or volatile
        self.weak = np.zeros(words, bool)  # a read since was neither

    def access(
        self, place: np.ndarray, block: Any, address: np.ndarray, size: int, writes: bool,
        strong: bool, line: int, value: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Notes accesses of `size` bytes at addresses within the chunk's shared memory, and raises
        a `Fault` if one races with an earlier one. `block` has the block of each thread, or is the
        only one; `value` is what is written; `strong` accesses (atomic ones, and those that other
        threads may rely on) do not race with each other."""
        words = address // self.grain
        lanes = np.arange(len(place))
        steps = max(size // self.grain, 1)
        if steps > 1:
            words = (words[:, None] + np.arange(steps)).reshape(-1)
            place, lanes = np.repeat(place, steps), np.repeat(lanes, steps)
            block = block if type(block) is int else np.repeat(block, steps)
        blocks, warps = self.block_count[block], self.warp_count[place >> 5]
        racing = self._racing(self.writes, words, place, blocks, warps)
        if strong:
            racing &= ~self.strong[words]
        if np.count_nonzero(racing):
            self._report(self.writes, "writes", racing, words, lanes, writes)
        if writes:
            last = self.reads
            racing = self._racing(last, words, place, blocks, warps)
            again = self.others[words] | (self.mates[words] & (last["warp"][words] == warps))
            racing |= again & (last["block"][words] == blocks)
            if strong:
                racing &= self.weak[words]
            if np.count_nonzero(racing):
                self._report(last, "reads", racing, words, lanes, writes)
            self._check_same_instruction(words, place, lanes, value, strong)
            self.strong[words] = strong
            last = self.writes
        else:
            last = self.reads
            self._join_readers(words, place, blocks, warps, strong)
        last["place"][words] = place
        last["block"][words] = blocks
        last["warp"][words] = warps
        last["line"][words] = line
        if not writes:  # several threads read one word with the same instruction
            last_place = last["place"][words]
            same_warp = last_place >> 5 == place >> 5
            self.mates[words] |= same_warp & (last_place != place)
            self.others[words] |= ~same_warp

    def _join_readers(
        self, words: np.ndarray, place: np.ndarray, blocks: np.ndarray, warps: np.ndarray,
        strong: bool,
    ) -> None:  # fmt: skip
        """Updates what is known of earlier readers, when others become the last ones."""
        last = self.reads
        recent = last["block"][words] == blocks
        last_place = last["place"][words]
        same_warp = recent & (last_place >> 5 == place >> 5)
        unordered = same_warp & (last["warp"][words] == warps)
        self.mates[words] = unordered & (self.mates[words] | (last_place != place))
        self.others[words] = recent & (self.others[words] | ~same_warp)
        self.weak[words] = (self.weak[words] & recent) | (not strong)

    def _racing(
        self, last: dict[str, np.ndarray], words: np.ndarray, place: np.ndarray,
        blocks: np.ndarray, warps: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        recent = last["block"][words] == blocks
        if not np.count_nonzero(recent):
            return recent
        who = last["place"][words]
        other_warp = (who >> 5) != (place >> 5)
        return recent & (who != place) & (other_warp | (last["warp"][words] == warps))

    def _check_same_instruction(
        self, words: np.ndarray, place: np.ndarray, lanes: np.ndarray, value: np.ndarray | None,
        strong: bool,
    ) -> None:  # fmt: skip
        """Raises a `Fault` if threads write different values to a word with one instruction."""
        if strong or value is None or len(place) == 1:
            return
        self.writes["place"][words] = place
        lost = self.writes["place"][words] != place
        if not np.count_nonzero(lost):
            return
        values = np.broadcast_to(value, (int(lanes[-1]) + 1,))
        at = np.zeros(len(self.writes["place"]), i64)
        at[words] = lanes
        different = lost & (values[lanes] != values[at[words]])
        if (k := first(different)) is not None:
            other = int(self.writes["place"][words[k]])
            raise Fault(
                Race,
                f"race in shared memory: writes another value than {self.name_of(other)} to the "
                f"same word at offset {int(words[k]) * self.grain:#x} of the chunk, with the same "
                "instruction",
                int(lanes[k]),
            )

    def _report(
        self, last: dict[str, np.ndarray], verb: str, racing: np.ndarray, words: np.ndarray,
        lanes: np.ndarray, writes: bool,
    ) -> None:  # fmt: skip
        k = int(np.flatnonzero(racing)[0])
        word = words[k]
        other = self.name_of(int(last["place"][word]))
        what = "writes to" if writes else "reads"
        raise Fault(
            Race,
            f"race in shared memory: {what} a word that {other} {verb} at line "
            f"{self.line_text(int(last['line'][word]))}, with no barrier between",
            int(lanes[k]),
        )


def bank_conflicts(words: np.ndarray) -> int:
    """How many times the hardware must repeat an access.

    `words` has a row per request of the hardware: the numbers of 32 words of 4 bytes. The 32 banks
    serve one word each at a time; lanes that access the same word share it.
    """
    relative = words - words[:, :1]
    if not np.count_nonzero(relative != np.arange(words.shape[1])):
        return 0
    ordered = np.sort(words, axis=1)
    fresh = np.ones(words.shape, bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    rows = np.arange(len(words))[:, None] * 32
    bins = (rows + (ordered & 31))[fresh]
    degree = np.bincount(bins, minlength=len(words) * 32).reshape(-1, 32).max(1)
    return int((degree - 1).sum())

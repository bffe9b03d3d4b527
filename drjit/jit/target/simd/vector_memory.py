"""Vectors and their stack memory: a slot is free once no variable refers to its vector."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from .ir import BITS, SCALAR, Function, KernelError, Operand

if TYPE_CHECKING:
    from .feature_loop import Operation

# Types of features in registers.
HELD = {code: code for code in SCALAR} | {"f16": "f32"}
# Types of features in memory, if different: indexed access needs elements of 32 or 64 bits.
WIDE = {code: "u32" for code, bits in BITS.items() if bits < 32 and code != "f16"}
# Bytes for the vectors of a kernel: half of a thread's usual stack.
STACK = 4 << 20


class StackSlot:
    """Stack memory for the rows of a vector, or only for its features if these are `uniform`,
    i.e. equal in all lanes of all packets. `holders` are the variables whose vectors are stored
    there.
    """

    __slots__ = ("holders", "name", "size", "uniform")

    def __init__(self, name: str, size: int, *, uniform: bool = False):
        self.name, self.size, self.uniform = name, size, uniform
        self.holders = 0


class FeatureVector:
    """A vector: element type, number of features, and either its deferred operation or its memory,
    where a row represents `run` features. `holders` are the variables that refer to it.
    """

    __slots__ = ("_slot", "code", "count", "holders", "op", "run")

    def __init__(self, code: str, count: int, op: "Operation | None" = None):
        self.code, self.count, self.op = code, count, op
        self._slot: StackSlot | None = None
        self.run = 1
        self.holders = 0

    @property
    def slot(self) -> StackSlot | None:
        """The memory of the vector, if it has any yet."""
        return self._slot

    @slot.setter
    def slot(self, slot: StackSlot) -> None:
        self._slot = slot
        slot.holders += self.holders


def row_code(code: str) -> str:
    """Returns the type of features in memory: integers of less than 32 bits, and masks, have 32."""
    return WIDE.get(code, HELD[code])


def row_type(code: str, lanes: int) -> str:
    """Returns the memory type of a feature of all lanes."""
    return f"<{lanes} x {SCALAR[row_code(code)]}>"


def row_bytes(code: str, lanes: int) -> int:
    """Returns the size of a row."""
    return BITS[row_code(code)] * lanes // 8


def _vector(value: Operand | None) -> FeatureVector | None:
    return value[1] if value is not None and type(value[1]) is FeatureVector else None  # type: ignore


class Variables(dict):
    """The variables of a kernel, with reference counts of vectors, and the memory of the vectors,
    each followed by some spare bytes.
    """

    def __init__(self, f: Function, spare: int):
        super().__init__()
        self.f, self.spare = f, spare
        self.slots = 0
        self.size = 0  # of all slots, in bytes
        # Slots without holders, and some that have been reused.
        self.free: dict[StackSlot, None] = {}

    def bound(self, name: str) -> FeatureVector | None:
        """Returns the vector that a name stands for."""
        return _vector(self.get(name))

    def __setitem__(self, name: str, value: Operand) -> None:
        v = _vector(value)
        if v is not None:
            v.holders += 1
            if v.slot is not None:
                v.slot.holders += 1
        self.pop(name)
        super().__setitem__(name, value)

    def pop(self, name: str, default: None = None) -> Operand | None:
        """Removes a variable."""
        value = super().pop(name, default)
        v = _vector(value)
        if v is not None:
            v.holders -= 1
            slot = v.slot
            if slot is not None:
                slot.holders -= 1
                if not slot.holders and not slot.uniform:
                    self.free.pop(slot, None)
                    self.free[slot] = None
        return value

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def room(
        self,
        size: int,
        taken: Collection[StackSlot | None],
        wanted: Iterable[StackSlot | None] = (),
    ) -> StackSlot:
        """Returns memory of the given size in which no variable and nothing taken is stored:
        one of the preferred slots if possible, otherwise the one freed last, because it is in
        the cache.
        """
        for slot in wanted:
            if slot is not None and not slot.holders and slot not in taken and slot.size >= size:
                return slot
        for slot in reversed(list(self.free)):
            if slot.holders:
                del self.free[slot]
            elif slot not in taken and size <= slot.size <= 2 * size:
                return slot
        self.size += size
        if self.size > STACK:
            raise KernelError(
                f"the vectors that are needed at the same time take {self.size >> 10} KiB of stack "
                f"memory, more than {STACK >> 10} KiB"
            )
        slot = StackSlot(f"%rows{self.slots}", size)
        self.slots += 1
        self.f.once(slot.name, f"alloca [{size + self.spare} x i8], align 64")
        self.free[slot] = None
        return slot

"""The record of launched kernels that `JitFlag.KernelHistory` asks for."""

from typing import Any, NamedTuple


class Launch(NamedTuple):
    """One launch: its kernel, size, tier, and either seconds or the runtime's job to ask for them.

    `first` tells whether the kernel was met, compiled or loaded for this launch.
    """

    kernel: Any
    size: int
    tier: str
    time: Any
    state: str
    first: bool


launches: list[Launch] = []


def add(kernel: Any, size: int, tier: str, time: Any) -> None:
    """Records a launch."""
    first = kernel.launches == kernel.made_at
    launches.append(Launch(kernel, size, tier, time, kernel.state, first))


def take() -> list[Launch]:
    """The launches since the last call."""
    taken = launches[:]
    launches.clear()
    return taken

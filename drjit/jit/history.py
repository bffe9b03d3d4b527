"""The record of launched kernels that `JitFlag.KernelHistory` asks for."""

from typing import Any, NamedTuple


class Launch(NamedTuple):
    """One launch: its kernel, size, tier, and either seconds or the runtime's job to ask for them."""

    kernel: Any
    size: int
    tier: str
    time: Any
    state: str


launches: list[Launch] = []


def add(kernel: Any, size: int, tier: str, time: Any) -> None:
    """Records a launch."""
    launches.append(Launch(kernel, size, tier, time, kernel.state))


def take() -> list[Launch]:
    """The launches since the last call."""
    taken = launches[:]
    launches.clear()
    return taken

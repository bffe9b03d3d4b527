"""What evaluations, compilations, launches and waits tell while a report records. All of them ask
for the `sink`, in places that take long in any case; what becomes of it, nobody here knows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.node import Node


class Sink(ABC):
    """What is told of events. Threads that compile call it as well."""

    @abstractmethod
    def begin(self) -> Any:
        """Takes note that something begins in this thread, whose `end` gets the result."""

    @abstractmethod
    def end(self, kind: str, start: Any, text: str = "") -> None:
        """Takes note of what it was: `schedule`, `wait` or `traverse`."""

    @abstractmethod
    def made(self, kind: str, start: float, kernel: Any, text: str = "") -> None:
        """Takes note that this thread has just done a `compile` or `load` of a kernel, since a time
        of `time.perf_counter`."""

    @abstractmethod
    def meet(self, kernel: Any, roots: Sequence[Node]) -> None:
        """Is called before a kernel is launched, with the nodes that it computes."""

    def launching(
        self, kernel: Any, size: int, operands: Any
    ) -> Callable[[Sequence[Any]], None] | None:
        """Is called before a launch with its arguments; returns what is called after it, if it is
        to be, with the outputs."""
        return None

    @abstractmethod
    def launched(self, launch: Any) -> None:
        """Takes note of a `history.Launch`."""

    @abstractmethod
    def frozen(self, text: str) -> None:
        """Is told why a frozen function is about to be recorded."""

    @abstractmethod
    def traversal(self, mode: str, variables: list[Any]) -> Any:
        """Is told of variables of the derivative graph that are about to be visited. May return a
        function that looks at each of them before its gradient is cleared."""

    @abstractmethod
    def lose(self, kind: str, what: str = "") -> None:
        """Takes note of a derivative that is not tracked further, and why."""


sink: Sink | None = None
"""What is told, while a report records."""


def timed(kind: str, work: Callable[..., object], *arguments: Any) -> None:
    """Does some work, and tells the sink of it, if there is one."""
    told = sink  # another thread may end the report meanwhile
    if told is None:
        work(*arguments)
        return
    start = told.begin()
    try:
        work(*arguments)
    finally:
        told.end(kind, start)

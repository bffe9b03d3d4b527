"""Ctrl-C handling: work that must not stop half-way, such as updates of arrays that a second
attempt would repeat, postpones an interrupt until it is complete.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` makes enumerations of all its constants


@contextmanager
def postponed() -> Iterator[None]:
    """Postpones a first Ctrl-C to the end of the block; a second one takes effect immediately."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # Python handles signals in the main thread only
        return
    received: list[tuple[int, FrameType | None]] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append((number, frame))
        if len(received) > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if len(received) == 1:
            before(*received[0])

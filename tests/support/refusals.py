"""What plugins that try each text of a run have in common."""

from collections.abc import Iterator
from typing import Any

import pytest


class Refusals:
    """A plugin that fails a test if a text of it was `refused`. `totals` are what the summary says,
    of all processes that share the run."""

    name: str
    """What the totals are called where processes pass them on."""
    error: type[Exception] = AssertionError

    def __init__(self, **totals: float) -> None:
        self.totals = totals
        self.refused: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        try:
            result = yield
        finally:
            refused = "\n".join(self.refused)
            self.refused.clear()
        if refused:
            raise self.error(refused)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[self.name] = self.totals

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        for name, number in getattr(node, "workeroutput", {}).get(self.name, {}).items():
            self.totals[name] += number

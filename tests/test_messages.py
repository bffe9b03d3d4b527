"""Messages contain the key phrase of the reference's message, so that a search for it finds what
has been written about it, and handlers that look for it work. Each list is a theme; a row is a
name, a call that raises, and the phrase.
"""

from collections.abc import Callable
from typing import Any

import pytest

Row = tuple[str, Callable[[], Any], str]

ARRAYS: list[Row] = []
FLOW: list[Row] = []
DERIVATIVES: list[Row] = []
NETWORKS: list[Row] = []


@pytest.mark.parametrize(
    "call, phrase",
    [
        pytest.param(call, phrase, id=name)
        for name, call, phrase in [*ARRAYS, *FLOW, *DERIVATIVES, *NETWORKS]
    ],
)
def test_a_message_contains_the_phrase(call, phrase):
    with pytest.raises(Exception) as raised:
        call()
    chain, error = [], raised.value
    while error is not None:
        chain.append(str(error))
        error = error.__cause__ or error.__context__
    assert phrase in "\n".join(chain)

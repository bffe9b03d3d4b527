"""Messages contain the key phrase of the reference's message, so that a search for it finds what
has been written about it, and handlers that look for it work. Each list is a theme; a row is a
name, a call that raises, and the phrase.
"""

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import ad

Row = tuple[str, Callable[[], Any], str]

ARRAYS: list[Row] = []
FLOW: list[Row] = []
DERIVATIVES: list[Row] = [
    (
        "backward of a number",
        lambda: dr.backward(1.0),
        "incompatible function arguments",
    ),
    (
        "backward without derivatives",
        lambda: dr.backward(ad.Float(1)),
        "does not depend on the input",
    ),
    (
        "forward_to without derivatives",
        lambda: dr.forward_to(ad.Float(1)),
        "does not depend on the input",
    ),
    (
        "replace_grad of other sizes",
        lambda: dr.replace_grad(ad.Float(1, 2), ad.Float(1, 2, 3)),
        "incompatible input sizes",
    ),
    (
        "set_grad of another size",
        lambda: dr.set_grad(dr.detail.new_grad(ad.Float(1, 2)), ad.Float(1, 2, 3)),
        "attempted to store a gradient",
    ),
    (
        "set_grad to nothing",
        lambda: dr.set_grad(ad.Float(1), None),
        "incompatible function arguments",
    ),
]
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

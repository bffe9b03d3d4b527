"""Fused multiply-adds in place of products and sums, where the user allows them.

A fixed rule decides which products are fused, so the bits of a result do not depend on the level of
LLVM's code generation: a product is fused with a sum if nothing else uses it and both are in one
block; a sum of two such products is fused with the first. Signs do not matter. The rows of this
module note products and their sums while a function is emitted, and `fuse` replaces them at its
end, when all uses are known.
"""

import re
from collections import Counter
from functools import cache

from ...tuples import NamedTuple
from . import elementwise
from .elementwise import Emit, Row
from .ir import Function

_FUSED = ("f32", "f64")  # products of `f16` are rounded
_NAME = re.compile(r"%[\w.]+")


class Noted(NamedTuple):
    """A product, its negation, or a sum: where its line is (in the entry block: -1), the name,
    type and operands."""

    block: str
    line: int
    name: str
    code: str
    operands: tuple[str, ...]


@cache
def row(name: str | None, code: str, lanes: int, contract: bool) -> Row | None:
    """Returns how an operation is emitted for an element type, or None if it does not support
    that. With `contract`, products and sums are noted for `fuse`."""
    found = elementwise.row(name, code, lanes, False)
    if not contract or found is None or code not in _FUSED or name not in _NOTING:
        return found
    return Row(found.result, _NOTING[name](found.emit))


def _product(emit: Emit) -> Emit:
    def product(f: Function, code: str, x: str, y: str) -> str:
        name = emit(f, code, x, y)
        f.products[name] = _noted(f, name, code, x, y)
        return name

    return product


def _negation(emit: Emit) -> Emit:
    def negation(f: Function, code: str, x: str) -> str:
        name = emit(f, code, x)
        if x in f.products:
            f.products[name] = _noted(f, name, code, x)
        return name

    return negation


def _sum(emit: Emit) -> Emit:
    def total(f: Function, code: str, x: str, y: str) -> str:
        name, products = emit(f, code, x, y), f.products
        if x in products or y in products:
            f.sums.append(_noted(f, name, code, x, y))
        return name

    return total


def _difference(emit: Emit) -> Emit:
    """A difference of a product is a sum with a negation."""

    def difference(f: Function, code: str, x: str, y: str) -> str:
        if x not in f.products and y not in f.products:
            return emit(f, code, x, y)
        negative, plus = (row(name, code, f.lanes, True) for name in ("neg", "add"))
        assert negative and plus
        return plus.emit(f, code, x, negative.emit(f, code, y))

    return difference


_NOTING = {"mul": _product, "neg": _negation, "add": _sum, "sub": _difference}


def _noted(f: Function, name: str, code: str, *operands: str) -> Noted:
    if f.hoisting:
        return Noted("", -1, name, code, operands)
    return Noted(f.block, len(f.lines) - 1, name, code, operands)


def fuse(f: Function, more: str = "") -> None:
    """Fuses products with sums in a function; `more` is text that uses its values, too."""
    if not f.sums:
        return
    uses = Counter(_NAME.findall("\n".join([*f.lines, *f.prologue, *f.head.values(), more])))
    for s in f.sums:
        for x, other in (s.operands, s.operands[::-1]):
            steps = _unshared(f, x, s.block, uses)
            if steps:
                _fuse(f, s, steps, other)
                break


def _unshared(f: Function, x: str, block: str, uses: Counter[str]) -> list[Noted]:
    """Returns the negations of a product, and the product, if they are in a block and have no other
    use."""
    steps: list[Noted] = []
    while (step := f.products.get(x)) is not None:
        # The head of a function does not repeat the name.
        if step.block != block or uses[x] != (1 if step.line < 0 else 2):
            return []
        steps.append(step)
        x, *factors = step.operands
        if factors:
            return steps
    return []


def _fuse(f: Function, s: Noted, steps: list[Noted], other: str) -> None:
    """Replaces a sum; the line of the product, which nothing needs any more, may negate a
    factor."""
    kind = f.vector[s.code]
    *signs, product = steps
    x, y = product.operands
    for sign in signs:
        _rewrite(f, sign, "")
    if len(signs) % 2:
        _rewrite(f, product, f"fneg {kind} {x}")
        x = product.name
    else:
        _rewrite(f, product, "")
    operands = f"{kind} {x}, {kind} {y}, {kind} {other}"
    _rewrite(f, s, f"call {kind} @llvm.fma.{f.types.suffix[s.code]}({operands})")


def _rewrite(f: Function, noted: Noted, text: str) -> None:
    """Gives a value other text, or none."""
    if noted.line >= 0:
        f.lines[noted.line] = f"{noted.name} = {text}" if text else ""
    elif text:
        f.head[noted.name] = text
    else:
        del f.head[noted.name]

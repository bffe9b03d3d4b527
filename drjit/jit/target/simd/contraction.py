"""Fused multiply-adds in place of products and sums, where the user allows them.

A fixed rule decides which products are fused, so the bits of a result do not depend on the level of
LLVM's code generation: a product is fused with a sum if nothing else uses it and both are in one
block; a sum of two such products is fused with the first. Signs do not matter.

The rows of this module note products and their sums while a function is emitted, and whoever looks
up a value counts its use. At the end of the function, `fuse` replaces the sums.
"""

from functools import cache, partial

from . import elementwise
from .elementwise import Emit, Row
from .ir import Function, types

_FUSED = ("f32", "f64")  # products of `f16` are rounded


@cache
def row(name: str, code: str, lanes: int, contract: bool) -> Row:
    """Returns how an operation is emitted for an element type. With `contract`, products and sums
    are noted for `fuse`."""
    found = elementwise.row(name, code, lanes, False)
    if not contract or code not in _FUSED or name not in _NOTING:
        return found
    return Row(found.result, _NOTING[name](types(lanes).vector[code]))


def _product(kind: str) -> Emit:
    def product(f: Function, code: str, x: str, y: str) -> str:
        block, line = _place(f)
        name = f.op(f"fmul {kind} {x}, {y}")
        f.products[name] = block, line, x, y
        f.uses[name] = 0
        return name

    return product


def _negation(kind: str) -> Emit:
    def negation(f: Function, code: str, x: str) -> str:
        block, line = _place(f)
        name = f.op(f"fneg {kind} {x}")
        if x in f.products:
            f.products[name] = block, line, x, ""
            f.uses[name] = 0
        return name

    return negation


def _sum(kind: str, minus: bool = False) -> Emit:
    begin = f"{'fsub' if minus else 'fadd'} {kind}"

    def total(f: Function, code: str, x: str, y: str) -> str:
        if x in f.products or y in f.products:
            block, line = _place(f)
            name = f.op(f"{begin} {x}, {y}")
            f.sums.append((name, code, minus, (block, line, x, y)))
            return name
        return f.op(f"{begin} {x}, {y}")

    return total


_NOTING = {"mul": _product, "neg": _negation, "add": _sum, "sub": partial(_sum, minus=True)}


def _place(f: Function) -> tuple[str, int]:
    """Returns the block of the next line and its number, which is negative in the entry block."""
    return ("", -1) if f.hoisting else (f.block, len(f.lines))


def fuse(f: Function) -> None:
    """Fuses products with sums in a function."""
    for name, code, minus, (block, line, x, y) in f.sums:
        kind, more = f.vector[code], []
        if steps := _unshared(f, x, block):
            factors, other = _factors(f, kind, steps, False), y
            if minus:
                other = f"%minus.{name[1:]}"
                more = [(other, f"fneg {kind} {y}")]
        elif steps := _unshared(f, y, block):
            factors, other = _factors(f, kind, steps, minus), x
        else:
            continue
        operands = ", ".join([f"{kind} {z}" for z in (*factors, other)])
        fused = f"call {kind} @llvm.fma.{f.types.suffix[code]}({operands})"
        _rewrite(f, name, line, [*more, (name, fused)])


def _unshared(f: Function, x: str, block: str) -> list[str]:
    """Returns the negations of a product, and the product, if they are in a block and have no other
    use."""
    steps: list[str] = []
    while (noted := f.products.get(x)) is not None:
        if noted[0] != block or f.uses[x] > 1:
            return []
        steps.append(x)
        x, factor = noted[2:]
        if factor:
            return steps
    return []


def _factors(f: Function, kind: str, steps: list[str], minus: bool) -> tuple[str, str]:
    """Returns the factors of a product and its negations, whose lines nothing needs any more; that
    of the product may negate a factor."""
    *signs, product = steps
    for sign in signs:
        _rewrite(f, sign, f.products[sign][1], [])
    _, line, x, y = f.products[product]
    if len(signs) % 2 == minus:
        _rewrite(f, product, line, [])
        return x, y
    _rewrite(f, product, line, [(product, f"fneg {kind} {x}")])
    return product, y


def _rewrite(f: Function, name: str, line: int, values: list[tuple[str, str]]) -> None:
    """Replaces a value by other ones."""
    if line >= 0:
        f.lines[line] = "\n".join([f"{result} = {text}" for result, text in values])
        return
    entries = [[entry] if entry[0] != name else values for entry in f.head.items()]
    f.head = dict([entry for several in entries for entry in several])

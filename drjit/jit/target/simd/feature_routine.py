"""Loops over features as routines of the module, which are given where their vectors lie.

Loops of the same operations, as the layers of a network have them, are one routine: the time of
compiling grows with the number of different loops.
"""

from collections.abc import Hashable, Sequence

from .feature_loop import Operation, Product, Register, features, following
from .ir import Function
from .module import Module
from .vector_memory import HELD, Vector

# Memory that nothing else points to: vectors have places of their own, and no kernel writes to
# matrices that it reads.
_POINTER = "ptr noalias"


class _Given:
    """What a routine is given, and how its operands are spelled: equal routines spell the same."""

    def __init__(self, f: Function):
        self.f = f
        self.names: dict[str, str] = {}  # in the routine, by the name in the kernel
        self.types: list[str] = []
        self.computed: dict[Vector, int] = {}

    def local(self, kind: str, name: str) -> str:
        """What an argument is called in the routine."""
        if name not in self.names:
            self.names[name] = f"%{len(self.types)}"
            self.types.append(kind)
        return self.names[name]

    def place(self, v: Vector) -> str:
        """Where a vector lies."""
        return self.local(_POINTER, v.slot.name)  # type: ignore[union-attr]

    def operand(self, v: Vector | Register) -> Hashable:
        """An operand: a constant, an argument, or what the routine computes."""
        if isinstance(v, Register):
            constant = not v.name.startswith("%")
            return v.name if constant else self.local(self.f.vector[v.code], v.name)
        if v in self.computed:
            return self.computed[v]
        return self.place(v), v.code, v.run, v.slot.uniform  # type: ignore[union-attr]

    def computes(self, operation: Operation) -> None:
        """What follows may use the results of an operation."""
        for v in operation.results:
            self.computed[v] = len(self.computed)


def run(
    module: Module,
    f: Function,
    operations: Sequence[Operation],
    stored: Sequence[Vector],
    count: int,
    total: Vector | None = None,
) -> str:
    """Calls the routine of a loop over so many features, and gives the sum over those of one
    vector if asked for. Where one of the operations is a product, the others go on with it.
    """
    product = next((o for o in operations if isinstance(o, Product)), None)
    others = [o for o in operations if o is not product]
    given = _Given(f)
    key: list[Hashable] = [count]
    if product is not None:
        key += [product.kind, *[given.local(_POINTER, p) for p in product.pointers]]
        given.computes(product)
    for operation in others:
        key += [operation.kind, *[given.operand(v) for v in operation.operands]]
        given.computes(operation)
    key += [(given.computed[v], v.code, given.place(v)) for v in stored]
    if total is not None:
        key.append((given.operand(total), total.code))

    def emit(g: Function) -> str:
        if product is None:
            return features(g, given.names, count, others, stored, total)
        following(g, given.names, product, others, stored)
        return ""

    kind = f.vector[HELD[total.code]] if total is not None else "void"
    name = "features" if product is None else "matvec"
    symbol = module.routine(name, given.types, emit, kind, tuple(key))
    types = [t.removesuffix(" noalias") for t in given.types]
    arguments = ", ".join([f"{t} {x}" for t, x in zip(types, given.names, strict=True)])
    call = f"call fastcc {kind} {symbol}({arguments})"
    if total is not None:
        return f.op(call)
    f.do(call)
    return ""

"""The names of the kernel language, known to Numba: one generic rule for their types, and one for
their translation, which asks the front end of the SIMD target.

The translator of the function that is being compiled is that of Numba's IR builder, as its
attribute `translator`.
"""

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite.ir import IntType
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import lower_builtin

from ...ir.op import TABLE
from .. import foreign
from .. import numpy as numpy_target
from ..simd.ir import NUMBER, SCALAR, KernelError, Value
from ..simd.translate import OPERATORS, Translator
from .types import (
    LANES,
    PARAMETERS,
    WORD,
    ConstantType,
    FeaturesType,
    FunctionType,
    OperandType,
    Packet,
    packet,
)

TESTS = ("any_lane", "all_lanes")
# The operations of the operators in a text, and the operators as Numba knows them.
SYMBOLS = {
    kind: (operator.pos if name == "pos" else TABLE[name].python, name)
    for kind, name in OPERATORS.items()
}
_OPERATORS = frozenset(OPERATORS.values())

# The statements that make vectors of their arguments, and how long these are.
_COUNTS: dict[str, Callable[[Sequence[Any]], int]] = {
    "vector": lambda args: len(args) - 1,
    "splat": lambda args: args[1].node.value,
    "load_vector": lambda args: args[1].node.value,
    "broadcast_vector": lambda args: args[1].node.value,
    "matvec": lambda args: args[4 if args[6].node.value else 3].node.value,
}


# Types of results, by the kind of module and the operation.
_known: dict[Any, Any] = {}


class TextValue:
    """A value that is known while compiling: a value of the front end, several, or an argument that
    the text spells out. To Numba's IR builder, an operand.
    """

    __slots__ = ("name", "node", "type", "value")

    def __init__(self, value: Any, type: Any = None, node: ast.expr | None = None):
        self.value, self.type, self.node = value, type, node
        self.name = ""

    def get_reference(self) -> str:
        """Returns how LLVM spells the operand."""
        return self.value[1]


class LanguageName:
    """A name of the language."""

    def __init__(self, name: str):
        self.__name__ = name

    def __repr__(self) -> str:
        return f"<{self.__name__} of the kernel language>"


# ------------------------------------------------------------------------------------------ types


def result_type(t: Translator, name: str, args: tuple[Any, ...]) -> Any:
    """Returns the type of an operation's result for the types of its arguments.

    Raises KernelError if there is none.
    """
    lanes = t.f.lanes
    found = _of_vectors(name, args, lanes) if name != "store_vector" else types.none
    if found is not None:
        return found
    count = next((a.count for a in args if type(a) is FeaturesType), 0)
    if not count:
        return _of_packets(t, name, args)
    scalars = tuple([packet(a.code, lanes) if type(a) is FeaturesType else a for a in args])
    try:
        result = _of_packets(t, name, scalars)
    except KernelError:
        code = next(a.code for a in args if type(a) is FeaturesType)
        raise KernelError(f"the operation does not exist for {code}x{count}") from None
    if isinstance(result, types.BaseTuple):
        return types.Tuple([FeaturesType(r.code, count, lanes) for r in result])  # type: ignore
    # A statement that takes no vectors is an error, of the translation.
    return FeaturesType(result.code, count, lanes) if type(result) is Packet else result


def _of_vectors(name: str, args: tuple[Any, ...], lanes: int) -> Any:
    """Returns the type of a statement's result if it makes, takes apart or reads a vector."""
    if name in _COUNTS:
        try:
            return FeaturesType(_code(args[0]), _COUNTS[name](args), lanes)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise KernelError(f"{name} does not take these arguments") from None
    if name in ("outer", "accumulate"):
        return types.none
    # Whether it is a vector at all, the translation checks.
    if args and type(args[0]) in (FeaturesType, Packet):
        if name == "put":
            return args[0]
        if name in ("take", "feature", "total"):
            return packet(args[0].code, lanes)
    return None


def _of_packets(t: Translator, name: str, args: tuple[Any, ...]) -> Any:
    if name in t.module.bodies:
        _, results = t.module.bodies[name](t)
        return _type([(code, "") for code in results] if len(results) != 1 else (results[0], ""), t)
    m = t.module
    key = type(m), t.f.lanes, t.contract, name, args
    found = _known.get(key)
    if found is None:
        found = _known[key] = _rule(t, name, args)
    return found


def _rule(t: Translator, name: str, args: tuple[Any, ...]) -> Any:
    """Translates an operation in a function of its own, and returns the type of its result."""
    if name in TESTS:
        return types.boolean
    nodes = [_spelled(a) or ast.Name(f"x{k}") for k, a in enumerate(args)]
    inner = trial(t, {f"x{k}": a for k, a in enumerate(args)})
    if name in _OPERATORS:
        return _type(inner.apply(name, [inner.expr(node) for node in nodes]), t)
    return _type(inner.expr(ast.Call(ast.Name(name), nodes, [])), t)


def trial(t: Translator, kinds: dict[str, Any]) -> Translator:
    """Returns a translator for a function of its own, in which there are variables of some
    types."""
    kind: Any = type(t.module)
    module = kind(t.module.machine, t.module.lanes, t.contract)
    inner: Any = module.translator(module, module.new(t.f.lanes), "", is_kernel=True)
    for name, of in kinds.items():
        if type(of) is Packet:
            inner.f.variables[name] = of.code, "poison"
    return inner


def _type(value: Any, t: Translator) -> Any:
    """Returns the type of a value of the front end."""
    if not value:
        return types.none
    if type(value[0]) is tuple:
        return types.Tuple([packet(code, t.f.lanes) for code, _ in value])
    return packet(value[0], t.f.lanes)


_WORD = ast.Subscript(ast.Name("p"), ast.Constant(0))


def _spelled(kind: Any) -> ast.expr | None:
    """Returns an argument whose type says what it is."""
    if type(kind) is ConstantType:
        return kind.node
    if kind is WORD:
        return _WORD
    if kind is LANES:
        return ast.Name("i")
    if kind is PARAMETERS:
        return ast.Name("p")
    if type(kind) is FunctionType:
        return ast.Name(kind.typing_key.__name__)
    return None


def _code(kind: Any) -> str:
    """Returns the element type that an argument names."""
    node = _spelled(kind)
    if type(node) is not ast.Name or node.id not in SCALAR:
        raise KernelError(f"{kind} is not an element type")
    return node.id


# ----------------------------------------------------------------------------------- translation


def _argument(kind: Any, x: Any) -> ast.expr:
    """Returns an argument as the front end reads it: a variable, what the text spells out, or what
    the type says."""
    if x.name:
        return ast.Name(x.name)
    node = x.node or _spelled(kind)
    if node is None:
        raise KernelError(f"{kind} is no operand")
    return node


_BIT = IntType(1)


def text_value(value: Any, kind: Any) -> TextValue:
    """Returns a value of the front end as one of Numba's."""
    if type(kind) is Packet:
        return TextValue(value, kind.llvm)
    return TextValue(value, _BIT if kind is types.boolean else None)


def _emitted(name: str, prefix: bool) -> Callable:
    """Returns the translation of a call, or of an operator."""

    def emit(context: Any, builder: Any, sig: Any, args: Sequence[Any]) -> TextValue:
        t: Translator = builder.translator
        nodes = [_argument(kind, x) for kind, x in zip(sig.args, args, strict=True)]
        value: Value | tuple[Value, ...] | None
        if prefix:
            value = t.apply(name, [t.expr(node) for node in nodes])
        elif name in TESTS:
            value = NUMBER, t.test(ast.Call(ast.Name(name), nodes, []))
        else:
            value = t.call(ast.Call(ast.Name(name), nodes, []))
        return text_value(value, sig.return_type)

    return emit


def call_body(t: Translator, name: str, sig: Any, args: Sequence[Any]) -> TextValue:
    """Returns the results of a function of the kernel's text."""
    nodes = [_argument(kind, x) for kind, x in zip(sig.args, args, strict=True)]
    return text_value(t.call(ast.Call(ast.Name(name), nodes, [])), sig.return_type)


operations: dict[str, FunctionType] = {}
"""The types by which Numba knows the names of the language."""


def operation(name: str) -> FunctionType | None:
    """Returns the type of a name of the language, None if it is none."""
    if name not in operations and name in foreign.functions:  # made after this module
        _register(name)
        context: Any = cpu_target.target_context
        context.refresh()
    return operations.get(name)


def _register(name: str) -> None:
    made = LanguageName(name)
    operations[name] = FunctionType(made)
    lower_builtin(made, types.VarArg(types.Any))(_emitted(name, False))


for _name in numpy_target.namespace:
    _register(_name)
for _function, _name in SYMBOLS.values():
    _arity = TABLE.get(_name, TABLE["neg"]).arity
    lower_builtin(_function, *[OperandType] * _arity)(_emitted(_name, True))

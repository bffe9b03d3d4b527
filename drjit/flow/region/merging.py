"""Code that runs for some lanes only: within `masked`, it accesses memory in these lanes, and
`merged` combines values lane by lane. Code that drops lanes, or passes arrays to functions, sees
cooperative vectors as lists of their features.
"""

from collections.abc import Callable
from operator import is_not
from typing import Any

from ...ad.algebra import RECORDED
from ...ad.graph import Value, as_value
from ...array import leaf, pytree, table
from ...array.base import KernelValue
from ...array.tree import Tree, rebuilt
from ...jit.ir import op
from ...jit.ir.node import LITERAL, Node, apply
from ...jit.ir.scope import Scope, active, stack, within
from ...jit.run import pending

# ---- Lanes


class _Effects(list):
    """Passes side effects on to the enclosing program or recording; `written` receives the serial
    numbers of the nodes that stand for their targets."""

    def __init__(self, target: list, written: set[int]) -> None:
        self._target, self._written = target, written

    def append(self, effect: Any) -> None:
        data = getattr(effect, "data", None)
        for after in data.afters if isinstance(data, pending.Effect) else ():
            self._written.add(after().serial)
        self._target.append(effect)

    def __iadd__(self, effects: Any) -> Any:
        self._target.extend(effects)
        return self


class masked:
    """Restricts the memory accesses of this thread to the lanes of a mask, within a `with`
    statement, which receives the set of the serial numbers of nodes that stand for targets of
    scatters. If the mask refers to `other` lanes than the surrounding code, it replaces the mask of
    that code."""

    __slots__ = ("scope",)

    def __init__(self, mask: Node, other: bool = False) -> None:
        if not other:
            mask = apply(op.and_, mask, active())
        scopes = stack()
        # A mask among the operands may be evaluated meanwhile, hence `within`.
        self.scope = Scope(within(mask), scopes[-1].depth if scopes else 0)

    def __enter__(self) -> set[int]:
        scopes, scope = stack(), self.scope
        inner = scopes[-1] if scopes else None
        written: set[int] = set()
        scope.effects = _Effects(inner.effects if inner else pending.effects, written)
        scope.afters = _Effects(inner.afters if inner else [], written)
        scopes.append(scope)
        return written

    def __exit__(self, *_: object) -> None:
        scopes = stack()
        del scopes[scopes.index(self.scope) :]


def same_constant(a: Value, b: Value) -> bool:
    """Returns whether two values are the same constant, if perhaps of different sizes."""
    literals = a.node.op is LITERAL and b.node.op is LITERAL and a.var is b.var is None
    return literals and repr(a.node.data) == repr(b.node.data)


def merged(mask: Any, first: Value, second: Value) -> Value:
    """Returns the contents of an array: the first value in the lanes of the mask, and the second in
    the others."""
    if first == second or (first.node.size == second.node.size and same_constant(first, second)):
        return first
    chosen = RECORDED(op.select, as_value((mask._node, None)), first, second)
    if not chosen.node.size:
        leaf.check_empty(op.select.name, (mask._node, first.node, second.node))
    return chosen


# ---- Cooperative vectors


class _Features(list):
    """The features of a vector; each vector type has its own subclass, which stores the type."""

    like: KernelValue


_classes: dict[tuple[Any, ...], type[_Features]] = {}


def _class(v: KernelValue) -> type[_Features]:
    key = (type(v), v.__meta__, v._node.dtype, getattr(v, "_layout", None))
    found = _classes.get(key)
    if found is None:
        like = v._with_number(0)
        found = _classes.setdefault(key, type(type(v).__name__, (_Features,), {"like": like}))
    return found


def has_vectors(tree: Tree) -> bool:
    """Returns whether a tree contains cooperative vectors."""
    return bool([cls for cls in {*tree.classes} if issubclass(cls, KernelValue)])


def to_features(tree: Any) -> Any:
    """Replaces the cooperative vectors in a tree by their features."""
    return pytree.map_tree(_to_features, tree) if has_vectors(Tree((tree,))) else tree


def _to_features(value: Any) -> Any:
    if not isinstance(value, KernelValue):
        return value
    cls = table.find(value.__meta__.namespace, "leaf", value._dtype)
    from ...ad import vector  # which programs without cooperative vectors do not need

    parts = vector.unpack(Value(value._node, value._var))
    return _class(value)([leaf.from_value(cls, part) for part in parts])


def to_vectors(tree: Any, like: Tree | None = None) -> Any:
    """The inverse of `to_features`; a tree without such features is returned unchanged. `like` has
    the same structure, if that is known."""
    known = like or Tree((tree,))
    if not [cls for cls in {*known.classes} if issubclass(cls, _Features)]:
        return tree
    decomposed = Tree((tree,))

    def made(k: int, values: list[Any]) -> Any:
        cls, before = decomposed.classes[k], decomposed.parts[k]
        if issubclass(cls, _Features):
            from ...ad import vector

            return cls.like._with(vector.pack([leaf.value(a) for a in values]))
        if any(map(is_not, values, before)):
            return rebuilt(cls, decomposed.keys.get(k), values)
        return decomposed.objects[k]

    return decomposed.reassemble(decomposed.leaves, made)[0]


def taking_features(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of trees with vectors so that it accepts trees with features."""
    return lambda *args, **kwargs: function(*to_vectors(args), **to_vectors(kwargs))


def on_features(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `taking_features`; the results are also trees with features."""
    inner = taking_features(function)
    return lambda *args, **kwargs: to_features(inner(*args, **kwargs))

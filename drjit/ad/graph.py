"""The derivative graph. A `Var` accompanies a traced value that depends on a differentiable input,
and records how the value was computed.

Variables refer to those that they were computed from, so the graph is freed by reference counting,
starting at the results. The first few forward traversals search for dependents among the objects of
Python's garbage collector. After that, a list of weak references in order of creation is
maintained: programs with few such traversals do without its cost, and native operators record for
longer. Variables of a body that is being recorded are in a separate list (`GradScope.tape`).
"""

import enum
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any

from ..jit import collector, flags
from ..jit.enumeration import Named
from ..jit.ir.dtype import DType
from ..jit.ir.label import locations, note_location
from ..jit.ir.location import describe
from ..jit.ir.node import Node, literal, next_serial, resize
from ..jit.run import events, schedule
from ..jit.trace import access
from ..jit.tuples import NamedTuple


class ADMode(Named, enum.Enum):
    """The direction of a traversal."""

    __hash__ = object.__hash__  # faster than the one of enumerations, a Python function
    Primal = 0
    Forward = 1
    Backward = 2


class ADFlag(Named, enum.IntEnum):
    """What a traversal clears, and whether a lack of gradients is allowed."""

    ClearNone = 0
    ClearEdges = 1
    ClearInput = 2
    ClearInterior = 4
    ClearVertices = 6
    AllowNoGrad = 8
    Default = 7
    # Not in the reference: gradients stay part of the graph and can be differentiated again.
    KeepGraph = 16


class Value(NamedTuple):
    """A traced value with its variable in the graph, if any."""

    node: Node
    var: "Var | None" = None


as_value: Callable[[tuple[Node, "Var | None"]], Value] = partial(tuple.__new__, Value)
"""Creates a value faster than its class, which takes a call of a Python function."""
node_of: Callable[[Value], Node] = itemgetter(0)
variable_of: Callable[[Value], "Var | None"] = itemgetter(1)


class Var:
    """A differentiable value: `rule` and `deps` define its dependence on other variables; `inputs`
    and `result` are primal nodes that the rule needs.

    `grad` is the gradient accumulated so far: a node, where size 1 is broadcast to all lanes, or
    None for zero. `grad_var` is the gradient's own variable if the graph is kept for higher
    derivatives. An input of the program has no rule. `mark` is a scratch field of traversals.
    """

    __slots__ = (
        "__weakref__", "data", "deps", "dtype", "grad", "grad_var", "inputs", "mark", "result",
        "rule", "serial", "size",
    )  # fmt: skip

    rule: Any
    deps: tuple[Any, ...]  # of Var or None
    inputs: tuple[Node, ...]
    result: Any  # Node or None
    data: Any
    dtype: DType
    size: int
    grad: Node | None
    grad_var: "Var | None"
    mark: object
    serial: int

    def __repr__(self) -> str:
        return f"<{title(self)} {self.dtype}[{self.size}]>"


labels: weakref.WeakKeyDictionary[Var, str] = weakref.WeakKeyDictionary()
"""User-defined names of variables."""
flags.on_creation_in_debug_mode(Var, note_location)


class Inner(Var):
    """A variable of a body, or storage for a gradient: forward traversals of the surrounding
    program do not visit it."""

    __slots__ = ()


# Weak references to variables in order of creation, for forward traversals. Entries of freed
# variables are removed when the list has doubled.
_tape: list["weakref.ref[Var]"] = []
_tape_limit = 1 << 11
_compacting = False
_tape_complete = False
_MAX_SEARCHES = 2  # before the list is maintained
_searches = 0
taped: list[bool] = []
"""Not empty if variables are added to the list when they are created."""
_ref = weakref.ref
get_ident = threading.get_ident


def recorder(rule: Any) -> Callable[..., Var | None]:
    """Returns a function that creates the variable of an operation's value `n`, given its operands
    `inputs` with the variables `deps`. That function returns None if all of these are suspended.

    Operators (`array.recorders`) create variables themselves while `scopes` is empty.
    """
    keeps_inputs, keeps_result = rule.keeps_inputs, rule.keeps_result

    def record(
        n: Node, inputs: tuple[Node, ...], deps: tuple[Var | None, ...], data: Any = None
    ) -> Var | None:
        inner = tape = None
        if scopes and (stack := scopes.get(get_ident())):
            inner = stack[-1]
            tape = inner.tape
            if inner.all or inner.variables:
                hides = inner.hides
                deps = tuple([None if d is None or hides(d) else d for d in deps])
                if not any(deps):
                    lose("suspended")
                    return None
        v = Var() if tape is None else Inner()
        v.rule = rule
        v.deps = deps
        v.dtype = n.dtype
        v.size = n.size
        v.inputs = inputs if keeps_inputs else ()
        v.result = n if keeps_result else None
        v.data = data
        v.grad = v.grad_var = v.mark = None
        v.serial = next_serial()
        if inner is not None and inner.all:
            inner.admit(v)
        if tape is not None:
            tape.append(v)
        elif taped:
            add_to_tape(v)
        return v

    return record


def lose(kind: str, what: str = "") -> None:
    """Tells a report that a derivative is not tracked further."""
    if (sink := events.sink) is not None:
        sink.lose(kind, what)


def add_to_tape(v: Var) -> None:
    """Adds a variable to those that forward traversals find."""
    _tape.append(_ref(v))
    if len(_tape) > _tape_limit:
        compact()


def take_gradient(v: Var) -> access.WriteTarget:
    """Takes the gradient out of a variable, with an entry for each of the variable's entries, so
    that nothing else holds its node."""
    g, v.grad = v.grad, None
    if g is None:
        g = literal(v.dtype, 0, v.size)
    elif g.size != v.size:
        g = resize(g, v.size)
    return access.WriteTarget(g)


def scatter_gradient(v: Var, values: list[Node], at: access.Access) -> None:
    """Adds records of values to the gradient of a variable, in place if nothing else holds it."""
    before = v.grad is None
    taken, after = take_gradient(v), None
    try:
        after = access.scatter(taken, values, at)
    finally:  # there may have been nothing to do
        v.grad = after if after is not None or before else taken.node


def _blank(cls: type[Var], n: Node | Var) -> Var:
    """Creates a variable without dependences."""
    v = cls()
    v.rule = v.result = v.data = v.grad = v.grad_var = v.mark = None
    v.deps = v.inputs = ()
    v.dtype, v.size = n.dtype, n.size
    v.serial = next_serial()
    return v


def new_slot(n: Node | Var) -> Var:
    """Creates storage for a gradient that is not part of the graph."""
    v = _blank(Inner, n)
    if (inner := scope()) is not None:
        inner.admit(v)
    return v


FREED = "freed"
"""Data of a variable whose edges a traversal that began there has freed."""


def new_input(n: Node | Var) -> Var:
    """Creates a variable for a differentiable input."""
    if not scopes and not taped:
        return _blank(Var, n)
    inner = scope()
    tape = None if inner is None else inner.tape
    v = _blank(Var if tape is None else Inner, n)
    if inner is not None:
        inner.admit(v)
    if tape is not None:
        tape.append(v)
    elif taped:
        add_to_tape(v)
    return v


def record_again(
    v: Var, deps: tuple[Var | None, ...], inputs: tuple[Node, ...], result: Node | None
) -> Var | None:
    """Creates the variable of the same operation on other operands; returns None if none of these
    has one."""
    if not any(deps):
        return None
    made = new_input(v)
    made.rule, made.data = v.rule, v.data
    made.deps, made.inputs, made.result = deps, inputs, result
    return made


def renew(v: Var) -> None:
    """Makes a variable the newest one."""
    v.serial = next_serial()
    for tape in tapes()[-1:]:
        if v in tape:
            tape.remove(v)
        tape.append(v)


def compact() -> None:
    """Removes entries of freed variables."""
    global _tape_limit, _compacting
    with schedule.lock:
        if _compacting:  # around this call, which a finalizer makes
            return
        try:
            _compacting = True
            n = len(_tape)
            # Other threads, and finalizers, may append in the meantime.
            _tape[:n] = [r for r in _tape[:n] if r() is not None]
            _tape_limit = max(1 << 11, 2 * len(_tape))
        finally:
            _compacting = False


def _fill_tape() -> None:
    """Adds all variables created so far, and has every further one added."""
    global _tape_complete
    taped[:] = [True]
    known = {id(r()) for r in _tape}
    found, _tape_complete = _find_variables()
    _tape.extend([_ref(v) for v in found if id(v) not in known])


def _find_variables() -> tuple[list[Var], bool]:
    """Returns the variables among the objects of the garbage collector, and whether these are all:
    those that other threads are creating at the moment need not be visited now."""
    found = collector.objects_of(Var)
    made = [v for v in found if hasattr(v, "serial")]
    return made, len(made) == len(found)


def tapes() -> list[list[Var]]:
    """Returns the variables of the bodies that this thread is recording, outermost first."""
    found = {id(s.tape): s.tape for s in scopes.get(get_ident(), ()) if s.tape is not None}
    return [*found.values()]


def release() -> None:
    """Releases variables of bodies to which nothing else refers, and the nodes that they hold."""
    for tape in reversed(tapes()):
        kept = []
        while tape:
            witness = weakref.ref(tape.pop())
            if (v := witness()) is not None:
                kept.append(v)
        tape += reversed(kept)


access.release_hooks.append(release)


def live_variables() -> list[Var]:
    """Returns all live variables in order of creation; within bodies, those that this thread is
    recording."""
    global _searches
    release()
    if not taped and _searches < _MAX_SEARCHES:
        _searches += 1
        found, _ = _find_variables()
    else:
        if not _tape_complete:
            _fill_tape()
        compact()
        found = [v for r in _tape if (v := r()) is not None]
    return sorted(chain(found, *tapes()), key=lambda v: v.serial)


def title(v: Var) -> str:
    """Returns the operation of a variable, and its label."""
    name = v.rule.name if v.rule is not None else "input"
    return f"{name} ({labels[v]})" if v in labels else name


def location_note(v: Var) -> str:
    """Returns ` recorded at file.py:12`, if that is known."""
    location = locations.get(v)
    return f" recorded at {describe(location)}" if location else ""


# Scopes determine which operations are recorded, and where traversals stop.


class GradScope:
    """The scope of `suspend_grad`, `resume_grad` and `isolate_grad`.

    With `all`, derivatives are disabled except for those of `variables`, to which new ones are
    added unless it is empty; otherwise they are enabled except for `variables`. Traversals stop at
    variables from before `isolate_from`. Those that received gradients wait in `postponed`, with
    the set of variables to which the traversal is to continue, on `device` (None: all). In the body
    of a loop, branch or call, `outer_gradients` stores the gradients of outer arrays that the body
    gathers from (`bodies.OuterGradients`), and `tape` has the variables recorded so far. The
    gradients of `arguments` are set in the active lanes only.
    """

    __slots__ = (
        "all", "arguments", "device", "isolate_from", "outer_gradients", "postponed", "tape",
        "variables",
    )  # fmt: skip

    def __init__(
        self,
        all_: bool = False,
        variables: Iterable[int] = (),
        isolate_from: int = 0,
        postponed: dict[Var, Any] | None = None,
        outer_gradients: Any = None,
    ) -> None:
        self.all, self.variables = all_, set(variables)
        self.isolate_from = isolate_from
        self.postponed: dict[Var, Any] = {} if postponed is None else postponed
        self.device: Any = None
        self.outer_gradients = outer_gradients
        self.tape: list[Var] | None = None
        self.arguments: Set[Var] = frozenset()

    def hides(self, v: Var) -> bool:
        """Returns whether the variable is suspended."""
        if v.rule is not None and v.rule.lasts:
            return all(d is None or self.hides(d) for d in v.deps)
        return (v.serial in self.variables) is not self.all

    def admit(self, v: Var) -> None:
        """Registers a new variable as not suspended."""
        if self.all and self.variables:
            self.variables.add(v.serial)

    def switched(self, on: bool, variables: frozenset[int] | None) -> "GradScope":
        """Returns the nested scope in which variables (None: all) are resumed (`on`) or
        suspended."""
        if variables is None:
            all_, variables = not on, frozenset()
        else:
            all_, found = self.all, self.variables
            variables = frozenset(found | variables if all_ is on else found - variables)
        return self._within(all_, variables, self.isolate_from, self.postponed)

    def isolated(self) -> "GradScope":
        """Returns the nested scope that traversals do not leave."""
        return self._within(self.all, self.variables, next_serial(), None)

    def _within(
        self, all_: bool, variables: Iterable[int], isolate_from: int, postponed: Any
    ) -> "GradScope":
        inner = GradScope(all_, variables, isolate_from, postponed, self.outer_gradients)
        inner.arguments = self.arguments
        return inner


OUTSIDE = GradScope()
"""Stands for no scope."""
scopes: dict[int, list[GradScope]] = {}
"""The scopes of each thread, innermost last. Threads without scopes have no entry, so testing
whether any thread is in a scope is fast."""


def scope() -> GradScope | None:
    """Returns the innermost scope of this thread."""
    found = scopes.get(get_ident()) if scopes else None
    return found[-1] if found else None


def outer_gradients() -> Any:
    """Returns the `bodies.OuterGradients` of the body that this thread is tracing, if any."""
    inner = scope()
    return None if inner is None else inner.outer_gradients


def enter_scope(inner: GradScope) -> None:
    """Enters a scope. Unless it belongs to a body, it shares the variables of the enclosing
    scope."""
    # A finalizer may enter and leave scopes between any two calls.
    ident = get_ident()
    stack = scopes.get(ident)
    if not stack:
        scopes[ident] = [inner]
        return
    if inner.tape is None:
        inner.tape = stack[-1].tape
    stack.append(inner)


def leave_scope() -> GradScope:
    """Leaves the innermost scope."""
    ident = get_ident()
    stack = scopes[ident]
    if len(stack) > 1:
        return stack.pop()
    left = stack[0]
    del scopes[ident]  # at once: native code takes it for granted that no list is empty
    return left


class restored_gradients:  # a class, as these take less time than generators
    """Restores the gradients of variables after the statements of a `with`."""

    __slots__ = ("before",)

    def __init__(self, variables: Iterable[Var]) -> None:
        self.before = [(v, v.grad, v.grad_var) for v in variables]

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        for v, gradient, own in self.before:
            v.grad, v.grad_var = gradient, own


class within:
    """Enters a scope for the statements of a `with`."""

    __slots__ = ("inner",)

    def __init__(self, inner: GradScope) -> None:
        self.inner = inner

    def __enter__(self) -> None:
        enter_scope(self.inner)

    def __exit__(self, *_: object) -> None:
        leave_scope()


@contextmanager
def watching(variables: Iterable[Var]) -> Iterator[None]:
    """Within the current, isolating scope, has gradients that statements add to some earlier
    variables propagated further when the scope ends."""
    yield
    inner = scope()
    if inner is not None:
        inner.postponed.update(dict.fromkeys([v for v in variables if v.grad is not None]))


def visible(v: Var | None) -> Var | None:
    """Returns the variable, or None if a scope suspends it."""
    if v is None or not scopes or not (stack := scopes.get(get_ident())):
        return v
    return None if stack[-1].hides(v) else v


def may_hide() -> bool:
    """Returns whether a scope may suspend variables."""
    inner = scope() if scopes else None
    return inner is not None and (inner.all or len(inner.variables) > 0)


def without_suspended(values: list[Value]) -> list[Value]:
    """Returns the values without the variables that a scope suspends."""
    if not may_hide() or not any(map(variable_of, values)):
        return values
    return [v if visible(v.var) else as_value((v.node, None)) for v in values]


def suspends_inputs() -> bool:
    """Returns whether new inputs would not be differentiable."""
    inner = scope()
    return inner is not None and inner.all and not inner.variables

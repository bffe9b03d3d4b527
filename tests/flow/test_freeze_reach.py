"""Frozen functions do what the function does with every array that it can reach, wherever that is
held, or refuse to be frozen at the first call: nothing is left out silently.
"""

# Texts of kernels use names that are only known there.
# ruff: noqa: F821
# pyright: reportUndefinedVariable=false

from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

import pytest

import drjit as dr
from drjit.auto import Array2f as Vector
from drjit.auto import UInt
from drjit.auto.ad import PCG32, Float, TensorXf, Texture1f
from drjit.opt import SGD

COUNT = 4


class Struct:
    DRJIT_STRUCT: ClassVar[dict] = {"a": Float}

    def __init__(self) -> None:
        self.a = dr.opaque(Float, 1)
        self.held: Any = None


class Plain:
    def __init__(self) -> None:
        self.held: Any = None


class Slots:
    __slots__ = ("held",)


class Class:
    held: Any = None


module = ModuleType("module")
TABLE: Any = None
OTHER: Any = None


# Programs: each returns a function of an argument and an array that accesses `h` where it is held,
# the argument, and a function that returns what is held. The function finds the array by names that
# occur in it.

Program = tuple[Callable[[Any, Any], Any], Any, Callable[[], Any]]


def attribute(h: Any, access: Callable, cls: type) -> Program:
    o: Any = cls()
    owner = cls if cls is Class else o
    owner.held = h

    def f(o: Any, x: Any) -> Any:
        return access(lambda: o.held, partial(setattr, o, "held"), x)

    return f, o, lambda: owner.held


def nested(h: Any, access: Callable) -> Program:
    o = Struct()
    o.held = {"list": [h, 1]}

    def f(o: Any, x: Any) -> Any:
        row = o.held["list"]
        return access(lambda: row[0], partial(row.__setitem__, 0), x)

    return f, o, lambda: o.held["list"][0]


def structure_within(h: Any, access: Callable) -> Program:
    o = Plain()
    o.held = Struct()
    o.held.held = h

    def f(o: Any, x: Any) -> Any:
        return access(lambda: o.held.held, partial(setattr, o.held, "held"), x)

    return f, o, lambda: o.held.held


def far_away(h: Any, access: Callable) -> Program:
    o = inner = Plain()
    for _ in range(4):
        inner.held = Plain()
        inner = inner.held
    inner.held = h

    def f(o: Any, x: Any) -> Any:
        while isinstance(o.held, Plain):
            o = o.held
        return access(lambda: o.held, partial(setattr, o, "held"), x)

    return f, o, lambda: inner.held


def closure(h: Any, access: Callable) -> Program:
    o = Plain()
    o.held = h

    def f(_: Any, x: Any) -> Any:
        return access(lambda: o.held, partial(setattr, o, "held"), x)

    return f, None, lambda: o.held


def default(h: Any, access: Callable) -> Program:
    row = [h]

    def f(_: Any, x: Any, row: list = row) -> Any:
        return access(lambda: row[0], partial(row.__setitem__, 0), x)

    return f, None, lambda: row[0]


def global_(h: Any, access: Callable) -> Program:
    global TABLE
    TABLE = Plain()
    TABLE.held = h

    def f(_: Any, x: Any) -> Any:
        return access(lambda: TABLE.held, partial(setattr, TABLE, "held"), x)

    return f, None, lambda: TABLE.held


def other_function(h: Any, access: Callable) -> Program:
    global OTHER
    OTHER = Plain()
    OTHER.held = h

    def f(_: Any, x: Any) -> Any:
        return access(held_by_other, hold_by_other, x)

    return f, None, held_by_other


def held_by_other() -> Any:
    return OTHER.held


def hold_by_other(v: Any) -> None:
    OTHER.held = v


def module_attribute(h: Any, access: Callable) -> Program:
    module.held = h  # type: ignore[attr-defined]

    def f(_: Any, x: Any) -> Any:
        return access(lambda: module.held, partial(setattr, module, "held"), x)

    return f, None, lambda: module.held  # type: ignore[attr-defined]


def generator(h: Any, access: Callable) -> Program:
    def generated() -> Iterator[Any]:
        while True:
            yield h

    made = generated()

    def f(_: Any, x: Any) -> Any:
        return access(lambda: next(made), None, x)

    return f, None, lambda: next(made)


REACHED: dict[str, Callable] = {
    "attribute that is no field": partial(attribute, cls=Struct),
    "attribute of an object": partial(attribute, cls=Plain),
    "structure within an object": structure_within, "nested containers": nested,
    "closure": closure, "default argument": default, "global object": global_,
}  # fmt: skip
UNREACHED: dict[str, Callable] = {
    "slot": partial(attribute, cls=Slots), "class": partial(attribute, cls=Class),
    "object far away": far_away, "object of another function": other_function,
    "module": module_attribute, "generator": generator,
}  # fmt: skip


# What it does with the array.


def _indices() -> Any:
    return dr.arange(UInt, 2)


def read(get: Callable, put: Callable, x: Any) -> Any:
    return get() + dr.sum(x)


def gathered(get: Callable, put: Callable, x: Any) -> Any:
    return dr.gather(Float, get(), _indices()) * x


def written(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter(get(), x, _indices())


def constant_written(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter(get(), dr.gather(Float, get(), UInt(0)) + 1, UInt(2))


def added(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter_add(get(), x, _indices())


def one_added(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter_add(get(), Float(1), UInt(1))


def maximum(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter_reduce(dr.ReduceOp.Max, get(), x, _indices())


def packets(get: Callable, put: Callable, x: Any) -> None:
    dr.scatter_add(get(), Vector(x, 2 * x), _indices())


def exchanged(get: Callable, put: Callable, x: Any) -> Any:
    return dr.scatter_exch(get(), x, _indices())


@dr.kernel
def histogram(i, index, weight, bins):
    k = load(u32, index, i)
    scatter_reduce(f32, "add", "direct", bins, load(f32, weight, i), k, True)


def by_text(get: Callable, put: Callable, x: Any) -> None:
    histogram(_indices(), x, get())


def in_a_loop(get: Callable, put: Callable, x: Any) -> None:
    def body(i: Any) -> tuple:
        dr.scatter_add(get(), x, i)
        return (i + 1,)

    dr.while_loop((_indices(),), lambda i: i < COUNT - 1, body, mode="symbolic")


def state_of_a_loop(get: Callable, put: Callable, x: Any) -> None:
    _, h = dr.while_loop(
        (UInt(0), get()), lambda i, h: i < 3, lambda i, h: (i + 1, h + dr.sum(x)), mode="symbolic"
    )
    put(h)


def in_a_branch(get: Callable, put: Callable, x: Any) -> Any:
    return dr.if_stmt((x,), x > 11, lambda x: x + dr.gather(Float, get(), UInt(1)), lambda x: x)


def through_local_memory(get: Callable, put: Callable, x: Any) -> Any:
    memory = dr.alloc_local(Float, 2, get())
    memory[1] = dr.sum(x)
    return memory[0] + memory[1]


def summed_in_place(get: Callable, put: Callable, x: Any) -> None:
    h = get()
    h += dr.sum(x)


def counted_in_place(get: Callable, put: Callable, x: Any) -> None:
    h = get()
    h += 1


def raised_in_place(get: Callable, put: Callable, x: Any) -> None:
    h = get()
    h **= 2


def entry_set(get: Callable, put: Callable, x: Any) -> None:
    get()[1] = 7.0


def replaced(get: Callable, put: Callable, x: Any) -> None:
    put(get() + dr.sum(x))


def made_differentiable(get: Callable, put: Callable, x: Any) -> None:
    dr.enable_grad(get())
    get().grad = dr.sum(x)


def accumulated(get: Callable, put: Callable, x: Any) -> None:
    dr.backward(dr.sum(get() * dr.sum(x)))


def accumulated_by_gathers(get: Callable, put: Callable, x: Any) -> None:
    dr.backward(dr.gather(Float, get(), _indices()) * x)


def gradient_set(get: Callable, put: Callable, x: Any) -> None:
    dr.set_grad(get(), dr.sum(x))


def gradient_cleared(get: Callable, put: Callable, x: Any) -> None:
    dr.clear_grad(get())


ACCESSES = [
    read, gathered, written, constant_written, added, one_added, maximum, packets, exchanged,
    by_text, in_a_loop, state_of_a_loop, in_a_branch, through_local_memory, summed_in_place,
    counted_in_place, raised_in_place, entry_set, replaced, made_differentiable, accumulated,
    accumulated_by_gathers, gradient_set, gradient_cleared,
]  # fmt: skip
# Where a new array is put cannot be seen.
UNSEEN = {replaced, state_of_a_loop}
DERIVATIVES = {accumulated, accumulated_by_gathers, gradient_set, gradient_cleared}


def held_array(kind: str, derivative: bool) -> Any:
    if kind == "data":
        h = Float(1, 2, 3, 4)
    elif kind == "literal":
        h = dr.full(Float, 3, COUNT)
    else:
        h = dr.arange(Float, COUNT) + dr.opaque(Float, 1)
    if derivative:
        dr.enable_grad(h)
        h.grad = 0.5
    return h


def three_calls(program: Callable, access: Callable, kind: str, freeze: Callable) -> Iterator:
    """Yields what a function returns, and what it leaves behind, call by call."""
    f, argument, held = program(held_array(kind, access in DERIVATIVES), access)
    call = freeze(f)
    for k in range(3):
        result = call(argument, Float(10 + k, 20 + k))
        now = held()
        yield str(result), str(now), str(now.grad)


@pytest.mark.parametrize("access", ACCESSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("holder", [*REACHED, *UNREACHED])
def test_every_access_to_every_holder(holder: str, access: Callable):
    if holder in UNREACHED and access in UNSEEN:
        return
    program = {**REACHED, **UNREACHED}[holder]
    for kind in ("data", "literal", "value"):
        expected = list(three_calls(program, access, kind, lambda f: f))
        found = []
        try:
            found += three_calls(program, access, kind, dr.freeze)
        except RuntimeError as error:
            said = str(error.__context__ or error)
            assert "not among its inputs" in said
            assert "(float32, 4 entries)" in said
            assert "state_fn" in said
            assert holder in UNREACHED
            assert not found  # a later call would be too late
        else:
            assert found == expected, kind


def generated(get: Callable, put: Callable, x: Any) -> Any:
    return get().random(Float, 2) * x


def generated_by_lanes(get: Callable, put: Callable, x: Any) -> Any:
    return get().next_float32() * x


def trained(get: Callable, put: Callable, x: Any) -> Any:
    optimizer = get()
    loss = dr.sum(dr.square(optimizer["w"] - x))
    dr.backward(loss)
    optimizer.step()
    return loss


def looked_up(get: Callable, put: Callable, x: Any) -> Any:
    return get().eval([x / 20])[0]


def filled(get: Callable, put: Callable, x: Any) -> None:
    get().set_value(dr.repeat(x, 2))


def grown(get: Callable, put: Callable, x: Any) -> None:
    get().append(x * 2)


OBJECTS: dict[Callable, Callable] = {
    generated: lambda: dr.rng(seed=3),
    generated_by_lanes: lambda: PCG32(2),
    trained: lambda: SGD(lr=0.1, params={"w": Float(1, 2)}),
    looked_up: lambda: Texture1f(TensorXf([1, 2, 3, 4], shape=(4, 1))),
    filled: lambda: Texture1f(TensorXf([1, 2, 3, 4], shape=(4, 1))),
    grown: lambda: [],
}


def contents(o: Any) -> str:
    if isinstance(o, Texture1f):
        o = o.value()
    elif isinstance(o, SGD):
        o = o["w"]
    elif isinstance(o, PCG32):
        o = o.state
    elif not isinstance(o, list):
        o = o.random(Float, 2)
    return str(o)


@pytest.mark.parametrize("access", OBJECTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("holder", [*REACHED, *UNREACHED])
def test_objects_with_arrays_in_them(holder: str, access: Callable):
    if holder in UNREACHED and access is grown:
        return  # where a new array is put cannot be seen
    rows = []
    for freeze in (lambda f: f, dr.freeze):
        f, argument, held = {**REACHED, **UNREACHED}[holder](OBJECTS[access](), access)
        call, found = freeze(f), []
        rows.append(found)
        try:
            for k in range(4):
                found.append((str(call(argument, Float(10 + k, 20))), contents(held())))
        except RuntimeError as error:
            assert holder in UNREACHED
            assert "not among its inputs" in str(error.__context__ or error)
            assert not found
            return
    assert rows[0] == rows[1]

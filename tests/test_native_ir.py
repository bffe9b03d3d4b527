"""The language that the launcher is written in: what its functions compute, by way of ctypes."""

import ctypes
from collections.abc import Callable, Iterator
from math import gcd

import pytest

from drjit.jit.cpu import native_ir

llvm = pytest.importorskip("llvmlite.binding")

SOURCE = """
def divisor(x, y):
    while y != 0:
        rest = x - x // y * y
        x = y
        y = rest
    return x

def first_above(limit):
    k = 0
    while 1:
        if k * k > limit and not k == 3:
            break
        k = k + 1
    return k

def bits(x):
    return x << 4 | x >> 2 & LOW

def smallest(x, y):
    if x < y or x == y:
        return min(x, y)
    else:
        return max(y, -x)

def count(desk, k, n):
    drawer = desk.drawers[k]
    before = add(drawer.sheets, n, seq_cst)
    desk.last = drawer.sheets
    store(desk.open, k, release)
    return before

def exchange(desk, old, new):
    if cas(desk.open, old, new, acq_rel, acquire):
        return 1
    return 10 + load(desk.open, acquire)

@inline
def squared(x):
    return x * x

def sum_of_squares(x, y):
    return squared(x) + squared(y)

def place_of_abs():
    return external("labs")

def through(f, x):
    time = room(2)
    return call("i32(i32, i64)", f, x, 5) + word(time) * 0
"""


class Drawer(ctypes.Structure):
    _fields_ = [("_pad", ctypes.c_int64), ("sheets", ctypes.c_int64)]


class Desk(ctypes.Structure):
    _fields_ = [("last", ctypes.c_int64), ("open", ctypes.c_int64), ("drawers", Drawer * 4)]


@pytest.fixture(scope="module")
def functions() -> Iterator[Callable[..., int]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    names = ("divisor", "first_above", "bits", "smallest", "count", "exchange", "through")
    names += "sum_of_squares", "place_of_abs"
    structures = {"desk": Desk, "drawer": Drawer}
    text = native_ir.module_text(SOURCE, structures, {"LOW": 15}, frozenset(names))
    assert "@squared(i64 %x) alwaysinline" in text
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()

    def call(name: str, *arguments: int) -> int:
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
        return kind(engine.get_function_address(name))(*arguments)

    yield call


def test_numbers(functions: Callable[..., int]) -> None:
    for x, y in ((12, 18), (17, 5), (0, 7), (1 << 40, 6 << 20)):
        assert functions("divisor", x, y) == gcd(x, y)
    assert [functions("first_above", n) for n in (0, 3, 8, 9)] == [1, 2, 4, 4]
    assert functions("bits", 37) == 37 << 4 | 37 >> 2 & 15
    assert [functions("smallest", x, 2) for x in (-5, 2, 7)] == [-5, 2, 2]
    assert functions("smallest", 5, -9) == -5


def test_functions_within_others_and_outside(functions: Callable[..., int]) -> None:
    assert functions("sum_of_squares", 3, -4) == 25
    labs = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(functions("place_of_abs"))
    assert labs(-7) == 7


def test_fields(functions: Callable[..., int]) -> None:
    desk = Desk()
    where = ctypes.addressof(desk)
    assert functions("count", where, 1, 3) == 0
    assert functions("count", where, 5, 4) == 3  # the index wraps around
    assert [d.sheets for d in desk.drawers] == [0, 7, 0, 0]
    assert (desk.last, desk.open) == (7, 5)
    assert functions("exchange", where, 4, 8) == 15
    assert functions("exchange", where, 5, 8) == 1
    assert desk.open == 8


def test_functions_of_c(functions: Callable[..., int]) -> None:
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
    def called(x: int, y: int) -> int:
        seen.append((x, y))
        return -x

    address = ctypes.cast(called, ctypes.c_void_p).value
    assert functions("through", address, 3) == -3
    assert seen == [(3, 5)]


@pytest.mark.parametrize(
    "statement", ["del x", "for k in x: pass", "x += 1", "store(x, 1, release)"]
)
def test_what_the_language_lacks(statement: str) -> None:
    with pytest.raises(SyntaxError):
        native_ir.module_text(f"def f(x):\n    {statement}\n", {}, {}, frozenset())

"""The language of native code: what functions in it compute, by way of ctypes, and as Python."""

import ctypes
import random
from collections.abc import Callable, Iterator
from math import gcd
from types import FunctionType

import native_samples
import pytest

from drjit.array import native_operators
from drjit.jit.cpu import plans as cpu_plans
from drjit.jit.native import division, language, objects, operators, plans

llvm = pytest.importorskip("llvmlite.binding")


# Functions that Python calls as well, and the largest numbers to try them with.
DIVISIONS = [
    ("block_for", (1 << 32, 1 << 30, 300)), ("block_with_copies", (1 << 20, 1 << 30, 300, 1 << 30)),
    ("copies_for", (1 << 20, 1 << 30, 300)), ("lanes_of_block", (1 << 30, 1 << 16, 300)),
    ("pieces", (1 << 20, 1 << 24, 300)), ("row_plan", (64, 1 << 16, 1 << 14, 300, 8)),
    ("tile_plan", (1 << 12, 1 << 12, 1 << 12, 256, 300, 1024, 256)),
]  # fmt: skip


@pytest.fixture(scope="module")
def functions() -> Iterator[Callable[..., int]]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    own = [f for f in vars(native_samples).values() if isinstance(f, FunctionType)]
    own = [f for f in own if f.__module__ == native_samples.__name__]
    own += [getattr(division, name) for name, _ in DIVISIONS]
    more = "def twice_more(x, y):\n    return smallest(x, y) * 2\n"
    text = language.module_text(own, [(more, native_samples)])
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


def test_loops_over_numbers(functions: Callable[..., int]) -> None:
    for first, last, most in (
        (0, 8, 99),
        (3, 8, 99),
        (5, 5, 99),
        (7, 3, 99),
        (-5, 2, 99),
        (0, 9, 8),
    ):
        assert functions("sum_of_odd", first, last, most) == native_samples.sum_of_odd(
            first, last, most
        )


def test_functions_within_others_and_outside(functions: Callable[..., int]) -> None:
    assert functions("sum_of_squares", 3, -4) == 25
    labs = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(functions("place_of_abs"))
    assert labs(-7) == 7
    assert functions("absolute", -7) == 7


def test_words_behind_an_address(functions: Callable[..., int]) -> None:
    table = (ctypes.c_int64 * 4)()
    functions("write", ctypes.addressof(table), 2, -5)
    assert [*table] == [2, 0, 0, -5]


@pytest.mark.parametrize(("name", "largest"), DIVISIONS)
def test_work_is_divided_as_in_python(
    name: str, largest: tuple[int, ...], functions: Callable[..., int]
) -> None:
    rng = random.Random(0)
    has_table = name.endswith("_plan")
    for _ in range(300):
        numbers = [int(n ** rng.random()) for n in largest]
        table, expected = (ctypes.c_int64 * 8)(), [0] * 8
        places = (ctypes.addressof(table), expected) if has_table else ()
        found = functions(name, *places[:1], *numbers)
        assert found == getattr(division, name)(*places[1:], *numbers), numbers
        assert [*table] == expected, numbers


def test_fields(functions: Callable[..., int]) -> None:
    desk = objects.layout(native_samples.Desk)()
    where = ctypes.addressof(desk)
    assert functions("count", where, 1, 3) == 0
    assert functions("count", where, 5, 4) == 3  # the index wraps around
    assert [d.sheets for d in desk.drawers] == [0, 7, 0, 0]
    assert (desk.last, desk.open) == (7, 5)
    assert functions("exchange", where, 4, 8) == 15
    assert functions("exchange", where, 5, 8) == 1
    assert desk.open == 8
    assert functions("rename", where, 3) == desk.open == 3


def test_numbers_of_modules(functions: Callable[..., int]) -> None:
    assert functions("place_of_digits") == objects.DIGIT + native_samples.LOW


def test_functions_of_c(functions: Callable[..., int]) -> None:
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
    def called(x: int, y: int) -> int:
        seen.append((x, y))
        return -x

    address = ctypes.cast(called, ctypes.c_void_p).value
    assert functions("through", address, 3) == -3
    assert seen == [(3, 5)]


def test_conditions_that_make_no_difference_are_not_evaluated(
    functions: Callable[..., int],
) -> None:
    for x, y, result, trace in ((0, 5, 1, 7), (2, 0, 1, 202), (2, 5, 1, 25)):
        desk = objects.layout(native_samples.Desk)()
        assert functions("first_of", ctypes.addressof(desk), x, y) == result
        assert desk.last == trace


def test_further_functions(functions: Callable[..., int]) -> None:
    assert functions("twice_more", 5, 2) == 4
    assert [functions("is_among", x) for x in (1, 2, 3, 15)] == [0, 1, 1, 1]
    assert [functions("is_apart", x) for x in (1, 2, 3, 15)] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "statement",
    [
        "del x",
        "for k in x: pass",
        "for k in range(1, 2, 3): pass",
        "return objects.TYPES",
        "x += 1",
        "store(x, 1, 'release')",
        "return x.field",
        "x.y[1] = 2",
        "return (x, 1)",
        "return x / 2",
    ],
)
def test_what_the_language_lacks(statement: str) -> None:
    more = f"def f(x):\n    {statement}\n"
    with pytest.raises(SyntaxError):
        language.module_text([native_samples.bits], [(more, native_samples)])


def test_modules_may_have_functions_of_one_name() -> None:
    rooms = cpu_plans, native_operators  # which know where objects have their fields
    assert all(room.objects is objects for room in rooms)
    text = language.module_text([plans.repeat_plan, operators.recorded_binary])
    assert "i64 @scan.is_equal(" in text and "i64 @operators.is_equal(" in text
    assert "define i64 @repeat_plan(" in text and "define internal i64 @walker.visit(" in text


def test_objects_that_are_laid_out_in_another_way() -> None:
    class Two:
        __slots__ = ("a", "b")

    class Other(objects.Object):
        a: objects.Word
        c: objects.Word

    objects.samples[Other] = Two
    try:
        with pytest.raises(AttributeError):
            objects.attributes(Other)
    finally:
        del objects.samples[Other]

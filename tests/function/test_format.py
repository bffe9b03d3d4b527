"""Text with values in it, comparison up to tolerances, and assertions."""

import dataclasses
import io
from collections import namedtuple
from typing import ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2b,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix2f,
    Quaternion4f,
    TensorXf,
    UInt,
)

S = dr.scalar
NAN, INF = float("nan"), float("inf")
Pair = namedtuple("Pair", "p q")


class Point:
    DRJIT_STRUCT: ClassVar = {"x": Float, "y": Float}

    def __repr__(self):
        return f"Point({self.x}, {self.y})"

    def __init__(self, x: object = None, y: object = None) -> None:
        self.x, self.y = x, y


@dataclasses.dataclass
class Hit:
    a: Float
    b: Array3f


WIDE = Array3f([1, 2], 3, 4)


@pytest.mark.parametrize(
    ("text", "args", "kwargs", "expected"),
    [
        ("hello", (), {}, "hello"),
        ("{} {}", (1, 2.5), {}, "1 2.5"),
        ("{0} {1} {0}", (1, 2.5), {}, "1 2.5 1"),
        ("{a} {b}", (), {"a": 1, "b": Float(1, 2)}, "1 [1, 2]"),
        ("{} {a}", (1, 9), {"a": 2, "b": 3}, "1 2"),
        ("{{}} {} a}}", (1,), {}, "{} 1 a}"),
        ("{a=} {0=} {=}", (1,), {"a": "s"}, None),
        ("{a=}", (), {"a": WIDE}, "a=[[1, 3, 4],\n [2, 3, 4]]"),
        ("{0=} {1}", (1, 2), {}, "0=1 2"),
        ("abc {} def {}", (WIDE, 5), {}, "abc [[1, 3, 4],\n [2, 3, 4]] def 5"),
        ("{}", ("s",), {}, "s"),
        ("{}", (1e-9,), {}, "1e-09"),
        ("{}", (1 + 2j,), {}, "(1+2j)"),
    ],
)
def test_replacement_fields(text: str, args: tuple, kwargs: dict, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(RuntimeError, match="mixes"):
            dr.format(text, *args, **kwargs)
    else:
        assert dr.format(text, *args, **kwargs) == expected


@pytest.mark.parametrize(
    ("text", "args", "error"),
    [
        ("{a}", (1,), r'drjit\.format\(\): missing keyword argument "a" .* position 0'),
        ("x {}", (), r"missing positional argument 0 .* position 2"),
        ("{} {}", (1,), r"missing positional argument 1 .* position 3"),
        ("{:.2f}", (1.5,), "no format specifications"),
        ("{a.x}", (1,), "no format specifications, attributes"),
        ("{", (1,), "unmatched brace .* position 0"),
        ("ab }", (1,), 'single "}" .* position 3'),
        ("{0}{}", (1, 2), "mixes"),
    ],
)
def test_errors_of_replacement_fields(text: str, args: tuple, error: str) -> None:
    with pytest.raises(RuntimeError, match=error):
        dr.format(text, *args)


def test_several_values_need_a_text() -> None:
    with pytest.raises(TypeError, match=r"drjit\.format\('{} {}', a, b\)"):
        dr.format(Float(1), Float(2))
    with pytest.raises(TypeError, match=r"drjit\.print"):
        dr.print()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (WIDE, "[[1, 3, 4],\n [2, 3, 4]]"),
        (1, "1"),
        (True, "True"),
        (123456789.0, "1.23457e+08"),
        ([], "[]"),
        ({}, "{}"),
        ((), "()"),
        ((1,), "(\n  1\n)"),
        ({1: 2}, "{\n  1: 2\n}"),
        ({1, 2}, "{1, 2}"),
        ([[1, 2], [3]], "[\n  [\n    1,\n    2\n  ],\n  [\n    3\n  ]\n]"),
        (
            {"a": Float(1, 2), "b": [1, "x"]},
            "{\n  'a': [1, 2],\n  'b': [\n    1,\n    'x'\n  ]\n}",
        ),
        (
            [WIDE, {"k": WIDE}],
            "[\n  [[1, 3, 4],\n   [2, 3, 4]],\n  {\n    'k': [[1, 3, 4],\n     [2, 3, 4]]\n  }\n]",
        ),
        (Point(Float(1, 2), 3), "Point[\n  x=[1, 2],\n  y=3\n]"),
        ([Point(WIDE, 1)], "[\n  Point[\n    x=[[1, 3, 4],\n     [2, 3, 4]],\n    y=1\n  ]\n]"),
        (Hit(Float(1), WIDE), "Hit(a=[1], b=[[1, 3, 4],\n [2, 3, 4]])"),
        (Pair(1, Float(2)), "Pair(p=1, q=[2])"),
        (np.array([1, 2]), "array([1, 2])"),
    ],
)
def test_values(value: object, expected: str) -> None:
    assert dr.format(value) == expected


@pytest.mark.parametrize(
    ("n", "limit", "expected"),
    [
        (30, 20, "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
        (30, 4, "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
        (30, 29, "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
        (30, 30, "[" + ", ".join(map(str, range(30))) + "]"),
        (30, -1, "[" + ", ".join(map(str, range(30))) + "]"),
        (7, 6, "[0, 1, 2, .. 1 skipped .., 4, 5, 6]"),
        (6, 2, "[0, 1, 2, 3, 4, 5]"),
    ],
)
def test_limit(n: int, limit: int, expected: str) -> None:
    data = np.arange(n)
    assert dr.format("{}", Float(data), limit=limit) == expected
    assert dr.format(UInt(data), limit=limit) == expected


def printed(*args: object, **kwargs: object) -> str:
    file = io.StringIO()
    dr.print(*args, file=file, **kwargs)
    return file.getvalue()


def test_print(capsys: pytest.CaptureFixture) -> None:
    assert printed("{} {x}", Float(1, 2), x=3) == "[1, 2] 3\n"
    assert printed(Float(1), end="") == "[1]"
    dr.print("on {}", "stdout")
    assert capsys.readouterr().out == "on stdout\n"


@pytest.mark.parametrize(
    ("args", "active", "expected"),
    [
        (("{} {}", Float(1, 2), UInt(3, 4)), Bool(True, False), "[1] [3]\n"),
        (("{} {}", Float(9), Float(1, 2, 3)), Bool(True, False, True), "[9, 9] [1, 3]\n"),
        ((Array3f(1, [1, 2], 3),), Bool(False, True), "[[1, 2, 3]]\n"),
        (("{}", Float(1, 2, 3)), Bool(False, False, False), ""),
        (("{}", Float(1, 2, 3)), False, ""),
        (("{}", Float(1, 2, 3)), Bool(True), "[1, 2, 3]\n"),
        (("{}", Float(1, 2)), Bool(True, False, True), "[1, 2]\n"),
        (("{}", TensorXf([1, 2])), Bool(True, False), "[1, 2]\n"),
        (
            ([Float(1, 2), {"a": Float(3, 4)}],),
            Bool(False, True),
            "[\n  [2],\n  {\n    'a': [4]\n  }\n]\n",
        ),
        (
            ("{}", Point(Float(1, 2), Float(3, 4))),
            Bool(True, False),
            "Point[\n  x=[1],\n  y=[3]\n]\n",
        ),
    ],
)
def test_print_of_active_lanes(args: tuple, active: object, expected: str, tier: str) -> None:
    assert printed(*args, active=active) == expected


def test_print_refuses() -> None:
    for active in (1, None, Float(1), Array2b(True, False)):
        with pytest.raises(RuntimeError, match=r"drjit\.print\(\): 'active'"):
            printed("x", active=active)
    with pytest.raises(RuntimeError, match="'symbolic'"):
        printed("x", mode="other")


CLOSE = [
    (1, 1),
    (1, 1 + 1e-8),
    ([1, 2], (1, 2)),
    ({"a": 1}, {"a": 1}),
    (1j, 1j),
    (Float(1, 2), Float(1, 2.00002)),
    (Float(0), Float(1e-5)),
    (Float64(0), Float64(1e-8)),
    (Float16(0), Float16(0.009)),
    (Float(INF), Float(INF)),
    (Float(1, 2), [1, 2]),
    (Array3f(1, 2, 3), [1, 2, 3]),
    (Array3f(1), 1),
    (Matrix2f(1), [[1, 0], [0, 1]]),
    (Matrix2f(1), Matrix2f(1)),
    (Int(1, 2), Int(1, 2)),
    (UInt(0), UInt(0)),
    (Bool(True), Bool(True)),
    (Complex2f(1, 2), 1 + 2j),
    (Float(1, 2), np.array([1, 2])),
    (Quaternion4f(1, 2, 3, 4), Quaternion4f(1, 2, 3, 4)),
    (TensorXf([[1, 2]]), np.array([[1, 2]])),
    (S.Array2f(1, 2), [1, 2]),
    (np.array([1, 2]), [1, 2]),
    (Float(), Float()),
    ([Float(1, 2), 3], [Float(1, 2), 3]),
    (Point(Float(1), Float(2)), Point(Float(1), Float(2))),
]
APART = [
    (1, 1.0001),
    ([1, 2], [1, 3]),
    (Float(1, 2), Float(1, 2.1)),
    (Float(NAN), Float(NAN)),
    (Float(INF), Float(-INF)),
    (Float(1), Float(INF)),
    (Float(INF), Float(1)),
    (Float64(0), Float64(1e-7)),
    (Float16(0), Float16(0.04)),
    (Int(1, 2), Int(1, 3)),
    (UInt(0), UInt(1)),
    (Bool(True), Bool(False)),
    (Array3f(1, 2, 3), [1, 2, 4]),
    (TensorXf([1, 2]), TensorXf([1, 3])),
    (S.Array2f(1, 2), S.Array2f(1, 3)),
    ([Float(1, 2), 3], [Float(1, 2), 4]),
    (np.array([1, 2]), [1, 3]),
    (Matrix2f(1), Matrix2f(2)),
]


@pytest.mark.parametrize(("a", "b"), CLOSE, ids=str)
def test_values_that_are_close(a: object, b: object, tier: str) -> None:
    assert dr.allclose(a, b)
    dr.assert_allclose(a, b)


@pytest.mark.parametrize(("a", "b"), APART, ids=str)
def test_values_that_are_not_close(a: object, b: object, tier: str) -> None:
    assert not dr.allclose(a, b)
    with pytest.raises(AssertionError):
        dr.assert_allclose(a, b)


def test_what_allclose_gives() -> None:
    assert isinstance(dr.allclose(Float(1, 2), 1), Bool) and len(dr.allclose(Float(1, 2), 1)) == 1
    assert dr.allclose(TensorXf([1, 2]), 1).shape == ()
    assert dr.allclose([Float(1, 2)], [Float(1, 2)]) is True
    assert dr.allclose(S.Array2f(1), 1) is True


def test_tolerances_can_be_given() -> None:
    assert dr.allclose(Float(1, NAN), Float(1, NAN), equal_nan=True)
    assert dr.allclose(Float(100), Float(109), rtol=0.1)
    assert not dr.allclose(Float(100), Float(109), rtol=0, atol=8)
    assert dr.allclose(100, 109, atol=10)


def test_values_that_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="str and str"):
        dr.allclose("a", "a")
    with pytest.raises(RuntimeError, match=r"incompatible sizes.*2 and 3"):
        dr.allclose([1, 2], [1, 2, 3])
    with pytest.raises(RuntimeError, match="sizes"):
        dr.allclose(Float(1, 2), Float(1, 2, 3))


def test_assert_allclose_shows_the_difference() -> None:
    with pytest.raises(AssertionError) as info:
        dr.assert_allclose(Array3f(1, [2, 3], 3), Array3f(1, 2, 4), err_msg="first line")
    assert str(info.value) == (
        "first line\n"
        "Arrays are not equal to tolerance rtol=0.001, atol=1e-05\n"
        "Mismatched elements: 3 / 6 (50%)\n"
        "Max absolute difference: 1\n"
        "Max relative difference: 0.499998\n"
        " ACTUAL: [[1, 2, 3],\n"
        "          [1, 3, 3]]\n"
        " DESIRED: [[1, 2, 4]]"
    )
    assert info.value.__notes__ == [
        "entry (1, 1): actual 3, desired 2",
        "entry (2, 0): actual 3, desired 4",
        "entry (2, 1): actual 3, desired 4",
    ]
    for actual, desired in ((1, 2), ([1, 2], [1, 3]), ((1.0, 2), 1), ([Float(1, 2)], 1)):
        with pytest.raises(AssertionError) as info:
            dr.assert_allclose(actual, desired)
        assert str(info.value) == f"assert_allclose() failed: {actual=!r}, {desired=!r}"


@pytest.mark.parametrize(
    ("actual", "desired", "absolute", "relative"),
    [
        (Int(1, 2, 3), Int(1, 2, 4), "1", "0.25"),
        (Float(1, 2, NAN), Float(1, 2, NAN), "0", "0"),
        (Float(1, 2, INF), Float(1, 2, 3), "inf", "inf"),
        (Float(1, 1, 1), Float(1, 1, 1e-30), "1", "100000"),
        (Float(1, 2, 3), [1, 2, 4], "1", "0.249999"),
    ],
    ids=range(5),
)
def test_the_largest_differences_are_those_of_the_entries(actual, desired, absolute, relative):
    with pytest.raises(AssertionError) as info:
        dr.assert_allclose(actual, desired)
    lines = str(info.value).splitlines()
    assert lines[1:4] == [
        "Mismatched elements: 1 / 3 (33.3%)",
        f"Max absolute difference: {absolute}",
        f"Max relative difference: {relative}",
    ]


BROADCAST = [
    ([1, 1], 1, True),
    (1, [1, 2], False),
    ([[1, 1], [1, 1]], 1, True),
    ([[1, 2]], [1, 2], False),
    ([1, 2], [[1, 2]], False),
    ([1, 2], [1], False),
    ((1, 2), range(1, 3), True),
    ([Float(1), Float(1, 1)], 1, True),
    ([Float(1), [Float(2)]], 1, False),
    ([Float(1), Float(1)], Float(1, 1), True),
    (Float(1, 2), [[1, 2]], True),
    (Float(1, 2), [[1], [2]], False),
    (Float(1, 2), (Float(1, 2), Float(1, 2)), True),
    (Float(1, 2), np.array([[1, 2]]), True),
    (Float(1, 2), np.array([[1], [2]]), False),
    (Int(1, 2), [1.0, 2.000001], True),
    (Float(1), np.array([1.0001]), False),  # in double precision
    (Complex2f(1, 0), 1, False),
    (Matrix2f(1, 1, 1, 1), 1, True),
]


@pytest.mark.parametrize(("a", "b", "want"), BROADCAST, ids=range(len(BROADCAST)))
def test_sequences_are_compared_entry_by_entry(a, b, want, tier):
    for x, y in ((a, b), (b, a)):
        assert bool(dr.allclose(x, y)) is want
        if want:
            dr.assert_allclose(x, y)
        else:
            with pytest.raises(AssertionError):
                dr.assert_allclose(x, y)


def test_assertions_do_nothing_outside_debug_mode() -> None:
    dr.assert_true(False)
    dr.assert_false(Bool(True, False), "text {}", 1)
    dr.assert_equal(Float(1), Float(2))


@pytest.mark.usefixtures("debug")
def test_assertions_that_hold() -> None:
    dr.assert_true(True)
    dr.assert_true(Bool(True, True))
    dr.assert_true([Bool(True), {"a": Array2b(True)}])
    dr.assert_true(Bool())
    dr.assert_false(False)
    dr.assert_false(Bool(False, False))
    dr.assert_equal(Float(1, 2), Int(1, 2))
    dr.assert_equal([1, "a", None], [1, "a", None])
    dr.assert_equal(Array3f(1, 2, 3), [1, 2, 3])


@pytest.mark.usefixtures("debug")
def test_a_failed_assertion_shows_the_lanes_that_fail() -> None:
    with pytest.raises(AssertionError) as info:
        dr.assert_true(Bool(True, False, False), "value {} of {n}", Float(1, 2, 3), n=5)
    lines = str(info.value).splitlines()
    assert lines[:2] == [
        "Assertion failure: value [2, 3] of 5",
        "  2 of 3 entries fail, the first is entry 1",
    ]
    assert "test_format.py" in lines[2] and "test_a_failed_assertion" in lines[2]
    assert len(lines) == 5
    with pytest.raises(AssertionError, match=r"Assertion failure: bad \[1\]"):
        dr.assert_false(Bool(True, False), "bad {}", Float(1, 2))
    with pytest.raises(AssertionError, match=r"of \[1\]\['a'\] fail"):
        dr.assert_true([True, {"a": Bool(True, False)}])


@pytest.mark.usefixtures("debug")
def test_the_lines_that_led_to_an_assertion() -> None:
    def inner() -> None:
        dr.assert_true(False, tb_depth=1, tb_skip=1)

    with pytest.raises(AssertionError) as info:
        inner()
    first, line = str(info.value).splitlines()
    assert first == "Assertion failure!"
    assert "test_the_lines" in line and "inner" not in line


@pytest.mark.usefixtures("debug")
def test_values_that_should_be_equal() -> None:
    with pytest.raises(AssertionError) as info:
        dr.assert_equal(Float(1, 2, 3, 4), Float(1, 0, 0, 0), "here", limit=2, tb_depth=0)
    assert str(info.value).splitlines() == [
        "Assertion failure: here",
        "  entry 1: 2 != 0",
        "  entry 2: 3 != 0",
        "  3 of 4 entries fail, the first is entry 1",
    ]
    for a, b in [(1, 2), (Float(NAN), Float(NAN)), (Array2f(1, 2), Array2f(1, 3)), ([1], [2])]:
        with pytest.raises(AssertionError):
            dr.assert_equal(a, b)
    with pytest.raises(RuntimeError, match="different lengths: 1 and 2"):
        dr.assert_equal([1], [1, 2])


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize("value", [1, None, "x", Float(1)])
def test_assertions_take_masks_only(value: object) -> None:
    with pytest.raises(TypeError, match=r"dr\.assert_true\(\): expected a mask"):
        dr.assert_true(value)

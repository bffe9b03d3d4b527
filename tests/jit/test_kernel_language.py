"""The rules for types of the kernel language, which the reader of texts and the targets follow."""

import pytest

from drjit.jit.ir import dtype as dt
from drjit.jit.ir import op
from drjit.jit.target.language import OPERATORS, STATEMENTS, operand_type, result_types
from drjit.jit.target.simd.elementwise import row

V = dt.vector(dt.f32, 3)


@pytest.mark.parametrize("t", dt.ALL, ids=str)
def test_rows_of_the_simd_target_have_the_types_of_the_language(t: dt.DType) -> None:
    for o in op.TABLE.values():
        if o.kind not in ("prefix", "infix", "call") or o.library or o is op.select:
            continue
        if o.accepts(t):
            (found,) = result_types(o.name, [t] * o.arity)
            assert row(o.name, t.code, 8, False).result == found.code
        else:
            with pytest.raises(TypeError, match="does not exist for"):
                operand_type(o, [t] * o.arity)


@pytest.mark.parametrize(
    ("name", "arguments", "want"),
    [
        ("lane", ["i"], [dt.u32]),
        ("gather", [dt.f16, None, dt.u32, dt.mask], [dt.f16]),
        ("gather_packet", [dt.f16, None, dt.u32, dt.mask, 3], [dt.f16] * 3),
        ("gather_weighted", [dt.f32, None, dt.mask, 4, dt.u32, dt.f32], [dt.f32] * 4),
        ("store", [dt.f32, None, "i", dt.f32], []),
        ("scan", [dt.i64, "add", None, "i", dt.i64, True], [dt.i64]),
        ("f16", [dt.f32], [dt.f16]),
        ("f16", [V], [dt.vector(dt.f16, 3)]),
        ("sincos", [dt.f64], [dt.f64, dt.f64]),
        ("select", [True, 1, dt.u8], [dt.u8]),
        ("lt", [V, dt.f32], [dt.vector(dt.mask, 3)]),
        ("vector", [dt.f32, dt.f32, 1, 2], [V]),
        ("splat", [dt.f32, 3, 0], [V]),
        ("feature", [V, 2], [dt.f32]),
        ("put", [V, 1, dt.f32, dt.mask], [V]),
        ("matvec", [dt.f32, None, None, 3, 5, 5, False, dt.vector(dt.f32, 5)], [V]),
        ("matvec", [dt.f32, None, None, 5, 3, 3, True, dt.vector(dt.f32, 5)], [V]),
    ],
)
def test_results(name: str, arguments: list, want: list[dt.DType]) -> None:
    assert [*result_types(name, arguments)] == want


def test_every_operator_and_statement_has_a_rule() -> None:
    assert {o.name for o in OPERATORS.values()} == {
        o.name for o in op.TABLE.values() if o.kind in ("prefix", "infix")
    }
    results = {s.result for s in STATEMENTS.values()}
    assert results <= {"T", "T*", "V", "-", *dt.BY_CODE}

"""Sums of products in Einstein's notation, against NumPy."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drjit as dr
from drjit import scalar
from drjit.llvm import Array3f, Bool, Float, Float16, Float64, Int, TensorXf, ad
from drjit.llvm.ad import TensorXf16, TensorXf64, TensorXi

CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ji,jk->ki", (3, 2), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("ii", (3, 3)), ("ii->i", (3, 3)),
    ("iii->i", (3, 3, 3)), ("iij,jkk->ik", (3, 3, 2), (2, 4, 4)), ("ij->", (2, 3)),
    ("ij->ji", (2, 3)), ("i,i", (3,), (3,)), ("i,j", (3,), (2,)), (",", (), ()),
    ("i,->i", (3,), ()), ("...i,i->...", (2, 3, 4), (4,)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("a,ab,abc->c", (2,), (2, 3), (2, 3, 4)), ("bi,bi->b", (3, 4), (3, 4)),
    ("ij,jk->ik", (1, 3), (1, 4)), ("ij,kj->ik", (0, 3), (2, 3)), ("ij,jk->ik", (2, 0), (0, 3)),
    ("i...,j...->ij...", (2, 3), (4, 3)), ("ij,kl->", (2, 3), (4, 2)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), ("...", (2, 3)),
    ("ij , jk -> i k", (2, 3), (3, 4)),
]  # fmt: skip
TYPES = [
    (TensorXf64, 1e-12), (ad.TensorXf, 1e-4), (TensorXf16, 2e-2), (TensorXi, 0),
    (scalar.TensorXf64, 1e-12), (scalar.TensorXi64, 0),
]  # fmt: skip


def check(formula, shapes, cls=TensorXf64, tolerance=1e-12):
    rng = np.random.default_rng(0)
    operands = [cls(rng.integers(-4, 5, size=s)) for s in shapes]
    wanted = np.einsum(formula, *[np.array(t, np.float64) for t in operands])
    found = dr.einsum(formula, *operands)
    assert type(found) is cls and found.shape == wanted.shape
    np.testing.assert_allclose(np.array(found), wanted, tolerance, tolerance)


@pytest.mark.parametrize(("cls", "tolerance"), TYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_formulas_agree_with_numpy(case, cls, tolerance):
    check(case[0], case[1:], cls, tolerance)


@st.composite
def formulas(draw):
    """A formula of one to four operands, and their shapes."""
    sizes = dict(zip("abcde", draw(st.tuples(*[st.integers(0, 4)] * 5)), strict=True))
    terms = draw(st.lists(st.text("abcde", max_size=3), min_size=1, max_size=4))
    shapes = [tuple([sizes[x] for x in term]) for term in terms]
    used = sorted({*"".join(terms)})
    formula = ",".join(terms)
    if draw(st.booleans()):
        formula += "->" + "".join(draw(st.permutations(used))[: draw(st.integers(0, len(used)))])
    return formula, shapes


@given(formulas())
def test_any_formula_agrees_with_numpy(case):
    check(*case)


def test_products_of_matrices_are_what_matmul_computes(monkeypatch):
    """Without moving entries, where operands are stored as matrices or their transposes."""
    calls = []

    def matmul(a, b, at, bt):
        calls.append((a.shape, b.shape, at, bt))
        return dr.matmul(a, b, at, bt)

    monkeypatch.setattr(import_module("drjit.function.math.einsum"), "matmul", matmul)
    a, b = dr.rng(1).normal(TensorXf, (17, 33)), dr.rng(2).normal(TensorXf, (33, 9))
    wanted = np.array(a) @ np.array(b)
    np.testing.assert_allclose(dr.einsum("ij,jk->ik", a, b), wanted, 1e-4, 1e-4)
    found = dr.einsum("ji,kj->ik", dr.transpose(a), dr.transpose(b))
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)
    assert calls == [
        ((17, 33), (33, 9), False, False),
        ((33, 17), (9, 33), True, True),
    ]
    del calls[:]
    dr.einsum("ab,bc,cd->ad", dr.ones(TensorXf, (9, 9)), dr.ones(TensorXf, (9, 2)), b[:2])
    assert [call[:2] for call in calls] == [((9, 9), (9, 2)), ((9, 2), (2, 9))]


def test_types_promote_and_half_precision_accumulates():
    assert type(dr.einsum("i,i", Int(1, 2), Float(3, 4))) is TensorXf
    assert repr(dr.einsum("i,i", Float(1, 2), Float64(3, 4))) == "11"
    assert repr(dr.einsum("i,i", Float16(300, 300), Float16(300, -300))) == "0"


def test_derivatives():
    rng = np.random.default_rng(1)
    a, b, c = (TensorXf64(rng.normal(size=s)) for s in ((2, 2, 3), (3, 2), (3, 1)))
    assert dr.check_grad(lambda a, b, c: dr.einsum("iij,jk,j...->ki", a, b, c), a, b, c)


@pytest.mark.parametrize(
    ("formula", "shapes", "problem"),
    [
        ("ij,jk", [(2, 3), (4, 5)], "the axis 'j' has the sizes 3 and 4"),
        ("...,...", [(3,), (4,)], "number -1 of '...' has the sizes 3 and 4"),
        ("ij", [(2,)], "'ij' names 2 axes of an operand that has 1"),
        ("ij,k", [(2, 3)], "it names 2 operands, but 1 are given"),
        ("i->j", [(2,)], "'j' occurs in no operand"),
        ("i->ii", [(2,)], "'i' occurs twice in the result"),
        ("i1", [(2, 2)], "'i1' is no sequence of letters"),
        ("i..", [(2,)], "'i..' is no sequence of letters"),
    ],
)
def test_mistakes_are_explained(formula, shapes, problem):
    with pytest.raises(ValueError) as error:
        dr.einsum(formula, *[dr.zeros(TensorXf, s) for s in shapes])
    assert str(error.value).startswith(f"dr.einsum({formula!r}): ")
    assert problem in str(error.value)
    assert str(error.value).endswith(f"the shapes are {tuple(shapes)}")


@pytest.mark.parametrize("operand", [3, Bool(True), Array3f(1), "i"])
def test_other_operands_are_rejected(operand):
    with pytest.raises(TypeError, match="expected tensors or one-dimensional arrays of numbers"):
        dr.einsum("i", operand)

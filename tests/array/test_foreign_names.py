"""Names of NumPy and PyTorch that a program tries: the message says what to write."""

import inspect
import pydoc
import re

import numpy as np
import pytest

import drjit as dr
from drjit.array import foreign_names
from drjit.llvm import Array3f, Float, TensorXf


@pytest.mark.parametrize("name", foreign_names.FUNCTIONS)
def test_functions(name):
    assert not hasattr(dr, name)
    with pytest.raises(AttributeError) as error:
        getattr(dr, name)
    assert str(error.value).startswith(f"module 'drjit' has no attribute '{name}'. Use ")


@pytest.mark.parametrize("x", [Float(1, 2), Array3f(1), TensorXf([1, 2])])
@pytest.mark.parametrize("name", foreign_names.METHODS)
def test_methods(name, x):
    assert not hasattr(x, name)
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Use "):
        getattr(x, name)


def test_what_to_write_instead_is_there():
    for text in (*foreign_names.FUNCTIONS.values(), *foreign_names.METHODS.values()):
        for name in re.findall(r"dr\.(\w+)", text):
            assert hasattr(dr, name), text
    assert foreign_names.array_hint("cumsum") == ". Use dr.cumsum(x)"


def test_other_names():
    with pytest.raises(AttributeError, match=r"'drjit' has no attribute 'spam'$"):
        dr.spam  # noqa: B018
    with pytest.raises(AttributeError, match=r"'Float' object has no attribute 'spam'$"):
        Float(1).spam  # noqa: B018
    assert np.asarray(Float(1, 2)).tolist() == [1, 2]


def test_names_that_are_shown():
    assert "where" not in dir(dr) and "sum" not in dir(Float(1))
    assert {"x", "z", "shape"} < {*dir(Array3f(1))}
    assert not {"xy", "zyx", "xxyy", "w"} & {*dir(Array3f(1))}


@pytest.mark.parametrize(
    "cls",
    [Float, Array3f, TensorXf, dr.scalar.Matrix3f, dr.llvm.ad.Complex2f, dr.llvm.ad.UInt],
)
def test_classes_say_what_they_are(cls):
    assert cls.__name__ in cls.__doc__ and cls._dtype.name in cls.__doc__
    assert ("derivatives" in cls.__doc__) == (cls._diff and cls._dtype.is_float)


def test_derived_classes_may_have_them():
    class Measured(Float):
        def mean(self):
            return dr.mean(self)

        def __init__(self, *values):
            super().__init__(*values)
            self.size = 3

    x = Measured(1, 3)
    assert x.mean() == 2 and x.size == 3 and {"mean", "size"} < {*dir(x)}
    assert not hasattr(Float, "mean")


@pytest.mark.parametrize("f", [dr.sum, dr.prod, dr.min, dr.max, dr.mean, dr.all, dr.any, dr.count])
def test_arguments_that_serve_messages_are_not_shown(f):
    parameters = inspect.signature(f).parameters
    assert "axis" in parameters and "unknown" not in parameters
    assert "unknown" not in pydoc.render_doc(f)
    with pytest.raises(TypeError, match=rf"dr\.{f.__name__}\(\): incompatible .*'dim'\. Use axis"):
        f(Float(1), dim=0)

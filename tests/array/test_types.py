"""The types of the namespaces, and questions about types."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import DEVICE, named

import drjit as dr
from drjit.array import table


def _listed() -> list[tuple[str, str, str]]:
    found, section = [], ""
    text = (Path(__file__).parents[1] / "data" / "types.txt").read_text()
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]").removeprefix("drjit.")
        elif ": " in line and not line.startswith("#"):
            name, shown = line.split(": ", 1)
            found.append((section, name, shown))
    return found


def _namespace(name: str):
    module = dr
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _descriptor(cls: type[dr.ArrayBase]) -> str:
    """What the type reports as its `__meta__`, on one line."""
    return " ".join(cls.__meta__.replace("\n]", " ]").split())


@pytest.mark.parametrize("section", ["scalar", "llvm", "llvm.ad"])
def test_every_listed_type_describes_itself_as_listed(section: str) -> None:
    listed = [(name, shown) for s, name, shown in _listed() if s == section]
    assert len(listed) > 130
    for name, shown in listed:
        cls = getattr(_namespace(section), name)
        found = _descriptor(cls) if shown.startswith("ArrayMeta") else cls.__name__
        assert found == named(shown), name


@pytest.mark.parametrize("section", ["scalar", "llvm", "llvm.ad"])
def test_there_are_no_other_types(section: str) -> None:
    listed = {name for s, name, _ in _listed() if s == section}
    assert set(table.names(section)) == listed


def test_cuda_types_can_be_inspected_but_not_constructed() -> None:
    assert _descriptor(dr.cuda.ad.Array3f) == (
        "ArrayMeta[ type=float32, backend=cuda, is_jit=1, is_vector=1, is_diff=1, shape=(3, *) ]"
    )
    assert dr.value_t(dr.cuda.Matrix3f) is dr.cuda.Array3f
    if not dr.has_backend(dr.JitBackend.CUDA):
        for make in (
            dr.cuda.Float,
            dr.cuda.ad.Array3f,
            lambda _: dr.zeros(dr.cuda.Float, 3),
            lambda _: dr.zeros(dr.cuda.ad.Array3f, 3),
            lambda _: dr.arange(dr.cuda.UInt, 3),
            lambda _: dr.linspace(dr.cuda.ad.Float, 0, 1, 3),
            lambda _: dr.empty(dr.cuda.TensorXf, (2, 3)),
            lambda _: dr.opaque(dr.cuda.Float, 1),
            lambda _: dr.rng().random(dr.cuda.Float, 3),
        ):
            with pytest.raises(
                RuntimeError,
                match=r"drjit\.cuda\..* CUDA backend is not available: .*drjit\.llvm",
            ):
                make(1)


def test_a_class_exists_once_under_all_of_its_names() -> None:
    assert dr.llvm.Float is dr.llvm.Float32
    assert dr.llvm.Int is dr.llvm.Int32
    assert dr.llvm.ad.Float is not dr.llvm.Float
    assert dr.llvm.Float.__mro__ == (dr.llvm.Float, dr.ArrayBase, object)
    assert repr(dr.llvm.ad.Array3f) == named("<class 'drjit.llvm.ad.Array3f'>")
    assert dr.scalar.Float is float and dr.scalar.Int is int and dr.scalar.Bool is bool


def test_a_type_that_does_not_exist_is_an_attribute_error() -> None:
    for module in (dr.scalar, dr.llvm, dr.llvm.ad, dr.cuda, dr.auto):
        with pytest.raises(AttributeError, match="Array5f"):
            _ = module.Array5f


def test_star_import_and_dir_have_all_types() -> None:
    names: dict = {}
    exec("from drjit.llvm import *", names)
    assert names["Quaternion4f"] is dr.llvm.Quaternion4f
    assert "TensorXf" in dir(dr.llvm) and "TensorXf" in dir(dr.auto.ad)


def test_classes_are_built_on_demand() -> None:
    code = "import drjit; from drjit.array import table; print(len(table._classes))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 0


def test_threads_get_the_same_complete_classes() -> None:
    code = (
        "import sys, threading\n"
        "sys.setswitchinterval(1e-6)\n"
        "import drjit as dr\n"
        "found = []\n"
        "def use():\n"
        "    m = dr.llvm.Matrix3f\n"
        "    found.append((m, m.Value, m.Mask, m.Array, str(m(1) == m(1))))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(len(found), len(set(found)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8", "1"]


@pytest.mark.processor
def test_auto_follows_set_backend() -> None:
    assert dr.auto.Float is dr.llvm.Float
    assert dr.auto.ad.Float is dr.llvm.ad.Float
    try:
        dr.set_backend("scalar")
        assert dr.auto.Float is float
        assert dr.auto.Array3f is dr.scalar.Array3f
        dr.set_backend(dr.JitBackend.CUDA)
        assert dr.auto.ad.Array3f is dr.cuda.ad.Array3f
    finally:
        dr.set_backend("llvm")
    with pytest.raises(RuntimeError, match="'llvm', 'cuda' or 'scalar'"):
        dr.set_backend("abacus")
    with pytest.raises(TypeError):
        dr.set_backend(3)


L, S, A = dr.llvm, dr.scalar, dr.llvm.ad

TYPES = [
    # trait, argument, answer
    (dr.value_t, L.Array3f, L.Float),
    (dr.value_t, L.Matrix34f, L.Array34f),
    (dr.value_t, L.Float, float),
    (dr.value_t, L.TensorXu, int),
    (dr.value_t, S.Array3b, bool),
    (dr.value_t, 1.0, float),
    (dr.mask_t, L.Float, L.Bool),
    (dr.mask_t, L.Matrix41f, L.Array441b),
    (dr.mask_t, A.Complex2f, A.Array2b),
    (dr.mask_t, L.TensorXf, L.TensorXb),
    (dr.mask_t, "x", bool),
    (dr.array_t, L.Matrix3f, L.Array33f),
    (dr.array_t, L.Quaternion4f, L.Array4f),
    (dr.array_t, L.TensorXf, L.Float),
    (dr.array_t, S.TensorXf, S.ArrayXf),
    (dr.scalar_t, L.Array3u64, int),
    (dr.scalar_t, S.Array3f, float),
    (dr.leaf_t, L.Matrix3f, L.Float),
    (dr.leaf_t, L.TensorXf, L.Float),
    (dr.leaf_t, S.Array3f, S.Array3f),
    (dr.leaf_t, 1, int),
    (dr.tensor_t, L.Array3f, L.TensorXf),
    (dr.tensor_t, 1, None),
    (dr.matrix_t, L.Array3f, L.Matrix3f),
    (dr.matrix_t, L.Array44f, L.Matrix4f),
    (dr.matrix_t, L.Float, None),
    (dr.diff_array_t, L.Float, A.Float),
    (dr.diff_array_t, S.Array3f, S.Array3f),
    (dr.detached_t, A.Matrix3f, L.Matrix3f),
    (dr.detached_t, float, float),
    (dr.uint_array_t, L.Float64, L.UInt64),
    (dr.int_array_t, L.Bool, L.Int8),
    (dr.float_array_t, L.UInt, L.Float),
    (dr.float64_array_t, L.Matrix3f, L.Matrix3f64),
    (dr.uint32_array_t, 1.5, int),
    (dr.size_v, L.Array3f, 3),
    (dr.size_v, L.ArrayXf, -1),
    (dr.size_v, L.Float, -1),
    (dr.size_v, L.TensorXf, 0),
    (dr.size_v, 5, 1),
    (dr.depth_v, L.Matrix3f, 3),
    (dr.depth_v, S.Array3f, 1),
    (dr.depth_v, 5, 0),
    (dr.itemsize_v, L.Array3f16, 2),
    (dr.type_v, L.Array3u, dr.VarType.UInt32),
    (dr.type_v, 1, dr.VarType.Void),
    (dr.backend_v, L.Float, DEVICE.backend),
    (dr.backend_v, S.Array3f, dr.JitBackend.Invalid),
    (dr.is_array_v, L.Float, True),
    (dr.is_array_v, None, False),
    (dr.is_jit_v, S.Array3f, False),
    (dr.is_diff_v, A.Int, True),
    (dr.is_tensor_v, L.TensorXf, True),
    (dr.is_vector_v, L.Array33f, True),
    (dr.is_vector_v, L.Matrix3f, False),
    (dr.is_special_v, L.Complex2f, True),
    (dr.is_dynamic_v, S.Array3f, False),
    (dr.is_dynamic_v, S.ArrayXf, True),
    (dr.is_mask_v, True, True),
    (dr.is_float_v, L.Float16, True),
    (dr.is_half_v, L.Array3f16, True),
    (dr.is_integral_v, True, False),
    (dr.is_arithmetic_v, 1, True),
    (dr.is_arithmetic_v, L.Bool, False),
    (dr.is_signed_v, L.UInt, False),
    (dr.is_unsigned_v, L.Bool, True),
]


@pytest.mark.parametrize(("trait", "argument", "answer"), TYPES)
def test_trait(trait, argument, answer) -> None:
    assert trait(argument) == answer
    if isinstance(argument, type) and issubclass(argument, dr.ArrayBase):
        assert trait(argument()) == answer


def test_replacing_type_and_shape() -> None:
    assert dr.replace_type_t(L.Array3f, dr.VarType.Bool) is L.Array3b
    assert dr.replace_shape_t(L.Float, (3, -1)) is L.Array3f
    assert dr.replace_shape_t(L.Array3f, (-1,)) is L.Float
    assert dr.replace_shape_t(L.Matrix3f, (4, 4, -1)) is L.Matrix4f
    assert dr.replace_shape_t(S.Array3f, (2,)) is S.Array2f
    assert dr.replace_shape_t(L.TensorXf, (2, -1)) is L.TensorXf
    for cls in (L.TensorXf, L.Float, L.Array3f):
        assert dr.replace_shape_t(cls, (2, 2, -1), "matrix") is L.Matrix2f
        assert dr.replace_shape_t(cls, (2, -1), "complex") is L.Complex2f
        assert dr.replace_shape_t(cls, (4, -1), "quaternion") is L.Quaternion4f
        assert dr.replace_shape_t(cls, (3, 4, -1), "array") is L.Array34f
        for kind in ("tensor", ""):
            with pytest.raises(RuntimeError, match="expected one of array, matrix"):
                dr.replace_shape_t(cls, (2, -1), kind)
    with pytest.raises(RuntimeError, match="Matrix3i, which does not exist"):
        dr.int32_array_t(L.Matrix3f)
    with pytest.raises(TypeError, match="float type of the size of int8"):
        dr.float_array_t(L.Int8)


@pytest.mark.parametrize(
    ("name", "eps", "low", "high"),
    [
        ("Float16", 2.0**-11, 2.0**-14, 65504.0),
        ("Float", 2.0**-24, 2.0**-126, 3.4028234663852886e38),
        ("Float64", 2.0**-53, 2.0**-1022, 1.7976931348623157e308),
    ],
)
def test_properties_of_floating_point_types(name, eps, low, high) -> None:
    cls = getattr(dr.llvm, name)
    assert dr.epsilon(cls) == eps
    assert dr.one_minus_epsilon(cls) == 1 - eps
    assert dr.smallest(cls) == low
    assert dr.largest(cls(1)) == high
    overflow = cls(dr.recip_overflow(cls))
    assert (1 / overflow)[0] == dr.inf
    with pytest.raises(TypeError, match="floating-point"):
        dr.epsilon(dr.llvm.Int)


def test_constants() -> None:
    assert dr.inv_sqrt_two_pi * dr.sqrt_two_pi == pytest.approx(1)
    assert dr.inv_log_two == 1 / dr.log_two
    assert dr.four_pi == 2 * dr.two_pi


def test_shape_and_width() -> None:
    assert dr.shape(L.Array3f(1, 2, L.Float(1, 2))) == (3, 2)
    assert dr.shape([L.Float(1, 2), L.Float(3)]) == (2, 2)
    assert dr.shape(3) == ()
    assert dr.width({"a": L.Array2f(1), "b": [L.Float(1, 2, 3), 4.0]}) == 3
    assert dr.width(S.Array3f(1)) == 3
    assert dr.width() == 0
    with pytest.raises(RuntimeError, match="sizes 2 and 3"):
        dr.width(L.Float(1, 2), L.Float(1, 2, 3))
    with pytest.raises(RuntimeError, match="ragged"):
        dr.shape(L.Array2f(L.Float(1, 2), L.Float(1, 2, 3)))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))]
)
@pytest.mark.parametrize(
    "array",
    [
        L.Float(1, 2),
        L.Array3i(1, 2, 3),
        L.Matrix2f(1, 2, 3, 4),
        L.TensorXf([[1, 2]]),
        S.Array2f(1, 2),
    ],
)
def test_copies_are_independent(duplicate, array) -> None:
    other = duplicate(array)
    assert type(other) is type(array)
    assert repr(other) == repr(array)
    before = repr(array)
    other += 1
    assert repr(array) == before


@pytest.mark.parametrize("module", ["drjit.auto", "drjit.auto.ad"])
def test_the_chosen_types_can_all_be_imported(module):
    names = {}
    exec(f"from {module} import *", names)
    chosen = dr.auto if module == "drjit.auto" else dr.auto.ad
    assert names["Float"] is chosen.Float
    assert names["TensorXf16"] is chosen.TensorXf16

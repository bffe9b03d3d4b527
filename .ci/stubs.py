"""Writes the stubs by which editors and type checkers know what Python makes on first use: the
public functions, from the table of their modules, and the namespaces of types, from the table of
types. `drjit/array/kinds.pyi`, from which their classes derive, is written by hand.
"""

import ast
import inspect
import re
import textwrap
from itertools import product
from pathlib import Path
from typing import Any

import drjit as dr
from drjit import _names
from drjit.array import promote, table
from drjit.array.meta import LEAF_NAME, type_name
from drjit.jit.ir.dtype import DType, i32
from drjit.random import pcg, philox

PACKAGE = Path(dr.__file__).parent
NOTE = "# Written by .ci/stubs.py.\n# fmt: off\n# ruff: noqa"
KINDS = re.findall(
    r"^(?:class )?(\w+)(?:\(|:| = TypeVar)", (PACKAGE / "array/kinds.pyi").read_text(), re.MULTILINE
)
# Names of other modules' objects in namespaces, and of the modules of the bases of their types.
MODULES = {
    "cuda": "GLInterop green_context map_graphics_resource_array map_graphics_resource_ptr "
    "memcpy_2d_to_array_async register_gl_buffer register_gl_texture unmap_graphics_resource "
    "unregister_cuda_resource",
    "cuda.ad": "green_context",
}
MARKS = {dtype: f"{'An' if name[0] == 'I' else 'A'}{name}" for dtype, name in LEAF_NAME.items()}
ORDER = sorted(LEAF_NAME, key=lambda dtype: dtype.order)


def package() -> str:
    """The stub of the package itself: what it imports, and what it will import on first use."""
    # What a stub imports by another name is not part of its interface.
    renamed = ["Dynamic: int"]
    eager = [
        f"from .{statement.module or ''} import {alias.name} as {alias.name}"
        for statement in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(statement, ast.ImportFrom) and statement.level == 1
        for alias in statement.names
        if alias.asname is None
    ]
    lazy = [f"from . import {name} as {name}" for name in dr._LAZY]
    functions = [f"from .{m} import {n} as {n}" for n, m in _names.MODULES.items()]
    found = [*renamed, *eager, *lazy, *functions, "__version__: str", "__all__: list[str]"]
    return "\n".join(found)


def below(
    kind: str, dtype: DType, dims: tuple[int, ...], prefix: str = "", own: bool = False
) -> str:
    """The base of classes that promote to those of wider element types: of the class itself, or
    of the classes that promote to it."""
    wider = ORDER[ORDER.index(dtype) + (not own) :]
    if not wider or (own and dtype is ORDER[0]):
        return ""
    classes = [type_name(kind, d, dims) for d in wider]
    shown = [prefix + c if c in table.SPECS else "Never" for c in classes]
    if own:
        shown[1:] = ["Any"] * len(shown[1:])
    return f"To{LEAF_NAME[wider[0]]}[{', '.join(shown)}]"


def operands(namespace: str, name: str) -> str:
    """What promotes to a type."""
    kind, dtype, _ = table.SPECS[name]
    cls = table.build(namespace, name)
    plain = namespace.removesuffix(".ad")
    found = [table.python_type(dtype).__name__]
    if kind != "leaf" and namespace != "scalar":
        found = [f"_{LEAF_NAME[dtype]}"]
    for family in dict.fromkeys((k, d) for k, _, d in table.SPECS.values()):
        member = type_name(family[0], dtype, family[1])
        if member not in table.SPECS or (family[0] == "leaf" and found[0][0] == "_"):
            continue
        if namespace == "scalar" and family[0] == "leaf":
            continue
        try:
            if promote.join((table.build(namespace, member), cls)) is not cls:
                continue
        except RuntimeError:
            continue
        prefixes = [""] + [f"_{plain}."] * (plain != namespace)
        prefixes += ["_scalar."] * (namespace != "scalar" and family[0] != "leaf")
        for prefix in prefixes:
            found += [prefix + member, below(family[0], dtype, family[1], prefix, own=True)]
    return " | ".join(filter(None, found))


def bases(namespace: str, name: str) -> list[str]:
    """The bases of a type."""
    kind, dtype, dims = table.SPECS[name]
    cls = table.build(namespace, name)
    own, mask = f"_{name}", cls.Mask.__name__
    operators = "Masks" if dtype.is_mask else "Floats" if dtype.is_float else "Integers"
    entry = table.find(namespace, "leaf", dtype).__name__
    arguments = [own, mask, cls.Value.__name__]
    base = kind.capitalize()
    if kind == "vector" and len(dims) == 1 and dims[0] in (1, 2, 3, 4):
        base += str(dims[0])
    if kind == "tensor":
        arguments.insert(2, cls.Array.__name__)
    elif kind != "leaf":
        arguments.append(entry)
    if kind == "quaternion":
        arguments.append(type_name("vector", dtype, (3,)))
    if kind == "matrix":
        arguments.append(cls.Array.__name__)
    found = [f"{base}[{', '.join(arguments)}]", f"{operators}[{own}, {mask}]"]
    if kind in ("vector", "quaternion") and len(dims) == 1 and dims[0] in (2, 3, 4):
        vectors = [type_name("vector", dtype, (n,)) for n in (2, 3, 4)]
        found.append(f"Swizzles{dims[0]}[{', '.join([entry, *vectors])}]")
    if kind == "leaf":
        found.append(MARKS[dtype])
    return [*found, *filter(None, [below(kind, dtype, dims)])]


def relatives(namespace: str, name: str) -> dict[str, str]:
    """The types to which functions lead from a type, by the members that tell (`kinds.pyi`)."""
    kind, dtype, dims = table.SPECS[name]
    backend, _, suffix = namespace.partition(".")
    size = 8 * dtype.itemsize
    named = {t.name: t for t in LEAF_NAME}

    def other(kind: str, dims: tuple[int, ...], dtype: DType | None = dtype) -> str:
        found = "" if dtype is None else type_name(kind, dtype, dims)
        return found if found in table.SPECS else ""

    found = {f"_{t}": other(kind, dims, named.get(f"{t}{size}")) for t in ("int", "uint", "float")}
    found["_tensor"] = other("tensor", ())
    if backend != "scalar":
        found["_plain"] = f"_{backend}.{name}" if suffix else name
        found["_tracked"] = name if suffix else f"ad.{name}"
        if kind not in ("leaf", "tensor"):
            found["_single"] = f"_scalar.{name}"
        for there in ("llvm", "cuda"):
            found[f"_on_{there}"] = (
                name if there == backend else f"_{there}{suffix and '_ad'}.{name}"
            )
    if kind in ("vector", "matrix") and dims and dims[:1] != (0,):
        found["_matrix"] = other("matrix", (dims[0], dims[0], *dims[2:]))
    if kind == "leaf":
        found["_vector"] = other("vector", (3,))
    if (kind, dims) in (("matrix", (3, 3)), ("matrix", (4, 4))):
        found["_rotation"] = other("quaternion", (4,))
    if (kind, dims) == ("vector", (3,)):
        found["_turned"] = other("quaternion", (4,))
    if (kind, dims) == ("matrix", (3, 3)):
        found["_affine"] = other("matrix", (4, 4))
    if (kind, dims) == ("matrix", (4, 4)):
        parts = ("matrix", (3, 3)), ("quaternion", (4,)), ("vector", (3,))
        found["_parts"] = f"tuple[{', '.join(other(*part) for part in parts)}]"
    if dtype.is_int and size == 32:
        found["_wide"] = other(kind, dims, named[dtype.name.replace("32", "64")])
    return {member: cls for member, cls in found.items() if cls}


def types(namespace: str) -> str:
    """The stub of a namespace."""
    backend, _, suffix = namespace.partition(".")
    lines = ["from typing import Any, ClassVar, Never, TypeAlias"]
    lines.append("from ..array.swizzles import Swizzles2, Swizzles3, Swizzles4")
    lines.append("from ..array.textures import Textures")
    if namespace != "scalar":
        there = "llvm" if backend == "cuda" else "cuda"
        lines.append("from .. import scalar as _scalar")
        lines.append(f"from .. import {there} as _{there}")
        if suffix:
            lines[-1] = f"from ..{there} import ad as _{there}_ad"
    if suffix:
        lines.append(f"from .. import {backend} as _{backend}")
    elif backend != "scalar":
        lines.append("from . import ad as ad")
    for imported in MODULES.get(namespace, "").split():
        lines.append(f"from .graphics import {imported} as {imported}")
    extras = {n: make(namespace) for n, make in table.extras.items() if n in table.names(namespace)}
    parents = {"Event": "jit.device", "PCG32": "random.pcg", "Philox4x32": "random.philox"}
    for name in extras:
        if name in parents:
            # A GPU, where there is one, puts a class of its own between.
            module = f"drjit.{parents[name]}"
            parent = next(c for c in extras[name].__mro__[1:] if c.__module__ == module)
            lines.append(f"from ..{parents[name]} import {parent.__name__} as _{name}")
    scalars = table.SCALARS if namespace == "scalar" else {}
    lines += [f"{name}: TypeAlias = {kind.__name__}" for name, kind in scalars.items()]
    for name in table.SPECS:
        if name not in scalars:
            lines.append(f"_{name}: TypeAlias = {operands(namespace, name)}")
            cls = table.build(namespace, name)
            lines.append(f"class {name}({', '.join(bases(namespace, name))}):")
            lines.append(f"    Value: ClassVar[type[{cls.Value.__name__}]]")
            lines.append(f"    Mask: ClassVar[type[{cls.Mask.__name__}]]")
            for member, relative in relatives(namespace, name).items():
                lines.append(f"    def {member}(self) -> {relative}: ...")
    if namespace != "scalar":
        lines += [f"{alias}: TypeAlias = {name}" for alias, name in table.ALIASES.items()]
    for name, cls in extras.items():
        if name in parents:
            members = METHODS.get(name, lambda: [])() or ["..."]
            lines += [f"class {name}(_{name}):", *(f"    {m}" for m in members)]
        else:
            entry = table.find(namespace, "leaf", cls._dtype).__name__
            cells = type_name("vector", i32, (cls._dims,))
            arguments = f"{cls._tensor_class.__name__}, {entry}, {cells}"
            lines.append(f"class {name}(Textures[{arguments}]): ...")
    return "\n".join(lines)


def method(name: str, function: Any, result: str, before: str = "") -> str:
    """A method that a class gets when its module is imported."""
    head = f"def {name}(self, {before}mask: Any = True) -> {result}:"
    text = inspect.cleandoc(function.__doc__)  # Python 3.13 and later have removed the indentation
    if "\n" in text:
        text = textwrap.indent(f"{text}\n", "        ").lstrip() + "        "
    return f'{head}\n        """{text}"""'


def variates() -> list[str]:
    """The members of the generator PCG32."""
    lines = ["state: Part[UInt64]", "inc: Part[UInt64]"]
    types = {"uint32": "UInt", "uint64": "UInt64"}
    types |= {"float16": "Float16", "float32": "Float", "float64": "Float64"}
    drawn = {n: f for n, f in vars(pcg.Pcg32).items() if n[:5] in ("next_", "prev_")}
    for name, function in drawn.items():
        kind = name.split("_")[1]
        if name.endswith("bounded"):
            continue
        before = "" if kind in types else "dtype: type[T], "
        lines.append(method(name, function, types.get(kind, "T"), before))
    for bits, result in (("32", "UInt"), ("64", "UInt64")):
        name = f"next_uint{bits}_bounded"
        function = getattr(pcg.Pcg32, name)
        lines.append(method(name, function, result, "bound: int, "))
    return lines


def blocks() -> list[str]:
    """The members of the generator Philox4x32."""
    types = {name: type_name("vector", d, (n,)) for name, (d, n) in philox._TYPES.items()}
    lines = [f"{name}: Part[{types[name]}]" for name in ("seed", "counter")]
    for name, (_, kind, _) in philox._METHODS.items():
        lines.append(method(name, getattr(philox.Philox, name), types[kind]))
    return lines


METHODS = {"PCG32": variates, "Philox4x32": blocks}


def swizzles() -> str:
    """The bases of types that have components with names."""
    lines = ["from typing import Generic"]
    for size in (2, 3, 4):
        base = f"Swizzles{size - 1}[V, A2, A3, A4], " if size > 2 else ""
        lines.append(f"class Swizzles{size}({base}Generic[V, A2, A3, A4]):")
        new = "xyzw"[2 if size == 2 else size - 1 : size] if size > 2 else "xy"
        lines += [f'    {c}: Part[V]\n    """The component {c}."""' for c in new]
        for n in (2, 3, 4):
            for letters in product("xyzw"[:size], repeat=n):
                if size == 2 or "xyzw"[size - 1] in letters:
                    lines.append(f"    {''.join(letters)}: Part[A{n}]")
    return "\n".join(lines)


# What promotes to a Python number's element type.
TO_INT = "ToInt[R, Any, Any, Any, Any, Any, Any]"
TO_FLOAT = "ToFloat[R, Any]"


def joined(number: str) -> list[tuple[str, ...]]:
    """The types of two operands, and that to which they promote."""
    found = [("X", "X", "X") if number == "int" else ("PythonNumber[R, Any]", "float", "R")]
    found += [("Joins[B, R]", "B | Sequences", "R"), ("B | Sequences", "Joins[B, R]", "R")]
    found += [("B", "Widens[B, R]", "R"), ("Widens[B, R]", "B", "R")]
    if number == "int":
        found += [(TO_INT, "int", "R"), ("int", TO_INT, "R")]
    found += [(TO_FLOAT, "float", "R"), ("float", TO_FLOAT, "R")]
    found += [("K", "Any", "K"), ("Any", "K", "K")]
    return [*found, ("Untyped", "Any", "Any"), ("Any", "Untyped", "Any")]


def joined_three(number: str) -> list[tuple[str, ...]]:
    """The same for three operands."""
    found = [("X",) * 4 if number == "int" else ("PythonNumber[R, Any]", "float", "float", "R")]

    def at(place: int, one: str, others: str, result: str) -> tuple[str, ...]:
        return (*[one if k == place else others for k in range(3)], result)

    first, second, joins = "B | Sequences", "C | Sequences", "JoinsBoth[B, C, R]"
    found += [(joins, first, second, "R"), (first, joins, second, "R"), (first, second, joins, "R")]
    kinds = [(TO_FLOAT, "float", "R"), ("B", "float | Widens[B, R]", "R")]
    kinds += [("K", "Any", "K"), ("Untyped", "Any", "Any")]
    return found + [at(k, *kind) for kind in kinds for k in range(3)]


def selected() -> list[tuple[str, ...]]:
    """The same for a mask and two operands."""
    found = [("bool", "X", "X", "X")]
    found += [("N", "ABool | bool", "ABool | bool", "N")]
    found += [("B", "WidensWith[B, C, R]", "C", "R"), ("B", "C", "WidensWith[B, C, R]", "R")]
    found += [(TO_INT, "int", "int", "R")]
    found += [(TO_FLOAT, "float", "UpToFloat", "R"), (TO_FLOAT, "UpToFloat", "float", "R")]
    found += [("Condition", *row) for row in joined("float")[1:7]]
    found += [("Any", "K", "Any", "K"), ("Any", "Any", "K", "K"), ("Condition", "P", "P", "P")]
    found += [("KernelValue | Untyped", "Any", "Any", "Any")]
    return [*found, ("Any", "Untyped", "Any", "Any"), ("Any", "Any", "Untyped", "Any")]


def promotion() -> str:
    """The types of functions that promote."""
    functions = {
        "Extremum": ("arg0, arg1", joined("int")),
        "Binary": ("arg0, arg1, /", joined("int")),
        "BinaryFloat": ("arg0, arg1, /", joined("float")),
        "Hypot": ("a, b", joined("float")),
        "Clip": ("value, min, max", joined_three("int")),
        "Clamp": ("value, min, max, /", joined_three("int")),
        "Fma": ("arg0, arg1, arg2", joined_three("int")),
        "Lerp": ("a, b, t", joined_three("float")),
        "Select": ("arg0, arg1, arg2", selected()),
    }
    lines = [
        "from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, overload",
        "from .base import KernelValue",
        'B = TypeVar("B")',
        'C = TypeVar("C")',
        'K = TypeVar("K", bound=KernelValue)',
        'X = TypeVar("X", bound=float)',
        'N = TypeVar("N", bound=Masks[Any, Any])',
        "Condition: TypeAlias = bool | Masks[Any, Any] | Integers[Any, Any] | Sequences",
        "class Structure(Protocol):",
        "    DRJIT_STRUCT: Any",
        "class DataClass(Protocol):",
        "    __dataclass_fields__: ClassVar[dict[str, Any]]",
        "PyTree: TypeAlias = list[Any] | tuple[Any, ...] | dict[Any, Any] | Structure | DataClass",
        'P = TypeVar("P", bound=PyTree)',
    ]
    for name, (parameters, overloads) in functions.items():
        lines += [f"class {name}(Protocol):", "    __name__: str"]
        for *operands, result in overloads:
            given = iter(operands)
            shown = [p if p == "/" else f"{p}: {next(given)}" for p in parameters.split(", ")]
            lines.append("    @overload")
            lines.append(f"    def __call__(self, {', '.join(shown)}) -> {result}: ...")
    return "\n".join(lines)


def complete(text: str) -> str:
    """A stub with its first lines, which import what the text uses of the kinds."""
    here = re.findall(r"^(?:class )?(\w+)(?:\(| = TypeVar)", text, re.MULTILINE)
    used = sorted(set(KINDS).intersection(re.findall(r"\w+", text)).difference(here))
    imported = f"from ..array.kinds import {', '.join(used)}\n" if used else ""
    return f"{NOTE}\n{imported}{text}\n"


def stubs() -> dict[Path, str]:
    """The files and their texts."""
    texts = {
        "array/swizzles": swizzles(),
        "array/promotion": promotion(),
        "scalar/__init__": types("scalar"),
    }
    for backend in ("llvm", "cuda"):
        texts[f"{backend}/__init__"] = types(backend)
        texts[f"{backend}/ad"] = types(f"{backend}.ad")
    # Checkers cannot know whether there is a GPU. Both backends have the same types.
    texts["auto/__init__"] = "from ..llvm import *\nfrom . import ad as ad"
    texts["auto/ad"] = "from ..llvm.ad import *"
    found = {m: complete(text) for m, text in texts.items()}
    found["__init__"] = f"{NOTE}\n{package()}\n"
    return {PACKAGE / f"{m}.pyi": text for m, text in found.items()}


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)

"""Writes the pages of the reference, one for each topic, from the tables of public names. Sphinx
then fills in signatures and docstrings.
"""

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import drjit as dr
from drjit import _names

PAGES = {
    "creation": ("Creating arrays", "function.data.create random"),
    "math": (
        "Mathematics",
        "function.math.arithmetic function.math.transcendental function.math.complex "
        "function.math.softmax function.math.interpolate "
        "function.math.constants",
    ),
    "geometry": (
        "Vectors, matrices, transformations",
        "function.math.vector function.math.linalg function.ad.decompositions "
        "function.math.matmul function.math.einsum function.math.color",
    ),
    "memory": (
        "Gathers, scatters, local memory",
        "function.data.memory flow.region.local",
    ),
    "shape": (
        "Shapes and order",
        "function.data.shape function.data.layout function.data.reorder function.data.sorting",
    ),
    "reductions": ("Reductions and scans", "function.data.reduce function.data.scan"),
    "derivatives": (
        "Derivatives",
        "function.ad.grad function.ad.propagate function.ad.custom function.ad.jacobian "
        "function.ad.check_grad",
    ),
    "control-flow": (
        "Control flow",
        "flow.syntax.decorator flow.loop.while_loop flow.call.branch flow.call.switch "
        "flow.call.instance",
    ),
    "evaluation": (
        "Evaluation, freezing, kernels",
        "function.evaluation flow.freeze.frozen function.inspect.kernels jit.cpu.runtime "
        "function.exchange.text_kernel function.inspect.backend",
    ),
    "exchange": (
        "Exchange with other packages, and files",
        "function.exchange.wrap flow.export.export function.exchange.migrate "
        "function.exchange.save",
    ),
    "signal": ("Filters and resampling", "function.signal.resample"),
    "inspection": (
        "Printing, comparing, profiling",
        "function.inspect.format function.inspect.picture function.inspect.asserts "
        "function.inspect.whos function.inspect.profiling reporting.report",
    ),
    "types": (
        "Properties of types",
        "function.inspect.traits array.annotations function.signature texture",
    ),
}
"""The functions and classes of `drjit` by page: title, and the modules that define them."""

MODULES = {
    "nn": ("Networks: drjit.nn", "drjit.nn"),
    "opt": ("Optimizers: drjit.opt", "drjit.opt"),
    "random": ("Random numbers: drjit.random", "drjit.random"),
    "hashgrid": ("Hash grids: drjit.hashgrid", "drjit.hashgrid"),
    "distributed": ("Several processes: drjit.distributed", "drjit.distributed"),
    "dda": ("Lines through grids: drjit.dda", "drjit.dda"),
}

FAMILIES = {
    "arrays": (
        "One-dimensional arrays",
        "Float",
        "An array of any number of entries, the lanes of a program. It is made from numbers, a "
        "sequence, an array of another type, or an array of NumPy, PyTorch, JAX or CuPy. A size of "
        "1 is broadcast to that of other operands.",
    ),
    "vectors": (
        "Nested arrays",
        "Array3f",
        "An array of a fixed number of components (any number for ArrayXf), each of which is an "
        "array of lanes, or an array again. Arithmetic is by component; a number, or an array of "
        "lanes, is broadcast to all components. Components are x, y, z, w or v[k], several of them "
        "v.zyx, which may also be assigned to.",
    ),
    "complex": (
        "Complex numbers",
        "Complex2f",
        "Two components, `real` and `imag`, with products, quotients, powers and elementary "
        "functions of their own. One is made from a real and an imaginary part, or from a Python "
        "number. `dr.abs` is the modulus.",
    ),
    "quaternions": (
        "Quaternions",
        "Quaternion4f",
        "Four components, the real part last: Quaternion4f(x, y, z, w) is xi + yj + zk + w, and "
        "`@` and `*` are Hamilton's product. `dr.rotate` makes those of rotations, in radians.",
    ),
    "matrices": (
        "Matrices",
        "Matrix3f",
        "A square matrix, made from rows, from a number (that multiple of the identity), or from "
        "a tensor of the same shape. `@` multiplies it by a matrix or a vector, `*` by a number or "
        "a matrix; `m[i, j]` is an entry for all lanes.",
    ),
    "tensors": (
        "Tensors",
        "TensorXf",
        "An array of any shape, stored row by row in a one-dimensional array. Broadcasting, "
        "indexing and axes are those of NumPy.",
    ),
    "textures": (
        "Textures",
        "Texture2f",
        "One to three dimensions of texels with any number of channels, and filtered look-ups "
        "with derivatives.",
    ),
    "generators": (
        "Random number generators and events",
        "PCG32 Philox4x32 Event",
        "Generators within kernels: each lane has a stream of its own. `dr.rng` makes whole "
        "arrays and tensors.",
    ),
}
"""Pages on kinds of types: title, the types whose members are listed, and what they are."""

KINDS = {
    "vectors": r"Array[\dX]",
    "complex": "Complex",
    "quaternions": "Quaternion",
    "matrices": "Matrix",
    "tensors": "Tensor",
    "textures": "Texture",
    "generators": "PCG32|Philox|Event",
    "arrays": "",
}
"""What the names of a kind of types begin with; the first that fits decides."""


def directive(owner: str, name: str) -> list[str]:
    """Returns the lines that have a name documented."""
    value = inspect.getattr_static(importlib.import_module(owner), name, None)
    if value is None:
        value = getattr(importlib.import_module(owner), name)
    if type(value).__module__ == "typing":
        return [f".. py:data:: {owner}.{name}", "", "   For annotations.", ""]
    if inspect.isclass(value):
        return [f".. autoclass:: {owner}.{name}", "   :members:", "   :member-order: bysource", ""]
    if callable(value):
        return [f".. autofunction:: {owner}.{name}", ""]
    return [f".. autodata:: {owner}.{name}", "   :no-value:", ""]


def page(title: str, lines: list[str]) -> str:
    return "\n".join([title, "=" * len(title), "", *lines, ""])


def pages() -> dict[str, str]:
    """Returns the texts of all pages by file name."""
    found: dict[str, str] = {}
    for name, (title, modules) in PAGES.items():
        lines = []
        for module in modules.split():
            for public in _names._NAMES[module].split():
                lines += directive("drjit", public)
        found[name] = page(title, lines)
    own = [n for n in sorted(vars(dr)) if not n.startswith("_") and n not in _names.MODULES]
    own = [n for n in own if not inspect.ismodule(getattr(dr, n))]
    found["flags"] = page(
        "Flags, enumerations, logging", [x for n in own for x in directive("drjit", n)]
    )
    for name, (title, module) in MODULES.items():
        names = importlib.import_module(module).__all__
        lines = [x for n in names for x in directive(module, n)]
        found[name] = page(title, [f".. automodule:: {module}", "   :no-members:", "", *lines])
    for name, (title, examples, intro) in FAMILIES.items():
        found[f"type-{name}"] = page(title, family(name, examples.split(), intro))
    return found


def kind(name: str) -> str:
    return next(kind for kind, start in KINDS.items() if re.match(start, name))


def family(family: str, shown: list[str], intro: str) -> list[str]:
    """Returns the lines about a kind of types."""
    names = [n for n in dir(dr.llvm.ad) if not n.startswith("_") and kind(n) == family]
    listed = ", ".join(f"`{n}`" for n in names)
    lines = [intro, "", f"Types: {listed}, in `drjit.llvm.ad` and in the other namespaces.", ""]
    for cls in [getattr(dr.llvm.ad, n) for n in shown]:
        lines += [f".. autoclass:: drjit.llvm.ad.{cls.__name__}", "   :no-members:", ""]
        lines += members(cls)
    return lines


def members(cls: Any) -> list[str]:
    """Returns the lines about the documented members of a class."""
    lines = []
    for member in dir(cls):
        value = inspect.getattr_static(cls, member)
        doc = inspect.getdoc(getattr(cls, member, None)) or inspect.getdoc(value)
        hidden = member.startswith("_") or isinstance(value, type) or _is_swizzle(member)
        hidden |= not hasattr(cls, member)  # see `array.foreign_names`
        if hidden or not doc or doc.startswith("The component"):
            continue
        kind = "autoattribute" if not callable(value) else "automethod"
        lines += [f"   .. {kind}:: {member}", ""]
    return lines


def _is_swizzle(name: str) -> bool:
    return re.fullmatch("[xyzwrgba]{2,4}", name) is not None


def write(app: Any) -> None:
    """Writes the pages whose text has changed, so that only those are built again."""
    folder = Path(app.srcdir) / "reference"
    texts = pages()
    order = [*PAGES, "flags", *MODULES, *(f"type-{n}" for n in FAMILIES)]
    toctree = [".. toctree::", "   :maxdepth: 1", "", *(f"   {n}" for n in order)]
    intro = "Every public name, with what its docstring says. The examples are run by the tests."
    folder.mkdir(exist_ok=True)
    texts["index"] = page("Reference", [intro, "", *toctree])
    for name, text in texts.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

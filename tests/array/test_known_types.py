"""How much of the interface type checkers know: what functions and methods return and take is
`Any` where that is the truth, and nowhere else.
"""

import importlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest

import drjit as dr

ROOT = Path(__file__).parents[2]
MODULES = ["", "nn", "opt", "random", "texture", "hashgrid", "dda", "detail", "interop"]
MODULES += ["distributed"]
SPECIAL = ("__call__", "__getitem__")


# What returns something of which no more can be said, and why.
RESULTS = {
    "dr.AnyArray": "an alias for annotations",
    "dr.CallablePT.__call__": "what a function returns",
    "dr.CallableSelfPT.__call__": "what a function returns",
    "dr.CustomOp.eval": "what a subclass returns",
    "dr.CustomOp.grad_in": "of the type of an argument that is named by a string",
    "dr.CustomOp.grad_out": "of the type that `eval` returns",
    "dr.CustomOpT.eval": "what a subclass returns",
    "dr.Local.__getitem__": "of the type of the entries, which reveal_type does not have here",
    "dr.Local.read": "of the type of the entries, which reveal_type does not have here",
    "dr.eigh": "with a vector whose type depends on that of the matrix",
    "dr.einsum": "of the type that the operands have in common",
    "dr.hessian": "the type depends on those of the arguments and on options",
    "dr.jacobian": "the type depends on those of the arguments and on options",
    "dr.logsumexp": "the type depends on the axes",
    "dr.svd": "with a vector whose type depends on that of the matrix",
    "dr.unique": "a tuple, with some options",
    "dr.kernel_history": "dictionaries with values of several types",
    "dr.replace_shape_t": "the type depends on a shape",
    "nn.Cast.__call__": "the type depends on an attribute",
    "nn.HashEncodingLayer.__call__": "the type depends on that of the parameters",
    "nn.Sequential.__call__": "the type depends on the layers",
    "nn.Module.__call__": "what a subclass returns",
    "nn.Module.__getitem__": "a tensor or a view, of any type",
    "nn.Module.state_dict": "values of several types",
    "opt.GradScaler.state_dict": "values of several types",
    "opt.Optimizer.__getitem__": "parameters of several types",
    "opt.Optimizer.items": "parameters of several types",
    "opt.Optimizer.state_dict": "values of several types",
    "opt.Optimizer.values": "parameters of several types",
    "hashgrid.HashEncoding.__call__": "the type depends on that of the parameters",
    "hashgrid.HashEncoding.hash": "the type depends on that of the parameters",
    "hashgrid.HashEncoding.indexing_function": "the type depends on that of the parameters",
    "hashgrid.HashGridEncoding.hash": "the type depends on that of the parameters",
    "hashgrid.PermutoEncoding.hash": "the type depends on that of the parameters",
    "nn.HashGridEncoding.hash": "the type depends on that of the parameters",
    "nn.PermutoEncoding.hash": "the type depends on that of the parameters",
    "dr.InstanceArray.__getitem__": "an object of any class",
    "detail.FrozenFunction.__call__": "what the function returns",
    "detail.FrozenFunction.call": "what the function returns",
    "detail.VariableTracker.rebuild": "what was written, of any type",
    "detail.VariableTracker.restore": "what was written, of any type",
    "detail.import_tensor": "the type depends on the element type of another library's array",
    "detail.trace_func": "what sys.settrace takes",
    "distributed.DataParallel.__getitem__": "parameters of several types",
    "distributed.DataParallel.state_dict": "values of several types",
}
# Parameters about which no more can be said.
PARAMETERS = {
    "dr.interp": {"xp", "fp"},
    "dr.logsumexp": {"value"},
    "dr.solve": {"a"},
    "dr.unique": {"value"},
    "dr.CallableSelfPT.__call__": {"arg0"},
    "nn.Module.__call__": {"arg"},
    "detail.FrozenFunction.call": {"tree", "names"},
}


def public(module: str) -> list[str]:
    """The functions and methods of a module, as a program writes them."""
    found = importlib.import_module(f"drjit.{module}".rstrip("."))
    prefix = f"{module}." if module else "dr."
    names = []
    for name in sorted(found.__all__ if hasattr(found, "__all__") else dir(found)):
        value = getattr(found, name)
        origin = str(getattr(value, "__module__", ""))
        if name[0] == "_" or not callable(value) or not origin.startswith("drjit"):
            continue
        if not inspect.isclass(value):
            names.append(prefix + name)
            continue
        members = vars(value).items()
        shown = [m for m, v in members if callable(v) and (m[0] != "_" or m in SPECIAL)]
        names += [f"{prefix}{name}.{m}" for m in shown if value is not dr.ArrayBase]
    return names


def parts(text: str) -> list[str]:
    """What commas separate outside of all brackets."""
    found, depth, start = [], 0, 0
    for k, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append(text[start:k].strip())
            start = k + 1
    return [*found, text[start:].strip()]


def signatures(text: str) -> list[tuple[list[str], str]]:
    """The parameters and results that a type names, one pair for each overload."""
    inner = re.fullmatch(r"Overload\[(.*)\]", text)
    found = []
    for one in parts(inner[1]) if inner else [text]:
        depths = accumulate((c == "(") - (c == ")") for c in one)
        end = next((k for k, depth in enumerate(depths) if depth == 0), 0)
        if one[:1] == "(" and one[end + 1 :].startswith(" -> "):
            found.append((parts(one[1:end]), one[end + 5 :]))
    return found


@pytest.fixture(scope="module")
def types(tmp_path_factory) -> dict[str, list[tuple[list[str], str]]]:
    """The signatures of the interface, according to pyright."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    names = [name for module in MODULES for name in public(module)]
    file = tmp_path_factory.mktemp("types") / "names.py"
    lines = ["import drjit as dr", f"from drjit import {', '.join(filter(None, MODULES))}"]
    for name in names:
        lines += [f"reveal_type({name})", f"reveal_type({name}.__call__)"]
    file.write_text("\n".join(lines))
    made = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", str(file)],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    shown = {}
    for report in json.loads(made.stdout)["generalDiagnostics"]:
        said = re.fullmatch(r'Type of "(.*?)" is "(.*)"', report["message"], re.DOTALL)
        if said:
            shown[said[1]] = said[2]
    assert len(shown) > 500
    return {n: signatures(shown[n]) or signatures(shown.get(f"{n}.__call__", "")) for n in names}


def is_unknown(text: str) -> bool:
    """Whether a type has parts of which nothing is known, other than the types of NumPy's arrays
    and the classes of arrays in general."""
    text = text.replace("ndarray[tuple[Any, ...], dtype[Any]]", "NDArray")
    return re.search(r"\b(Any|Unknown)\b", text) is not None


def unknown_parameters(found: list[tuple[list[str], str]]) -> set[str]:
    """The parameters that take anything, in every overload that has them."""
    kinds: dict[str, set[str]] = {}
    for parameters, _ in found:
        for parameter in parameters:
            name, _, kind = parameter.partition(":")
            kinds.setdefault(name, set()).add(kind.partition("=")[0].strip())
    anything = {"Any", "Unknown", "Any | None", "type[Any]"}
    return {n for n, k in kinds.items() if k <= anything and n[0] != "*"}


def test_results_are_known(types):
    assert [n for n, found in types.items() if not found] == []
    unknown = {n for n, found in types.items() if all(is_unknown(r) for _, r in found)}
    assert unknown == RESULTS.keys()


def test_parameters_are_known(types):
    unknown = {n: names for n, found in types.items() if (names := unknown_parameters(found))}
    assert unknown == PARAMETERS

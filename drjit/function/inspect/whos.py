"""Labels of traced values, and lists and drawings of all that are live, of both graphs: of traced
values (`whos`, `graphviz`) and of derivatives (`whos_ad`, `graphviz_ad`)."""

import sys
from typing import Any

from ...ad import graph
from ...array import pytree, signatures
from ...jit import collector
from ...jit.device import Buffer, Device, current, devices
from ...jit.ir import label
from ...jit.ir.node import Node, shared
from ...jit.trace import access
from . import drawing

# ---- Labels


def set_label(*args: Any, **kwargs: Any) -> None:
    """Names values for `whos`, `graphviz` and the kernel texts that people see.

    `set_label(value, "name")` names one value, `set_label(a=a, b=b)` several. Entries of PyTrees
    and components of nested arrays get names such as `name_0`, `name_key`.

    >>> a = Array3f(1, 2, 3)
    >>> dr.set_label(a, "position")
    >>> a.x.label
    'position_0'
    """
    if kwargs and not args:
        for name, value in kwargs.items():
            _label(value, name)
    elif len(args) == 2 and not kwargs and isinstance(args[1], str):
        _label(args[0], args[1])
    elif args or kwargs:
        raise TypeError(
            "dr.set_label(): incompatible function arguments (expected a value and its name, or "
            "only keyword arguments name=value)"
        )


def _label(value: Any, name: str) -> None:
    kind = getattr(type(value), "_kind", None)
    if kind == "leaf":
        value.label = name
    elif kind == "tensor":
        _label(value._array, name)
    elif kind == "nested":
        for i, component in enumerate(value._components):
            _label(component, f"{name}_{i}")
    elif kind is None:
        for way, child in pytree.children(value) or ():
            _label(child, f"{name}_{way.strip('[].').strip(chr(39))}")


# ---- Live values

_FIELDS = "op", "dtype", "size", "deps", "data", "serial"


def live_nodes() -> list[Node]:
    """Returns all traced values that are still referenced, in order of creation."""
    nodes = [n for n in collector.objects_of(Node) if n is not access.ACTIVE]
    # A traceback may keep one alive in whose making Ctrl-C came.
    nodes = [n for n in nodes if all(hasattr(n, name) for name in _FIELDS)]
    used = {d for n in nodes for d in n.deps}
    nodes = [n for n in nodes if n in used or n not in shared]
    return sorted(nodes, key=lambda n: n.serial)


def _status(n: Node) -> str:
    if n.is_literal:
        return "literal"
    return "evaluated" if n.is_evaluated else "pending"


def _backends(nodes: list[Node]) -> dict[Node, str]:
    """Returns the names of the backends to which values belong, given in the order of creation: of
    their data, or else of what they are computed from. Constants belong to the current one."""
    found: dict[Node, str] = {}
    for n in nodes:
        place = n.data.device if isinstance(n.data, Buffer) else n.data
        if isinstance(place, Device):
            found[n] = place.backend.name
        else:
            found[n] = next((found[d] for d in n.deps if d in found), "")
    return {n: name or current().backend.name for n, name in found.items()}


def _size_text(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} GiB"


def whos(as_string: bool = False) -> str | None:
    """Prints (or returns as a string) all live traced values, and totals for memory and kernels.

    `Refs` counts the arrays and operations that refer to a value; `Storage` is the memory of
    evaluated values.

    >>> a = dr.arange(Float, 1000)
    >>> dr.set_label(a, "position")
    >>> "position" in dr.whos(as_string=True)
    True
    """
    rule = "  " + "=" * 76
    lines = ["", "  ID       Type      Status          Refs        Size     Storage   Label", rule]
    stored = waiting = 0
    nodes = live_nodes()
    backends = _backends(nodes)
    counts = [*map(sys.getrefcount, nodes)]
    for n, count in zip(nodes, counts, strict=True):
        nbytes = n.size * n.dtype.itemsize
        stored += nbytes if n.is_evaluated else 0
        waiting += 0 if n.is_evaluated or n.is_literal else nbytes
        refs = count - 3  # the list, the table, and the argument of the call
        storage = _size_text(nbytes) if n.is_evaluated else ""
        lines.append(
            f"  {n.serial:<8} {backends[n]} {n.dtype.code:<4} {_status(n):<12}{refs:8}{n.size:12}"
            f"{storage:>12}   {label.labels.get(n, '')}".rstrip()
        )
    if not nodes:
        lines.append(f"{'-- no values --':^80}".rstrip())
    found = [k for d in devices() for k in d.kernels() if k.launches]
    compiled = sum(k.tier == "compiled" for k in found)
    stored_text = _size_text(stored)
    lines += [
        rule,
        "",
        "  Compiler",
        "  ========",
        f"   - Values   : {len(nodes)}, {stored_text} evaluated, {_size_text(waiting)} pending.",
        f"   - Kernels  : {len(found)}, {compiled} of them compiled.",
        f"   - Launches : {sum(k.launches for k in found)}.",
        "",
        "  Memory",
        "  ======",
    ]
    for d in devices():
        used = {k: _size_text(v) for k, v in d.memory_statistics().items()}
        lines += [
            f"   - {d.backend.name:<9}: {used['in_use']} in use, at most {used['peak']}; "
            f"{used['pooled']} to be used again.",
        ]
    lines.append("")
    return drawing.printed(lines, as_string)


_COLORS = {
    "literal": ("Constant", "gray90"),
    "labeled": ("Labeled", "wheat"),
    "evaluated": ("Evaluated", "lightblue2"),
    "effect": ("Side effect", "salmon"),
    "gradient": ("Gradient present", "yellowgreen"),
    "input": ("Input", "salmon"),
    "output": ("Output", "lightblue2"),
}


@signatures.drawn
def graphviz(as_string: bool = False) -> drawing.Drawing | str:
    """Returns the graph of all live traced values, as text in the DOT language or as an object that
    notebooks display as a picture, without any other package. `view()` of the object opens the
    picture in a browser, `save("graph.svg")` writes it, and `source` is the text.

    >>> a = dr.sin(dr.arange(Float, 1000))
    >>> print(dr.graphviz(as_string=True))
    digraph {
    ...
    >>> dr.graphviz().svg[:4]
    '<svg'
    """
    nodes = []
    live = live_nodes()
    backends = _backends(live)
    for n in live:
        name = label.labels.get(n)
        kind = "effect" if n.op.effect else _status(n)
        title = f"Literal: {n.data:.6g}" if n.is_literal else n.op.name
        rows = [drawing.label_row(name)] if name is not None else []
        kinds = [f"Type: {backends[n]} {n.dtype.code}", f"Size: {n.size}"]
        rows += [[title], kinds, [f"r{n.serial}"]]
        nodes.append((n, kind if name is None else "labeled", rows))
    return drawing.draw_graph(nodes, _COLORS, True, as_string)


# ---- The derivative graph


def _title(v: graph.Var) -> str:
    return v.rule.name if v.rule is not None else ""


def whos_ad(as_string: bool = False) -> str | None:
    """Prints (or returns as a string) all variables of the derivative graph.

    `Refs` counts the arrays and operations that refer to a variable. In debug mode, the line that
    recorded it is also shown.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> x.label = "position"
    >>> "position" in dr.whos_ad(as_string=True)
    True
    """
    rule = "  " + "=" * 57
    lines = ["", "  ID        Type        Size     Refs    Label", rule]
    taped = {id(v) for tape in graph.tapes() for v in tape}
    variables = graph.live_variables()
    counts = [*map(sys.getrefcount, variables)]
    for v, count in zip(variables, counts, strict=True):
        refs = count - 2 - (id(v) in taped)  # the lists, and the argument of the call
        name = (graph.labels.get(v) or _title(v)) + graph.location_note(v)
        lines.append(f"  {v.serial:<9} {v.dtype.code:<8}{v.size:8}{refs:9}    {name}".rstrip())
    return drawing.printed([*lines, rule, ""], as_string)


def _kind(v: graph.Var, used: set[graph.Var]) -> str:
    if v in graph.labels:
        return "labeled"
    if v.grad is not None:
        return "gradient"
    if v.rule is None:
        return "input"
    return "" if v in used else "output"


@signatures.drawn
def graphviz_ad(as_string: bool = False) -> drawing.Drawing | str:
    """Returns the derivative graph, as text in the DOT language or as an object that notebooks
    display as a picture, like that of `dr.graphviz`.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> y = dr.sin(x)
    >>> print(dr.graphviz_ad(as_string=True))
    digraph {
    ...
    """
    found = graph.live_variables()
    used = {d for v in found for d in v.deps if d is not None}
    nodes = []
    for v in found:
        title = (
            drawing.label_row(graph.labels[v]) if v in graph.labels else [_title(v) or "(unnamed)"]
        )
        rows = [title, [f"Type: {v.dtype.code}", f"Size: {v.size}"], [f"a{v.serial}"]]
        nodes.append((v, _kind(v, used), rows))
    return drawing.draw_graph(nodes, _COLORS, False, as_string)

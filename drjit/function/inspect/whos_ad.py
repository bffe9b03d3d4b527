"""Inspection of the derivative graph: lists and graphs of live variables."""

import sys
from typing import Literal, overload

from ...ad.graph import Var, labels, living, tapes, where
from . import drawing


def _title(v: Var) -> str:
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
    taped = {id(v) for tape in tapes() for v in tape}
    variables = living()
    counts = [*map(sys.getrefcount, variables)]
    for v, count in zip(variables, counts, strict=True):
        refs = count - 2 - (id(v) in taped)  # the lists, and the argument of the call
        label = labels.get(v) or _title(v)
        lines.append(
            f"  {v.serial:<9} {v.dtype.code:<8}{v.size:8}{refs:9}    {label}{where(v)}".rstrip()
        )
    return drawing.printed([*lines, rule, ""], as_string)


_COLORS = {
    "labeled": ("Labeled", "wheat"),
    "gradient": ("Gradient present", "yellowgreen"),
    "input": ("Input", "salmon"),
    "output": ("Output", "lightblue2"),
}


def _kind(v: Var, used: set[Var]) -> str:
    if v in labels:
        return "labeled"
    if v.grad is not None:
        return "gradient"
    if v.rule is None:
        return "input"
    return "" if v in used else "output"


@overload
def graphviz_ad(as_string: Literal[False] = False) -> drawing.Drawing: ...
@overload
def graphviz_ad(as_string: Literal[True]) -> str: ...
@overload
def graphviz_ad(as_string: bool) -> drawing.Drawing | str: ...
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
    found = living()
    used = {d for v in found for d in v.deps if d is not None}
    nodes = []
    for v in found:
        title = drawing.label_row(labels[v]) if v in labels else [_title(v) or "(unnamed)"]
        rows = [title, [f"Type: {v.dtype.code}", f"Size: {v.size}"], [f"a{v.serial}"]]
        nodes.append((v, _kind(v, used), rows))
    return drawing.picture(nodes, _COLORS, False, as_string)

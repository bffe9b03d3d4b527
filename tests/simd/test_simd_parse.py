"""The parser of kernel texts gives what Python's own does."""

import ast
import gc
import sys
import threading
from pathlib import Path

import pytest

from drjit.jit.parsing import syntax_tree
from drjit.jit.target.simd import KernelError, parse
from drjit.jit.target.simd.kernel import module_text

KERNEL = """def kernel(i, p):
    '''What it does: v = 1'''
    v0 = active(i)
    x0 = load(f32, p[1], i)  # [a label]: x = y
    c0 = literal(f32, p[12])  # while any_lane(v0):
    x1 = load(f32, p[2], i)  # if v0 < 1:

    v1 = x0 * c0
    v2 = v1 < x0
    v3 = v1 <= 2.5
    v4 = ~v2
    v5 = -v1
    v6 = fma(v1, 3, v5)
    v7 = fma(v1, -3, f32(0))
    v8, v9 = sincos(v6)
    v10_0, v10_1 = gather_packet(f32, p[3], u32(v1), v0, 2)
    v11 = (v1 + v2) * v3
    v12 = f32(True)
    v13 = v12
    v14 = 0
    v15 = shl(v14, 07 if x else 1) if y else v1
    # a comment
    # while it is long:
    v16, v17 = v17, v16
    while any_lane(v4):
        v18 = select(v4, v1, v5)
        if any_lane(v4 & v2):
            v19 = v18 ^ v4
            scatter_reduce(f32, 'add, more', 'direct', p[4], v1, v2, v4)
        v4 = going(p[0], v4)
    if any_lane(v4):
        v20 = body0(i, p, 0, 3, v1)
        a = 1; b = 2
    store(f32, p[5], i, v20)
def body0(i, p, s: int, n: int, a0: f32):
    v0 = in_bounds(p[0], s + 1, a0, p[n + 1], a0)
    v1 = p[n]
    return v0, v1
def body1(i, p):
    return v0
def body2(i, p):
    lane(i)
    return
""".replace("07 if", "7 if")


def dumps(nodes: list[ast.stmt]) -> list[str]:
    """The trees as text, which does not tell names that are assigned from those that are read."""
    found = [ast.dump(s).replace("ctx=Store()", "ctx=Load()") for s in nodes]
    return [s.replace(", type_params=[]", "") for s in found]  # of Python 3.12 alone


def same(text: str) -> None:
    """Checks the tree of a text."""
    assert dumps([*parse.functions(text)]) == dumps(ast.parse(text).body)


def test_forms_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    same(KERNEL)
    for line in KERNEL.split("\n")[2:-10]:
        if line.strip() and not line.startswith("     ") and not line.endswith(":"):
            same(f"def kernel(i, p):\n{line}\n    return x\n")
    counted: list[str] = []
    plain_parse = ast.parse

    def counting(text, *more, **named):
        counted.append(text)
        return plain_parse(text, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(ast, "parse", counting)
        parse.functions(KERNEL)
    unusual = (
        "def ", "'''", "# ", "2.5", "-3", "u32(v1)", "(v1 +", "True", " if ", "v4 & v2", "'add",
        "; ", "s + ", "p[n]", "return", "v17, v16",
    )  # fmt: skip
    assert KERNEL not in counted
    assert [t for t in counted if not any(part in t for part in unusual)] == []


@pytest.mark.parametrize("text", [
    "def kernel(i, p):\n    x = load(f32,\n        p[1], i)\n    store(f32, p[2], i, x)\n",
    'def kernel(i, p):\n    """Two\n    lines."""\n    store(f32, p[2], i, x)\n',
    "def kernel(i, p):\n  x = lane(i)\n  if any_lane(x):\n     y = x\n",
    "def kernel(i, p):\n    x = \\\n    lane(i)\n",
    "def kernel(i, p):\n    if any_lane(x):\n        y = 1\n    else:\n        y = 2\n",
    "def kernel(i, p): return 1\n",
    "def kernel(i, p):  # the first:\n    x = lane(i)\n",
    "def kernel(i, p):\n    if any_lane(x): y = 1  # so:\n    z = 2\n",
    "def kernel(i, p):\n    x = lane(i)\n    for x in y:\n        z = 2\n",
    "import x\n@f\ndef kernel(i, p):\n    pass\n\n\n",
])  # fmt: skip
def test_unusual_texts(text: str) -> None:
    found = [s for s in ast.parse(text).body if type(s) is ast.FunctionDef]
    assert [ast.unparse(s) for s in parse.functions(text)] == [ast.unparse(s) for s in found]


@pytest.mark.parametrize("text", [
    "def kernel(i, p):\n    x = f(\n    y = 2\n",
    "def kernel(i, p):\n",
    "def kernel(i, p):\n    if any_lane(x):\n    y = 2\n",
    "def kernel(i, p):\n    x = a b\n",
    "def kernel(i, p):\n    x = 01\n",
    "def kernel(i, p):\n    x = lane(i)\n        y = lane(i)\n",
    "def kernel(i, p):\n    x = lane(i))\n",
    "def kernel(i, p):\n    x = (lane(i)\n",
    "def kernel(i, p):\n    x, = f(a,, b)\n",
    "def kernel(i, p):\n    if = f(a)\n",
    "def kernel(i, p):\n    x = \n",
    "def kernel(i, p): return 1\n    x = lane(i)\n",
])  # fmt: skip
def test_texts_that_are_no_python(text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(text)
    with pytest.raises(KernelError, match="line "):
        parse.functions(text)


def test_lines_are_counted() -> None:
    text = "def kernel(i, p):\n    x = lane(i)\n\n    y = f32(1.5)\n    z = nothing(x)\n"
    assert [s.lineno for s in parse.functions(text)[0].body] == [2, 4, 5]
    with pytest.raises(KernelError, match=r"line 5: z = nothing\(x\)"):
        module_text(text, "k", 8, False)


class Destroyed:
    """An object in a reference cycle, whose end takes a while."""

    def __init__(self):
        self.myself = self

    def __del__(self):
        for _ in range(200):
            pass


def test_threads_make_syntax_trees_at_the_same_time():
    """Also when the garbage collector runs a program's code, and so other threads, in between."""
    text, failed = Path(ast.__file__).read_text(), []

    def run():
        for _ in range(15):
            cycles = [Destroyed() for _ in range(20)]
            del cycles
            try:
                syntax_tree(text)
            except SystemError as error:
                failed.append(error)

    interval, *threshold = sys.getswitchinterval(), *gc.get_threshold()
    sys.setswitchinterval(1e-4)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=run) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert not failed and gc.isenabled()

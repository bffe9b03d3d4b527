"""The launcher's code as Python functions: one can step through it with a debugger, in as many
threads as one likes, on a control block as the compiled code has it.

>>> launcher = functions()
>>> control = control_of(1, 0, 1000)
>>> ticket = launcher.post(ctypes.addressof(control), 0, 0, 100, 10, 1, 0, 1)
>>> launcher.claimable(ctypes.addressof(control))
10
"""

import ast
import copy
import ctypes
import threading
from types import FunctionType, SimpleNamespace
from typing import Any

from drjit.jit.native import language, launcher, objects

_WIDE = (1 << 64) - 1
_C_TYPES = {"i64": ctypes.c_int64, "i32": ctypes.c_int, "ptr": ctypes.c_void_p, "void": None}
_lock = threading.Lock()


def functions() -> SimpleNamespace:
    """Returns all functions of the launcher. They take and return addresses and numbers."""
    scope: dict[str, Any] = {**vars(launcher), **_OPERATIONS}
    for function in vars(launcher).values():
        if isinstance(function, FunctionType) and function.__module__ == launcher.__name__:
            definition, home = language.definition(function)
            own = copy.deepcopy(definition)
            module = ast.Module([_Places(definition, home).visit(own)], [])
            exec(compile(ast.fix_missing_locations(module), str(launcher.__file__), "exec"), scope)
    return SimpleNamespace(**scope)


class _Places(ast.NodeTransformer):
    """Writes fields as their addresses: `c.stop` as `word(c + 72)`."""

    def __init__(self, definition: ast.FunctionDef, home: Any) -> None:
        self.types = language.Translation(definition, home, {})

    def address(self, e: Any) -> ast.expr:
        """Returns the address of a field."""
        return self.sum(self.visit(e.value), objects.offset(self.types.of(e.value), e.attr))

    def sum(self, x: ast.expr, y: ast.expr | int) -> ast.expr:
        right = y if isinstance(y, ast.expr) else ast.Constant(y)
        return ast.BinOp(x, ast.Add(), right)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        self.types.note(node.arg, self.types.annotated(node.annotation))
        return ast.arg(node.arg)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if self.types.meaning(node) is not None:
            return node
        return ast.Call(ast.Name("word", ast.Load()), [self.address(node)], [])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        of: Any = node.value
        size, length = objects.array_size(self.types.of(of.value), of.attr)
        index = ast.BinOp(self.visit(node.slice), ast.BitAnd(), ast.Constant(length - 1))
        place = ast.BinOp(index, ast.Mult(), ast.Constant(size))
        return self.sum(self.address(of), place)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        assert isinstance(node.target, ast.Name) and node.value is not None
        self.types.note(node.target.id, self.types.annotated(node.annotation))
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            self.types.note(target.id, self.types.structure(node.value))
            return ast.copy_location(ast.Assign([target], self.visit(node.value)), node)
        call = ast.Name("store", ast.Load())
        values = [self.address(target), self.visit(node.value)]
        return ast.copy_location(ast.Expr(ast.Call(call, values, [])), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if getattr(node.func, "id", "") not in ("load", "store", "cas", "add", "xchg"):
            return self.generic_visit(node)  # type: ignore[return-value]
        first, *others = node.args
        return ast.Call(node.func, [self.address(first), *map(self.visit, others)], [])


def _at(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)


def _load(address: int, order: str = "") -> int:
    return _at(address).value


def _store(address: int, x: int, order: str = "") -> None:
    with _lock:
        _at(address).value = x


def _add(address: int, x: int, order: str) -> int:
    with _lock:
        before = _at(address).value
        _at(address).value = before + x
    return before


def _xchg(address: int, x: int, order: str) -> int:
    with _lock:
        before, _at(address).value = _at(address).value, x
    return before


def _cas(address: int, old: int, new: int, *orders: str) -> bool:
    with _lock:
        same = _at(address).value & _WIDE == old & _WIDE
        if same:
            _at(address).value = new
    return same


_rooms = threading.local()


def _room(words: int) -> int:
    _rooms.last = (ctypes.c_int64 * words)()
    return ctypes.addressof(_rooms.last)


def _call(kind: str, function: int, *values: int) -> int:
    result, _, rest = kind.removesuffix(")").partition("(")
    types = [_C_TYPES[name] for name in rest.split(", ") if name]
    return ctypes.CFUNCTYPE(_C_TYPES[result], *types)(function)(*values) or 0


_OPERATIONS = {
    "word": _load, "put": _store, "load": _load, "store": _store, "add": _add, "xchg": _xchg,
    "cas": _cas, "room": _room, "call": _call,
}  # fmt: skip

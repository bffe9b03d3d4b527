"""The launcher's code as Python functions: one can step through it with a debugger, in as many
threads as one likes, on a control block as the compiled code has it.

>>> launcher = functions()
>>> control = native.new_control(1, 0, 1000)
>>> ticket = launcher.post(ctypes.addressof(control), 0, 0, 0, 100, 10, 1, 0, 0, 1)
>>> launcher.claimable(ctypes.addressof(control))
10
"""

import ast
import ctypes
import threading
from types import SimpleNamespace
from typing import Any

from drjit.jit.cpu import native
from drjit.jit.parsing import syntax_tree

_WIDE = (1 << 64) - 1
_C_TYPES = {"i64": ctypes.c_int64, "i32": ctypes.c_int, "ptr": ctypes.c_void_p, "void": None}
_lock = threading.Lock()


def functions() -> SimpleNamespace:
    """Returns all functions of the launcher. They take and return addresses and numbers."""
    source = native.source()
    tree = ast.fix_missing_locations(_Places().visit(syntax_tree(source)))
    scope: dict[str, Any] = {**_OPERATIONS, **native.CONSTANTS}
    scope |= dict.fromkeys(("monotonic", "acquire", "release", "acq_rel", "seq_cst"))
    exec(compile(tree, native.native_code.__file__, "exec"), scope)
    return SimpleNamespace(**scope)


class _Places(ast.NodeTransformer):
    """Writes fields as their addresses: `c.stop` as `word(c + 72)`."""

    def address(self, e: ast.Attribute) -> ast.expr:
        """Returns the address of a field."""
        return self.sum(self.visit(e.value), getattr(self.structure(e.value), e.attr).offset)

    def sum(self, x: ast.expr, y: ast.expr | int) -> ast.expr:
        right = y if isinstance(y, ast.expr) else ast.Constant(y)
        return ast.BinOp(x, ast.Add(), right)

    def structure(self, e: ast.expr) -> Any:
        """Returns the type of the structure at an address."""
        if isinstance(e, ast.Subscript):
            return self.array(e.value)._type_
        return native.STRUCTURES[ast.unparse(e)]

    def array(self, e: Any) -> Any:
        return dict(self.structure(e.value)._fields_)[e.attr]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Call(ast.Name("word", ast.Load()), [self.address(node)], [])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        array: Any = self.array(node.value)
        index = ast.BinOp(self.visit(node.slice), ast.BitAnd(), ast.Constant(array._length_ - 1))
        place = ast.BinOp(index, ast.Mult(), ast.Constant(ctypes.sizeof(array._type_)))
        return self.sum(self.address(node.value), place)  # type: ignore[arg-type]

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        target, value = node.targets[0], self.visit(node.value)
        if not isinstance(target, ast.Attribute):
            return ast.copy_location(ast.Assign([target], value), node)
        call = ast.Call(ast.Name("store", ast.Load()), [self.address(target), value], [])
        return ast.copy_location(ast.Expr(call), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        first, *others = node.args or [None]
        if getattr(node.func, "id", "") not in ("load", "store", "cas", "add", "xchg"):
            return self.generic_visit(node)  # type: ignore[return-value]
        return ast.Call(node.func, [self.address(first), *map(self.visit, others)], [])  # type: ignore


def _at(address: int) -> ctypes.c_int64:
    return ctypes.c_int64.from_address(address)


def _load(address: int, order: None = None) -> int:
    return _at(address).value


def _store(address: int, x: int, order: None = None) -> None:
    with _lock:
        _at(address).value = x


def _add(address: int, x: int, order: None) -> int:
    with _lock:
        before = _at(address).value
        _at(address).value = before + x
    return before


def _xchg(address: int, x: int, order: None) -> int:
    with _lock:
        before, _at(address).value = _at(address).value, x
    return before


def _cas(address: int, old: int, new: int, *orders: None) -> bool:
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
    "word": _load, "load": _load, "store": _store, "add": _add, "xchg": _xchg, "cas": _cas,
    "room": _room, "call": _call,
}  # fmt: skip

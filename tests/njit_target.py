"""A third execution of kernel text, for cross-checks only: plain Numba on scalars, lane by lane.

The text is that of the other targets; only infix operators become calls, since Numba widens small
integers. There is no `f16` here: Numba has no CPU float16. `launch` replaces `launch.run`.
"""

import ast
import operator
from functools import cache
from types import FunctionType

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from drjit.jit.cpu import memory
from drjit.jit.target import library

jit = numba.njit(error_model="numpy")
OPTIONS = {"error_model": "numpy"}
UNSIGNED = {8: types.uint8, 16: types.uint16, 32: types.uint32, 64: types.uint64}
SIGNED = {8: types.int8, 16: types.int16, 32: types.int32, 64: types.int64}
TYPES = {
    "mask": types.boolean, "i8": types.int8, "u8": types.uint8, "i16": types.int16,
    "u16": types.uint16, "i32": types.int32, "u32": types.uint32, "i64": types.int64,
    "u64": types.uint64, "f32": types.float32, "f64": types.float64,
}  # fmt: skip


def common(*operands):
    """The type of operands; numbers of the text, `int64` or `float64` to Numba, adapt to it."""
    found = [t for t in operands if not isinstance(t, types.Literal)] or [types.int64]
    for t in (types.float32, types.float64):
        if t in found:
            return t
    return next((t for t in found if t is not types.int64), types.int64)


# Conversions. `f32` in a text is both a function and the name of a type.


def convert(to, x):
    """Stands for a conversion within this module; `to` is the name of a type."""


@overload(convert, prefer_literal=True, jit_options=OPTIONS)
def _convert(to, x):
    t = TYPES[to.literal_value]
    if t is types.boolean:
        return lambda to, x: x != 0
    if isinstance(t, types.Integer) and isinstance(x, types.Float):
        low, high = t.minval, t.maxval
        above = float(high + 1)

        def saturate(to, x):
            if x != x:
                return t(0)
            if x <= low:
                return t(low)
            return t(high) if x >= above else t(x)

        return saturate
    return lambda to, x: t(x)


def _cast(code):
    scope = {"convert": convert}
    exec(f"def {code}(x): return convert({code!r}, x)", scope)
    scope[code] = jit(scope[code])
    return scope[code]


CASTS = {code: _cast(code) for code in TYPES}


@intrinsic
def reinterpret(context, to, x):
    t = TYPES[to.dispatcher.py_func.__name__]
    llvm_type = numba.core.registry.cpu_target.target_context.get_value_type(t)
    return t(to, x), lambda context, builder, signature, args: builder.bitcast(args[1], llvm_type)


@jit
def bitcast(to, x):
    return reinterpret(to, x)


# Element-wise operations: a body for each class of types, with the operands in their common type.

SYMBOLS = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "Eq": operator.eq,
    "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge,
}  # fmt: skip
COMPARISONS = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
names = {}


def define(name, arity, body, result=None):
    """An operation; `body(t)` gives the function of operands that have type `t`."""
    arguments = ", ".join("abc"[:arity])
    scope = {}
    exec(f"def {name}({arguments}): pass", scope)

    def typed(*operands):
        t = common(*operands)
        function = body(t)
        if isinstance(function, FunctionType):
            function = register_jitable(**OPTIONS)(function)
        values = ", ".join(f"t({x})" for x in "abc"[:arity])
        inner = {"t": t, "function": function, "result": result or t}
        exec(f"def impl({arguments}): return result(function({values}))", inner)
        return inner["impl"]

    names[name] = scope[name]
    exec(f"def signature({arguments}): return typed({arguments})", {"typed": typed}, scope)
    overload(scope[name], jit_options=OPTIONS)(scope["signature"])


def _logical(name):
    return {
        "BitAnd": lambda a, b: a and b,
        "BitOr": lambda a, b: a or b,
        "BitXor": lambda a, b: a != b,
    }[name]


def _infix(name, function):
    def body(t):
        return _logical(name) if t is types.boolean and name.startswith("Bit") else function

    define(name, 2, body, types.boolean if name in COMPARISONS else None)


for _name, _function in SYMBOLS.items():
    _infix(_name, _function)


def _unsigned(t):
    return UNSIGNED[t.bitwidth]


def _shl(t):
    u, width = _unsigned(t), t.bitwidth
    return lambda a, b: t(a << u(b)) if u(b) < width else t(0)


def _shr(t):
    u, width = _unsigned(t), t.bitwidth
    return lambda a, b: t(a >> u(b)) if u(b) < width else t(-1 if a < 0 else 0)


def _quotient(t):
    if not t.signed:
        return lambda a, b: t(0) if b == 0 else t(a // b)

    def signed(a, b):
        if b == 0:
            return t(0)
        if b == -1:
            return t(-a)
        q = a // b
        return t(q + 1 if q < 0 and q * b != a else q)

    return signed


def _remainder(t):
    quotient = register_jitable(_quotient(t))
    if t.signed:
        return lambda a, b: t(0) if b == 0 or b == -1 else t(a - quotient(a, b) * b)
    return lambda a, b: t(0) if b == 0 else t(a - quotient(a, b) * b)


def _mul_hi(t):
    width = t.bitwidth
    if width < 64:
        wide = (SIGNED if t.signed else UNSIGNED)[2 * width]
        return lambda a, b: t((wide(a) * wide(b)) >> wide(width))

    @intrinsic
    def upper(context, a, b):
        def emit(context, builder, signature, args):
            from llvmlite import ir

            extend = builder.sext if t.signed else builder.zext
            a, b = (extend(x, ir.IntType(128)) for x in args)
            product = builder.lshr(builder.mul(a, b), ir.Constant(ir.IntType(128), 64))
            return builder.trunc(product, ir.IntType(64))

        return t(a, b), emit

    return lambda a, b: upper(a, b)


def _bit_loop(kind):
    def body(t):
        u, width = _unsigned(t), t.bitwidth

        def popcnt(a):
            count = 0
            for k in range(width):
                count += (u(a) >> u(k)) & u(1)
            return count

        def lzcnt(a):
            count = 0
            while count < width and (u(a) >> u(width - 1 - count)) & u(1) == 0:
                count += 1
            return count

        def tzcnt(a):
            count = 0
            while count < width and (u(a) >> u(count)) & u(1) == 0:
                count += 1
            return count

        def brev(a):
            reverse = u(0)
            for k in range(width):
                reverse = u(reverse | (((u(a) >> u(k)) & u(1)) << u(width - 1 - k)))
            return reverse

        return {"popcnt": popcnt, "lzcnt": lzcnt, "tzcnt": tzcnt, "brev": brev}[kind]

    return body


@intrinsic
def fused(context, a, b, c):
    return a(a, b, c), lambda context, builder, signature, args: builder.fma(*args)


def _negate(t):
    return (lambda a: -a) if isinstance(t, types.Float) else lambda a: t(0) - a


define("neg_", 1, _negate)
define("invert_", 1, lambda t: (lambda a: not a) if t is types.boolean else lambda a: ~a)
define("abs", 1, lambda t: np.abs if isinstance(t, types.Float) else lambda a: -a if a < 0 else a)
for _name, _function in {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint
}.items():  # fmt: skip
    define(_name, 1, lambda t, function=_function: function)
for _name in ("popcnt", "lzcnt", "tzcnt", "brev"):
    define(_name, 1, _bit_loop(_name))
define("shl", 2, _shl)
define("shr", 2, _shr)
define("quotient", 2, _quotient)
define("remainder", 2, _remainder)
define("mul_hi", 2, _mul_hi)
define("minimum", 2, lambda t: lambda a, b: a if a < b else b)
define("maximum", 2, lambda t: lambda a, b: a if a > b else b)
define("fma", 3, lambda t: lambda a, b, c: fused(a, b, c))
define("choose", 2, lambda t: lambda a, b: a)  # gives the first operand the common type


@jit
def select(m, x, y):
    return names_choose(x, y) if m else names_choose(y, x)


names_choose = names["choose"]


# Lanes and memory.


@jit
def load(t, buffer, i):
    return buffer[i]


@jit
def broadcast(t, buffer):
    return buffer[0]


@jit
def literal(t, word):
    return word


@jit
def store(t, buffer, i, x):
    buffer[i] = x


@jit
def lane(i):
    return np.uint32(i)


@jit
def active(i):
    return True


@jit
def any_lane(m):
    return m


@jit
def in_bounds(record, site, x, n, m):
    inside = x < np.uint64(n)
    if m and not inside and record[0] == 0:
        record[0], record[1], record[2], record[3] = 1, site, np.int64(x), n
    return m and inside


@jit
def gather(t, buffer, x, m):
    return buffer[np.int64(x)] if m and x < np.uint64(buffer.size) else t(0)


@jit
def scatter(t, buffer, v, x, m):
    if m and x < np.uint64(buffer.size):
        buffer[np.int64(x)] = v


COMBINE = {
    "add": names["Add"], "mul": names["Mult"], "min": names["minimum"],
    "max": names["maximum"], "and": names["BitAnd"], "or": names["BitOr"],
}  # fmt: skip


def combine(op, a, b):
    """Stands for an operation of a reduction."""


@overload(combine, prefer_literal=True, jit_options=OPTIONS)
def _combine(op, a, b):
    function = COMBINE[op.literal_value]
    return lambda op, a, b: function(a, b)


def reduce(t, op, partials, buffer, i, x):
    """Stands for a reduction of all lanes: the buffer itself is the accumulator."""


@overload(reduce, prefer_literal=True, jit_options=OPTIONS)
def _reduce(t, op, partials, buffer, i, x):
    def accumulate(t, op, partials, buffer, i, x):
        buffer[0] = x if i == 0 else combine(op, x, buffer[0])

    return accumulate


@jit
def table(values, x):
    return values[min(np.int64(x), values.size - 1)]


@jit
def polynomial(x, values):
    total = names_fma(x, values[0], values[1])
    for k in range(2, len(values)):
        total = names_fma(total, x, values[k])
    return total


names_fma = names["fma"]


names.update(
    bitcast=bitcast, select=select, load=load, broadcast=broadcast, literal=literal,
    store=store, stream=store,
    lane=lane, active=active, any_lane=any_lane, in_bounds=in_bounds, gather=gather,
    scatter=scatter, reduce=reduce, table=table, polynomial=polynomial, **CASTS,
)  # fmt: skip


class Calls(ast.NodeTransformer):
    """Infix operators as calls."""

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return _call(type(node.op).__name__, node.left, node.right)

    def visit_Compare(self, node):
        self.generic_visit(node)
        return _call(type(node.ops[0]).__name__, node.left, node.comparators[0])

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if isinstance(node.operand, ast.Constant):
            return node
        return _call("neg_" if isinstance(node.op, ast.USub) else "invert_", node.operand)


def _call(name, *operands):
    return ast.Call(ast.Name(name, ast.Load()), list(operands), [])


def _executed(tree, scope):
    """Runs definitions and compiles the functions among them (at their first call)."""
    tree = ast.fix_missing_locations(tree)
    exec(compile(tree, "<njit>", "exec"), scope)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            scope[statement.name] = jit(scope[statement.name])
    return scope


@cache
def _library():
    """The functions of the library; their names and those of its constants are unique."""
    scope = dict(names)
    body = []
    for module in ("common", *sorted(set(library.MODULES.values()))):
        with open(f"{library._FOLDER}/{module}.py", encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef) and statement.name not in names:
                statement.body = statement.body[1:]  # without the docstring
                body.append(Calls().visit(statement))
            elif isinstance(statement, ast.Assign):
                body.append(statement)
    scope = _executed(ast.Module(body, []), scope)
    for key, value in scope.items():
        if isinstance(value, tuple):
            scope[key] = np.array(value, TYPES[key.rpartition("_")[2]].name)
    return scope


def _library_function(name):
    arity = 2 if name in ("atan2", "pow") else 1

    def body(t):
        return _library()[f"{name}_{'f32' if t is types.float32 else 'f64'}"]

    define(name, arity, body, tuple if name == "sincos" else None)


for _name in library.MODULES:
    _library_function(_name)


@jit
def drive(kernel, p, size):
    for i in range(size):
        kernel(i, p)


@cache
def compiled(text):
    """The kernel of a text, as a function of Numba."""
    tree = Calls().visit(ast.parse(text))
    return _executed(tree, dict(names))["kernel"]


def run(text, p, size):
    """Runs a kernel text over `size` lanes; `p` holds arrays and NumPy scalars."""
    drive(compiled(text), tuple(p), size)


def launch(kernel, size, inputs, literals, checks, targets):
    """Does what `launch.run` does, for programs whose only side effects are scatters."""
    p = [np.zeros(5, np.int64)]
    p += [n.data.array(n.dtype.numpy, n.size) for n in inputs]
    p += [n.dtype.scalar(n.data) for n in literals]
    p += [c.data[0] for c in checks]
    p += [e.buffer.array(e.dtype.numpy, e.size) for e in targets]
    outputs = []
    for o in kernel.program.outputs:
        lanes = {"store": size, "reduce": 1, "effect": 0}[o.kind]
        outputs.append(memory.allocate_for(o.dtype, lanes) if lanes else None)
        if o.kind == "reduce":
            p.append(np.zeros(1))
        if lanes:
            p.append(outputs[-1].array(o.dtype.numpy, lanes))
    run(kernel.text, p, size)
    return outputs

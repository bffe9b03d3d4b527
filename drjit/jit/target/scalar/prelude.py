"""Functions that exported files may contain, each of them Numba code that is copied as it stands.

This package reads the module as text and never imports it. Half-precision numbers are computed in
single precision and rounded after each operation, because Numba has no such type on the processor;
in memory they are 16-bit integers.
"""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false, reportCallIssue=false

import sys

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

i8, u8, i16, u16 = np.int8, np.uint8, np.int16, np.uint16
i32, u32, i64, u64 = np.int32, np.uint32, np.int64, np.uint64
f32, f64 = np.float32, np.float64

TILE = 64
# Machine code in Numba's cache needs a module that can be imported.
compiled = njit(
    error_model="numpy",
    nogil=True,
    cache=globals().get("__spec__") is not None and __name__ in sys.modules,
)
# Of functions that only others call, Numba need not make versions for Python and C. LLVM does not
# vectorize loops with calls.
helper = njit(error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
inlined = njit(
    error_model="numpy", forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
)


@intrinsic
def fma(context, x, y, z):
    """x * y + z, rounded once."""

    def code(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return x(x, x, x), code


def instruction(name, *flags):
    """Returns a function of a number that is an instruction of LLVM's."""

    @intrinsic
    def compute(context, x):
        def code(context, builder, signature, arguments):
            more = [context.get_constant(types.boolean, flag) for flag in flags]
            return getattr(builder, name)(*arguments, *more)

        return x(x), code

    return compute


# The number of bits that are set, and of zeros above the highest and below the lowest one that is
# set; the bits in reverse order.
popcnt = instruction("ctpop")
lzcnt = instruction("ctlz", False)
tzcnt = instruction("cttz", False)
brev = instruction("bitreverse")


@intrinsic
def polynomial(context, x, coefficients):
    """A polynomial by Horner's rule, with the coefficient of the highest power first."""

    def code(context, builder, signature, arguments):
        from numba.core import cgutils

        kind, given = signature.args
        numbers = cgutils.unpack_tuple(builder, arguments[1])
        first, second, *others = [context.cast(builder, n, given.dtype, kind) for n in numbers]
        total = builder.fma(arguments[0], first, second)
        for c in others:
            total = builder.fma(total, arguments[0], c)
        return total

    return x(x, coefficients), code


@intrinsic
def bitcast(context, to, x):
    """The bits of x as a number of another type."""
    made = to.instance_type

    def code(context, builder, signature, arguments):
        return builder.bitcast(arguments[1], context.get_value_type(made))

    return made(to, x), code


@intrinsic
def from_half(context, bits):
    """The number of half precision with these 16 bits."""

    def code(context, builder, signature, arguments):
        from llvmlite.ir import FloatType, HalfType

        return builder.fpext(builder.bitcast(arguments[0], HalfType()), FloatType())

    return types.float32(types.uint16), code


@intrinsic
def to_half(context, x):
    """The 16 bits of a number of half precision."""

    def code(context, builder, signature, arguments):
        from llvmlite.ir import HalfType, IntType

        return builder.bitcast(builder.fptrunc(arguments[0], HalfType()), IntType(16))

    return types.uint16(types.float32), code


@inlined
def half(x):
    """A single-precision number rounded to half precision."""
    return from_half(to_half(x))


@helper
def half_of_double(x):
    """A double-precision number rounded to half precision. The last bit of the number in between
    says that something was lost, so that the second rounding cannot go wrong."""
    y = f32(x)
    bits = bitcast(u32, y)
    if f64(y) != x and y == y:
        if abs(f64(y)) > abs(x):
            bits = u32(bits - u32(1))
        bits = u32(bits | u32(1))
    return half(bitcast(f32, bits))


@helper
def minimum(x, y):
    """x where it is less than y, else y."""
    return x if x < y else y


@helper
def maximum(x, y):
    """x where it is greater than y, else y."""
    return x if x > y else y


@helper
def fmin(x, y):
    """The lesser of two numbers, the other one if one is NaN."""
    return y if x != x or y < x else x


@helper
def fmax(x, y):
    """The greater of two numbers, the other one if one is NaN."""
    return y if x != x or y > x else x


@helper
def shift_left(x, y, bits):
    """x << y, 0 if the count is too large."""
    return x << y if u64(y) < u64(bits) else x - x


@helper
def shift_right(x, y, bits):
    """x >> y; all sign bits if the count is too large."""
    if u64(y) < u64(bits):
        return x >> y
    return (x >> (y - y)) >> (bits - 1) if x < 0 else x - x


@helper
def quotient(x, y):
    """x / y towards zero; 0 if y is 0."""
    if y == 0:
        return y
    if y < 0 and y + 1 == 0:
        return y - y - x
    q = x // y
    if x < 0 and q * y != x and y > 0:
        q += 1
    if x > 0 and y < 0 and q * y != x:
        q += 1
    return q


@helper
def remainder(x, y):
    """What the quotient leaves; 0 if y is 0."""
    if y == 0 or (y < 0 and y + 1 == 0):
        return y - y
    r = x - (x // y) * y
    if r != 0 and (r < 0) != (x < 0):
        r -= y
    return r


@helper
def unsigned_quotient(x, y):
    """x / y; 0 if y is 0."""
    return x // y if y != 0 else y


@helper
def unsigned_remainder(x, y):
    """x % y; 0 if y is 0."""
    return x % y if y != 0 else y


@intrinsic
def mul_hi(context, x, y):
    """The upper half of the product of two integers, which has twice as many bits."""

    def code(context, builder, signature, arguments):
        from llvmlite.ir import IntType

        bits = x.bitwidth
        wide = IntType(2 * bits)
        extend = builder.sext if x.signed else builder.zext
        product = builder.mul(*[extend(v, wide) for v in arguments])
        return builder.trunc(builder.lshr(product, wide(bits)), IntType(bits))

    return x(x, x), code


@intrinsic
def tile(context, kind):
    """An array of a number for each lane of a tile, on the stack: LLVM knows that writing to it
    changes no other memory, and vectorizes loops that gather. (It is much slower with booleans.)"""
    made = types.Array(kind.instance_type, 1, "C")

    def code(context, builder, signature, arguments):
        from numba.core import cgutils
        from numba.np.arrayobj import make_array, populate_array

        number = context.get_data_type(made.dtype)
        size = context.get_constant(types.intp, context.get_abi_sizeof(number))
        count = context.get_constant(types.intp, TILE)
        data = cgutils.alloca_once(builder, number, count)
        array = make_array(made)(context, builder)
        populate_array(array, data, [count], [size], size, None)
        return array._getvalue()

    return made(kind), code


@helper
def inside(error, site, x, size, m, i):
    """Whether the index x of lane i is below a size; the first one that is not is noted."""
    if m and x >= size:
        if error[0] == 0:
            error[1], error[2], error[3], error[4] = site, x, size, i
            error[0] = 1
        return False
    return m


@inlined
def inside_tile(error, site, x, size, m, i, full, rare):
    """The same for all lanes of a tile, which need not be tested one after the other: an index that
    is not below is a rare case."""
    outside = m & (x >= size)
    if full and outside:
        inside(error, site, x, size, m, i)
    return m & (x < size), rare | outside


@njit(error_model="numpy", fastmath={"reassoc", "nsz"})
def sum_of(values, m):
    """The sum of the first m values, in double precision and any order."""
    total = f64(0)
    for k in range(m):
        total += f64(values[k])
    return total


@helper
def any_lane(mask, m):
    """Whether a mask holds in any of m lanes."""
    found = False
    for k in range(m):
        found |= mask[k] != 0
    return found


def product_of_rows(rows):
    """Returns a function that computes some rows of y = A x for a few lanes. The sums stay in
    vector registers, which LLVM's own vectorization of loops does not achieve."""

    @intrinsic
    def compute(context, a, first, stride, x, y, r, columns, k):
        def code(context, builder, signature, arguments):
            from llvmlite import ir
            from numba.core import cgutils

            number = context.get_value_type(a.dtype)
            count = 64 // (a.dtype.bitwidth // 8)
            vector, index = ir.VectorType(number, count), ir.IntType(64)
            kind = ir.FunctionType(vector, [vector] * 3)
            name = f"llvm.fma.v{count}f{a.dtype.bitwidth}"
            fused = cgutils.get_or_insert_function(builder.module, kind, name)
            av, first, stride, xv, yv, r, columns, k = arguments
            a_, x_, y_ = (
                context.make_array(t)(context, builder, v)
                for t, v in zip((a, x, y), (av, xv, yv), strict=True)
            )
            width = cgutils.unpack_tuple(builder, x_.shape)[1]

            def place(data, row):
                at = builder.gep(data, [builder.add(builder.mul(row, width), k)])
                return builder.bitcast(at, vector.as_pointer())

            sums = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
            for total in sums:
                builder.store(ir.Constant(vector, None), total)
            with cgutils.for_range(builder, columns) as loop:
                at, lanes = builder.add(first, loop.index), place(x_.data, loop.index)
                lanes = builder.load(lanes, align=4)
                for total in sums:
                    w = builder.load(builder.gep(a_.data, [at]))
                    zero = ir.Constant(ir.IntType(32), 0)
                    w = builder.insert_element(ir.Constant(vector, ir.Undefined), w, zero)
                    zeros = ir.Constant(ir.VectorType(ir.IntType(32), count), None)
                    w = builder.shuffle_vector(w, w, zeros)
                    builder.store(builder.call(fused, [w, lanes, builder.load(total)]), total)
                    at = builder.add(at, stride)
            for j, total in enumerate(sums):
                row = builder.add(r, ir.Constant(index, j))
                builder.store(builder.load(total), place(y_.data, row), align=4)
            return context.get_dummy_value()

        return types.void(
            a, types.int64, types.int64, x, y, types.int64, types.int64, types.int64
        ), code

    return compute


four_rows = product_of_rows(4)
one_row = product_of_rows(1)


@helper
def matvec(a, first, rows, columns, stride, x, y):
    """y = A x for all lanes of a tile; x and y have a row for each feature."""
    step = 64 // a.itemsize
    for k in range(0, TILE, step):
        for r in range(0, rows - 3, 4):
            four_rows(a, first + r * stride, stride, x, y, r, columns, k)
        for r in range(rows // 4 * 4, rows):
            one_row(a, first + r * stride, stride, x, y, r, columns, k)


@helper
def transposed_matvec(a, first, rows, columns, stride, x, y):
    """y = A' x, like `matvec`."""
    b = np.empty(rows * columns, a.dtype)
    for r in range(rows):
        for c in range(columns):
            b[c * rows + r] = a[first + r * stride + c]
    matvec(b, i64(0), columns, rows, rows, x, y)


@helper
def add_bias(y, rows, b, first):
    """Adds a number of b to each row."""
    for r in range(rows):
        w = b[first + r]
        for k in range(TILE):
            y[r, k] += w


@helper
def round_to_half(y, rows):
    """Rounds rows to half precision."""
    for r in range(rows):
        for k in range(TILE):
            y[r, k] = half(y[r, k])


@njit(error_model="numpy", fastmath={"reassoc", "nsz", "contract"})
def row_products(y0, y1, x0, x1, m):
    """The sums over lanes of the four products of two rows each."""
    s00 = s01 = s10 = s11 = x0.dtype.type(0)
    for k in range(m):
        a0, a1, b0, b1 = y0[k], y1[k], x0[k], x1[k]
        s00 += a0 * b0
        s01 += a0 * b1
        s10 += a1 * b0
        s11 += a1 * b1
    return s00, s01, s10, s11


@helper
def chosen_lanes(v, rows, mask, m):
    """A copy of rows with 0 in the lanes where the mask does not hold."""
    made = np.empty((rows, m), v.dtype)
    for r in range(rows):
        for k in range(m):
            made[r, k] = v[r, k] if mask[k] else v.dtype.type(0)
    return made


@helper
def outer(q, first, rows, columns, stride, y, x, mask, m):
    """Adds the products of the rows of y and x, summed over the lanes of the mask, to a matrix."""
    y, x = chosen_lanes(y, rows, mask, m), chosen_lanes(x, columns, mask, m)
    for r in range(0, rows, 2):
        s = min(r + 1, rows - 1)
        for c in range(0, columns, 2):
            d = min(c + 1, columns - 1)
            s00, s01, s10, s11 = row_products(y[r], y[s], x[c], x[d], m)
            q[first + r * stride + c] += s00
            if d > c:
                q[first + r * stride + d] += s01
            if s > r:
                q[first + s * stride + c] += s10
            if s > r and d > c:
                q[first + s * stride + d] += s11


@helper
def accumulate(q, first, rows, y, mask, m):
    """Adds the rows of y, summed over the lanes of the mask, to numbers of q."""
    for r in range(rows):
        total = q[first + r]
        for k in range(m):
            if mask[k]:
                total += y[r, k]
        q[first + r] = total

"""Histograms and sorting: equalization of a picture, a radix sort made of scans and scatters,
sorting in local memory, run lengths, and order statistics."""

import drjit as dr
from drjit.auto import Bool, Float, Float64, Int, TensorXf, UInt, UInt64


def picture(n: int) -> Float:
    x, y = dr.meshgrid(*[dr.arange(Float, n) / n] * 2)
    return dr.clip(0.3 + 0.2 * dr.sin(9 * x) * dr.cos(7 * y) + 0.15 * x * y, 0, 0.999)


def histogram(values: Float, bins: int, mode: dr.ReduceMode) -> UInt:
    count = dr.zeros(UInt, bins)
    index = UInt(values * bins)
    dr.scatter_reduce(dr.ReduceOp.Add, count, UInt(1), index, mode=mode)
    return count


def equalized(values: Float, bins: int) -> Float:
    count = histogram(values, bins, dr.ReduceMode.Auto)
    cdf = Float(dr.cumsum(count)) / dr.width(values)
    p = values * bins - 0.5
    low = dr.clip(Int(dr.floor(p)), 0, bins - 1)
    high = dr.minimum(low + 1, bins - 1)
    t = p - dr.floor(p)
    return dr.lerp(dr.gather(Float, cdf, UInt(low)), dr.gather(Float, cdf, UInt(high)), t)


def radix_sort(keys: UInt, bits: int = 4) -> tuple[UInt, UInt]:
    """Sorts by blocks of bits; also returns where entries came from."""
    n = dr.width(keys)
    order = dr.arange(UInt, n)
    radix = 1 << bits
    for shift in range(0, 32, bits):
        digit = (keys >> shift) & (radix - 1)
        if dr.all(digit == 0):
            continue
        # one flag for every digit and entry: its prefix sum is the place
        flags = dr.zeros(UInt, radix * n)
        dr.scatter(flags, UInt(1), digit * n + dr.arange(UInt, n))
        place = dr.gather(UInt, dr.prefix_sum(flags), digit * n + dr.arange(UInt, n))
        new_keys, new_order = dr.empty(UInt, n), dr.empty(UInt, n)
        dr.scatter(new_keys, keys, place)
        dr.scatter(new_order, order, place)
        keys, order = new_keys, new_order
    return keys, order


def sortable(x: Float) -> UInt:
    """Bits whose order as integers is that of the numbers."""
    bits = dr.reinterpret_array(UInt, x)
    negative = (bits >> 31) == 1
    return bits ^ dr.select(negative, UInt(0xFFFFFFFF), UInt(0x80000000))


@dr.syntax
def sort_rows(values: Float, length: int) -> Float:
    """Every lane sorts a row by insertion, in local memory."""
    rows = dr.width(values) // length
    lane = dr.arange(UInt, rows)
    memory = dr.alloc_local(Float, length)
    k = UInt(0)
    while k < length:
        memory[k] = dr.gather(Float, values, lane * length + k)
        k += 1
    i = UInt(1)
    while i < length:
        value, j = memory[i], Int(i)
        running = Bool(True)
        while (j > 0) & running:
            before = memory[UInt(j - 1)]
            if before > value:
                memory[UInt(j)] = before
                j -= 1
            else:
                running = Bool(False)
        memory[UInt(j)] = value
        i += 1
    result = dr.empty(Float, rows * length)
    for k in range(length):
        dr.scatter(result, memory[k], lane * length + k)
    return result


def runs(values: UInt) -> tuple[UInt, UInt]:
    """Run-length encoding: values and how often each follows itself."""
    n = dr.width(values)
    i = dr.arange(UInt, n)
    before = dr.gather(UInt, values, dr.maximum(Int(i) - 1, 0))
    first = (i == 0) | (before != values)
    start = dr.compress(first)
    count = dr.width(start)
    end = dr.gather(UInt, start, dr.minimum(dr.arange(UInt, count) + 1, count - 1))
    end = dr.select(dr.arange(UInt, count) == count - 1, n, end)
    return dr.gather(UInt, values, start), end - start


def main() -> TensorXf:
    n = 24
    values = picture(n)
    for mode in (dr.ReduceMode.Auto, dr.ReduceMode.Direct, dr.ReduceMode.Expand):
        print("histogram", mode.name, histogram(values, 8, mode))
    flat = equalized(values, 32)
    print("equalized", dr.mean(flat), histogram(dr.minimum(flat, 0.999), 8, dr.ReduceMode.Local))
    image = TensorXf(flat, (n, n))
    print(image[::8, ::6])

    rng = dr.rng(seed=6)
    x = rng.normal(Float, 200)
    keys, order = radix_sort(sortable(x))
    ordered = dr.gather(Float, x, order)
    print("radix", dr.all(ordered == dr.sort(x)), dr.all(order == dr.argsort(x)))
    print("ends", dr.gather(Float, ordered, UInt(0, 1, 198, 199)), keys[0] >> 4, keys[199] >> 4)
    rows = sort_rows(x, 8)
    library = dr.sort(TensorXf(x, (25, 8)), axis=1)
    print("rows", dr.all(rows == library.array), dr.block_reduce(dr.ReduceOp.Max, rows, 40))
    print("median", dr.median(x), dr.median(TensorXf(x, (25, 8)), axis=0))
    quantile = [dr.gather(Float, ordered, UInt(int(q * 199)))[0] for q in (0.05, 0.25, 0.75, 0.95)]
    print("quantiles", quantile)

    digits = dr.sort(rng.integers(UInt, 60, 0, 7))
    value, length = runs(digits)
    print("runs", value, length, dr.sum(length))
    mode = dr.gather(UInt, value, dr.argmax(length))
    print("mode", mode, dr.max(length))
    wide = UInt64(digits) << 40 | UInt64(dr.arange(UInt, 60))
    print("wide", dr.max(wide), dr.sum(wide & 0xFF), dr.popcnt(wide)[59])
    weights = dr.zeros(Float64, 7)
    dr.scatter_add(weights, Float64(dr.rcp(1 + dr.arange(Float, 60))), digits)
    print("weights", weights)
    low, high = dr.full(UInt, 1000, 7), dr.zeros(UInt, 7)
    dr.scatter_reduce(dr.ReduceOp.Min, low, dr.arange(UInt, 60), digits)
    dr.scatter_reduce(dr.ReduceOp.Max, high, dr.arange(UInt, 60), digits)
    print("extent", low, high)
    bits = dr.zeros(UInt, 2)
    dr.scatter_reduce(dr.ReduceOp.Or, bits, UInt(1) << digits, dr.arange(UInt, 60) // 30)
    print("present", bits, dr.popcnt(bits))
    found = dr.binary_search(0, 200, lambda i: dr.gather(Float, ordered, i) < Float(-1, 0, 1))
    print("search", found)
    print("shuffled", dr.sum(dr.abs(x - dr.gather(Float, x, rng.permutation(UInt, 200)))))
    return image


if __name__ == "__main__":
    main()

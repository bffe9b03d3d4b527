"""Kernels around single instructions: a table of cases becomes PTX, inputs and expected outputs."""

import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator import Memory, Module

HEAD = ".version 8.8\n.target {target}\n.address_size 64\n"
NUMPY = {
    "s8": "i1", "u8": "u1", "b8": "u1", "s16": "i2", "u16": "u2", "b16": "u2", "s32": "i4",
    "u32": "u4", "b32": "u4", "s64": "i8", "u64": "u8", "b64": "u8", "f16": "f2", "f32": "f4",
    "f64": "f8", "f16x2": "u4", "u16x2": "u4", "s16x2": "u4",
    "f32x2": "u8", "tf32": "u4", "pred": "u4",
}  # fmt: skip


def bits(kind: str) -> int:
    return int(NUMPY[kind][1]) * 8


INTEGERS = {
    n: [0, 1, 2, 3, 7, n - 1, n, 255, (1 << n - 1) - 1, 1 << n - 1, (1 << n - 1) + 1, (1 << n) - 2,
        (1 << n) - 1, 0x123456789ABCDEF & (1 << n) - 1]
    for n in (8, 16, 32, 64)
}  # fmt: skip
_FLOATS = [
    0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -2.5, 0.1, 3.1415926, 1e-3, -7e4, 65504.0, 1e10, -3e38, 3.4e38,
    1e-38, 1e-40, -1e-45, 6e-8, 5e-324, 1.7e308, -2.2e-308, 1e-310, np.inf, -np.inf, np.nan,
]  # fmt: skip


def floats(kind: str) -> list[Any]:
    with np.errstate(all="ignore"):
        values = np.array(_FLOATS).astype(NUMPY[kind])
    return list(np.unique(values.view(f"u{values.itemsize}")).view(values.dtype))


def values(kind: str) -> list[Any]:
    """Values of a type that are likely to go wrong."""
    if kind == "pred":
        return [0, 1]
    if kind == "f16x2":
        halves = [int(np.array(x).view("u2")) for x in values("f16")]
        return [a | b << 16 for a, b in zip(halves, halves[::-1], strict=True)]
    if kind == "f32x2":
        words = np.array(floats("f32")).view("u4").tolist()
        return [a | b << 32 for a, b in zip(words, words[::-1], strict=True)]
    if kind[0] in "sub":
        return [wrap(x, kind) for x in INTEGERS[bits(kind)]]
    return floats(kind)


def wrap(x: int, kind: str) -> int:
    """An integer in the range of a type."""
    n = bits(kind)
    x &= (1 << n) - 1
    return x - (1 << n) if kind[0] == "s" and "x" not in kind and x >> n - 1 else x


@dataclass
class Case:
    """`text` is an instruction with {d}, {a}, {b}, ... for registers of the types `sources` and
    `result`; `reference` maps numbers to a number, or (with `whole`) arrays to an array."""

    text: str
    sources: str
    result: str
    reference: Callable[..., Any]
    inputs: Sequence[Sequence[Any]] | None = None
    whole: bool = False
    target: str = "sm_90"
    before: str = ""
    names: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text.split("\n")[0]


def register(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{max(bits(kind), 16)}"


def entry(case: Case, name: str) -> str:
    """A kernel that applies the instruction to an element of each array."""
    kinds = case.sources.split()
    letters = "abcefgh"
    lines = []
    for k, kind in enumerate(kinds):
        lines.append(f".reg .{register(kind)} %{letters[k]};")
    lines.append(f".reg .{register(case.result)} %d;")
    for k, kind in enumerate(kinds):
        size = bits(kind) // 8
        lines.append(f"ld.param.u64 %rd1, [p+{8 * k}];\nmad.wide.u32 %rd1, %r1, {size}, %rd1;")
        if kind == "pred":
            lines.append(f"ld.global.b32 %r2, [%rd1];\nsetp.ne.u32 %{letters[k]}, %r2, 0;")
        else:
            lines.append(f"ld.global.b{size * 8} %{letters[k]}, [%rd1];")
    registers = {letter: f"%{letter}" for letter in letters[: len(kinds)]}
    lines.append(case.before)
    lines.append(case.text.format(d="%d", **registers))
    size = bits(case.result) // 8
    lines.append(f"ld.param.u64 %rd1, [p+{8 * len(kinds)}];")
    lines.append(f"mad.wide.u32 %rd1, %r1, {size}, %rd1;")
    if case.result == "pred":
        lines.append("selp.u32 %r2, 1, 0, %d;\nst.global.b32 [%rd1], %r2;")
    else:
        lines.append(f"st.global.b{size * 8} [%rd1], %d;")
    body = "\n    ".join("\n".join(lines).split("\n"))
    return f""".visible .entry {name}(.param .align 8 .b8 p[{8 * len(kinds) + 8}], .param .u32 n)
{{
    .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<19>; .reg .b64 %rd<9>;
    ld.param.u32 %r2, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r2, [n];
    setp.ge.u32 %p1, %r1, %r2;
    @%p1 bra $End;
    {body}
$End:
    ret;
}}
"""


def check(case: Case) -> None:
    """Runs a case on all combinations of its inputs, and compares the bits of the results."""
    kinds = case.sources.split()
    columns = case.inputs or [values(kind) for kind in kinds]
    if len(columns) == len(kinds) and not case.inputs:
        rows = list(itertools.product(*columns))
    else:
        rows = list(itertools.product(*columns)) if len(columns) == len(kinds) else list(columns)
    arrays = [np.array(c, NUMPY[k]) for c, k in zip(zip(*rows, strict=True), kinds, strict=True)]
    got = execute(case, arrays)
    with np.errstate(all="ignore"):
        if case.whole:
            want = list(case.reference(*arrays))
        else:
            given = (a if a.dtype.kind == "f" else a.tolist() for a in arrays)
            want = [case.reference(*row) for row in zip(*given, strict=True)]
        dtype = np.dtype(NUMPY[case.result])
        if dtype.kind == "f":
            want = np.array(want, dtype).view(f"u{dtype.itemsize}")
        else:
            mask = (1 << dtype.itemsize * 8) - 1
            want = np.array([int(x) & mask for x in want], f"u{dtype.itemsize}")
    found = got.view(want.dtype)
    if case.result == "f64":  # any NaN will do
        found, want = (np.where(np.isnan(x.view("f8")), 1, x) for x in (found, want))
    wrong = np.flatnonzero(found != want)
    shown = [
        f"{tuple(a[k] for a in arrays)} -> {got[k]} ({found[k]:#x}), expected {want[k]:#x}"
        for k in wrong[:5]
    ]
    assert not len(wrong), f"{case}: {len(wrong)} of {len(want)} wrong\n" + "\n".join(shown)


def execute(case: Case, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The results of an instruction for arrays of operands."""
    memory = Memory()
    module = Module(HEAD.format(target=case.target) + entry(case, "k"), memory)
    n = len(arrays[0]) if arrays else 32
    out = np.zeros(n, NUMPY[case.result])
    addresses = []
    for array in (*arrays, out):
        address = memory.allocate(array.nbytes)
        memory.view(address, array.nbytes)[:] = array.view("u1")
        addresses.append(address)
    parameters = struct.pack(f"<{len(addresses)}QI", *addresses, n)
    module.entries["k"].launch(-(-n // 64), 64, parameters)
    return memory.view(addresses[-1], out.nbytes).view(out.dtype).copy()


# ---- exact arithmetic

DIGITS = {"f16": (11, -24, 16), "f32": (24, -149, 128),
          "f64": (53, -1074, 1024), "tf32": (11, -136, 128)}  # fmt: skip


def rounded(x: Fraction, kind: str, mode: str = "rn", negative_zero: bool = False) -> float:
    """A rational number rounded to a type, as a Python float; modes rn and rna."""
    digits, least, most = DIGITS[kind]
    if x == 0:
        return -0.0 if negative_zero else 0.0
    sign, x = (-1 if x < 0 else 1), abs(x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    while Fraction(2) ** exponent > x:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= x:
        exponent += 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    whole, rest = divmod(x, unit)
    up = rest * 2 > unit or (rest * 2 == unit and (mode == "rna" or whole % 2 == 1))
    result = (whole + up) * unit
    if result >= Fraction(2) ** most:
        return sign * float("inf")
    return sign * float(result)


def finite(*numbers: Any) -> bool:
    return all(isfinite(x) for x in numbers)


NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


def canonical(x: Any, kind: str) -> Any:
    """The value as NumPy's scalar, with the one NaN of the hardware."""
    number = np.array(x, NUMPY[kind])
    if np.isnan(number) and kind in NAN:
        number = np.array(NAN[kind], f"u{number.itemsize}").view(number.dtype)
    return number[()]


# ---- whole kernels

_REGISTERS = (
    ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .f64 %d<20>; "
    ".reg .b64 %rd<40>; .reg .b64 %a<10>; .reg .b32 %i, %t, %b;"
)


@dataclass
class Result:
    """What `run` returns: the report of the launch, the memory, the module, and addresses."""

    report: Any
    memory: Memory
    module: Module
    addresses: list[int]


def kernel(body: str, arguments: Sequence[Any], before: str = "", target: str = "sm_90") -> str:
    """A kernel `k` whose registers %a0, %a1, ... are its arguments: pointers, or numbers.

    %t is the thread in its block, %b the block, %i the thread in the grid.
    """
    declared, loads = [], []
    for k, argument in enumerate(arguments):
        size = 8 if isinstance(argument, np.ndarray) else np.asarray(argument).itemsize
        declared.append(f".param .b{size * 8} p{k}")
        loads.append(f"    ld.param.b{size * 8} %a{k}, [p{k}];")
    return (
        HEAD.format(target=target)
        + before
        + f"\n.visible .entry k({', '.join(declared)})\n{{\n    {_REGISTERS}\n"
        + "\n".join(loads)
        + "\n    mov.u32 %t, %tid.x;\n    mov.u32 %b, %ctaid.x;\n    mov.u32 %r39, %ntid.x;\n"
        + "    mad.lo.u32 %i, %b, %r39, %t;\n"
        + body
        + "\n    ret;\n}\n"
    )


def pack(arguments: Sequence[Any]) -> bytes:
    """Parameters of a kernel: numbers of NumPy, at multiples of their sizes."""
    data = b""
    for argument in arguments:
        size = argument.itemsize
        data += bytes(-len(data) % size) + argument.tobytes()
    return data


def run(
    body: str, *arguments: Any, grid: Any = 1, block: Any = 32, shared: int = 0, before: str = "",
    target: str = "sm_90", memory: Memory | None = None,
) -> Result:  # fmt: skip
    """Runs a kernel. Arrays are copied to memory before, and back after it."""
    memory = memory or Memory()
    module = Module(kernel(body, arguments, before, target), memory)
    values = []
    placed = []
    for k, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            address = memory.allocate(argument.nbytes, name=f"a{k}")
            memory.view(address, argument.nbytes)[:] = argument.reshape(-1).view("u1")
            placed.append((address, argument))
            values.append(np.uint64(address))
        else:
            values.append(argument)
    entry = module.entries["k"]
    report = entry.launch(grid, block, pack(values), shared=shared)
    for address, argument in placed:
        argument.reshape(-1).view("u1")[:] = memory.view(address, argument.nbytes)
    return Result(report, memory, module, [address for address, _ in placed])

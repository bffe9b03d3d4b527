"""The values of `drjit.jit.target.simd.values` in the code of a thread of a GPU, and what that has
besides: the threads of its warp and block, shared memory, and instructions for small matrices.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..simd import loops
from ..simd.ir import BITS, BYTES, MEMORY, constant
from ..simd.reduction import neutral_number
from ..simd.values import Carried, Code, Pointer, Value
from .function import DYNAMIC, WARP, GpuFunction


def in_register(code: str) -> str:
    """Returns the type as which elements of memory are loaded: masks are bytes."""
    return "u8" if code == "mask" else code


class GpuPointer(Pointer):
    """The address of an element, in `shared` memory or in that of the GPU. While a kernel runs,
    nothing changes what is `constant`."""

    __slots__ = ("constant", "kind", "shared")

    def __init__(
        self, f: Any, code: str, name: str, *, shared: bool = False, constant: bool = False
    ) -> None:
        super().__init__(f, code, name)
        self.shared, self.constant = shared, constant
        self.kind = "ptr addrspace(3)" if shared else "ptr"

    def like(self, name: str) -> "GpuPointer":
        return GpuPointer(self.f, self.code, name, shared=self.shared, constant=self.constant)

    def of(self, code: str) -> "GpuPointer":
        """Returns the same address, of elements of another type."""
        return GpuPointer(self.f, code, self.name, shared=self.shared, constant=self.constant)

    def __add__(self, offset: Any) -> "GpuPointer":
        """The address some elements further; offsets of 32 bits have a sign in shared memory."""
        kind = "i32" if self.shared else "i64"
        if isinstance(offset, Value):
            if not self.shared and offset.code != "i32":
                offset = offset.cast("i64")
            kind = offset.kind
        elif not offset:
            return self
        place = f"{self.kind} {self}, {kind} {offset}"
        return self.like(self.f.op(f"getelementptr {MEMORY[self.code]}, {place}"))

    def load(
        self, lanes: int = 0, mask: Any = None, align: int = 0, volatile: bool = False
    ) -> Value:
        """Loads an element, or several consecutive ones, at a multiple of their size or of `align`.
        A `volatile` load sees what other blocks have written."""
        result = Value(self.f, in_register(self.code), lanes, "")
        align = align or max(lanes, 1) * BYTES[self.code]
        how = ", !invariant.load !0" if self.constant else ""
        load = "load volatile" if volatile else "load"
        text = f"{load} {result.kind}, {self.kind} {self}, align {align}{how}"
        return result.like(self.f.op(text))

    def store(self, x: Value, mask: Any = None, align: int = 0, volatile: bool = False) -> None:
        """Stores an element, or several, as they are loaded."""
        align = align or max(x.lanes, 1) * BYTES[self.code]
        store = "store volatile" if volatile else "store"
        self.f.do(f"{store} {x.kind} {x}, {self.kind} {self}, align {align}")

    def add(self, x: Value) -> Value:
        """Adds a number atomically; returns what was there."""
        return x.like(self.f.op(f"atomicrmw add {self.kind} {self}, {x.kind} {x} monotonic"))

    def set_bits(self, x: Value) -> None:
        """Sets the bits of an integer atomically."""
        self.f.op(f"atomicrmw or {self.kind} {self}, {x.kind} {x} monotonic")


class GpuCode(Code):
    """Code of one thread in a function under construction. Shared memory belongs to `module`."""

    f: GpuFunction

    def __init__(self, f: GpuFunction, module: Any) -> None:
        super().__init__(f)
        self.module = module

    # ---- Constants and memory

    def number(self, code: str, x: float) -> Value:
        """Returns a number as elements of a type have it in registers."""
        code = in_register(code)
        return Value(self.f, code, 0, constant(code, x))

    def flag(self, x: bool) -> Value:
        """Returns a condition that is known."""
        return Value(self.f, "mask", 0, constant("mask", x))

    def neutral(self, op: str, code: str, lanes: int = 0) -> Value:
        """Returns the neutral number of a reduction."""
        x = neutral_number(op, code)
        return self.full(in_register(code), lanes, x) if lanes else self.number(code, x)

    def vector(self, xs: Sequence[Value]) -> Value:
        """Returns a vector of some numbers."""
        result = Value(self.f, xs[0].code, len(xs), "poison")
        for k, x in enumerate(xs):
            text = f"insertelement {result.kind} {result}, {x.kind} {x}, i32 {k}"
            result = result.like(self.f.op(text))
        return result

    def splat(self, x: Value, lanes: int) -> Value:
        """Returns a number in all lanes of a vector."""
        return Value(self.f, x.code, lanes, loops.splat(self.f, x.kind, lanes, x.name))

    def origin(self, code: str, operand: Any) -> GpuPointer:
        """Returns where an operand begins in the memory of the GPU, given the words with its buffer
        and its position."""
        place = GpuPointer(self.f, code, self.f.pointer(operand.buffer))
        return place + self.word(self.f.word(operand.offset))

    def dynamic(self) -> GpuPointer:
        """Returns the address of the dynamic shared memory, in bytes."""
        return GpuPointer(self.f, "u8", DYNAMIC, shared=True)

    def shared(self, name: str, code: str, count: int) -> GpuPointer:
        """Returns shared memory for some elements, which is declared on first use."""
        self.module.globals[f"@{name}"] = (
            f"@{name} = internal addrspace(3) global [{count} x {MEMORY[code]}] undef, align 16"
        )
        return GpuPointer(self.f, code, f"@{name}", shared=True)

    # ---- Threads

    def special(self, name: str) -> Value:
        """Returns a special register."""
        return Value(self.f, "u32", 0, self.f.special(name))

    def once(self, key: object, compute: Callable[[], Any]) -> Any:
        """Returns what a function computes in the entry block, when it is first asked for."""
        f = self.f
        if key not in f.computed:
            before, f.hoisting = f.hoisting, True
            f.computed[key] = compute()
            f.hoisting = before
        return f.computed[key]

    @property
    def tid(self) -> Value:
        """The number of the thread in its block, of 32 bits."""
        return self.special("tid.x")

    @property
    def lane(self) -> Value:
        """The number of the thread in its warp."""
        return self.once("lane", lambda: self.tid & WARP - 1)

    @property
    def warp(self) -> Value:
        """The number of the thread's warp in the block."""
        return self.once("warp", lambda: self.tid >> 5)

    @property
    def is_first(self) -> Value:
        """Whether the thread is the first of its block."""
        return self.once("is first", lambda: self.tid == 0)

    def thread(self) -> Value:
        """Returns the number of the thread in its block."""
        return self.once("thread", lambda: self.tid.cast("i64"))

    def block(self) -> Value:
        """Returns the number of the block."""
        return self.once("block", lambda: self.special("ctaid.x").cast("i64"))

    def any(self, flag: Value) -> Value:
        """Returns whether a condition holds in any thread of the warp."""
        return flag.like(self.f.vote("any", flag.name))

    def ballot(self, flag: Value) -> Value:
        """Returns the threads of the warp in which a condition holds, as bits."""
        name = self.f.op(f"call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 {flag})")
        return Value(self.f, "u32", 0, name)

    def shuffled(self, how: str, x: Value, by: object) -> Value:
        """Returns the element of another thread of the warp: `down` is the one that many places
        further, `up` the one before, `bfly` the one whose number differs by some bits, `idx` the
        one with a number. `down` and `up` return the thread's own element where there is no other
        one."""
        limit = 0 if how == "up" else WARP - 1

        def word(w: Value) -> Value:
            operands = f"i32 -1, i32 {w}, i32 {by}, i32 {limit}"
            return w.like(self.f.op(f"call i32 @llvm.nvvm.shfl.sync.{how}.i32({operands})"))

        if BITS[x.code] == 64:
            halves = x.bits("u32", 2).elements()
            return self.vector([word(w) for w in halves]).bits(x.code)
        w = as_integer(x)
        return word(w.cast("u32")).cast(w.code).bits(x.code)

    # ---- Operations

    def call(self, name: str, x: Value, *options: str) -> Value:
        """Returns the result of a function of LLVM's of integers, such as `ctpop`."""
        operands = ", ".join((f"{x.kind} {x}", *options))
        return x.like(self.f.op(f"call {x.kind} @llvm.{name}.{x.kind}({operands})"))

    def most(self, x: Value, y: int) -> Value:
        """Returns the larger of two integers with a sign."""
        return self.call("smax", x, f"{x.kind} {y}")

    def tf32(self, x: Value) -> Value:
        """Returns a number in single precision rounded to 11 bits, as its bits."""
        text = f"call i32 @llvm.nvvm.f2tf32.rna(float {x})"
        return Value(self.f, "u32", 0, self.f.op(text))

    def matrices(self, place: GpuPointer, count: int, *, turned: bool = False) -> list[Value]:
        """Loads two or four matrices of 8 x 8 halves, or their transposes (`ldmatrix`)."""
        kind, how = f"{{{', '.join(['i32'] * count)}}}", ".trans" if turned else ""
        name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{how}.b16.p3"
        x = self.f.op(f"call {kind} {name}({place.kind} {place})")
        parts = [self.f.op(f"extractvalue {kind} {x}, {k}") for k in range(count)]
        return [Value(self.f, "u32", 0, part).bits("f16", 2) for part in parts]

    def multiplied(self, name: str, ab: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """Returns the accumulators after `mma`, whose operands are of one type."""
        of, x = sums[0].kind, ab[0].kind
        kind = f"{{{', '.join([of] * len(sums))}}}"
        operands = ", ".join([f"{x} {v}" for v in ab] + [f"{of} {v}" for v in sums])
        found = self.f.op(f"call {kind} @llvm.nvvm.mma.{name}({operands})")
        return [v.like(self.f.op(f"extractvalue {kind} {found}, {k}")) for k, v in enumerate(sums)]

    # ---- What the hardware does while threads go on

    def assembly(self, text: str, constraints: str, *operands: str, kind: str = "void") -> str:
        """Returns the result of an instruction in PTX, of which LLVM knows only the operands."""
        call = f'call {kind} asm sideeffect "{text}", "{constraints}"({", ".join(operands)})'
        return self.f.op(f"{call} convergent") if kind != "void" else self.f.do(call) or ""

    def shared_address(self, place: GpuPointer) -> Value:
        """Returns an address of shared memory as a number."""
        return Value(self.f, "u32", 0, self.f.op(f"ptrtoint {place.kind} {place} to i32"))

    def _at_barrier(self, text: str, place: GpuPointer, *more: object) -> None:
        """Does something with a barrier (`mbarrier`), a word of shared memory."""
        operands = [f"{place.kind} {place}", *[f"i32 {x}" for x in more]]
        self.assembly(text, f"r{',r' * len(more)},~{{memory}}", *operands)

    def start_barrier(self, place: GpuPointer, arrivals: int) -> None:
        """Begins the first phase of a barrier, which ends after some arrivals, as do those after
        it."""
        self._at_barrier("mbarrier.init.shared::cta.b64 [$0], $1;", place, arrivals)

    def publish_barriers(self) -> None:
        """Lets the hardware that copies see new barriers."""
        self.assembly("fence.proxy.async.shared::cta;", "~{memory}")

    def arrive(self, place: GpuPointer) -> None:
        """Arrives at a barrier."""
        self._at_barrier("mbarrier.arrive.shared::cta.b64 _, [$0];", place)

    def expect_bytes(self, place: GpuPointer, count: int) -> None:
        """Arrives at a barrier, whose phase does not end before some bytes are copied."""
        text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
        self._at_barrier(text, place, count)

    def await_barrier(self, place: GpuPointer, parity: Value) -> None:
        """Waits until a phase of a barrier has ended; the first one is even."""
        wait = "mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2;"
        text = f"{{ .reg .pred p; {wait} selp.u32 $0, 1, 0, p; }}"

        def waits(_: list) -> Value:
            operands = f"{place.kind} {place}", f"i32 {parity}"
            ended = self.assembly(text, "=r,r,r,~{memory}", *operands, kind="i32")
            return Value(self.f, "u32", 0, ended) == 0

        for _ in self.during(waits, []):
            pass

    def start_copy(
        self, tensor: GpuPointer, at: Sequence[Value], to: GpuPointer, barrier: GpuPointer
    ) -> None:
        """Starts to copy a box of a tensor, given by its map, to shared memory; a barrier counts
        the bytes."""
        where = "shared::cluster.global.mbarrier::complete_tx::bytes"
        text = f"cp.async.bulk.tensor.3d.{where} [$0], [$1, {{$2, $3, $4}}], [$5];"
        operands = [f"{to.kind} {to}", f"ptr {tensor}", *[f"i32 {x.cast('i32')}" for x in at]]
        operands.append(f"{barrier.kind} {barrier}")
        self.assembly(text, "r,l,r,r,r,r,~{memory}", *operands)

    def multiplied_by_group(
        self, ab: Sequence[Value], turned: tuple[bool, bool], sums: Sequence[Value]
    ) -> list[Value]:
        """Returns accumulators to which the warpgroup begins to add the product of operands in
        shared memory, given by their descriptions: 64 rows and a depth of 16 (`wgmma`). Operands
        may be `turned`: then, rows of shared memory are along the rows of A, or columns of B."""
        n = len(sums)
        shape = f"m64n{2 * n}k16.f32.f16.f16"
        numbers, (a, b) = ", ".join([f"${k}" for k in range(n)]), [int(x) for x in turned]
        product = f"wgmma.mma_async.sync.aligned.{shape} {{{numbers}}}, ${2 * n}, ${2 * n + 1}"
        text = f"{{ .reg .pred p; setp.eq.u32 p, 0, 0; {product}, p, 1, 1, {a}, {b}; }}"
        return self._changed(text, sums, ab)

    def begin_products(self) -> None:
        """Lets the products that follow use registers and shared memory."""
        self.f.do("call void @llvm.nvvm.wgmma.fence.sync.aligned()")

    def end_products(self, others: int) -> None:
        """Makes a group of the products since the last one, and waits for all but some groups."""
        self.f.do("call void @llvm.nvvm.wgmma.commit_group.sync.aligned()")
        self.f.do(f"call void @llvm.nvvm.wgmma.wait_group.sync.aligned(i64 {others})")

    def await_products(self, sums: Sequence[Value]) -> list[Value]:
        """Returns accumulators when all products have ended."""
        return self._changed("wgmma.wait_group.sync.aligned 0;", sums)

    def _changed(
        self, text: str, sums: Sequence[Value], words: Sequence[Value] = ()
    ) -> list[Value]:
        """Returns numbers in registers that an instruction changes."""
        n = len(sums)
        kind = f"{{{', '.join(['float'] * n)}}}"
        registers = ["=f"] * n + [f"{k}" for k in range(n)] + ["l"] * len(words)
        operands = [*[f"float {x}" for x in sums], *[f"i64 {x}" for x in words]]
        found = self.assembly(text, f"{','.join(registers)},~{{memory}}", *operands, kind=kind)
        return [x.like(self.f.op(f"extractvalue {kind} {found}, {k}")) for k, x in enumerate(sums)]

    # ---- Elements that may not exist

    def within(self, limits: Sequence[tuple[Value, int]]) -> Value | None:
        """Returns whether numbers are below their limits; None if there are none."""
        inside = None
        for number, limit in limits:
            inside = number < limit if inside is None else inside & (number < limit)
        return inside

    def element(
        self, base: GpuPointer, at: Value, limits: Sequence[tuple[Value, int]] = ()
    ) -> Value:
        """Returns an element of memory, zero if a number is not below its limit."""
        inside, at = self.within(limits), at.bits("i32")
        if inside is None:
            return (base + at).load()
        x = (base + self.select(inside, at, 0)).load()
        return self.select(inside, x, 0)

    # ---- Loops

    def during(self, condition: Callable[[list], Value], carried: list[Carried]) -> Iterator[None]:
        """Runs a body as long as a condition on the carried values is true."""
        like = list(carried)

        def take(names: list[str]) -> None:
            carried[:] = [x.like(name) for x, name in zip(like, names, strict=True)]

        def holds(names: list[str]) -> str:
            take(names)
            return condition(carried).name

        with loops.during(self.f, holds, [(x.kind, x.name) for x in like]) as names:
            yield
            names[:] = [x.name for x in carried]
        take(names)


def as_integer(x: Value) -> Value:
    """Returns the bits of a number as an integer without a sign."""
    return x.bits(f"u{max(BITS[x.code], 8)}")

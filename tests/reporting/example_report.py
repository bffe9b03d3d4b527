"""Data of a report as `page` takes it, made up but plausible: a training loop on three threads."""

import math
import random
from typing import Any

PATH = "/home/ada/train.py"
SOURCE = '''\
"""Fits the radii of soft spheres to a picture."""

import drjit as dr
from drjit.llvm.ad import Float, UInt, PCG32

STEPS = 200


@dr.syntax
def march(x, y, radius):
    """Walks along a ray until it is near a sphere."""
    t = Float(0)
    i = UInt(0)
    while i < 24:
        distance = dr.sqrt(x * x + y * y + t * t) - radius
        if distance > 0.01:
            t += distance
        else:
            t -= dr.log(dr.abs(distance))
        i += 1
    return t


def shade(t, light):
    falloff = dr.exp(-0.3 * t)  # </script> is text here, as is <b>
    return falloff * light + 0.1


def loss(image, target):
    error = dr.detach(image) - target
    return dr.mean(error * error)


def main():
    radius = Float(1.0, 2.0, 3.0)
    dr.enable_grad(radius)
    rng = PCG32(1 << 16)
    for step in range(STEPS):
        x, y = rng.next_float32(), rng.next_float32()
        t = march(x, y, dr.gather(Float, radius, UInt(x * 3)))
        image = shade(t, light=step * 0.01)
        value = loss(image, target=0.5)
        dr.backward(value)
        radius -= 0.1 * radius.grad
        print(step, value)


main()
'''.splitlines()

PLACES: list[list] = [["", 0, ""]] + [
    [PATH, line, name]
    for line, name in (
        (12, "march"), (14, "march"), (15, "march"), (16, "march"), (17, "march"), (19, "march"),
        (20, "march"), (25, "shade"), (26, "shade"), (30, "loss"), (31, "loss"), (35, "main"),
        (39, "main"), (40, "main"), (41, "main"), (42, "main"), (44, "main"), (43, "main"),
        (45, "main"), (36, "main"),
    )
]  # fmt: skip

MARCH = """\
def kernel(i, p):
    v0 = active(i)
    v1 = load(f32, p[1], i)
    v2 = load(f32, p[2], i)
    v3 = load(f32, p[3], i)
    c0 = literal(f32, p[4])
    c1 = literal(u32, p[5])
    v4 = v1 * v1
    v5 = fma(v2, v2, v4)
    v6 = c1
    v7 = c0
    v8 = v0
    v9 = v6 < u32(24)
    v8 = v8 & v9
    while any_lane(v8):
        v10 = fma(v7, v7, v5)
        v11 = sqrt(v10)
        v12 = v11 - v3
        v13 = v12 > f32(0.01)
        v14 = v13 & v8
        v15 = ~v13 & v8
        v16 = v7
        if any_lane(v14):
            v17 = v7 + v12
            v16 = select(v14, v17, v16)
        if any_lane(v15):
            v18 = abs(v12)
            v19 = log(v18)
            v20 = v7 - v19
            v16 = select(v15, v20, v16)
        v21 = v6 + u32(1)
        v6 = select(v8, v21, v6)
        v7 = select(v8, v16, v7)
        v22 = v6 < u32(24)
        v8 = v8 & v22
    store(f32, p[6], i, v7)
""".splitlines()
MARCH_PLACES = [0, 0, 13, 13, 14, 1, 1, 3, 3, 2, 1, 2, 2, 2, 2] + [3] * 3 + [4] * 4 + [5] * 3
MARCH_PLACES += [6] * 5 + [7, 7, 5, 2, 2, 14]
NAMES = {"v1": "x", "v2": "y", "v3": "radius", "v6": "i", "v7": "t", "v12": "distance", "v16": "t"}
TITLES = (
    "march", "shade", "loss", "backward", "gradient of march", "next_float32", "gather", "update",
    "mean", "print", "light = 0.01", "light = 0.02",
)  # fmt: skip
BOUNDS = ("latency", "memory", "memory", "arithmetic", "arithmetic", "memory", "memory", "launch",
          "launch", "launch", "memory", "memory")  # fmt: skip


def example(events: int = 3000, variables: int = 40) -> dict[str, Any]:
    """Returns the data of a report with so many events, and variables in its graph."""
    chance = random.Random(1)
    kernels = [_kernel(k, chance) for k in range(12)]
    shown, end = _events(events, chance)
    return {
        "version": 1,
        "program": {
            "command": "train.py --steps 200", "argv": ["train.py", "--steps", "200"],
            "python": "3.11.7", "drjit": "1.0.0", "platform": "Linux x86_64",
            "device": "LLVM (2 threads, AVX2)", "threads": 2, "started": "2026-03-02T10:15:00",
            "seconds": end / 1e6, "ended": "interrupted",
            "error": "Traceback (most recent call last):\n"
            f'  File "{PATH}", line 46, in main\n    print(step, value)\nKeyboardInterrupt\n',
            "notes": [
                "Listings of the 6 kernels that cost most are kept, of 12.",
                "Events beyond 20,000 are merged with their neighbours.",
            ],
        },
        "files": {PATH: SOURCE},
        "places": PLACES,
        "threads": ["main", "compiler 1", "worker 1", "worker 2"],
        "events": shown,
        "memory": [
            [round(end * k / 400), int(2e7 + 3e6 * (k % 9) + 4e4 * k)] for k in range(400)
        ],
        "kernels": kernels,
        "machine": {"bandwidth": 2.1e10, "flops": {"f32": 1.9e11, "f64": 9.5e10, "f16": 1.9e11},
                    "measured": "2026-03-01", "threads": 2},
        "why": _why(),
        "lanes": [_lanes(chance)],
        "derivatives": [_graph(variables, "backward"), _graph(12, "forward")],
        "lost": [
            {"kind": "detach", "place": 10, "count": 200, "text": "dr.detach cuts the graph here: "
             "`image` has no gradient. Leave it out to differentiate the loss."},
            {"kind": "integer", "place": 14, "count": 200, "text": "UInt(x * 3) is an index: "
             "integers have no derivative. Interpolate where the position matters."},
        ],
    }  # fmt: skip


def _kernel(k: int, chance: random.Random) -> dict[str, Any]:
    seconds = 1.8 / (1.6**k) * chance.uniform(0.8, 1.2)
    share = chance.uniform(0.05, 0.9)
    text, places = (MARCH, MARCH_PLACES) if k == 0 else _straight(k, chance)
    moved = 2.1e10 * seconds * share
    operations = moved * (40, 2, 0.5, 12, 20, 0.3, 0.25, 0.01, 0.1, 0.05, 2, 2)[k]
    kernel = {
        "name": f"k{chance.getrandbits(64):016x}",
        "title": f"train.py:{PLACES[places[4]][1]} {TITLES[k]}", "tier": "compiled",
        "device": "LLVM", "state": "memory" if k % 3 else "disk", "launches": 200 if k < 9 else 4,
        "sizes": [[65536, 200]] if k != 7 else [[3, 200]], "seconds": seconds,
        "compile_seconds": 0.02 + 0.01 * k, "read": int(moved * 0.7), "written": int(moved * 0.3),
        "operations": min(operations, 1.7e11 * seconds), "bound": BOUNDS[k], "share": share,
        "gain": seconds * (1 - share), "modelled": False,
        "text": text, "places": places, "names": NAMES if k == 0 else {"v3": "falloff"},
        "ir": [], "ir_lines": [], "asm": [], "asm_lines": [], "asm_kind": "x86-64",
        "words": ["8 lanes a packet (AVX2)", "3 values do not fit into registers: 6 loads and "
                  "stores of the stack in the loop", "The loop is not unrolled"],
    }  # fmt: skip
    if k < 6:
        _translate(kernel)
    elif k > 8:
        kernel.update(state="numpy", compile_seconds=0, words=["It ran on NumPy: it is small."])
    return kernel


def _straight(k: int, chance: random.Random) -> tuple[list[str], list[int]]:
    """The text of a kernel without loops, and the place of each of its lines."""
    lines = ["def kernel(i, p):", "    v0 = active(i)", "    v1 = load(f32, p[1], i)"]
    lines += ["    v2 = load(f32, p[2], i)", "    c0 = literal(f32, p[3])"]
    if k > 9:  # the last two differ by a statement
        chance = random.Random(10)
    for n in range(3, 14 + 2 * min(k, 10)):
        a, b = f"v{chance.randrange(1, n)}", f"v{n - 1}"
        right = chance.choice([f"{a} * {b}", f"{a} + {b}", f"fma({a}, {b}, c0)", f"exp({b})"])
        lines.append(f"    v{n} = {right}")
    if k == 11:
        lines.insert(12, "    v99 = exp(v7)")
    lines.append(f"    store(f32, p[4], i, v{n})")
    first = 7 + k % 4
    return lines, [0, 0] + [first + (n * 3) // len(lines) for n in range(len(lines) - 2)]


def _translate(kernel: dict[str, Any]) -> None:
    """Adds LLVM IR and machine code that look like those of the text."""
    ir, asm = kernel["ir"], kernel["asm"]
    lines_ir, lines_asm = kernel["ir_lines"], kernel["asm_lines"]

    def emit(code: list[str], lines: list[int], line: int, *texts: str) -> None:
        code.extend(texts)
        lines.extend([line] * len(texts))

    emit(ir, lines_ir, 1, "; ModuleID = 'kernel'", 'target triple = "x86_64-linux-gnu"', "")
    emit(ir, lines_ir, 1, f"define void @{kernel['name']}(i32 %0, i32 %1, ptr %2) {{", "entry:")
    emit(asm, lines_asm, 1, f"{kernel['name']}:", "\tpushq\t%rbp", "\tsubq\t$72, %rsp")
    for n, text in enumerate(kernel["text"][1:], 2):
        name, _, right = text.strip().partition(" = ")
        if text.strip().startswith(("while", "if")):
            emit(
                ir, lines_ir, n, f"  br i1 %any{n}, label %body{n}, label %end{n}", "", f"body{n}:"
            )
            emit(asm, lines_asm, n, "\tvmovmskps\t%ymm1, %eax", "\ttestl\t%eax, %eax",
                 f"\tje\t.LBB0_{n}", f".LBB0_{n + 1}:")  # fmt: skip
        elif "load" in right:
            emit(ir, lines_ir, n, f"  %a{n} = getelementptr inbounds float, ptr %2, i32 %0",
                 f"  %{name} = load <8 x float>, ptr %a{n}, align 32")  # fmt: skip
            emit(asm, lines_asm, n, f"\tvmovups\t(%rdx,%rax,4), %ymm{n % 16}")
        elif right:
            emit(ir, lines_ir, n, f"  %{name}.{n} = fmul contract <8 x float> %v1, %v{n} ; {right}")
            emit(asm, lines_asm, n, f"\tvmulps\t%ymm{n % 7}, %ymm{n % 5}, %ymm{n % 16}")
            if "log" in right or "exp" in right:
                emit(asm, lines_asm, n, *(
                    f"\tvfmadd213ps\t.LCPI0_{k}(%rip), %ymm{k % 9}, %ymm{n % 16}  # polynomial"
                    for k in range(9)
                ))  # fmt: skip
        else:
            emit(ir, lines_ir, n, f"  store <8 x float> %v{n}, ptr %out, align 32, !dbg !{n}")
            emit(asm, lines_asm, n, "\tvmovups\t%ymm0, (%rcx,%rax,4)")
    emit(ir, lines_ir, 0, "  ret void", "}")
    emit(asm, lines_asm, 0, "\taddq\t$72, %rsp", "\tpopq\t%rbp", "\tretq")


def _events(count: int, chance: random.Random) -> tuple[list[list], int]:
    """Steps of a training loop: tracing, scheduling, kernels on two workers, waits."""
    events: list[list] = []
    t = 0
    while len(events) < count:
        step = len(events) // 15
        first = step < 2
        for kind, place, kernel in (("trace", 15, -1), ("trace", 16, -1), ("traverse", 18, 3)):
            length = chance.randrange(200, 900)
            events.append([kind, 0, t, t + length, place, -1, ""])
            t += length + 20
            plan = chance.randrange(150, 400)
            events.append(["schedule", 0, t, t + plan, place, -1, ""])
            if first:
                events.append(["compile" if kernel < 0 else "load", 1, t + 60, t + 9000, place,
                               (step * 3 + place) % 12, ""])  # fmt: skip
                t += 9000
            t += plan
            for worker, part in ((2, 1.0), (3, chance.uniform(0.4, 1.0))):
                busy = int(chance.randrange(900, 2600) * part)
                events.append(["kernel", worker, t + 30, t + 30 + busy, place,
                               (0, 4, 3)[("trace", "trace", "traverse").index(kind)]
                               if place != 16 else 1, ""])  # fmt: skip
        events.append(["wait", 0, t, t + 2700, 19, -1, "value is printed"])
        t += 2720
    # A worker runs one kernel after the other.
    free = [0, 0, 0, 0]
    for event in events:
        late = max(0, free[event[1]] - event[2]) if event[0] == "kernel" else 0
        event[2] += late
        event[3] += late
        free[event[1]] = event[3]
    events.sort(key=lambda e: e[2])
    return events[:count], max(e[3] for e in events[:count])


def _why() -> list[dict[str, Any]]:
    first = [{"text": "the first kernel with a loop", "place": 2, "fix": ""}]
    number = [
        {"text": "`light` is a Python number that became part of the code: 0.02 was 0.01",
         "place": 15, "fix": "`dr.opaque(Float, light)` makes it an input of the kernel."},
        {"text": "one operation more: exp", "place": 8, "fix": ""},
    ]  # fmt: skip
    return [
        {"kernel": 0, "place": 15, "nearest": -1, "time": 900, "seconds": 0.031, "reasons": first},
        {"kernel": 11, "place": 15, "nearest": 10, "time": 91000, "seconds": 0.017,
         "reasons": number},
        {"kernel": 10, "place": 15, "nearest": 1, "time": 190000, "seconds": 0.016,
         "reasons": number[1:]},
    ]  # fmt: skip


def _lanes(chance: random.Random, lanes: int = 16, rounds: int = 24) -> dict[str, Any]:
    """Runs the kernel `march` on some lanes; in one, a distance is zero, and its log infinite."""
    steps: list[list] = []
    every = [1] * lanes
    x = [round(chance.uniform(0, 1), 4) for _ in range(lanes)]
    y = [round(chance.uniform(0, 1), 4) for _ in range(lanes)]
    radius = [float(1 + n % 3) for n in range(lanes)]
    x[5], y[5], radius[5] = 0.6, 0.8, 1.0

    def note(line: int, at: list[int], name: str, values: list, active: list[int]) -> int:
        steps.append([line, at, name, [_text(v) for v in values], list(active)])
        return len(steps) - 1

    inputs = [note(line, [], f"v{line - 2}", values, every)
              for line, values in ((3, x), (4, y), (5, radius))]  # fmt: skip
    square = [a * a for a in x]
    note(8, [], "v4", square, every)
    v5 = [b * b + s for b, s in zip(y, square, strict=True)]
    inputs.append(note(9, [], "v5", v5, every))
    t = [0.0] * lanes
    limit = [rounds - (n * 5) % 17 for n in range(lanes)]
    chain: list[int] = []
    for k in range(rounds):
        at, on = [k], [int(k < limit[n] or n == 5) for n in range(lanes)]
        squares = [a * a + b for a, b in zip(t, v5, strict=True)]
        roots = [math.sqrt(s) if s >= 0 else math.nan for s in squares]
        distance = [r - q for r, q in zip(roots, radius, strict=True)]
        distance[5] = 0.0 if k == 0 else distance[5]
        far = [int(d > 0.01) for d in distance]
        near = [1 - f for f in far]
        path = [note(16, at, "v10", squares, on), note(17, at, "v11", roots, on)]
        path.append(note(18, at, "v12", distance, on))
        note(19, at, "v13", far, on)
        one = [a & b for a, b in zip(on, far, strict=True)]
        other = [a & b for a, b in zip(on, near, strict=True)]
        if any(one):
            note(24, at, "v17", [a + d for a, d in zip(t, distance, strict=True)], one)
        logs = [_log(abs(d)) for d in distance]
        if any(other):
            path.append(note(27, at, "v18", [abs(d) for d in distance], other))
            path.append(note(28, at, "v19", logs, other))
            path.append(note(29, at, "v20", [a - b for a, b in zip(t, logs, strict=True)], other))
        for n in range(lanes):
            if on[n]:
                t[n] += distance[n] * 0.3 if far[n] else -logs[n] if n == 5 else 0.01
        note(33, at, "v7", t, on)
        chain = chain or [inputs[-1], inputs[2], *path]
    note(36, [], "store", t, every)
    infinite = next(k for k, step in enumerate(steps) if "inf" in str(step[3][5]))
    return {
        "kernel": 0, "launch": 41, "size": 65536, "lanes": [40 + 3 * n for n in range(lanes)],
        "chosen": "first NaN", "steps": steps,
        "origins": [{"lane": 55, "step": infinite, "chain": [s for s in chain if s <= infinite]}],
    }  # fmt: skip


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _text(x: float) -> float | str:
    return x if isinstance(x, int) or math.isfinite(x) else str(x)


def _graph(count: int, direction: str) -> dict[str, Any]:
    """A graph of variables; the first ones are its inputs, and every ninth is out of reach."""
    chance = random.Random(count)
    operations = ("mul", "add", "sqrt", "exp", "sub", "fma", "gather", "neg")
    variables, edges = [], []
    for n in range(count):
        out = n % 9 == 7
        before = sorted({max(0, n - chance.randrange(1, 6)) for _ in range(2)}) if n > 3 else []
        edges += [[a, n, -1] for a in before if a != n]
        variables.append({
            "id": n, "op": operations[n % 8] if n > 3 else "input", "size": 65536 if n else 3,
            "type": "f32", "place": 3 + n % 16, "label": {0: "radius", 1: "x", 2: "y"}.get(n, ""),
            "norm": None if out else round(3.0 / (1 + n), 4) if n != 6 else 0.0,
            "visited": not out, "root": n == count - 1, "leaf": n < 4,
        })  # fmt: skip
    reached = [e for e in edges if variables[e[0]]["visited"] and variables[e[1]]["visited"]]
    reached.sort(key=lambda e: (e[1], e[0]), reverse=direction == "backward")
    for k, edge in enumerate(reached):
        edge[2] = k
    if direction == "forward":
        variables[-1]["root"], variables[0]["root"] = False, True
    return {"place": 18, "time": 52000, "direction": direction, "variables": variables,
            "edges": edges}  # fmt: skip

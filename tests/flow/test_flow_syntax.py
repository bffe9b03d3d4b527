"""`@dr.syntax`: programs against the same text run by Python on every lane, the variables that it
finds, closures and methods, tracebacks, and what it refuses."""

import functools
import importlib.util
import inspect
import itertools
import linecache
import sys
import textwrap
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.llvm import Array2f, Bool, Float, Float64, Int, UInt

MODES = ("evaluated", "symbolic")
_names = (f"flow_program_{k}" for k in itertools.count())


@pytest.fixture(params=MODES)
def mode(request):
    symbolic = request.param == "symbolic"
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic),
    ):
        yield request.param


def module(text, path):
    """A module with the given text, in a file."""
    name = next(_names)
    file = path / f"{name}.py"
    file.write_text("import drjit as dr\nfrom drjit.llvm import *\n" + textwrap.dedent(text))
    spec = importlib.util.spec_from_file_location(name, file)
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


# ---- Programs


def collatz(n):
    steps = n * 0
    while n != 1:
        if n & 1 == 0:
            n = n >> 1
        else:
            n = 3 * n + 1
        steps += 1
    return steps


def nested(n):
    total = n * 0
    i = n * 0
    while i < n:
        j = n * 0
        while j < i:
            if (i + j) % 3 == 0:
                total += j
            elif (i + j) % 3 == 1:
                total -= i
            j += 1
        i += 1
    return total, i


def python_loops(n):
    total = n * 0
    for k in range(4):
        if k == 2:
            continue_here = k * n
        else:
            continue_here = n - k
        for a, b in [(k, n), (n, k)]:
            if a > b:
                total += continue_here
    else:
        total += 1
    return total


def only_in_branches(n):
    if n > 3:
        y = n * 2
        unused = y + 1
        n = unused - n
    else:
        y = n - 1
    z = y + n
    while z > 10:
        t = z >> 1
        if t > 7:
            t = t - 3
        z = t
    return y, z


def test_the_compiler_warns_once(tmp_path):
    text = """
        @dr.syntax
        def f(x, n):
            known = n is 3
            while x < n:
                x += 1
            return x
    """
    with pytest.warns(SyntaxWarning) as found:
        made = module(text, tmp_path)
    assert len(found) == 1
    assert list(made.f(Int(0, 5), 3)) == [3, 5]


@pytest.mark.parametrize("f", [collatz, nested, python_loops, only_in_branches])
def test_programs(f, mode, tier):
    n = np.array([1, 2, 3, 6, 7, 11], np.int32)
    found = dr.syntax(f)(Int(n))
    expected = [f(k) for k in n.tolist()]
    if not isinstance(found, tuple):
        found, expected = (found,), [(e,) for e in expected]
    for a, e in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(a.numpy() + np.zeros(6, int), e)
    assert dr.syntax(f)(7) == f(7)


VARIABLES = ("a", "b", "c")
EXPRESSIONS = st.sampled_from(
    ["a + b", "b - c", "a * 3 - b", "c ^ a", "a + 1", "b % 7", "c - a * 2", "5 + a * 0", "n - a"]
)
CONDITIONS = st.sampled_from(["a < b", "b % 2 == 0", "c > a", "a != c", "b <= 3", "n > 4"])


@st.composite
def statements(draw, depth):
    """The lines of a block. Loops have counters of their own, so that they end."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["=", "+=", "if", "while", "local"]))
        target = draw(st.sampled_from(VARIABLES))
        if kind in ("=", "+=") or depth == 0:
            lines.append(f"{target} {kind if kind != 'if' else '='} {draw(EXPRESSIONS)}"
                         if kind in ("=", "+=") else f"{target} = {draw(EXPRESSIONS)}")  # fmt: skip
        elif kind == "local":
            lines += [f"t{depth} = {draw(EXPRESSIONS)}", f"{target} = t{depth} * 2 - {target}"]
        elif kind == "if":
            lines.append(f"if {draw(CONDITIONS)}:")
            lines += ["    " + s for s in draw(statements(depth - 1))]
            if draw(st.booleans()):
                lines.append("else:")
                lines += ["    " + s for s in draw(statements(depth - 1))]
        else:
            limit = draw(st.sampled_from(["3", "n % 4", "abs_(a) % 3"]))
            lines += [f"k{depth} = n * 0", f"while k{depth} < {limit}:"]
            lines += ["    " + s for s in draw(statements(depth - 1))]
            lines.append(f"    k{depth} += 1")
    return lines


@settings(max_examples=60)
@given(statements(3), st.booleans())
def test_random_programs(tmp_path_factory, lines, symbolic):
    body = "\n".join("    " + s for s in lines)
    # Python integers wrap as the arrays do; the remainder is that of C.
    text = f"def f(n, abs_):\n    a, b, c = n * 1, n + 2, n * 0 + 3\n{body}\n    return a, b, c\n"
    made = module(text, tmp_path_factory.mktemp("programs"))
    n = np.array([0, 1, 5, 9, 12], np.int32)
    expected = []
    with np.errstate(over="ignore"):
        for k in n:
            expected.append([int(v) for v in made.f(Number(k), abs)])
    with (
        dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic),
        dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic),
    ):
        found = dr.syntax(made.f)(Int(n), dr.abs)
    for a, e in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_array_equal(a.numpy() + np.zeros(5, int), e, err_msg=text)


class Number:
    """A 32-bit integer whose operations are those of the arrays."""

    def __init__(self, value):
        value = int(value) & 0xFFFFFFFF
        self.value = value - (1 << 32) if value >> 31 else value

    def __int__(self):
        return self.value

    def __bool__(self):
        return bool(self.value)

    def __abs__(self):
        return Number(abs(self.value))


def _operator(symbol):
    def apply(self, other):
        a, b = self.value, other.value if isinstance(other, Number) else other
        if symbol == "%":
            return Number(abs(a) % abs(b) * (1 if a >= 0 else -1) if b else 0)
        found = eval(f"a {symbol} b", {"a": a, "b": b})
        return found if isinstance(found, bool) else Number(found)

    return apply


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "mod": "%", "xor": "^", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "eq": "==", "ne": "!=",
}.items():  # fmt: skip
    setattr(Number, f"__{_name}__", _operator(_symbol))
    if _name in ("add", "mul"):
        setattr(Number, f"__r{_name}__", _operator(_symbol))


# ---- Which variables are part of the state


def labels(f):
    """The names of the state of the loops and branches of a function, in order of the calls that
    its code makes."""
    code = f.__code__
    found = []
    stack = [code]
    while stack:
        c = stack.pop(0)
        found += [k for k in c.co_consts if isinstance(k, tuple) and k and isinstance(k[0], str)]
        stack += [k for k in c.co_consts if hasattr(k, "co_consts")]
    return found


def test_variables_of_a_loop():
    @dr.syntax
    def f(x, n, unused, late):
        total, i = Float(0), UInt(0)
        temporary = x * 2
        while i < n:
            temporary = x * Float(i)
            local = temporary + 1
            total += local
            i += 1
        late = total
        return total, late

    assert ("i", "n", "total", "x") in labels(f)
    found = f(Float(1, 2), UInt(3), 0, 0)
    np.testing.assert_array_equal(found[0].numpy(), [6, 9])


def test_variables_of_a_branch():
    @dr.syntax
    def f(x, y):
        z = x + 1
        if x > 1:
            local = y * 2
            y = local + z
            w = y
        else:
            w = x
        return y, w

    assert ("x", "y", "z") in labels(f)
    assert ("w", "x", "y", "z") in labels(f)
    found = f(Float(1, 2), Float(3, 4))
    np.testing.assert_array_equal([v.numpy() for v in found], [[3, 11], [1, 11]])


def test_include_and_exclude():
    @dr.syntax
    def f(x, k, n):
        while dr.hint(x < n, include=[k], exclude=[n], label="loop", strict=True):
            x += 1
        if dr.hint(x < n, exclude=[n]):
            x += n
        return x, k

    assert ("k", "x") in labels(f)
    found = f(Float(1, 2), Float(3), 5.0)
    assert list(found[0]) == [5, 5]


def test_a_variable_without_a_value(mode):
    @dr.syntax
    def branch(n):
        if n > 2:
            y = n * 2
        return y

    @dr.syntax
    def loop(n):
        while n < 3:
            y = n
            n += 1
        return y

    @dr.syntax
    def deleted(n):
        y = 1
        del y
        while n < 3:
            n += 1
        return y  # noqa: F821

    for f in (branch, loop):
        with pytest.raises(RuntimeError, match=r"'y' does not have a value on all paths.*UInt"):
            f(UInt(1, 5))
    assert branch(5) == 10 and loop(1) == 2
    for f, n in ((branch, 1), (loop, 5), (deleted, UInt(1, 2))):
        with pytest.raises(UnboundLocalError, match="'y'"):
            f(n)


def test_a_variable_that_gets_a_value_later(mode):
    @dr.syntax
    def f(n, first):
        if dr.hint(first, mode="scalar"):
            y = n + 1
        i = UInt(0)
        while i < n:
            if i == 0:
                y = n * 10
            i += 1
        return y

    assert list(f(UInt(1, 3), True)) == [10, 30]
    with pytest.raises(RuntimeError, match="'y' does not have a value on all paths"):
        f(UInt(1, 3), False)


# ---- Functions in their surroundings

SCALE = 3


def test_closures(mode):
    offset, calls = UInt(1), UInt(0)

    def helper(x):
        return x + offset

    @dr.syntax
    def f(n, /, step=1, *, limit=5):
        """Says something."""
        nonlocal calls
        while n < limit * SCALE:
            n = helper(n) + step
            calls += 1
        return n

    assert list(f(UInt(1, 14, 20))) == [15, 16, 20]
    assert list(calls) == [7, 1, 0]
    assert set(f(UInt(1), 3, limit=2)) == {9}
    assert f.__doc__ == "Says something." and f.__name__ == "f"
    assert f.__qualname__.endswith("<locals>.f") and f.__module__ == __name__
    assert str(inspect.signature(f)) == "(n, /, step=1, *, limit=5)"
    offset = UInt(3)
    assert set(f(UInt(1))) == {17}


class Base:
    def step(self):
        return 2


class Counter(Base):
    def __init__(self):
        self.__hidden = 4

    @dr.syntax
    def count(self, n):
        while n < self.__hidden * 2:
            n += super().step()
        return n

    @staticmethod
    @dr.syntax
    def double(n):
        if n > 2:
            n = n * 2
        return n

    @classmethod
    @dr.syntax
    def owner(cls, n):
        if n > 2:
            n = n + len(__class__.__name__) + len(cls.__name__)
        return n


def test_methods(mode):
    assert list(Counter().count(UInt(1, 8))) == [9, 8]
    assert list(Counter.double(UInt(1, 8))) == [1, 16]
    assert list(Counter.owner(UInt(1, 8))) == [1, 22]


def test_attributes_and_entries(mode):
    @dr.syntax
    def f(n):
        a, entries = Array2f(0), [Float(0), Float(1)]
        while n < 5:
            a.x += 1
            a[1] += 2
            entries[0] += 1
            entries[1] = entries[0] * 2
            n += 1
        return a, entries

    a, entries = f(UInt(1, 4, 7))
    np.testing.assert_array_equal(a.numpy(), [[4, 1, 0], [8, 2, 0]])
    np.testing.assert_array_equal(entries[0].numpy(), [4, 1, 0])
    np.testing.assert_array_equal(entries[1].numpy(), [8, 2, 1])


def test_scalar_statements():
    @dr.syntax
    def f(n, verbose=None):
        if dr.hint(verbose is None, mode="scalar"):
            return n
        while dr.hint(True, mode="scalar"):
            n += 1
            if dr.hint(verbose == 3, mode="scalar"):
                break
            verbose += 1
        for k in range(10):
            if dr.hint(k < 8, mode="scalar"):
                continue
            n += k
        return n

    assert f(1) == 1
    assert list(f(UInt(1), 1)) == [1 + 3 + 17]


def test_loops_with_else(mode):
    @dr.syntax
    def f(n):
        while n < 5:
            n += 1
        else:
            n += 100
        return n

    assert list(f(UInt(1, 9))) == [105, 109]


def test_other_statements(mode):
    @dr.syntax
    def f(n):
        import math

        while n < 9:
            values = [n + k for k in range(3)]
            (first, *rest), other = values, {"a": lambda v: v + 1}
            with dr.suspend_grad() as nothing:
                n = other["a"](first)
            try:
                n += rest[5]
            except IndexError as error:
                n += len(error.args)
            match len(rest):
                case 2 as two:
                    n += two - math.floor(2.5)
            assert nothing is None
            del values
        if (m := n + 1) > 10:
            n += m
        return n, m

    found = f(UInt(1, 8))
    assert list(found[0]) == [9, 21] and list(found[1]) == [10, 11]


def test_a_variable_that_a_condition_assigns_needs_no_value_before(mode):
    @dr.syntax
    def f(x):
        while x < 20:
            if (y := x * 2) < 15:
                x = y + 1
            else:
                x += y
        return x

    assert list(f(UInt(0, 5, 30))) == [45, 33, 30]


def test_recursive():
    def f(n):
        def g(n):
            while n < 3:
                n += 1
            return n

        return g(n)

    assert list(dr.syntax(f, recursive=True)(UInt(1, 4))) == [3, 4]
    with pytest.raises(RuntimeError, match="implicit conversion to 'bool'"):
        dr.syntax(f)(UInt(1, 4))


def test_hints_reach_the_loop():
    @dr.syntax
    def f(n):
        while dr.hint(n < 3, mode="evaluated", max_iterations=-7, label="count"):
            n += 1
        return n

    with pytest.raises(RuntimeError, match=r"dr.while_loop\('count'\): 'max_iterations'"):
        f(UInt(1, 2))

    @dr.syntax
    def g(n):
        if dr.hint(n < 3, mode="nonsense"):
            n += 1
        return n

    with pytest.raises(RuntimeError, match="invalid 'mode' argument"):
        g(UInt(1, 2))
    assert dr.hint(5, mode="symbolic", max_iterations=3) == 5
    with pytest.raises(TypeError):
        dr.hint(5, speed=3)  # type: ignore[call-arg]


def test_printing(capsys):
    @dr.syntax(print_code=True, print_ast=True)
    def f(n):
        while n < 3:
            n += 1
        return n

    shown = capsys.readouterr().out
    assert [t for t in ("Input AST", "Input code", "Output AST", "Output code") if t in shown]
    assert "while n < 3:" in shown and "while_loop((n,)" in shown and "While(" in shown
    assert list(f(UInt(1))) == [3]


def test_a_branch_without_else_leaves_other_lanes_as_they_are(mode):
    """Including names that the branch only rebinds or changes in place."""

    @dr.syntax
    def f(n, m, k):
        alias = k
        if n > 1:
            n, m = n * 10, n + m
            k += 1
            k = k * 2
        return n, m, k, alias

    found = f(Float(1, 2), Float(3, 4), Float(5, 6))
    assert [list(a) for a in found] == [[1, 20], [3, 6], [5, 14], [5, 7]]


# ---- Places in the source


def test_tracebacks_show_the_lines_of_the_user(tmp_path, mode):
    made = module(
        """
        class A:
            @dr.syntax
            def f(self, n):
                # a comment
                while n < 3:
                    n += (
                        1)
                    if n > 1:
                        helper(n)
                return n

        def helper(n):
            raise KeyError("no")
        """,
        tmp_path,
    )
    with pytest.raises(KeyError) as error:
        made.A().f(UInt(0, 5))
    frames = traceback.extract_tb(error.value.__traceback__)
    ours = [(f.lineno, f.line) for f in frames if f.filename == made.__file__]
    assert ours == [
        (8, "while n < 3:"), (11, "if n > 1:"), (12, "helper(n)"),
        (16, 'raise KeyError("no")'),
    ]  # fmt: skip
    assert linecache.getline(made.__file__, 12).strip() == "helper(n)"


def test_transformed_code_comes_from_the_disk_cache_until_the_file_changes(tmp_path, monkeypatch):
    from drjit.flow.syntax import transform

    text = """
        import drjit as dr
        from drjit.llvm import *

        class A:
            def step(self, n):
                return n + 1

        class B(A):
            __secret = 3

            @dr.syntax
            def f(self, n):
                while n < self.__secret:
                    n = super().step(n)
                return n

        def around(k):
            @dr.syntax
            def g(n):
                '''Adds.'''
                if n > 1:
                    n += k
                return n
            return g
        """
    file = tmp_path / "program.py"
    ran = []
    plain = transform.transformed

    def transformed(f, *arguments):
        ran.append(f.__name__)
        return plain(f, *arguments)

    def run():
        linecache.clearcache()
        names = {"__name__": "program"}
        exec(compile(textwrap.dedent(file.read_text()), file, "exec"), names)
        g = names["around"](5)
        assert (g.__name__, g.__doc__, g.__qualname__) == ("g", "Adds.", "around.<locals>.g")
        lines = {line for *_, line in names["B"].f.__code__.co_lines() if line}
        assert lines <= set(range(12, 17))
        return names["B"]().f(Int(0, 7)), g(Int(0, 7)), names["around"](6)(Int(7))

    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(transform, "transformed", transformed)
    file.write_text(text)
    first = run()
    assert [*map(list, first)] == [[3, 7], [0, 12], [13]] and ran == ["f", "g"]
    assert [*map(list, run())] == [*map(list, first)] and ran == ["f", "g"]
    file.write_text(text.replace("__secret = 3", "__secret = 4").replace("n > 1", "n >= 0"))
    assert [*map(list, run())] == [[4, 7], [5, 12], [13]] and ran == ["f", "g"] * 2


def test_a_debugger_stops_at_the_lines_of_the_user():
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename == __file__ and event == "line":
            lines.append(linecache.getline(__file__, frame.f_lineno).strip())
        return trace

    @dr.syntax
    def f(n):
        while n < 3:
            n = n * 2
        return n

    sys.settrace(trace)
    try:
        f(UInt(1, 2))
    finally:
        sys.settrace(None)
    assert "n = n * 2" in lines and "while n < 3:" in lines and "return n" in lines


# ---- Errors


def refused(text, message, tmp_path, line=None, error=SyntaxError):
    with pytest.raises(error, match=message) as found:
        module(text, tmp_path)
    if line is not None:
        assert found.value.lineno == line + 2
        assert found.value.filename.endswith(".py")


def test_jumps_out_of_transformed_statements(tmp_path):
    refused(
        """
        @dr.syntax
        def f(n):
            while n < 3:
                n += 1
                break
        """, "use of 'break' inside a transformed 'while' loop.*mode='scalar'", tmp_path, 6,
    )  # fmt: skip
    refused(
        """
        @dr.syntax
        def f(n):
            for i in range(3):
                if n < i:
                    continue
        """, "use of 'continue' inside a transformed 'while' loop or 'if' statement", tmp_path, 6,
    )  # fmt: skip
    refused(
        """
        @dr.syntax
        def f(n):
            if n < 3:
                return 5
            return 6
        """, "use of 'return' inside a transformed 'while' loop or 'if' statement", tmp_path, 5,
    )  # fmt: skip
    refused(
        """
        @dr.syntax
        def f(n):
            while n < 3:
                for i in range(3):
                    break
                    return i
        """, "use of 'return' inside a transformed 'while' loop or 'if' statement", tmp_path, 7,
    )  # fmt: skip
    refused(
        """
        @dr.syntax
        def f(n):
            while n < 3:
                x = yield n
        """, "use of 'yield'", tmp_path, 5,
    )  # fmt: skip


def test_hints_that_make_no_sense(tmp_path):
    head = "\n@dr.syntax\ndef f(n):\n    while dr.hint({}):\n        n += 1\n"
    refused(head.format("n < 3, speed=3"), "keyword argument 'speed'", tmp_path, 4)
    refused(head.format("n < 3, include=n"), "'include' .* list of names", tmp_path, 4)
    refused(head.format("n < 3, exclude=[n.x]"), "'exclude' .* list of names", tmp_path)
    refused(head.format("mode='scalar'"), "one positional argument", tmp_path)
    for option in ("max_iterations=3", "compress=True"):
        refused(head.replace("while", "if").format(f"n < 3, {option}"), "for loops", tmp_path, 4)


@pytest.mark.parametrize("option", ["compress=True", "compress=False", "compress=None"])
def test_hints_pass_options_of_loops_on(option, mode, tmp_path):
    source = f"""
        @dr.syntax
        def f(n):
            while dr.hint(n < 5, mode={mode!r}, {option}):
                n = n * 2
            return n
        """
    assert list(module(source, tmp_path).f(UInt(1, 3, 7))) == [8, 6, 7]


def test_assignments_in_conditions(tmp_path):
    refused(
        """
        @dr.syntax
        def f(n):
            while (k := n + 1) < 3:
                n += k
        """, "assignment expression", tmp_path, 4,
    )  # fmt: skip

    @dr.syntax
    def f(n):
        while (k := n + 1) < 3:  # noqa: F841
            n += 1
        return n

    assert list(f(UInt(0, 5))) == [2, 5]


def test_functions_that_refer_to_a_changing_variable(tmp_path):
    refused(
        """
        @dr.syntax
        def f(n):
            k = n
            g = lambda: k + 1
            while n < 3:
                k += g()
                n += 1
        """, "variable 'k' changes in a loop, but 'a lambda function'.*argument", tmp_path, 6,
    )  # fmt: skip

    @dr.syntax
    def f(n):
        while n < 3:
            k = n
            g = lambda: k + 1  # noqa: B023, E731
            n = g()
        return n

    assert list(f(UInt(0, 5))) == [3, 5]


def test_what_has_no_source_or_is_no_function(monkeypatch):
    with pytest.raises(TypeError, match="lambda functions"):
        dr.syntax(lambda n: n + 1)
    with pytest.raises(TypeError, match="expected a Python function, not type"):
        dr.syntax(int)
    with pytest.raises(TypeError, match="expected a Python function, not staticmethod"):
        dr.syntax(staticmethod(collatz))
    names = {}
    exec("def f(n):\n    return n", names)
    with pytest.raises(RuntimeError, match="source of 'f' is not available"):
        dr.syntax(names["f"])

    with pytest.raises(RuntimeError, match="wrong order"):
        dr.syntax(dr.func(twice))

    # Python 3.13 and later have the text of `python -c` as the source of what `exec` compiles.
    text = ["import sys\n", "def g(n):\n", "    return n\n"]
    monkeypatch.setitem(linecache.cache, "<string>", (40, None, text, "<string>"))
    for line in (1, 2):
        exec("\n" * (line - 1) + "def f(n):\n    return n", names)
        with pytest.raises(RuntimeError, match="source of 'f' is not available"):
            dr.syntax(names["f"])
    exec("".join(text), names)
    assert dr.syntax(names["g"])(5) == 5


def twice(n):
    if n > 2:
        n = n * 2
    return n


def test_decorators_below_stay_around_the_function():
    calls = []

    def counted(f):
        @functools.wraps(f)
        def call(*args, times=1):
            calls.append(args)
            return f(*args) * times

        return call

    made = dr.syntax(counted(counted(twice)))
    assert list(made(UInt(1, 5), times=3)) == [3, 30]
    assert len(calls) == 2 and made.__name__ == "twice"
    # A decorator that does not call the function: what is below is transformed.
    assert list(dr.syntax(functools.wraps(twice)(lambda n: None))(UInt(1, 5))) == [1, 10]


def test_types_that_change(mode):
    @dr.syntax
    def f(n):
        x = 0.0
        while n < 3:
            x = x + Float64(1)
            n += 1
        return x

    with pytest.raises(RuntimeError, match=r"'x' changed from 'float' to .*Float64\(0.0\)"):
        f(UInt(0, 1))

    @dr.syntax
    def g(n):
        if n < 3:
            x = Float(1)
        else:
            x = Bool(True)
        return x

    with pytest.raises(
        RuntimeError, match=r"'x' changed from 'drjit.llvm.Float' to 'drjit.llvm.Bool'"
    ):
        g(UInt(0, 5))


class Scene:
    """No PyTree."""

    def __init__(self):
        self.scale, self.hits, self.counts = Float(2), UInt(0), dr.zeros(UInt, 9)

    @dr.syntax
    def march(self, n):
        while n < 9:
            n += UInt(self.scale)
            dr.scatter_add(self.counts, UInt(1), n % 9)
        return n

    @dr.syntax
    def count(self, n):
        while n < 9:
            n += UInt(self.scale)
            self.hits += 1
        return n

    @dr.syntax
    def replace(self, n):
        if n < 9:
            self.hits = self.hits + 1
        return n


def test_attributes_of_objects(mode):
    scene = Scene()
    assert list(scene.march(UInt(1, 6))) == [9, 10]
    assert list(scene.counts) == [1, 1, 0, 1, 0, 1, 0, 1, 1]
    for f in (scene.count, scene.replace):
        with pytest.raises(
            RuntimeError, match=r"attribute 'hits' of variable 'self' changes.*PyTree"
        ):
            f(UInt(1, 6))
        assert list(scene.hits) == [0]


def test_variables_that_a_handler_reads(mode):
    @dr.syntax
    def f(n, fail):
        k = UInt(0)
        try:
            i = UInt(0)
            while i < n:
                k = i * 10
                i += 1
            if dr.hint(fail, mode="scalar"):
                raise ValueError
            k = UInt(7)
        except ValueError:
            return k
        return k + 1

    for fail, expected in ((True, [0, 20]), (False, [8, 8])):
        k = f(UInt(1, 3), fail)
        np.testing.assert_array_equal(k.numpy() + np.zeros(2, int), expected)


def test_variables_that_live_around_jumps_of_python_loops(mode):
    @dr.syntax
    def f(n, stop):
        first, last = n * 0, n * 0
        for k in range(4):
            i = n * 0
            if dr.hint(k == 1, mode="scalar"):
                while i < n:
                    first = i + k
                    i = i + 1
                continue
            if dr.hint(k == stop, mode="scalar"):
                while i < n:
                    last = i * k
                    i = i + 1
                break
            if dr.hint(k == 3, mode="scalar"):
                n = first + 1
            last = n + k
        else:
            last = last + 100
        return last, first

    for stop, expected in ((2, [[0, 1], [4, 3], [8, 5]]), (9, [[105, 1], [107, 3], [109, 5]])):
        found = f(UInt(1, 3, 5), stop)
        np.testing.assert_array_equal(np.array([v.numpy() for v in found]).T, expected)

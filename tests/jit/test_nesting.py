"""What of a loop's work leaves the loop: kernel texts, and results of nested loops and branches
against plain Python."""

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, UInt

pytestmark = pytest.mark.usefixtures("tier", "computing_nodes")
X = Float(0.5, 1.5, 2.5)


def parts(array):
    """The lines of a kernel before its first loop, and the others."""
    before, loop, after = dr.kernel_source(array).partition("while any_lane")
    assert loop
    return before, after


def branching(yes, no, *more):
    """A loop that takes one branch or the other, with all variables in its state."""

    def body(i, y, x, *more):
        y = dr.if_stmt((i, y, x, *more), i % 2 == 0, yes, no)
        return i + 1, y, x, *more

    return dr.while_loop((UInt(0), Float(0), X, *more), lambda i, *_: i < 4, body)[1]


def test_branches_share_what_does_not_change():
    y = branching(
        lambda i, y, x: y + dr.sin(x) * Float(i), lambda i, y, x: y - dr.sin(x) * dr.exp(x)
    )
    before, after = parts(y)
    assert before.count("sin(") == before.count("exp(") == 1
    assert "sin(" not in after and "exp(" not in after
    sin = np.sin(X.numpy())
    np.testing.assert_allclose(y.numpy(), 2 * sin - 2 * sin * np.exp(X.numpy()), rtol=1e-5)


def test_what_changes_stays():
    y = branching(lambda i, y, x: y + dr.sin(x * Float(i)), lambda i, y, x: dr.exp(y) + x)
    before, after = parts(y)
    assert "sin(" not in before and "exp(" not in before
    assert after.count("sin(") == after.count("exp(") == 1


def test_branches_outside_of_loops_keep_their_work():
    y = dr.if_stmt((X,), X > 1, lambda x: dr.sin(x), lambda x: dr.exp(dr.sin(x)))
    before, condition, after = dr.kernel_source(y).partition("if any_lane")
    assert condition and "sin(" not in before and after.count("sin(") == 2


def test_what_leaves_a_loop_stays_in_the_branch_around_it():
    def loop(x):
        def body(i, y, x):
            y = dr.if_stmt((i, y, x), i < 2, lambda i, y, x: y + dr.sin(x), lambda i, y, x: y)
            return i + 1, y, x

        return dr.while_loop((UInt(0), Float(0), x), lambda i, *_: i < 4, body)[1]

    y = dr.if_stmt((X,), X > 1, loop, lambda x: x)
    before, after = parts(y)
    condition, branch = before.split("if any_lane", 1)
    assert "sin(" not in condition and "sin(" not in after and branch.count("sin(") == 1
    np.testing.assert_allclose(y.numpy(), [0.5, *(2 * np.sin([1.5, 2.5]))], rtol=1e-6)


def test_what_depends_on_the_outer_loop_only_leaves_the_inner_one():
    def outer(j, total, x):
        z = x * Float(j)

        def inner(i, y, z, x):
            y = dr.if_stmt(
                (i, y, z, x), i < 1, lambda i, y, z, x: y + dr.sin(z) * dr.exp(x),
                lambda i, y, z, x: y + dr.sin(z),
            )  # fmt: skip
            return i + 1, y, z, x

        y = dr.while_loop((UInt(0), Float(0), z, x), lambda i, *_: i < 3, inner)[1]
        return j + 1, total + y, x

    total = dr.while_loop((UInt(0), Float(0), X), lambda j, *_: j < 3, outer)[1]
    before, after = parts(total)
    assert before.count("exp(") == 1 and "sin(" not in before
    between, inside = after.split("while any_lane")
    assert between.count("sin(") == 1 and "sin(" not in inside
    x, j = X.numpy(), np.arange(3)[:, None]
    wanted = (np.sin(j * x) * (2 + np.exp(x))).sum(axis=0)
    np.testing.assert_allclose(total.numpy(), wanted, rtol=1e-5)


def test_memory_is_only_read_where_it_is_in_the_program():
    """A gather in a branch that no lane takes does not read beyond the end."""
    table = Float(1, 2, 3)

    def read(i, y, x):
        return y + dr.gather(Float, table, UInt(x) + 7)

    y = branching(read, lambda i, y, x: y)
    with pytest.raises(IndexError):
        dr.eval(y)
        dr.sync_thread()

    def body(i, y, x):
        return i + 1, dr.if_stmt((i, y, x), i > 10, read, lambda i, y, x: y + dr.sqrt(x)), x

    y = dr.while_loop((UInt(0), Float(0), X), lambda i, *_: i < 4, body)[1]
    np.testing.assert_allclose(y.numpy(), 4 * np.sqrt(X.numpy()), rtol=1e-6)
    dr.sync_thread()

"""A sparse solver: conjugate gradients with a Jacobi preconditioner (Shewchuk 1994) for a heat
problem on a grid, with derivatives by the adjoint system."""

import drjit as dr
from drjit.auto.ad import Bool, Float, Int, TensorXf, UInt
from drjit.opt import Adam


class Sparse:
    """A matrix in coordinates, ordered by rows."""

    DRJIT_STRUCT = {"row": UInt, "column": UInt, "value": Float}

    def __init__(
        self,
        row: UInt | None = None,
        column: UInt | None = None,
        value: Float | None = None,
        size: int = 0,
    ) -> None:
        self.row = UInt() if row is None else row
        self.column = UInt() if column is None else column
        self.value = Float() if value is None else value
        self.size = size

    def __matmul__(self, x: Float) -> Float:
        result = dr.zeros(Float, dr.width(x))
        dr.scatter_add(result, self.value * dr.gather(Float, x, self.column), self.row)
        return result

    @property
    def T(self) -> "Sparse":
        return Sparse(self.column, self.row, self.value, self.size)

    def diagonal(self) -> Float:
        result = dr.zeros(Float, self.size)
        dr.scatter_reduce(
            dr.ReduceOp.Add, result, self.value, self.row, active=self.row == self.column
        )
        return result

    def starts(self) -> UInt:
        """Where rows begin: the form that a loop over a row needs."""
        count = dr.zeros(UInt, self.size + 1)
        dr.scatter_inc(count, self.row)
        return dr.prefix_sum(count)


def grid(conductivity: Float, n: int) -> Sparse:
    """Five-point stencil with harmonic means between cells, and loss to the outside."""
    cell = dr.arange(UInt, n * n)
    x, y = Int(cell % n), Int(cell // n)
    rows: list[UInt] = []
    columns: list[UInt] = []
    values: list[Float] = []
    diagonal = dr.full(Float, 0.05, n * n)
    for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        inside = (x + dx >= 0) & (x + dx < n) & (y + dy >= 0) & (y + dy < n)
        other = UInt(dr.select(inside, (y + dy) * n + x + dx, 0))
        c = dr.gather(Float, conductivity, other, inside)
        mean = dr.select(inside, 2 * c * conductivity / (c + conductivity), 0)
        diagonal = diagonal + mean
        keep = dr.compress(inside)
        rows.append(dr.gather(UInt, cell, keep))
        columns.append(dr.gather(UInt, other, keep))
        values.append(-dr.gather(Float, mean, keep))
    row, column = dr.concat([*rows, cell]), dr.concat([*columns, cell])
    return Sparse(row, column, dr.concat([*values, diagonal]), n * n)


def solve(a: Sparse, b: Float, tolerance: float = 1e-5) -> tuple[Float, int]:
    """Conjugate gradients; returns the solution and the number of steps."""
    inverse = dr.rcp(a.diagonal())
    x, r = dr.zeros(Float, dr.width(b)), Float(b)
    z = inverse * r
    p: Float = z
    rz: Float = dr.dot(r, z)
    steps = 0
    while dr.any(dr.dot(r, r) > tolerance * tolerance * dr.dot(b, b)) and steps < 200:
        q = a @ p
        alpha = rz / dr.dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        z = inverse * r
        new: Float = dr.dot(r, z)
        p, rz = z + new / rz * p, new
        dr.eval(x, r, p, rz)
        steps += 1
    return x, steps


class Solve(dr.CustomOp):
    """x = A^-1 b with derivatives by values of the matrix and by the right side."""

    def eval(self, value: Float, b: Float, row: UInt, column: UInt) -> Float:
        self.a = Sparse(row, column, dr.detach(value), dr.width(b))
        self.x, _ = solve(self.a, dr.detach(b))
        return self.x

    def forward(self) -> None:
        v, b = self.grad_in("value"), self.grad_in("b")
        change = Sparse(self.a.row, self.a.column, v, self.a.size) @ self.x
        self.set_grad_out(solve(self.a, b - change)[0])

    def backward(self) -> None:
        y, _ = solve(self.a.T, self.grad_out())
        self.set_grad_in("b", y)
        product = dr.gather(Float, y, self.a.row) * dr.gather(Float, self.x, self.a.column)
        self.set_grad_in("value", -product)


@dr.syntax
def gauss_seidel(a: Sparse, b: Float, rounds: int) -> Float:
    """Jacobi's method really: rows are lanes, each loops over its entries."""
    order = dr.argsort(a.row)
    column, value = dr.gather(UInt, a.column, order), dr.gather(Float, a.value, order)
    start = a.starts()
    row = dr.arange(UInt, a.size)
    begin, end = dr.gather(UInt, start, row), dr.gather(UInt, start, row + 1)
    x = dr.zeros(Float, a.size)
    for _ in range(rounds):
        total, diagonal, i = Float(b), Float(1), UInt(begin)
        while i < end:
            j, v = dr.gather(UInt, column, i), dr.gather(Float, value, i)
            if j == row:
                diagonal = Float(v)
            else:
                total -= v * dr.gather(Float, x, j)
            i += 1
        x = total / diagonal
        dr.eval(x)
    return x


def main() -> TensorXf:
    n = 10
    x, y = dr.meshgrid(*[dr.arange(Float, n)] * 2)
    conductivity = dr.select((x > 3) & (x < 6), Float(0.1), 1.0) + 0.02 * y
    a = grid(conductivity, n)
    print("entries", dr.width(a.value), dr.sum(a.value), "diagonal", dr.max(a.diagonal()))
    b = dr.select((x == 1) & (y == 2), Float(1), dr.select((x == 8) & (y == 7), -0.5, 0))
    u, steps = solve(a, b)
    print("steps", 15 < steps < 60, "residual", dr.max(dr.abs(a @ u - b)) < 1e-4)
    print(TensorXf(u, (n, n))[::3, ::3])
    relaxed = gauss_seidel(a, b, 60)
    print("relaxed", dr.mean(relaxed), dr.max(relaxed), dr.max(dr.abs(a @ relaxed - b)))
    print("starts", dr.gather(UInt, a.starts(), UInt(0, 1, 50, 100)))

    # the temperature at a place, by the conductivity of all cells
    def temperature(k: Float) -> Float:
        m = grid(k, n)
        solution = dr.custom(Solve, m.value, b, m.row, m.column)
        return dr.gather(Float, solution, UInt(55))

    k = Float(conductivity)
    dr.enable_grad(k)
    t = temperature(k)
    dr.backward(t)
    reverse = k.grad
    print("temperature", t, "gradient", dr.gather(Float, reverse, UInt(21, 44, 78)))
    direction = dr.rng(seed=2).normal(Float, n * n)
    k = Float(conductivity)
    dr.enable_grad(k)
    dr.set_grad(k, direction)
    forward = dr.forward_to(temperature(k))
    print("forward", forward, dr.allclose(forward, dr.dot(reverse, direction), rtol=1e-3))

    # conductivity from temperatures along a line
    probes = dr.arange(UInt, n) * n + 4
    wanted = dr.gather(Float, u, probes)
    opt = Adam(lr=0.05, params={"log": dr.full(Float, -0.5, n * n)})
    for i in range(6):
        m = grid(dr.exp(opt["log"]), n)
        solution = dr.custom(Solve, m.value, b, m.row, m.column)
        loss = dr.sum(dr.square(dr.gather(Float, solution, probes) - wanted)) * 100
        dr.backward(loss)
        opt.step()
        if i % 2 == 0:
            print("loss", i, loss)
    positive: Bool = dr.exp(opt["log"]) > 0.6
    print("fitted", dr.mean(opt["log"]), dr.count(positive) > 0)
    return TensorXf(u, (n, n))


if __name__ == "__main__":
    main()

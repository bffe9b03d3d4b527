"""Markov chains: Metropolis sampling of a density, Gibbs sampling of an Ising model, and a hidden
Markov model with local memory; every lane is a chain with a generator of its own."""

from dataclasses import dataclass

import drjit as dr
from drjit.auto import PCG32, Array2f, Array3f, Bool, Float, Int, TensorXf, UInt, UInt64


@dataclass
class Chain:
    x: Array2f
    energy: Float
    accepted: UInt
    rng: PCG32


def banana(p: Array2f) -> Float:
    """The negative logarithm of Rosenbrock's density."""
    return 0.5 * dr.square(p.x) + 2 * dr.square(p.y - 0.5 * dr.square(p.x))


@dr.syntax
def metropolis(chain: Chain, steps: int, width: float) -> tuple[Chain, Array3f]:
    """Random walks; also returns sums of x, y and y^2 over all steps."""
    moments, i = Array3f(0), UInt(0)
    while i < steps:
        a, b = chain.rng.next_float32_normal(), chain.rng.next_float32_normal()
        x = chain.x + width * Array2f(a, b)
        e = banana(x)
        if chain.rng.next_float32() < dr.exp(chain.energy - e):
            chain.x = Array2f(x)
            chain.energy = Float(e)
            chain.accepted += 1
        moments += Array3f(chain.x.x, chain.x.y, dr.square(chain.x.y))
        i += 1
    return chain, moments


class Ising:
    """Spins on a torus, updated like the fields of a chessboard."""

    def __init__(self, size: int, beta: float) -> None:
        self.size = size
        self.beta = dr.opaque(Float, beta)
        self.rng = PCG32(size=size * size // 2, initstate=17)
        self.spins = dr.full(Int, 1, size * size)

    def half_step(self, color: int) -> None:
        n = self.size
        k = dr.arange(UInt, n * n // 2)
        y = k // (n // 2)
        x = 2 * (k % (n // 2)) + ((y + color) & 1)
        total = Int(0)
        for dx, dy in ((1, 0), (n - 1, 0), (0, 1), (0, n - 1)):
            total += dr.gather(Int, self.spins, (y + dy) % n * n + (x + dx) % n)
        up = dr.rcp(1 + dr.exp(-2 * self.beta * Float(total)))
        spin = dr.select(self.rng.next_float32() < up, Int(1), -1)
        dr.scatter(self.spins, spin, y * n + x)

    def sweep(self) -> None:
        self.half_step(0)
        self.half_step(1)
        dr.eval(self.spins, self.rng)

    def energy(self) -> TensorXf:
        s = TensorXf(Float(self.spins), (self.size, self.size))
        n = self.size
        right = dr.concat([s[:, 1:], s[:, :1]], axis=1)
        below = dr.concat([s[1:], s[:1]], axis=0)
        return -dr.sum(s * (right + below)) / (n * n)


STATES = 4


@dr.syntax
def viterbi(observed: list[int], chains: int) -> tuple[Float, UInt]:
    """The likeliest path of a hidden model, whose scores are in local memory."""
    score = dr.alloc_local(Float, STATES)
    k = UInt(0)
    while k < STATES:
        score[k] = dr.select(k == 0, Float(0), -2)
        k += 1
    lane = dr.arange(UInt, chains)
    for seen in observed:
        new = dr.alloc_local(Float, STATES)
        j = UInt(0)
        while j < STATES:
            best, i = Float(-dr.inf), UInt(0)
            while i < STATES:
                # states are neighbours; what is seen is the state and its parity
                move = dr.select(i == j, Float(-0.2), dr.select((i + 1) % STATES == j, -1.5, -4))
                best = dr.maximum(best, score[i] + move)
                i += 1
            fits = (j & 1) == ((seen + lane) & 1)
            new[j] = best + dr.select(fits, Float(-0.1), -1.2)
            j += 1
        score = new
    best, which, k = Float(score[0]), UInt(0), UInt(1)
    while k < STATES:
        if score[k] > best:
            best = score[k]
            which = UInt(k)
        k += 1
    return best, which


def main() -> TensorXf:
    n = 256
    rng = PCG32(size=n, initstate=3)
    chain = Chain(dr.zeros(Array2f, n), dr.zeros(Float, n), dr.zeros(UInt, n), rng)
    chain, _ = metropolis(chain, 20, 0.9)
    dr.eval(chain)
    chain.accepted = dr.zeros(UInt, n)
    chain, moments = metropolis(chain, 60, 0.9)
    mean = dr.mean(moments, axis=1) / 60
    print("moments", mean, "accepted", dr.sum(chain.accepted))
    print("last", dr.gather(Array2f, chain.x, UInt(0, 100, 255)))
    histogram = dr.zeros(UInt, 10)
    bin_ = Int(dr.floor((chain.x.x + 2.5) * 2))
    dr.scatter_inc(histogram, UInt(bin_), (bin_ >= 0) & (bin_ < 10))
    print("histogram", histogram)

    # streams: skipping ahead is the same as drawing
    a, b = PCG32(4, 1, 2), PCG32(4, 1, 2)
    for _ in range(5):
        a.next_uint32()
    b += 5
    print("ahead", dr.all(a.next_uint32() == b.next_uint32()), a - b, a.next_uint64())
    print("bounded", PCG32(6, 9).next_uint32_bounded(10), PCG32(3, 9).next_float64())
    print("state", PCG32(2, UInt64(5), UInt64(7)).state)

    for beta in (0.2, 0.7):
        model = Ising(16, beta)
        for _ in range(12):
            model.sweep()
        total = dr.sum(model.spins)
        print("ising", beta, model.energy(), total, model.spins.state.name)

    best, which = viterbi([0, 1, 1, 0, 2, 3], 6)
    print("viterbi", best, which)
    print("rate", dr.mean(Float(chain.accepted)) / 60, Bool(True))
    return TensorXf(Float(model.spins), (16, 16))


if __name__ == "__main__":
    main()

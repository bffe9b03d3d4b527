"""Nearest neighbours with a k-d tree: built level by level with sorts, searched with a stack in
local memory, and used for an interpolation of scattered data whose weights are differentiated."""

from dataclasses import dataclass

import drjit as dr
from drjit.auto.ad import Array2f, Bool, Float, Int, TensorXf, UInt

COUNT, LEVELS, K = 127, 7, 4


@dataclass
class Item:
    """Where a search goes on: a node and the squared distance to its half of the plane."""

    node: UInt
    far: Float


@dataclass
class Neighbour:
    index: UInt
    d2: Float


class Tree:
    """A complete binary tree in the order of levels; children of i are 2 i + 1 and 2 i + 2."""

    def __init__(self, points: Array2f) -> None:
        n = dr.width(points)
        assert n == 2**LEVELS - 1
        order = dr.arange(UInt, n)
        self.node = dr.zeros(UInt, n)
        segments = 1
        for level in range(LEVELS):
            # every segment of what is left is ordered by the level's axis; its middle is a node
            size = dr.width(order) // segments
            key = dr.gather(Array2f, points, order)[level % 2]
            rank = dr.argsort(key)
            segment = dr.gather(UInt, dr.arange(UInt, dr.width(order)) // size, rank)
            rank = dr.gather(UInt, rank, dr.argsort(segment))
            order = dr.gather(UInt, order, rank)
            place = dr.arange(UInt, dr.width(order))
            middle = place % size == size // 2
            found = dr.gather(UInt, order, dr.compress(middle))
            dr.scatter(self.node, found, dr.arange(UInt, segments) + segments - 1)
            order = dr.gather(UInt, order, dr.compress(~middle))
            segments *= 2
        self.points = points
        dr.eval(self.node)

    @dr.syntax
    def search(self, p: Array2f, k: int) -> tuple[list[Neighbour], UInt]:
        """The nearest points, the nearest first; also how many nodes were visited."""
        n = dr.width(p)
        nothing, far = dr.zeros(UInt, n), dr.full(Float, 1e30, n)
        stack = dr.alloc_local(Item, LEVELS + 1, value=Item(nothing, Float(0 * far)))
        best = dr.alloc_local(Neighbour, K, value=Neighbour(nothing, far))
        top, visits = UInt(1), UInt(0)
        while dr.hint(top > 0, mode="evaluated"):
            top -= 1
            item = stack[top]
            worst = best[k - 1]
            if item.far < worst.d2:
                node, level = item.node, UInt(0)
                level = 31 - dr.lzcnt(node + 1)
                visits += 1
                index = dr.gather(UInt, self.node, node)
                q = dr.gather(Array2f, self.points, index)
                new = Neighbour(index, dr.squared_norm(p - q))
                i = UInt(0)
                while i < k:
                    old = best[i]
                    if new.d2 < old.d2:
                        best[i] = new
                        new = Neighbour(UInt(old.index), Float(old.d2))
                    i += 1
                gap = dr.select((level & 1) == 0, p.x - q.x, p.y - q.y)
                near = 2 * node + 1 + dr.select(gap > 0, UInt(1), 0)
                away = 4 * node + 3 - near
                if level + 1 < LEVELS:
                    stack[top] = Item(away, gap * gap)
                    stack[top + 1] = Item(near, Float(0))
                    top += 2
        return [best[i] for i in range(k)], visits


def value(p: Array2f) -> Float:
    return dr.sin(5 * p.x) * dr.cos(4 * p.y)


def interpolate(p: Array2f, tree: Tree, values: Float, power: Float) -> Float:
    """Shepard's interpolation with inverse distances of the nearest points."""
    with dr.suspend_grad():
        neighbours, _ = tree.search(p, K)
        dr.eval([n.index for n in neighbours])
    total, weights = Float(0), Float(0)
    for n in neighbours:
        d2 = dr.squared_norm(p - dr.gather(Array2f, tree.points, n.index)) + 1e-6
        w = d2 ** (-0.5 * power)
        total += w * dr.gather(Float, values, n.index)
        weights += w
    return total / weights


def main() -> Tree:
    rng = dr.rng(seed=14)
    points = rng.random(Array2f, (2, COUNT))
    tree = Tree(points)
    print(
        "root",
        tree.node[0],
        dr.sum(tree.node),
        dr.all(dr.sort(tree.node) == dr.arange(UInt, COUNT)),
    )

    queries = rng.random(Array2f, (2, 200))
    neighbours, visits = tree.search(queries, K)
    dr.eval(visits, [(n.index, n.d2) for n in neighbours])
    print("visits", dr.sum(visits), dr.max(visits))
    print("nearest", dr.gather(UInt, neighbours[0].index, dr.arange(UInt, 0, 200, 20)))
    print("distances", [dr.mean(dr.sqrt(n.d2))[0] for n in neighbours])

    # all pairs, as a check
    q, i = dr.meshgrid(dr.arange(UInt, 200), dr.arange(UInt, COUNT), indexing="ij")
    d2 = dr.squared_norm(dr.gather(Array2f, queries, q) - dr.gather(Array2f, points, i))
    table = dr.sort(TensorXf(d2, (200, COUNT)), axis=1)
    agree = [dr.all(table[:, k].array == neighbours[k].d2)[0] for k in range(K)]
    print("agree", agree)
    nearest = dr.argmin(TensorXf(d2, (200, COUNT)), axis=1)
    print("first", dr.all(nearest.array == neighbours[0].index))

    values = value(points)
    smooth = interpolate(queries, tree, values, Float(2))
    print("error", dr.sqrt(dr.mean(dr.square(smooth - value(queries)))))
    power, q = Float(2), Array2f(queries)
    dr.enable_grad(power, q, values)
    loss = dr.mean(dr.square(interpolate(q, tree, values, power) - value(dr.detach(q))))
    dr.backward(loss)
    print("by power", power.grad)
    print("by place", dr.gather(Array2f, q.grad, UInt(0, 99)))
    used: Bool = values.grad != 0
    print("by value", dr.count(used), dr.norm(values.grad))
    cells = dr.zeros(UInt, COUNT)
    dr.scatter_inc(cells, neighbours[0].index)
    print("cells", dr.max(cells), dr.count(Int(cells) == 0))
    return tree


if __name__ == "__main__":
    main()

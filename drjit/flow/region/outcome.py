"""Outcomes of the functions of a branch: their results, and the arguments that they change in
place. Two outcomes are merged lane by lane.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from typing import Any

from ...ad.graph import Value
from ...array.tree import Tree
from ...jit.tuples import NamedTuple
from .state import State


class Version(NamedTuple):
    """A value as left by a function, in the order of the first function's version, and the contents
    of its one-dimensional arrays, or None if the function has scattered to them."""

    state: State
    tree: Tree
    contents: list[Value | None]

    @property
    def arrays(self) -> list[Any]:
        return self.tree.leaves

    def like(self, first: "Version", strict: bool) -> "Version":
        """Returns the same version with its arrays in the order of another version.

        Raises:
            RuntimeError: the versions differ in more than the contents of arrays.
        """
        tree = first.state.match(self.tree, strict)
        if tree is self.tree:
            return self
        held = {id(a): v for a, v in zip(self.arrays, self.contents, strict=True)}
        return Version(self.state, tree, [held[id(a)] for a in tree.leaves])


as_version: Callable[[tuple], Version] = partial(tuple.__new__, Version)
"""Creates a version faster than its class; see `graph.as_value`."""


class BranchOutcome:
    """The versions that a function has left of the result and of parted arguments; `arrays` are the
    arrays of all versions, and `contents` what they hold.

    `altered` are the numbers (see `State.objects`) of the arguments that it has changed in place,
    and `places` says where in the result these are. If functions run one after the other, `kept`
    are the versions of those in the result, or their contents if they are one-dimensional arrays,
    and `left` is what the arrays of all arguments hold. `fits` says whether all contents are known
    to have as many entries as the condition, or one."""

    altered: Sequence[int] = ()
    fits = False

    def __init__(self, result: Version) -> None:
        self.versions = [result]
        self.arrays, self.contents = result.tree.leaves, result.contents
        self.places: list[int | None] = []
        self.kept: dict[int, Version | list[Value | None]] = {}
        self.left: list[Value | None] = []

    def add(self, version: Version) -> None:
        """Adds the version of a parted argument."""
        self.versions.append(version)
        self.arrays = self.arrays + version.arrays
        self.contents = self.contents + version.contents

    @property
    def paths(self) -> list[str]:
        return [path for v in self.versions for path in v.state.paths]

    def version(self, k: int, unchanged: Version, args: State) -> Version:
        """Returns the version of an argument that the function left, after the argument has been
        restored."""
        found = self.kept.get(k)
        if isinstance(found, Version):
            return found
        if found is None and self.left:
            left = {id(a): v for a, v in zip(args.leaves, self.left, strict=True)}
            found = [left[id(a)] for a in unchanged.arrays]
        return unchanged if found is None else unchanged._replace(contents=found)

    def located(self, args: State, numbers: Collection[int]) -> list[int | None]:
        """Returns, for every array and container of the result, its number if it is one of the
        given arguments."""
        given = args.leaves if max(numbers) < len(args.leaves) else args.objects()
        wanted = {id(given[k]): k for k in numbers}
        tree = self.versions[0].tree
        objects = [*tree.leaves, *map(tree.objects.__getitem__, tree.inside)]
        return [*map(wanted.get, map(id, objects))]


def parted(outcomes: Sequence[BranchOutcome], args: State) -> list[int]:
    """Returns the numbers of the arguments that one function changes in place and returns, and that
    are at other places in the other function's result."""
    changed = {k for o in outcomes for k in o.places if k is not None}
    if not changed or outcomes[0].places == outcomes[1].places:
        return []
    first, second = (
        o.places if changed.issubset(o.places) else o.located(args, changed) for o in outcomes
    )
    if first == second:
        return []
    moved = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    return sorted(changed.intersection(chain.from_iterable(moved)))

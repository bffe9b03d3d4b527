"""What the two functions of a branch return and change, and how that is merged."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from ...ad.graph import Value, scope
from ...array import leaf
from ...array.base import type_label
from ...array.tree import Tree
from ...function.ad.propagate import isolate_grad
from ...jit.ir.node import AFTER
from ...jit.ir.scope import running, stack
from ...jit.tuples import NamedTuple
from ..region.merging import masked, merged
from ..region.messages import size_changed
from ..region.state import RecordAgain, State, call

_Reader = Callable[[list[Any]], list[Value | None]]
"""Gives the contents of arrays, with None for those that a function has written to."""


class Version(NamedTuple):
    """A value as left by a function, in the order of the first function's version, and the contents
    of its one-dimensional arrays, or None if the function has scattered to them."""

    state: State
    tree: Tree
    contents: list[Value | None]

    def like(self, first: "Version", strict: bool) -> "Version":
        """Returns the same version with its arrays in the order of another version.

        Raises:
            RuntimeError: the versions differ in more than the contents of arrays.
        """
        tree = first.state.match(self.tree, strict)
        if tree is self.tree:
            return self
        contents = {id(a): v for a, v in zip(self.tree.leaves, self.contents, strict=True)}
        return Version(self.state, tree, [contents[id(a)] for a in tree.leaves])


class BranchOutcome:
    """The versions that a function has left of the result and of diverging arguments; `arrays` are
    the arrays of all versions, and `contents` what they hold.

    `places` says where in the result the arguments are that it has changed in place, by number (see
    `State.objects`). If functions run one after the other, `argument_versions` are the versions of
    those in the result, or their contents if they are one-dimensional arrays, and
    `argument_contents` is what the arrays of all arguments hold. `fits` says whether all contents
    are known to have as many entries as the condition, or one."""

    fits = False

    def __init__(self, result: Version) -> None:
        self.versions = [result]
        self.arrays, self.contents = result.tree.leaves, result.contents
        self.places: list[int | None] = []
        self.argument_versions: dict[int, Version | list[Value | None]] = {}
        self.argument_contents: list[Value | None] = []

    def add(self, version: Version) -> None:
        """Adds the version of a diverging argument."""
        self.versions.append(version)
        self.arrays = self.arrays + version.tree.leaves
        self.contents = self.contents + version.contents

    @property
    def paths(self) -> list[str]:
        return [path for v in self.versions for path in v.state.paths]

    def version(self, k: int, unchanged: Version, args: State) -> Version:
        """Returns the version of an argument that the function left, after the argument has been
        restored."""
        found = self.argument_versions.get(k)
        if isinstance(found, Version):
            return found
        if found is None and self.argument_contents:
            left = {id(a): v for a, v in zip(args.leaves, self.argument_contents, strict=True)}
            found = [left[id(a)] for a in unchanged.tree.leaves]
        return unchanged if found is None else unchanged._replace(contents=found)

    def located(self, args: State, numbers: Collection[int]) -> list[int | None]:
        """Returns, for every array and container of the result, its number if it is one of the
        given arguments."""
        given = args.leaves if max(numbers) < len(args.leaves) else args.objects()
        wanted = {id(given[k]): k for k in numbers}
        tree = self.versions[0].tree
        objects = [*tree.leaves, *map(tree.objects.__getitem__, tree.parts)]
        return [*map(wanted.get, map(id, objects))]


def diverging(outcomes: Sequence[BranchOutcome], args: State) -> list[int]:
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


class Branch:
    """The components of a branch.

    The versions that each lane has of `diverging` arguments, given by number, are further results.
    """

    def __init__(
        self, args: State, mask: Any, bodies: tuple, labels: Sequence[str], strict: bool,
    ) -> None:  # fmt: skip
        self.args, self.mask, self.bodies = args, mask, bodies
        self.labels, self.strict, self.what = labels, strict, args.what
        self.before: list[Value | None] = leaf.values(args.leaves)  # type: ignore[assignment]
        self.first = 0  # nodes with serial numbers from here on belong to the functions
        self.diverging: list[int] = []
        self.unmergeable: set[int] = set()  # further ones, whose versions cannot be merged
        self.writes = False  # whether a function has written to arrays, or might
        self.sizes = [a._node.size for a in args.leaves]
        if 0 in self.sizes and mask._node.size:
            args.check_initialized()

    def select(self) -> Any:
        """Runs both functions for all lanes and merges their results, including derivatives."""
        args, before = self.args, self.before
        outcomes: list[BranchOutcome] = []
        every: set[int] = set()
        try:
            # Propagated gradients continue after both have run.
            with isolate_grad(), running():
                inner: Any = scope()
                inner.arguments = {v.var for v in before if v and v.var}
                for body, mask in zip(self.bodies, (self.mask, ~self.mask), strict=True):
                    with masked(mask._node) as written:
                        result = call(self.what, body, *args.values)
                    every |= written
                    outcomes.append(self.outcome(result, outcomes, before, every))
                    args.restore_variables(before)
        except BaseException:
            args.restore(before)
            raise
        for versions in self.diverging_versions(outcomes).values():
            for outcome, version in zip(outcomes, versions, strict=True):
                outcome.add(version)
        self.check(outcomes)
        pairs = zip(outcomes[0].contents, outcomes[1].contents, strict=True)
        return self.place(outcomes, [a and b and merged(self.mask, a, b) for a, b in pairs])

    def diverging_versions(
        self, outcomes: Sequence[BranchOutcome]
    ) -> dict[int, tuple[Version, Version]]:
        """Returns the versions of diverging arguments by number. Arguments that cannot be merged
        are omitted and do not change."""
        found: dict[int, tuple[Version, Version]] = {}
        for k in diverging(outcomes, self.args):
            unchanged = self._version(k, leaf.values)  # type: ignore[arg-type]
            first, second = (o.version(k, unchanged, self.args) for o in outcomes)
            with suppress(RuntimeError):
                found[k] = first, second.like(first, False)
        return found

    def _version(self, k: int, contents_of: _Reader) -> Version:
        """Returns the current version of an argument, given by number."""
        state = State((self.args.objects()[k],), ("argument",), self.what, watched=False)
        return Version(state, state.tree, [*contents_of(state.leaves)])

    def outcome(
        self,
        result: Any,
        others: Sequence[BranchOutcome],
        given: Sequence[Value | None],
        written: set[int] | None = None,
    ) -> BranchOutcome:
        """Returns the outcome of the function that ran last; `others` are the previous outcomes,
        and `given` is what its arguments held.

        Arrays that it wrote to by masked scatters keep their contents. Nothing else may hold these,
        or they would have to be copied. They are the arrays whose nodes have the serial numbers
        `written`, or that wait for their scatters.

        Raises:
            RuntimeError: the arrays do not match those of the first function.
        """
        args = self.args
        if args.attributes:
            args.check_attributes(written or frozenset())
        contents_of = self._reader(written)
        rows = self._rows(result)
        found = Version(rows, rows.tree, contents_of(rows.leaves))
        if others:
            found = found.like(others[0].versions[0], self.strict)
        outcome = BranchOutcome(found)
        if contents_of is not leaf.values:
            for k, v in enumerate(contents_of(args.leaves)):
                if v is None:
                    self.before[k] = None
            given = [v and g for v, g in zip(self.before, given, strict=True)]
        if changed := args.changed(given):
            outcome.places = outcome.located(args, changed)
            for k in changed:
                if k not in outcome.places:  # it is not visible to the program
                    args.undo(k, given)
                elif written is not None:
                    a = args.leaves
                    outcome.argument_versions[k] = (
                        contents_of([a[k]]) if k < len(a) else self._version(k, contents_of)
                    )
        if written is not None:
            outcome.argument_contents = contents_of(args.leaves)
        for j, k in enumerate(self.diverging, 1):
            version = self._version(k, contents_of)
            if others:
                try:
                    version = version.like(others[0].versions[j], False)
                except RuntimeError:
                    self.diverging.remove(k)
                    self.unmergeable.add(k)
                    raise RecordAgain from None
            outcome.add(version)
        return outcome

    def _reader(self, written: set[int] | None) -> _Reader:
        """Returns the function that reads what the function that ran last has left in arrays."""
        if written is not None:

            def contents_of(arrays: list[Any]) -> list[Value | None]:
                return [None if v.node.serial in written else v for v in leaf.values(arrays)]

            return contents_of
        # Nothing may hold pending tables, because the other function may write to them.
        if not self.writes:
            opened = stack()
            if opened and not opened[-1].afters and None not in self.before:
                return leaf.values  # type: ignore[return-value]
            self.writes = True
        first = self.first
        tables = {id(a) for a, v in zip(self.args.leaves, self.before, strict=True) if v is None}
        return lambda arrays: [
            None if v.node.op is AFTER and (v.node.serial > first or id(a) in tables) else v
            for a, v in zip(arrays, leaf.values(arrays), strict=True)
        ]

    def _rows(self, result: Any) -> State:
        """Returns a result as a tuple with names."""
        values, labels = result, self.labels
        if not labels:
            values, labels = (result,), ("rv",)
        elif not isinstance(result, tuple):
            raise RuntimeError(
                f"{self.what}: there are names for the results, so that functions must return a "
                f"tuple, not {type_label(result)}"
            )
        elif len(result) != len(labels):
            raise RuntimeError(
                f"{self.what}: there are {len(labels)} names for {len(result)} results"
            )
        state = State(values, labels, self.what, watched=False)
        state.origin = self.args
        if 0 in [a._node.size for a in state.leaves] and self.mask._node.size:
            state.check_initialized()
        return state

    def check(self, outcomes: Sequence[BranchOutcome]) -> None:
        """Raises a RuntimeError if the sizes of results are incompatible, or if one function
        returns an array that was written to, and the other one a different array."""
        first, second = outcomes
        if first.fits and second.fits:
            return
        size = self.mask._node.size
        rows = zip(first.contents, second.contents, first.arrays, second.arrays, strict=True)
        for k, (a, b, one, other) in enumerate(rows):
            if a is None or b is None:
                if one is not other:
                    path = first.paths[k]
                    raise RuntimeError(
                        f"{self.what}: the result '{path}' is in one function an array that it has "
                        "written to by scatters, and another array in the other function. What "
                        "such an array holds is known only afterwards; choose between them then."
                    )
                continue
            if a.node is b.node or size == 1:
                continue
            n, m, path = a.node.size, b.node.size, first.paths[k]
            if n != m and 1 not in (n, m):
                raise size_changed(self.what, path, one, n, m, f". 'cond' has {size} entries.")
            if n not in (1, size) or m not in (1, size):
                raise RuntimeError(
                    f"{self.what}: operands have incompatible sizes: the results '{path}' have {n} "
                    f"and {m} entries, and 'cond' has {size}"
                )

    def place(self, outcomes: Sequence[BranchOutcome], contents: Sequence[Value | None]) -> Any:
        """Returns the result, with these contents in its arrays; None leaves an array that
        functions have written to unchanged."""
        first, second = outcomes
        if None in contents:
            pairs = zip(contents, second.arrays, strict=True)
            contents = [v or leaf.value(array) for v, array in pairs]
        end = 0
        placed: list[tuple] = []
        for one, other in zip(first.versions, second.versions, strict=True):
            begin, end = end, end + len(one.tree.leaves)
            placed.append(one.state.place(other.tree, contents[begin:end]))  # type: ignore[arg-type]
        return placed[0] if self.labels else placed[0][0]

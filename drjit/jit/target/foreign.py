"""Functions of scalars that another compiler made, as kernels call them: by name, lane by lane.

A name contains a digest of the code, so that the text of a kernel identifies what it calls.
"""

from collections.abc import Sequence

from ..tuples import NamedTuple


class Raised(NamedTuple):
    """A statement that raises an exception: the class, its arguments (None if these are computed at
    run time), and where it is in the user's program."""

    kind: type[BaseException]
    arguments: tuple | None
    function: str
    file: str
    line: int


class ForeignFunction:
    """A function of scalars, from `arguments` to `results` (codes of element types).

    `ir` defines it in LLVM IR: it takes the addresses of the results, then the arguments, with
    masks as bytes, and returns 0, or n if the n-th exception of `errors` was raised. If there are
    errors, kernels get one more result, that number. A function that is `total` has no loops and
    can be called for any numbers, so that LLVM can compute several lanes at once.
    """

    def __init__(
        self,
        name: str,
        title: str,
        arguments: Sequence[str],
        results: Sequence[str],
        ir: str,
        errors: Sequence[Raised],
        total: bool = False,
    ) -> None:
        self.name, self.title, self.ir, self.total = name, title, ir, total
        self.arguments, self.results = tuple(arguments), tuple(results)
        self.errors = tuple(errors)

    def __repr__(self) -> str:
        return self.name

    @property
    def returned(self) -> tuple[str, ...]:
        """The codes of all results that kernels get."""
        return (*self.results, "u32") if self.errors else self.results

    def error(self, number: int, lane: int, location: str) -> Exception:
        """Returns the exception to raise for the number that a lane returned."""
        raised = self.errors[min(number, len(self.errors)) - 1]
        arguments = raised.arguments
        message = "computed when raised"
        if arguments is not None:
            message = ", ".join([str(a) for a in arguments])
        where = f"lane {lane} of {self.title}(), {raised.file}:{raised.line}"
        text = f"{message} ({where}; called at {location})"
        if issubclass(raised.kind, Exception):
            try:
                return raised.kind(text)
            except TypeError:  # its constructor takes something else
                pass
        return RuntimeError(f"{raised.kind.__name__}: {text}")


functions: dict[str, ForeignFunction] = {}
"""The functions that kernels of this process call, by name."""

symbols: dict[str, int] = {}
"""The addresses of the functions that those call in turn, if the process does not export them."""

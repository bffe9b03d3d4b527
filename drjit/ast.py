"""The decorator `syntax` and `hint` under the name of the module that has them in the interface."""

from .flow.syntax.decorator import hint, syntax

__all__ = ["hint", "syntax"]

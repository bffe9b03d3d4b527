"""The decorator `syntax` and `hint`, under the module name of the public interface."""

from .flow.syntax.decorator import hint, syntax

__all__ = ["hint", "syntax"]

"""Exchange of arrays with other frameworks."""

from ..function.exchange.wrap import wrap

__all__ = ["wrap"]

"""Functions of other frameworks as functions of this one, and the other way around."""

# Written by .ci/stubs.py from the table of types.
# fmt: off
# ruff: noqa
from ..llvm import *
from . import ad as ad

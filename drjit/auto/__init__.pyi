# Written by .ci/stubs.py.
# fmt: off
# ruff: noqa
from ..llvm import *
from . import ad as ad

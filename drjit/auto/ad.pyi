# Written by .ci/stubs.py.
# fmt: off
# ruff: noqa
from ..llvm.ad import *

"""Cases that may crash: every one runs in a process of its own."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import isolated

HEADER = "import drjit as dr\nimport numpy as np\nfrom drjit.llvm import *"
isolated(
    """
## debug mode reports ranges
dr.set_flag(dr.JitFlag.Debug, True); s = Float(1, 2, 3); dr.eval(dr.gather(Float, s, UInt(0, 7)))
dr.gather(Float, Float(1, 2, 3), UInt(5), False)
""",
    HEADER,
)

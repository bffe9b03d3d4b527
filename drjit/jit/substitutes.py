"""The functions of native code, once `warm_up` has loaded it. Until then, and where native code is
not available, they are None, and their callers do the same in Python. With `DRJIT_NATIVE=off`, that
is always so.
"""

import os
from math import inf
from typing import Any

SWITCH = os.environ.get("DRJIT_NATIVE", "on")
if SWITCH not in ("on", "off"):
    raise ValueError(f"DRJIT_NATIVE={SWITCH!r}: expected 'on' or 'off'")

repeat: Any = None
"""Finds and performs the plan of an evaluation, given the nodes to be evaluated and the device;
returns whether it did. `schedule.evaluate` defines the result."""
perform: Any = None
"""Performs the first launches of a plan, given the nodes to be evaluated and all nodes in traversal
order; returns how many it performed. See `schedule.launch_all`."""
forget: Any = None
"""Makes both forget all plans."""
plans: Any = None
"""The plans that both know (`cpu.plans.KnownPrograms`)."""
collect_nodes: Any = None
"""`structure.collect_nodes`; returns None where Python has to do it."""
remake: Any = None
"""Adds the nodes of a template to its operands, see `template.Template.__call__`."""
collect_variables: Any = None
"""`traverse._collect` without a bound."""
cut: Any = None
"""`traverse._cut_all`."""


modules: dict[str, float] = {}
"""The modules that provide such functions, by name, and the number of traced nodes from which on
loading their code pays. Each states the `MODULES` of native code that it needs, the `OBJECTS` that
these access, the names that they have `exported`, whether the code `fits` this interpreter, and how
to `install` it. See `cpu.warm_up`."""
warm_up: Any = None
"""Loads native code that pays, given the number of nodes that the process has traced; returns the
number at which to call it again."""
FIRST, LAUNCH = 1 << 11, 32
"""The number of traced nodes from which on native code for evaluations pays, and the number that a
launch by Python counts as."""
milestone: float = inf if SWITCH == "off" else FIRST
"""The number of traced nodes at which to call `warm_up`, less what launches count as."""


def look(nodes: int) -> None:
    """Calls `warm_up` if it is time, given the serial number of a new node."""
    global milestone
    if nodes > milestone:
        milestone = inf  # keeps out other threads, and evaluations meanwhile
        milestone = warm_up(nodes)

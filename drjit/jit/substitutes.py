"""The functions that native code takes the place of, once `warm_up` has loaded it. Until then, and
where there is none, they are None, and whoever would call them does in Python what they do. With
`DRJIT_NATIVE=off`, that is always so.
"""

import os
from math import inf
from typing import Any

SWITCH = os.environ.get("DRJIT_NATIVE", "on")
if SWITCH not in ("on", "off"):
    raise ValueError(f"DRJIT_NATIVE={SWITCH!r}: expected 'on' or 'off'")

repeat: Any = None
"""Finds the plan of an evaluation and performs it, given the nodes to be evaluated, and where;
returns whether it has. What it does is that of `schedule.evaluate`."""
perform: Any = None
"""Performs the first launches of a plan, given the nodes to be evaluated and all nodes in traversal
order; returns how many. See `schedule.launch_all`."""
forget: Any = None
"""Makes both forget what they know."""
plans: Any = None
"""The plans that they know (`cpu.programs.KnownPrograms`)."""
collect_nodes: Any = None
"""`structure.collect_nodes`, or None as its result where Python has to do it."""
remake: Any = None
"""Adds the nodes of a template to its operands, see `template.Template.__call__`."""
collect_variables: Any = None
"""`traverse._collect` without a bound."""
cut: Any = None
"""`traverse._cut_all`."""


rooms: dict[str, float] = {}
"""Modules that have such functions, by name, and after how many nodes that a process has traced
loading their code pays. They say which of native code's `MODULES` they need, the `OBJECTS` that
these know, what they have `exported`, whether it `fits`, and how to `install` it. See
`cpu.warm_up`."""
warm_up: Any = None
"""Loads the code once it pays, given how many nodes the process has traced; returns after how many
to call it again."""
FIRST, LAUNCH = 1 << 11, 32
"""The number of nodes for evaluations, for which a launch by Python counts as some more."""
milestone: float = inf if SWITCH == "off" else FIRST
"""The number of nodes from which on it is to be called, less those that launches count as."""


def look(nodes: int) -> None:
    """Calls it if it is time, given a serial number of now."""
    global milestone
    if nodes > milestone:
        milestone = inf  # other threads, and evaluations meanwhile, do not come here
        milestone = warm_up(nodes)

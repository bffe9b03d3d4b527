"""Branches and calls: `if_stmt`, `switch`, `dispatch`, `func`, and their derivatives."""

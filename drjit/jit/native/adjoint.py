"""The loops of `drjit.ad.traverse` over variables."""

from .language import Word, address, call, external, word
from .objects import ITEMS, LIST, SIZE, Operators, Var
from .references import hold, replace

LOW = (1 << 32) - 1


def collect_variables(self: Word, arguments: Word, count: Word) -> Word:
    """Appends the variables that those in a list depend on, and gives them the mark, unless they
    have it; returns whether each variable is older than the one before."""
    o: Operators = external("drjit_operators")
    found = word(arguments)
    mark = word(arguments + 8)
    in_order = 1
    last = LOW << 30
    k = 0
    while k < word(found + SIZE):
        v: Var = word(word(found + LIST) + 8 * k)
        if k == 0:
            last = call("i64(ptr)", o.integer, v.serial)
        item = v.deps + ITEMS
        end = item + 8 * word(v.deps + SIZE)
        while item < end:
            d: Var = word(item)
            item = item + 8
            if d != o.none and d.mark != mark:
                replace(o, address(d.mark), mark)
                if call("i32(ptr, ptr)", o.append, found, d) < 0:
                    return 0
                serial = call("i64(ptr)", o.integer, d.serial)
                if serial > last:
                    in_order = 0
                last = serial
        k = k + 1
    return call("i64(i64)", o.truth, in_order)


def cut(self: Word, arguments: Word, count: Word) -> Word:
    """Frees the edges of the variables in a list. Destructors may run."""
    o: Operators = external("drjit_operators")
    variables = word(arguments)
    k = 0
    while k < word(variables + SIZE):
        v: Var = word(word(variables + LIST) + 8 * k)
        replace(o, address(v.deps), o.empty)
        replace(o, address(v.inputs), o.empty)
        replace(o, address(v.result), o.none)
        replace(o, address(v.rule), o.none)
        replace(o, address(v.data), o.none)
        k = k + 1
    return hold(o, o.none)

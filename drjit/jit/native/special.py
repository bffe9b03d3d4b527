"""Operations that are not element-wise, in the key of an evaluation."""

from ..text.structure import BODIES, IS_STATE, NOTHING, TYPE_AND_DATA, TYPE_ONLY
from .language import Word, call, put, word
from .objects import ITEMS, SIZE, TYPE, Effect, Node, Op, Scan


def push(s: Scan, length: Word, x: Word) -> Word:
    put(s.key[length], x)
    return length + 1


def push_effect(s: Scan, node: Node, length: Word) -> Word:
    """Adds the effect of a node to the key; gives the new length, or 0 if there are several, or it
    has to wait for another one."""
    effect: Effect = node.data
    s.effects_met = s.effects_met + 1
    if s.effects_met > 1 or effect.shape != s.empty:
        return 0
    if word(effect.buffer + TYPE) != s.buffer_type:
        return 0
    k = 0
    while k < word(effect.order + SIZE):
        before: Node = word(effect.order + ITEMS + 8 * k)
        if before.op != s.buffer:
            return 0
        k = k + 1
    return push(s, push(s, push(s, length, effect.dtype), effect.reduce), effect.mode)


def push_special(s: Scan, node: Node, length: Word) -> Word:
    """Adds an operation that is not element-wise; gives the new length, or 0 for loops, branches,
    and what is inside of them."""
    op: Op = node.op
    kind = call("i64(ptr)", s.integer, op.code) >> 8 & 15
    if kind in (IS_STATE, BODIES):
        return 0
    length = push(s, push(s, length, op), word(node.deps + SIZE))
    if kind in (TYPE_AND_DATA, TYPE_ONLY):
        length = push(s, length, node.dtype)
    if kind == TYPE_AND_DATA:
        data = node.data
        number = data != s.none
        if number:
            number = 1 + (word(data + TYPE) != s.int_type)
        length = push(s, length, number)
        if number == 1:
            data = call("i64(ptr)", s.unsigned, data)
        length = push(s, length, data)
    if kind == NOTHING:
        length = push_effect(s, node, length)
    return length

"""The key of an evaluation's plan: what the evaluation consists of, except for sizes. Nothing
changes, and no Python code runs.
"""

from ..text.structure import BODIES, NOTHING
from . import objects
from .language import Word, call, word
from .walker import FACTOR, begin, is_met, kind_of, position_of, push, put, walk


def is_here(s: objects.Scan, node: objects.Node) -> Word:
    """Whether data are in memory of the processor, and come from no launch that may have failed."""
    buffer: objects.Buffer = node.data
    return word(buffer + objects.TYPE) == s.buffer_type and buffer.source == s.none


def push_effect(s: objects.Scan, node: objects.Node) -> Word:
    """Adds an effect to the key; returns 0 if it has to wait for another one, or is not
    supported."""
    effect: objects.Effect = node.data
    if effect.shape != s.empty or word(effect.buffer + objects.TYPE) != s.buffer_type:
        return 0
    for k in range(word(effect.order + objects.SIZE)):
        before: objects.Node = word(effect.order + objects.ITEMS + 8 * k)
        if before.op != s.buffer:
            return 0
    push(s, effect.dtype)
    push(s, effect.reduce)
    push(s, effect.mode)
    return 1


def push_region(s: objects.Scan, node: objects.Node) -> Word:
    """Adds what a loop or branch has besides its operands: its depth and its counts, of which the
    first is that of its variables, and a branch has one more for each body. Returns 0 if calls
    share the body, or an outermost loop has other results to compute."""
    region: objects.BlockData = node.data
    if region.shared != s.none:
        return 0
    counts = region.counts + objects.ITEMS
    variables = call("i64(ptr)", s.integer, word(counts))
    depth = call("i64(ptr)", s.integer, region.depth)
    push(s, depth)
    push(s, variables)
    push(s, call("i64(ptr)", s.integer, word(counts + 8)))
    states = variables + 1
    if word(region.counts + objects.SIZE) == 3:  # a branch
        bodies = word(counts + 16)
        if word(bodies + objects.SIZE) > 8:
            return 0
        states = variables * word(bodies + objects.SIZE)
        for k in range(word(bodies + objects.SIZE)):
            push(s, call("i64(ptr)", s.integer, word(bodies + objects.ITEMS + 8 * k)))
    elif depth == 1 and is_complete(s, region) == 0:
        return 0
    s.open = s.open - states
    return 1


def is_complete(s: objects.Scan, loop: objects.BlockData) -> Word:
    """Whether this evaluation has all results of an outermost loop that are left to compute, for
    which it would run again."""
    for k in range(word(loop.values + objects.SIZE)):
        reference = word(word(loop.values + objects.LIST) + 8 * k)
        value: objects.Node = word(reference + objects.REFERENT)
        if value != s.none and value.op != s.buffer and is_met(s, value) == 0:
            return 0
    return 1


def push_specials(s: objects.Scan) -> Word:
    """Adds what `walk` has noted to the key; returns 0 if the evaluation cannot have a plan."""
    effects = 0
    data = 0
    k = 0
    while k < s.notes and s.length < objects.WORDS:
        note = s.noted[k]
        node: objects.Node = note.thing
        good = 1
        if note.list == objects.INPUTS:
            data = 1
            good = is_here(s, node)
        elif note.list == objects.NOTED and kind_of(node) == NOTHING:
            effects = effects + 1
            good = push_effect(s, node)
        elif note.list == objects.REGIONS:
            if kind_of(node) == BODIES:
                good = push_region(s, node)
            else:
                s.open = s.open + 1
        elif note.list == objects.ROWS:
            push(s, node)
            good = (
                word(node + objects.TYPE) != s.float_type
            )  # of which each time there is a new one
        if good == 0:
            return 0
        k = k + 1
    s.effects_met = effects
    # Without data, it may be for another device.
    return k == s.notes and s.open == 0 and effects < 2 and data + effects > 0


def plan_key(s: objects.Scan, roots: Word) -> Word:
    """Writes the key of an evaluation to `s.key`, and the nodes in the order of their traversal to
    `s.order`; returns the number of words, or 0 if the evaluation cannot have a plan."""
    count = word(roots + objects.SIZE)
    if count > objects.OUTPUTS:
        return 0
    begin(s)
    s.open = 0
    for k in range(count):
        node: objects.Node = word(word(roots + objects.LIST) + 8 * k)
        if node.op not in (s.literal, s.buffer):
            put(s.order[s.visited], node)
            s.visited = s.visited + 1
    count = s.visited
    push(s, count)
    good = count != 0 and walk(s, 0, objects.WORDS) and push_specials(s)
    for k in range(count):
        good = good and position_of(s, word(s.order[k])) == k  # none of them twice
    return s.length * good


def hashed(s: objects.Scan, length: Word) -> Word:
    h = length
    for k in range(length):
        h = (h + word(s.key[k])) * FACTOR
        h = h + (h >> 32)
    return h


def is_equal(s: objects.Scan, place: Word, length: Word) -> Word:
    for k in range(length):
        if word(s.key[k]) != word(place + 8 * k):
            return 0
    return 1

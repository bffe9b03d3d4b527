"""Damages files at random, so that those who read them show what they do about it."""

import io
import random
import struct
import zipfile

NUMBERS = [0, 1, 7, 127, 255, 1 << 15, (1 << 16) - 1, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1]
WORDS = [
    b"null", b"[]", b"{}", b"-1", b"0", b"1e999", b'"x"', b"true", b"(", b"[" * 3000, b"'|O'",
    b"9" * 30, b"\xff", b"\0", b"'<f8'", b"(2,)", b"'>f4'", b"",
]  # fmt: skip


def mutated(data: bytes | bytearray, r: random.Random) -> bytes:
    """Bits, lengths, pieces and words of a file are changed."""
    found = bytearray(data)
    for _ in range(r.choice([1, 1, 1, 2, 4])):
        at = r.randrange(len(found) + 1)
        length = r.choice([1, 2, 4, 8, 30])
        kind = r.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << r.randrange(8)
        elif kind == 1:
            size = r.choice([2, 4, 8])
            found[at : at + size] = struct.pack("<Q", r.choice(NUMBERS))[:size]
        elif kind == 2:
            del found[at:]
        elif kind == 3:
            del found[at : at + length]
        elif kind == 4:
            found[at:at] = r.randbytes(length)
        elif kind == 5:
            other = r.randrange(len(found) + 1)
            found[at : at + length] = found[other : other + length]
        else:
            found[at : at + length] = r.choice(WORDS)
    return bytes(found)


def mutated_members(data: bytes, r: random.Random) -> bytes:
    """Members of an archive are changed, exchanged, renamed or missing, with proper sums."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    k, other = r.randrange(len(members)), r.randrange(len(members))
    kind = r.randrange(4)
    if kind == 0:
        members[k] = members[k][0], members[other][1]
    elif kind == 1:
        members[k] = mutated(members[k][0].encode(), r).decode("latin1"), members[k][1]
    elif kind == 2:
        del members[k]
    else:
        head = r.choice([20, 100, len(members[k][1])])
        changed = mutated(members[k][1][:head], r) + members[k][1][head:]
        members[k] = members[k][0], changed
    made = io.BytesIO()
    method = r.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(made, "w", method) as file:
        for name, content in {name.partition("\0")[0]: data for name, data in members}.items():
            file.writestr(name or "?", content)
    return made.getvalue()

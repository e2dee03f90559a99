# SPDX-License-Identifier: BSD-3-Clause
"""Random mutations of texts and files, for the fuzz tests in Python."""


def mutate(random, content, others, tokens=()):
    """Returns a copy of `content` (bytes) with 1 to 4 random changes; `others`: contents from which
    pieces are copied; `tokens`: byte strings that are inserted."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        change(random, changed, random.choice(others), tokens)
    return bytes(changed)


def change(random, content, other, tokens):
    """Changes `content` (bytearray) once."""
    begin = random.randint(0, len(content))
    end = min(len(content), begin + random.choice((1, 2, 4, 16, 64)))
    kinds = ["bit", "byte", "fill", "erase", "cut", "copy", "repeat"] + ["token"] * (
        6 if tokens else 0
    )
    kind = random.choice(kinds) if content else "copy"
    if kind == "bit" and begin < len(content):
        content[begin] ^= 1 << random.randrange(8)
    elif kind == "byte":
        content[begin : begin + 1] = bytes([random.randrange(256)])
    elif kind == "fill":
        content[begin:end] = bytes([random.choice((0, 0xFF))]) * (end - begin)
    elif kind == "erase":
        del content[begin:end]
    elif kind == "cut":
        del content[begin:]
    elif kind == "copy":
        start = random.randint(0, len(other))
        content[begin:end] = other[start : start + random.choice((1, 8, 64, 256))]
    elif kind == "repeat":
        content[begin:begin] = content[begin:end] * random.choice((1, 2, 8, 64))
    elif kind == "token":
        content[begin : random.choice((begin, end))] = random.choice(tokens)

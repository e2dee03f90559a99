"""Selection of tick labels that do not overlap."""


def spaced(values, place, half):
    """Returns those of the values whose labels, `half(value)` to each side of `place(value)`, do not
    overlap, in ascending order; the largest value and powers of two come first."""
    shown = []
    for value in sorted(set(values), key=lambda v: (v != max(values), not is_power(v), -v)):
        at, room = place(value), half(value)
        if all(abs(at - other) > room + taken for _, other, taken in shown):
            shown.append((value, at, room))
    return sorted(value for value, _, _ in shown)


def is_power(value):
    return value == int(value) and int(value) & (int(value) - 1) == 0

# SPDX-License-Identifier: BSD-3-Clause
"""Numbers and times as people, spreadsheets and other programs write them."""

import re
from decimal import Decimal, InvalidOperation

# Units of times -> seconds. In a name with underscores, min is a minimum.
UNITS = {
    name: Decimal(seconds)
    for seconds, names in (
        ("1e-9", "ns nsec nanosecond nanoseconds"),
        ("1e-6", "us usec usecs \u00b5s \u03bcs microsecond microseconds"),
        ("1e-3", "ms msec msecs millisecond milliseconds"),
        ("1", "s sec secs second seconds"),
        ("60", "min mins minute minutes m"),
        ("3600", "h hr hrs hour hours"),
        ("86400", "d day days"),
    )
    for name in names.split()
}
SUFFIXES = {name: factor for name, factor in UNITS.items() if name not in ("min", "m", "d", "day")}
THOUSANDS = r"[\s'\u2019]"  # separators of thousands besides comma and point
DIGITS = r"[.,]?\d(?:[\d.,'\u2019]|\s(?=\d{3}(?!\d)))*(?:[eE][+-]?\d+)?"
# [DAYS-]HOURS:MINUTES:SECONDS, MINUTES:SECONDS, DAYS-HOURS[:MINUTES] of Slurm, "1 day, 1:02:03" of
# Python.
CLOCK = re.compile(r"(?:(\d+)(?:-| days?[,.]? *))?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}(?:\.\d+)?))?")
SHORT_CLOCK = re.compile(r"(\d+):(\d{1,2}(?:\.\d+)?)")
TERM = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([a-z\u00b5\u03bc]+)[\s,]*", re.I)
LARGEST = Decimal("1e300")  # numbers from here on are none
NO_VALUE = re.compile(
    r"|-+|\u2013|\u2014|\?|x|\.|n\.?/?a\.?|#n/a|<na>|#div/0!|#value!|#ref!|[+-]?nan|[+-]?inf|nat|"
    r"none|null|nil|tbd|todo|missing|skipped|fail(ed)?|failure|err(or)?|oom|out[ _]of[ _]me.*|"
    r"time(d )?[ -]?out|cancel.*|crash(ed)?|killed|abort(ed)?|unknown",
    re.I,
)


def is_missing(text):
    """Returns whether a cell says that there is no value, or why."""
    return NO_VALUE.fullmatch(text.strip()) is not None


def decimal_mark(cells, separator):
    """Returns the decimal mark of the numbers in `cells`: the one that does not precede exactly
    three digits somewhere, or that follows the other mark. Returns None if no number shows it."""
    numbers = [number for cell in cells for number in re.findall(DIGITS, cell)]

    def is_shown(mark, other):
        end = r"(?:[eE][+-]?\d+)?"
        pattern = (
            rf"(\d|{THOUSANDS})*{mark}(\d{{1,2}}|\d{{4,}}){end}|\d*{mark}\d+[eE].*|"
            rf".*\d{other}\d{{3}}{mark}\d+{end}"
        )
        return any(re.fullmatch(pattern, number) for number in numbers)

    if is_shown(r"\.", ","):
        return "."
    has_commas = separator == ";" and any(re.fullmatch(r"[\d.]+,\d+", number) for number in numbers)
    return "," if has_commas or is_shown(",", r"\.") else None


def plain_number(text, mark):
    """Returns `text` with a decimal point and without separators of thousands; `mark`: its decimal
    mark, None if unknown."""
    text = re.sub(rf"(?<=\d){THOUSANDS}(?=\d{{3}}(?!\d))", "", text)
    if mark == ".":
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    if mark == ",":
        return re.sub(r"\.(?=\d{3}(?!\d))", "", text).replace(",", ".")
    return text


def decimal(text):
    """Returns a number; None if `text` is none, or beyond the range of a float."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    is_in_range = value.is_finite() and value.copy_abs() < LARGEST
    return value if is_in_range else None


def seconds_in(text, unit=Decimal(1)):
    """Returns the seconds in `text`, which has a decimal point; None if it is no time. `unit`: that
    of a number without one. Reads 83.4, "83.4 s", "1m23.4s", 1:23, 00:01:23, 1-02:03:04, "1 day,
    0:01:23" and PT1M23.4S."""
    text = text.strip()
    number = decimal(text)
    if number is not None:
        return number * unit
    is_clock = ":" in text or re.fullmatch(r"\d+-\d+", text)
    return clock_seconds(text) if is_clock else terms_seconds(text)


def clock_seconds(text):
    """Returns the seconds of a time with colons, or of days and hours; None if it is none."""
    short, full = SHORT_CLOCK.fullmatch(text), CLOCK.fullmatch(text)
    if short:
        return sum_of_clock(0, 0, *short.groups())
    return sum_of_clock(*(part or 0 for part in full.groups())) if full else None


def sum_of_clock(days, hours, minutes, seconds):
    """Returns the sum in seconds; None if a part is too large for a clock."""
    days, hours = Decimal(days), Decimal(hours)
    minutes, seconds = Decimal(minutes), Decimal(seconds)
    if seconds >= 60 or minutes >= 60 and (days or hours):
        return None
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def terms_seconds(text):
    """Returns the sum of terms such as 1m 23.4s, with descending units."""
    text = re.sub(r"^P(?:(\d+D))?T?(?=\d|$)", r"\1", text)  # of ISO 8601
    total, last, place = Decimal(0), None, 0
    while place < len(text):
        term = TERM.match(text, place)
        factor = UNITS.get(term[2].lower()) if term else None
        if factor is None or last is not None and factor >= last:
            return None
        total, last, place = total + Decimal(term[1]) * factor, factor, term.end()
    return total if last is not None else None

# SPDX-License-Identifier: BSD-3-Clause
"""The columns of a table of epoch times, and what each means for its rows
(docs/report-reference.md, "Epoch
times from a table")."""

import re
from collections import namedtuple
from decimal import Decimal

from lockstep_report.runfile.quantities import SUFFIXES, UNITS

# Roles. Rows with equal points are repeats, unless another column says that they are parts or a
# sequence.
POINT = "point"  # what is measured: the number of ranks and the batch
TIME = "time"
REPEAT = "repeat"  # equal points with different values are repeats
PART = "part"  # rows that differ only in it are one epoch, which takes as long as the slowest
DEVICE = "device"  # parts if the values are numbers, otherwise types of devices, which are series
SERIES = "series"  # rows that differ only in it are points of different settings
SEQUENCE = "sequence"  # epochs of one run: the first is the warm-up, the others are no repeats
STATE = "state"  # whether the row has a result
JOB = "job"  # of Slurm; its steps are no rows of their own
EXTRA = "extra"  # measured beside the time
INDEX = "index"  # numbers of rows, which mean nothing

RANKS, SECONDS = "ranks", "epoch_seconds"
BATCH, GLOBAL_BATCH = "batch_per_rank", "global_batch"
NODES, PER_NODE = "nodes", "ranks_per_node"  # their product is the number of ranks
UNCLEAR_BATCH = "batch_size"
WANTED = "ranks (or gpus, workers), batch_per_rank (or batch_per_gpu) and epoch_seconds"

NOUN = "rank|gpu|process|proc|worker|task|device|replica|mpi_rank|mpi_process"
COUNTED = NOUN.replace("worker|", "")  # num_workers are loader threads in PyTorch
UNIT = "|".join(SUFFIXES)
MEAN, NUMBER = r"(?:_(?:mean|avg|median))?", r"(?:_?(?:id|no|nr|number|index))?"
EPOCH_TIME = (
    r"epoch_?time|epoch_duration|epoch_runtime|epoch_wall_?time|"
    r"time_(?:per|of|for)_(?:an_|one_)?epoch"
)
KIND = r"(?:(?:avg|average|mean|median|measured|train|training|wall)_)*"

# (name, role, pattern of plain names); the name is the plain one if it is None. The first pattern
# that fits decides.
COLUMNS = (
    (
        RANKS,
        POINT,
        rf"(?:{NOUN})(?:s|es)|(?:n_?|nr_|nr_of_|no_of_|num_|number_of_)(?:{COUNTED})(?:s|es)?|"
        rf"(?:{NOUN})(?:s|es)?_count|(?:n|number_of)_workers|np|world_size",
    ),
    (
        BATCH,
        POINT,
        rf"(?:local_|mini_?)?(?:batch|batch_?size|images)_per_(?:{NOUN})|local_batch(?:_size)?|"
        rf"per_(?:{NOUN})(?:_train)?_batch(?:_size)?",
    ),
    (GLOBAL_BATCH, POINT, r"(?:global|total|effective)_(?:mini_?)?batch(?:_?size)?"),
    (UNCLEAR_BATCH, POINT, r"(?:mini_?)?batch(?:_?size)?|bs"),
    (
        SECONDS,
        TIME,
        rf"{KIND}(?:time_)?epoch_(?P<after_epoch>{UNIT}){MEAN}|{KIND}(?P<before>{UNIT})_per_epoch|"
        rf"{KIND}(?:{EPOCH_TIME})(?:_(?P<after_time>{UNIT}))?{MEAN}",
    ),
    (NODES, POINT, r"(?:n_?|num_|number_of_)?nodes"),
    (PER_NODE, POINT, rf"(?:n_?|num_)?(?:{NOUN})(?:s|es)?_per_node"),
    (
        None,
        PART,
        r"node(?:_?(?:id|name|rank))?|host(?:name)?|(?:global_|local_)?rank(?:_?id)?|"
        rf"(?:{NOUN})_?(?:id|index|rank)",
    ),
    (None, DEVICE, NOUN),
    (
        None,
        SERIES,
        r"model|network|architecture|framework|library|backend|transport|mode|method|strategy|"
        r"algorithm|reducer|optimi[sz]er|precision|d?type|machine|cluster|system|dataset|"
        r"(?:gpu|device)_(?:name|type|model)|setting|config(?:uration)?|version|variant",
    ),
    (None, REPEAT, rf"(?:repeat|repetition|rep|trial|run|seed|try|attempt)s?{NUMBER}|run_name"),
    ("epoch", SEQUENCE, rf"(?:current_)?epochs?{NUMBER}"),
    ("iteration", SEQUENCE, r"iter(?:ation)?s?|(?:global_)?steps?"),
    ("state", STATE, r"(?:job_)?(?:state|status|result|outcome)"),
    (JOB, JOB, r"job_?id"),
    (None, EXTRA, r"cpu_user_percent|cpu_system_percent|network_mb_per_s|published_.*"),
    ("", INDEX, r"|index|unnamed_\d+|row|no|nr|number_of"),
)

# `unit`: seconds of a number; `is_stated`: whether the name states it.
Column = namedtuple("Column", "name role plain given unit is_stated")


def columns_of(names):
    """Returns the `Column` of each name in a header; None for those that mean nothing here or fit a
    column before them."""
    found = []
    for given in names:
        column = column_of(given)
        names_before = [other.name for other in found if other and other.name]
        found.append(None if column and column.name in names_before else column)
    return found


def column_of(given):
    plain, unit = plain_name(given)
    for name, role, pattern in COLUMNS:
        match = re.fullmatch(pattern, plain)
        if match and role == TIME:
            suffixes = map(SUFFIXES.get, match.groupdict().values())
            units = {factor for factor in (unit, *suffixes) if factor}
            only = None if len(units) > 1 else next(iter(units), Decimal(1))
            return Column(name, role, plain, given, only, bool(units))
        if match and name == "epoch" and unit:
            return Column(SECONDS, TIME, plain, given, unit, True)
        if match:
            return Column(plain if name is None else name, role, plain, given, None, False)
    return None


def plain_name(given):
    """Returns a name in small letters with underscores, without its unit, and the seconds of its
    unit if it is one of time: "Epoch time [ms]", "Epoch time / s" and "epochTime"."""
    text, unit = re.sub(r"[*`\"]", "", given), None
    bracket = re.search(r"[(\[]\s*([^)\]]*?)\s*[)\]]?\s*$", text)
    slash = re.fullmatch(r"(.*\S)\s*[/,]\s*([A-Za-z\u00b5]+)\s*", text)
    if bracket:
        text, unit = text[: bracket.start()], UNITS.get(bracket[1].lower().removeprefix("in "))
    elif slash and slash[2].lower() in UNITS:
        text, unit = slash[1], UNITS[slash[2].lower()]
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text.strip())
    text = text.replace("/", "_per_").replace("#", " number of ")
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_"), unit


def is_header(names):
    """Returns whether the cells name the columns that a table must have."""
    found = {column.name for column in map(column_of, names) if column}
    return SECONDS in found and (RANKS in found or {NODES, PER_NODE} <= found)


def batch_column(columns):
    return next(
        (
            column
            for name in (BATCH, GLOBAL_BATCH, UNCLEAR_BATCH)
            for column in columns
            if column and column.name == name
        ),
        None,
    )

# SPDX-License-Identifier: BSD-3-Clause
"""What the program chose itself, from the environment of a run: the all-reduce algorithm and the
implementations of the convolutions."""

from operator import attrgetter

from lockstep_report.groups import grouped
from lockstep_report.runfile.experiment import LOCKSTEP, OPTION_TABLE, program_of
from lockstep_report.runfile.settings import some_of

# In the order of the program, which is that of tables and bar charts.
REDUCERS = tuple(OPTION_TABLE["reducer"]["values"])
ALGORITHMS = tuple(OPTION_TABLE["all-reduce"]["values"])
# Only their buckets are used for fits and predictions: all-reduces of the complete gradients
# between all ranks. A reducer that is added later joins them when its times are known to mean the
# same.
ALL_REDUCES = ("overlap", "allreduce")
# Nothing is communicated, or the sums are on one rank only: there is no all-reduce, and no
# bandwidth of one.
NOT_ALL_REDUCED = ("none", "parameter-server")
# Libraries that select their algorithms themselves and do not report them, as they name themselves
# in the run file.
CHOOSING = {"nccl": "NCCL", "gloo": "Gloo"}


def library_of(run):
    """Returns "NCCL", "Gloo" or "MPI": the library that transported the gradients."""
    text = str(run.environment.get("transport", "")) or run.option("transport")
    return next((name for part, name in CHOOSING.items() if part in text.lower()), "MPI")


def algorithm_of(run):
    """Returns the all-reduce algorithm with its library, such as "ring (MPI)"; only the library if
    it does not report it."""
    text = str(run.environment.get("all_reduce", "")) or run.option("all-reduce")
    return labelled(text.partition(":")[0].partition(" (")[0].strip() or "unknown", library_of(run))


def labelled(algorithm, library):
    """Returns the algorithm with its library; two libraries never share a label."""
    return library if library in CHOOSING.values() else f"{algorithm} ({library})"


def swept_algorithm(run, index):
    """Returns the algorithm of a row of a sweep, as `algorithm_of`, and the program if it is not
    Lockstep."""
    name = labelled(str(run.allreduce["algorithm"][index]), library_of(run))
    return name if program_of(run) == LOCKSTEP else f"{name} ({program_of(run)})"


def kernels_of(run):
    """Returns ((operation, implementation), ...) from the environment attribute `kernels`."""
    pairs = (text.partition(": ") for text in str(run.environment.get("kernels", "")).split("; "))
    return tuple((name, chosen) for name, _, chosen in pairs if chosen)


def listed_choices(choices):
    """Returns {choice: names} as text: "ring (MPI): a.h5, b.h5; direct (MPI): c.h5"."""
    return "; ".join(f"{choice}: {some_of(names, 4)}" for choice, names in choices.items())


def choice_notes(repeats):
    """Returns notes about what the program chose differently in repeated runs. `repeats`:
    points."""
    notes = []
    algorithms = grouped(
        (p for p in repeats if p.algorithm), attrgetter("algorithm"), attrgetter("source")
    )
    if len(algorithms) > 1:
        notes.append(
            "the program chose different all-reduce algorithms in the repeats "
            f"({listed_choices(algorithms)}); select one with --all-reduce"
        )
    kernels = [dict(p.kernels) for p in repeats if p.kernels]
    passes = list(dict.fromkeys(name for of_run in kernels for name in of_run))
    unlike = [name for name in passes if len({of_run.get(name) for of_run in kernels}) > 1]
    if unlike:
        found = grouped(
            (p for p in repeats if p.kernels),
            lambda p: dict(p.kernels).get(unlike[0]),
            attrgetter("source"),
        )
        notes.append(
            f"{len(unlike)} of {len(passes)} convolution passes use different kernels in the "
            f"repeats ({unlike[0]}: {listed_choices(found)}); select one with --conv-algorithm"
        )
    return notes


def kernel_changes(point, base):
    """Returns a text about the convolution passes that use another kernel than in `base`; ""
    without one."""
    own, other = dict(point.kernels), dict(base.kernels)
    changed = sum(own[name] != other.get(name, own[name]) for name in own)
    return f"{changed} of {len(own)} convolution passes use another kernel" if changed else ""


def series_notes(point, points):
    """Returns a note if the program chose another all-reduce algorithm for other points of the same
    series."""
    if not point.algorithm or not point.is_all_reduced:
        return []
    series = [
        p
        for p in points
        if p.algorithm
        and p.is_all_reduced
        and p.host_count == point.host_count
        and (p.setting, p.variant, p.reducer) == (point.setting, point.variant, point.reducer)
    ]
    found = grouped(
        series, attrgetter("algorithm"), lambda p: f"{p.ranks} ranks, batch {p.batch_per_rank}"
    )
    if len(found) < 2:
        return []
    return [
        "the program chose different all-reduce algorithms for the points of this setting "
        f"({listed_choices(found)}); to compare only the numbers of ranks, select one with"
        " --all-reduce"
    ]


def place_of(name, names):
    """Returns the position in `names` of a name, which may be followed by its library; the last one
    if unknown."""
    name = name.partition(" ")[0]
    return names.index(name) if name in names else len(names)

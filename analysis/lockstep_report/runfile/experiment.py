# SPDX-License-Identifier: BSD-3-Clause
"""What makes two runs the same experiment: the program and its options that have an effect are
equal, as are the software (build, libraries and their environment variables) and the number of
hosts. Repeats of an experiment differ in the seed. The properties of a run are pairs (name,
value)."""

import json
import re
from pathlib import Path

# What each option affects, and the values of a choice in their order, from the option table of the
# program.
OPTION_TABLE = json.loads(Path(__file__).with_name("options.json").read_text(encoding="utf-8"))
NEITHER, RESULTS = "neither", "results"
TIME, BOTH = "time", "both"
# Names of properties.
SEED, HOSTS, BUILD = "seed", "hosts", "build"
PROGRAM, DATA_DIGEST = "program", "data digest"
LOCKSTEP = "lockstep"  # program of a run file that names none
# Options that the setting of a run, its batch, its reducer and the data type of its gradients
# contain.
STATED = (
    "model",
    "device",
    "precision",
    "data",
    "threads",
    "batch-per-rank",
    "global-batch",
    "reducer",
    "gradient-dtype",
)
# Attributes of /environment, or the beginnings of their names, that describe the software: of all
# runs, and of the messages between ranks. HARMLESS: variables that affect only the log or the
# connections.
COMPILATION = ("compiler", "build_type", "device_library")
MESSAGES = (
    "mpi_version",
    "NCCL_",
    "UCX_",
    *(f"OMPI_MCA_{part}" for part in ("btl", "pml", "mtl", "coll", "osc", "smsc")),
    "MPIR_CVAR_",
    "MPICH_",
    "I_MPI_ADJUST_",
    "I_MPI_FABRICS",
    "I_MPI_OFI_",
    "I_MPI_SHM",
    "FI_PROVIDER",
)
HARMLESS = ("NCCL_DEBUG", "NCCL_COMM_ID", "UCX_LOG_")


def is_used(name, ranks):
    """Returns whether a run with `ranks` ranks uses a property."""
    needs_several = (
        name == HOSTS
        or name.startswith(MESSAGES)
        or OPTION_TABLE.get(name, {}).get("effect_requires") == "several ranks"
    )
    return ranks > 1 or not needs_several


def is_of_software(name):
    """Returns whether a property or an attribute of /environment describes the software."""
    return (
        name == BUILD
        or name.startswith((*COMPILATION, *MESSAGES))
        and not name.startswith(HARMLESS)
    )


def short_version(text):
    """Returns the form "Open MPI 4.1.4" or "MPICH 5.0.2" of a version of MPI, which files of
    version 0.2.0 and earlier write as "Open MPI v4.1.4" and "MPICH Version:      5.0.2"."""
    return re.sub(r"( Version: *| v)(?=\d)", " ", text)


def software_of(run):
    return {(BUILD, build_of(run))} | {
        (name, short_version(str(value)) if name == "mpi_version" else str(value))
        for name, value in run.environment.items()
        if is_of_software(name) and is_used(name, run.rank_count)
    }


def effect_of(name, ranks):
    """Returns what an option affects: NEITHER, RESULTS, TIME or BOTH, also if the table does not
    contain it."""
    return OPTION_TABLE.get(name, {}).get("effect", BOTH) if is_used(name, ranks) else NEITHER


def options_of(run):
    """Returns {name: value} of the recorded options."""
    return {name: value for name, value in run.config.items() if name != "command"}


def variant_of(run):
    """Returns the properties outside STATED that affect the time; they are equal in repeats."""
    found = {
        (name, value)
        for name, value in options_of(run).items()
        if name not in STATED and effect_of(name, run.rank_count) in (TIME, BOTH)
    }
    if run.rank_count > 1 and run.host_count:
        found.add((HOSTS, str(run.host_count)))
    return frozenset(found | software_of(run))


def results_of(run):
    """Returns the properties outside STATED, except the seed, that affect only the results:
    options, and the content of the data. Synthetic images follow from the other properties and the
    seed."""
    found = {
        (name, value)
        for name, value in options_of(run).items()
        if name not in STATED and name != SEED and effect_of(name, run.rank_count) == RESULTS
    }
    digest = str(run.environment.get("data_digest", ""))
    if digest and not run.option("data").startswith("synthetic"):
        found.add((DATA_DIGEST, digest[:8]))
    return frozenset(found)


def distinguishing(items):
    """Returns the names of the properties that have several values in `items`, pairs (properties,
    ranks), counting only items that use the property; a property that is not recorded counts as a
    value, unless the items are of another program. The software is compared for equal programs, the
    number of hosts for equal numbers of ranks.
    """
    recorded = {}  # program -> names of the properties that its items have
    for properties, _ in items:
        program = dict(properties).get(PROGRAM)
        recorded.setdefault(program, set()).update(name for name, _ in properties)
    values = {}
    for properties, ranks in items:
        own = dict(properties)
        program = own.get(PROGRAM)
        for name in recorded[program]:
            if is_used(name, ranks):
                place = (name, compared_for(name, program, ranks))
                values.setdefault(place, set()).add(own.get(name))
    return {name for (name, _), found in values.items() if len(found) > 1}


def compared_for(name, program, ranks):
    """Returns what items have in common whose values of the property are compared."""
    if name == HOSTS:
        return ranks
    return program if is_of_software(name) else None


def text_of(properties, names):
    """Returns the properties with these names as text, for example "bn sync, hosts 2"."""
    return ", ".join(
        f"{name} {value or 'none'}" for name, value in sorted(properties) if name in names
    )


def unlike(*items):
    """Returns [(name, values)] of the properties in which `items`, pairs (properties, ranks),
    differ, except the number of hosts; values in the order of the items that use the property."""
    found = []
    for name in sorted(distinguishing(items) - {HOSTS}):
        values = [
            dict(properties).get(name, "not recorded") or "none"
            for properties, ranks in items
            if is_used(name, ranks)
        ]
        found.append((name, list(dict.fromkeys(values))))
    return found


def program_of(run):
    """Returns the name of the program that wrote the run file. It is part of the setting of a run,
    so that runs of different programs are neither repeats nor base cases of each other."""
    return str(run.attributes.get(PROGRAM, "")) or LOCKSTEP


def build_of(run):
    """Returns the abbreviated commit of the program, with "(modified)" if it had local changes."""
    commit = str(run.attributes.get("git_commit", "unknown"))[:10]
    modified = str(run.attributes.get("git_dirty", 0)) not in ("0", "no", "False")
    return commit + (" (modified)" if modified else "")

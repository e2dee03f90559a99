"""What makes two runs parts of one experiment: the options that have an effect are equal, as are the
build and the number of hosts. Repeats of an experiment differ in the seed."""

import json
from pathlib import Path

# What each option affects, from the option table of the program.
EFFECTS = json.loads(Path(__file__).with_name("options.json").read_text(encoding="utf-8"))
RESULTS, TIME = "results", "time"
AFFECTED = {"neither": frozenset(), RESULTS: frozenset((RESULTS,)), TIME: frozenset((TIME,)),
            "both": frozenset((RESULTS, TIME))}
SEED = "seed"
# Options that the setting of a run, its batch, its reducer and the data type of its gradients contain.
STATED = ("model", "device", "precision", "data", "train-samples", "threads", "batch-per-rank",
          "global-batch", "reducer", "gradient-dtype")


def affected_by(name, ranks):
    """Returns what an option affects in a run with `ranks` ranks: a set of RESULTS and TIME. An
    option that the table does not contain counts as having every effect."""
    row = EFFECTS.get(name, {"effect": "both"})
    if ranks == 1 and row.get("effect_requires") == "several ranks":
        return frozenset()
    return AFFECTED[row["effect"]]


def options_of(run):
    """Returns {name: value} of the recorded options, in the notation of the command line."""
    return {name.replace("_", "-"): str(value) for name, value in run.config.items()
            if name != "command"}


def variant_of(run):
    """Returns pairs (name, value): the options outside STATED that affect the time, the number of
    hosts and the build. Runs are repeats of a measured time only if their settings, ranks, batches
    and variants are equal."""
    found = {(name, value) for name, value in options_of(run).items()
             if name not in STATED and TIME in affected_by(name, run.rank_count)}
    if run.rank_count > 1:
        found.add(("hosts", str(run.host_count)))
    found.add(("build", build_of(run)))
    return frozenset(found)


def build_of(run):
    """Returns the abbreviated commit of the program, with "(modified)" if it had local changes."""
    commit = str(run.attributes.get("git_commit", "unknown"))[:10]
    modified = str(run.attributes.get("git_dirty", 0)) not in ("0", "no", "False")
    return commit + (" (modified)" if modified else "")

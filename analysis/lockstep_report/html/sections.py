"""The order of the tables on the page, and the sections that lack data."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A section of tables. `tables`: names or beginnings of names, in their order on the page."""

    name: str
    title: str
    tables: tuple


ASSIGNMENT = Section("assignment", "Questions of the assignment", ("assignment",))
TIMES = Section("times", "Time, communication and bandwidth", ("table-1", "table-2", "table-3"))
LADDER = Section("ladder", "Batch ladder", ("batch-ladder", "batch-sizes"))
SCALING = Section("scaling", "Weak and strong scaling", ("weak-scaling", "strong-scaling", "phases"))
ACCURACY = Section("accuracy", "Accuracy", ("accuracy", "time-to-accuracy", "learning-curves"))
EXPLANATION = Section(
    "explanation", "Explanation and advice",
    ("questions", "advice", "efficiency-causes", "scaling-laws", "alpha-beta", "stragglers"))
FURTHER = Section("further", "Further tables", ("",))  # everything else

# (beginnings of the names of tables, the runs that would add them).
NEEDED = (
    (TIMES.tables, "tables 1 to 3: lockstep train --output RUN.h5, with 1 rank and with several ranks"),
    (LADDER.tables, "batch ladder: lockstep ladder --output LADDER.h5"),
    (ACCURACY.tables, "accuracy and learning curves: lockstep train with --evaluate-every and several --epochs"),
    ("strong-scaling", "strong scaling: runs with the same --global-batch on 1 and on several ranks"),
    ("weak-scaling", "weak scaling: runs with the same --batch-per-rank on 1 and on several ranks"),
    ("allreduce-sweep", "bandwidth over message size: mpirun -n N lockstep allreduce --output SWEEP.h5"),
    ("efficiency-causes", "causes of lost efficiency: a run with 1 rank and the batch of the other runs"),
    ("stragglers", "slow ranks: lockstep train on several ranks"),
)


def divided(tables):
    """Returns {section: tables}: each table in the first section that names it."""
    rest, found = list(tables), {}
    for section in (ASSIGNMENT, TIMES, LADDER, SCALING, ACCURACY, EXPLANATION, FURTHER):
        chosen = [t for start in section.tables for t in rest if t.name.startswith(start)]
        rest = [t for t in rest if t not in chosen]
        found[section] = chosen
    return found


def missing(tables):
    """Returns a line for each of NEEDED that has no table: the run that would add it."""
    return [text for names, text in NEEDED if not any(table.name.startswith(names) for table in tables)]

# SPDX-License-Identifier: BSD-3-Clause
"""The cases of a set of runs, each the repeated runs of one configuration, and which cases of two
sets correspond. docs/analysis.md ("Comparison") states the method."""

from dataclasses import dataclass
from typing import NamedTuple

from lockstep_report.groups import grouped
from lockstep_report.measure.choices import REDUCERS, place_of
from lockstep_report.measure.comparison import grouped_repeats
from lockstep_report.measure.estimates import estimates_of
from lockstep_report.measure.points import point_of
from lockstep_report.runfile import settings
from lockstep_report.runfile.experiment import (
    NEITHER,
    STATED,
    effect_of,
    is_of_software,
    options_of,
)
from lockstep_report.runfile.input_files import each

# What a case is, from the most to the least specific.
IDENTITY = ("setting", "ranks", "batch_per_rank", "mode", "options")
# Parts of the identity in which the cases of a pair are equal; `match` tries them in this order.
MATCHED = (
    IDENTITY,
    ("setting", "ranks", "batch_per_rank", "mode"),
    ("ranks", "batch_per_rank", "mode"),
    ("setting", "ranks", "batch_per_rank"),
    ("ranks", "batch_per_rank"),
    ("ranks",),
    (),
)
ENVIRONMENT = ("operating_system", "cpu_model", "all_reduce", "transport", "kernels")


@dataclass(frozen=True)
class Case:
    """`identity`: texts by the names in IDENTITY. `settings`: {name: text}, in display order."""

    identity: dict
    settings: dict
    estimates: dict  # name -> MedianEstimate
    sources: tuple  # names of the files
    notes: tuple = ()

    @property
    def title(self):
        batch = self.identity["batch_per_rank"]
        parts = [
            settings.plural(self.identity["ranks"], "rank"),
            batch and f"batch {batch} per rank",
            self.identity["mode"],
        ]
        return ", ".join(part for part in dict.fromkeys(parts) if part)


def cases_of(runs, skipped=None):
    """Returns the cases of the runs that trained, one for each configuration. `skipped`: as in
    `input_files.each`."""
    trained = {point.source: (run, point) for run, point in each(skipped, runs, point_of) if point}
    points = sorted((point for _, point in trained.values()), key=configuration_of)
    return [
        case_of([trained[point.source][0] for point in group], group, notes)
        for group, notes in grouped_repeats(points, configuration_of).values()
    ]


class Configuration(NamedTuple):
    """What the repeated runs of a case have in common, in the order of the cases."""

    setting: tuple
    ranks: int
    batch_per_rank: int
    reducer_place: int
    communication: tuple
    options: tuple


def configuration_of(point):
    return Configuration(
        setting=point.setting,
        ranks=point.ranks,
        batch_per_rank=point.batch_per_rank,
        reducer_place=place_of(point.communication[0], REDUCERS),
        communication=point.communication,
        options=tuple(sorted(point.variant | point.others)),
    )


def case_of(runs, points, further_notes):
    point = points[0]
    options = {
        (name, value) for name, value in point.variant | point.others if not is_of_software(name)
    }
    identity = {
        "setting": ", ".join(filter(None, settings.setting_texts(point.setting))),
        "ranks": str(point.ranks),
        "batch_per_rank": f"{point.batch_per_rank or ''}",
        "mode": point.mode,
        "options": ", ".join(f"{name} {value}" for name, value in sorted(options)),
    }
    notes = dict.fromkeys([*(note for p in points for note in p.notes), *further_notes])
    return Case(
        identity,
        settings_of(runs, point),
        estimates_of(runs, points),
        tuple(run.label for run in runs),
        tuple(notes),
    )


def settings_of(runs, point):
    """Returns {name: text} of what can explain a change, with all values if the runs differ."""
    found = dict(zip(settings.SETTING_PARTS, point.setting))
    found |= {
        "ranks": str(point.ranks),
        "batch per rank": f"{point.batch_per_rank or ''}",
        "reducer": point.reducer,
        "gradient dtype": point.gradient_dtype,
    }
    for name in sorted({name for run in runs for name in options_of(run)}):
        if effect_of(name, point.ranks) != NEITHER and name not in STATED:
            found[name] = joined(run.option(name) for run in runs)
    found["hosts"] = joined(", ".join(run.host_names) for run in runs)
    found["program"] = joined(settings.version_of(run) for run in runs)
    names = {
        name
        for run in runs
        for name in run.environment
        if name in ENVIRONMENT or name.startswith("OMP_") or is_of_software(name)
    }
    for name in sorted(names):
        texts = [str(run.environment.get(name, "")) for run in runs]
        # The attribute all_reduce also has the times by which the algorithm was selected.
        found[name] = joined(
            text.partition(":")[0] if name == "all_reduce" else text for text in texts
        )
    return found


def joined(values):
    return "; ".join(dict.fromkeys(str(value) for value in values))


def match(a, b):
    """Returns (pairs, rest of a, rest of b). Cases are a pair if they are equal in all of IDENTITY,
    or in as much of it as possible while both are the only such case of their side."""
    rest_a, rest_b, pairs = list(a), list(b), []
    for names in MATCHED:
        of_a, of_b = by_identity(rest_a, names), by_identity(rest_b, names)
        for key, own in of_a.items():
            if len(own) == len(of_b.get(key, ())) == 1:
                pairs.append((own[0], of_b[key][0]))
                rest_a.remove(own[0])
                rest_b.remove(of_b[key][0])
    return sorted(pairs, key=lambda pair: a.index(pair[0])), rest_a, rest_b


def by_identity(cases, names):
    """Returns {texts of the parts `names` of the identity: cases}."""
    return grouped(cases, lambda case: tuple(map(case.identity.get, names)))


def changed_settings(a, b):
    """Returns [(name, text in a, text in b)] of the settings that differ; a setting that one side
    does not have is an empty text, and no difference if the sides are different programs."""
    names = list(dict.fromkeys([*a.settings, *b.settings]))
    program_a, program_b = (case.settings.get("program", "").partition(" ")[0] for case in (a, b))
    if program_a != program_b:
        names = [name for name in names if name in a.settings and name in b.settings]
    return [
        (name, a.settings.get(name, ""), b.settings.get(name, ""))
        for name in names
        if a.settings.get(name, "") != b.settings.get(name, "")
    ]

# SPDX-License-Identifier: BSD-3-Clause
"""A `Case`: the repeated runs of one configuration, with its settings and estimates."""

from dataclasses import dataclass

from lockstep_report.measure.compare.quantities import estimates_of
from lockstep_report.measure.comparison import reducer_order
from lockstep_report.measure.points import point_of
from lockstep_report.measure.repeats import grouped_repeats
from lockstep_report.measure.window import timed_window
from lockstep_report.runfile import settings
from lockstep_report.runfile.experiment import STATED, affected_by, is_of_software, options_of
from lockstep_report.runfile.input_files import each

# What a case is, from the most to the least specific; `match` uses them in this order.
IDENTITY = ("setting", "ranks", "batch_per_rank", "mode", "options")
ENVIRONMENT = ("operating_system", "cpu_model", "all_reduce", "transport", "kernels")


@dataclass(frozen=True)
class Case:
    """`identity`: texts by the names in IDENTITY. `settings`: {name: text}, in display order."""

    identity: dict
    settings: dict
    estimates: dict  # name -> Estimate
    sources: tuple  # names of the files
    notes: tuple = ()

    @property
    def title(self):
        ranks = settings.plural(self.identity["ranks"], "rank")
        batch = self.identity["batch_per_rank"]
        parts = [ranks, f"batch {batch} per rank" if batch else "", self.identity["mode"]]
        return ", ".join(part for part in dict.fromkeys(parts) if part)


def cases_of(runs, skipped=None):
    """Returns the cases of the runs that trained, one for each configuration. `skipped`: as in `input_files.each`."""
    trained = [(run, point) for run, point in each(skipped, runs, point_of) if point]
    groups = grouped_repeats(trained, configuration_of, lambda pair: pair[0].status, lambda pair: pair[0].label)
    return [case_of(group, notes) for key, (group, notes) in sorted(groups.items(), key=lambda item: (
        item[0][:3], reducer_order(item[1][0][0][1]), item[0][3], sorted(item[0][4])))]


def configuration_of(pair):
    point = pair[1]
    return (point.setting, point.ranks, point.batch_per_rank, point.communication, point.variant | point.others)


def case_of(group, further_notes):
    runs, points = zip(*group)
    point = points[0]
    options = {(name, value) for name, value in point.variant | point.others if not is_of_software(name)}
    identity = {
        "setting": ", ".join(filter(None, settings.setting_texts(point.setting))),
        "ranks": str(point.ranks), "batch_per_rank": f"{point.batch_per_rank or ''}",
        "mode": point.mode,
        "options": ", ".join(f"{name} {value}" for name, value in sorted(options)),
    }
    notes = dict.fromkeys([*(note for p in points for note in p.notes), *further_notes])
    return Case(identity, settings_of(runs, point), estimates_of(
        runs, points, [timed_window(run) for run in runs]),
        tuple(run.label for run in runs), tuple(notes))


def settings_of(runs, point):
    """Returns {name: text} of what can explain a change: setting, options, build and machine. If
    the runs differ, the text has all values."""
    found = dict(zip(settings.SETTING_PARTS, point.setting))
    found |= {"ranks": str(point.ranks), "batch per rank": f"{point.batch_per_rank or ''}",
              "reducer": point.reducer, "gradient dtype": point.gradient_dtype}
    for name in sorted({name for run in runs for name in options_of(run)}):
        if affected_by(name, point.ranks) and name not in STATED:
            found[name] = joined(run.option(name) for run in runs)
    found["hosts"] = joined(", ".join(run.host_names) for run in runs)
    found["program"] = joined(settings.version_of(run) for run in runs)
    names = {name for run in runs for name in run.environment
             if name in ENVIRONMENT or name.startswith("OMP_") or is_of_software(name)}
    for name in sorted(names):
        found[name] = joined(environment_of(run, name) for run in runs)
    return found


def environment_of(run, name):
    text = str(run.environment.get(name, ""))
    # The attribute all_reduce also has the times by which the algorithm was selected.
    return text.partition(":")[0] if name == "all_reduce" else text


def joined(values):
    return "; ".join(dict.fromkeys(str(value) for value in values))


def match(a, b):
    """Returns (pairs, rest of a, rest of b). Cases are a pair if they are equal in all of IDENTITY,
    or in as much of it as possible while both are the only such case of their side."""
    rest_a, rest_b, pairs = list(a), list(b), []
    chosen = [IDENTITY, IDENTITY[:4], IDENTITY[1:4], IDENTITY[:3], IDENTITY[1:3], IDENTITY[1:2], ()]
    for names in chosen:
        def key(case, names=names):
            return tuple(case.identity[name] for name in names)

        for own in list(rest_a):
            same_a = [case for case in rest_a if key(case) == key(own)]
            same_b = [case for case in rest_b if key(case) == key(own)]
            if len(same_a) == 1 and len(same_b) == 1:
                pairs.append((own, same_b[0]))
                rest_a.remove(own)
                rest_b.remove(same_b[0])
    order = {id(case): place for place, case in enumerate(a)}
    return sorted(pairs, key=lambda pair: order[id(pair[0])]), rest_a, rest_b


def changed_settings(a, b):
    """Returns [(name, text in a, text in b)] of the settings that differ; a setting that one side
    does not have is an empty text, and no difference if the sides are different programs."""
    names = list(dict.fromkeys([*a.settings, *b.settings]))
    if a.settings.get("program", "").partition(" ")[0] != b.settings.get("program", "").partition(" ")[0]:
        names = [name for name in names if name in a.settings and name in b.settings]
    return [(name, a.settings.get(name, ""), b.settings.get(name, "")) for name in names
            if a.settings.get(name, "") != b.settings.get(name, "")]

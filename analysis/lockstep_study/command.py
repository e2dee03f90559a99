# SPDX-License-Identifier: BSD-3-Clause
"""The command of a point: its options, those after `--`, and those that the study gives."""

import re
from dataclasses import dataclass, field

from lockstep_study.points import ROOT, option_value

BATCH = ("--global-batch", "--batch-per-rank")  # one replaces the other


@dataclass
class Merged:
    """The words of a point with the further options. `unused`: further options that this command
    does not have; `replaced`: {option: words of the table that it replaces}."""

    words: list
    unused: list = field(default_factory=list)
    replaced: dict = field(default_factory=dict)


def groups(words):
    """Returns the words as lists: an option with its values; first those before the options."""
    found = [[]]
    for word in words:
        if word.startswith("--"):
            found.append([])
        found[-1].append(word)
    return found


def name_of(group):
    return group[0].partition("=")[0] if group else ""


def without(words, *options):
    """Returns the words without these options and their values."""
    return [word for group in groups(words) if name_of(group) not in options for word in group]


def merge(point, further, programs):
    """Returns the words of the point without the options that `further` contains, followed by
    `further` without the options that other commands have but this one has not. All of them are
    kept if the options are not known, because the program cannot run here."""
    has_letters = any(re.match("-[a-z]", word) for word in point.words)
    known = bool(further or has_letters) and programs.read_options(point.command)
    options = programs.options
    of_table, added_words = list(point.words), list(further)
    if not point.is_program:
        of_table, added_words = options.with_names(of_table), options.with_names(added_words)
    added, unused, replacing = [], [], {}
    for group in groups(added_words):
        name = name_of(group)
        if known and group and not options.uses(point.command, name):
            unused.append(name)
            continue
        added += group
        replacing.update(dict.fromkeys(BATCH if name in BATCH else (name,), group))
    merged = Merged([], unused)
    for group in groups(of_table):
        name = name_of(group)
        if name.startswith("--") and name in replacing:
            if group != replacing[name]:
                merged.replaced[" ".join(replacing[name])] = group
        else:
            merged.words += group
    merged.words += added
    return merged


@dataclass
class Commands:
    """Composes the commands of a study. `further`: the options after `--`."""

    programs: object
    directory: object
    further: list

    def merge(self, point):
        return merge(point, self.further, self.programs)

    def with_threads(self, point, threads):
        """Returns the commands of a point whose ranks have so many threads, unless the table or the
        user gives their number."""
        if option_value(self.merge(point).words, "--threads"):
            return self
        return Commands(self.programs, self.directory, [*self.further, "--threads", str(threads)])

    def full(self, point, repeat, file, directory=None):
        """Returns the command of a repeat of a point that writes the run file `file`. Trainings get
        the seed of the repeat; those of lockstep resume from their checkpoints in `directory`."""
        words = self.merge(point).words
        if point.is_program:
            start = [*self.programs.recording_python(), str(ROOT / words[0])]
            words = [*start, *words[1:], "--seed", str(repeat)]
        else:
            words = [self.programs.lockstep(), *words]
        if point.trains:
            checkpoints = f"{directory or self.directory}/checkpoints/{point.name}-{repeat}"
            words += ["--seed", str(repeat), "--checkpoint-dir", checkpoints, "--resume", "auto"]
        return [*words, "--output", str(file)]

# SPDX-License-Identifier: BSD-3-Clause
"""Checks all points of a study before the first one starts."""

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor

from lockstep_study.command import BATCH, groups, name_of, without
from lockstep_study.errors import StudyError, one_line
from lockstep_study.machine import can_start, processors
from lockstep_study.points import integer, option_value, refuse_given
from lockstep_study.programs import last_line
from lockstep_study.shell import command_line

USAGE, DATA = 2, 3  # exit statuses of lockstep
CHECK_LIMIT = 120  # seconds
MOST_NAMES = 4  # that a note lists
MOST_DIGITS = 9  # of a number that is checked here; lockstep reports larger ones
PIPELINE = ("--pipeline-stages", "--pipeline-schedule", "--stage-cuts")


def check_options(title, points, commands, notes):
    """Raises StudyError if a global batch is not a multiple of the ranks, if ranks are not a
    multiple of the pipeline stages, or if no point uses an option after `--`. A note says which
    options of the table are replaced. `title` names the table in messages."""
    for group in groups(commands.further):
        name = name_of(group)
        if name == "--dry-run":
            raise StudyError("give --dry-run before --; it is an option of the study")
        refuse_given(name)
    merged = [commands.merge(point) for point in points]
    for name in merged[0].unused:
        if all(name in one.unused for one in merged):
            raise StudyError(f"no point of {title} uses {name}; remove it")
    for point, one in zip(points, merged):
        check_batch(title, point, one.words)
        check_stages(title, point, one.words)
    note_replaced(points, merged, notes)


def check_batch(title, point, words):
    batch = number_of(words, "--global-batch")
    if batch % point.ranks:
        multiple = (batch // point.ranks + 1) * point.ranks
        raise StudyError(
            f"{title}: the global batch of '{point.name}', {batch}, is not a multiple of its"
            f" {point.ranks} ranks; use for example {multiple}"
        )


def check_stages(title, point, words):
    stages = number_of(words, "--pipeline-stages") or 1
    if point.ranks % stages:
        raise StudyError(
            f"{title}: the ranks of '{point.name}', {point.ranks}, are not a multiple of its"
            f" {stages} pipeline stages; use for example {stages}"
        )


def number_of(words, option):
    """Returns the value of an option; 0 without it, and for a value that lockstep reports."""
    return integer(option_value(words, option), MOST_DIGITS)


def note_replaced(points, merged, notes):
    """Says which options after `--` replace options of the table, one line for each pair."""
    names = {}
    for point, one in zip(points, merged):
        for new, old in one.replaced.items():
            names.setdefault((new, " ".join(old)), []).append(point.name)
    for (new, old), found in names.items():
        notes.say(f"{new} replaces {old} of {several(found)}")


def several(names):
    """Returns names as text: all of them, or the first ones and their number."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMES - 1])} and {len(names) - MOST_NAMES + 1} others"


def note_shared_processors(points, notes):
    """Says which points have more ranks than this machine has processors."""
    names = [point.name for point in points if point.ranks > processors()]
    if names:
        number = processors()
        present = "1 processor" if number == 1 else f"{number} processors"
        notes.say(
            f"{several(names)}: more ranks than the {present} of this machine, so their times and"
            " speedups do not describe the program"
        )


def rejected_points(points, commands, launch):
    """Returns {point: reason} for the points that lockstep rejects because of their data, such as a
    batch that exceeds the training images. `launch(ranks)` returns the command that starts ranks.
    Raises StudyError if it rejects the options of a point."""

    def check(point):
        words = commands.merge(point).words
        programs = commands.programs
        command = [*launch(point.ranks), programs.lockstep(), *words, "--dry-run"]
        environment = programs.environment_of(point.ranks)
        return programs.run(*command, env=environment, timeout=CHECK_LIMIT)

    checked = [point for point in points if not point.is_program and can_start(point.ranks)]
    with ThreadPoolExecutor(processors()) as pool:
        answers = list(pool.map(check, checked))
    rejected = {}
    for point, answer in zip(checked, answers):
        reason = reason_of(answer.stderr)
        if answer.returncode == USAGE:
            words = command_line(commands.merge(point).words)
            raise StudyError(f"{point.name} ({words}): {reason}")
        if answer.returncode == DATA:
            rejected[point] = reason
    return rejected


def check_without_ranks(points, commands, notes):
    """Returns {point: reason} for the points that lockstep rejects because of their data on one
    rank with the global batch of all of their ranks: their jobs would fail only after they have
    waited in the queue. Raises StudyError if it rejects the options of a point, or all points. A
    note says if the options were not checked."""
    not_checked, rejected = "the table has no command of lockstep", {}
    with tempfile.TemporaryDirectory() as folder:  # that of the results may not exist yet
        for point in points:
            words = on_one_rank(point, commands.merge(point).words)
            if words is None:
                continue
            not_checked, reason = check_on_one_rank(point, words, commands.programs, folder)
            if reason:
                rejected[point] = reason
            if not_checked:
                break
    if not_checked:
        notes.say(f"the options were not checked, because {not_checked}")
    if len(rejected) == len(points):
        raise StudyError(f"lockstep rejects the options of {points[0].name}: {rejected[points[0]]}")
    return rejected


def note_rejected(rejected, notes):
    """Says which points will not run, one line for each reason."""
    by_reason = {}
    for point, reason in rejected.items():
        by_reason.setdefault(reason, []).append(point.name)
    for reason, names in by_reason.items():
        notes.say(f"{several(names)} will not run: {reason}")


def on_one_rank(point, words):
    """Returns the words of a point with the global batch of all of its ranks, and without the
    options of a pipeline, which one rank cannot check; None for a Python program."""
    if point.is_program:
        return None
    if point.ranks == 1:
        return list(words)
    stages = number_of(words, "--pipeline-stages")
    if option_value(words, "--pipeline-stages") and not stages:
        return list(words)  # lockstep reports it
    of_one = without(words, *PIPELINE)
    batch = number_of(words, "--batch-per-rank")
    if not batch:
        return of_one
    replicas = point.ranks // (stages or 1)
    return [*without(of_one, *BATCH), "--global-batch", str(batch * replicas)]


def check_on_one_rank(point, words, programs, folder):
    """Returns why a point was not checked, and why lockstep rejects its data, or empty texts."""
    if programs.find(programs.lockstep()) is None:
        return "no lockstep program was found; set LOCKSTEP_BIN", ""
    if option_value(words, "--device") == "cuda":
        return "--device cuda needs a node with a GPU", ""
    words = [*words, "--output", f"{folder}/check.h5"]
    answer = programs.run(programs.lockstep(), *words, "--dry-run", timeout=CHECK_LIMIT)
    reason = reason_of(answer.stderr)
    if answer.returncode == USAGE:
        raise StudyError(f"lockstep rejects the options of {point.name}: {reason}")
    if answer.returncode == DATA:
        return "", reason
    if answer.returncode != 0 and point.ranks == 1:  # one rank may lack the memory for several
        return f"lockstep {point.command} --dry-run exited with status {answer.returncode}", ""
    return "", ""


def reason_of(text):
    """Returns why a command failed, from its output: the error message of lockstep; otherwise the
    first line in a box of mpirun, between lines of dashes, or the last line."""
    lines = [line for line in text.splitlines() if line.startswith("lockstep: ")]
    errors = [line for line in lines if not line.startswith("lockstep: warning: ")]
    if errors:
        return re.sub("^lockstep: (rank [0-9]+ on [^ ]+: )?", "", one_line(errors[0]))
    box = re.search("^-{20,}\n(.*[A-Za-z].*)$", text, re.M)
    return one_line(box[1].strip()) if box else last_line((lines or [text])[0])

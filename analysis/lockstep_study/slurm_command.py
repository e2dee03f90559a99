# SPDX-License-Identifier: BSD-3-Clause
"""The command submit, and those of the jobs that it submits."""

import os
import re
import shutil
from pathlib import Path

from lockstep_study import arguments, checks, task as tasks
from lockstep_study.command import Commands
from lockstep_study.durations import Estimator, Processors
from lockstep_study.errors import StudyError
from lockstep_study.points import ROOT
from lockstep_study.programs import Programs, last_line
from lockstep_study.runs import Comparison, Run, note_other_points, runs_of
from lockstep_study.shell import quoted
from lockstep_study.site import read_site
from lockstep_study.slurm import (
    LAUNCHERS,
    Slurm,
    check_image,
    container_command,
    describe_launcher,
    forget_outer_job,
    limit_seconds,
    present_launcher,
)
from lockstep_study.status import TABLE, store
from lockstep_study.study import read_study
from lockstep_study.submission import (
    Submission,
    complete_runs,
    prefix_of,
    refuse_second_submission,
)
from lockstep_study.table import read_table

BREAKS = ("--array", "--export", "--job-name", "--output", "--test-only", "--wait", "--wrap")
BREAKS_SHORT = ("-a", "-J", "-o", "-W")
MEMORY = ("--mem", "--mem-per-gpu", "--mem-per-cpu")  # sbatch accepts only one of them
CUDA_ADVICE = (
    "set LOCKSTEP_IMAGE to an image with CUDA (packaging/lockstep.def), or LOCKSTEP_BIN to a"
    " program that was built with CUDA (jobs/setup --cuda) and LOCKSTEP_MODULES to the modules of"
    " its libraries"
)


def submit(words, name, notes):
    """Submits a study, or prints the commands that would."""
    options = arguments.submit_parser(name).parse(words)
    forget_outer_job(os.environ)
    study = read_study(options)
    most_seconds = limit_seconds(options.time)
    if most_seconds <= options.grace:
        raise StudyError(
            f"--time {options.time} is not longer than the grace time of {options.grace} s: every"
            " task would be told to stop when it starts; use a longer --time or a shorter --grace"
        )
    site = read_site(options.site, options.gpu)
    scheduler = scheduler_of(options, study, site)
    commands = commands_of(options, study, site)
    checks.check_options(study.title, study.points, commands, notes)
    if not options.dry_run:
        check_queue(scheduler, study, options.repeats)
    complete = complete_of(study, options, site, scheduler, commands, notes)
    if len(complete) == len(study.points) * options.repeats:
        print(f"all points are complete; the results are in {study.directory}")
        return
    if options.gpu:
        check_gpu_program(commands.programs)
    rejected = checks.check_without_ranks(study.points, commands, notes)
    checks.note_rejected(rejected, notes)
    unable = runs_of(rejected, options.repeats, study.directory)
    left_out = [run for run in unable if run.name not in complete]
    if not options.dry_run:
        prepare(study, options)
        for run in left_out:
            run.mark_failed(rejected[run.point])
    submission = submission_of(study, options, site, scheduler, commands, notes)
    submitted = submission.submit(complete.union(run.name for run in left_out), most_seconds)
    if submitted is None:
        raise StudyError("all other points are complete; nothing was submitted")
    arrays, report = submitted
    if not options.dry_run:
        print(
            f"submitted the arrays {' '.join(arrays)}; job {report} writes {study.directory}/report"
            " after they have ended"
        )


def commands_of(options, study, site):
    """Returns the commands of the points in the environment of the site."""
    further = [*(["--device", "cuda"] if options.gpu else []), *options.further]
    programs = Programs(site.environment(), has_image=bool(os.environ.get("LOCKSTEP_IMAGE")))
    return Commands(programs, study.directory, further)


def scheduler_of(options, study, site):
    """Returns the scheduler for the jobs of a study. Raises StudyError for options that contradict
    each other or break its jobs."""
    launcher = options.launcher or present_launcher(os.environ)
    if launcher not in LAUNCHERS:
        raise StudyError(f"--launcher must be srun or mpirun, not {launcher}")
    account = options.account or os.environ.get("LOCKSTEP_ACCOUNT") or ""
    if site.needs_account and not account:
        raise StudyError(f"site {site.name} requires --account NAME (or LOCKSTEP_ACCOUNT)")
    directory = str(study.directory)
    if re.search(r"[\\\x00-\x1f\x7f]", directory):
        # sbatch replaces no % in names of files that contain a backslash.
        raise StudyError(
            f"--dir: the path {quoted(directory)} contains a backslash or a control character"
        )
    array_options = [word for text in options.sbatch for word in text.split()]
    if options.exclusive:
        array_options.insert(0, "--exclusive")
    if options.constraint:
        array_options.append(f"--constraint={options.constraint}")
    return Slurm(
        site=site,
        prefix=prefix_of(study.name, directory),
        logs=directory.replace("%", "%%") + "/logs",  # sbatch replaces % and a letter
        account=account,
        options=[
            f"{option}={value}"
            for option in ("--partition", "--qos", "--reservation", "--mail-type", "--mail-user")
            if (value := getattr(options, option[2:].replace("-", "_")))
        ],
        array_options=array_options,
        array_memory=memory_of(array_options, site),
        limit=options.time,
        at_once=options.at_once,
        launcher=launcher,
        grace=options.grace,
    )


def memory_of(array_options, site):
    """Returns the option for the memory of the arrays: none if the user gives one."""
    memory = [f"--mem-per-cpu={site.memory_per_core}"]
    for word in array_options:
        name = word.partition("=")[0]
        if not word.startswith("-"):
            raise StudyError(
                f"--sbatch: '{word}' is not an option of sbatch; write values as --name=value"
            )
        if name.startswith(BREAKS_SHORT) or name in BREAKS or name.startswith("--export"):
            raise StudyError(f"--sbatch: {name} would break the jobs of a study; remove it")
        if name.startswith("-M") or name == "--clusters":
            raise StudyError(
                f"--sbatch: {name} would hide the jobs from the other commands; use export"
                " SLURM_CLUSTERS=NAME instead"
            )
        if name.startswith("-t") or name in ("--time", "--signal"):
            raise StudyError(f"--sbatch: use --time LIMIT and --grace SECONDS instead of {name}")
        if name in MEMORY:
            memory = []
    return memory


def check_queue(scheduler, study, repeats):
    """Raises StudyError if the arrays would be too large, or if the study is in the queue."""
    tasks_of_study, largest = len(study.points) * repeats, scheduler.largest_index()
    if largest is not None and tasks_of_study > largest:
        raise StudyError(
            f"the study has {tasks_of_study} runs, but the largest array of this cluster has"
            f" {largest} tasks; split the table or reduce --repeats"
        )
    refuse_second_submission(scheduler, study.directory)


def complete_of(study, options, site, scheduler, commands, notes):
    """Returns the names of the complete runs."""
    launcher = describe_launcher(scheduler.launcher, site, os.environ)

    def comparison_of(point):
        as_task = commands.with_threads(point, site.cores_per_rank)
        return Comparison(as_task, launcher, notes)

    complete = complete_runs(study.points, options.repeats, study.directory, comparison_of)
    note_other_points(study.directory, study.points, notes)
    return complete


def check_gpu_program(programs):
    """Raises StudyError if no rank could use its GPU: the jobs would fail only after they have
    waited in the queue."""
    image = os.environ.get("LOCKSTEP_IMAGE")
    if image:
        check_image(image)
        return
    answer = programs.run(programs.lockstep(), "info")
    text = answer.stdout + answer.stderr
    if answer.returncode != 0:
        raise StudyError(
            f"--gpu: no lockstep program with CUDA runs here ({last_line(text)}); {CUDA_ADVICE}"
        )
    if "has no CUDA backend" in text:
        raise StudyError(f"--gpu: {programs.lockstep()} was built without CUDA; {CUDA_ADVICE}")


def prepare(study, options):
    """Creates the folders of the jobs, stores the table, and sets the grace time of lockstep."""
    (study.directory / "logs").mkdir(parents=True, exist_ok=True)
    store(study.directory, study.text, options.repeats)
    os.environ.setdefault("LOCKSTEP_GRACE", str(options.grace))


def submission_of(study, options, site, scheduler, commands, notes):
    root, table = str(ROOT), str(study.directory / TABLE)
    repeats, directory = str(options.repeats), str(study.directory)
    estimate = None
    if options.dry_run:
        estimator = Estimator(commands, Processors(per_rank=site.cores_per_rank))
        estimate = estimator.seconds
    return Submission(
        scheduler=scheduler,
        site=site,
        points=study.points,
        repeats=options.repeats,
        directory=study.directory,
        commands=commands,
        fixed=[root, site.name, site.gpu, scheduler.launcher, table, repeats, directory],
        report=[root, site.name, table, repeats, directory],
        notes=notes,
        estimate=estimate,
        further=tuple(commands.further),
    )


def task(words, name, notes):
    """Runs the array task of this job: SITE GPU LAUNCHER TABLE REPEATS DIR [options]."""
    site_name, gpu, launcher = words[:3]
    table, repeats, folder = words[3:6]
    further = words[6:]
    environment = dict(os.environ)
    for variable in ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CPUS_PER_TASK"):
        if not environment.get(variable, "").isdigit():
            raise StudyError(f"{variable} is not set; jobs/slurm/submit submits the tasks")
    points, directory = read_table(table), Path(folder)
    site = read_site(site_name, gpu)
    programs = Programs(environment, container_command(environment))
    commands = Commands(programs, directory, further)
    checks.check_options(table, points, commands, notes)
    index = int(environment["SLURM_ARRAY_TASK_ID"])
    point, repeat = tasks.point_and_repeat(points, int(repeats), index)
    own = commands.with_threads(point, environment["SLURM_CPUS_PER_TASK"])
    comparison = Comparison(own, describe_launcher(launcher, site, environment), notes)
    run = Run(point, repeat, directory)
    return tasks.Task(run, own, comparison, launcher, Slurm()).execute()


def report(words, name, notes):
    """Writes the report of a study after its arrays: TABLE REPEATS DIR."""
    table, repeats, folder = words
    environment = dict(os.environ)
    container = [] if tasks.is_in_container() else container_command(environment)
    programs = Programs(environment, container)
    tasks.report(read_table(table), int(repeats), Path(folder), programs)


def queue(notes):
    """Returns the scheduler, and the jobs in its queue or None if the queue cannot be read."""
    scheduler = Slurm()
    if shutil.which("squeue") is None:
        return scheduler, None
    try:
        return scheduler, scheduler.queue()
    except StudyError as error:
        notes.say(f"{error}; only the files in the folders are read")
        return scheduler, None

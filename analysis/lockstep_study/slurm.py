# SPDX-License-Identifier: BSD-3-Clause
"""Slurm: options of sbatch, the queue, the accounting, and the start of ranks in a job."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field

from lockstep_study.errors import StudyError
from lockstep_study.local import FORWARD_SIGNALS
from lockstep_study.programs import last_line
from lockstep_study.scheduler import Scheduler
from lockstep_study.site import SCRIPTS, Site
from lockstep_study.slurm_output import job_of_line, usage_of_rows

LAUNCHERS = ("srun", "mpirun")
# Variables of an outer job or job step, and defaults of the user or the site for options that the
# study gives, or that change the jobs or their ids.
FOREIGN = re.compile(
    "SLURM_.*|SLURMD_NODENAME|SBATCH_(CPU|MEM)_BIND.*|PMI_.*|PMIX_.*"
    "|SBATCH_(ARRAY_INX|JOB_NAME|TIMELIMIT|SIGNAL|OPEN_MODE|NO_REQUEUE|GET_USER_ENV|WAIT|BATCH)"
    "|SBATCH_(CONTAINER|DISTRIBUTION|HINT|OVERCOMMIT|(EXPORT|MEM_PER_|CPUS_PER_|GPU|GRES).*)"
)
# Variables that configure the commands of Slurm.
KEPT = re.compile("SLURM_CONF|SLURM_CLUSTERS|SLURM_JWT|SLURM_TIME_FORMAT|PMIX_MCA_.*")
# Seconds after which the daemons of mpirun end if a link is lost, instead of 8 minutes.
KEEPALIVE = {"time": "30", "intvl": "10", "probes": "3"}
UNLIMITED = 1 << 52  # seconds
JOINED = {"--constraint": "{2}=({0})&({1})", "--gres": "{2}={0},{1}"}  # of two options
ANSWER_LIMIT = 60  # seconds for a command that asks Slurm


def forget_outer_job(environment):
    """Removes the variables of the job in which this program runs: sbatch would pass them to the
    jobs, and srun there would take the outer job's memory, tasks and binding."""
    for name in list(environment):
        if FOREIGN.fullmatch(name) and not KEPT.fullmatch(name):
            del environment[name]


def without_filters(environment):
    """Returns the environment without filters of the user for squeue and sacct, which would hide
    jobs."""
    filters = ("SQUEUE_", "SACCT_")
    return {name: text for name, text in environment.items() if not name.startswith(filters)}


def limit_seconds(limit):
    """Returns a time limit in seconds. sbatch reads 0 as no limit, minutes[:seconds],
    hours:minutes:seconds and days-hours[:minutes[:seconds]]."""
    if not re.fullmatch(r"([0-9]+-)?[0-9]+(:[0-9]+){0,2}|UNLIMITED", limit):
        raise StudyError(f"--time '{limit}' is not a time limit such as 01:00:00 or 1-12:00:00")
    if limit == "UNLIMITED" or re.fullmatch("[0:-]+", limit):
        return UNLIMITED
    days, dash, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return 86400 * int(days or 0) + 3600 * hours + 60 * minutes + seconds


def present_launcher(environment):
    """Returns the launcher that works on this cluster: mpirun if srun was built without PMIx, which
    Open MPI needs, or without the interface LOCKSTEP_SRUN_MPI (pmi2 for MPICH and Intel MPI);
    otherwise srun. Without it, MPI_Init fails, or every process starts as a singleton."""
    interface = environment.get("LOCKSTEP_SRUN_MPI") or "pmix"
    try:
        answer = subprocess.run(
            ["srun", "--mpi=list"], env=environment, capture_output=True, text=True
        )
    except OSError:
        return "srun"
    types = re.findall(r"[\w.]+", answer.stdout + answer.stderr)
    return "mpirun" if answer.returncode == 0 and interface not in types else "srun"


def container_command(environment):
    """Returns the command that starts a program in the image LOCKSTEP_IMAGE with Apptainer or
    Singularity, with the GPUs of the job if it has any; empty without an image."""
    image = environment.get("LOCKSTEP_IMAGE")
    if not image:
        return []
    check_image(image)
    path = environment.get("PATH")
    engine = shutil.which("apptainer", path=path) or shutil.which("singularity", path=path)
    if not engine:
        raise StudyError(
            "LOCKSTEP_IMAGE is set, but neither apptainer nor singularity is installed"
        )
    flags = ["--nv"] if environment.get("SLURM_JOB_GPUS") else []
    return [engine, "exec", *flags, image]


def check_image(image):
    if not os.access(image, os.R_OK):
        raise StudyError(f"LOCKSTEP_IMAGE: cannot read {image}")


def describe_launcher(launcher, site, environment):
    """Returns how ranks start, as part of the experiment of a run."""
    text = f"{launcher}, site {site.name}"
    if site.gpu:
        text += f", GPU {site.gpu}"
    image = environment.get("LOCKSTEP_IMAGE")
    return text + (f", image {image}" if image else "")


def launch(launcher, ranks, cores, container, environment):
    """Returns the command that starts ranks in a job, each in a container of its own if there is
    one. --cpus-per-task is passed explicitly, because srun of Slurm 22.05 and newer does not take
    it from sbatch. mpirun binds no process: it would bind all threads of a rank to one core."""
    if launcher == "mpirun":
        return [FORWARD_SIGNALS, "mpirun", "-n", str(ranks), "--bind-to", "none", *container]
    interface = environment.get("LOCKSTEP_SRUN_MPI") or "pmix"
    options = ["--export=ALL", "--kill-on-bad-exit=1", f"--ntasks={ranks}"]
    return ["srun", f"--mpi={interface}", *options, f"--cpus-per-task={cores}", *container]


def keepalive(environment):
    """Returns the variables with which mpirun and its daemons end a minute after a link between
    hosts is lost; those in `environment` have precedence."""
    names = {
        f"{prefix}_MCA_oob_tcp_keepalive_{name}": seconds
        for prefix in ("OMPI", "PRTE")  # Open MPI 4 and 5
        for name, seconds in KEEPALIVE.items()
    }
    return {name: environment.get(name) or seconds for name, seconds in names.items()}


def joined(*options):
    """Returns options of sbatch, with those that the site and the user both give as one: of two,
    sbatch takes the last one, and the jobs would have no GPU, or another one."""
    found = []
    for option in options:
        name, _, value = option.partition("=")
        first = next((place for place, old in enumerate(found) if old.startswith(f"{name}=")), None)
        if first is None or name not in JOINED:
            found.append(option)
        else:
            found[first] = JOINED[name].format(found[first].partition("=")[2], value, name)
    return found


@dataclass
class Slurm(Scheduler):
    """The jobs of a study. `prefix`: of their names; `logs`: folder of their logs; `options`: of
    the user, for all jobs, and `array_options`, for the arrays alone."""

    site: Site = None
    prefix: str = ""
    logs: str = ""
    account: str = ""
    options: list = field(default_factory=list)
    array_options: list = field(default_factory=list)
    array_memory: list = field(default_factory=list)
    limit: str = "01:00:00"
    at_once: int = 4
    launcher: str = "srun"
    grace: int = 120

    def array_command(self, array):
        # srun passes the signal to the ranks; mpirun is not a job step, therefore the batch script
        # receives the signal and forwards it.
        target = "TERM" if self.launcher == "srun" else "B:TERM"
        return [
            *("sbatch", "--parsable", f"--job-name={self.prefix}-n{array.ranks}"),
            f"--array={array.indices}%{self.at_once}",
            f"--time={self.limit}",
            f"--nodes={array.nodes}",
            f"--ntasks={array.ranks}",
            f"--ntasks-per-node={array.per_node}",
            f"--cpus-per-task={array.threads}",
            *self.array_memory,
            *("--export=ALL", "--requeue", "--open-mode=append"),
            f"--signal={target}@{self.grace}",
            f"--output={self.logs}/%A_%a.log",
            *self.account_option(),
            *joined(
                *self.site.options,
                *self.site.gpu_options(array.per_node),
                *self.options,
                *self.array_options,
            ),
            str(SCRIPTS / "task.sbatch"),
            *array.arguments,
        ]

    def report_command(self, after, arguments):
        return [
            *("sbatch", "--parsable", f"--job-name={self.prefix}-report"),
            f"--dependency=afterany:{':'.join(after)}",
            *("--time=01:00:00", "--nodes=1", "--ntasks=1", "--cpus-per-task=1"),
            f"--mem-per-cpu={self.site.memory_per_core}",
            *("--export=ALL", "--requeue", "--open-mode=append"),
            f"--output={self.logs}/report-%j.log",
            *self.account_option(),
            *self.site.options,
            *self.options,
            str(SCRIPTS / "report.sbatch"),
            *arguments,
        ]

    def account_option(self):
        return [f"--account={self.account}"] if self.account else []

    def job_of(self, answer):
        """The last line ID or ID;CLUSTER, as of --parsable, the number after the word `job`, or the
        last number: a wrapper of sbatch may print other lines."""
        found = (
            re.findall(r"^ *([0-9]+)(?:;.*)?$", answer, re.M)
            or re.findall("job ([0-9]+)", answer)
            or re.findall("[0-9]+", answer.partition(";")[0])
        )
        return found[-1] if found else ""

    def queue(self):
        # Names contain no blanks, reasons may.
        text = output_of("squeue", "--noheader", "--array", "--format=%i %T %j %r")
        return [job_of_line(line) for line in text.splitlines()]

    def largest_index(self):
        try:
            text = output_of("scontrol", "show", "config")
        except StudyError:
            raise StudyError("scontrol failed; is this a login node of the cluster?") from None
        found = re.search(r"^MaxArraySize *= *([0-9]+)$", text, re.M)
        return int(found[1]) - 1 if found else None

    def usage(self, identifiers):
        if not identifiers:
            return {}
        command = ["sacct", "--noheader", "--parsable2", f"--jobs={','.join(identifiers)}"]
        try:
            text = output_of(*command, "--format=JobID,State,ElapsedRaw,MaxRSS")
        except StudyError:  # there may be no accounting
            return {}
        return usage_of_rows(text)

    def state(self, identifier):
        try:
            job = output_of("scontrol", "--oneliner", "show", "job", identifier)
        except StudyError:
            job = ""
        return (re.findall(r" JobState=([A-Z_]*)", job) or ["unknown"])[-1]

    def requeue(self, identifier):
        answer = subprocess.run(
            ["scontrol", "requeue", identifier], stdin=subprocess.DEVNULL, capture_output=True
        )
        if answer.returncode != 0:
            text = last_line(answer.stderr.decode(errors="replace"))
            raise StudyError(f"Slurm refuses to requeue the job ({text})")


def output_of(*command):
    """Returns the output of a command of Slurm. Raises StudyError with its message if it fails."""
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_LIMIT,
            env=without_filters(os.environ),
        )
    except OSError as error:
        raise StudyError(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise StudyError(f"{command[0]} does not answer within {ANSWER_LIMIT} s") from None
    if answer.returncode != 0:
        raise StudyError(f"{command[0]} failed ({last_line(answer.stderr)})")
    return answer.stdout

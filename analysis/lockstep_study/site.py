# SPDX-License-Identifier: BSD-3-Clause
"""The settings of a cluster, from the file jobs/slurm/sites/NAME.sh; generic.sh describes them."""

import os
import re
import subprocess
from dataclasses import dataclass

from lockstep_study.errors import StudyError
from lockstep_study.points import ROOT
from lockstep_study.programs import last_line

SCRIPTS = ROOT / "jobs" / "slurm"
READER = SCRIPTS / "site.sh"
SITES = SCRIPTS / "sites"
MARK = "lockstep-environment"  # site.sh prints it before the variables
# Kepler, Maxwell, Pascal and Volta; `check_supported` of src/backend/cuda/device refuses them.
OLD_GPU = re.compile(
    r"v100|[_-][kmp]\d|[_-]gp100|titan[xv]|titan[_-][xv]|gtx.*9\d0|gtx.*10\d0|[_-]10[678]0"
)
POSITIVE = r"[1-9][0-9]{0,3}"
SETTINGS = {  # name -> what it must match, and how a message calls that
    "needs_account": ("yes|no", "yes or no"),
    "ranks_per_node": (POSITIVE, "a positive integer"),
    "cores_per_rank": (POSITIVE, "a positive integer"),
    "memory_per_core": (r"[1-9][0-9]*[KMGT]?", "an amount such as 4G"),
    "site_environment": ("function", "a function"),
    "gpu_request": ("function|", "a function"),
}


@dataclass
class Site:
    """Settings for jobs on GPUs of the type `gpu`, or on CPUs if it is empty."""

    name: str
    gpu: str
    needs_account: bool
    ranks_per_node: int
    cores_per_rank: int
    memory_per_core: str
    options: list  # of sbatch

    def gpu_options(self, count):
        """Returns the options of sbatch that request GPUs on each node."""
        return read(self.name, self.gpu, "gpus", str(count)) if self.gpu else []

    def environment(self):
        """Returns the environment of programs at the site; that of this process if the site has
        another one only on its nodes."""
        answer = start(self.name, self.gpu, "environment")
        text = answer.stdout.rpartition(f"{MARK}\0")[2]
        if answer.returncode != 0 or not text:
            return dict(os.environ)
        return dict(line.partition("=")[::2] for line in text.split("\0") if "=" in line)


def read_site(name, gpu):
    """Returns the settings of a site. Raises StudyError if it is unknown, or one is invalid."""
    file = SITES / f"{name}.sh"
    if not re.fullmatch("[A-Za-z0-9_-]+", name) or not os.access(file, os.R_OK):
        known = " ".join(sorted(path.stem for path in SITES.glob("*.sh")))
        raise StudyError(f"unknown site '{name}'; the sites are: {known}")
    if not re.fullmatch("[A-Za-z0-9_-]*", gpu):
        raise StudyError(f"--gpu must be a type of GPU such as a100, not '{gpu}'")
    if OLD_GPU.search(f"-{gpu.lower()}"):
        raise StudyError(
            f"--gpu {gpu}: CUDA 13 and cuDNN 9 have no code for it; use a GPU of"
            " compute capability 7.5 (Turing) or newer"
        )
    checked = subprocess.run(["bash", "-n", file], capture_output=True, text=True)
    if checked.returncode != 0:
        first = checked.stderr.splitlines()[0]
        raise StudyError(f"the file of the site is invalid: {first}")
    *values, options = split(read(name, gpu, "settings"))
    settings = dict(zip(SETTINGS, values))
    for setting, (pattern, needed) in SETTINGS.items():
        value = settings.get(setting, "")
        if not re.fullmatch(pattern, value) or (gpu and setting == "gpu_request" and not value):
            raise StudyError(
                f"jobs/slurm/sites/{name}.sh: {setting} is '{value}', but must be {needed}; see"
                " jobs/slurm/sites/generic.sh"
            )
    return Site(
        name,
        gpu,
        settings["needs_account"] == "yes",
        int(settings["ranks_per_node"]),
        int(settings["cores_per_rank"]),
        settings["memory_per_core"],
        options,
    )


def split(words):
    """Returns the settings, and as the last element the list of the options."""
    return [*words[: len(SETTINGS)], words[len(SETTINGS) :]]


def read(name, gpu, *request):
    """Returns what the reader prints, as words."""
    answer = start(name, gpu, *request)
    if answer.returncode != 0:
        raise StudyError(last_line(answer.stderr) or f"jobs/slurm/sites/{name}.sh failed")
    return answer.stdout.rpartition(f"{MARK}\0")[2].split("\0")[:-1]


def start(name, gpu, *request):
    command = ["bash", READER, ROOT, name, gpu, *request]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="surrogateescape"
    )

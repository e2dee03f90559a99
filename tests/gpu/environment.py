"""Environment variables of the programs under test. PyTorch does not receive them: it must load its
own libraries, not those that were copied to the machine together with lockstep."""

import os
import pathlib
import subprocess

IGNORED = {"_", "SHLVL", "PWD", "OLDPWD"}
SECONDS = 90  # time limit of the shell script, which may unpack an archive

# Open MPI refuses to start as root without the first two variables.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}

# A GPU core dump without memory contents. CUDA before 13 reads the LIGHTWEIGHT variable, CUDA 13
# the flags. With skip_abort, the program ends with the same status as without a core dump.
CORE_DUMP = {
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1",
    "CUDA_COREDUMP_GENERATION_FLAGS": "skip_nonrelocated_elf_images,skip_global_memory,"
                                      "skip_shared_memory,skip_local_memory,skip_abort"}


def core_dump(folder):
    """Returns the variables that make the driver write a GPU core dump to `folder`. They slow the
    GPU down, so measurements of the throughput do not use them."""
    return CORE_DUMP | {"CUDA_COREDUMP_FILE": f"{folder}/gpu-core-%p"}


def cudnn_log(file):
    """Returns the variables that make cuDNN write its errors to `file`."""
    return {"CUDNN_LOGLEVEL_DBG": "1", "CUDNN_LOGDEST_DBG": str(file)}


def sourced(file):
    """Returns the variables that the shell script `file` sets or changes. The script runs in the
    parent folder of its folder (for .gpu/env.sh: the root of the project). Raises OSError."""
    path = pathlib.Path(file).resolve()
    if not path.is_file():
        raise OSError(f"--environment {file}: no such file")
    script = 'source "$0" >&2 && env -0'
    try:
        result = subprocess.run(["bash", "-c", script, str(path)], cwd=path.parent.parent,
                                capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise OSError(f"--environment {file}: not complete after {SECONDS} s") from None
    if result.returncode != 0:
        raise OSError(f"--environment {file}: exit status {result.returncode}: "
                      f"{result.stderr.strip()[-300:]}")
    pairs = (entry.split("=", 1) for entry in result.stdout.split("\0") if "=" in entry)
    return {name: value for name, value in pairs
            if name not in IGNORED and os.environ.get(name) != value}


def program_variables(file, library_paths):
    """Returns the variables of the programs under test: those of the script `file` (or None), with
    the folders `library_paths` at the start of LD_LIBRARY_PATH. Raises OSError."""
    variables = OPEN_MPI | (sourced(file) if file else {})
    if library_paths:
        present = variables.get("LD_LIBRARY_PATH", os.environ.get("LD_LIBRARY_PATH", ""))
        variables["LD_LIBRARY_PATH"] = ":".join([*library_paths, *filter(None, [present])])
    return variables

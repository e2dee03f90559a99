# SPDX-License-Identifier: BSD-3-Clause
"""Environment variables of the programs under test. PyTorch does not receive them."""

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


def nccl_log(prefix):
    """Returns the variables that make NCCL write its log to one file per rank (%p: process id)."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL,GRAPH,NET,REG,TUNING",
            "NCCL_DEBUG_FILE": f"{prefix}-nccl-%p.log"}

# SPDX-License-Identifier: BSD-3-Clause
"""Trains ResNet-18 on CIFAR-10 with DistributedDataParallel, one process per GPU or group of
processors, and records the run.

    PYTHONPATH=analysis torchrun --nproc_per_node 2 analysis/examples/pytorch_ddp.py --data
    cifar10:DIR --output run.h5

torchrun, mpirun or srun starts the processes. NCCL reduces the gradients of GPUs, Gloo those of
CPUs.
"""

import os
import zlib

import torch
import torch.distributed as dist
from pytorch_training import options, train
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

# The variables of torchrun, and those of mpirun (Open MPI) and srun with the same meaning.
LAUNCHERS = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"),
    "MASTER_ADDR": ("SLURM_LAUNCH_NODE_IPADDR",),
}
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


def set_ranks():
    """Sets the variables of torchrun if another program started the processes. Two jobs have
    different ports."""
    size = os.environ.get("OMPI_COMM_WORLD_SIZE")
    is_one_host = os.environ.get("SLURM_STEP_NUM_NODES") == "1"
    if size:
        is_one_host = os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") == size
    if is_one_host:  # the variable of Slurm is the host of srun
        os.environ.setdefault("MASTER_ADDR", ALONE["MASTER_ADDR"])
    for name, others in LAUNCHERS.items():
        found = [os.environ[other] for other in others if other in os.environ]
        os.environ.setdefault(name, found[0] if found else ALONE[name])
    job_of_open_mpi = os.environ.get("OMPI_MCA_ess_base_jobid")  # noqa: SIM112
    job = os.environ.get("SLURM_JOB_ID") or job_of_open_mpi or "0"
    os.environ.setdefault("MASTER_PORT", str(20000 + zlib.crc32(job.encode()) % 10000))


def main():
    args = options(__doc__)
    set_ranks()
    device, backend = torch.device("cpu"), "gloo"
    if args.device == "cuda":
        device, backend = torch.device("cuda", int(os.environ["LOCAL_RANK"])), "nccl"
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    # Each rank evaluates with its own running statistics of batch norm, as Lockstep with --bn
    # local.
    train(
        args,
        device,
        lambda network: DistributedDataParallel(
            network,
            device_ids=[device] if backend == "nccl" else None,
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
        ),
        lambda images: DistributedSampler(images, seed=args.seed, drop_last=True),
        dist.get_rank(),
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

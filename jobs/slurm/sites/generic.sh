# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154  # jobs/slurm/site.sh reads the variables
# Settings for a generic Slurm cluster. To describe your cluster, copy this file to NAME.sh, change the settings that differ,
# and submit with --site NAME. `gpu` contains the type of GPU of --gpu, or nothing for ranks on CPUs.

needs_account=no
ranks_per_node=4  # maximum; a job uses as few nodes as possible. With --gpu, the number of GPUs per node
cores_per_rank=4  # threads per rank
memory_per_core=4G
site_sbatch=()    # additional options of sbatch, e.g. --partition=cpu --constraint=icelake

# Sets the array gpu_sbatch: the options of sbatch that request $1 GPUs of the type `gpu` per node.
gpu_request() { gpu_sbatch=(--gres="gpu:$gpu:$1"); }

# Prepares the environment for lockstep, for example with `module load`; empty if a container has all libraries.
site_environment() { :; }

# shellcheck shell=bash disable=SC2034  # submit and task.sbatch read the variables
# Settings for a generic Slurm cluster. To describe your cluster, copy this file to NAME.sh, change the settings that differ,
# and submit with --site NAME.

needs_account=no
ranks_per_node=4  # maximum; a job uses as few nodes as possible
cores_per_rank=4  # threads per rank
memory_per_core=4G
site_sbatch=()    # additional options of sbatch, e.g. --partition=cpu --constraint=icelake

# Prepares the environment for lockstep, for example with `module load`; empty if a container has all libraries.
site_environment() { :; }

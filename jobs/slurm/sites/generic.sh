# shellcheck shell=bash disable=SC2034  # submit and task.sbatch read the variables
# Settings for a generic Slurm cluster. To describe your cluster, copy this file to NAME.sh, change the settings that differ,
# and submit with --site NAME.

needs_account=no
ranks_per_node=4  # maximum; a job uses as few nodes as possible
cores_per_rank=4  # threads per rank
memory_per_core=4G
site_sbatch=()    # additional options of sbatch, e.g. --partition=cpu --constraint=icelake

# Sets the command that starts the ranks. Debian and most sites build Open MPI with PMIx. If `srun --mpi=list` does not list
# pmix, every process starts as a singleton; lockstep detects this and exits with status 2. Use mpirun on such a cluster.
# --cpus-per-task is passed explicitly, because srun of Slurm 22.05 does not inherit it from sbatch.
launch() { # RANKS CORES: sets the array `launcher`
  launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$1" --cpus-per-task="$2")
}

# Prepares the environment for lockstep, for example with `module load`; empty if a container has all libraries.
site_environment() { :; }

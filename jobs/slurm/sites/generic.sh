# shellcheck shell=bash disable=SC2034  # read by submit and scaling.sbatch
# A Slurm cluster that is not described here: copy this file, change what differs, submit with --site NAME.

needs_account=no
ranks_per_node=4  # at most; fewer ranks take one node
cores_per_rank=4  # threads of a rank
memory_per_core=4G
site_sbatch=()    # further options of sbatch, e.g. --partition=cpu --constraint=icelake

# How ranks are started. PMIx is what Debian's and most sites' Open MPI is built for; where `srun --mpi=list` does not
# name it, N ranks start as N programs of one rank, which lockstep refuses with status 2. Use mpirun there.
# --cpus-per-task is passed on because srun of Slurm 22.05 does not inherit it.
launch() { # RANKS CORES: sets the array `launcher`
  launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$1" --cpus-per-task="$2")
}

# What must be loaded before lockstep runs: modules, or nothing where a container brings everything.
site_environment() { :; }

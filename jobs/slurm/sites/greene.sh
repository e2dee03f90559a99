# shellcheck shell=bash disable=SC2034  # read by submit and scaling.sbatch
# A cluster like NYU's Greene: Lmod, partitions chosen by Slurm, account optional. Written from its documentation; not
# run there yet.

needs_account=no
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=()
launch() { launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$1" --cpus-per-task="$2"); }

site_environment() {
  module purge
  module load "${LOCKSTEP_MODULES:-openmpi/gcc/4.1.6}"
}

# shellcheck shell=bash disable=SC2034  # submit and task.sbatch read the variables
# Settings for a cluster like Greene of NYU: software comes from Lmod modules, Slurm selects the partition, and the account is
# optional. These settings follow the documentation of the cluster; they have not been tested on it.

needs_account=no
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=()

site_environment() {
  module purge
  module load "${LOCKSTEP_MODULES:-openmpi/gcc/4.1.6}"
}

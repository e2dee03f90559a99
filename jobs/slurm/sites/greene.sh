# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154  # jobs/slurm/site.sh reads the variables
# Settings for a cluster like Greene of NYU. They follow its documentation and have not been tested on it:
# - software is in Lmod modules (LOCKSTEP_MODULES replaces the list), or in a Singularity image (LOCKSTEP_IMAGE);
# - Slurm selects the partition, and the account is optional;
# - GPUs are requested with --gres=gpu:TYPE:N. The types rtx8000, a100 and h100 are in the documentation of the cluster.
#   Its V100 are too old for the program (`read_site` in analysis/lockstep_study/site.py).
# Not verified: four GPUs per node for every type, the versions of the modules, and whether srun has PMIx.

needs_account=no
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=()

case $gpu in
  '') ;;
  rtx8000 | a100 | h100) ranks_per_node=4 ;;
  *) die "the site greene has no GPU '$gpu'; use rtx8000, a100 or h100" ;;
esac
gpu_request() { gpu_sbatch=(--gres="gpu:$gpu:$1"); }

site_environment() {
  local bindings=/scratch/work/public/singularity/greene-ib-slurm-bind.sh # binds InfiniBand and Slurm in the container
  if [ -n "${LOCKSTEP_IMAGE:-}" ]; then
    # shellcheck source=/dev/null
    [ ! -r "$bindings" ] || source "$bindings"
    return
  fi
  module purge
  # shellcheck disable=SC2086  # a list of modules
  module load ${LOCKSTEP_MODULES:-openmpi/gcc/4.1.6}
}

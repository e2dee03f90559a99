# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154  # jobs/slurm/site.sh reads the variables
# Settings for a cluster like Torch of NYU. They follow its documentation and have not been tested on it:
# - the account is mandatory, no partition may be given, and --comment requests preemptible resources;
# - software is in Apptainer images (LOCKSTEP_IMAGE);
# - GPUs are requested with --gres=gpu:N --constraint=TYPE: h200 (8 per node), h100, a100 and l40s (4 per node);
# - jobs with low GPU utilisation are cancelled (h200: below 60 %), therefore jobs with ranks on CPUs request no GPUs.
# Not verified: the constraints h100 and a100, and whether srun has PMIx.

needs_account=yes
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=(--comment="preemption=yes;requeue=true")

case $gpu in
  '' | h200) ;;
  h100 | a100 | l40s) ranks_per_node=4 ;;
  *) die "the site torch has no GPU '$gpu'; use h200, h100, a100 or l40s" ;;
esac
gpu_request() { gpu_sbatch=(--gres="gpu:$1" --constraint="$gpu"); }

site_environment() {
  export OMPI_MCA_btl_vader_single_copy_mechanism=none # in a container, a process may not read the memory of another
}

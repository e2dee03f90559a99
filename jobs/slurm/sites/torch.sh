# shellcheck shell=bash disable=SC2034  # submit and task.sbatch read the variables
# Settings for a cluster like Torch of NYU: the account is mandatory, no partition may be given, --comment requests preemptible
# resources, and the software is in containers. The cluster cancels jobs with low GPU utilisation; jobs with CPU ranks therefore
# request no GPUs. These settings follow the documentation of the cluster; they have not been tested on it.

needs_account=yes
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=(--comment="preemption=yes;requeue=true")

# If LOCKSTEP_IMAGE is the path of an Apptainer image with lockstep, every rank starts in a container of this image.
launch() { # LAUNCHER RANKS CORES
  [ "$1" = srun ] || die "the site torch needs --launcher srun"
  launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$2" --cpus-per-task="$3")
  if [ -n "${LOCKSTEP_IMAGE:-}" ]; then
    launcher+=(apptainer exec "$LOCKSTEP_IMAGE")
  fi
}

site_environment() {
  export OMPI_MCA_btl_vader_single_copy_mechanism=none # in a container, a process may not read the memory of another
}

# shellcheck shell=bash disable=SC2034  # read by submit and scaling.sbatch
# A cluster like NYU's Torch: the account is mandatory, partitions must not be named, preemption is asked for in the
# comment, containers bring the software. Written from its documentation; not run there yet.
# Jobs that hold GPUs and use them little are cancelled there: CPU ranks ask for none.

needs_account=yes
ranks_per_node=8
cores_per_rank=4
memory_per_core=4G
site_sbatch=(--comment="preemption=yes;requeue=true")

# With an Apptainer image that holds lockstep every rank starts in it.
launch() {
  launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$1" --cpus-per-task="$2")
  if [ -n "${LOCKSTEP_IMAGE:-}" ]; then
    launcher+=(apptainer exec "$LOCKSTEP_IMAGE")
  fi
}

site_environment() {
  export OMPI_MCA_btl_vader_single_copy_mechanism=none # a container may not read another process's memory
}

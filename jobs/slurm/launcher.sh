# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034  # task.sbatch reads the array launcher
# The launchers that start the ranks of a Slurm job. jobs/slurm/submit and task.sbatch source this file before they read the
# file of the site, which may replace `launch`.

# Prints the launcher that works on this cluster: mpirun if srun was built without PMIx, which Open MPI needs, or without the interface
# LOCKSTEP_SRUN_MPI (pmi2 for MPICH and Intel MPI); otherwise srun. Without it, MPI_Init fails, or every process starts as a singleton.
present_launcher() {
  local types
  if types=$(srun --mpi=list 2>&1) && ! grep -qw "${LOCKSTEP_SRUN_MPI:-pmix}" <<<"$types"; then
    echo mpirun
  else
    echo srun
  fi
}

# Sets the array `container`: the command that starts a program in the image LOCKSTEP_IMAGE with Apptainer or Singularity, with the
# GPUs of the job if it has any; empty if LOCKSTEP_IMAGE is not set.
container_command() {
  local engine
  container=()
  [ -n "${LOCKSTEP_IMAGE:-}" ] || return 0
  [ -r "$LOCKSTEP_IMAGE" ] || die "LOCKSTEP_IMAGE: cannot read $LOCKSTEP_IMAGE"
  engine=$(command -v apptainer || command -v singularity) ||
    die "LOCKSTEP_IMAGE is set, but neither apptainer nor singularity is installed"
  container=("$engine" exec)
  [ -z "${SLURM_JOB_GPUS:-}" ] || container+=(--nv)
  container+=("$LOCKSTEP_IMAGE")
}

# Prints how the launcher $1 starts ranks, as part of the experiment of a point.
# shellcheck disable=SC2154  # site.sh sets site and gpu
describe_launcher() { printf '%s\n' "$1, site $site${gpu:+, GPU $gpu}${LOCKSTEP_IMAGE:+, image $LOCKSTEP_IMAGE}"; }

# Exports the times in seconds after which the daemons of mpirun end if a link is lost; variables of the user have precedence.
keepalive() { # PREFIX OF THE VARIABLES
  local setting name
  for setting in time=30 intvl=10 probes=3; do
    name=$1_MCA_oob_tcp_keepalive_${setting%=*}
    export "$name=${!name:-${setting#*=}}"
  done
}

# Sets the array `launcher`: the command that starts $2 ranks with $3 cores each, with the launcher $1 (srun or mpirun).
# --cpus-per-task is passed explicitly, because srun of Slurm 22.05 does not inherit it from sbatch. mpirun binds no process,
# because it would bind all threads of a rank to one core. mpirun and its daemons end a minute after a link between hosts is lost;
# by default, Open MPI notices that only after 8 minutes. With LOCKSTEP_IMAGE, every rank starts in a container of its own.
launch() { # LAUNCHER RANKS CORES
  container_command
  case $1 in
    srun) launcher=(srun --mpi="${LOCKSTEP_SRUN_MPI:-pmix}" --export=ALL --kill-on-bad-exit=1 --ntasks="$2" --cpus-per-task="$3") ;;
    mpirun)
      keepalive OMPI # Open MPI 4
      keepalive PRTE # Open MPI 5
      launcher=("$root/jobs/forward-signals" mpirun -n "$2" --bind-to none)
      ;;
  esac
  launcher+=("${container[@]}")
}

# Prints the option --signal of sbatch for a signal $2 s before the time limit. srun passes the signal to the ranks; mpirun is not
# a job step, therefore the batch script receives the signal and forwards it.
signal_option() { # LAUNCHER SECONDS
  case $1 in
    srun) echo "--signal=TERM@$2" ;;
    mpirun) echo "--signal=B:TERM@$2" ;;
  esac
}

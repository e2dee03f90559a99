# shellcheck shell=bash disable=SC2034  # task.sbatch reads the array launcher
# The launchers that start the ranks of a Slurm job. jobs/slurm/submit and task.sbatch source this file before the file of the
# site, which may replace `launch`.

# Prints the launcher that works on this cluster: mpirun if srun was built without PMIx, otherwise srun. Without PMIx, MPI_Init
# fails under srun, or every process starts as a singleton.
present_launcher() {
  local types
  if types=$(srun --mpi=list 2>&1) && ! grep -qw pmix <<<"$types"; then
    echo mpirun
  else
    echo srun
  fi
}

# Sets the array `launcher`: the command that starts $2 ranks with $3 cores each, with the launcher $1 (srun or mpirun).
# --cpus-per-task is passed explicitly, because srun of Slurm 22.05 does not inherit it from sbatch. mpirun binds no process,
# because it would bind all threads of a rank to one core.
launch() { # LAUNCHER RANKS CORES
  case $1 in
    srun) launcher=(srun --mpi=pmix --kill-on-bad-exit=1 --ntasks="$2" --cpus-per-task="$3") ;;
    mpirun) launcher=("$root/jobs/forward-signals" mpirun -n "$2" --bind-to none) ;;
  esac
}

# Prints the option --signal of sbatch for a signal $2 s before the time limit. srun passes the signal to the ranks; mpirun is not
# a job step, therefore the batch script receives the signal and forwards it.
signal_option() { # LAUNCHER SECONDS
  case $1 in
    srun) echo "--signal=TERM@$2" ;;
    mpirun) echo "--signal=B:TERM@$2" ;;
  esac
}

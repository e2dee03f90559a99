#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# MPICH uses the algorithm of MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM for the first four calls only, if all ranks are on one host.
#
# Expected: MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring ("Force ring algorithm") applies to every MPI_Allreduce of the program.
# Seen: with 3 ranks on one host, the sums of calls 1 to 4 have the bits of the forced algorithm (ring, tree and recursive multiplying
# differ), and those of call 5 and later have the same bits for all three. From call 5 on, MPICH reduces in shared memory
# ("release gather", after MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD calls), whatever is forced. No message says so.
# MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=mpir in addition makes the forced algorithm apply to all calls. (MPICH 5.0.2 of PyPI.)
# Consequences: benchmarks that force algorithms on one host time the same algorithm under several names, except for the first four calls,
# which are often discarded as warm-up; set both variables.
#
# Needs: bash, a C compiler, Python 3 with pip and venv, 70 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/mpich"
"$work/mpich/bin/pip" install --quiet --disable-pip-version-check mpich==5.0.2

cat >"$work/sums.c" <<'C'
/* Prints a hash of the bits of the same sum over all ranks for each of eight calls. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { elements = 1000, calls = 8 };

int main(int argc, char** argv) {
  int rank;
  static float own[elements], sum[elements];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  srand(rank + 1);
  for (int i = 0; i < elements; ++i) own[i] = (float)rand() / 1e6F - 1000.0F;
  for (int call = 0; call < calls; ++call) {
    MPI_Allreduce(own, sum, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    uint32_t hash = 0, bits;
    for (int i = 0; i < elements; ++i) {
      memcpy(&bits, &sum[i], sizeof bits);
      hash = hash * 31 + bits;
    }
    if (rank == 0) printf("%08x%s", hash, call + 1 < calls ? " " : "\n");
  }
  MPI_Finalize();
}
C
"$work/mpich/bin/mpicc" -o "$work/sums" "$work/sums.c"
sums() { env "$@" "$work/mpich/bin/mpirun" -n 3 "$work/sums"; } # VARIABLE=VALUE...

echo "MPICH $("$work/mpich/bin/mpichversion" --version | awk '{ print $NF }'), bits of the sum for calls 1 to 8"
changed=no
declare -A first=() last=()
for algorithm in ring tree recursive_multiplying; do
  text=$(sums MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=$algorithm)
  printf '%-22s %s\n' "$algorithm" "$text"
  read -r -a bits <<<"$text"
  first[${bits[0]}]=1 last[${bits[4]}]=1
  [ "${bits[0]}" = "${bits[3]}" ] && [ "${bits[0]}" != "${bits[4]}" ] && [ "${bits[4]}" = "${bits[7]}" ] || changed=yes
  text=$(sums MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=$algorithm MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=mpir)
  printf '%-22s %s\n' "  and POSIX mpir" "$text"
  read -r -a both <<<"$text"
  [ "${both[0]}" = "${bits[0]}" ] && [ "${both[7]}" = "${bits[0]}" ] || changed=yes
done
if [ $changed = yes ] || [ ${#first[@]} -ne 3 ] || [ ${#last[@]} -ne 1 ]; then
  echo "the behaviour has changed"
  exit 1
fi

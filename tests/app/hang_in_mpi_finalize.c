// SPDX-License-Identifier: BSD-3-Clause
// Shared library for LD_PRELOAD in one rank: its MPI_Finalize never returns.

#include <unistd.h>

int MPI_Finalize(void) {
  for (;;) pause();
}

// SPDX-License-Identifier: BSD-3-Clause
// Shared library for LD_PRELOAD: an MPI library that changes its algorithm with the number of
// calls, as MPICH 5 does. From the fifth call on, the last bit of every sum of floating-point
// values differs, on all ranks alike.
#include <math.h>
#include <mpi.h>

static int reduce(const void* values, void* sums, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm communicator) {
  static int calls = 0;
  const int status = PMPI_Allreduce(values, sums, count, type, operation, communicator);
  if (operation != MPI_SUM || (type != MPI_FLOAT && type != MPI_DOUBLE) || ++calls < 5)
    return status;
  float* floats = sums;
  double* doubles = sums;
  for (int i = 0; i < count; ++i) {
    if (type == MPI_FLOAT) floats[i] = nextafterf(floats[i], INFINITY);
    if (type == MPI_DOUBLE) doubles[i] = nextafter(doubles[i], INFINITY);
  }
  return status;
}

int MPI_Allreduce(const void* values, void* sums, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm communicator) {
  return reduce(values, sums, count, type, operation, communicator);
}

int MPI_Iallreduce(const void* values, void* sums, int count, MPI_Datatype type, MPI_Op operation,
                   MPI_Comm communicator, MPI_Request* request) {
  *request = MPI_REQUEST_NULL;
  return reduce(values, sums, count, type, operation, communicator);
}

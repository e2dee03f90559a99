#pragma once

#include <mpi.h>

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Creates an all-reduce that calls MPI_Iallreduce on the whole float32 array: the algorithm of the
/// MPI library, for comparison.
std::unique_ptr<AllReduce> make_mpi_all_reduce(MPI_Comm comm, std::span<float> values);

}  // namespace lockstep::comm

#pragma once

#include <mpi.h>

#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// MPI_Iallreduce of the whole array in float32: the library's own way, to compare with.
std::unique_ptr<AllReduce> make_mpi_all_reduce(MPI_Comm comm, std::span<float> values);

}  // namespace lockstep::comm

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <span>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Create persistent requests on `comm` with tag `tag` (see Communicator::make_send). `data` has
/// less than 2 GiB.
std::unique_ptr<RepeatedMessage> make_persistent_send(MPI_Comm comm,
                                                      std::span<const std::byte> data,
                                                      int destination, int tag);
std::unique_ptr<RepeatedMessage> make_persistent_receive(MPI_Comm comm, std::span<std::byte> data,
                                                         int source, int tag);

}  // namespace lockstep::comm

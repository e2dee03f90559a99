#pragma once

#include <memory>
#include <string>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {

/// Creates a communicator of one rank, whose all-reduces leave the values unchanged.
/// `library_version`: the result of `Communicator::library_version`.
std::unique_ptr<Communicator> make_self_communicator(std::string library_version);

}  // namespace lockstep::comm

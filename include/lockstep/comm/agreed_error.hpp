// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "lockstep/core/error.hpp"

namespace lockstep::comm {

/// An error that is known to all ranks, so that every rank can stop on its own and none waits for
/// another. One rank reports it to the user.
class AgreedError : public core::Error {
 public:
  /// `reporter`: the rank that reports the error. `rank`: this rank.
  AgreedError(core::ExitStatus status, const std::string& message, int reporter, int rank)
      : core::Error(status, message), is_reporting_(reporter == rank) {}
  /// Returns whether this rank reports the error.
  bool is_reporting() const { return is_reporting_; }

 private:
  bool is_reporting_;
};

}  // namespace lockstep::comm

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lockstep/core/error.hpp"

namespace lockstep {

/// Runs `action` and fails the test unless it throws an `Expected` with the exit status `status`
/// whose message is a single line and contains all `parts`. Returns the message.
template <class Expected = core::Error, class Action>
std::string expect_error(core::ExitStatus status, const std::vector<std::string>& parts,
                         Action action) {
  try {
    action();
  } catch (const Expected& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.status(), status) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    }
    return message;
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace lockstep

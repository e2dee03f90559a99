// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <cstdlib>

#include "lockstep/comm/communicator.hpp"

namespace lockstep::comm {
namespace {

// A process group of one rank must end the ranks outside the group too.
TEST(SelfCommunicatorDeathTest, AbortTerminatesAllProcesses) {
  const auto terminate = [](int status) { std::_Exit(status + 1); };
  EXPECT_EXIT(make_self_communicator("none", terminate)->abort(70), testing::ExitedWithCode(71),
              "");
  EXPECT_EXIT(make_self_communicator("none", terminate)->split(0, 0)->abort(70),
              testing::ExitedWithCode(71), "");
  EXPECT_EXIT(make_self_communicator()->abort(70), testing::ExitedWithCode(70), "");
}

}  // namespace
}  // namespace lockstep::comm

// SPDX-License-Identifier: BSD-3-Clause
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

TEST(WithoutCuda, TransportsOfGpusAreRefused) {
  const auto world = make_world();
  const core::DeviceQueue gpu{.device = 0};
  for (const auto kind : {TransportKind::automatic, TransportKind::nccl, TransportKind::staged}) {
    try {
      make_gradient_transport(*world, gpu, {.kind = kind});
      ADD_FAILURE() << "was not refused";
    } catch (const core::Error& error) {
      EXPECT_EQ(error.status(), core::ExitStatus::usage);
      EXPECT_THAT(error.what(), testing::HasSubstr("made without CUDA"));
    }
  }
}

}  // namespace
}  // namespace lockstep::comm

// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "lockstep/comm/gradient_transport.hpp"
#include "lockstep/core/error.hpp"
#include "world.hpp"

namespace lockstep::comm {
namespace {

TEST(WithoutCuda, TransportsOfGpusAreRefused) {
  const auto world = make_world();
  const core::DeviceQueue gpu{.device = 0};
  for (const auto kind : {TransportKind::automatic, TransportKind::nccl, TransportKind::staged}) {
    expect_error(core::ExitStatus::usage, {"made without CUDA"},
                 [&] { make_gradient_transport(*world, gpu, {.kind = kind}); });
  }
}

}  // namespace
}  // namespace lockstep::comm

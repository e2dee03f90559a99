#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lockstep/core/error.hpp"
#include "lockstep/train/prediction_models.hpp"

namespace lockstep::train {

/// Expects that `action` throws an `Error` with this status and a message that contains `part`.
template <class Action>
void expect_error(core::ExitStatus status, const std::string& part, Action action) {
  try {
    action();
    ADD_FAILURE() << "no error about " << part;
  } catch (const core::Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
  }
}

/// Returns a GPU with 1 GFLOP/s and 1 GB/s that reaches its rates and has no overheads, so that a
/// byte takes a nanosecond.
inline GpuModel ideal_gpu() {
  GpuModel gpu;
  gpu.flops_per_second = 1e9;
  gpu.bytes_per_second = 1e9;
  gpu.multiprocessors = 1;
  return gpu;
}

}  // namespace lockstep::train

// SPDX-License-Identifier: BSD-3-Clause
#include "check.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

void check_cudnn(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> reason{};
  cudnnGetLastErrorString(reason.data(), reason.size());
  std::string text(reason.data());
  text = text.substr(0, text.find('\n'));
  const bool memory_is_full = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                              status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  core::fail(memory_is_full ? core::ExitStatus::out_of_memory : core::ExitStatus::internal,
             fmt::format("{} failed: {}{}{}", what, cudnnGetErrorString(status),
                         text.empty() ? "" : ": ", text));
}

}  // namespace lockstep::backend::cuda

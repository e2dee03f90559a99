// SPDX-License-Identifier: BSD-3-Clause
#include "refusal.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

std::string refusal_of(const std::string& message) {
  // cudnn-frontend reports a status of cuDNN or CUDA only as text (graph_helpers.h).
  constexpr std::array<std::string_view, 3> memory_is_full{
      "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
      "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", "failed with out of memory"};
  // The messages have many lines; the first one that contains "Reason" names the failed check.
  std::string text = message;
  if (const auto at = text.find("Reason: "); at != std::string::npos) text = text.substr(at + 8);
  text = text.substr(0, text.find('\n'));
  if (text.empty()) text = "cuDNN gives no reason";
  if (std::ranges::any_of(memory_is_full, [&](std::string_view status) {
        return message.find(status) != std::string::npos;
      })) {
    static_cast<void>(cudaGetLastError());  // clears the error, which the next launch would report
    core::fail(core::ExitStatus::out_of_memory,
               "cuDNN could not allocate memory, use a smaller --batch-per-rank: " + text);
  }
  return text;
}

}  // namespace lockstep::backend::cuda

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::record {

/// Non-owning view of a named float32 tensor; contiguous, last index fastest.
struct Tensor {
  std::string group;  ///< "state" (the network, with PyTorch's names) or "momentum"
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<float> values;
};

/// Integer attributes of the root: "step", "batches_tracked", "seed", ...
using Counters = std::vector<std::pair<std::string, std::int64_t>>;

/// Bytes of the longest text in a checkpoint.
inline constexpr std::size_t most_text_bytes = 16384;

/// Text attributes of the root that the digest covers: "run_id", "options".
using Texts = std::vector<std::pair<std::string, std::string>>;

/// All data of a checkpoint except its tensors.
struct CheckpointHeader {
  Counters counters;
  Texts texts;
};

}  // namespace lockstep::record

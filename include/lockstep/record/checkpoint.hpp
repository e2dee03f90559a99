// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/record/output_file.hpp"

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

/// Writes a checkpoint: the tensors as datasets /GROUP/NAME, `counters` and `texts` as attributes
/// of the root, and a digest of all of them. The data are written to a temporary file in the
/// directory of `path`, synced to disk, read back and verified; then the file is renamed to `path`.
/// An existing file at `path` is not changed before the rename, and not replaced if `mode` is
/// refuse. For each tensor "....running_mean"
/// of group "state", PyTorch's `num_batches_tracked` (an int64 scalar) is written with the value of
/// the counter "batches_tracked". Throws `Error` (output) if any of these operations fails.
void write_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                      const Counters& counters, const Texts& texts = {},
                      OverwriteMode mode = OverwriteMode::replace);

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "digest.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

/// Computes the digest of a checkpoint. It covers the counters, the texts, and then the
/// datasets with their names, types, shapes and values. Datasets must be added in the order of
/// their paths.
class CheckpointDigest {
 public:
  explicit CheckpointDigest(CheckpointHeader header);
  /// Adds a float32 tensor.
  void add(std::string_view group, std::string_view name, std::span<const std::int64_t> shape,
           std::span<const float> values);
  /// Adds an int64 scalar.
  void add(std::string_view group, std::string_view name, std::int64_t count);
  /// Returns the digest as 32 hexadecimal digits.
  std::string hex() const { return digest_.hex(); }

 private:
  Digest digest_;
};

struct LoadedCheckpoint {
  CheckpointHeader header;
  /// Values of the requested tensors, in the order of the request.
  std::vector<std::vector<float>> values;
  std::string digest;  ///< empty if the file has no digest
};

/// Reads the values of the tensors `wanted` into the result, without changing `wanted`. Throws the
/// same errors as `read_checkpoint`.
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, std::span<const Tensor> wanted,
                                 Verify verify);

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "digest.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

inline constexpr std::string_view checkpoint_format = "lockstep-checkpoint";
/// Version of the format that this program writes and reads.
inline constexpr std::int64_t checkpoint_version = 2;

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

}  // namespace lockstep::record

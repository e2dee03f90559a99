#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/digest.hpp"

namespace lockstep::record {

/// The digest of a checkpoint: over the counters, the texts (none in files of earlier versions),
/// then over the datasets in the order of their paths, each with its names, type, shape and values.
class CheckpointDigest {
 public:
  explicit CheckpointDigest(CheckpointHeader header);
  void add(std::string_view group, std::string_view name, std::span<const std::int64_t> shape,
           std::span<const float> values);
  void add(std::string_view group, std::string_view name, std::int64_t count);
  std::string hex() const { return digest_.hex(); }

 private:
  Digest digest_;
};

struct LoadedCheckpoint {
  CheckpointHeader header;
  std::vector<std::vector<float>> values;  ///< of the wanted tensors, in their order
  std::string digest;                      ///< empty where the file carries none
};

/// Reads a checkpoint without changing `wanted`; errors as `read_checkpoint`.
LoadedCheckpoint load_checkpoint(const std::filesystem::path& path, std::span<const Tensor> wanted,
                                 Verify verify);

/// Reads the attributes of a checkpoint without comparing its digest. Throws `Error` (input).
CheckpointHeader skim_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep::record

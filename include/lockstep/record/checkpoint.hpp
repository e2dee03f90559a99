#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::record {

/// A named float32 tensor in somebody else's memory, contiguous, last index fastest.
struct Tensor {
  std::string group;  ///< "state" (the network, PyTorch's names) or "momentum"
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<float> values;
};

using Counters =
    std::vector<std::pair<std::string, std::int64_t>>;  ///< "step", "batches_tracked", "seed", ...

/// Writes the tensors as datasets /GROUP/NAME and the counters as attributes of the root, with a
/// digest over all of it: into a temporary file beside `path`, synced, read back and verified, then
/// renamed. What stood at `path` stays until then. PyTorch's `num_batches_tracked` (int64 scalars
/// under /state) is written for each
/// "....running_mean" from the counter "batches_tracked". Throws `Error` (output).
void write_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                      const Counters& counters);

/// Whether a file must carry a digest that matches. One that carries a digest is always held to it.
enum class Verify {
  required,    ///< our own checkpoints
  if_present,  ///< files from elsewhere (`--init-from`) may have none
};

/// Fills `tensors` from the file and returns its counters. Throws `Error` (input) where the file is
/// missing, is not HDF5, lacks a tensor, holds one of another shape or type, or its digest does not
/// match; then nothing has been changed.
Counters read_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                         Verify verify);

/// DIR/checkpoint-STEP.h5
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::int64_t step);

/// The newest checkpoint of the directory whose digest holds, or nothing. Each one passed over is
/// named in a warning.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& directory);

/// Deletes all but the newest `keep` checkpoints of the directory, and temporary files that were
/// left behind.
void prune_checkpoints(const std::filesystem::path& directory, int keep);

}  // namespace lockstep::record

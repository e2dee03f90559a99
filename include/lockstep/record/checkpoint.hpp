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

/// Text attributes of the root that the digest covers: "run_id".
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Everything in a checkpoint but its tensors.
struct CheckpointHeader {
  Counters counters;
  Texts texts;  ///< empty in checkpoints of earlier versions
};

/// Writes the tensors as datasets /GROUP/NAME, the counters and texts as attributes of the
/// root, with a digest over all of it: into a temporary file beside `path`, synced, read back and
/// verified, then renamed. What stood at `path` stays until then. PyTorch's `num_batches_tracked`
/// (int64 scalars under /state) is written for each
/// "....running_mean" from the counter "batches_tracked". Throws `Error` (output).
void write_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                      const Counters& counters, const Texts& texts = {});

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

/// Reads the whole file, compares its digest and returns its header. Throws as `read_checkpoint`.
CheckpointHeader read_checkpoint_header(const std::filesystem::path& path);

/// DIR/checkpoint-STEP.h5
std::filesystem::path checkpoint_path(const std::filesystem::path& directory, std::int64_t step);

/// Returns the checkpoint of the directory that was written last and whose digest matches, or
/// nothing. The order is that of the counter "sequence", then of the steps. Each damaged one that
/// is passed over is named in a warning.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& directory);

/// Writes the checkpoints of one run into a directory and deletes old ones. Files that are damaged,
/// or that another run wrote, are neither counted nor deleted.
class CheckpointStore {
 public:
  /// `keep`: number of valid checkpoints of the run to keep, at least 1.
  CheckpointStore(std::filesystem::path directory, int keep, std::string run_id);

  /// Writes DIR/checkpoint-STEP.h5 with the additional counter "sequence", which is larger than in
  /// every other file of the directory, and the text "run_id". Only then deletes the run's oldest
  /// valid checkpoints beyond `keep`, in the order in which they were written, and temporary files
  /// of processes that ended. A file of another run with the same name is renamed and kept. Throws
  /// `Error` (output).
  void save(std::int64_t step, std::span<const Tensor> tensors, Counters counters);

 private:
  void prune();
  bool is_valid(const std::filesystem::path& path);

  std::filesystem::path directory_;
  std::size_t keep_;
  std::string run_id_;
  std::vector<std::filesystem::path> valid_;  ///< files whose digest was compared
};

}  // namespace lockstep::record

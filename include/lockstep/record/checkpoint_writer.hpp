// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <span>

#include "lockstep/record/checkpoint.hpp"
#include "lockstep/record/output_kind.hpp"

namespace lockstep::record {

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

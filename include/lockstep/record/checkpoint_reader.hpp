// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <span>

#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

/// Whether a file must have a digest. If a file has a digest, it is always verified.
enum class Verify {
  required,    ///< checkpoints that Lockstep writes
  if_present,  ///< files of other programs (`--init-from`), which may have no digest
};

/// Reads `tensors` from the file and returns its counters. Throws `Error` (input), without changing
/// any tensor, if the file is missing or not HDF5, if a tensor is missing or has a different shape
/// or type, or if the digest does not match.
Counters read_checkpoint(const std::filesystem::path& path, std::span<const Tensor> tensors,
                         Verify verify);

/// Reads the header without verifying the digest, which needs the whole file. Throws `Error`
/// (input) if the file cannot be read.
CheckpointHeader skim_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep::record

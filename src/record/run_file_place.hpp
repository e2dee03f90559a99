// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>

#include "lockstep/record/output_file.hpp"

// Where a run file may be written. All functions throw `Error` (output).
namespace lockstep::record {

/// Throws if there can be no file at `path`, or if a file exists there and `mode` does not permit
/// to replace it by one of this kind.
void refuse_existing(const std::filesystem::path& path, OverwriteMode mode, OutputKind kind);

/// Throws if another process writes the run file `path`, or may be writing it.
void refuse_if_written(const std::filesystem::path& path);

/// Renames the file `partial` that a run left when it ended early, so that it is kept. Deletes it
/// if it is empty, and the temporary files beside it. Throws if a process uses the file or the file
/// system has no locks.
void keep_stale(const std::filesystem::path& partial);

}  // namespace lockstep::record

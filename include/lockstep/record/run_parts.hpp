// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::record {

/// Run file of one part of a run. Each process that starts or resumes the run writes one part.
struct RunPart {
  std::filesystem::path path;
  std::int64_t part = 1;  ///< 1 for a new run; 2, 3, ... for the parts that resume it
};

/// Returns the run file that a process which resumes the run `run_id` must write. If `output`, or
/// the file `output`.partial of a killed process, belongs to this run, the result is the first
/// unused name of NAME.part2.EXTENSION, NAME.part3.EXTENSION, ... with a number of at least `part`,
/// and the existing files are not changed. Otherwise the result is `output`. Throws `Error`
/// (output) if another process uses `output`.partial of this run.
RunPart next_part(const std::filesystem::path& output, const std::string& run_id,
                  std::int64_t part);

/// Renames the run file `output` to the first unused name of OUTPUT.1, OUTPUT.2, ..., with a
/// warning, if its run failed or was preempted and had the same --checkpoint-dir. Does nothing to
/// other files. A run that starts again, because `checkpoint_dir` has no checkpoint, can then use
/// the name. Throws `Error` (output).
void keep_incomplete(const std::filesystem::path& output, const std::string& checkpoint_dir);

/// Returns the run_id of a finished or unfinished run file. Returns an empty text if the file does
/// not exist or is not a run file.
std::string run_id_of(const std::filesystem::path& path);

}  // namespace lockstep::record

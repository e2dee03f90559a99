#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::record {

/// The run file that one process of a run writes.
struct RunPart {
  std::filesystem::path path;
  std::int64_t part = 1;
};

/// Returns where a process that resumed the run `run_id` writes its part. If `output`, or the
/// `output`.partial that a killed process left, belongs to this run, that is the first free name of
/// NAME.part2.EXTENSION, NAME.part3.EXTENSION, ... from `part` on, and what exists stays untouched;
/// otherwise `output` itself. Throws `Error` (output) if a living process writes `output`.
RunPart next_part(const std::filesystem::path& output, const std::string& run_id,
                  std::int64_t part);

/// Returns the run_id of a run file, also of one that is not finished; empty if there is no such
/// file or it is not a run file.
std::string run_id_of(const std::filesystem::path& path);

}  // namespace lockstep::record

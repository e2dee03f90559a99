// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/run_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "files.hpp"
#include "hdf5_output.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

bool is_taken(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

/// Returns NAME.partK.EXTENSION with K = `part`.
fs::path part_path(const fs::path& output, std::int64_t part) {
  const std::string name =
      fmt::format("{}.part{}{}", output.stem().string(), part, output.extension().string());
  return fs::path(output).replace_filename(name);
}

/// Returns an attribute of a group of a run file; an empty text if there is none.
std::string attribute_of(const fs::path& path, const char* group, const char* name) {
  if (hdf5::text_attribute_of(path, "/", "format") != run_file_schema().format) return {};
  return hdf5::text_attribute_of(path, group, name);
}

}  // namespace

std::string run_id_of(const fs::path& path) { return attribute_of(path, "/", "run_id"); }

void keep_incomplete(const fs::path& output, const std::string& checkpoint_dir) {
  const std::string status = attribute_of(output, "/", "status");
  if (status != "failed" && status != "preempted") return;
  if (attribute_of(output, "/config", "checkpoint-dir") != checkpoint_dir) return;
  const fs::path kept = rename_numbered(output);
  core::log_warning(
      fmt::format("{} is from a run with status {}, which left no checkpoint; it was renamed to {}",
                  output.string(), status, kept.string()));
}

RunPart next_part(const fs::path& output, const std::string& run_id, std::int64_t part) {
  require_place(output);
  const bool is_unfinished = run_id_of(partial_path(output)) == run_id;
  if (is_unfinished && lock_if_stale(partial_path(output)).use == Use::in_use) {
    core::fail(core::ExitStatus::output,
               fmt::format("{} is being written or read by another process of the same run; wait "
                           "until that ends",
                           partial_path(output).string()));
  }
  if (!is_unfinished && run_id_of(output) != run_id) return {output, part};
  std::int64_t number = std::max<std::int64_t>(part, 2);
  while (is_taken(part_path(output, number)) || is_taken(partial_path(part_path(output, number)))) {
    ++number;
  }
  return {part_path(output, number), number};
}

}  // namespace lockstep::record

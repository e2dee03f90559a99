// SPDX-License-Identifier: BSD-3-Clause
#include "run_file_place.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "files.hpp"
#include "hdf5_output.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_in_use(const fs::path& partial, Use use) {
  const std::string run = hdf5::text_attribute_of(partial, "/", "run_id");
  const std::string name =
      partial.string() + (run.empty() ? "" : fmt::format(" of the run {}", run));
  core::fail(core::ExitStatus::output,
             use == Use::in_use
                 ? name + " is being written or read by another process; choose another name"
                 : name +
                       " exists, and its file system has no locks, so another process may be "
                       "writing it; if none is, rename or delete it");
}

}  // namespace

void refuse_if_written(const fs::path& path) {
  const Use use = lock_if_stale(partial_path(path)).use;
  if (use == Use::in_use || use == Use::unknown) refuse_in_use(partial_path(path), use);
}

void keep_stale(const fs::path& partial) {
  // The lock is held until the file has been renamed.
  const ExistingFile left = lock_if_stale(partial);
  if (left.use == Use::missing) return;
  if (left.use != Use::stale) refuse_in_use(partial, left.use);
  for (const fs::path& temporary : {creating_path(partial), finishing_path(partial)}) {
    std::error_code ignored;
    fs::remove(temporary, ignored);  // of the killed process
  }
  // An empty file: its process was killed, or lost the race for the lock, before it wrote anything.
  if (left.bytes == 0) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    return;
  }
  const fs::path kept = rename_numbered(partial);
  core::log_warning(fmt::format("{} is from a run that did not finish; it was renamed to {}",
                                partial.string(), kept.string()));
}

}  // namespace lockstep::record

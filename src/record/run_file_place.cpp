#include "run_file_place.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_in_use(const fs::path& partial, Use use) {
  core::fail(
      core::ExitStatus::output,
      use == Use::in_use
          ? fmt::format("{} is being written or read by another process; choose another name",
                        partial.string())
          : fmt::format("{} exists, and its file system has no locks, so another process "
                        "may be writing it; if none is, rename or delete it",
                        partial.string()));
}

void refuse_if_written(const fs::path& path) {
  const Use use = lock_if_stale(partial_path(path)).use;
  if (use == Use::in_use || use == Use::unknown) refuse_in_use(partial_path(path), use);
}

}  // namespace

void refuse_existing(const fs::path& path, OverwriteMode mode) {
  require_place(path);
  std::error_code error;
  // The target of a symbolic link is checked as well, because renaming would replace the link.
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    core::fail(core::ExitStatus::output,
               fmt::format("cannot write {} (it is not a regular file); choose another name",
                           path.string()));
  }
  if (mode == OverwriteMode::refuse && fs::exists(fs::symlink_status(path, error))) {
    core::fail(core::ExitStatus::output,
               fmt::format("{} exists; choose another name or add --overwrite", path.string()));
  }
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

void check_writable(const fs::path& path, OverwriteMode mode) {
  refuse_existing(path, mode);
  refuse_if_written(path);
  check_writable_beside(path);
}

void check_writable_beside(const fs::path& path) {
  refuse_existing(path, OverwriteMode::replace);
  const fs::path probe =
      parent_of(path) / fmt::format(".{}.probe-{}", path.filename().string(), ::getpid());
  const Descriptor file = create_in_use(probe);
  const std::string block(std::size_t{1} << 16, '\0');
  const auto written = ::write(file.get(), block.data(), block.size());
  const int error_number = written < 0 ? errno : ENOSPC;
  std::error_code ignored;
  fs::remove(probe, ignored);
  if (written != static_cast<ssize_t>(block.size())) {
    fail_output("writing in the directory of", path, error_number);
  }
}

}  // namespace lockstep::record

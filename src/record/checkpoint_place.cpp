// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint_place.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/core/trust.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& directory, const std::string& why) {
  core::fail(core::ExitStatus::output,
             fmt::format("--checkpoint-dir {} {}", directory.string(), why));
}

/// Returns host, process and job of this process.
std::string describe_process() {
  std::string text = fmt::format("process {} on {}", ::getpid(), core::host_name());
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"})
    if (const char* job = std::getenv(variable)) text += fmt::format(", job {}", job);
  return text;
}

/// Returns what the process that uses the directory has written about itself; may be empty.
std::string user_of(const fs::path& path) {
  std::string text;
  std::getline(std::ifstream(path), text);
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text.substr(0, 200);
}

}  // namespace

void create_checkpoint_directory(const fs::path& directory) {
  const std::error_code error = core::create_directories(directory, core::readable_directory);
  if (error)
    refuse(directory,
           fmt::format("cannot be made a directory ({}); name another one", error.message()));
}

CheckpointClaim::CheckpointClaim(const fs::path& directory) : path_(directory / ".lockstep-run") {
  ExistingFile file = lock_file(path_);
  const std::string user = user_of(path_);
  if (file.use == Use::in_use) {
    refuse(directory,
           fmt::format("is used by another run{}; wait until it ends, stop it, or name another "
                       "directory",
                       user.empty() ? "" : " (" + user + ")"));
  }
  if (file.use == Use::unknown) {
    core::log_warning(
        fmt::format("--checkpoint-dir {} cannot be locked, because its file system has no locks; "
                    "make sure that "
                    "no other run uses it{}",
                    directory.string(), user.empty() ? "" : ", in particular " + user));
  }
  lock_ = std::move(file.lock);
  const std::string text = describe_process() + "\n";
  // The text is only for messages, so errors are ignored.
  if (lock_ && ::ftruncate(lock_.get(), 0) == 0) {
    [[maybe_unused]] const auto written = ::write(lock_.get(), text.data(), text.size());
  }
}

CheckpointClaim::~CheckpointClaim() {
  if (lock_) ::unlink(path_.c_str());
}

void require_own_checkpoints(const fs::path& directory) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (fs::exists(status) && !fs::is_directory(status))
    refuse(directory, "is not a directory; name another one");
  const core::DirectoryRisk risk = core::directory_risk(directory);
  if (risk.is_high) {
    refuse(
        directory,
        fmt::format("is not used, because {}, and could replace the checkpoints; name a "
                    "directory of your own, or add --trust-checkpoint-dir to use it all the same",
                    risk.reason));
  }
  if (risk.reason.empty()) return;
  core::log_warning(
      fmt::format("--checkpoint-dir {}: {}, and could replace the checkpoints; if this is "
                  "intended, --trust-checkpoint-dir disables this warning",
                  directory.string(), risk.reason));
}

}  // namespace lockstep::record

#include "lockstep/record/checkpoint_place.hpp"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/core/trust.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& directory, const std::string& why) {
  core::fail(core::ExitStatus::output,
             fmt::format("--checkpoint-dir {} {}", directory.string(), why));
}

}  // namespace

void create_checkpoint_directory(const fs::path& directory) {
  const std::error_code error = core::create_directories(directory, core::readable_directory);
  if (error)
    refuse(directory,
           fmt::format("cannot be made a directory ({}); name another one", error.message()));
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

// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/checkpoint_directory.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "checkpoint_file.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/process/system.hpp"
#include "lockstep/core/trust.hpp"
#include "lockstep/record/checkpoint_reader.hpp"
#include "lockstep/record/checkpoint_writer.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view name_prefix = "checkpoint-";
constexpr std::string_view ending = ".h5";

bool is_temporary_checkpoint(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".checkpoint-") && name.ends_with(".tmp");
}

/// Returns STEP if `name` is "checkpoint-STEP.h5", otherwise nullopt.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(name_prefix) || !name.ends_with(ending)) return {};
  const char* end = name.data() + name.size() - ending.size();
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(name.data() + name_prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return {};
  return step;
}

/// Returns the files in a directory; an empty list if the directory is missing.
/// Throws `Error` (output) if reading it fails: a checkpoint that is saved without knowledge of the
/// others would count as older than they.
std::vector<fs::path> files_in(const fs::path& directory) {
  // std::filesystem::directory_iterator of GCC 12 ends the process if its memory allocation fails.
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(directory.c_str()), close);
  if (!open && errno == ENOMEM) throw std::bad_alloc();
  if (!open && errno != ENOENT && errno != ENOTDIR) fail_output("reading", directory, errno);
  std::vector<fs::path> files;
  errno = 0;
  while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") files.push_back(directory / name);
    errno = 0;
  }
  if (open && errno != 0) fail_output("reading", directory, errno);
  return files;
}

constexpr std::string_view sequence_name = "sequence";
constexpr std::string_view run_id_name = "run_id";

struct Checkpoint {
  fs::path path;
  std::int64_t step = 0;
  std::int64_t sequence = 0;
  std::string run_id;
  bool is_readable = false;  ///< whether the attributes can be read; the digest is not verified
};

template <class Pairs>
auto value_of(const Pairs& pairs, std::string_view name) {
  const auto at = std::find_if(pairs.begin(), pairs.end(),
                               [&](const auto& pair) { return pair.first == name; });
  return at == pairs.end() ? decltype(at->second){} : at->second;
}

Checkpoint describe(const fs::path& path, std::int64_t step) {
  Checkpoint checkpoint{.path = path, .step = step, .run_id = {}};
  try {
    const CheckpointHeader header = skim_checkpoint(path);
    checkpoint.sequence = value_of(header.counters, sequence_name);
    checkpoint.run_id = value_of(header.texts, run_id_name);
    checkpoint.is_readable = true;
  } catch (const core::Error&) {
    // The file is damaged. Loading it reports the reason.
  }
  return checkpoint;
}

/// Returns the checkpoints in a directory: first those that cannot be read, so that a search for
/// the newest valid one reports them, then the readable ones from the newest to the oldest.
std::vector<Checkpoint> checkpoints_in(const fs::path& directory) {
  std::vector<Checkpoint> found;
  for (const fs::path& file : files_in(directory)) {
    if (const auto step = step_of(file.filename().string())) found.push_back(describe(file, *step));
  }
  std::sort(found.begin(), found.end(), [](const Checkpoint& a, const Checkpoint& b) {
    return std::tuple(!a.is_readable, a.sequence, a.step) >
           std::tuple(!b.is_readable, b.sequence, b.step);
  });
  return found;
}

[[noreturn]] void refuse(const fs::path& directory, const std::string& why) {
  core::fail(core::ExitStatus::output,
             fmt::format("--checkpoint-dir {} {}", directory.string(), why));
}

/// Returns host, process and job of this process.
std::string process_and_job() {
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

bool has_checkpoint_name(const fs::path& path) {
  return step_of(path.filename().string()) || is_temporary_checkpoint(path);
}

fs::path checkpoint_path(const fs::path& directory, std::int64_t step) {
  return directory / fmt::format("{}{}{}", name_prefix, step, ending);
}

std::optional<fs::path> newest_checkpoint(const fs::path& directory, bool verify) {
  for (const Checkpoint& checkpoint : checkpoints_in(directory)) {
    try {
      if (verify) read_checkpoint(checkpoint.path, {}, Verify::required);
      return checkpoint.path;
    } catch (const core::Error& error) {
      core::log_warning(fmt::format("passed over: {}", error.what()));
    }
  }
  return {};
}

CheckpointStore::CheckpointStore(fs::path directory, int keep, std::string run_id,
                                 std::string options)
    : directory_(std::move(directory)),
      keep_(static_cast<std::size_t>(keep)),
      run_id_(std::move(run_id)),
      options_(std::move(options)) {
  core::check(keep > 0, "all checkpoints would be deleted");
}

void CheckpointStore::write(std::int64_t step, std::span<const Tensor> tensors, Counters counters) {
  const fs::path path = checkpoint_path(directory_, step);
  std::int64_t sequence = 0;
  OverwriteMode mode = OverwriteMode::refuse;
  for (const Checkpoint& other : checkpoints_in(directory_)) {
    sequence = std::max(sequence, other.sequence);
    if (other.path != path) continue;
    if (other.is_readable && other.run_id == run_id_) {
      mode = OverwriteMode::replace;
    } else {
      rename_numbered(path, "is not a checkpoint of this run");
    }
  }
  counters.emplace_back(sequence_name, sequence + 1);
  Texts texts{{std::string(run_id_name), run_id_}};
  if (!options_.empty() && options_.size() <= most_text_bytes) {
    texts.emplace_back("options", options_);
  }
  write_checkpoint(path, tensors, counters, texts, mode);
  std::erase(valid_, path);
  valid_.push_back(path);  // `write_checkpoint` has verified the digest
}

bool CheckpointStore::is_valid(const fs::path& path) {
  if (std::find(valid_.begin(), valid_.end(), path) != valid_.end()) return true;
  try {
    read_checkpoint(path, {}, Verify::required);
  } catch (const core::Error&) {
    return false;
  }
  valid_.push_back(path);
  return true;
}

void CheckpointStore::prune() {
  std::size_t kept = 0;
  for (const Checkpoint& checkpoint : checkpoints_in(directory_)) {
    if (checkpoint.run_id != run_id_ || !is_valid(checkpoint.path)) continue;
    if (++kept > keep_) delete_file(checkpoint.path);
  }
  for (const fs::path& file : files_in(directory_)) {
    if (!is_temporary_checkpoint(file)) continue;
    try {
      remove_if_stale(file);
    } catch (const core::Error& error) {
      core::log_warning(error.what());  // the checkpoint is saved
    }
  }
}

void create_checkpoint_directory(const fs::path& directory) {
  const std::error_code error = core::create_directories(directory, core::readable_directory);
  if (error)
    refuse(directory,
           fmt::format("cannot be made a directory ({}); name another one", error.message()));
}

CheckpointClaim::CheckpointClaim(const fs::path& directory) : path_(directory / ".lockstep-run") {
  ExistingFile file = lock_if_stale(path_, true);
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
                    "make sure that no other run uses it{}",
                    directory.string(), user.empty() ? "" : ", in particular " + user));
  }
  lock_ = std::move(file.lock);
  const std::string text = process_and_job() + "\n";
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

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "checkpoint_names.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/core/log.hpp"
#include "lockstep/record/checkpoint.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view prefix = "checkpoint-";
constexpr std::string_view ending = ".h5";

/// The step in "checkpoint-STEP.h5"; nothing for other names.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(prefix) || !name.ends_with(ending)) return {};
  const char* end = name.data() + name.size() - ending.size();
  std::int64_t step = 0;
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return {};
  return step;
}

/// The files of a directory; none where it is missing or cannot be read.
std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    files.push_back(at->path());
  }
  return files;
}

/// Newest first.
std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  for (const fs::path& file : files_in(directory)) {
    if (const auto step = step_of(file.filename().string())) found.emplace_back(*step, file);
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void delete_file(const fs::path& file) {
  std::error_code error;
  if (!fs::remove(file, error) && error) {
    core::log_warning(fmt::format("cannot delete {} ({})", file.string(), error.message()));
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& directory, std::int64_t step) {
  return directory / fmt::format("{}{}{}", prefix, step, ending);
}

std::optional<fs::path> newest_checkpoint(const fs::path& directory) {
  for (const fs::path& file : checkpoints_in(directory)) {
    try {
      read_checkpoint(file, {}, Verify::required);
      return file;
    } catch (const core::Error& error) {
      core::log_warning(fmt::format("passed over: {}", error.what()));
    }
  }
  return {};
}

void prune_checkpoints(const fs::path& directory, int keep) {
  core::check(keep > 0, "all checkpoints would be deleted");
  const std::vector<fs::path> checkpoints = checkpoints_in(directory);
  const auto kept = std::min(checkpoints.size(), static_cast<std::size_t>(keep));
  std::for_each(checkpoints.begin() + static_cast<std::ptrdiff_t>(kept), checkpoints.end(),
                delete_file);
  for (const fs::path& file : files_in(directory)) {
    if (is_temporary_checkpoint(file) && !in_use(file)) delete_file(file);
  }
}

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "checkpoint_names.hpp"
#include "files.hpp"
#include "hdf5_output.hpp"
#include "lockstep/core/error.hpp"
#include "run_file_place.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

std::string_view name_of(OutputKind kind) {
  switch (kind) {
    case OutputKind::run_file: return "run file";
    case OutputKind::trace: return "trace";
    case OutputKind::device_description: return "device description";
    case OutputKind::engine_log: return "engine log";
  }
  return {};
}

/// Texts that only files of a kind contain near their beginning.
constexpr std::array<std::pair<OutputKind, std::string_view>, 3> markers{
    {{OutputKind::trace, "\"traceEvents\""},
     {OutputKind::device_description, "\"multiProcessorCount\""},
     {OutputKind::engine_log, "{\"graph\":"}}};

/// Returns what a regular file contains, as a noun phrase; "" if it is empty.
std::string contents_of(const fs::path& path) {
  const std::string format = hdf5::text_attribute_of(path, "/", "format");
  if (format == run_file_schema().format) return std::string(name_of(OutputKind::run_file));
  if (format == checkpoint_format) return "checkpoint";
  std::string start(std::size_t{1} << 14, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  if (file.eof() && start.empty()) return "";
  if (start.starts_with("\x89HDF")) return "HDF5 file without the format of a run file";
  for (const auto& [kind, marker] : markers)
    if (start.starts_with('{') && start.find(marker) != std::string::npos)
      return std::string(name_of(kind));
  return "file of another kind";
}

/// Returns whether both paths name the same file, which need not exist.
bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return a.filename() == b.filename() && fs::equivalent(parent_of(a), parent_of(b), error);
}

/// Returns the names that are written for an output.
std::vector<fs::path> names_of(const OutputFile& output) {
  if (output.kind != OutputKind::run_file) return {output.path};
  const fs::path partial = partial_path(output.path);
  return {output.path, partial, creating_path(partial), finishing_path(partial)};
}

void refuse_if_same(const NamedFile& output, const std::vector<fs::path>& names,
                    const NamedFile& other, const std::vector<fs::path>& other_names) {
  for (const fs::path& name : names) {
    if (std::ranges::none_of(other_names, [&](const fs::path& b) { return is_same(name, b); }))
      continue;
    core::fail(core::ExitStatus::usage,
               fmt::format("{} and {} name the same file, {}; choose another name for one of them",
                           output.option, other.option, name.string()));
  }
}

/// Writes to a new file in the directory of `path` and deletes it.
void write_beside(const fs::path& path) {
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

}  // namespace

void require_distinct(std::span<const OutputFile> outputs, std::span<const NamedFile> inputs,
                      const fs::path& checkpoint_dir) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputFile& output = outputs[i];
    const std::vector<fs::path> names = names_of(output);
    for (const OutputFile& other : outputs.subspan(i + 1))
      refuse_if_same(output, names, other, names_of(other));
    for (const NamedFile& input : inputs) refuse_if_same(output, names, input, {input.path});
    std::error_code error;
    if (!checkpoint_dir.empty() && has_checkpoint_name(output.path) &&
        fs::equivalent(parent_of(output.path), checkpoint_dir, error)) {
      core::fail(core::ExitStatus::usage,
                 fmt::format("{} {} has the name of a checkpoint in --checkpoint-dir; choose "
                             "another name",
                             output.option, output.path.string()));
    }
  }
}

void require_kind(const fs::path& path, OutputKind kind) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  const std::string found = contents_of(path);
  if (found.empty() || found == name_of(kind)) return;
  core::fail(core::ExitStatus::output,
             fmt::format("{} exists and is no {} ({}), so it is not replaced; choose another name "
                         "or delete it",
                         path.string(), name_of(kind), found));
}

void refuse_existing(const fs::path& path, OverwriteMode mode, OutputKind kind) {
  require_place(path);
  std::error_code error;
  // The target of a symbolic link is checked as well, because renaming would replace the link.
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    core::fail(core::ExitStatus::output,
               fmt::format("cannot write {} (it is not a regular file); choose another name",
                           path.string()));
  }
  if (mode == OverwriteMode::replace) return require_kind(path, kind);
  if (fs::exists(fs::symlink_status(path, error))) {
    core::fail(core::ExitStatus::output,
               fmt::format("{} exists; choose another name or add --overwrite", path.string()));
  }
}

void check_writable(const fs::path& path, OverwriteMode mode, OutputKind kind) {
  refuse_existing(path, mode, kind);
  if (kind == OutputKind::run_file) refuse_if_written(path);
  write_beside(path);
}

void check_writable_beside(const fs::path& path) {
  refuse_existing(path, OverwriteMode::replace, OutputKind::run_file);
  write_beside(path);
}

void write_text(const fs::path& path, std::string_view text, OverwriteMode mode, OutputKind kind) {
  refuse_existing(path, mode, kind);
  const fs::path temporary = temporary_path(path);
  remove_if_stale(temporary);
  const Descriptor lock = create_in_use(temporary);
  try {
    write_all(lock, text, path);
    sync(temporary);
    rename_synced(temporary, path, mode);
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
}

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#include "lockstep/record/output_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>
#include <vector>

#include "checkpoint_file.hpp"
#include "files.hpp"
#include "lockstep/core/error.hpp"
#include "lockstep/record/checkpoint_directory.hpp"
#include "schema.hpp"

namespace lockstep::record {

namespace fs = std::filesystem;

namespace {

std::string name_of(OutputKind kind) {
  constexpr std::array names{"run file", "trace", "engine log"};
  return names.at(static_cast<std::size_t>(kind));
}

/// Texts that only files of a kind contain near their beginning.
constexpr std::array<std::pair<OutputKind, std::string_view>, 2> markers{
    {{OutputKind::trace, "\"traceEvents\""}, {OutputKind::engine_log, "{\"graph\":"}}};

/// Returns what a regular file contains, as a noun phrase; "" if it is empty.
std::string contents_of(const fs::path& path) {
  const std::string format = hdf5::text_attribute_of(path, "/", "format");
  if (format == run_file_schema().format) return name_of(OutputKind::run_file);
  if (format == checkpoint_format) return "checkpoint";
  std::string start(std::size_t{1} << 14, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  if (file.eof() && start.empty()) return "";
  if (start.starts_with("\x89HDF")) return "HDF5 file without the format of a run file";
  for (const auto& [kind, marker] : markers)
    if (start.starts_with('{') && start.find(marker) != std::string::npos) return name_of(kind);
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

/// Creates a file in the directory of `path`, deletes it and writes to it.
void write_beside(const fs::path& path) {
  const fs::path probe =
      parent_of(path) / fmt::format(".{}.probe-{}", path.filename().string(), ::getpid());
  const Descriptor file = create_in_use(probe);
  std::error_code ignored;
  fs::remove(probe, ignored);
  write_all(file, std::string(std::size_t{1} << 16, '\0'), path);
}

[[noreturn]] void refuse_in_use(const fs::path& partial, Use use) {
  const std::string run = run_id_of(partial);
  const std::string name =
      partial.string() + (run.empty() ? "" : fmt::format(" of the run {}", run));
  core::fail(core::ExitStatus::output,
             use == Use::in_use
                 ? name + " is being written or read by another process; choose another name"
                 : name +
                       " exists, and its file system has no locks, so another process may be "
                       "writing it; if none is, rename or delete it");
}

/// Throws if another process writes the run file `path`, or may be writing it.
void refuse_if_written(const fs::path& path) {
  const Use use = lock_if_stale(partial_path(path)).use;
  if (use == Use::in_use || use == Use::unknown) refuse_in_use(partial_path(path), use);
}

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
  if (mode == OverwriteMode::replace) return require_kind(path, kind);
  if (is_taken(path)) {
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
  write_and_rename(path, mode, [&](const fs::path& temporary, const Descriptor& file) {
    write_all(file, text, path);
    sync(temporary);
  });
}

void keep_stale(const fs::path& partial) {
  // The lock is held until the file has been renamed.
  const ExistingFile left = lock_if_stale(partial);
  if (left.use == Use::missing) return;
  if (left.use != Use::stale) refuse_in_use(partial, left.use);
  std::error_code ignored;
  for (const fs::path& temporary : {creating_path(partial), finishing_path(partial)}) {
    fs::remove(temporary, ignored);  // of the killed process
  }
  // An empty file: its process was killed, or lost the race for the lock, before it wrote anything.
  if (fs::is_empty(partial, ignored)) {
    fs::remove(partial, ignored);
  } else {
    rename_numbered(partial, "is from a run that did not finish");
  }
}

std::string run_id_of(const fs::path& path) { return attribute_of(path, "/", "run_id"); }

void keep_incomplete(const fs::path& output, const std::string& checkpoint_dir) {
  const std::string status = attribute_of(output, "/", "status");
  if (status != "failed" && status != "preempted") return;
  if (attribute_of(output, "/config", "checkpoint-dir") != checkpoint_dir) return;
  rename_numbered(output,
                  fmt::format("is from a run with status {}, which left no checkpoint", status));
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

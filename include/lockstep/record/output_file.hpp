// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

// Where the program may write a file. No output replaces a file of another kind, another output, or
// an input.
namespace lockstep::record {

/// Contents of the files that options name as outputs.
enum class OutputKind { run_file, trace, device_description, engine_log };

/// Handling of an existing file: report an error, or replace it if it is of the same kind.
enum class OverwriteMode { refuse, replace };

/// A file that an option names.
struct NamedFile {
  std::string_view option;  ///< for example "--output"
  std::filesystem::path path;
};
struct OutputFile : NamedFile {
  OutputKind kind = OutputKind::run_file;
};

/// Throws `Error` (usage) if two outputs are the same file, if an output is an input or has the
/// name of a checkpoint in `checkpoint_dir`. The temporary names of a run file count as its own.
/// Files are compared by identity, not by name.
void require_distinct(std::span<const OutputFile> outputs, std::span<const NamedFile> inputs,
                      const std::filesystem::path& checkpoint_dir);

/// Checks, before the run starts, whether the output can be written. Throws `Error` (output) if its
/// directory does not exist or cannot be written, if the file exists and `mode` is refuse or it is
/// of another kind, or if another process writes this run file. Leaves no file behind.
void check_writable(const std::filesystem::path& path, OverwriteMode mode,
                    OutputKind kind = OutputKind::run_file);

/// The same check for the run file of a resumed run, which may write its part to another file in
/// the directory of `path` (see `next_part`). An existing run file at `path` is not an error.
void check_writable_beside(const std::filesystem::path& path);

/// Writes a text file. It is written under another name and then renamed, so a failure does not
/// change an existing file. Throws `Error` (output) on failure, and as `check_writable`.
void write_text(const std::filesystem::path& path, std::string_view text, OverwriteMode mode,
                OutputKind kind);

/// Throws `Error` (output) if a file exists at `path` that is neither empty nor of this kind.
void require_kind(const std::filesystem::path& path, OutputKind kind);

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/record/output_kind.hpp"

// Where the program may write a file. No output replaces a file of another kind, another output, or
// an input.
namespace lockstep::record {

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

/// Run file of one part of a run. Each process that starts or resumes the run writes one part.
struct RunPart {
  std::filesystem::path path;
  std::int64_t part = 1;  ///< 1 for a new run; 2, 3, ... for the parts that resume it
};

/// Returns the run file that a process which resumes the run `run_id` must write. If `output`, or
/// the file `output`.partial of a killed process, belongs to this run, the result is the first
/// unused name of NAME.part2.EXTENSION, NAME.part3.EXTENSION, ... with a number of at least `part`,
/// and the existing files are not changed. Otherwise the result is `output`. Throws `Error`
/// (output) if another process uses `output`.partial of this run.
RunPart next_part(const std::filesystem::path& output, const std::string& run_id,
                  std::int64_t part);

/// Renames the run file `output` to the first unused name of OUTPUT.1, OUTPUT.2, ..., with a
/// warning, if its run failed or was preempted and had the same --checkpoint-dir. Does nothing to
/// other files. A run that starts again, because `checkpoint_dir` has no checkpoint, can then use
/// the name. Throws `Error` (output).
void keep_incomplete(const std::filesystem::path& output, const std::string& checkpoint_dir);

/// Returns the run_id of a finished or unfinished run file. Returns an empty text if the file does
/// not exist or is not a run file.
std::string run_id_of(const std::filesystem::path& path);

}  // namespace lockstep::record

// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <string_view>

namespace lockstep::core {

/// Returns what a file is, recognised by its first bytes, for messages about files of a wrong kind:
/// "a ZIP archive", "a Python pickle", "an HTML page", "a folder", "an empty file"; "a binary file
/// of an unknown format" if nothing fits, "no file" if it is missing or cannot be read. The kinds
/// are listed in analysis/lockstep_report/runfile/file_kinds.json, which the report reads too.
std::string_view file_kind(const std::filesystem::path& path);

/// Returns the kind of a file that begins with `head`.
std::string_view content_kind(std::string_view head);

/// Returns what to do about a file of this kind, whatever it was read for: "fetch its content: git
/// lfs pull". An empty text if this depends on the reader.
std::string_view advice_for_all_readers(std::string_view kind);

inline constexpr std::string_view unknown_kind = "a binary file of an unknown format";
inline constexpr std::string_view hdf5_kind = "an HDF5 file";

}  // namespace lockstep::core

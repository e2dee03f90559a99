#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "lockstep/core/handle.hpp"

// What HDF5 leaves to us: syncing, renaming without loss, and knowing whether a file is in use.
namespace lockstep::record {

struct DescriptorTraits {
  using type = int;
  static type null() noexcept { return -1; }
  static void close(type descriptor) noexcept;
};
using Descriptor = core::Handle<DescriptorTraits>;

/// "DOING PATH failed (REASON); ADVICE that fits the reason" as an `Error` (output).
[[noreturn]] void fail_output(const std::string& doing, const std::filesystem::path& path,
                              int error_number);
[[noreturn]] void fail_output(const std::string& doing, const std::filesystem::path& path,
                              const std::string& reason, int error_number);

/// The directory a file stands in: "." for a bare name.
std::filesystem::path parent_of(const std::filesystem::path& path);

/// Throws `Error` (output) unless the directory of `path` exists, and `path` is no directory.
void require_place(const std::filesystem::path& path);

/// Creates the file, which must not exist, opens it, and marks it as in use until the descriptor
/// closes. Throws `Error` (output).
Descriptor create_in_use(const std::filesystem::path& path);

/// Whether a living process marked the file as in use, or reads it. False where the file system
/// has no locks.
bool in_use(const std::filesystem::path& path);

/// Makes the file `bytes` longer on the disk, so that writing as much cannot meet a full disk
/// later. Throws `Error` (output) and leaves the file as it was where there is no room.
void reserve(const Descriptor& file, std::size_t bytes, const std::filesystem::path& path);

/// Waits until the file's (or directory's) content is on the disk. Throws `Error` (output).
void sync(const std::filesystem::path& path);

enum class Target { may_exist, must_not_exist };

/// Renames within one directory, and syncs the directory. Throws `Error` (output).
void rename_synced(const std::filesystem::path& from, const std::filesystem::path& to,
                   Target target);

}  // namespace lockstep::record
